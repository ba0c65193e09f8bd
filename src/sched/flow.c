/*
 * sched/flow.c: see flow.h.
 */
#include "sched/flow.h"

#include "base/raw.h"
#include "base/sys.h"
#include "coro/coro.h"
#include "sched/wait.h"

/* The flow that was entered last on a raw coroutine. */
struct note {
    const weft_coro *coro;
    uint64_t id; /* the coroutine's: if it was freed inside of the flow, its record may be another's now */
    struct wf_flow *flow;
    struct note *next;
};

static struct wf_lock lock;
static struct note *notes; /* guarded by: lock. atomic: an empty list is seen without it */

static bool is_base(const weft_coro *c)
{
    return wf_mode(c) & WF_BASE;
}

/* The place that points to the note of a raw coroutine, or to NULL. Called with the lock. */
static struct note **find_note(const weft_coro *c)
{
    struct note **p = &notes;
    while (*p && ((*p)->coro != c || (*p)->id != c->id))
        p = &(*p)->next;
    return p;
}

WF_COLD static struct wf_flow *noted(const weft_coro *c)
{
    wf_lock(&lock);
    const struct note *note = *find_note(c);
    struct wf_flow *flow = note ? note->flow : NULL;
    wf_unlock(&lock);
    return flow;
}

/* The flow that was entered last on this coroutine of the caller. c NULL: on the thread's own stack. */
static struct wf_flow *first_on(const struct wf_thread *t, const weft_coro *c)
{
    if (!c)
        return t->flow;
    if (is_base(c))
        return c->user;
    return wf_unlikely(wf_load(&notes)) ? noted(c) : NULL;
}

/* The innermost flow of the caller, down to its base coroutine, that `is` is true for, or NULL. */
static inline struct wf_flow *innermost(bool (*is)(const struct wf_flow *flow))
{
    const struct wf_thread *t = wf_thread_now();
    for (const weft_coro *c = t->current;; c = c->resumer) {
        struct wf_flow *flow = first_on(t, c);
        while (flow && !is(flow))
            flow = flow->outer;
        if (flow || !c || is_base(c))
            return flow;
    }
}

static bool is_running_task(const struct wf_flow *flow)
{
    return flow->task && !flow->unrun;
}

static bool is_task(const struct wf_flow *flow)
{
    return flow->task;
}

struct wf_flow *wf_flow_task(void)
{
    const weft_coro *c = wf_thread_now()->current;
    if (wf_likely(c && is_base(c) && !c->user)) /* most fibers */
        return NULL;
    return innermost(is_running_task);
}

struct weft_task *wf_flow_current(void)
{
    const struct wf_flow *flow = innermost(is_task);
    return flow ? flow->task : NULL;
}

struct weft_fiber *wf_flow_fiber(void)
{
    struct weft_fiber *f = wf_thread_now()->fiber;
    const struct wf_flow *flow = f ? wf_flow_task() : NULL;
    return flow && flow->suspends ? NULL : f;
}

struct wf_flow *wf_flow_find(bool (*see)(struct wf_flow *flow, const void *arg), const void *arg)
{
    const struct wf_thread *t = wf_thread_now();
    for (const weft_coro *c = t->current;; c = c->resumer) {
        for (struct wf_flow *flow = first_on(t, c); flow; flow = flow->outer) {
            if (see(flow, arg))
                return flow;
        }
        if (!c)
            return NULL;
    }
}

WF_COLD static void enter_raw(const weft_coro *c, struct wf_flow *flow)
{
    struct note *new = wf_sys_malloc(sizeof *new), *unused = new;
    wf_lock(&lock);
    struct note *note = *find_note(c);
    if (note) {
        flow->outer = note->flow;
        note->flow = flow;
    } else if (new) {
        flow->outer = NULL;
        *new = (struct note){c, c->id, flow, notes};
        wf_store(&notes, new);
        unused = NULL;
    }
    wf_unlock(&lock);
    wf_sys_free(unused);
}

WF_COLD static void leave_raw(const weft_coro *c, const struct wf_flow *flow)
{
    struct note *unused = NULL;
    wf_lock(&lock);
    struct note **p = find_note(c), *note = *p;
    if (note && note->flow == flow) { /* else there was no memory for it */
        note->flow = flow->outer;
        if (!note->flow) {
            unused = note;
            wf_store(p, note->next);
        }
    }
    wf_unlock(&lock);
    wf_sys_free(unused);
}

void wf_flow_enter(struct wf_flow *flow)
{
    struct wf_thread *t = wf_thread_now();
    weft_coro *c = t->current;
    if (wf_unlikely(c && !is_base(c))) {
        enter_raw(c, flow);
    } else {
        flow->outer = c ? c->user : t->flow;
        *(c ? &c->user : (void **)&t->flow) = flow;
    }
}

void wf_flow_leave(struct wf_flow *flow)
{
    struct wf_thread *t = wf_thread_now();
    weft_coro *c = t->current;
    if (wf_unlikely(c && !is_base(c)))
        leave_raw(c, flow);
    else
        *(c ? &c->user : (void **)&t->flow) = flow->outer;
}

static bool has(const struct wf_flow *flow, const struct weft_executor *executor)
{
    while (flow && flow->executor != executor)
        flow = flow->outer;
    return flow;
}

bool wf_flow_is_inside(const struct weft_executor *executor)
{
    const struct wf_thread *t = wf_thread_now();
    for (const weft_coro *c = t->current; c; c = c->resumer) {
        if (has(first_on(t, c), executor))
            return true;
        if (t->fiber && c == t->fiber->coro)
            return false; /* what is below is its worker, which goes on while it waits */
    }
    return has(t->flow, executor);
}

const void *wf_flow_identity(void)
{
    const struct wf_thread *t = wf_thread_now();
    const weft_coro *c = t->current;
    while (c && !is_base(c))
        c = c->resumer;
    return c ? (const void *)c : t;
}

void wf_flow_cancel(struct wf_flow *flow, const struct wf_cause *why)
{
    wf_lock(&flow->lock);
    if (flow->cause.kind == 0)
        flow->cause = *why;
    wf_store(&flow->cancelled, 1); /* last: a flow that sees the mark finds the cause under the lock */
    if (flow->sleeper && wf_settle_cancelled(flow->sleeper))
        wf_ready(flow->sleeper); /* with the lock: the sleeper lies on a stack */
    if (flow->wake)
        wf_raw_eventfd_write(flow->wake - 1, 1);
    wf_unlock(&flow->lock);
}

struct wf_cause wf_flow_cause(void)
{
    struct wf_cause why = {0};
    struct wf_flow *flow = wf_flow_task();
    if (!flow || !flow->suspends)
        return why;
    wf_lock(&flow->lock);
    why = flow->cause;
    wf_unlock(&flow->lock);
    return why;
}

struct wf_flow *wf_flow_cancellable(void)
{
    struct wf_flow *flow = wf_flow_task();
    return flow && flow->suspends && flow->deaf == 0 ? flow : NULL;
}

struct wf_deaf wf_deaf_begin(struct weft_fiber *f)
{
    struct wf_deaf deaf = {.fiber = f};
    if (f)
        deaf.was = wf_section_begin(f);
    else
        deaf.flow = wf_flow_cancellable();
    if (deaf.flow)
        deaf.flow->deaf++;
    return deaf;
}

void wf_deaf_end(const struct wf_deaf *deaf)
{
    if (deaf->flow)
        deaf->flow->deaf--;
    if (deaf->fiber)
        wf_section_end(deaf->fiber, deaf->was);
}

bool wf_flow_wait_begin(struct wf_flow *flow, struct wf_sleeper *sleeper)
{
    wf_lock(&flow->lock);
    bool may = !wf_flow_is_cancelled(flow); /* under the lock: a cancel that is not seen here sees the sleeper */
    if (may)
        flow->sleeper = sleeper;
    wf_unlock(&flow->lock);
    return may;
}

void wf_flow_wait_end(struct wf_flow *flow)
{
    wf_lock(&flow->lock);
    flow->sleeper = NULL;
    wf_unlock(&flow->lock);
}

bool wf_flow_poll_begin(struct wf_flow *flow, int wake)
{
    wf_lock(&flow->lock);
    bool may = !wf_flow_is_cancelled(flow);
    if (may)
        flow->wake = wake + 1;
    wf_unlock(&flow->lock);
    return may;
}

void wf_flow_poll_end(struct wf_flow *flow)
{
    wf_lock(&flow->lock);
    flow->wake = 0;
    wf_unlock(&flow->lock);
}

void wf_flow_fork_begin(void)
{
    wf_lock(&lock);
}

void wf_flow_fork_end(void)
{
    wf_unlock(&lock);
}
