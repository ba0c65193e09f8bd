/*
 * sched/flow.c: see flow.h.
 */
#include "sched/flow.h"

#include "base/raw.h"
#include "coro/coro.h"
#include "sched/wait.h"

struct weft_coro *wf_flow_base(const struct wf_thread *t)
{
    weft_coro *c = t->current;
    while (c && !(wf_mode(c) & WF_BASE))
        c = c->resumer;
    return c;
}

/* Where the innermost flow of the caller is noted. */
static void **slot_of(struct wf_thread *t)
{
    weft_coro *base = wf_flow_base(t);
    return base ? &base->user : (void **)&t->flow;
}

struct wf_flow *wf_flow_now(void)
{
    return *slot_of(wf_thread_now());
}

struct wf_flow *wf_flow_task(void)
{
    struct wf_flow *flow = wf_flow_now();
    while (flow && (!flow->task || flow->unrun))
        flow = flow->outer;
    return flow;
}

struct weft_task *wf_flow_current(void)
{
    const struct wf_flow *flow = wf_flow_now();
    while (flow && !flow->task)
        flow = flow->outer;
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
    const weft_coro *c = t->current;
    for (;;) {
        while (c && !(wf_mode(c) & WF_BASE))
            c = c->resumer;
        for (struct wf_flow *flow = c ? c->user : t->flow; flow; flow = flow->outer) {
            if (see(flow, arg))
                return flow;
        }
        if (!c)
            return NULL;
        c = c->resumer;
    }
}

void wf_flow_enter(struct wf_flow *flow)
{
    void **slot = slot_of(wf_thread_now());
    flow->outer = *slot;
    *slot = flow;
}

void wf_flow_leave(struct wf_flow *flow)
{
    *slot_of(wf_thread_now()) = flow->outer;
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
        if (!(wf_mode(c) & WF_BASE))
            continue;
        if (has(c->user, executor))
            return true;
        if (t->fiber && c == t->fiber->coro)
            return false; /* what is below is its worker, which goes on while it waits */
    }
    return has(t->flow, executor);
}

const void *wf_flow_identity(void)
{
    const struct wf_thread *t = wf_thread_now();
    const weft_coro *base = wf_flow_base(t);
    return base ? (const void *)base : t;
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
