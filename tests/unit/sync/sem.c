/*
 * The semaphore: permits are neither lost nor made, and are given in the order of coming.
 */
#include <errno.h>

#include "unit/sync/crew.h"

TEST(permits_are_counted)
{
    weft_sem s = WEFT_SEM(2);
    CHECK_INT(sizeof s, <=, 24);
    CHECK_INT(weft_sem_wait(&s, WEFT_NOW), ==, 0);
    CHECK_INT(weft_sem_wait(&s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sem_wait(&s, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_sem_post(&s), ==, 0);
    CHECK_INT(weft_sem_wait(&s, WEFT_NOW), ==, 0);
    CHECK_INT(weft_sem_wait(&s, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(s.count, ==, 0); /* and nothing that makes the next post slow */
}

TEST(too_many_permits_are_eoverflow)
{
    weft_sem s = WEFT_SEM(WEFT_SEM_MAX - 1);
    CHECK_INT(weft_sem_post(&s), ==, 0);
    CHECK_INT(weft_sem_post(&s), ==, -EOVERFLOW);
    CHECK_INT(weft_sem_wait(&s, WEFT_NOW), ==, 0);
    CHECK_INT(weft_sem_post(&s), ==, 0);
    s.count |= WF_SEALED; /* as after a wait */
    CHECK_INT(weft_sem_post(&s), ==, -EOVERFLOW);
    CHECK_INT(weft_sem_wait(&s, WEFT_NOW), ==, 0);
    CHECK_INT(s.count, ==, WEFT_SEM_MAX - 1);
}

struct line {
    weft_sem sem;
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
    CHECK_INT(weft_sem_wait(&p->line->sem, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_mutex_lock(&p->line->mutex, WEFT_FOREVER), ==, 0);
    p->line->order[p->line->n++] = p->number;
    CHECK_INT(weft_mutex_unlock(&p->line->mutex), ==, 0);
    return NULL;
}

static unsigned came_through(struct line *l)
{
    CHECK_INT(weft_mutex_lock(&l->mutex, WEFT_FOREVER), ==, 0);
    unsigned n = l->n;
    CHECK_INT(weft_mutex_unlock(&l->mutex), ==, 0);
    return n;
}

static void *makes_a_line(void *arg)
{
    struct line line = {0};
    struct place places[8];
    weft_fiber *fibers[8];
    pthread_t threads[8];
    for (unsigned i = 0; i < 8; i++) {
        places[i] = (struct place){&line, i};
        if (i % 3 == 0)
            CHECK_INT(pthread_create(&threads[i], NULL, stands_in_line, &places[i]), ==, 0);
        else
            fibers[i] = go(stands_in_line, &places[i]);
        AWAIT_WAITERS(&line.sem, i + 1);
    }
    for (unsigned i = 0; i < 8; i++) {
        CHECK_INT(weft_sem_post(&line.sem), ==, 0);
        CHECK_INT(weft_sem_wait(&line.sem, WEFT_NOW), ==, -EAGAIN); /* it is the first one's */
        while (came_through(&line) <= i)
            linger();
        CHECK_INT(line.order[i], ==, i);
        if (i % 3 == 0)
            pthread_join(threads[i], NULL);
        else
            ended(fibers[i]);
    }
    return arg;
}

TEST(who_waits_gets_a_permit_in_the_order_of_coming)
{
    in_a_fiber(1, makes_a_line, NULL);
    in_a_fiber(4, makes_a_line, NULL);
}

enum { CONTENDERS = 16 };

struct contest {
    weft_sem sem;
    unsigned taken, worst; /* one worker */
};

static void *contends(void *arg)
{
    struct contest *c = arg;
    for (int i = 0; i < 100; i++) {
        unsigned before = c->taken;
        CHECK_INT(weft_sem_wait(&c->sem, WEFT_FOREVER), ==, 0);
        if (c->taken - before > c->worst)
            c->worst = c->taken - before;
        c->taken++;
        if (i % 3)
            weft_yield();
        CHECK_INT(weft_sem_post(&c->sem), ==, 0);
    }
    return NULL;
}

static void *holds_a_contest(void *arg)
{
    weft_fiber *fibers[CONTENDERS];
    for (int i = 0; i < CONTENDERS; i++)
        fibers[i] = go(contends, arg);
    for (int i = 0; i < CONTENDERS; i++)
        ended(fibers[i]);
    return NULL;
}

TEST(nobody_waits_for_more_than_those_ahead)
{
    struct contest c = {.sem = WEFT_SEM(1)};
    in_a_fiber(1, holds_a_contest, &c);
    CHECK_INT(c.taken, ==, 100 * CONTENDERS);
    CHECK_INT(c.worst, <=, CONTENDERS - 1);
}

/* Two take turns by two semaphores. */
struct table {
    weft_sem turn[2];
    int ball; /* whose turn it is owns it */
};

enum { TURNS = 2000 };

static void plays(struct hand *h)
{
    struct table *t = h->arg;
    unsigned side = h->index;
    for (int i = 0; i < TURNS && side < 2; i++) {
        CHECK_INT(weft_sem_wait(&t->turn[side], WEFT_FOREVER), ==, 0);
        CHECK_INT(t->ball, ==, 2 * i + (int)side);
        t->ball++;
        CHECK_INT(weft_sem_post(&t->turn[1 - side]), ==, 0);
    }
}

TEST(two_take_turns)
{
    for (int i = 0; i < CREWS; i++) {
        struct table t = {.turn = {WEFT_SEM(1), WEFT_SEM(0)}};
        crew_work(&crews[i], plays, &t);
        CHECK_INT(t.ball, ==, 2 * TURNS);
    }
}

struct pool {
    weft_sem sem;
    int in_use, most; /* atomic */
};

enum { PERMITS = 3, ROUNDS = 300 };

static void uses_the_pool(struct hand *h)
{
    struct pool *p = h->arg;
    for (int i = 0; i < ROUNDS; i++) {
        weft_time deadline = i % 3 == 0   ? weft_in((i * 7 + (int)h->index) % 40 * WEFT_US)
                             : i % 3 == 1 ? WEFT_NOW
                                          : WEFT_FOREVER;
        int rc = weft_sem_wait(&p->sem, deadline);
        CHECK(rc == 0 || rc == (i % 3 == 0 ? -ETIMEDOUT : i % 3 == 1 ? -EAGAIN : 0));
        if (rc < 0)
            continue;
        int now = __atomic_add_fetch(&p->in_use, 1, __ATOMIC_RELAXED);
        CHECK_INT(now, <=, PERMITS);
        if (i % 4 == 0)
            weft_yield();
        __atomic_sub_fetch(&p->in_use, 1, __ATOMIC_RELAXED);
        CHECK_INT(weft_sem_post(&p->sem), ==, 0);
    }
}

TEST(there_are_never_more_in_there_than_permits_and_none_is_lost)
{
    for (int i = 0; i < CREWS; i++) {
        struct pool p = {.sem = WEFT_SEM(PERMITS)};
        crew_work(&crews[i], uses_the_pool, &p);
        for (int n = 0; n < PERMITS; n++)
            CHECK_INT(weft_sem_wait(&p.sem, WEFT_NOW), ==, 0);
        CHECK_INT(weft_sem_wait(&p.sem, WEFT_NOW), ==, -EAGAIN);
    }
}

/* The semaphore is the waiter's, and gone when it goes on: an odd hand posts what the even one before it waits for. */
struct calls {
    struct {
        weft_sem *sem;
        weft_sem full; /* the odd one may look */
    } box[32];
};

static void calls(struct hand *h)
{
    struct calls *c = h->arg;
    __typeof__(c->box[0]) *box = &c->box[h->index / 2];
    for (int i = 0; i < ROUNDS; i++) {
        if (h->index % 2 == 1) {
            CHECK_INT(weft_sem_wait(&box->full, WEFT_FOREVER), ==, 0);
            CHECK_INT(weft_sem_post(box->sem), ==, 0);
            continue;
        }
        weft_sem *s = calloc(1, sizeof *s);
        if (i % 3 == 0)
            s->count = WF_SEALED; /* as if somebody had waited for it before */
        box->sem = s;
        CHECK_INT(weft_sem_post(&box->full), ==, 0);
        if (i % 5 == 0)
            weft_yield(); /* the permit may be there first */
        CHECK_INT(weft_sem_wait(s, WEFT_FOREVER), ==, 0);
        free(s);
    }
}

TEST(post_touches_it_no_more_when_the_waiter_goes_on)
{
    for (int i = 0; i < CREWS; i++) {
        struct calls c = {0};
        struct crew even = crews[i];
        even.threads -= crew_size(&crews[i]) % 2;
        crew_work(&even, calls, &c);
    }
}

TESTS(sync_sem, permits_are_counted, too_many_permits_are_eoverflow, who_waits_gets_a_permit_in_the_order_of_coming,
      nobody_waits_for_more_than_those_ahead, two_take_turns,
      there_are_never_more_in_there_than_permits_and_none_is_lost, post_touches_it_no_more_when_the_waiter_goes_on)
