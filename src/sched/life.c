/*
 * sched/life.c: making, starting, running, stopping and freeing a scheduler. Any thread.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/barrier.h"
#include "base/options.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/plain.h"
#include "base/sys.h"
#include "coro/coro.h"
#include "sched/fork.h"
#include "sched/hooked.h"
#include "sched/pick.h"
#include "sched/queue.h"
#include "sched/sched.h"
#include "sched/slice.h"
#include "sched/timers.h"
#include "stack/cache.h"

#define FIRST_SIZE (offsetof(weft_sched_opts, io) + sizeof(int))
#define MOST_THREADS 1024
#define TELL_AFTER WEFT_SEC /* a stop that only parked fibers hold up says so after it */
#define GRACE WEFT_SEC      /* what was cancelled has so long to end */

int wf_sched_read_opts(weft_sched_opts *mine, const weft_sched_opts *theirs)
{
    *mine = (weft_sched_opts){.size = sizeof *mine};
    int rc = theirs ? wf_options_read(mine, sizeof *mine, theirs, FIRST_SIZE) : 0;
    if (rc != 0)
        return rc;
    if (mine->threads == 0)
        mine->threads = wf_cpus() < MOST_THREADS ? wf_cpus() : MOST_THREADS;
    if (!mine->policy)
        mine->policy = &weft_fifo;
    if (!mine->name)
        mine->name = "weft";
    bool fifo = mine->policy == &weft_fifo;
    if (mine->threads > MOST_THREADS || (mine->stack != 0 && mine->stack < WEFT_STACK_MIN) ||
        (mine->dispatch != WEFT_QUEUE && mine->dispatch != WEFT_DIRECT) || (mine->dispatch == WEFT_DIRECT && !fifo) ||
        mine->io < WEFT_IO_AUTO || mine->io > WEFT_IO_URING)
        return -EINVAL;
    if (!fifo && (!mine->policy->begin || !mine->policy->end || !mine->policy->push || !mine->policy->pop))
        return -EINVAL;
    return 0;
}

static void free_worker(weft_sched *s, struct wf_worker *w)
{
    if (w->set)
        s->policy->end(w->set);
    if (w->timers)
        wf_timers_drop(w->timers);
    if (w->driver.io)
        w->driver.io->ops->drop(w->driver.io);
    wf_sys_free(w);
}

static struct wf_worker *new_worker(weft_sched *s, unsigned index, const weft_sched_opts *o)
{
    struct wf_worker *w = wf_sys_malloc_aligned(sizeof *w, 64);
    if (!w)
        return NULL;
    memset(w, 0, sizeof *w);
    w->sched = s;
    w->index = index;
    w->solo = s->workers == 1;
    w->round = s->policy == &weft_fifo && s->dispatch == WEFT_QUEUE ? 0 : WF_ROUND_ALWAYS;
    w->random = index * 2654435761u + 1;
    w->now = wf_clock_now();
    wf_wheel_init(&w->wheel, w->now);
    w->first_due = INT64_MAX;
    if (s->policy != &weft_fifo) {
        w->set = s->policy->begin(o->policy_arg);
        w->slice = s->policy == &weft_rr && o->policy_arg ? *(const weft_span *)o->policy_arg : s->policy->slice;
    }
    w->timers = wf_timers_new(w, w->now);
    if (!w->timers || (s->policy != &weft_fifo && !w->set)) {
        free_worker(s, w);
        return NULL;
    }
    return w;
}

int weft_sched_new(weft_sched **out, const weft_sched_opts *opts)
{
    struct wf_thread *t = wf_thread_now();
    weft_sched_opts o;
    int rc = out ? wf_sched_read_opts(&o, opts) : -EINVAL;
    if (rc != 0)
        return rc;
    if (o.use_caller && t->fiber)
        return -EDEADLK;
    if (o.use_caller && t->worker)
        return -EBUSY;
    int class = o.stack != 0 ? wf_stack_class(o.stack) : 0;
    if (class < 0)
        return -ENOMEM;
    weft_sched *s = wf_sys_malloc(sizeof *s + o.threads * sizeof s->worker[0]);
    if (!s)
        return -ENOMEM;
    memset(s, 0, sizeof *s);
    snprintf(s->name, sizeof s->name, "%s", o.name);
    s->workers = s->made = o.threads;
    s->use_caller = o.use_caller;
    s->dispatch = o.dispatch;
    s->io = o.io;
    s->warm = o.warm;
    s->warm_max = o.warm_max;
    s->class = (uint16_t) class;
    s->policy = o.policy;
    s->maker = pthread_self();
    wf_barrier_init();
    for (unsigned i = 0; i < s->workers; i++) {
        s->worker[i] = new_worker(s, i, &o);
        if (!s->worker[i]) {
            while (i-- > 0)
                free_worker(s, s->worker[i]);
            wf_sys_free(s);
            return -ENOMEM;
        }
    }
    if (s->use_caller)
        wf_worker_enter(s->worker[0]);
    wf_fork_list(s);
    wf_hook_look();
    *out = s;
    return 0;
}

/* Stacks made in advance, on the worker's thread. */
static void warm_up(struct wf_worker *w)
{
    struct wf_idle *list = NULL;
    unsigned class = w->sched->class;
    for (unsigned i = 0; i < w->sched->warm; i++) {
        struct wf_idle *s = wf_stack_take(w->thread, class);
        if (!s)
            break;
        s->next = list;
        list = s;
    }
    for (struct wf_idle *s = list, *next; s; s = next) {
        next = s->next;
        wf_stack_keep(w->thread, class, s);
    }
}

static void *worker_thread(void *arg)
{
    struct wf_worker *w = arg;
    wf_worker_enter(w);
    warm_up(w);
    while (!wf_load_acquire(&w->sched->gate)) /* pairs with open_gate */
        wf_futex_wait(&w->sched->gate, 0, INT64_MAX);
    wf_worker_loop(w, WF_UNTIL_OVER, INT64_MAX);
    wf_worker_leave(w);
    if (w->sched->orphan)
        exit(0); /* helpers may be left, and nobody waits for us */
    return NULL;
}

static void name_thread(const struct wf_worker *w)
{
    enum { KEPT = 15 }; /* as much as the kernel keeps */
    char name[KEPT + 1], number[12];
    int digits = snprintf(number, sizeof number, "_%u", w->index);
    snprintf(name, sizeof name, "%.*s%s", KEPT - digits, w->sched->name, number);
    pthread_setname_np(w->id, name);
}

/* The threads may work: all of them are there. If one could not be made, none has begun anything. */
static void open_gate(weft_sched *s)
{
    wf_store_release(&s->gate, 1); /* pairs with worker_thread */
    wf_futex_wake(&s->gate, INT32_MAX);
}

/* The workers' threads end, and are gone when it returns. */
static void end_threads(weft_sched *s)
{
    wf_store_release(&s->over, 1); /* pairs with the loop's look */
    open_gate(s);
    wf_fence(); /* pairs with wf_idle's */
    for (unsigned i = 0; i < s->workers; i++)
        wf_driver_wake(&s->worker[i]->driver);
    for (unsigned i = 0; i < s->workers; i++) {
        if (s->worker[i]->has_thread)
            wf_plain_join(s->worker[i]->id);
        s->worker[i]->has_thread = false;
    }
    wf_store(&s->over, 0);
}

/* They wait at the gate. */
static int make_threads(weft_sched *s)
{
    wf_store(&s->gate, 0);
    for (unsigned i = s->use_caller ? 1 : 0; i < s->workers; i++) {
        struct wf_worker *w = s->worker[i];
        int rc = wf_sys_thread(&w->id, worker_thread, w);
        if (rc != 0) {
            end_threads(s);
            return rc;
        }
        w->has_thread = true;
        name_thread(w);
    }
    return 0;
}

int weft_sched_start(weft_sched *s)
{
    if (!s)
        return -EINVAL;
    wf_fork_look();
    wf_lock(&s->lock);
    uint32_t was = s->life;
    bool may = !s->stopping && (was == WF_NEW || was == WF_STOPPED) && s->workers > 0;
    if (may)
        s->stopping = true; /* nobody else starts or stops it meanwhile */
    wf_unlock(&s->lock);
    if (!may)
        return s->workers > 0 ? -EALREADY : -ESHUTDOWN;
    if (s->use_caller && s->warm > 0 && s->worker[0]->thread == wf_thread_now())
        warm_up(s->worker[0]);
    s->told = false;
    wf_store(&s->cancels, 0);
    for (unsigned i = 0; i < s->workers; i++) {
        s->worker[i]->cancelled_to = 0;
        wf_timers_allow(s->worker[i]->timers, WF_TIMERS_OPEN);
    }
    int rc = make_threads(s);
    wf_lock(&s->lock);
    s->stopping = false;
    if (rc == 0) {
        wf_store(&s->life, WF_RUNNING);
        open_gate(s);
    }
    wf_unlock(&s->lock);
    return rc;
}

bool wf_sched_is_empty(const weft_sched *s)
{
    /*
     * Ended ones are counted first: both only grow and no fiber ends before it was spawned, so if the sums are equal
     * then there was a moment between the two with none. Timers that are awaited are counted like fibers: the fiber
     * of one is spawned before the timer is settled.
     */
    uint64_t ended = 0, spawned = 0;
    for (unsigned i = 0; i < s->workers; i++)
        ended += wf_load_acquire(&s->worker[i]->counts.ended) + wf_load_acquire(&s->worker[i]->timers->settled);
    for (unsigned i = 0; i < s->workers; i++)
        spawned += wf_load_acquire(&s->worker[i]->counts.spawned) + wf_load_acquire(&s->worker[i]->timers->awaited);
    return ended == spawned + wf_load_acquire(&s->spawned_outside);
}

/* Waits for the last fiber's end on a thread, or in a fiber of another scheduler, that is not a worker of this one. */
static int await_empty(weft_sched *s, int64_t deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    int rc = 0;
    wf_add(&s->empty_wanted, 1);
    while (rc == 0) {
        wf_lock(&s->empty_lock);
        wf_waiters_add(&s->empty_waiters, &me->node, me);
        wf_barrier_heavy(); /* pairs with wf_idle's: it sees empty_wanted, or we its count */
        if (wf_sched_is_empty(s))
            break;
        rc = wf_wait_unlocking(me, "scheduler", &s->empty_lock, (weft_time){deadline});
        if (rc < 0)
            wf_lock(&s->empty_lock);
    }
    wf_waiters_remove(&s->empty_waiters, &me->node);
    wf_unlock(&s->empty_lock);
    wf_add(&s->empty_wanted, (uint32_t)-1);
    return rc;
}

/* Until no fiber is left: by working, if the caller is worker 0. */
static int drain(weft_sched *s, int64_t deadline)
{
    if (!s->use_caller)
        return await_empty(s, deadline);
    wf_add(&s->empty_wanted, 1);
    int rc = wf_worker_loop(s->worker[0], WF_UNTIL_EMPTY, deadline);
    wf_add(&s->empty_wanted, (uint32_t)-1);
    return rc;
}

static bool is_ours(const weft_sched *s)
{
    struct wf_thread *t = wf_thread_now();
    return t->fiber && t->worker->sched == s;
}

int weft_sched_run(weft_sched *s, weft_time deadline)
{
    if (!s)
        return -EINVAL;
    if (is_ours(s))
        return -EDEADLK;
    if (s->use_caller && !pthread_equal(pthread_self(), s->maker))
        return -EPERM;
    uint32_t life = wf_load(&s->life);
    if (life == WF_STOPPED || life == WF_DRAINING)
        return -ESHUTDOWN;
    if (life == WF_NEW) {
        int rc = weft_sched_start(s);
        if (rc != 0 && rc != -EALREADY)
            return rc;
    }
    if (deadline.ns != INT64_MIN)
        return drain(s, deadline.ns);
    if (s->use_caller)
        wf_worker_loop(s->worker[0], WF_UNTIL_ONCE, 0);
    return wf_sched_is_empty(s) ? 0 : -EAGAIN;
}

struct waits {
    const weft_sched *of;
    bool have_deadline;
};

static void note_deadline(weft_fiber *f, void *arg)
{
    struct waits *waits = arg;
    if (wf_load(&f->state) == WEFT_FIBER_PARKED && wf_load(&f->sched) == waits->of)
        waits->have_deadline |= wf_load(&f->until) != INT64_MAX;
}

/* Whether only parked fibers are left, with nothing that would wake them. */
static bool is_stuck(const weft_sched *s)
{
    size_t watches = 0;
    for (unsigned i = 0; i < s->workers; i++) {
        const struct wf_worker *w = s->worker[i];
        bool caller = i == 0 && s->use_caller; /* it is here, asking */
        if ((!caller && !wf_load(&w->driver.asleep)) || !wf_inbox_is_empty(&w->inbox) || wf_pick_here(w) > 0)
            return false;
        if (wf_load(&w->timers->awaited) != wf_load(&w->timers->settled))
            return false;
        watches += wf_load(&w->counts.watches);
    }
    if (watches != 0 || wf_load(&s->injected.count) != 0)
        return false;
    struct waits waits = {.of = s};
    wf_fork_look();
    wf_pool_walk(note_deadline, &waits);
    return !waits.have_deadline;
}

static void tell_once(weft_sched *s)
{
    if (s->told || !is_stuck(s))
        return;
    s->told = true;
    fprintf(stderr, "weft: weft_sched_stop of \"%s\" waits for fibers that nothing in it can wake:\n", s->name);
    wf_dump(stderr, s);
}

static void cancel_all(weft_sched *s)
{
    wf_add(&s->cancels, 1);
    wf_fence(); /* pairs with wf_idle's */
    for (unsigned i = 0; i < s->workers; i++)
        wf_driver_wake(&s->worker[i]->driver);
}

/* In steps, so that what holds it up can be told. */
static int drain_and_tell(weft_sched *s, int64_t deadline)
{
    int64_t tell_at = wf_clock_now() + TELL_AFTER;
    for (;;) {
        int64_t step = s->told ? INT64_MAX : tell_at;
        int rc = drain(s, step < deadline ? step : deadline);
        int64_t now = wf_clock_now();
        if (rc != -ETIMEDOUT || now >= deadline) /* also if the caller is a fiber that was cancelled */
            return rc;
        if (now >= tell_at) {
            tell_once(s);
            tell_at = now + TELL_AFTER;
        }
    }
}

/* The recurring ones are left. No worker runs. */
static void end_timers(weft_sched *s)
{
    for (unsigned i = 0; i < s->workers; i++)
        wf_timers_cancel_all(s->worker[i]->timers, WF_TIMERS_CLOSING);
}

static int begin_stop(weft_sched *s)
{
    int rc = 0;
    wf_lock(&s->lock);
    if (s->stopping)
        rc = -EALREADY;
    else if (s->life == WF_STOPPED || (s->life == WF_NEW && s->injected.count == 0 && wf_sched_is_empty(s)))
        rc = 1;
    if (rc == 0)
        s->stopping = true;
    if (rc == 1) {
        wf_store(&s->life, WF_STOPPED);
        end_timers(s);
    }
    wf_unlock(&s->lock);
    return rc;
}

int weft_sched_stop(weft_sched *s, weft_time deadline)
{
    if (!s)
        return -EINVAL;
    if (is_ours(s))
        return -EDEADLK;
    if (s->use_caller && !pthread_equal(pthread_self(), s->maker))
        return -EPERM;
    wf_fork_look();
    int rc = begin_stop(s);
    if (rc != 0)
        return rc == 1 ? 0 : rc;
    if (wf_load(&s->life) == WF_NEW && (rc = make_threads(s)) != 0) { /* work was given to it before a start */
        wf_lock(&s->lock);
        s->stopping = false;
        wf_unlock(&s->lock);
        return rc;
    }
    wf_lock(&s->lock);
    wf_store(&s->life, WF_DRAINING);
    wf_unlock(&s->lock);
    for (unsigned i = 0; i < s->workers; i++)
        wf_timers_allow(s->worker[i]->timers, WF_TIMERS_CLOSING);
    open_gate(s);
    rc = drain_and_tell(s, deadline.ns);
    if (rc == -ETIMEDOUT) {
        cancel_all(s);
        rc = drain(s, wf_clock_now() + GRACE);
    }
    if (rc == 0) {
        end_threads(s);
        end_timers(s);
    }
    wf_lock(&s->lock);
    s->stopping = false;
    if (rc == 0)
        wf_store(&s->life, WF_STOPPED);
    wf_unlock(&s->lock);
    return rc;
}

/* Work that was given to it and never ran. */
static void drop_queued(weft_sched *s)
{
    for (weft_fiber *f; (f = wf_fifo_pop(&s->injected)) != NULL;)
        wf_fiber_drop(f);
    for (unsigned i = 0; i < s->workers; i++) {
        struct wf_inbox_node *next = wf_inbox_take_all(&s->worker[i]->inbox);
        for (struct wf_inbox_node *node = next; node; node = next) {
            next = node->next;
            wf_fiber_drop(WF_FIBER_OF(node, link));
        }
    }
}

int weft_sched_free(weft_sched *s)
{
    if (!s)
        return 0;
    if (s->use_caller && !pthread_equal(pthread_self(), s->maker))
        return -EPERM;
    uint32_t life = wf_load(&s->life);
    if (life != WF_NEW && life != WF_STOPPED)
        return -EBUSY;
    wf_fork_look();
    wf_fork_unlist(s);
    drop_queued(s);
    if (s->use_caller)
        wf_worker_leave(s->worker[0]);
    while (wf_load_acquire(&s->senders) != 0) /* pairs with wf_worker_send */
        sched_yield();
    for (unsigned i = 0; i < s->made; i++)
        free_worker(s, s->worker[i]);
    wf_sys_free(s);
    return 0;
}

weft_sched *weft_sched_current(void)
{
    wf_slice_here();
    struct wf_thread *t = wf_thread_now();
    return t->worker ? t->worker->sched : wf_load(&wf_sched_default);
}
