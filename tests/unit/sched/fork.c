/*
 * What the child of a fork finds of fibers, timers, schedulers and what they share: the fiber that forked is there, and all
 * others are lost. They never run, nobody gives them anything, and who has a handle of one is told.
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "sync/chan.h"
#include "unit/sched/ground.h"

/* How many of the parent's fibers and timers ran in a child. Shared with children. */
static int *strays; /* atomic */
static pid_t parent;

static void begin(void)
{
    if (!strays)
        strays = mmap(NULL, sizeof *strays, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    parent = getpid();
    put(strays, 0);
}

static bool is_stray(void)
{
    if (getpid() != parent)
        more(strays);
    return getpid() != parent;
}

/* A child goes on in body(arg), and ends by _exit; its failed checks are the test's. */
static void forks(void (*body)(void *), void *arg)
{
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        body(arg);
        _exit(0);
    }
    CHECK_INT(weft_wait_child(pid, &status, weft_in(100 * WEFT_SEC)), ==, 0);
    CHECK_INT(status, ==, 0);
    CHECK_INT(seen(strays), ==, 0);
}

/* Until every worker has run something: what it was at before is done, and it has let go of what that was about. */
static void settle_workers(void)
{
    weft_fiber *f;
    for (int i = 0; weft_go_with(&f, &(weft_attr){.worker = WEFT_WORKER(i)}, returns_at_once, NULL) == 0; i++)
        ended(f);
}

#define SKIP_UNDER_TSAN()                                                                                              \
    do {                                                                                                               \
        if (WF_TSAN)                                                                                                   \
            SKIP("after a fork TSan takes every fiber but the current one for ended");                                 \
    } while (0)

/* A sanitizer's own locks, and an emulator's, do not survive a fork beside other threads. */
enum { NOT_BESIDE_THREADS = WF_ASAN || WF_TSAN || TEST_EMULATED };

/* The most workers of a parent whose child allocates memory. */
enum { SEVERAL = NOT_BESIDE_THREADS ? 1 : 3 };

#define SKIP_BESIDE_THREADS()                                                                                          \
    do {                                                                                                               \
        if (NOT_BESIDE_THREADS)                                                                                        \
            SKIP("the locks of a sanitizer or an emulator do not survive a fork beside other threads");                \
    } while (0)

/* Runs a test's body as a fiber, with one worker and with several. */
#define FORKING(name)                                                                                                  \
    static void *name##_body(void *arg);                                                                               \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        SKIP_UNDER_TSAN();                                                                                             \
        begin();                                                                                                       \
        in_a_fiber(1, name##_body, NULL);                                                                              \
        in_a_fiber(SEVERAL, name##_body, NULL);                                                                        \
    }                                                                                                                  \
    static void *name##_body(void *arg)

/* ---- handles ---- */

static void *parks_once(void *arg)
{
    weft_park(WEFT_FOREVER);
    is_stray();
    return arg;
}

struct handles {
    weft_fiber *parked, *ready, *done, *fresh, *detached;
};

static void uses_handles(void *arg)
{
    struct handles *h = arg;
    void *value = NULL;
    CHECK_INT(count_fibers(), ==, 3); /* itself, the one that has ended, and the one that is the user's own */
    CHECK_INT(weft_join(h->parked, &value, WEFT_FOREVER), ==, -ESRCH);
    CHECK_INT(weft_fiber_state(h->parked), ==, WEFT_FIBER_DONE);
    CHECK_STR(weft_fiber_waits_for(h->parked, NULL), "");
    CHECK_INT(weft_cancel(h->parked), ==, -ESRCH);
    CHECK_INT(weft_detach(h->parked), ==, -ESRCH);
    CHECK_INT(weft_sched_submit(weft_sched_current(), h->parked, 0), ==, -ESRCH);
    weft_unpark(h->parked);
    weft_unpark(h->detached);
    CHECK_INT(weft_join(h->ready, &value, weft_in(WEFT_MS)), ==, -ESRCH);
    CHECK_INT(weft_join(h->done, &value, WEFT_FOREVER), ==, 0); /* it had ended, and its value is here */
    CHECK_PTR(value, ==, ptr(77));
    CHECK_INT(weft_sched_submit(weft_sched_current(), h->fresh, WEFT_WORKER(1)), ==, -EINVAL);
    CHECK_INT(weft_sched_submit(weft_sched_current(), h->fresh, 0), ==, 0);
    CHECK_PTR(ended(h->fresh), ==, ptr(88));
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    CHECK_INT(count_fibers(), ==, 1);
}

static void *notes_itself(void *arg)
{
    *(weft_fiber **)arg = weft_fiber_current();
    return parks_once(arg);
}

static void *yields_until(void *arg)
{
    while (!seen(arg)) {
        is_stray();
        weft_yield();
    }
    return NULL;
}

FORKING(who_has_a_handle_of_a_lost_one_is_told)
{
    struct handles h = {.parked = go(parks_once, NULL), .done = go(returns_at_once, ptr(77))};
    int stop = 0;
    h.ready = go(yields_until, &stop);
    CHECK_INT(weft_fiber_new(&h.fresh, NULL, returns_at_once, ptr(88)), ==, 0);
    CHECK_INT(weft_go(notes_itself, &h.detached), ==, 0);
    AWAIT(is_parked(h.parked) && weft_fiber_state(h.done) == WEFT_FIBER_DONE);
    AWAIT(__atomic_load_n(&h.detached, __ATOMIC_ACQUIRE) && is_parked(h.detached));
    settle_workers();
    forks(uses_handles, &h);
    put(&stop, 1);
    CHECK_PTR(ended(h.done), ==, ptr(77));
    weft_unpark(h.parked);
    weft_unpark(h.detached);
    ended(h.parked);
    ended(h.ready);
    CHECK_INT(weft_sched_submit(weft_sched_current(), h.fresh, 0), ==, 0);
    CHECK_PTR(ended(h.fresh), ==, ptr(88));
    return arg;
}

struct wake {
    weft_fiber *parked;
    int step; /* atomic */
};

static void *wakes_it_from_elsewhere(void *arg)
{
    struct wake *w = arg;
    while (!seen(&w->step))
        ;
    weft_unpark(w->parked);
    put(&w->step, 2);
    return NULL;
}

static void yields_a_little(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++)
        weft_yield();
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
}

/* On worker 0: somebody on another worker wakes a fiber of this one, which cannot have run before the fork. */
static void *forks_after_a_wake(void *arg)
{
    struct wake w = {0};
    weft_fiber *waker = NULL;
    CHECK_INT(weft_go_with(&w.parked, &(weft_attr){.worker = WEFT_WORKER(0)}, parks_once, NULL), ==, 0);
    CHECK_INT(weft_go_with(&waker, &(weft_attr){.worker = WEFT_WORKER(1)}, wakes_it_from_elsewhere, &w), ==, 0);
    AWAIT(is_parked(w.parked));
    put(&w.step, 1);
    while (seen(&w.step) != 2)
        ;
    forks(yields_a_little, NULL);
    ended(w.parked);
    ended(waker);
    return arg;
}

static void *forks_on_worker_0(void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_go_with(&f, &(weft_attr){.worker = WEFT_WORKER(0)}, forks_after_a_wake, NULL), ==, 0);
    ended(f);
    return arg;
}

TEST(one_that_was_just_woken_is_lost)
{
    SKIP_BESIDE_THREADS();
    begin();
    in_a_fiber(2, forks_on_worker_0, NULL);
}

/* The same for one that may move, which this fiber wakes: no worker has taken it before the fork. */
static void *forks_after_an_offer(void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_fiber_new(&f, &(weft_attr){.flags = WEFT_MIGRATE}, parks_once, NULL), ==, 0);
    CHECK_INT(weft_sched_submit(weft_sched_current(), f, WEFT_WORKER(0)), ==, 0);
    AWAIT(is_parked(f));
    weft_unpark(f);
    forks(yields_a_little, NULL);
    ended(f);
    return arg;
}

TEST(one_that_was_just_offered_is_lost)
{
    SKIP_BESIDE_THREADS();
    begin();
    weft_sched *s = running_sched(2);
    for (int i = 0; i < 10; i++) {
        weft_fiber *f = NULL;
        CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.worker = WEFT_WORKER(0)}, forks_after_an_offer, NULL), ==, 0);
        ended(f);
    }
    end_sched(s);
}

/* ---- what is shared ---- */

struct shared {
    weft_chan *chan;
    weft_mutex mutex;
    weft_sem sem;
    weft_event event;
    weft_waitgroup group;
};

static void *receives(void *arg)
{
    int n = 0, rc = weft_chan_recv(((struct shared *)arg)->chan, &n, WEFT_FOREVER);
    is_stray();
    return ptr(rc == 0 ? n : rc);
}

static void *locks(void *arg)
{
    struct shared *s = arg;
    CHECK_INT(weft_mutex_lock(&s->mutex, WEFT_FOREVER), ==, 0);
    is_stray();
    CHECK_INT(weft_mutex_unlock(&s->mutex), ==, 0);
    return NULL;
}

static void *takes_one(void *arg)
{
    CHECK_INT(weft_sem_wait(&((struct shared *)arg)->sem, WEFT_FOREVER), ==, 0);
    is_stray();
    return NULL;
}

static void *waits_for_all(void *arg)
{
    struct shared *s = arg;
    CHECK_INT(weft_event_wait(&s->event, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_waitgroup_wait(&s->group, WEFT_FOREVER), ==, 0);
    is_stray();
    return NULL;
}

/* What a lost one waits for goes to those who are here. */
static void uses_what_is_shared(void *arg)
{
    struct shared *s = arg;
    int n = 5;
    CHECK_INT(weft_chan_send(s->chan, &n, WEFT_NOW), ==, -EAGAIN); /* nobody receives */
    weft_fiber *f = go(receives, s);
    parent = getpid(); /* those that begin here are no strays */
    CHECK_INT(weft_chan_send(s->chan, &n, weft_in(100 * WEFT_SEC)), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(5));
    CHECK_INT(weft_mutex_unlock(&s->mutex), ==, 0); /* to nobody */
    CHECK_INT(weft_mutex_lock(&s->mutex, WEFT_NOW), ==, 0);
    f = go(locks, s);
    AWAIT(is_parked(f));
    CHECK_INT(weft_mutex_unlock(&s->mutex), ==, 0);
    ended(f);
    CHECK_INT(weft_sem_post(&s->sem), ==, 0);
    CHECK_INT(weft_sem_wait(&s->sem, WEFT_NOW), ==, 0); /* nobody else took it */
    f = go(waits_for_all, s);
    AWAIT(is_parked(f));
    CHECK_INT(weft_event_set(&s->event), ==, 0);
    CHECK_INT(weft_waitgroup_done(&s->group), ==, 0);
    ended(f);
    CHECK_INT(weft_chan_close(s->chan), ==, 0);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
}

FORKING(what_lost_ones_wait_for_goes_to_others)
{
    struct shared s = {.sem = WEFT_SEM(0)};
    weft_fiber *f[4];
    int n = 6;
    CHECK_INT(weft_chan_new(&s.chan, sizeof n, 0), ==, 0);
    CHECK_INT(weft_waitgroup_add(&s.group, 1), ==, 0);
    CHECK_INT(weft_mutex_lock(&s.mutex, WEFT_FOREVER), ==, 0);
    weft_fn *fns[] = {receives, locks, takes_one, waits_for_all};
    for (int i = 0; i < 4; i++) {
        f[i] = go(fns[i], &s);
        AWAIT(is_parked(f[i]));
    }
    settle_workers();
    forks(uses_what_is_shared, &s);
    CHECK_INT(weft_chan_send(s.chan, &n, WEFT_FOREVER), ==, 0);
    CHECK_PTR(ended(f[0]), ==, ptr(6));
    CHECK_INT(weft_mutex_unlock(&s.mutex), ==, 0);
    CHECK_INT(weft_sem_post(&s.sem), ==, 0);
    CHECK_INT(weft_event_set(&s.event), ==, 0);
    CHECK_INT(weft_waitgroup_done(&s.group), ==, 0);
    for (int i = 1; i < 4; i++)
        ended(f[i]);
    CHECK_INT(weft_chan_free(s.chan), ==, 0);
    return arg;
}

static size_t count_waiting(weft_chan *c)
{
    wf_lock(&c->lock);
    size_t count = c->waiting;
    wf_unlock(&c->lock);
    return count;
}

static void *thread_receives(void *arg)
{
    return receives(arg);
}

static void sends_past_a_thread(void *arg)
{
    struct shared *s = arg;
    int n = 5;
    CHECK_INT(weft_chan_send(s->chan, &n, WEFT_NOW), ==, -EAGAIN);
}

/* A thread of the parent that waits is lost as well. */
FORKING(a_lost_thread_is_given_nothing)
{
    struct shared s = {0};
    int n = 6;
    CHECK_INT(weft_chan_new(&s.chan, sizeof n, 0), ==, 0);
    pthread_t t = new_thread(thread_receives, &s);
    AWAIT(count_waiting(s.chan) == 1);
    forks(sends_past_a_thread, &s);
    CHECK_INT(weft_chan_send(s.chan, &n, WEFT_FOREVER), ==, 0);
    pthread_join(t, NULL);
    CHECK_INT(weft_chan_free(s.chan), ==, 0);
    return arg;
}

/* ---- timers ---- */

static void beats(void *arg)
{
    if (!is_stray())
        more(arg);
}

struct timers {
    weft_timer *pending, *recurring, *fired;
    int beats;
};

static void uses_timers(void *arg)
{
    struct timers *t = arg;
    int before = seen(&t->beats);
    CHECK_INT(weft_timer_next(t->pending).ns, ==, INT64_MAX);
    CHECK_INT(weft_timer_next(NULL).ns, ==, INT64_MAX);
    CHECK_INT(weft_timer_refresh(t->recurring), ==, -ESRCH);
    CHECK_INT(weft_timer_reset(t->recurring, WEFT_MS, true), ==, -ESRCH);
    CHECK_INT(weft_timer_cancel(t->pending), ==, 0);
    CHECK_INT((long)weft_timer_missed(t->pending), ==, 0);
    CHECK_INT(weft_sleep(10 * WEFT_MS), ==, 0);
    CHECK_INT(seen(&t->beats), ==, before);
    CHECK_INT(weft_timer_free(t->pending), ==, 0);
    CHECK_INT(weft_timer_free(t->recurring), ==, 0);
    CHECK_INT(weft_timer_free(t->fired), ==, 0);
    parent = getpid();
    CHECK_INT(weft_timer_new(&t->recurring, WEFT_MS, true, NULL, beats, &t->beats), ==, 0);
    AWAIT(seen(&t->beats) > before + 3);
    CHECK_INT(weft_timer_free(t->recurring), >=, 0);
}

FORKING(timers_of_the_parent_do_not_fire_in_a_child)
{
    struct timers t = {0};
    CHECK_INT(weft_timer_new(&t.pending, 5 * WEFT_MS, false, NULL, beats, &t.beats), ==, 0);
    CHECK_INT(weft_timer_new(&t.recurring, 2 * WEFT_MS, true, NULL, beats, &t.beats), ==, 0);
    CHECK_INT(weft_timer_new(&t.fired, 0, false, NULL, beats, &t.beats), ==, 0);
    AWAIT(seen(&t.beats) > 0);
    forks(uses_timers, &t);
    int before = seen(&t.beats);
    AWAIT(seen(&t.beats) > before + 3);
    CHECK_INT(weft_timer_free(t.pending), >=, 0);
    CHECK_INT(weft_timer_free(t.recurring), >=, 0);
    CHECK_INT(weft_timer_free(t.fired), ==, 0);
    return arg;
}

struct forking_timer {
    weft_timer *timer;
    int beats, children;
    bool frees;
};

static void forks_in_a_callback(void *arg)
{
    struct forking_timer *t = arg;
    int status = -1;
    if (more(&t->beats) > 3)
        return;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (t->frees)
            CHECK_INT(weft_timer_free(t->timer), ==, 0);
        CHECK_INT(weft_sleep(3 * WEFT_MS), ==, 0);
        return; /* the timer is not there any more, nor is anything else: the child ends */
    }
    CHECK_INT(weft_wait_child(pid, &status, weft_in(100 * WEFT_SEC)), ==, 0);
    CHECK_INT(status, ==, 0);
    more(&t->children);
}

static void *awaits_children_of_a_timer(void *arg)
{
    struct forking_timer *t = arg;
    CHECK_INT(weft_timer_new(&t->timer, WEFT_MS, true, NULL, forks_in_a_callback, t), ==, 0);
    AWAIT((weft_sleep(WEFT_MS), seen(&t->children) == 3 && seen(&t->beats) > 5));
    CHECK_INT(weft_timer_free(t->timer), >=, 0);
    return NULL;
}

TEST(a_callback_forks)
{
    SKIP_UNDER_TSAN();
    for (int frees = 0; frees < 2; frees++) {
        for (unsigned workers = 1; workers <= SEVERAL; workers++) {
            struct forking_timer t = {.frees = frees};
            begin();
            int rc = weft_run(awaits_children_of_a_timer, &t, NULL, &(weft_sched_opts){.threads = workers});
            if (getpid() != parent)
                _exit(rc != -ESRCH); /* its first fiber was not there */
            CHECK_INT(rc, ==, 0);
            CHECK_INT(t.beats, >, 5);
        }
    }
}

/* ---- other schedulers ---- */

struct scheds {
    weft_sched *runs, *fresh, *stopped;
    weft_fiber *queued, *in_other;
};

static void frees_others(struct scheds *s)
{
    CHECK_INT(weft_sched_go(s->runs, NULL, NULL, returns_at_once, NULL), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_go(s->runs, NULL, &(weft_attr){.worker = WEFT_WORKER(0)}, returns_at_once, NULL), ==,
              -ESHUTDOWN);
    CHECK_INT(weft_sched_start(s->runs), ==, -ESHUTDOWN);
    CHECK_INT(weft_sched_run(s->runs, WEFT_FOREVER), ==, -ESHUTDOWN);
    CHECK_INT(figures(s->runs).workers, ==, 0);
    CHECK_INT(weft_sched_tid(s->runs, 0), ==, -ESRCH);
    CHECK_INT(weft_join(s->in_other, NULL, WEFT_FOREVER), ==, -ESRCH);
    CHECK_INT(weft_sched_stop(s->runs, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_free(s->runs), ==, 0);
}

static void uses_scheds(void *arg)
{
    struct scheds *s = arg;
    frees_others(s);
    if (weft_fiber_current())
        CHECK_INT(weft_sched_stop(weft_sched_current(), WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_sched_start(s->fresh), ==, 0); /* nobody had begun what it has */
    CHECK_PTR(ended(s->queued), ==, ptr(9));
    CHECK_PTR(ended(go_on(s->fresh, returns_at_once, ptr(10))), ==, ptr(10));
    end_sched(s->fresh);
    CHECK_INT(weft_sched_start(s->stopped), ==, 0);
    CHECK_PTR(ended(go_on(s->stopped, returns_at_once, ptr(11))), ==, ptr(11));
    end_sched(s->stopped);
}

static void begin_scheds(struct scheds *s)
{
    *s = (struct scheds){.runs = running_sched(2), .fresh = new_sched(2, false), .stopped = running_sched(2)};
    s->queued = go_on(s->fresh, returns_at_once, ptr(9));
    s->in_other = go_on(s->runs, parks_once, NULL);
    ended(go_on(s->stopped, returns_at_once, NULL));
    CHECK_INT(weft_sched_stop(s->stopped, WEFT_FOREVER), ==, 0);
    AWAIT(is_parked(s->in_other));
}

static void end_scheds(struct scheds *s)
{
    weft_unpark(s->in_other);
    ended(s->in_other);
    end_sched(s->runs);
    CHECK_INT(weft_sched_start(s->fresh), ==, 0);
    CHECK_PTR(ended(s->queued), ==, ptr(9));
    end_sched(s->fresh);
    CHECK_INT(weft_sched_free(s->stopped), ==, 0);
}

static void *forks_beside_scheds(void *arg)
{
    struct scheds s;
    begin_scheds(&s);
    forks(uses_scheds, &s);
    end_scheds(&s);
    return arg;
}

TEST(schedulers_that_ran_are_over_and_others_are_as_they_were)
{
    SKIP_BESIDE_THREADS();
    begin();
    in_a_fiber(1, forks_beside_scheds, NULL);
    in_a_fiber(3, forks_beside_scheds, NULL);
}

TEST(so_they_are_for_a_plain_thread)
{
    SKIP_BESIDE_THREADS();
    begin();
    forks_beside_scheds(NULL);
}

static void begins_anew_as_worker_0(void *arg)
{
    weft_sched *s = arg;
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, -ESHUTDOWN);
    in_a_fiber(2, returns_at_once, NULL); /* this thread is nobody's worker 0 */
    CHECK_INT(weft_sched_free(s), ==, 0);
}

static void asks_for_its_thread(void *arg)
{
    weft_sched *s = arg ? arg : weft_sched_current();
    CHECK_INT(weft_sched_tid(s, 0), ==, gettid());
}

FORKING(worker_0_of_the_child_is_its_only_thread)
{
    int tid = weft_sched_tid(weft_sched_current(), 0);
    forks(asks_for_its_thread, NULL);
    CHECK_INT(weft_sched_tid(weft_sched_current(), 0), ==, tid);
    return arg;
}

static void finds_no_thread(void *s)
{
    CHECK_INT(weft_sched_tid(s, 0), ==, -ESRCH);
}

static void *forks_beside_worker_0(void *s)
{
    forks(finds_no_thread, s);
    return NULL;
}

TEST(worker_0_that_did_not_run_is_the_thread_of_the_child_if_that_forked)
{
    SKIP_UNDER_TSAN();
    begin();
    weft_sched *s = new_sched(2, true);
    forks(asks_for_its_thread, s);
    pthread_join(new_thread(forks_beside_worker_0, s), NULL);
    CHECK_INT(weft_sched_tid(s, 0), ==, gettid());
    CHECK_INT(weft_sched_free(s), ==, 0);
}

/* Worker 0 forks outside of its loop. */
TEST(the_thread_of_worker_0_forks)
{
    SKIP_UNDER_TSAN();
    begin();
    weft_sched *s = new_sched(2, true);
    weft_fiber *f = go_on(s, parks_once, NULL);
    CHECK_INT(weft_sched_run(s, weft_in(5 * WEFT_MS)), ==, -ETIMEDOUT);
    forks(begins_anew_as_worker_0, s);
    weft_unpark(f);
    CHECK_INT(weft_sched_run(s, WEFT_FOREVER), ==, 0);
    ended(f);
    end_sched(s);
}

/* ---- where it runs ---- */

static void goes_on_under_a_policy(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        weft_yield();
        CHECK_PTR(ended(go(returns_at_once, ptr(i))), ==, ptr(i));
        CHECK_INT(weft_sleep(100 * WEFT_US), ==, 0);
    }
}

static void *forks_under_a_policy(void *arg)
{
    int stop = 0;
    weft_fiber *f[8];
    for (int i = 0; i < 8; i++)
        f[i] = go(yields_until, &stop);
    weft_yield();
    forks(goes_on_under_a_policy, NULL);
    put(&stop, 1);
    for (int i = 0; i < 8; i++)
        ended(f[i]);
    return arg;
}

TEST(a_child_goes_on_under_every_policy)
{
    const weft_policy *policies[] = {&weft_fifo, &weft_priority, &weft_sjf, &weft_hrrn, &weft_rr, &weft_edf};
    SKIP_UNDER_TSAN();
    begin();
    for (int i = 0; i < 7; i++) {
        for (unsigned workers = 1; workers <= SEVERAL; workers++) {
            weft_sched_opts opts = {
                .threads = workers, .policy = policies[i % 6], .dispatch = i == 6 ? WEFT_DIRECT : WEFT_QUEUE};
            CHECK_INT(weft_run(forks_under_a_policy, NULL, NULL, &opts), ==, 0);
        }
    }
}

static weft_stacks *pool;

static void *counts_up(void *arg)
{
    volatile int local = 0;
    for (int i = 0; i < 50; i++) {
        local++;
        weft_yield();
        CHECK_INT(local, ==, i + 1);
    }
    return arg;
}

static void uses_shared_stacks(void *arg)
{
    weft_fiber *f[6];
    for (int i = 0; i < 6; i++) {
        f[i] = NULL;
        CHECK_INT(weft_go_with(&f[i], &(weft_attr){.shared = pool}, counts_up, ptr(i)), ==, 0);
    }
    for (int i = 0; i < 6; i++)
        CHECK_PTR(ended(f[i]), ==, ptr(i));
    (void)arg;
}

static void *forks_on_a_shared_stack(void *arg)
{
    volatile int local = 3;
    forks(uses_shared_stacks, NULL);
    weft_sleep(WEFT_MS);
    CHECK_INT(local, ==, 3);
    return arg;
}

FORKING(a_child_goes_on_on_a_shared_stack_and_beside_it)
{
    weft_fiber *f[7];
    int stop = 0;
    CHECK_INT(weft_stacks_new(&pool, 3, 0), ==, 0);
    for (int i = 0; i < 7; i++) {
        weft_fn *fns[] = {yields_until, parks_once, forks_on_a_shared_stack};
        f[i] = NULL;
        CHECK_INT(weft_go_with(&f[i], &(weft_attr){.shared = pool}, fns[i % 3], i % 3 == 0 ? &stop : NULL), ==, 0);
    }
    weft_yield();
    forks(uses_shared_stacks, NULL);
    for (int i = 2; i < 7; i += 3)
        ended(f[i]);
    put(&stop, 1);
    for (int i = 0; i < 7; i++) {
        if (i % 3 == 1)
            weft_unpark(f[i]);
        if (i % 3 != 2)
            ended(f[i]);
    }
    CHECK_INT(weft_stacks_free(pool), ==, 0);
    return arg;
}

static void waits_inside(void *arg)
{
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    CHECK_PTR(weft_coro_current(), ==, arg);
    CHECK_PTR(ended(go(returns_at_once, ptr(4))), ==, ptr(4));
}

static void *forks_in_a_coroutine(void *arg)
{
    forks(waits_inside, weft_coro_current());
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    return arg;
}

FORKING(a_coroutine_inside_of_a_fiber_forks)
{
    weft_coro *c;
    CHECK_INT(weft_coro_new(&c, forks_in_a_coroutine, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    return arg;
}

/* ---- beside others who hold the library's locks as often as they can ---- */

static int busy;      /* atomic */
static FILE *nowhere; /* const while others are busy */

static void *makes_coroutines(void *arg)
{
    weft_coro *c;
    CHECK_INT(weft_coro_new(&c, returns_at_once, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
    weft_stack_trim();
    return arg;
}

static void *makes_fibers(void *arg)
{
    weft_fiber *f = NULL;
    int rc = weft_go_with(&f, &(weft_attr){.shared = arg ? pool : NULL}, returns_at_once, NULL);
    if (rc == 0)
        ended(f);
    else
        CHECK_INT(rc, ==, -EBUSY); /* the stacks of the pool are other workers' */
    return arg;
}

static void *makes_timers(void *arg)
{
    weft_timer *t;
    CHECK_INT(weft_timer_new(&t, WEFT_SEC, false, NULL, beats, NULL), ==, 0);
    CHECK_INT(weft_timer_free(t), ==, 1);
    return arg;
}

static void *offloads(void *arg)
{
    CHECK_INT(weft_offload(returns_at_once, NULL, NULL, weft_in(100 * WEFT_SEC)), ==, 0);
    return arg;
}

static void *dumps(void *arg)
{
    CHECK_INT(weft_dump(nowhere), >, 0);
    return arg;
}

static void *makes_scheds(void *arg)
{
    weft_sched *s = new_sched(1, false);
    CHECK_INT(weft_sched_go(s, NULL, NULL, returns_at_once, NULL), ==, 0);
    end_sched(s);
    return arg;
}

static weft_fn *const all_calls[] = {makes_coroutines, makes_fibers, makes_timers, offloads, dumps, makes_scheds};

enum { CALLS = sizeof all_calls / sizeof all_calls[0] };

static void *makes_one_again_and_again(void *arg)
{
    while (seen(&busy)) {
        all_calls[(intptr_t)arg](ptr((intptr_t)arg % 2));
        weft_yield();
    }
    return NULL;
}

static void makes_all_calls(void *arg)
{
    (void)arg;
    for (int i = 0; i < CALLS; i++) {
        all_calls[i](NULL);
        all_calls[i](ptr(1));
    }
}

static void *joins_a_thread(void *arg)
{
    CHECK_INT(pthread_join(*(pthread_t *)arg, NULL), ==, 0);
    return NULL;
}

static void *forks_beside_all(void *arg)
{
    pthread_t threads[CALLS];
    weft_fiber *fibers[CALLS];
    CHECK_INT(weft_stacks_new(&pool, 2, 0), ==, 0);
    put(&busy, 1);
    for (int i = 0; i < CALLS; i++) {
        threads[i] = new_thread(makes_one_again_and_again, ptr(i));
        fibers[i] = go(makes_one_again_and_again, ptr(i));
    }
    for (int i = 0; i < 10; i++)
        forks(makes_all_calls, NULL);
    put(&busy, 0);
    for (int i = 0; i < CALLS; i++) {
        ended(fibers[i]);
        CHECK_INT(weft_offload(joins_a_thread, &threads[i], NULL, WEFT_FOREVER), ==, 0);
    }
    CHECK_INT(weft_stacks_free(pool), ==, 0);
    return arg;
}

TEST(a_fork_beside_busy_threads_leaves_a_child_that_works)
{
    SKIP_BESIDE_THREADS();
    begin();
    nowhere = fopen("/dev/null", "we");
    REQUIRE(nowhere);
    in_a_fiber(1, forks_beside_all, NULL);
    in_a_fiber(4, forks_beside_all, NULL);
    fclose(nowhere);
}

/* A thread that is held up while it has the pool of records locked. */
struct hold {
    pthread_t thread;
    int begun, held, release; /* atomic */
};

static void holds_up(void *arg)
{
    struct hold *h = arg;
    if (!seen(&h->begun) || !pthread_equal(pthread_self(), h->thread))
        return;
    put(&h->held, 1);
    while (!seen(&h->release))
        breathe();
}

static void *takes_records_until_held(void *arg)
{
    enum { MOST = 20000 };
    struct hold *h = arg;
    static weft_fiber *made[MOST];
    int n = 0;
    h->thread = pthread_self();
    put(&h->begun, 1);
    while (!seen(&h->held) && n < MOST && weft_fiber_new(&made[n], NULL, returns_at_once, NULL) == 0)
        n++;
    CHECK_INT(n, <, MOST);
    while (n > 0)
        CHECK_INT(weft_detach(made[--n]), ==, 0);
    return NULL;
}

static void *releases_soon(void *arg)
{
    struct timespec pause = {.tv_nsec = 30000000};
    nanosleep(&pause, NULL); /* by then the fork waits, or has gone wrong */
    put(arg, 1);
    return NULL;
}

static void counts_the_records(void *arg)
{
    (void)arg;
    CHECK_INT(count_fibers(), >=, 1); /* and it is not locked */
}

FORKING(a_fork_waits_for_who_has_the_pool_locked)
{
    struct hold h = {0};
    wf_sys_before(1u << WF_SYS_MMAP, holds_up, &h);
    pthread_t taker = new_thread(takes_records_until_held, &h);
    AWAIT(seen(&h.held));
    pthread_t releaser = new_thread(releases_soon, &h.release);
    forks(counts_the_records, NULL);
    pthread_join(taker, NULL);
    pthread_join(releaser, NULL);
    wf_sys_before(0, NULL, NULL);
    return arg;
}

/* ---- cancelled ones ---- */

static void *forks_when_cancelled(void *arg)
{
    CHECK_INT(weft_park(WEFT_FOREVER), ==, -ECANCELED);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int count = 0;
        CHECK(weft_cancelled());
        CHECK_INT(weft_sleep(WEFT_SEC), ==, -ECANCELED);
        CHECK_INT(weft_go(counts, &count), ==, 0);
        weft_yield();
        CHECK_INT(count, ==, 1);
        _exit(0);
    }
    return (void)arg, ptr(pid);
}

FORKING(a_cancelled_one_is_so_in_a_child)
{
    weft_fiber *f = go(forks_when_cancelled, NULL);
    int status = -1;
    AWAIT(is_parked(f));
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT(weft_wait_child((pid_t)(intptr_t)ended(f), &status, WEFT_FOREVER), ==, 0);
    CHECK_INT(status, ==, 0);
    return arg;
}

TESTS(sched_fork, who_has_a_handle_of_a_lost_one_is_told, one_that_was_just_woken_is_lost,
      one_that_was_just_offered_is_lost, what_lost_ones_wait_for_goes_to_others, a_lost_thread_is_given_nothing,
      timers_of_the_parent_do_not_fire_in_a_child, a_callback_forks,
      schedulers_that_ran_are_over_and_others_are_as_they_were, so_they_are_for_a_plain_thread,
      worker_0_of_the_child_is_its_only_thread, worker_0_that_did_not_run_is_the_thread_of_the_child_if_that_forked,
      the_thread_of_worker_0_forks, a_child_goes_on_under_every_policy, a_child_goes_on_on_a_shared_stack_and_beside_it,
      a_coroutine_inside_of_a_fiber_forks, a_fork_waits_for_who_has_the_pool_locked, a_cancelled_one_is_so_in_a_child,
      a_fork_beside_busy_threads_leaves_a_child_that_works)
