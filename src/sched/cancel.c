/*
 * sched/cancel.c: weft_cancel and weft_cancel_cause. What a cancel does is in family.c and wait.c.
 */
#include "sched/cancel.h"

#include <string.h>

#include "base/errno.h"
#include "base/options.h"
#include "base/thread.h"
#include "sched/family.h"
#include "sched/flow.h"
#include "sched/slice.h"
#include "sched/wait.h"

#define FIRST_SIZE sizeof(weft_cause)

int weft_cancel(weft_fiber *f)
{
    wf_slice_here();
    if (!f)
        return -EINVAL;
    wf_debug_handle(__func__, f);
    wf_fork_look();
    if (wf_load(&f->state) == WEFT_FIBER_DONE)
        return -ESRCH;
    struct wf_cause why = wf_cause_here(WEFT_CAUSE_CALL, -ECANCELED, NULL);
    struct wf_later later = {0};
    wf_family_cancel(f, &why, &later);
    wf_later_here(&later);
    return 0;
}

struct wanted {
    uint64_t id;
    struct wf_cause why;
    struct wf_later *later;
};

static void cancel_if_it_is(weft_fiber *f, void *arg)
{
    const struct wanted *wanted = arg;
    if (wf_load_acquire(&f->sleeper.bits) & WF_KNOWN && /* pairs with wf_be_known: the id is this fiber's */
        wf_load(&f->id) == wanted->id)
        wf_family_cancel(f, &wanted->why, wanted->later);
}

void wf_cancel_if_alive(weft_fiber *f, uint64_t id, int kind, struct wf_later *later)
{
    struct wanted wanted = {id, {.kind = kind, .code = -ECANCELED}, later};
    wf_fork_look();
    wf_pool_look_at(f, cancel_if_it_is, &wanted);
}

const char *wf_cause_text(const struct wf_cause *why)
{
    static const char *const texts[] = {
        [WEFT_CAUSE_CALL] = "it was cancelled by a call",
        [WEFT_CAUSE_DEADLINE] = "the scope's deadline has passed",
        [WEFT_CAUSE_FAILURE] = "a child of the scope has failed",
        [WEFT_CAUSE_ENOUGH] = "the scope needs no more",
        [WEFT_CAUSE_SHUTDOWN] = "the scheduler stops",
        [WEFT_CAUSE_HANGUP] = "the peer has hung up",
    };
    if (why->text)
        return why->text;
    return why->kind > 0 && why->kind < (int)(sizeof texts / sizeof texts[0]) ? texts[why->kind] : "";
}

/* Reads the size that the caller gave, and writes the cause. */
static int write_cause(weft_cause *out, const struct wf_cause *why)
{
    size_t size = out->size == 0 ? FIRST_SIZE : out->size;
    if (size < FIRST_SIZE || size > WF_OPTIONS_MOST)
        return -EINVAL;
    weft_cause mine = {
        .size = size, .kind = why->kind, .code = why->code, .text = wf_cause_text(why), .fiber = why->fiber};
    memcpy(out, &mine, sizeof mine);
    if (size > sizeof mine)
        memset((char *)out + sizeof mine, 0, size - sizeof mine);
    return 0;
}

/* The outermost cause that counts for f, the calling fiber. */
static struct wf_cause cause_of(weft_fiber *f)
{
    struct wf_extra *x = wf_load_acquire(&f->extra); /* pairs with wf_extra */
    struct wf_cause why = {0};
    if (x)
        wf_lock(&x->lock);
    uint32_t bits = wf_load(&f->sleeper.bits);
    if (bits & WF_CANCEL_SELF) {
        why = wf_cause_of(x, bits);
    } else if (x) {
        for (const struct wf_scope *s = x->open; s; s = s->outer) {
            if (wf_scope_kind(s) != 0)
                why = wf_scope_cause(s);
        }
    }
    if (x)
        wf_unlock(&x->lock);
    return why;
}

int weft_cancel_cause(weft_cause *out)
{
    wf_slice_here();
    weft_fiber *f = wf_thread_now()->fiber;
    if (!out)
        return -EINVAL;
    struct wf_cause why = wf_flow_cause();
    if (why.kind == 0 && f)
        why = cause_of(f);
    return why.kind != 0 ? write_cause(out, &why) : -ENOENT;
}
