/*
 * The event: set lets all go on, until it is reset.
 */
#include <errno.h>

#include "sync/event.h"
#include "unit/sync/crew.h"

TEST(it_stays_as_it_was_told)
{
    weft_event e = {0};
    CHECK_INT(sizeof e, <=, 24);
    for (int sealed = 0; sealed < 2; sealed++) {
        if (sealed)
            e.word |= WF_SEALED; /* as after a wait */
        CHECK(!weft_event_is_set(&e));
        CHECK_INT(weft_event_wait(&e, WEFT_NOW), ==, -EAGAIN);
        CHECK_INT(weft_event_reset(&e), ==, 0);
        CHECK(!weft_event_is_set(&e));
        if (sealed)
            e.word |= WF_SEALED;
        CHECK_INT(weft_event_set(&e), ==, 0);
        CHECK(weft_event_is_set(&e));
        CHECK_INT(weft_event_set(&e), ==, 0);
        CHECK_INT(weft_event_wait(&e, WEFT_NOW), ==, 0);
        CHECK_INT(weft_event_wait(&e, WEFT_FOREVER), ==, 0);
        CHECK(weft_event_is_set(&e));
        if (sealed)
            e.word |= WF_SEALED;
        CHECK_INT(weft_event_reset(&e), ==, 0);
        CHECK(!weft_event_is_set(&e));
        CHECK_INT(weft_event_wait(&e, WEFT_NOW), ==, -EAGAIN);
    }
    CHECK_INT(e.word, ==, 0);
}

static void *waits(void *arg)
{
    CHECK_INT(weft_event_wait(arg, WEFT_FOREVER), ==, 0);
    return NULL;
}

static void *lets_all_go(void *arg)
{
    weft_event e = {0};
    weft_fiber *fibers[5];
    pthread_t threads[5];
    for (int i = 0; i < 5; i++) {
        fibers[i] = go(waits, &e);
        CHECK_INT(pthread_create(&threads[i], NULL, waits, &e), ==, 0);
    }
    AWAIT_WAITERS(&e, 10);
    CHECK_INT(weft_event_reset(&e), ==, 0); /* it is not set: they go on waiting */
    CHECK_INT(waiting(&e.lock, &e.waiters), ==, 10);
    CHECK_INT(weft_event_set(&e), ==, 0);
    CHECK_INT(weft_event_reset(&e), ==, 0); /* they go on all the same */
    for (int i = 0; i < 5; i++) {
        ended(fibers[i]);
        pthread_join(threads[i], NULL);
    }
    CHECK_INT(weft_event_wait(&e, WEFT_NOW), ==, -EAGAIN);
    return arg;
}

TEST(a_set_lets_all_go_on_that_wait)
{
    in_a_fiber(1, lets_all_go, NULL);
    in_a_fiber(4, lets_all_go, NULL);
}

/* The event is the waiter's, and gone when it goes on; some look, some wait. */
struct calls {
    struct {
        weft_event *event;
        weft_sem full; /* the odd one may look */
    } box[32];
};

enum { ROUNDS = 300 };

static void calls(struct hand *h)
{
    struct calls *c = h->arg;
    __typeof__(c->box[0]) *box = &c->box[h->index / 2];
    for (int i = 0; i < ROUNDS; i++) {
        if (h->index % 2 == 1) {
            CHECK_INT(weft_sem_wait(&box->full, WEFT_FOREVER), ==, 0);
            CHECK_INT(weft_event_set(box->event), ==, 0);
            continue;
        }
        weft_event *e = calloc(1, sizeof *e);
        if (i % 2)
            e->word = WF_SEALED; /* as if somebody had waited for it before */
        box->event = e;
        CHECK_INT(weft_sem_post(&box->full), ==, 0);
        while (i % 3 == 0 && !weft_event_is_set(e))
            linger();
        while (i % 3 == 1 && weft_event_wait(e, weft_in(i % 5 * WEFT_US)) != 0)
            linger();
        if (i % 3 == 2)
            CHECK_INT(weft_event_wait(e, WEFT_FOREVER), ==, 0);
        free(e);
    }
}

TEST(set_touches_it_no_more_when_the_waiter_goes_on)
{
    for (int i = 0; i < CREWS; i++) {
        struct calls c = {0};
        struct crew even = crews[i];
        even.threads -= crew_size(&crews[i]) % 2;
        crew_work(&even, calls, &c);
    }
}

/* As select does: the locks of two events held at once, a waiter in each, the first to be set wins. */
struct pair {
    weft_event event[2];
    struct wf_waiter waiter[2]; /* guarded by: each one's lock */
    int won;
};

static bool unlocks_both(struct wf_sleeper *me, void *arg)
{
    (void)me;
    struct pair *p = arg;
    struct wf_lock *first = wf_event_lock(&p->event[0]), *second = wf_event_lock(&p->event[1]);
    wf_unlock(first);
    wf_unlock(second);
    return true;
}

static void *waits_for_either(void *arg)
{
    struct pair *p = arg;
    struct wf_sleeper own, *me = wf_sleeper(&own);
    for (uint32_t i = 0; i < 2; i++) {
        wf_lock(wf_event_lock(&p->event[i]));
        CHECK(!wf_event_is_set(&p->event[i]));
        p->waiter[i].index = 5 + i;
        wf_event_add(&p->event[i], &p->waiter[i], me);
    }
    p->won = wf_wait(me, "either", unlocks_both, p, WEFT_FOREVER);
    for (int i = 0; i < 2; i++) {
        wf_lock(wf_event_lock(&p->event[i]));
        wf_event_take_back(&p->event[i], &p->waiter[i]);
        wf_unlock(wf_event_lock(&p->event[i]));
    }
    return NULL;
}

static void *sets_either(void *arg)
{
    for (int which = 0; which < 2; which++) {
        struct pair p = {0};
        weft_fiber *f = go(waits_for_either, &p);
        AWAIT_WAITERS(&p.event[1], 1);
        CHECK_INT(weft_event_set(&p.event[which]), ==, 0);
        CHECK_INT(weft_event_set(&p.event[1 - which]), ==, 0);
        ended(f);
        CHECK_INT(p.won, ==, 5 + which);
        CHECK_INT(waiting(&p.event[1 - which].lock, &p.event[1 - which].waiters), ==, 0);
        CHECK(weft_event_is_set(&p.event[0]));
        CHECK(weft_event_is_set(&p.event[1]));
    }
    return arg;
}

TEST(one_that_waits_for_two_is_told_which)
{
    in_a_fiber(1, sets_either, NULL);
}

TESTS(sync_event, it_stays_as_it_was_told, a_set_lets_all_go_on_that_wait,
      set_touches_it_no_more_when_the_waiter_goes_on, one_that_waits_for_two_is_told_which)
