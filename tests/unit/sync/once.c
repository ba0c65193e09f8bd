/*
 * Once: one call of many runs the function, and nobody goes on before that has returned.
 */
#include <errno.h>

#include "unit/sync/crew.h"

static void counts(void *arg)
{
    (*(int *)arg)++;
}

TEST(it_runs_the_first_time_only)
{
    weft_once o = {0};
    int runs = 0, other = 0;
    CHECK_INT(sizeof o, <=, 32);
    CHECK_INT(weft_once_do(&o, counts, &runs, WEFT_NOW), ==, 0);
    CHECK_INT(weft_once_do(&o, counts, &runs, WEFT_NOW), ==, 0);
    CHECK_INT(weft_once_do(&o, counts, &other, WEFT_FOREVER), ==, 0);
    CHECK_INT(runs, ==, 1);
    CHECK_INT(other, ==, 0);
}

struct start {
    weft_once once;
    int runs;  /* atomic */
    int ready; /* what the function sets up */
    weft_event inside, go_on;
};

static void comes_again(void *arg)
{
    struct start *s = arg;
    CHECK_INT(weft_once_do(&s->once, comes_again, s, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_once_do(&s->once, comes_again, s, WEFT_NOW), ==, -EDEADLK);
    s->runs++;
}

static void *recurses(void *arg)
{
    struct start s = {0};
    CHECK_INT(weft_once_do(&s.once, comes_again, &s, WEFT_FOREVER), ==, 0);
    CHECK_INT(s.runs, ==, 1);
    return arg;
}

TEST(from_within_itself_it_is_edeadlk)
{
    recurses(NULL);
    in_a_fiber(1, recurses, NULL);
}

/* The function waits itself; the others must not go on before it returns. */
static void sets_up(void *arg)
{
    struct start *s = arg;
    __atomic_add_fetch(&s->runs, 1, __ATOMIC_RELAXED);
    weft_yield();
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    s->ready = 1;
}

static void needs_it(struct hand *h)
{
    struct start *s = h->arg;
    CHECK_INT(weft_once_do(&s->once, sets_up, s, WEFT_FOREVER), ==, 0);
    CHECK_INT(s->ready, ==, 1);
}

TEST(all_wait_until_it_has_returned)
{
    for (int i = 0; i < CREWS; i++) {
        struct start s = {0};
        crew_work(&crews[i], needs_it, &s);
        CHECK_INT(s.runs, ==, 1);
    }
}

/* In the function, with one waiting: a second one finds the mark of the first. */
static void stays_inside(void *arg)
{
    struct start *s = arg;
    weft_event_set(&s->inside);
    CHECK_INT(weft_event_wait(&s->go_on, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_once_do(&s->once, stays_inside, s, WEFT_FOREVER), ==, -EDEADLK);
    s->ready = 1;
}

static void *does_it(void *arg)
{
    struct start *s = arg;
    CHECK_INT(weft_once_do(&s->once, stays_inside, s, WEFT_FOREVER), ==, 0);
    CHECK_INT(s->ready, ==, 1);
    return NULL;
}

static void *comes_meanwhile(void *arg)
{
    struct start s = {0};
    weft_fiber *first = go(does_it, &s);
    CHECK_INT(weft_event_wait(&s.inside, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_once_do(&s.once, stays_inside, &s, WEFT_NOW), ==, -EAGAIN);
    weft_fiber *second = go(does_it, &s);
    AWAIT_WAITERS(&s.once, 1);
    CHECK_INT(weft_once_do(&s.once, stays_inside, &s, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    weft_fiber *third = go(does_it, &s);
    AWAIT_WAITERS(&s.once, 2);
    weft_event_set(&s.go_on);
    ended(first);
    ended(second);
    ended(third);
    CHECK_INT(weft_once_do(&s.once, stays_inside, &s, WEFT_NOW), ==, 0);
    return arg;
}

TEST(who_comes_meanwhile_waits_or_gives_up)
{
    in_a_fiber(1, comes_meanwhile, NULL);
    in_a_fiber(3, comes_meanwhile, NULL);
}

/* Many short ones: the end of the function races with those that come. */
enum { MANY = 300 };

struct many {
    weft_once once[MANY];
    int value[MANY];
};

struct one {
    struct many *many;
    int i;
};

static void sets_one(void *arg)
{
    struct one *o = arg;
    o->many->value[o->i]++;
}

static void needs_many(struct hand *h)
{
    struct many *m = h->arg;
    for (int i = 0; i < MANY; i++) {
        struct one o = {m, i};
        CHECK_INT(weft_once_do(&m->once[i], sets_one, &o, WEFT_FOREVER), ==, 0);
        CHECK_INT(m->value[i], ==, 1);
    }
}

TEST(many_short_ones_run_once_each)
{
    for (int i = 0; i < CREWS; i++) {
        static struct many m;
        m = (struct many){0};
        crew_work(&crews[i], needs_many, &m);
    }
}

TESTS(sync_once, it_runs_the_first_time_only, from_within_itself_it_is_edeadlk, all_wait_until_it_has_returned,
      who_comes_meanwhile_waits_or_gives_up, many_short_ones_run_once_each)
