/*
 * task/executor_async.c: the pool of threads that grows and shrinks.
 *
 * Why no work is left behind. A caller that queues a work wakes an idle thread, or makes a thread. If the pool already
 * has as many threads as it may have, these look at the queue when they are done. A thread ends only if it finds the
 * queue empty under the lock. If a thread cannot be made, the other threads run the work. If there are no others, the
 * caller's work is refused. Other callers may have queued works and relied on the thread that could not be made. The
 * caller that failed to make the thread runs these works.
 */
#include "base/clock.h"
#include "base/cpus.h"
#include "base/errno.h"
#include "base/sys.h"
#include "sched/slice.h"
#include "sched/wait.h"
#include "task/async.h"
#include "task/crew.h"
#include "task/executor.h"

enum { LEAST = 4, LARGEST = 1024 };

int64_t wf_async_idle_ns = WEFT_SEC;

struct async {
    struct wf_crew crew; /* first: wf_crew_free releases the pool through it */
    unsigned max;        /* const: threads */
    struct wf_lock lock;
    struct wf_work *first, **end; /* guarded by: lock */
    unsigned threads;             /* how many look at the queue, or will. guarded by: lock */
    unsigned making;              /* how many of them are not yet made. guarded by: lock */
    struct wf_waiters idle;       /* guarded by: lock */
    bool closed;                  /* guarded by: lock */
};

/* Takes the first work out of the queue; NULL: it is empty. Called with the lock. */
static struct wf_work *pop(struct async *a)
{
    struct wf_work *work = a->first;
    if (work) {
        a->first = work->next_queued;
        if (!a->first)
            a->end = &a->first;
    }
    return work;
}

/* Takes a work out of the queue; false: it is not there. With the lock. */
static bool take_out(struct async *a, struct wf_work *work)
{
    struct wf_work **p = &a->first;
    while (*p && *p != work)
        p = &(*p)->next_queued;
    if (!*p)
        return false;
    *p = work->next_queued;
    if (!*p)
        a->end = p;
    return true;
}

/* Waits for work. Called with the lock, and releases it during the wait. False: no work came for long enough. */
static bool stay_idle(struct async *a)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    wf_waiters_add(&a->idle, &me->node, me);
    int rc = wf_wait_unlocking(me, "work", &a->lock, (weft_time){wf_clock_real() + wf_load(&wf_async_idle_ns)});
    wf_lock(&a->lock);
    if (rc < 0)
        wf_waiters_remove(&a->idle, &me->node);
    return rc == 0 || a->first;
}

static void *run(void *arg)
{
    struct async *a = arg;
    pthread_setname_np(pthread_self(), "weft_async");
    wf_crew_enter(&a->crew);
    wf_lock(&a->lock);
    a->making--;
    for (;;) {
        struct wf_work *work = pop(a);
        if (work) {
            wf_unlock(&a->lock);
            work->turn(work);
            wf_crew_check_fork(a->crew.forks);
            wf_lock(&a->lock);
        } else if (a->closed || !stay_idle(a)) {
            break;
        }
    }
    a->threads--;
    wf_unlock(&a->lock);
    wf_crew_leave(&a->crew);
    return NULL;
}

/* No thread can run what is queued. 0 if `work` is not in the queue, -EAGAIN if it was. Called with the lock. */
static int run_here(struct async *a, struct wf_work *work)
{
    bool refused = take_out(a, work);
    for (struct wf_work *other; a->threads == 0 && (other = pop(a)) != NULL;) {
        wf_unlock(&a->lock);
        other->turn(other);
        wf_lock(&a->lock);
    }
    return refused ? -EAGAIN : 0;
}

static int make_thread(struct async *a, struct wf_work *work)
{
    if (wf_crew_start(&a->crew, run, a) == 0)
        return 0;
    int rc = 0;
    wf_lock(&a->lock);
    a->making--;
    a->threads--;
    if (a->threads == a->making)
        rc = a->threads == 0 ? run_here(a, work) : take_out(a, work) ? -EAGAIN : 0;
    wf_unlock(&a->lock);
    wf_crew_unreserve(&a->crew);
    return rc;
}

static int execute(void *self, void (*fn)(void *), void *arg)
{
    struct async *a = self;
    struct wf_work *work = arg; /* the library's tables are given nothing else */
    work->turn = fn;
    work->next_queued = NULL;
    wf_lock(&a->lock);
    *a->end = work;
    a->end = &work->next_queued;
    struct wf_waiter *won = wf_waiters_win_first(&a->idle, 0);
    bool makes = !won && a->threads < a->max;
    if (makes) {
        a->threads++;
        a->making++;
        wf_crew_reserve(&a->crew); /* from here on another thread may end the last work, and the pool */
    }
    struct wf_sleeper *who = won ? won->who : NULL;
    wf_unlock(&a->lock);
    if (who)
        wf_ready(who);
    return makes ? make_thread(a, work) : 0;
}

static void close_async(void *self)
{
    struct async *a = self;
    wf_crew_close(&a->crew); /* first: once `closed` is set the threads may end */
    struct wf_waiter *all = NULL;
    wf_lock(&a->lock);
    a->closed = true;
    for (struct wf_waiter *w; (w = wf_waiters_win_first(&a->idle, 0)) != NULL;) {
        w->next = all;
        all = w;
    }
    wf_unlock(&a->lock);
    while (all) {
        struct wf_waiter *next = all->next; /* `all` is gone when its owner goes on */
        wf_ready(all->who);
        all = next;
    }
}

static int join_async(void *self, weft_time deadline)
{
    return wf_crew_join(&((struct async *)self)->crew, deadline);
}

static void free_async(void *self)
{
    wf_crew_free(&((struct async *)self)->crew);
}

static void release(struct wf_crew *crew)
{
    wf_sys_free(crew);
}

unsigned wf_async_threads(const weft_executor *x)
{
    struct async *a = x->self;
    wf_lock(&a->lock);
    unsigned threads = a->threads;
    wf_unlock(&a->lock);
    return threads;
}

static unsigned default_max(void)
{
    unsigned twice = 2 * wf_cpus();
    return twice < LEAST ? LEAST : twice > LARGEST ? LARGEST : twice;
}

int weft_executor_async(weft_executor **out, unsigned max_threads)
{
    static const weft_executor_ops ops = {.size = sizeof ops,
                                          .name = "async",
                                          .execute = execute,
                                          .close = close_async,
                                          .join = join_async,
                                          .free = free_async};
    wf_slice_here();
    if (!out || max_threads > LARGEST)
        return -EINVAL;
    struct async *a = wf_sys_malloc(sizeof *a);
    if (!a)
        return -ENOMEM;
    *a = (struct async){.max = max_threads ? max_threads : default_max()};
    a->end = &a->first;
    wf_crew_init(&a->crew, release);
    return wf_executor_make(out, &ops, a, true);
}
