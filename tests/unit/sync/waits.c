/*
 * What holds for every wait of weft/sync.h alike: deadlines, cancellation, giving up, waiting on a shared stack, and
 * where an object may be.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "support/locals.h"
#include "unit/sync/crew.h"

/* One object of any kind, and what some of them need to be in the way. */
struct thing {
    union {
        weft_mutex mutex;
        weft_rmutex rmutex;
        weft_rwlock rwlock;
        weft_cond cond;
        weft_sem sem;
        weft_waitgroup group;
        weft_once once;
        weft_event event;
        weft_barrier barrier;
    };
    weft_mutex beside;     /* the condition's mutex */
    weft_event began, end; /* the call that once waits for */
    pthread_t other;
};

/*
 * wait must not leave anything taken. open: a wait goes through at once (NULL: there is no such state). shut: one that is
 * zeroed makes waits wait, as the caller does not. release: one waiter goes on, and 0 is what it gets.
 */
struct kind {
    const char *name;
    int (*wait)(struct thing *, weft_time);
    void (*open)(struct thing *);
    void (*shut)(struct thing *);
    void (*release)(struct thing *);
};

static void nothing(struct thing *t)
{
    (void)t;
}

static int mutex_wait(struct thing *t, weft_time deadline)
{
    int rc = weft_mutex_lock(&t->mutex, deadline);
    if (rc == 0)
        CHECK_INT(weft_mutex_unlock(&t->mutex), ==, 0);
    return rc;
}

static void mutex_shut(struct thing *t)
{
    CHECK_INT(weft_mutex_lock(&t->mutex, WEFT_NOW), ==, 0);
}

static void mutex_release(struct thing *t)
{
    CHECK_INT(weft_mutex_unlock(&t->mutex), ==, 0);
}

static int rmutex_wait(struct thing *t, weft_time deadline)
{
    int rc = weft_rmutex_lock(&t->rmutex, deadline);
    if (rc == 0)
        CHECK_INT(weft_rmutex_unlock(&t->rmutex), ==, 0);
    return rc;
}

static void rmutex_shut(struct thing *t)
{
    CHECK_INT(weft_rmutex_lock(&t->rmutex, WEFT_NOW), ==, 0);
}

static void rmutex_release(struct thing *t)
{
    CHECK_INT(weft_rmutex_unlock(&t->rmutex), ==, 0);
}

static int read_wait(struct thing *t, weft_time deadline)
{
    int rc = weft_rwlock_read_lock(&t->rwlock, deadline);
    if (rc == 0)
        CHECK_INT(weft_rwlock_unlock(&t->rwlock), ==, 0);
    return rc;
}

static int write_wait(struct thing *t, weft_time deadline)
{
    int rc = weft_rwlock_write_lock(&t->rwlock, deadline);
    if (rc == 0)
        CHECK_INT(weft_rwlock_unlock(&t->rwlock), ==, 0);
    return rc;
}

static void rwlock_written(struct thing *t)
{
    CHECK_INT(weft_rwlock_write_lock(&t->rwlock, WEFT_NOW), ==, 0);
}

static void rwlock_read(struct thing *t)
{
    CHECK_INT(weft_rwlock_read_lock(&t->rwlock, WEFT_NOW), ==, 0);
}

static void rwlock_release(struct thing *t)
{
    CHECK_INT(weft_rwlock_unlock(&t->rwlock), ==, 0);
}

/* The mutex is held again on every return. Who is cancelled could not wait for it before. */
static int cond_wait(struct thing *t, weft_time deadline)
{
    while (weft_mutex_lock(&t->beside, WEFT_NOW) != 0)
        weft_yield();
    int rc = weft_cond_wait(&t->cond, &t->beside, deadline);
    CHECK_INT(weft_mutex_unlock(&t->beside), ==, 0);
    return rc;
}

static void cond_release(struct thing *t)
{
    CHECK_INT(weft_cond_signal(&t->cond), ==, 0);
}

static int sem_wait(struct thing *t, weft_time deadline)
{
    return weft_sem_wait(&t->sem, deadline);
}

static void sem_release(struct thing *t)
{
    CHECK_INT(weft_sem_post(&t->sem), ==, 0);
}

static int group_wait(struct thing *t, weft_time deadline)
{
    return weft_waitgroup_wait(&t->group, deadline);
}

static void group_shut(struct thing *t)
{
    CHECK_INT(weft_waitgroup_add(&t->group, 1), ==, 0);
}

static void group_release(struct thing *t)
{
    CHECK_INT(weft_waitgroup_done(&t->group), ==, 0);
}

static void returns(void *arg)
{
    (void)arg;
}

static void takes_long(void *arg)
{
    struct thing *t = arg;
    CHECK_INT(weft_event_set(&t->began), ==, 0);
    CHECK_INT(weft_event_wait(&t->end, WEFT_FOREVER), ==, 0);
}

static void *calls_once(void *arg)
{
    struct thing *t = arg;
    CHECK_INT(weft_once_do(&t->once, takes_long, t, WEFT_NOW), ==, 0);
    return NULL;
}

static int once_wait(struct thing *t, weft_time deadline)
{
    return weft_once_do(&t->once, returns, NULL, deadline);
}

static void once_shut(struct thing *t)
{
    CHECK_INT(pthread_create(&t->other, NULL, calls_once, t), ==, 0);
    CHECK_INT(weft_event_wait(&t->began, WEFT_FOREVER), ==, 0);
}

static void once_release(struct thing *t)
{
    CHECK_INT(weft_event_set(&t->end), ==, 0);
    pthread_join(t->other, NULL);
}

static int event_wait(struct thing *t, weft_time deadline)
{
    return weft_event_wait(&t->event, deadline);
}

static void event_release(struct thing *t)
{
    CHECK_INT(weft_event_set(&t->event), ==, 0);
}

static int barrier_wait(struct thing *t, weft_time deadline)
{
    int rc = weft_barrier_wait(&t->barrier, deadline);
    return rc == 1 && t->barrier.count == 1 ? 0 : rc;
}

static void barrier_open(struct thing *t)
{
    CHECK_INT(weft_barrier_init(&t->barrier, 1), ==, 0);
}

static void barrier_shut(struct thing *t)
{
    CHECK_INT(weft_barrier_init(&t->barrier, 2), ==, 0);
}

static void barrier_release(struct thing *t)
{
    int rc = weft_barrier_wait(&t->barrier, WEFT_NOW);
    CHECK(rc == 1 || rc == -EAGAIN); /* there may be nobody to release */
}

static const struct kind kinds[] = {
    {"mutex", mutex_wait, nothing, mutex_shut, mutex_release},
    {"rmutex", rmutex_wait, nothing, rmutex_shut, rmutex_release},
    {"read, while one writes", read_wait, nothing, rwlock_written, rwlock_release},
    {"write, while one writes", write_wait, nothing, rwlock_written, rwlock_release},
    {"write, while one reads", write_wait, nothing, rwlock_read, rwlock_release},
    {"condition", cond_wait, NULL, nothing, cond_release},
    {"semaphore", sem_wait, sem_release, nothing, sem_release},
    {"waitgroup", group_wait, nothing, group_shut, group_release},
    {"once", once_wait, nothing, once_shut, once_release},
    {"event", event_wait, event_release, nothing, event_release},
    {"barrier", barrier_wait, barrier_open, barrier_shut, barrier_release},
};

/* A wait on its own, by a fiber or a thread. */
struct wait {
    const struct kind *kind;
    struct thing *thing;
    weft_time deadline;
    int rc;
    weft_time back;   /* when it returned */
    weft_event begun; /* it is about to wait */
};

static void *waits(void *arg)
{
    struct wait *w = arg;
    weft_event_set(&w->begun);
    w->rc = w->kind->wait(w->thing, w->deadline);
    w->back = weft_now();
    return NULL;
}

static void wait_elsewhere(struct wait *w, bool fiber)
{
    if (fiber) {
        ended(go(waits, w));
        return;
    }
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, waits, w), ==, 0);
    pthread_join(thread, NULL);
}

/* Runs the check for every kind, with an object that is shut, in a fiber; says for which kind it failed. */
static void *every_kind_shut(void *arg)
{
    void (*check)(const struct kind *, struct thing *) = *(void (**)(const struct kind *, struct thing *))arg;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !test_has_failed(); i++) {
        struct thing thing = {0};
        kinds[i].shut(&thing);
        check(&kinds[i], &thing);
        kinds[i].release(&thing);
        if (test_has_failed())
            test_failed(__FILE__, __LINE__, "kind: %s", kinds[i].name);
    }
    return NULL;
}

static void shut(unsigned workers, void (*check)(const struct kind *, struct thing *))
{
    in_a_fiber(workers, every_kind_shut, &check);
}

static void check_now(const struct kind *k, struct thing *t)
{
    for (int fiber = 0; fiber < 2; fiber++) {
        struct wait w = {.kind = k, .thing = t, .deadline = WEFT_NOW};
        wait_elsewhere(&w, fiber);
        CHECK_INT(w.rc, ==, -EAGAIN);
    }
}

TEST(now_never_waits_and_is_eagain)
{
    shut(2, check_now);
}

static void check_past(const struct kind *k, struct thing *t)
{
    for (int fiber = 0; fiber < 2; fiber++) {
        struct wait w = {.kind = k, .thing = t, .deadline = weft_in(-WEFT_SEC)};
        wait_elsewhere(&w, fiber);
        CHECK_INT(w.rc, ==, -ETIMEDOUT);
    }
}

TEST(a_deadline_in_the_past_is_etimedout)
{
    shut(2, check_past);
}

static void check_deadline(const struct kind *k, struct thing *t)
{
    for (int fiber = 0; fiber < 2; fiber++) {
        struct wait w = {.kind = k, .thing = t, .deadline = weft_in(3 * WEFT_MS)};
        wait_elsewhere(&w, fiber);
        CHECK_INT(w.rc, ==, -ETIMEDOUT);
        CHECK_INT(w.back.ns, >=, w.deadline.ns);
        CHECK_INT(w.back.ns, <, w.deadline.ns + 5 * WEFT_SEC);
    }
}

TEST(a_deadline_ends_the_wait_and_never_early)
{
    shut(1, check_deadline);
    shut(2, check_deadline);
}

/* Cancelled before, or while it waits. */
static void check_cancel(const struct kind *k, struct thing *t)
{
    for (int early = 0; early < 2; early++) {
        struct wait w = {.kind = k, .thing = t, .deadline = WEFT_FOREVER};
        weft_fiber *f = go(waits, &w);
        if (!early) {
            CHECK_INT(weft_event_wait(&w.begun, WEFT_FOREVER), ==, 0);
            while (weft_fiber_state(f) != WEFT_FIBER_PARKED)
                linger();
        }
        CHECK_INT(weft_cancel(f), ==, 0);
        ended(f);
        CHECK_INT(w.rc, ==, -ECANCELED);
    }
}

TEST(a_cancel_ends_the_wait_with_ecanceled)
{
    shut(1, check_cancel);
    shut(2, check_cancel);
}

static void *waits_when_cancelled(void *arg)
{
    while (!weft_cancelled())
        weft_yield();
    return waits(arg);
}

/* Whether a wait that goes through takes what the next one would need. */
static bool has_used_up(const struct kind *k)
{
    return k->wait == sem_wait;
}

static void *every_kind_open(void *arg)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct kind *k = &kinds[i];
        weft_time past = weft_in(-WEFT_SEC), deadlines[] = {WEFT_NOW, past, WEFT_FOREVER};
        for (int d = 0; k->open && d < 3; d++) {
            struct thing thing = {0};
            struct wait w = {.kind = k, .thing = &thing, .deadline = deadlines[d], .rc = -1};
            k->open(&thing);
            weft_fiber *f = go(waits_when_cancelled, &w);
            CHECK_INT(weft_cancel(f), ==, 0);
            ended(f);
            CHECK_INT(w.rc, ==, d == 0 ? 0 : -ECANCELED);
            ended(go(waits, &w)); /* in a fiber that was not cancelled */
            CHECK_INT(w.rc, ==, d == 0 && has_used_up(k) ? -EAGAIN : 0);
        }
        if (test_has_failed())
            test_failed(__FILE__, __LINE__, "kind: %s", k->name);
    }
    return arg;
}

TEST(what_is_there_is_had_although_late_and_with_weft_now_although_cancelled)
{
    in_a_fiber(1, every_kind_open, NULL);
}

/* Four give up, at once as far as possible, two by time and two by cancel; a fifth gets it. (barrier.c has the barrier.) */
static void check_after_giving_up(const struct kind *k, struct thing *t)
{
    struct wait w[5];
    weft_fiber *f[5];
    weft_time soon = weft_in(2 * WEFT_MS);
    if (k->wait == barrier_wait)
        return;
    for (int i = 0; i < 5; i++) {
        w[i] = (struct wait){.kind = k, .thing = t, .deadline = i < 2 ? soon : WEFT_FOREVER, .rc = -1};
        f[i] = go(waits, &w[i]);
    }
    CHECK_INT(weft_sleep_until(soon), ==, 0);
    for (int i = 2; i < 4; i++)
        CHECK_INT(weft_cancel(f[i]), ==, 0);
    for (int i = 0; i < 4; i++) {
        ended(f[i]);
        CHECK_INT(w[i].rc, ==, i < 2 ? -ETIMEDOUT : -ECANCELED);
    }
    while (weft_fiber_state(f[4]) != WEFT_FIBER_PARKED)
        linger();
    k->release(t);
    ended(f[4]);
    CHECK_INT(w[4].rc, ==, 0);
    memset(t, 0, sizeof *t);
    k->shut(t); /* what follows releases it once more */
}

TEST(who_gives_up_leaves_nothing_behind)
{
    shut(1, check_after_giving_up);
    shut(4, check_after_giving_up);
}

/* A fiber or thread waits, the other kind releases. */
static void check_release(const struct kind *k, struct thing *t)
{
    for (int fiber = 0; fiber < 2; fiber++) {
        struct wait w = {.kind = k, .thing = t, .deadline = WEFT_FOREVER, .rc = -1};
        pthread_t thread;
        weft_fiber *f = NULL;
        if (fiber)
            f = go(waits, &w);
        else
            CHECK_INT(pthread_create(&thread, NULL, waits, &w), ==, 0);
        CHECK_INT(weft_event_wait(&w.begun, WEFT_FOREVER), ==, 0);
        if (k->wait == barrier_wait || k->wait == cond_wait) { /* the others may come too late and pass all the same */
            uint32_t *lock = k->wait == cond_wait ? &t->cond.lock : &t->barrier.lock;
            while (waiting(lock, k->wait == cond_wait ? &t->cond.waiters : &t->barrier.waiters) == 0)
                linger();
        }
        k->release(t);
        if (fiber)
            ended(f);
        else
            pthread_join(thread, NULL);
        CHECK_INT(w.rc, ==, 0);
        memset(t, 0, sizeof *t);
        k->shut(t);
    }
}

TEST(fibers_and_threads_wake_each_other)
{
    shut(1, check_release);
    shut(3, check_release);
}

static weft_stacks *pool;

static void *waits_on_a_shared_stack(void *arg)
{
    struct locals mine;
    locals_fill(&mine, (uintptr_t)arg);
    waits(arg);
    CHECK(locals_intact(&mine, (uintptr_t)arg));
    return NULL;
}

/* Three fibers wait on one stack; one runs out of time, one is cancelled, one gets what it wants. */
static void check_shared(const struct kind *k, struct thing *t)
{
    static struct wait w[3]; /* others touch it: not on a shared stack */
    weft_fiber *f[3];
    bool meet = k->wait == barrier_wait; /* two at the barrier would let each other pass */
    for (int i = 0; i < 3; i++) {
        w[i] = (struct wait){.kind = k, .thing = t, .deadline = i == 0 ? weft_in(2 * WEFT_MS) : WEFT_FOREVER};
        CHECK_INT(weft_go_with(&f[i], &(weft_attr){.shared = pool}, waits_on_a_shared_stack, &w[i]), ==, 0);
        CHECK_INT(weft_event_wait(&w[i].begun, WEFT_FOREVER), ==, 0);
        while (weft_fiber_state(f[i]) != WEFT_FIBER_PARKED && weft_fiber_state(f[i]) != WEFT_FIBER_DONE)
            linger();
        if (i == 1)
            CHECK_INT(weft_cancel(f[i]), ==, 0);
        if (meet && i < 2)
            ended(f[i]);
    }
    for (int i = 0; i < 2 && !meet; i++)
        ended(f[i]);
    k->release(t);
    ended(f[2]);
    CHECK_INT(w[0].rc, ==, -ETIMEDOUT);
    CHECK_INT(w[1].rc, ==, -ECANCELED);
    CHECK_INT(w[2].rc, ==, 0);
    memset(t, 0, sizeof *t);
    k->shut(t);
}

TEST(a_fiber_on_a_shared_stack_waits_as_others_do)
{
    REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    shut(1, check_shared);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

#if WF_DEBUG
static void *puts_it_there(void *arg)
{
    const struct kind *k = arg;
    struct thing thing = {0};
    k->open(&thing);
    return NULL;
}

static void *uses_it_there(void *arg)
{
    const struct kind *k = arg;
    struct thing thing = {0};
    k->wait(&thing, WEFT_NOW);
    return NULL;
}

static void *goes_there(void *arg)
{
    const struct kind *k = arg;
    weft_fiber *f;
    weft_fn *fn = k->open && k->open != nothing ? puts_it_there : uses_it_there;
    CHECK_INT(weft_go_with(&f, &(weft_attr){.shared = pool}, fn, arg), ==, 0);
    ended(f);
    return NULL;
}

static void run_there(void *arg)
{
    REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    in_a_fiber(1, goes_there, arg);
}
#endif

TEST(an_object_on_a_shared_stack_is_refused_in_debug_builds)
{
#if WF_DEBUG
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        CHECK_CHILD(run_there, (void *)&kinds[i], SIGABRT, "the object is on a shared stack");
#else
    SKIP("only debug builds look where objects are");
#endif
}

TEST(null_is_einval)
{
    CHECK_INT(weft_mutex_lock(NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_mutex_unlock(NULL), ==, -EINVAL);
    CHECK_INT(weft_rmutex_lock(NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_rmutex_unlock(NULL), ==, -EINVAL);
    CHECK_INT(weft_rwlock_read_lock(NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_rwlock_write_lock(NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_rwlock_unlock(NULL), ==, -EINVAL);
    weft_cond cond = {0};
    weft_mutex mutex = {0};
    CHECK_INT(weft_cond_wait(NULL, &mutex, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_cond_wait(&cond, NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_cond_signal(NULL), ==, -EINVAL);
    CHECK_INT(weft_cond_broadcast(NULL), ==, -EINVAL);
    CHECK_INT(weft_sem_wait(NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_sem_post(NULL), ==, -EINVAL);
    CHECK_INT(weft_waitgroup_add(NULL, 1), ==, -EINVAL);
    CHECK_INT(weft_waitgroup_done(NULL), ==, -EINVAL);
    CHECK_INT(weft_waitgroup_wait(NULL, WEFT_NOW), ==, -EINVAL);
    weft_once once = {0};
    CHECK_INT(weft_once_do(NULL, returns, NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_once_do(&once, NULL, NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_event_set(NULL), ==, -EINVAL);
    CHECK_INT(weft_event_reset(NULL), ==, -EINVAL);
    CHECK(!weft_event_is_set(NULL));
    CHECK_INT(weft_event_wait(NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_barrier_init(NULL, 1), ==, -EINVAL);
    CHECK_INT(weft_barrier_wait(NULL, WEFT_NOW), ==, -EINVAL);
}

static void *names_itself(void *arg)
{
    struct wait *w = arg;
    w->rc = w->kind->wait(w->thing, WEFT_FOREVER);
    return NULL;
}

static void check_named(const struct kind *k, struct thing *t)
{
    struct wait w = {.kind = k, .thing = t, .rc = -1};
    weft_fiber *f = go(names_itself, &w);
    while (weft_fiber_state(f) != WEFT_FIBER_PARKED)
        linger();
    const char *what = weft_fiber_waits_for(f, NULL);
    CHECK(what && what[0]);
    k->release(t);
    ended(f);
    memset(t, 0, sizeof *t);
    k->shut(t);
}

TEST(a_dump_can_tell_what_is_waited_for)
{
    shut(1, check_named);
}

TESTS(sync_waits, now_never_waits_and_is_eagain, a_deadline_in_the_past_is_etimedout,
      a_deadline_ends_the_wait_and_never_early, a_cancel_ends_the_wait_with_ecanceled,
      what_is_there_is_had_although_late_and_with_weft_now_although_cancelled, who_gives_up_leaves_nothing_behind,
      fibers_and_threads_wake_each_other, a_fiber_on_a_shared_stack_waits_as_others_do,
      an_object_on_a_shared_stack_is_refused_in_debug_builds, null_is_einval, a_dump_can_tell_what_is_waited_for)
