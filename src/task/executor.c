/*
 * task/executor.c: the calls of weft/executor.h that are the same for all executors; see executor.h. Any thread.
 *
 * No lock is held while a function of the table, or of the program, is called.
 */
#include "task/executor.h"

#include "base/errno.h"
#include "base/options.h"
#include "base/sys.h"
#include "coro/coro.h"
#include "sched/finish.h"
#include "sched/slice.h"
#include "task/task.h"

#define FIRST_SIZE sizeof(weft_executor_ops)
#define KNOWN_FLAGS WEFT_EXECUTOR_SERIAL

/* A plain function. */
struct call {
    struct wf_work work;
    struct wf_flow flow;
    uint32_t refs; /* atomic */
    void (*fn)(void *);
    void *arg;
};

static void let_go(weft_executor *x)
{
    if (wf_add(&x->refs, (uint32_t)-1) != 1) /* pairs with the others that let go */
        return;
    wf_executor_unlist(x);
    if (x->ops.free)
        x->ops.free(x->self);
    wf_sys_free(x);
}

int wf_executor_make(weft_executor **out, const weft_executor_ops *ops, void *self, bool has_threads)
{
    weft_executor *x = wf_sys_malloc(sizeof *x);
    if (!x) {
        if (ops->free)
            ops->free(self);
        return -ENOMEM;
    }
    *x = (weft_executor){.ops = *ops, .self = self, .has_threads = has_threads, .refs = 1, .forks = wf_forks};
    wf_executor_list(x);
    *out = x;
    return 0;
}

int weft_executor_new(weft_executor **out, const weft_executor_ops *ops, void *self)
{
    wf_slice_here();
    weft_executor_ops mine;
    if (!out || !ops || wf_options_read(&mine, sizeof mine, ops, FIRST_SIZE) != 0 || !mine.execute ||
        mine.flags & ~(unsigned)KNOWN_FLAGS)
        return -EINVAL;
    void (*release)(void *) = mine.free;
    mine.free = NULL; /* on failure self stays the caller's */
    weft_executor *x;
    int rc = wf_executor_make(&x, &mine, self, false);
    if (rc != 0)
        return rc;
    x->ops.free = release;
    *out = x;
    return 0;
}

const char *weft_executor_name(const weft_executor *x)
{
    return x && x->ops.name ? x->ops.name : "";
}

/* Closes the table if no work is left. Called with the lock, and releases it. */
static void close_table(weft_executor *x)
{
    bool mine = x->closed && !x->works && !x->table_closed;
    x->table_closed |= mine;
    wf_unlock(&x->lock);
    if (!mine)
        return;
    if (x->ops.close)
        x->ops.close(x->self);
    struct wf_waiter *won = NULL;
    wf_lock(&x->lock);
    x->over = true;
    for (struct wf_waiter *w; (w = wf_waiters_win_first(&x->joiners, 0)) != NULL;) {
        w->next = won;
        won = w;
    }
    wf_unlock(&x->lock);
    while (won) {
        struct wf_waiter *next = won->next; /* `won` is gone when its owner goes on */
        wf_ready(won->who);
        won = next;
    }
}

static void unlink_work(struct wf_work *work)
{
    *work->link = work->next;
    if (work->next)
        work->next->link = work->link;
}

/* A destructor of the program counts as a function of x: it may free x, on the thread that x has to wait for. */
static void let_go_inside(weft_executor *x, struct wf_work *work)
{
    struct wf_flow flow = {.executor = x};
    wf_flow_enter(&flow);
    work->kind->let_go(work);
    wf_flow_leave(&flow);
}

/* Called with the lock, and releases it. */
static void end_work(struct wf_work *work)
{
    weft_executor *x = work->on;
    unlink_work(work);
    close_table(x);
    if (work->kind->destroys)
        let_go_inside(x, work);
    else
        work->kind->let_go(work);
    let_go(x);
}

void wf_executor_over(struct wf_work *work)
{
    if (wf_executor_is_lost(work->on))
        return; /* its lock may be held by a thread that is in the parent */
    wf_lock(&work->on->lock);
    end_work(work);
}

/* The table calls a work for the first time. */
static void begin(void *arg)
{
    struct wf_work *work = arg;
    weft_executor *x = work->on;
    wf_lock(&x->lock);
    enum wf_work_state was = work->state;
    if (was == WF_WORK_QUEUED)
        work->state = WF_WORK_BEGUN;
    else if (was == WF_WORK_DROPPING)
        work->state = WF_WORK_CALLED;
    wf_unlock(&x->lock);
    if (was == WF_WORK_QUEUED)
        work->kind->run(work);
    else if (was == WF_WORK_DROPPED)
        wf_executor_over(work);
}

/* The table has refused a work. 0: a close has ended it meanwhile. */
static int refused(struct wf_work *work, int why)
{
    weft_executor *x = work->on;
    wf_lock(&x->lock);
    enum wf_work_state was = work->state;
    if (was == WF_WORK_DROPPING) {
        work->state = WF_WORK_CALLED; /* the thread that closes ends it */
        wf_unlock(&x->lock);
    } else {
        end_work(work);
    }
    return was == WF_WORK_QUEUED ? why : 0;
}

int wf_executor_begin(struct wf_work *work)
{
    weft_executor *x = work->on;
    if (wf_executor_is_lost(x))
        return -ESHUTDOWN;
    wf_lock(&x->lock);
    if (x->closed) {
        wf_unlock(&x->lock);
        return -ESHUTDOWN;
    }
    work->state = WF_WORK_QUEUED;
    work->next = x->works;
    work->link = &x->works;
    if (work->next)
        work->next->link = &work->next;
    x->works = work;
    wf_add(&x->refs, 1);
    wf_unlock(&x->lock);
    work->kind->hold(work); /* for the executor */
    int rc = x->ops.execute(x->self, begin, work);
    return rc < 0 ? refused(work, rc) : 0;
}

static void release_call(struct wf_work *work)
{
    struct call *c = (struct call *)work;
    if (wf_add(&c->refs, (uint32_t)-1) == 1) /* pairs with the others that let go */
        wf_sys_free(c);
}

static void hold_call(struct wf_work *work)
{
    wf_add(&((struct call *)work)->refs, 1);
}

static void release_step(void *arg)
{
    release_call(arg);
}

/* Whether a function that the caller calls may end the calling fiber, by weft_hook_end. */
static bool may_end_fiber(void)
{
    const struct wf_thread *t = wf_thread_now();
    return t->fiber && t->current == t->fiber->coro;
}

static void end_call(void *arg)
{
    struct call *c = arg;
    wf_flow_leave(&c->flow);
    wf_executor_over(&c->work);
}

static void run_call(struct wf_work *work)
{
    struct call *c = (struct call *)work;
    wf_flow_enter(&c->flow);
    if (may_end_fiber()) {
        struct wf_finish step;
        wf_finish_begin(&step, end_call, c);
        c->fn(c->arg);
        wf_finish_end(&step);
    } else {
        c->fn(c->arg);
        end_call(c);
    }
}

static void nothing(struct wf_work *work, struct wf_later *later)
{
    (void)work, (void)later;
}

int weft_executor_execute(weft_executor *x, void (*fn)(void *), void *arg)
{
    static const struct wf_work_kind kind = {.run = run_call,
                                             .drop = nothing,
                                             .cancel = nothing,
                                             .hold = hold_call,
                                             .let_go = release_call,
                                             .flow = offsetof(struct call, flow)};
    wf_slice_here();
    if (!x || !fn)
        return -EINVAL;
    struct call *c = wf_sys_malloc(sizeof *c);
    if (!c)
        return -ENOMEM;
    *c = (struct call){.work = {.kind = &kind, .on = x}, .flow = {.executor = x}, .refs = 1, .fn = fn, .arg = arg};
    struct wf_finish step;
    int rc;
    if (may_end_fiber()) {
        wf_finish_begin(&step, release_step, c);
        rc = wf_executor_begin(&c->work);
        wf_finish_end(&step);
    } else {
        rc = wf_executor_begin(&c->work);
        release_call(&c->work);
    }
    return rc;
}

/* Ends works that have not begun, and cancels works that have. The list holds a reference to each work. */
static void end_works(weft_executor *x, struct wf_work *first, struct wf_later *later)
{
    for (struct wf_work *work = first, *next; work; work = next) {
        next = work->next_closed;
        wf_lock(&x->lock);
        bool drops = work->state == WF_WORK_DROPPING || work->state == WF_WORK_CALLED;
        wf_unlock(&x->lock);
        if (drops) {
            work->kind->drop(work, later);
            wf_lock(&x->lock);
            bool called = work->state == WF_WORK_CALLED;
            work->state = WF_WORK_DROPPED;
            wf_unlock(&x->lock);
            if (called)
                wf_executor_over(work);
        } else {
            work->kind->cancel(work, later);
        }
        work->kind->let_go(work);
    }
}

/* Lists all works, oldest first, and holds each. Works that have not begun never will. Called with the lock. */
static struct wf_work *take_works(weft_executor *x)
{
    struct wf_work *first = NULL;
    for (struct wf_work *work = x->works; work; work = work->next) { /* the newest first */
        if (work->state == WF_WORK_QUEUED)
            work->state = WF_WORK_DROPPING;
        work->kind->hold(work);
        work->next_closed = first;
        first = work;
    }
    return first;
}

/* Tasks that may wait for the executor's end go to `later`. */
static int close_executor(weft_executor *x, bool drain, struct wf_later *later)
{
    if (wf_executor_is_lost(x))
        return -EALREADY;
    struct wf_work *works = NULL;
    wf_lock(&x->lock);
    if (x->closed && (drain || x->dropped)) {
        wf_unlock(&x->lock);
        return -EALREADY;
    }
    wf_store(&x->closed, true);
    if (!drain) {
        x->dropped = true;
        works = take_works(x);
    }
    wf_add(&x->refs, 1);
    close_table(x);
    end_works(x, works, later);
    let_go(x);
    return 0;
}

int weft_executor_close(weft_executor *x, bool drain)
{
    wf_slice_here();
    if (!x)
        return -EINVAL;
    struct wf_later later = {0};
    int rc = close_executor(x, drain, &later);
    wf_later_here(&later);
    return rc;
}

/* Waits until the table is closed. -EDEADLK: works are left that only the calling thread can run. */
static int wait_until_over(weft_executor *x, weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    wf_lock(&x->lock);
    if (x->over || wf_time_is_now(deadline)) {
        bool over = x->over;
        wf_unlock(&x->lock);
        return over ? 0 : -EAGAIN;
    }
    if (x->works && wf_needs_this_worker(x->sched)) {
        wf_unlock(&x->lock);
        return -EDEADLK;
    }
    wf_waiters_add(&x->joiners, &me->node, me);
    int rc = wf_wait_unlocking(me, "executor", &x->lock, deadline);
    if (rc < 0) {
        wf_lock(&x->lock);
        wf_waiters_remove(&x->joiners, &me->node);
        wf_unlock(&x->lock);
    }
    return rc;
}

/* The caller is inside a function or a task of x, or on a thread of x: in a task on noop, or in an at_exit. */
static bool is_inside(const weft_executor *x)
{
    const struct wf_thread *me = wf_thread_now();
    return wf_flow_is_inside(x) || (x->has_threads && !me->fiber && me->crew == x->self);
}

int weft_executor_join(weft_executor *x, weft_time deadline)
{
    wf_slice_here();
    if (!x)
        return -EINVAL;
    if (wf_executor_is_lost(x))
        return 0;
    if (is_inside(x))
        return -EDEADLK;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    if (wf_unlikely(wf_forks != 0)) { /* in a child: see settle_closed in executor_fork.c */
        wf_lock(&x->lock);
        close_table(x);
    }
    int rc = wait_until_over(x, deadline);
    return rc == 0 && x->ops.join ? x->ops.join(x->self, deadline) : rc;
}

void wf_executor_abandon(weft_executor *x, struct wf_later *later)
{
    close_executor(x, false, later);
    let_go(x);
}

/* A join that a cancel of the caller does not end. */
static void join_deaf(weft_executor *x)
{
    struct wf_deaf deaf = wf_deaf_begin(wf_thread_now()->fiber);
    weft_executor_join(x, WEFT_FOREVER);
    wf_deaf_end(&deaf);
}

int weft_executor_free(weft_executor *x)
{
    if (!x)
        return 0;
    weft_executor_close(x, false);
    join_deaf(x); /* -EDEADLK: then the thread that ends its last work releases it */
    let_go(x);
    return 0;
}
