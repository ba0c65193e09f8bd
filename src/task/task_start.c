/*
 * task/task_start.c: starting tasks, and running those that are fibers; task_coro.c runs the others. Any thread.
 */
#include <string.h>

#include "base/barrier.h"
#include "base/errno.h"
#include "base/options.h"
#include "base/sys.h"
#include "coro/coro.h"
#include "sched/cancel.h"
#include "sched/family.h"
#include "sched/finish.h"
#include "sched/sched.h"
#include "sched/slice.h"
#include "stack/slab.h"
#include "task/task.h"

#define FIRST_SIZE sizeof(weft_task_opts)
#define SITE "weft_task_start"
#define FLOW offsetof(weft_task, flow)

static struct wf_cause closed(void)
{
    return wf_cause_here(WEFT_CAUSE_SHUTDOWN, -ECANCELED, "its executor was closed");
}

static void drop(struct wf_work *work, struct wf_later *later)
{
    weft_task *t = wf_task_of(work);
    struct wf_cause why = closed();
    wf_flow_cancel(&t->flow, &why);
    wf_task_end_unrun(t, -ECANCELED, later);
    weft_executor *owned = wf_task_leave(t, later);
    if (owned)
        wf_executor_abandon(owned, later); /* the caller still holds it */
}

/* The task was cancelled by a call that knows its fiber alone: weft_cancel, a hang-up, a stop of the scheduler. */
WF_COLD static void cancelled_as_fiber(weft_task *t, weft_fiber *f)
{
    struct wf_extra *x = wf_load_acquire(&f->extra); /* pairs with wf_extra */
    if (x)
        wf_lock(&x->lock);
    struct wf_cause why = wf_cause_of(x, wf_load(&f->sleeper.bits));
    if (x)
        wf_unlock(&x->lock);
    wf_flow_cancel(&t->flow, &why);
}

/* The fiber's clean-up handlers have run. */
static void task_ends(weft_task *t)
{
    wf_task_finish(t, t->code, t->value);
    wf_thread_now()->fiber->coro->user = NULL; /* as wf_flow_leave */
    struct wf_later later = {0};
    struct wf_waiter *won = t->won;
    if (wf_likely(won && !won->next && won->who)) /* one fiber or thread, as in most cases */
        wf_ready(won->who);
    else if (won)
        wf_task_tell(t, &later);
    wf_task_over(t, &later);
    wf_later_here(&later); /* last: they may wait for the end of our executor, or of our scope */
}

/* The end of a fiber that is a task, by a return or by pthread_exit under libweft-hook. */
static void fiber_ends(void *arg)
{
    weft_task *t = arg;
    weft_fiber *f = wf_thread_now()->fiber;
    uint32_t bits = wf_load(&f->sleeper.bits);
    if (wf_unlikely(bits & WF_CANCEL_SELF) && !wf_flow_is_cancelled(&t->flow))
        cancelled_as_fiber(t, f);
    const struct wf_extra *x = wf_unlikely(bits & WF_EXTRA) ? wf_load_acquire(&f->extra)
                                                            : NULL; /* pairs with wf_extra */
    if (wf_unlikely(x && (x->defers || x->locals))) {
        struct wf_finish again; /* a handler may end the fiber: the other handlers come before the task's end, too */
        wf_finish_begin(&again, fiber_ends, t);
        wf_family_leave(f); /* before the task's end: later, what they use may be gone */
        wf_finish_end(&again);
    } else {
        task_ends(t);
    }
}

/* Ends a task that never runs. */
static void end_unrun(weft_task *t, int code)
{
    struct wf_later later = {0};
    wf_task_end_unrun(t, code, &later);
    wf_task_over(t, &later);
    wf_later_here(&later);
}

/* Whether the task may run. If so, cancellers find it through its fiber from now on. */
static bool begin_fiber(weft_task *t, weft_fiber *f)
{
    wf_store_release(&t->fiber, f); /* pairs with wf_task_keep_fiber */
    wf_barrier_light();             /* pairs with wf_task_keep_fiber's */
    if (wf_unlikely(wf_load(&t->flow.stopping)))
        wf_or(&f->sleeper.bits, WF_STOPPING); /* for the scopes that it opens, and its stop event */
    if (wf_unlikely(wf_load(&t->flow.cancelled)))
        return false;
    wf_store(&t->state, WF_TASK_RUNNING);
    return true;
}

static void run_in_fiber(weft_task *t)
{
    struct wf_finish step;
    if (!begin_fiber(t, wf_thread_now()->fiber)) {
        end_unrun(t, -ECANCELED);
        return;
    }
    if (wf_unlikely(t->context) && wf_task_move_context(t) != 0) {
        end_unrun(t, -ENOMEM);
        return;
    }
    wf_thread_now()->fiber->coro->user = &t->flow; /* as wf_flow_enter: it is the first in this fiber */
    t->code = -ECANCELED;                          /* the code if pthread_exit ends the fiber */
    wf_finish_begin(&step, fiber_ends, t);
    void *value = NULL;
    int code = t->fn(t->arg, &value);
    t->code = code;
    t->value = value;
    wf_finish_end(&step);
}

static void *fiber_main(void *arg)
{
    run_in_fiber(arg);
    return NULL;
}

static void run_as_fiber(struct wf_work *work)
{
    run_in_fiber(wf_task_of(work));
}

static void cancel(struct wf_work *work, struct wf_later *later)
{
    struct wf_cause why = closed();
    wf_task_cancel(wf_task_of(work), &why, later);
}

static void hold(struct wf_work *work)
{
    wf_task_hold(wf_task_of(work));
}

static void let_go(struct wf_work *work)
{
    wf_task_let_go(wf_task_of(work));
}

static const struct wf_work_kind as_fiber = {run_as_fiber, drop, cancel, hold, let_go, FLOW, true};
static const struct wf_work_kind as_coroutine = {wf_task_coro_run, drop, cancel, hold, let_go, FLOW, true};

/* The attributes of a coroutine. */
static int take_attr(weft_task *t, const weft_attr *a)
{
    if (a->shared || (a->stack != 0 && a->stack < WEFT_STACK_MIN))
        return -EINVAL;
    int class = a->stack != 0 ? wf_stack_class(a->stack) : 0;
    if (class < 0)
        return -ENOMEM;
    t->coro.class = (unsigned)class;
    t->coro.flags = a->flags & (WEFT_FPENV | WEFT_MEASURE);
    return 0;
}

/* Sets each field by itself: clearing all would touch twice as many cache lines. `coro` and `own` are set when used. */
static void init(weft_task *t, weft_task_fn *fn, void *arg, const weft_task_opts *o)
{
    t->work.on = NULL;
    t->flow = (struct wf_flow){.task = t};
    t->fn = fn;
    t->arg = arg;
    t->destroy = o->destroy;
    t->name = NULL;
    t->refs = 1;
    t->forks = wf_forks;
    t->lock = (struct wf_lock){0};
    t->state = WF_TASK_QUEUED;
    t->code = 0;
    t->taken = 0;
    t->is_freed = false;
    t->owns = o->owns_executor;
    t->owned = o->owns_executor ? o->on : NULL;
    t->value = NULL;
    t->finisher = NULL;
    t->serial = false;
    t->on_sched = NULL;
    t->fiber = NULL;
    t->waiters = (struct wf_waiters){NULL, NULL};
    t->won = NULL;
    t->first = NULL;
    t->end = &t->first;
    t->own_used = 0;
    t->looked = 0;
    t->noted_code = 0;
    t->note = t->message = NULL;
    t->context = wf_task_context();
    t->cancellers = t->in_walk = 0;
    t->child.scope = NULL;
    t->awaits = NULL;
    t->group = NULL;
}

static weft_task *new_task(struct wf_thread *me, weft_task_fn *fn, void *arg, const weft_task_opts *o)
{
    weft_task *t = me->spare_task;
    if (wf_likely(t))
        me->spare_task = NULL;
    else if (!(t = wf_sys_malloc(sizeof *t)))
        return NULL;
    else
        wf_executor_watch_forks();
    init(t, fn, arg, o);
    if (wf_likely(!o->name))
        return t;
    size_t bytes = strlen(o->name) + 1;
    t->name = wf_sys_malloc(bytes);
    if (!t->name) {
        wf_task_let_go(t);
        return NULL;
    }
    memcpy(t->name, o->name, bytes);
    return t;
}

/* Where a task is to run: on an executor, or as a fiber of the current scheduler. */
struct goal {
    weft_executor *on; /* NULL: as a fiber of `here` */
    weft_sched *here;
    const weft_attr *attr; /* NULL: none */
};

static struct goal goal_of(const weft_task_opts *o, const weft_attr *attr)
{
    if (o->on)
        return (struct goal){.on = o->on, .attr = attr};
    const struct wf_worker *w = wf_thread_now()->worker;
    weft_sched *here = wf_likely(w) ? w->sched : wf_load(&wf_sched_default);
    return (struct goal){.on = here ? NULL : wf_executor_default(), .here = here, .attr = attr};
}

/* Sets the rest of the record: once the task is in its scope, a cancel of the scope may meet it. */
static int prepare(weft_task *t, const struct goal *goal)
{
    weft_executor *x = goal->on;
    if (wf_likely(!x)) {
        t->refs = 2; /* one for the handle, one for the fiber */
        t->on_sched = goal->here;
        return 0;
    }
    memset(&t->coro, 0, sizeof t->coro);
    t->work.on = x;
    t->flow.executor = x;
    t->on_sched = x->sched;
    t->flow.suspends = !x->sched;
    t->serial = !x->sched && x->ops.flags & WEFT_EXECUTOR_SERIAL;
    t->work.kind = x->sched ? &as_fiber : &as_coroutine;
    t->work.attr = goal->attr;
    return !x->sched && goal->attr ? take_attr(t, goal->attr) : 0;
}

static int launch(weft_task *t, const struct goal *goal)
{
    if (goal->on)
        return wf_executor_begin(&t->work);
    int rc = goal->attr ? weft_go_with_at(SITE, NULL, goal->attr, fiber_main, t) : weft_go_at(SITE, fiber_main, t);
    if (rc != 0)
        wf_task_let_go(t); /* the fiber's reference; the caller has the other one */
    return rc;
}

/* As the child of a scope. */
WF_COLD static int launch_in_scope(weft_task *t, const struct goal *goal, weft_scope *scope)
{
    int rc = wf_task_join_scope(t, scope);
    if (rc != 0) {
        if (!goal->on)
            wf_task_let_go(t); /* the fiber's reference */
        return rc;
    }
    rc = launch(t, goal);
    if (rc != 0) {
        struct wf_later later = {0};
        wf_task_leave_scope(t, -ECANCELED, true, &later); /* counts as neither a success nor a failure */
        wf_later_here(&later);
    }
    return rc;
}

static int start(weft_task *t, const weft_task_opts *o, const weft_attr *attr)
{
    struct goal goal = goal_of(o, attr);
    int rc = prepare(t, &goal);
    if (rc != 0)
        return rc;
    return wf_unlikely(o->scope) ? launch_in_scope(t, &goal, o->scope) : launch(t, &goal);
}

/* With a name, or attributes. */
WF_COLD static int start_with(weft_task *t, const weft_task_opts *o)
{
    weft_attr attr = {.size = sizeof attr};
    if (o->attr && wf_options_read(&attr, sizeof attr, o->attr, sizeof attr) != 0)
        return -EINVAL;
    if (!attr.name)
        attr.name = o->name; /* for dumps */
    return start(t, o, &attr);
}

static int read_opts(weft_task_opts *mine, const weft_task_opts *theirs)
{
    bool is_wrong = wf_options_read(mine, sizeof *mine, theirs, FIRST_SIZE) != 0 || (mine->owns_executor && !mine->on);
    return is_wrong ? -EINVAL : 0;
}

int weft_task_start(weft_task **out, weft_task_fn *fn, void *arg, const weft_task_opts *opts)
{
    static const weft_task_opts defaults = {.size = sizeof defaults};
    weft_task_opts mine;
    const weft_task_opts *o = &defaults;
    struct wf_thread *me = wf_slice_enter_as();
    if (!out || !fn)
        return -EINVAL;
    if (opts) {
        int rc = read_opts(&mine, opts);
        if (rc != 0)
            return rc;
        o = &mine;
    }
    weft_task *t = new_task(me, fn, arg, o);
    if (!t)
        return -ENOMEM;
    int rc = wf_unlikely(o->name || o->attr) ? start_with(t, o) : start(t, o, NULL);
    if (rc != 0) {
        wf_task_let_go(t);
        return rc;
    }
    *out = t;
    return 0;
}
