/*
 * tests/hook/lock_stress.c: many fibers on two workers, and threads, at one object for a while (WEFT_HOOK_LOCKS=1).
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hook/clock.h"
#include "hook/peer.h"

enum { CROWD = 48, LONG_MS = 1000, LONGEST_GAP_MS = 2000 };

/*
 * A statement of which the ticker may be kept waiting: the lock that guards those that wait is held for an instant, but on a
 * busy machine its holder, another thread, may have lost its CPU in that instant.
 */
static void run_crowded(const char *name, void (*body)(void))
{
    if (is_kernel()) {
        statement_run(name, body);
        return;
    }
    double gap = statement_gap(body);
    printf("%s: the ticker's longest gap %.1f ms\n", name, gap);
    CHECK(gap < LONGEST_GAP_MS);
}

#define CROWDED(name)                                                                                                  \
    static void name##_body(void);                                                                                     \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        run_crowded(#name, name##_body);                                                                               \
    }                                                                                                                  \
    static void name##_body(void)

static bool over; /* atomic */

static bool goes_on(void)
{
    return !__atomic_load_n(&over, __ATOMIC_RELAXED);
}

/* Every eighth is a thread, the rest are on either worker. */
static void run_crowd(void (*fn)(void *), void *arg, void (*wake)(void *))
{
    struct flow *flows[CROWD];
    __atomic_store_n(&over, false, __ATOMIC_RELAXED);
    for (int i = 0; i < CROWD; i++)
        flows[i] = i % 8 == 0 ? begin_thread(fn, arg) : i % 2 ? begin(fn, arg) : begin_elsewhere(fn, arg);
    usleep(LONG_MS * 1000);
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    for (int i = 0; i < CROWD; i++) {
        if (wake)
            wake(arg);
        end(flows[i]);
    }
}

/* ---- a mutex ---- */

struct counter {
    pthread_mutex_t mutex;
    long value, shadow; /* guarded by: mutex */
    long taken;         /* atomic */
    unsigned turn;      /* atomic */
};

static int lock_somehow(struct counter *c, unsigned turn)
{
    struct timespec at = in_ms(CLOCK_MONOTONIC, (long)(turn % 3));
    switch (turn % 4) {
    case 0:
        return pthread_mutex_trylock(&c->mutex);
    case 1:
        return pthread_mutex_clocklock(&c->mutex, CLOCK_MONOTONIC, &at);
    default:
        return pthread_mutex_lock(&c->mutex);
    }
}

static void count(void *arg)
{
    struct counter *c = arg;
    while (goes_on()) {
        unsigned turn = __atomic_add_fetch(&c->turn, 1, __ATOMIC_RELAXED);
        int rc = lock_somehow(c, turn);
        if (rc != 0) {
            CHECK(rc == (turn % 4 == 0 ? EBUSY : ETIMEDOUT));
            usleep(100);
            continue;
        }
        long value = ++c->value;
        if (turn % 16 == 0)
            usleep(50);
        c->shadow++;
        CHECK_INT(c->value, ==, value);
        CHECK_INT(c->shadow, ==, value);
        CHECK_INT(pthread_mutex_unlock(&c->mutex), ==, 0);
        __atomic_add_fetch(&c->taken, 1, __ATOMIC_RELAXED);
        if (turn % 64 == 0)
            usleep(100);
    }
}

CROWDED(a_mutex_is_had_by_one_at_a_time)
{
    static const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
    for (int i = 0; i < 3; i++) {
        struct counter c = {0};
        pthread_mutexattr_t attr;
        pthread_mutexattr_init(&attr);
        pthread_mutexattr_settype(&attr, types[i]);
        CHECK_INT(pthread_mutex_init(&c.mutex, &attr), ==, 0);
        run_crowd(count, &c, NULL);
        CHECK_INT(c.value, ==, c.taken);
        CHECK(c.taken > 500);
        CHECK_INT(pthread_mutex_destroy(&c.mutex), ==, 0);
        printf("type %d: %ld\n", types[i], c.taken);
    }
}

/* ---- a condition ---- */

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t may_put, may_take;
    int held;        /* guarded by: mutex */
    long put, taken; /* guarded by: mutex */
    int next;        /* atomic: who puts, who takes */
};

enum { ROOM = 4 };

static void put_or_take(void *arg)
{
    struct queue *q = arg;
    bool puts = __atomic_fetch_add(&q->next, 1, __ATOMIC_RELAXED) % 2;
    pthread_mutex_lock(&q->mutex);
    while (goes_on()) {
        struct timespec at = in_ms(CLOCK_REALTIME, 20);
        pthread_cond_t *mine = puts ? &q->may_put : &q->may_take;
        int rc = 0;
        while (goes_on() && (puts ? q->held == ROOM : q->held == 0) && rc == 0)
            rc = q->put % 5 == 0 ? pthread_cond_timedwait(mine, &q->mutex, &at) : pthread_cond_wait(mine, &q->mutex);
        CHECK(rc == 0 || rc == ETIMEDOUT);
        if (puts ? q->held == ROOM : q->held == 0)
            continue;
        q->held += puts ? 1 : -1;
        (*(puts ? &q->put : &q->taken))++;
        pthread_cond_signal(puts ? &q->may_take : &q->may_put);
    }
    pthread_mutex_unlock(&q->mutex);
}

static void wake_queue(void *arg)
{
    struct queue *q = arg;
    pthread_mutex_lock(&q->mutex);
    pthread_cond_broadcast(&q->may_put);
    pthread_cond_broadcast(&q->may_take);
    pthread_mutex_unlock(&q->mutex);
}

CROWDED(no_signal_of_a_condition_is_lost)
{
    struct queue q = {
        .mutex = PTHREAD_MUTEX_INITIALIZER, .may_put = PTHREAD_COND_INITIALIZER, .may_take = PTHREAD_COND_INITIALIZER};
    run_crowd(put_or_take, &q, wake_queue);
    CHECK_INT(q.put - q.taken, ==, q.held);
    CHECK(q.taken > 500);
    printf("queue: %ld\n", q.taken);
}

/* ---- semaphores ---- */

struct permits {
    sem_t sem;
    int inside; /* atomic */
    long taken; /* atomic */
};

enum { PERMITS = 3 };

static void enter_and_leave(void *arg)
{
    struct permits *p = arg;
    while (goes_on()) {
        CHECK_INT(sem_wait(&p->sem), ==, 0);
        CHECK_INT(__atomic_add_fetch(&p->inside, 1, __ATOMIC_ACQ_REL), <=, PERMITS);
        if (__atomic_add_fetch(&p->taken, 1, __ATOMIC_RELAXED) % 16 == 0)
            usleep(50);
        __atomic_sub_fetch(&p->inside, 1, __ATOMIC_ACQ_REL);
        CHECK_INT(sem_post(&p->sem), ==, 0);
    }
}

CROWDED(a_semaphore_lets_in_as_many_as_it_has_permits)
{
    struct permits p = {0};
    int left = 0;
    CHECK_INT(sem_init(&p.sem, 0, PERMITS), ==, 0);
    run_crowd(enter_and_leave, &p, NULL);
    CHECK_INT(sem_getvalue(&p.sem, &left), ==, 0);
    CHECK_INT(left, ==, PERMITS);
    CHECK(p.taken > 500);
    printf("permits: %ld\n", p.taken);
}

/* ---- a rwlock ---- */

struct book {
    pthread_rwlock_t lock;
    int readers, writers; /* atomic: inside */
    unsigned turn;        /* atomic */
};

static void read_or_write(void *arg)
{
    struct book *b = arg;
    while (goes_on()) {
        unsigned turn = __atomic_add_fetch(&b->turn, 1, __ATOMIC_RELAXED);
        bool writes = turn % 4 == 0;
        CHECK_INT(writes ? pthread_rwlock_wrlock(&b->lock) : pthread_rwlock_rdlock(&b->lock), ==, 0);
        __atomic_add_fetch(writes ? &b->writers : &b->readers, 1, __ATOMIC_ACQ_REL);
        if (turn % 16 < 2)
            usleep(50);
        int writers = __atomic_load_n(&b->writers, __ATOMIC_ACQUIRE);
        int readers = __atomic_load_n(&b->readers, __ATOMIC_ACQUIRE);
        CHECK(writes ? writers == 1 && readers == 0 : writers == 0);
        __atomic_sub_fetch(writes ? &b->writers : &b->readers, 1, __ATOMIC_ACQ_REL);
        CHECK_INT(pthread_rwlock_unlock(&b->lock), ==, 0);
        if (turn % 32 == 5)
            usleep(100);
    }
}

CROWDED(a_writer_is_alone)
{
    struct book b = {.lock = PTHREAD_RWLOCK_INITIALIZER};
    run_crowd(read_or_write, &b, NULL);
    CHECK(b.turn > 500);
    CHECK_INT(pthread_rwlock_destroy(&b.lock), ==, 0);
    printf("book: %u\n", b.turn);
}

/* ---- a fork among all that ---- */

struct forking {
    sem_t sem;
    pthread_mutex_t mutex;
};

static void pass(void *arg)
{
    struct forking *f = arg;
    while (goes_on()) {
        CHECK_INT(sem_wait(&f->sem), ==, 0);
        CHECK_INT(sem_post(&f->sem), ==, 0);
    }
}

/* A thread that does not wait wakes all the time. */
static void post_and_take(void *arg)
{
    struct forking *f = arg;
    while (goes_on()) {
        CHECK_INT(sem_post(&f->sem), ==, 0);
        while (goes_on() && sem_trywait(&f->sem) != 0)
            ;
    }
}

/* The child's own: nobody else is there. */
static int use_in_child(struct forking *f)
{
    alarm(20); /* should something be locked that nobody can unlock */
    pthread_mutex_unlock(&f->mutex);
    if (sem_post(&f->sem) != 0 || sem_wait(&f->sem) != 0)
        return 1;
    return pthread_mutex_trylock(&f->mutex) != 0 || pthread_mutex_unlock(&f->mutex) != 0 ? 2 : 0;
}

static void fork_often(void *arg)
{
    struct forking *f = arg;
    for (int i = 0; i < 60; i++) {
        pthread_mutex_lock(&f->mutex);
        pid_t child = fork();
        if (child == 0)
            _exit(use_in_child(f));
        pthread_mutex_unlock(&f->mutex);
        int state = -1;
        CHECK_INT(waitpid(child, &state, 0), ==, child);
        CHECK_INT(state, ==, 0);
    }
}

CROWDED(the_child_of_a_fork_finds_nothing_locked_by_those_that_are_gone)
{
    enum { OTHERS = 12 };
    struct forking f = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct flow *flows[OTHERS];
    CHECK_INT(sem_init(&f.sem, 0, 1), ==, 0);
    __atomic_store_n(&over, false, __ATOMIC_RELAXED);
    for (int i = 0; i < OTHERS; i++)
        flows[i] = i < 2 ? begin_thread(post_and_take, &f) : begin_elsewhere(pass, &f);
    fork_often(&f);
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    CHECK_INT(sem_post(&f.sem), ==, 0);
    for (int i = 0; i < OTHERS; i++)
        end(flows[i]);
}

STATEMENTS(lock_stress, a_mutex_is_had_by_one_at_a_time, no_signal_of_a_condition_is_lost,
           a_semaphore_lets_in_as_many_as_it_has_permits, a_writer_is_alone,
           the_child_of_a_fork_finds_nothing_locked_by_those_that_are_gone)
