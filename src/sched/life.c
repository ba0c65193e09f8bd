/*
 * sched/life.c: making, starting, running, stopping and freeing a scheduler. Any thread.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno.h"
#include "base/barrier.h"
#include "base/options.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/own.h"
#include "base/plain.h"
#include "base/sys.h"
#include "coro/coro.h"
#include "sched/fork.h"
#include "sched/hooked.h"
#include "sched/pending.h"
#include "sched/pick.h"
#include "sched/queue.h"
#include "sched/sched.h"
#include "sched/slice.h"
#include "sched/stuck.h"
#include "sched/timers.h"
#include "stack/cache.h"

#define FIRST_SIZE sizeof(weft_sched_opts)
#define MOST_THREADS 1024
#define LOOK_EVERY (100 * WEFT_US)
#define LOOK_RARELY (3600 * WEFT_SEC) /* the longest look_every: a longer one may not fit in the counter's units */
#define GRACE WEFT_SEC                /* what was cancelled has so long to end */

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
        mine->name = WF_SCHED_NAME;
    bool fifo = mine->policy == &weft_fifo;
    if (mine->threads > MOST_THREADS || (mine->stack != 0 && mine->stack < WEFT_STACK_MIN) ||
        (mine->dispatch != WEFT_QUEUE && mine->dispatch != WEFT_DIRECT) || (mine->dispatch == WEFT_DIRECT && !fifo) ||
        mine->io < WEFT_IO_AUTO || mine->io > WEFT_IO_URING || mine->look_every < 0)
        return -EINVAL;
    if (mine->look_every == 0)
        mine->look_every = LOOK_EVERY;
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
    wf_ring_free(&w->ring);
    wf_sys_free(w);
}

static struct wf_worker *new_worker(weft_sched *s, unsigned index, const weft_sched_opts *o)
{
    struct wf_worker *w = wf_sys_malloc_aligned(sizeof *w, 64);
    if (!w)
        return NULL;
    memset(w, 0, sizeof *w);
    wf_ring_init(&w->ring);
    w->sched = s;
    w->index = index;
    w->solo = s->workers == 1;
    w->round = s->policy == &weft_fifo && s->dispatch == WEFT_QUEUE ? 0 : WF_ROUND_ALWAYS;
    w->look_ns = o->look_every < LOOK_RARELY ? o->look_every : LOOK_RARELY;
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
    if (rc == 0 && o.end_with_first)
        rc = -EINVAL;
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
    s->born = wf_clock_now();
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
    if (!wf_load_acquire(&w->sched->over)) /* else the start has failed, and its timers are not to fire */
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
    wf_own_prepare();
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
    wf_store(&s->told, 0);
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

/* Fibers that have not ended, and timers that are to fire once. */
static uint64_t left(const weft_sched *s)
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
    return spawned + wf_load_acquire(&s->spawned_outside) - ended;
}

bool wf_sched_is_empty(const weft_sched *s)
{
    return left(s) == 0;
}

bool wf_sched_has_one(const weft_sched *s)
{
    return left(s) == 1;
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

/* Works as worker 0, which the caller is. */
static int work_until(weft_sched *s, enum wf_until until, int64_t deadline)
{
    wf_add(&s->empty_wanted, 1);
    int rc = wf_worker_loop(s->worker[0], until, deadline);
    wf_add(&s->empty_wanted, (uint32_t)-1);
    return rc;
}

/* Waits until no fiber is left: by working, if the caller is worker 0. */
static int drain_until(weft_sched *s, int64_t deadline)
{
    return s->use_caller ? work_until(s, WF_UNTIL_EMPTY, deadline) : await_empty(s, deadline);
}

void wf_sched_run_first(weft_sched *s)
{
    wf_stuck_wait_begin(s);
    work_until(s, WF_UNTIL_FIRST, INT64_MAX);
    wf_stuck_wait_end(s);
}

static int drain(weft_sched *s, int64_t deadline)
{
    bool endless = deadline == INT64_MAX && !wf_thread_now()->fiber; /* else its thread may have other things to do */
    if (endless)
        wf_stuck_wait_begin(s);
    int rc = drain_until(s, deadline);
    if (endless)
        wf_stuck_wait_end(s);
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
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
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

static void cancel_all(weft_sched *s)
{
    wf_add(&s->cancels, 1);
    wf_fence(); /* pairs with wf_idle's and take_nudge's */
    wf_sched_nudge(s);
    for (unsigned i = 0; i < s->workers; i++)
        wf_driver_wake(&s->worker[i]->driver);
}

/* In steps, so that what holds it up can be told. */
static int drain_and_tell(weft_sched *s, int64_t deadline)
{
    int64_t tell_at = wf_clock_now() + WF_STUCK_AFTER;
    for (;;) {
        int64_t step = wf_load(&s->told) ? INT64_MAX : tell_at;
        int rc = drain(s, step < deadline ? step : deadline);
        int64_t now = wf_clock_now();
        if (rc != -ETIMEDOUT || now >= deadline) /* also if the caller is a fiber that was cancelled */
            return rc;
        if (now >= tell_at) {
            wf_stuck_look_stopping(s);
            tell_at = now + WF_STUCK_AFTER;
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

/* Names the fibers that were cancelled and have not ended. */
static void name_all(weft_sched *s, int64_t grace)
{
    fprintf(stderr, "weft: weft_run of \"%s\" waits for fibers that have ignored their cancel for %.3f s:\n", s->name,
            (double)grace / 1e9);
    wf_dump(stderr, s, false);
}

/* `grace`: fibers that are cancelled at the deadline have so long to end. `name`: name those that have not. */
static int stop(weft_sched *s, int64_t deadline, int64_t grace, bool name)
{
    if (!s)
        return -EINVAL;
    if (is_ours(s))
        return -EDEADLK;
    if (s->use_caller && !pthread_equal(pthread_self(), s->maker))
        return -EPERM;
    if (wf_cancel_point(wf_thread_now()->fiber, WEFT_FOREVER)) /* after the deadline, too, it waits for a while */
        return -ECANCELED;
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
    rc = drain_and_tell(s, deadline);
    if (rc == -ETIMEDOUT) {
        cancel_all(s);
        int64_t ends;
        if (__builtin_add_overflow(wf_clock_now(), grace, &ends))
            ends = INT64_MAX;
        rc = drain(s, ends);
        if (rc == -ETIMEDOUT && name)
            name_all(s, grace);
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

int weft_sched_stop(weft_sched *s, weft_time deadline)
{
    return stop(s, deadline.ns, GRACE, false);
}

int wf_sched_stop_now(weft_sched *s, weft_span grace)
{
    return stop(s, INT64_MIN, grace == 0 ? GRACE : grace < 0 ? 0 : grace, true);
}

static void drop(weft_fiber *f)
{
    if (wf_load(&wf_pending_ops))
        wf_load(&wf_pending_ops)->drop(f);
    wf_fiber_drop(f);
}

/* How many there were. */
static uint64_t drop_queued(weft_sched *s)
{
    uint64_t count = 0;
    for (weft_fiber *f; (f = wf_fifo_pop(&s->injected)) != NULL; count++)
        drop(f);
    for (unsigned i = 0; i < s->workers; i++) {
        struct wf_inbox_node *next = wf_inbox_take_all(&s->worker[i]->inbox);
        for (struct wf_inbox_node *node = next; node; node = next) {
            next = node->next;
            if (node == &s->worker[i]->nudge)
                continue;
            drop(WF_FIBER_OF(node, link));
            count++;
        }
    }
    return count;
}

/*
 * Work that was given to it and never ran. What is pending comes to an inbox when it is cancelled here, or by another
 * thread that may just be about to send it.
 */
static void drop_all(weft_sched *s)
{
    uint64_t given = s->life == WF_NEW ? wf_load(&s->spawned_outside) : 0; /* one that has stopped has none left */
    for (uint64_t dropped = drop_queued(s); dropped < given; dropped += drop_queued(s)) {
        wf_pending_cancel_all(s);
        sched_yield();
    }
}

/* A fiber that has ended, and that nobody has joined, outlives its scheduler. */
static void forget_worker(weft_fiber *f, void *s)
{
    if (wf_load(&f->sched) == s)
        wf_store(&f->home, NULL);
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
    drop_all(s);
    if (s->use_caller)
        wf_worker_leave(s->worker[0]);
    while (wf_load_acquire(&s->senders) != 0) /* pairs with wf_worker_send */
        sched_yield();
    wf_pool_walk(forget_worker, s);
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
