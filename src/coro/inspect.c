/*
 * coro/inspect.c: what one may ask of a coroutine. Changes nothing.
 */
#include "coro/coro.h"

#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "coro/copied.h"

weft_coro *weft_coro_current(void)
{
    weft_coro *c = wf_thread_now()->current;
    return c && !(wf_mode(c) & WF_BASE) ? c : NULL;
}

uint64_t weft_coro_id(const weft_coro *c)
{
    return c ? c->id : 0;
}

enum weft_coro_state weft_coro_state(const weft_coro *c)
{
    return c ? (enum weft_coro_state)(wf_mode(c) & WF_STATE) : WEFT_CORO_NONE;
}

const char *weft_coro_name(const weft_coro *c)
{
    return c && c->name ? c->name : "";
}

const char *wf_coro_quoted(const weft_coro *c, char *text, size_t room)
{
    text[0] = '\0';
    if (c->name && c->name[0])
        snprintf(text, room, " \"%.64s\"", c->name);
    return text;
}

void *weft_coro_user(const weft_coro *c)
{
    return c ? c->user : NULL;
}

size_t weft_coro_count(void)
{
    return (size_t)wf_thread_live();
}

void wf_coro_clean_stack(weft_coro *c)
{
    size_t page = wf_sys_page();
    char *low = wf_coro_low(c), *whole = (char *)((uintptr_t)c & ~(uintptr_t)(page - 1));
    if (wf_sys_discard(low, (size_t)(whole - low)) != 0) /* locked in memory */
        memset(low, 0, (size_t)(whole - low));
    wf_valgrind_writable(whole, (size_t)((char *)c - whole));
    memset(whole, 0, (size_t)((char *)c - whole)); /* the page that it shares with its record */
}

/* A page that was never touched reads as zeros and costs no memory to read. */
WF_RAW_MEMORY size_t weft_coro_stack_used(const weft_coro *c)
{
    if (!c)
        return 0;
    const char *high = wf_coro_high(c);
    if (c->shared)
        return wf_copied_used(c);
    const uint64_t *word = (const uint64_t *)wf_coro_low(c);
    wf_valgrind_defined(word, (size_t)(high - (const char *)word));
    while ((const char *)word < high && *word == 0)
        word++;
    return (size_t)(high - (const char *)word);
}
