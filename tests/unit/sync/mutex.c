/*
 * The mutex: who has it, who gets it next, and what it says to those who misuse it. (Deadlines and cancellation: waits.c.)
 */
#include <errno.h>

#include "unit/sync/crew.h"

static void *tries(void *arg)
{
    weft_mutex *m = arg;
    CHECK_INT(weft_mutex_lock(m, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_mutex_unlock(m), ==, -EPERM);
    return NULL;
}

static void try_elsewhere(weft_mutex *m)
{
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, tries, m), ==, 0);
    pthread_join(thread, NULL);
    if (weft_fiber_current())
        ended(go(tries, m));
}

static void *owns(void *arg)
{
    weft_mutex m = {0};
    CHECK_INT(weft_mutex_unlock(&m), ==, -EPERM); /* nobody has it */
    CHECK_INT(weft_mutex_lock(&m, WEFT_NOW), ==, 0);
    CHECK_INT(weft_mutex_lock(&m, WEFT_NOW), ==, -EDEADLK);
    CHECK_INT(weft_mutex_lock(&m, WEFT_FOREVER), ==, -EDEADLK);
    try_elsewhere(&m);
    CHECK_INT(weft_mutex_unlock(&m), ==, 0);
    CHECK_INT(weft_mutex_unlock(&m), ==, -EPERM);
    CHECK_INT(weft_mutex_lock(&m, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_mutex_unlock(&m), ==, 0);
    return arg;
}

TEST(only_its_owner_unlocks_it_and_cannot_lock_it_again)
{
    owns(NULL);
    in_a_fiber(1, owns, NULL);
    in_a_fiber(2, owns, NULL);
}

static void *locks_and_unlocks(void *arg)
{
    CHECK_INT(weft_mutex_lock(arg, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_mutex_unlock(arg), ==, 0);
    return NULL;
}

static void *owns_with_waiters(void *arg)
{
    weft_mutex m = {0};
    CHECK_INT(weft_mutex_lock(&m, WEFT_NOW), ==, 0);
    weft_fiber *f = go(locks_and_unlocks, &m);
    AWAIT_WAITERS(&m, 1);
    CHECK_INT(weft_mutex_lock(&m, WEFT_NOW), ==, -EDEADLK);
    try_elsewhere(&m);
    CHECK_INT(weft_mutex_unlock(&m), ==, 0);
    CHECK_INT(weft_mutex_unlock(&m), ==, -EPERM); /* it is f's */
    ended(f);
    return arg;
}

TEST(the_same_holds_while_others_wait)
{
    in_a_fiber(1, owns_with_waiters, NULL);
    in_a_fiber(2, owns_with_waiters, NULL);
}

TEST(it_is_small_and_free_of_traces_when_nobody_has_it)
{
    weft_mutex m = {0};
    static const weft_mutex zero;
    CHECK_INT(sizeof m, <=, 32);
    CHECK_INT(weft_mutex_lock(&m, WEFT_NOW), ==, 0);
    CHECK_INT(weft_mutex_unlock(&m), ==, 0);
    CHECK_INT(m.owner, ==, zero.owner);
}

struct counter {
    weft_mutex mutex;
    long value;    /* guarded by: mutex */
    bool in_there; /* guarded by: mutex */
};

enum { ROUNDS = 300 };

static void counts(struct hand *h)
{
    struct counter *c = h->arg;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_INT(weft_mutex_lock(&c->mutex, WEFT_FOREVER), ==, 0);
        CHECK(!c->in_there);
        c->in_there = true;
        long value = c->value;
        if (i % 8 == (int)h->index % 8)
            weft_yield();
        c->value = value + 1;
        c->in_there = false;
        CHECK_INT(weft_mutex_unlock(&c->mutex), ==, 0);
    }
}

TEST(one_at_a_time_is_in_there)
{
    for (int i = 0; i < CREWS; i++) {
        struct counter c = {0};
        crew_work(&crews[i], counts, &c);
        CHECK_INT(c.value, ==, ROUNDS * (long)crew_size(&crews[i]));
    }
}

/* Those that waited, in the order in which they got the mutex. */
struct line {
    weft_mutex mutex;
    unsigned order[16], n; /* guarded by: mutex */
};

struct place {
    struct line *line;
    unsigned number;
};

static void *stands_in_line(void *arg)
{
    struct place *p = arg;
    CHECK_INT(weft_mutex_lock(&p->line->mutex, WEFT_FOREVER), ==, 0);
    p->line->order[p->line->n++] = p->number;
    CHECK_INT(weft_mutex_unlock(&p->line->mutex), ==, 0);
    return NULL;
}

static void *makes_a_line(void *arg)
{
    struct line line = {0};
    struct place places[16];
    weft_fiber *fibers[16];
    pthread_t threads[16];
    CHECK_INT(weft_mutex_lock(&line.mutex, WEFT_NOW), ==, 0);
    for (unsigned i = 0; i < 16; i++) {
        places[i] = (struct place){&line, i};
        if (i % 3 == 0)
            CHECK_INT(pthread_create(&threads[i], NULL, stands_in_line, &places[i]), ==, 0);
        else
            fibers[i] = go(stands_in_line, &places[i]);
        AWAIT_WAITERS(&line.mutex, i + 1);
    }
    CHECK_INT(weft_mutex_unlock(&line.mutex), ==, 0);
    for (unsigned i = 0; i < 16; i++) {
        if (i % 3 == 0)
            pthread_join(threads[i], NULL);
        else
            ended(fibers[i]);
    }
    for (unsigned i = 0; i < 16; i++)
        CHECK_INT(line.order[i], ==, i);
    return arg;
}

TEST(who_waits_gets_it_in_the_order_of_coming)
{
    in_a_fiber(1, makes_a_line, NULL);
    in_a_fiber(4, makes_a_line, NULL);
}

enum { CONTENDERS = 16 };

struct contest {
    weft_mutex mutex;
    unsigned taken; /* how often it was; guarded by: mutex, and one worker */
    unsigned worst;
};

/* Greedy: lets go and wants it again at once. */
static void *contends(void *arg)
{
    struct contest *c = arg;
    for (int i = 0; i < 100; i++) {
        unsigned before = c->taken;
        CHECK_INT(weft_mutex_lock(&c->mutex, WEFT_FOREVER), ==, 0);
        unsigned others = c->taken - before;
        if (others > c->worst)
            c->worst = others;
        c->taken++;
        if (i % 3)
            weft_yield(); /* the others come to wait */
        CHECK_INT(weft_mutex_unlock(&c->mutex), ==, 0);
    }
    return NULL;
}

static void *holds_a_contest(void *arg)
{
    struct contest *c = arg;
    weft_fiber *fibers[CONTENDERS];
    for (int i = 0; i < CONTENDERS; i++)
        fibers[i] = go(contends, c);
    for (int i = 0; i < CONTENDERS; i++)
        ended(fibers[i]);
    return NULL;
}

TEST(on_one_worker_nobody_waits_for_more_than_those_ahead)
{
    struct contest c = {0};
    in_a_fiber(1, holds_a_contest, &c);
    CHECK_INT(c.taken, ==, 100 * CONTENDERS);
    CHECK_INT(c.worst, <=, CONTENDERS - 1);
    CHECK_INT(c.worst, >, 0);
}

/* One that waits on another worker, beside one that lets go and takes it again at once, for ever. */
struct greed {
    weft_mutex mutex;
    bool waits, got; /* atomic */
};

static void *wants_it_once(void *arg)
{
    struct greed *g = arg;
    __atomic_store_n(&g->waits, true, __ATOMIC_RELEASE);
    CHECK_INT(weft_mutex_lock(&g->mutex, WEFT_FOREVER), ==, 0);
    __atomic_store_n(&g->got, true, __ATOMIC_RELEASE);
    CHECK_INT(weft_mutex_unlock(&g->mutex), ==, 0);
    return NULL;
}

static void *never_waits(void *arg)
{
    struct greed *g = arg;
    int64_t until = weft_in(20 * WEFT_SEC).ns;
    CHECK_INT(weft_mutex_lock(&g->mutex, WEFT_FOREVER), ==, 0);
    while (!__atomic_load_n(&g->waits, __ATOMIC_ACQUIRE) && weft_now().ns < until)
        ;
    while (!__atomic_load_n(&g->got, __ATOMIC_ACQUIRE) && weft_now().ns < until) {
        CHECK_INT(weft_mutex_unlock(&g->mutex), ==, 0);
        CHECK_INT(weft_mutex_lock(&g->mutex, WEFT_FOREVER), ==, 0); /* it is handed over in the end: this waits */
    }
    CHECK_INT(weft_mutex_unlock(&g->mutex), ==, 0);
    CHECK(__atomic_load_n(&g->got, __ATOMIC_ACQUIRE));
    return NULL;
}

static void *pits_them(void *arg)
{
    struct greed g = {0};
    weft_fiber *one = NULL, *two = NULL;
    CHECK_INT(weft_go_with(&one, &(weft_attr){.worker = WEFT_WORKER(0)}, never_waits, &g), ==, 0);
    CHECK_INT(weft_go_with(&two, &(weft_attr){.worker = WEFT_WORKER(1)}, wants_it_once, &g), ==, 0);
    ended(one);
    ended(two);
    return arg;
}

TEST(one_on_another_worker_gets_it_beside_a_greedy_one)
{
    for (int i = 0; i < 20; i++)
        in_a_fiber(2, pits_them, NULL);
}

/* The last to unlock releases the memory, while the unlock of the one before may still be returning. */
struct shared {
    weft_mutex mutex;
    unsigned users; /* guarded by: mutex */
};

enum { LIVES = 200 };

struct lives {
    struct shared *all[LIVES];
};

static void uses(struct hand *h)
{
    struct lives *l = h->arg;
    for (int i = 0; i < LIVES; i++) {
        struct shared *s = l->all[i];
        CHECK_INT(weft_mutex_lock(&s->mutex, WEFT_FOREVER), ==, 0);
        bool last = --s->users == 0;
        CHECK_INT(weft_mutex_unlock(&s->mutex), ==, 0);
        if (last)
            free(s);
    }
}

TEST(the_last_to_unlock_may_free_it)
{
    for (int c = 0; c < CREWS; c++) {
        struct lives l;
        for (int i = 0; i < LIVES; i++) {
            l.all[i] = calloc(1, sizeof *l.all[i]);
            REQUIRE(l.all[i]);
            l.all[i]->users = crew_size(&crews[c]);
        }
        crew_work(&crews[c], uses, &l);
    }
}

/* Waits with short deadlines race with the hand-over; the mutex is never lost and never had twice. */
static void is_impatient(struct hand *h)
{
    struct counter *c = h->arg;
    for (int i = 0; i < ROUNDS; i++) {
        int rc = weft_mutex_lock(&c->mutex, weft_in((i * 7 + (int)h->index) % 40 * WEFT_US));
        CHECK(rc == 0 || rc == -ETIMEDOUT);
        if (rc < 0)
            continue;
        CHECK(!c->in_there);
        c->in_there = true;
        if (i % 4 == 0)
            weft_yield();
        c->in_there = false;
        CHECK_INT(weft_mutex_unlock(&c->mutex), ==, 0);
    }
}

TEST(a_timeout_that_races_with_the_hand_over_loses_nothing)
{
    for (int i = 0; i < CREWS; i++) {
        struct counter c = {0};
        crew_work(&crews[i], is_impatient, &c);
        CHECK_INT(weft_mutex_lock(&c.mutex, WEFT_NOW), ==, 0);
        CHECK_INT(weft_mutex_unlock(&c.mutex), ==, 0);
    }
}

TESTS(sync_mutex, only_its_owner_unlocks_it_and_cannot_lock_it_again, the_same_holds_while_others_wait,
      it_is_small_and_free_of_traces_when_nobody_has_it, one_at_a_time_is_in_there,
      who_waits_gets_it_in_the_order_of_coming, on_one_worker_nobody_waits_for_more_than_those_ahead,
      one_on_another_worker_gets_it_beside_a_greedy_one, the_last_to_unlock_may_free_it,
      a_timeout_that_races_with_the_hand_over_loses_nothing)
