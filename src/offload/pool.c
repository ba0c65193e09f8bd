/*
 * offload/pool.c: the helpers; see pool.h. Everything is under one lock, which is never held in a call, while a thread is
 * made, or while anybody is woken.
 *
 * Why no job is forgotten. A job may be run if it is queued and its kind has not reached its limit. Whoever may have made
 * more such jobs than there are helpers on their way to look (`coming`: woken or made, and not yet there) calls summon,
 * which wakes an idle one or makes one, unless all that there may be are there. Those look when they are done. A thread
 * that cannot be made leaves the job to the others; if there are none, and none is coming, all jobs are refused.
 */
#include "offload/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/errno.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/fork.h"
#include "base/futex.h"
#include "base/panic.h"
#include "base/plain.h"
#include "base/sys.h"
#include "sched/slice.h"
#include "sched/wait.h"

enum {
    KINDS = WEFT_OFFLOAD_ALL,
    MOST = 64,      /* helpers */
    LARGEST = 1024, /* limit that can be set */
};

#define IDLE_FOR (5 * WEFT_SEC)   /* how long a helper waits for work */
#define LAST_WORDS (1 * WEFT_SEC) /* how long the end of the process waits for idle helpers to end */

struct wf_lock wf_pool_lock;

/* guarded by: wf_pool_lock, but for what says otherwise */
static struct {
    struct {
        struct wf_job *first, **end;
        size_t queued;
        unsigned running, limit; /* limit: 0: the default */
    } kind[KINDS];
    unsigned limit;         /* of all; 0: the default */
    unsigned threads;       /* that there are, or are being made */
    unsigned busy;          /* in a call */
    unsigned coming;        /* woken or made, and going to look for a job */
    struct wf_waiters idle; /* the last to come is the first to go, so that those who are too many stay idle */
    uint64_t next_turn;
    uint32_t generation; /* counts forks: a helper of an earlier one is none */
    uint32_t ends;       /* atomic: helpers that have ended; a futex */
    bool closed;         /* the process ends: nobody stays idle */
    bool has_ended;
    pthread_t ended; /* the last one that ended, which the next one joins */
} pool;

static struct wf_plain_once once;
static unsigned cpus; /* const after set_up */

static unsigned limit_of_all(void)
{
    return pool.limit ? pool.limit : MOST;
}

static unsigned limit_of(int kind)
{
    unsigned half = (limit_of_all() + 1) / 2;
    if (pool.kind[kind].limit)
        return pool.kind[kind].limit;
    return kind == WEFT_OFFLOAD_CPU && cpus < half ? cpus : half;
}

/* How many of the queued jobs of a kind may run now. */
static size_t runnable(int kind)
{
    unsigned limit = limit_of(kind), running = pool.kind[kind].running;
    size_t may = limit > running ? limit - running : 0;
    return pool.kind[kind].queued < may ? pool.kind[kind].queued : may;
}

static void enqueue(struct wf_job *j)
{
    int k = j->errand.kind;
    if (!pool.kind[k].first)
        pool.kind[k].end = &pool.kind[k].first;
    j->turn = pool.next_turn++;
    j->next = NULL;
    j->link = pool.kind[k].end;
    *j->link = j;
    pool.kind[k].end = &j->next;
    pool.kind[k].queued++;
}

static void take_out(struct wf_job *j)
{
    int k = j->errand.kind;
    *j->link = j->next;
    if (j->next)
        j->next->link = j->link;
    else
        pool.kind[k].end = j->link;
    pool.kind[k].queued--;
}

static void becomes(struct wf_job *j, enum wf_job_state from, enum wf_job_state to)
{
    if (wf_unlikely(j->state != from))
        wf_panic("weft_offload", "a job is in state %d, not %d: this is a mistake in the library", (int)j->state,
                 (int)from);
    j->state = to;
}

/* The first that may run, taken out; NULL: there is none. */
static struct wf_job *next_job(void)
{
    struct wf_job *first = NULL;
    for (int k = 0; k < KINDS; k++) {
        struct wf_job *j = pool.kind[k].first;
        if (runnable(k) > 0 && (!first || j->turn < first->turn))
            first = j;
    }
    if (first)
        take_out(first);
    return first;
}

static struct wf_sleeper *win_idle(void)
{
    for (struct wf_waiter *w; (w = pool.idle.last) != NULL;) {
        wf_waiters_remove(&pool.idle, w);
        if (wf_settle(w->who, 0))
            return w->who;
    }
    return NULL;
}

/*
 * Makes ready who waits, and was won. To wake a worker from outside is to touch its scheduler, which could be stopped and
 * freed as soon as this fiber has ended: so the fiber waits until we are out of there. After it the job is the fiber's.
 */
static void tell(struct wf_job *j)
{
    wf_ready(j->who);
    wf_store_release(&j->told, 1); /* pairs with wait_for */
}

/* Makes it; returns without the lock, which was held. */
static void run(struct wf_job *j)
{
    int k = j->errand.kind;
    uint32_t generation = pool.generation;
    becomes(j, WF_JOB_QUEUED, WF_JOB_RUNNING);
    pool.kind[k].running++;
    pool.busy++;
    wf_unlock(&wf_pool_lock);
    void *value = j->errand.fn(j->errand.arg);
    wf_lock(&wf_pool_lock);
    if (generation != pool.generation) { /* fn has forked, and this is the child: nobody here knows of us */
        wf_unlock(&wf_pool_lock);
        _exit(0);
    }
    pool.kind[k].running--;
    pool.busy--;
    bool won = false, left = j->state == WF_JOB_LEFT;
    if (!left) {
        j->value = value;
        becomes(j, WF_JOB_RUNNING, WF_JOB_DONE);
        won = j->who && wf_settle(j->who, 0);
    }
    wf_unlock(&wf_pool_lock);
    if (won)
        tell(j);
    if (left) {
        if (j->errand.drop)
            j->errand.drop(j->errand.arg, value);
        wf_sys_free(j);
    }
}

/* An injected clock moves when a test says so: where there may be one, it is looked at often. */
static weft_time look_again_at(int64_t until)
{
#ifdef WF_SEAM
    (void)until;
    return (weft_time){wf_clock_real() + WEFT_MS};
#else
    return (weft_time){until};
#endif
}

/* Waits to be woken, with the lock, which is released meanwhile. False: not needed any longer. */
static bool stay_idle(int64_t until)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    if (pool.closed || wf_clock_now() >= until)
        return false;
    wf_waiters_add(&pool.idle, &me->node, me);
    int rc = wf_wait_unlocking(me, "work", &wf_pool_lock, look_again_at(until));
    wf_lock(&wf_pool_lock);
    if (rc == 0)
        pool.coming--;
    else
        wf_waiters_remove(&pool.idle, &me->node);
    return true;
}

/* With the lock, which is released. Each joins the one that ended before it, so that at most one is left to be joined. */
static void end(void)
{
    bool has_other = pool.has_ended;
    pthread_t other = pool.ended;
    pool.has_ended = true;
    pool.ended = pthread_self();
    pool.threads--;
    wf_add(&pool.ends, 1);
    wf_unlock(&wf_pool_lock);
    wf_futex_wake(&pool.ends, 1);
    if (has_other)
        wf_plain_join(other);
}

static void summon(void);

static void *helper(void *arg)
{
    pthread_setname_np(pthread_self(), "weft_helper");
    wf_lock(&wf_pool_lock);
    pool.coming--;
    int64_t until = wf_clock_now() + IDLE_FOR;
    while (pool.threads <= limit_of_all()) {
        struct wf_job *j = next_job();
        if (j) {
            run(j);
            until = wf_clock_now() + IDLE_FOR;
            wf_lock(&wf_pool_lock);
        } else if (!stay_idle(until)) {
            break;
        }
    }
    end();
    summon(); /* one too many may leave a job behind that it came for */
    return arg;
}

/* All signals are blocked from its beginning. */
static int make_helper(void)
{
    sigset_t all, kept;
    pthread_t id;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    int rc = wf_sys_thread(&id, helper, NULL);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    return rc;
}

/* There is nobody to run any. */
static void refuse_all(void)
{
    for (int k = 0; k < KINDS; k++) {
        struct wf_job *j;
        wf_lock(&wf_pool_lock);
        while (pool.threads == 0 && (j = pool.kind[k].first) != NULL) {
            take_out(j);
            becomes(j, WF_JOB_QUEUED, WF_JOB_REFUSED);
            bool won = j->who && wf_settle(j->who, 0);
            wf_unlock(&wf_pool_lock);
            if (won)
                tell(j);
            wf_lock(&wf_pool_lock);
        }
        wf_unlock(&wf_pool_lock);
    }
}

/* What is to be done so that somebody comes. */
enum need { NOBODY, WOKEN, MADE };

static enum need look(struct wf_sleeper **idle)
{
    size_t jobs = 0;
    for (int k = 0; k < KINDS; k++)
        jobs += runnable(k);
    if (jobs <= pool.coming)
        return NOBODY;
    *idle = win_idle();
    if (!*idle && pool.threads >= limit_of_all())
        return NOBODY; /* they look when they are done */
    pool.coming++;
    if (!*idle)
        pool.threads++;
    return *idle ? WOKEN : MADE;
}

/* Sees to it that as many come as are needed. Without the lock. */
static void summon(void)
{
    for (;;) {
        struct wf_sleeper *idle;
        wf_lock(&wf_pool_lock);
        enum need need = look(&idle);
        wf_unlock(&wf_pool_lock);
        if (need == NOBODY)
            return;
        if (need == WOKEN) {
            wf_ready(idle);
        } else if (make_helper() != 0) {
            wf_lock(&wf_pool_lock);
            pool.coming--;
            bool none = --pool.threads == 0;
            wf_unlock(&wf_pool_lock);
            if (none)
                refuse_all();
            return; /* else the others will */
        }
    }
}

/* The end of the process: idle helpers end, and are gone when it returns. */
static void close_pool(void)
{
    int64_t until = wf_clock_real() + LAST_WORDS;
    wf_lock(&wf_pool_lock);
    pool.closed = true;
    for (struct wf_sleeper *idle; (idle = win_idle()) != NULL;) {
        pool.coming++;
        wf_unlock(&wf_pool_lock);
        wf_ready(idle);
        wf_lock(&wf_pool_lock);
    }
    while (pool.threads > pool.busy && wf_clock_real() < until) {
        uint32_t ends = wf_load(&pool.ends);
        wf_unlock(&wf_pool_lock);
        wf_futex_wait(&pool.ends, ends, until);
        wf_lock(&wf_pool_lock);
    }
    bool has_ended = pool.has_ended;
    pool.has_ended = false;
    wf_unlock(&wf_pool_lock);
    if (has_ended && !pthread_equal(pool.ended, pthread_self()))
        wf_plain_join(pool.ended);
}

static void lock_pool(void)
{
    wf_lock(&wf_pool_lock);
}

static void unlock_pool(void)
{
    wf_unlock(&wf_pool_lock);
}

/* The child of a fork has no helpers, and those who wait for jobs are not there either. The limits stay. */
static void begin_anew(void)
{
    for (int k = 0; k < KINDS; k++) {
        pool.kind[k].first = NULL;
        pool.kind[k].queued = 0;
        pool.kind[k].running = 0;
    }
    pool.threads = pool.busy = pool.coming = 0;
    pool.idle = (struct wf_waiters){NULL, NULL};
    pool.has_ended = false;
    pool.generation++;
    wf_unlock(&wf_pool_lock);
}

static void set_up(void)
{
    static const struct wf_fork_steps steps = {lock_pool, unlock_pool, begin_anew};
    cpus = wf_cpus();
    wf_fork_join(WF_FORK_OFFLOAD, &steps);
    atexit(close_pool);
}

void wf_pool_put(struct wf_job *j)
{
    wf_plain_once(&once, set_up);
    wf_lock(&wf_pool_lock);
    enqueue(j);
    wf_unlock(&wf_pool_lock);
    summon();
}

enum wf_job_state wf_pool_give_up(struct wf_job *j)
{
    enum wf_job_state state = j->state;
    if (state == WF_JOB_QUEUED)
        take_out(j);
    else if (state == WF_JOB_RUNNING)
        becomes(j, WF_JOB_RUNNING, WF_JOB_LEFT);
    return state;
}

int weft_offload_limit(int kind, unsigned most)
{
    wf_slice_here();
    if (kind < 0 || kind > WEFT_OFFLOAD_ALL || most > LARGEST)
        return -EINVAL;
    wf_plain_once(&once, set_up);
    wf_lock(&wf_pool_lock);
    if (kind == WEFT_OFFLOAD_ALL)
        pool.limit = most;
    else
        pool.kind[kind].limit = most;
    wf_unlock(&wf_pool_lock);
    summon();
    return 0;
}

int weft_offload_stats(weft_offload_figures *out)
{
    wf_slice_here();
    if (!out || out->size == 0 || out->size > sizeof *out)
        return -EINVAL;
    weft_offload_figures all = {.size = out->size};
    wf_lock(&wf_pool_lock);
    all.threads = pool.threads;
    all.busy = pool.busy;
    for (int k = 0; k < KINDS; k++)
        all.queued += pool.kind[k].queued;
    wf_unlock(&wf_pool_lock);
    memcpy(out, &all, out->size);
    return 0;
}
