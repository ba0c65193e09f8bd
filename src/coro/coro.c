/*
 * coro/coro.c: making, resetting and freeing raw coroutines. Any thread; see include/weft/coro.h for the rules.
 */
#include "coro/coro.h"

#include <errno.h>
#include <string.h>

#include "base/options.h"
#include "base/panic.h"
#include "base/sys.h"
#include "coro/copied.h"
#include "coro/cxx.h"
#include "coro/notes.h"
#include "coro/overflow.h"
#include "stack/cache.h"

/* What a size of 0 means, for ever; and what no later version will exceed: beyond it is garbage. */
#define FIRST_SIZE (offsetof(weft_coro_opts, flags) + sizeof(unsigned))
#define KNOWN_FLAGS (WEFT_FPENV | WEFT_CXX | WEFT_MEASURE)

/*
 * The thread ends. Coroutines that it has not left (pthread_exit inside of one) will never go on: they are DONE. A fiber
 * that it has not left is an error.
 */
static void leave_thread(struct wf_thread *t)
{
    wf_check_thread_end(t->current);
    for (weft_coro *c = t->current, *up; c; c = up) {
        up = c->resumer;
        if (c->shared) {
            wf_copied_rests(c, c->shared->occupant == c);
            wf_copied_unclaim(c->shared);
        }
        wf_set_mode(c, WEFT_CORO_DONE | (wf_mode(c) & WF_FOR_LIFE));
        wf_unclaim(c);
    }
    t->current = NULL;
    wf_overflow_leave(t);
    wf_stack_leave(t);
}

void wf_coro_enter_thread(struct wf_thread *t)
{
    int kept = errno;
    wf_thread_enter(t, leave_thread);
    wf_overflow_watch(t);
    t->expect = wf_expect(t->current);
    errno = kept;
}

/* A copy that has every field of this version: what the caller did not know of is zero. */
static int read_options(weft_coro_opts *mine, const weft_coro_opts *theirs)
{
    int rc = wf_options_read(mine, sizeof *mine, theirs, FIRST_SIZE);
    if (rc != 0)
        return rc;
    if (mine->flags & ~(unsigned)KNOWN_FLAGS || (mine->stack != 0 && mine->stack < WEFT_STACK_MIN))
        return -EINVAL;
    return mine->shared && mine->stack != 0 ? -EINVAL : 0;
}

static uint32_t mode_of(unsigned flags)
{
    return WEFT_CORO_READY | (flags & WEFT_FPENV ? WF_FP : 0) | (flags & WEFT_CXX ? WF_EH : 0);
}

/* What every coroutine begins its life with, but for stack and mode. */
static inline void begin(struct wf_thread *t, weft_coro *c, void *user, char *name)
{
    c->id = wf_thread_id(t);
    c->name = name;
    c->user = user;
    wf_note_new(c);
}

/* The fields that only some kinds have. */
static void begin_kept(weft_coro *c, uint32_t mode)
{
    if (mode & WF_FP)
        wf_fp_read(&c->fp);
    if (mode & WF_EH)
        c->eh = (struct wf_eh_globals){0};
}

static weft_coro *private_new(struct wf_thread *t, unsigned class)
{
    weft_coro *c = (weft_coro *)wf_stack_take(t, class);
    if (c) {
        c->class = class;
        c->shared = NULL;
    }
    return c;
}

static weft_coro *copied_new(weft_stacks *pool, uint32_t mode)
{
    size_t bytes = mode & (WF_FP | WF_EH) ? sizeof(weft_coro) : offsetof(weft_coro, eh);
    weft_coro *c = wf_sys_malloc(bytes);
    if (!c)
        return NULL;
    memset(c, 0, bytes);
    c->shared = wf_shared_assign(pool);
    return c;
}

static int name_copy(char **out, const char *name)
{
    *out = NULL;
    if (!name)
        return 0;
    size_t bytes = strlen(name) + 1;
    char *copy = wf_sys_malloc(bytes);
    if (!copy)
        return -ENOMEM;
    *out = memcpy(copy, name, bytes);
    return 0;
}

/* Everything but the plain case. */
WF_ENTRY static int new_general(weft_coro **out, weft_fn *fn, void *arg, const weft_coro_opts *given)
{
    struct wf_thread *t = &wf_thread_self;
    weft_coro_opts o = {0};
    char *name;
    int rc = !out || !fn ? -EINVAL : given ? read_options(&o, given) : 0;
    if (rc != 0)
        return rc;
    if (!t->entered)
        wf_coro_enter_thread(t);
    int class = o.stack != 0 ? wf_stack_class(o.stack) : 0;
    if (class < 0 || name_copy(&name, o.name) != 0)
        return -ENOMEM;

    uint32_t mode = mode_of(o.flags) | (o.shared ? WF_COPIED : 0);
    weft_coro *c = o.shared ? copied_new(o.shared, mode) : private_new(t, (unsigned)class);
    if (!c) {
        wf_sys_free(name);
        return -ENOMEM;
    }
    begin(t, c, o.user, name);
    wf_thread_count(t, 1);
    begin_kept(c, mode);
    if (o.shared) {
        wf_copied_start(c, fn, arg);
    } else {
        if (o.flags & WEFT_MEASURE)
            wf_coro_clean_stack(c);
        c->sp = wf_coro_frame(c, c, fn, arg);
    }
    wf_set_mode(c, mode);
    *out = c;
    return 0;
}

/* The plain case calls nothing: no options, and a stack and an id at hand. */
WF_ENTRY int weft_coro_new(weft_coro **out, weft_fn *fn, void *arg, const weft_coro_opts *opts)
{
    struct wf_thread *t = &wf_thread_self;
    if (wf_unlikely(!out || !fn || opts || !wf_stack_at_hand(t, 0) || !wf_thread_id_at_hand(t)))
        return new_general(out, fn, arg, opts);
    weft_coro *c = (weft_coro *)wf_stack_take_at_hand(t, 0);
    c->class = 0;
    c->shared = NULL;
    begin(t, c, NULL, NULL);
    wf_thread_count_listed(t, 1); /* one that has a cache is */
    c->sp = wf_coro_frame(c, c, fn, arg);
    wf_set_mode(c, WF_PLAIN_READY);
    *out = c;
    return 0;
}

int weft_coro_new_cxx(weft_coro **out, weft_fn *fn, void *arg, const weft_coro_opts *opts, void *(*eh_globals)(void))
{
    weft_coro_opts o = {0};
    if (opts) {
        int rc = read_options(&o, opts);
        if (rc != 0)
            return rc;
    }
    if (eh_globals)
        wf_eh_learn(eh_globals);
    o.size = sizeof o;
    o.flags |= WEFT_CXX;
    return weft_coro_new(out, fn, arg, &o);
}

WF_ENTRY int weft_coro_reset(weft_coro *c, weft_fn *fn, void *arg)
{
    struct wf_thread *t = &wf_thread_self;
    if (!c || !fn)
        return -EINVAL;
    if (!wf_claim(t, c))
        return -EBUSY;
    uint32_t mode = wf_mode(c);
    if ((mode & WF_STATE) != WEFT_CORO_DONE && ((mode & WF_STATE) != WEFT_CORO_READY || !wf_fresh(c))) {
        wf_unclaim(c);
        return -EBUSY;
    }
    wf_note_free(c);
    wf_note_new(c);
    c->id = wf_thread_id(t);
    begin_kept(c, mode);
    if (c->shared) {
        wf_copied_start(c, fn, arg);
    } else {
        wf_asan_unpoison(wf_coro_low(c), (size_t)(wf_coro_high(c) - wf_coro_low(c)));
        c->sp = wf_coro_frame(c, c, fn, arg);
    }
    wf_set_mode(c, WEFT_CORO_READY | (mode & WF_FOR_LIFE));
    wf_unclaim(c);
    return 0;
}

/* Everything but the plain case. */
WF_ENTRY static int free_general(weft_coro *c)
{
    struct wf_thread *t = &wf_thread_self;
    if (!c)
        return 0;
    uint32_t state = wf_mode(c) & WF_STATE;
    if (state == 0)
        wf_panic("weft_coro_free", "the coroutine at %p was freed before; free each one once", (void *)c);
    if (state == WEFT_CORO_RUNNING || !wf_claim(t, c))
        return -EBUSY;
    if (c->shared && !wf_copied_claim(t, c->shared)) {
        wf_unclaim(c);
        return -EBUSY;
    }
    if (!t->entered)
        wf_coro_enter_thread(t); /* what it keeps and counts must not be lost when it ends */
    wf_note_free(c);
    wf_thread_count(t, -1);
    wf_set_mode(c, WF_FREED);
    wf_sys_free(c->name);
    if (c->shared) {
        wf_copied_free(c);
        wf_copied_unclaim(c->shared);
        wf_shared_release(c->shared);
        wf_sys_free(c);
    } else {
        wf_stack_keep(t, c->class, (struct wf_idle *)c);
    }
    return 0;
}

/* READY or DONE, and nothing else: the two differ in one bit. */
static inline bool plain_and_idle(uint32_t mode)
{
    _Static_assert((WEFT_CORO_READY | WEFT_CORO_RUNNING) == WEFT_CORO_DONE, "the states' bits");
    return (mode | WEFT_CORO_RUNNING) == WEFT_CORO_DONE;
}

/* The plain case calls nothing: ended or never resumed, nothing to release but the stack, and room for that. */
WF_ENTRY int weft_coro_free(weft_coro *c)
{
    struct wf_thread *t = &wf_thread_self;
    if (wf_unlikely(WF_NOTED || !c || !plain_and_idle(wf_mode(c)) || c->name || !wf_stack_keeps_quietly(t)))
        return free_general(c);
    wf_thread_count_listed(t, -1);
    wf_set_mode(c, WF_FREED);
    wf_stack_keep_quietly(t, c->class, (struct wf_idle *)c);
    return 0;
}
