/*
 * task/task_coro.c: tasks off schedulers: base coroutines that the functions of an executor mount; see task.h.
 *
 *      the task               the thread that has it mounted              the end of the awaited task, deadline, cancel
 *        │ fills its await
 *        └─ unmounts ───────▶ lock the gate, WAITING, link, arm
 *                             unlock the gate ──────────────────────────▶ settle: one compare-and-swap
 *                                                                         execute(turn) ─▶ a thread of the executor
 *        passes the gate ◀─────────────────────────────────────────────────────────────── mounts it
 *
 * The gate. From the first link on, the task may be settled and mounted by another thread, while this thread still
 * links the rest. The resumed task waits at the gate until this thread is done with it.
 *
 * No recursion. A task that ends resumes the tasks that awaited it. If they continue on the same thread (noop, or no
 * thread could be made), they go into a list (sched/later.h). The loop that ran the ended task then runs them one after
 * another. If there is no such loop, because a worker has ended the wait on its own stack, or the thread that keeps the
 * deadlines has, each task of the list gets a thread of its own.
 */
#include "task/task.h"

#include <pthread.h>
#include <sched.h>

#include "base/errno.h"
#include "coro/cxx.h"
#include "coro/mount.h"
#include "task/crew.h"

/* The outermost function on the task's stack. */
static void *coroutine_main(void *arg)
{
    weft_task *t = arg;
    void *value = NULL;
    int code = t->fn(t->arg, &value);
    wf_task_finish(t, code, value);
    t->coro.done = true;
    wf_unmount_last(wf_thread_now(), t->coro.base);
}

static void mount(weft_task *t)
{
    struct wf_thread *me = wf_thread_now();
    if (!me->entered)
        wf_coro_enter_thread(me);
    struct wf_eh_globals own = {0}, *here = wf_eh_here();
    if (here)
        wf_eh_change(here, &own, &t->coro.base->eh);
    /* Fails only if a coroutine inside the task uses a shared stack that another thread has mounted. */
    while (wf_mount(me, t->coro.base, t->coro.inner) != 0) {
        sched_yield();
        me = wf_thread_now();
    }
    here = wf_eh_here(); /* a fiber that it was mounted in may have moved meanwhile */
    if (here)
        wf_eh_change(here, &t->coro.base->eh, &own);
}

/* The task has unmounted itself to wait. True: it need not wait, and the caller mounts it again. */
static bool publish(weft_task *t)
{
    struct wf_task_coro *c = &t->coro;
    int result = 0;
    wf_lock(&c->gate);
    wf_store_release(&c->phase, WF_AWAIT_WAITING); /* pairs with wf_task_settle */
    wf_fence();                                    /* pairs with wf_task_cancel's */
    bool waits = !wf_flow_is_cancelled(&t->flow);
    if (!waits)
        result = -ECANCELED;
    else
        waits = c->await->link(c->await, NULL, t);
    if (waits && c->until != INT64_MAX) {
        result = wf_task_deadline_add(t, c->until);
        waits = result == 0;
    }
    bool again = !waits && wf_task_settle(t, result);
    wf_unlock(&c->gate);
    return again;
}

static void end(weft_task *t, struct wf_later *later)
{
    wf_base_free(wf_thread_now(), t->coro.base);
    t->coro.base = NULL;
    wf_task_tell(t, later);
    wf_task_over(t, later);
}

/* Runs a task until it waits or has ended. What its end leaves to be done goes to `later`. */
static void run(weft_task *t, struct wf_later *later)
{
    do {
        wf_store(&t->coro.phase, WF_AWAIT_NONE);
        mount(t);
        if (t->coro.done) {
            end(t, later);
            return;
        }
    } while (publish(t)); /* false: another thread may own the task by now */
}

static void continue_here(weft_task *t);
static void resume(struct wf_later *later, bool here);

/* Adds a task; `now`: before the others, which may wait for it. */
static void put(struct wf_later *later, weft_task *t, bool now)
{
    t->coro.next = now ? later->first : NULL;
    if (!later->first)
        later->first = later->last = t;
    else if (now)
        later->first = t;
    else
        later->last = later->last->coro.next = t;
    later->resume = resume;
}

/* Stops where a task's end has left children to cancel: the next task may wait for them. */
static void run_all(struct wf_later *later)
{
    uint32_t forks = wf_forks;
    for (weft_task *t; !later->held && (t = later->first) != NULL;) {
        later->first = t->coro.next;
        run(t, later);                        /* may add others */
        if (wf_unlikely(forks != wf_forks)) { /* it forked, and the others are tasks of the parent */
            later->first = NULL;
            later->held = NULL;
        }
    }
}

/* A thread of its own for each task of the list, as a task may wait for another one. The last one has this thread. */
static void *run_apart(void *first)
{
    uint32_t forks = wf_forks;
    pthread_setname_np(pthread_self(), "weft_noop");
    for (weft_task *t = first, *next; t; t = next) {
        pthread_t id;
        next = t->coro.next;
        t->coro.next = NULL;
        if (next && wf_crew_thread(&id, run_apart, t) == 0) {
            pthread_detach(id);
            continue;
        }
        continue_here(t);
        wf_crew_check_fork(forks);
    }
    return NULL;
}

static void resume(struct wf_later *later, bool here)
{
    pthread_t id;
    if (here || wf_crew_thread(&id, run_apart, later->first) != 0) {
        run_all(later);
        return;
    }
    pthread_detach(id);
    later->first = NULL;
}

/* Continues a task on this thread. */
static void continue_here(weft_task *t)
{
    struct wf_later later = {0};
    put(&later, t, false);
    wf_later_here(&later);
}

/* What an executor calls for a task that has begun. */
static void turn(void *arg)
{
    continue_here(wf_task_of(arg));
}

void wf_task_resume(weft_task *t, struct wf_later *later, bool now)
{
    if (t->work.on->is_noop) {
        put(later, t, now);
        return;
    }
    int rc = wf_executor_resume(&t->work, turn);
    if (wf_unlikely(rc < 0)) { /* else the task may be gone by now */
        t->coro.result = rc;
        put(later, t, now);
    }
}

/* Whether the task may run: it was not cancelled before its turn. */
static bool begin(weft_task *t)
{
    wf_lock(&t->lock);
    bool may = !wf_flow_is_cancelled(&t->flow);
    if (may)
        wf_store(&t->state, WF_TASK_RUNNING);
    wf_unlock(&t->lock);
    return may;
}

static int make_base(weft_task *t)
{
    struct wf_thread *me = wf_thread_now();
    if (!me->entered)
        wf_coro_enter_thread(me);
    struct wf_base_opts o = {.class = t->coro.class, .flags = t->coro.flags, .id = wf_thread_id(me), .name = t->name};
    weft_coro *base = wf_base_new(me, &o, coroutine_main, t);
    if (!base)
        return -ENOMEM;
    base->user = &t->flow;
    t->coro.base = t->coro.inner = base;
    return 0;
}

void wf_task_coro_run(struct wf_work *work)
{
    weft_task *t = wf_task_of(work);
    int rc = begin(t) ? make_base(t) : -ECANCELED;
    if (rc == 0) {
        continue_here(t);
    } else {
        struct wf_later later = {0};
        wf_task_end_unrun(t, rc, &later);
        wf_task_over(t, &later);
        wf_later_here(&later);
    }
}

int wf_task_suspend(weft_task *me, struct wf_await *a, weft_time deadline)
{
    struct wf_task_coro *c = &me->coro;
    struct wf_thread *t = wf_thread_now();
    c->await = a;
    c->until = deadline.ns;
    c->result = 0;
    c->inner = t->current;
    wf_unmount(t, c->base);
    wf_lock(&c->gate); /* the thread that published the wait is done with us */
    wf_unlock(&c->gate);
    if (deadline.ns != INT64_MAX)
        wf_task_deadline_del(me);
    a->unlink(a);
    return c->result;
}
