/*
 * The condition: a signal wakes one that waited before it, a broadcast all of them, and the mutex is always held again.
 */
#include <errno.h>

#include "unit/sync/crew.h"

static void *waits_without(void *arg)
{
    weft_cond c = {0};
    weft_mutex m = {0};
    weft_time deadlines[] = {WEFT_NOW, WEFT_FOREVER};
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_cond_wait(&c, &m, deadlines[i]), ==, -EPERM);
    CHECK_INT(weft_mutex_lock(&m, WEFT_NOW), ==, 0);
    CHECK_INT(weft_cond_wait(&c, &m, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(weft_cond_signal(&c), ==, 0); /* nobody waits: nothing is kept */
    CHECK_INT(weft_cond_broadcast(&c), ==, 0);
    CHECK_INT(weft_cond_wait(&c, &m, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_mutex_unlock(&m), ==, 0);
    return arg;
}

TEST(only_who_has_the_mutex_may_wait_and_a_signal_to_nobody_is_lost)
{
    CHECK_INT(sizeof(weft_cond), <=, 24);
    waits_without(NULL);
    in_a_fiber(1, waits_without, NULL);
}

struct room {
    weft_cond cond;
    weft_mutex mutex;
    unsigned order[16], n; /* who was woken, in order; guarded by: mutex */
};

struct guest {
    struct room *room;
    unsigned number;
};

static void *waits_once(void *arg)
{
    struct guest *g = arg;
    CHECK_INT(weft_mutex_lock(&g->room->mutex, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_cond_wait(&g->room->cond, &g->room->mutex, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_mutex_lock(&g->room->mutex, WEFT_NOW), ==, -EDEADLK); /* it is held */
    g->room->order[g->room->n++] = g->number;
    CHECK_INT(weft_mutex_unlock(&g->room->mutex), ==, 0);
    return NULL;
}

static unsigned woken(struct room *r)
{
    CHECK_INT(weft_mutex_lock(&r->mutex, WEFT_FOREVER), ==, 0);
    unsigned n = r->n;
    CHECK_INT(weft_mutex_unlock(&r->mutex), ==, 0);
    return n;
}

/* Eight wait, threads among them; four are woken one by one, the rest at once. */
static void *fills_a_room(void *arg)
{
    struct room r = {0};
    struct guest guests[8];
    weft_fiber *fibers[8];
    pthread_t threads[8];
    for (unsigned i = 0; i < 8; i++) {
        guests[i] = (struct guest){&r, i};
        if (i % 3 == 0)
            CHECK_INT(pthread_create(&threads[i], NULL, waits_once, &guests[i]), ==, 0);
        else
            fibers[i] = go(waits_once, &guests[i]);
        AWAIT_WAITERS(&r.cond, i + 1);
    }
    for (unsigned i = 0; i < 4; i++) {
        CHECK_INT(weft_cond_signal(&r.cond), ==, 0);
        CHECK_INT(waiting(&r.cond.lock, &r.cond.waiters), ==, 7 - i);
        while (woken(&r) <= i)
            linger();
        CHECK_INT(woken(&r), ==, i + 1); /* one signal, one waiter */
        CHECK_INT(r.order[i], ==, i);
    }
    CHECK_INT(weft_cond_broadcast(&r.cond), ==, 0);
    for (unsigned i = 0; i < 8; i++) {
        if (i % 3 == 0)
            pthread_join(threads[i], NULL);
        else
            ended(fibers[i]);
    }
    CHECK_INT(r.n, ==, 8);
    return arg;
}

TEST(a_signal_wakes_the_first_and_a_broadcast_all)
{
    in_a_fiber(1, fills_a_room, NULL);
    in_a_fiber(4, fills_a_room, NULL);
}

/* The signal was for the one that waited; one that comes right after it, before that one runs, must wait. */
static void *comes_late(void *arg)
{
    struct room *r = arg;
    CHECK_INT(weft_mutex_lock(&r->mutex, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_cond_wait(&r->cond, &r->mutex, weft_in(5 * WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_mutex_unlock(&r->mutex), ==, 0);
    return NULL;
}

static void *signals_in_between(void *arg)
{
    struct room r = {0};
    struct guest first = {&r, 0};
    weft_fiber *f = go(waits_once, &first);
    AWAIT_WAITERS(&r.cond, 1);
    CHECK_INT(weft_mutex_lock(&r.mutex, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_cond_signal(&r.cond), ==, 0);
    CHECK_INT(weft_cond_wait(&r.cond, &r.mutex, weft_in(5 * WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_mutex_unlock(&r.mutex), ==, 0);
    comes_late(&r);
    ended(f);
    CHECK_INT(r.n, ==, 1);
    return arg;
}

TEST(who_comes_after_the_signal_cannot_take_it)
{
    in_a_fiber(1, signals_in_between, NULL);
    in_a_fiber(2, signals_in_between, NULL);
}

/* Timed out or cancelled: it returns when it has the mutex, and not before. */
struct late {
    struct room *room;
    weft_time deadline;
    int expected;
    int back;
};

static void *comes_back(void *arg)
{
    struct late *l = arg;
    CHECK_INT(weft_mutex_lock(&l->room->mutex, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_cond_wait(&l->room->cond, &l->room->mutex, l->deadline), ==, l->expected);
    l->back = 1;
    CHECK_INT(weft_mutex_unlock(&l->room->mutex), ==, 0);
    return NULL;
}

static void *holds_the_mutex(void *arg)
{
    for (int cancels = 0; cancels < 2; cancels++) {
        struct room r = {0};
        struct late l = {&r, cancels ? WEFT_FOREVER : weft_in(3 * WEFT_MS), cancels ? -ECANCELED : -ETIMEDOUT, 0};
        weft_fiber *f = go(comes_back, &l);
        weft_yield(); /* there is one worker: it waits now */
        CHECK_INT(weft_mutex_lock(&r.mutex, WEFT_NOW), ==, 0);
        if (cancels)
            CHECK_INT(weft_cancel(f), ==, 0);
        AWAIT_WAITERS(&r.mutex, 1); /* it wants the mutex back */
        CHECK_INT(weft_cancel(f), ==, 0);
        weft_yield();
        CHECK_INT(l.back, ==, 0);
        CHECK_INT(weft_mutex_unlock(&r.mutex), ==, 0);
        ended(f);
        CHECK_INT(l.back, ==, 1);
    }
    return arg;
}

TEST(who_gives_up_has_the_mutex_back_even_if_cancelled_meanwhile)
{
    in_a_fiber(1, holds_the_mutex, NULL);
}

/* A bounded buffer: nothing is lost, nothing stands still. */
struct buffer {
    weft_mutex mutex;
    weft_cond not_empty, not_full;
    unsigned full, made, used, to_make; /* guarded by: mutex */
};

enum { ROOM = 3 };

static void works_at_the_buffer(struct hand *h)
{
    struct buffer *b = h->arg;
    bool makes = h->index % 2 == 0;
    CHECK_INT(weft_mutex_lock(&b->mutex, WEFT_FOREVER), ==, 0);
    for (;;) {
        if (makes ? b->made == b->to_make : b->used == b->to_make)
            break;
        if (makes ? b->full == ROOM : b->full == 0) {
            CHECK_INT(weft_cond_wait(makes ? &b->not_full : &b->not_empty, &b->mutex, WEFT_FOREVER), ==, 0);
            continue;
        }
        if (makes)
            b->full++, b->made++;
        else
            b->full--, b->used++;
        CHECK_INT(weft_mutex_unlock(&b->mutex), ==, 0);
        CHECK_INT(weft_cond_signal(makes ? &b->not_empty : &b->not_full), ==, 0);
        CHECK_INT(weft_mutex_lock(&b->mutex, WEFT_FOREVER), ==, 0);
    }
    CHECK_INT(weft_mutex_unlock(&b->mutex), ==, 0);
    CHECK_INT(weft_cond_broadcast(&b->not_full), ==, 0);
    CHECK_INT(weft_cond_broadcast(&b->not_empty), ==, 0);
}

TEST(makers_and_users_of_a_small_buffer_lose_nothing)
{
    for (int i = 0; i < CREWS; i++) {
        struct buffer b = {.to_make = 1000};
        crew_work(&crews[i], works_at_the_buffer, &b);
        CHECK_INT(b.used, ==, b.to_make);
        CHECK_INT(b.full, ==, 0);
    }
}

/* Every signal that is given while somebody waits, and not for time's sake only, is one return of 0. */
struct tally {
    weft_mutex mutex;
    weft_cond cond;
    unsigned waiting, given, taken, ended; /* guarded by: mutex */
    unsigned hands;
};

static void tallies(struct hand *h)
{
    struct tally *t = h->arg;
    CHECK_INT(weft_mutex_lock(&t->mutex, WEFT_FOREVER), ==, 0);
    if (h->index == 0) {
        while (t->ended < t->hands - 1) {
            if (t->waiting > t->given - t->taken) { /* one at least waits that no signal was given for */
                t->given++;
                CHECK_INT(weft_cond_signal(&t->cond), ==, 0);
            }
            CHECK_INT(weft_mutex_unlock(&t->mutex), ==, 0);
            weft_yield();
            CHECK_INT(weft_mutex_lock(&t->mutex, WEFT_FOREVER), ==, 0);
        }
    }
    for (int i = 0; h->index != 0 && i < 100; i++) {
        t->waiting++;
        CHECK_INT(weft_cond_wait(&t->cond, &t->mutex, WEFT_FOREVER), ==, 0);
        t->waiting--;
        t->taken++;
    }
    t->ended++;
    CHECK_INT(weft_mutex_unlock(&t->mutex), ==, 0);
}

TEST(each_signal_is_one_return)
{
    for (int i = 0; i < CREWS; i++) {
        struct tally t = {.hands = crew_size(&crews[i])};
        crew_work(&crews[i], tallies, &t);
        CHECK_INT(t.given, ==, t.taken);
        CHECK_INT(t.taken, ==, 100 * (t.hands - 1));
    }
}

TESTS(sync_cond, only_who_has_the_mutex_may_wait_and_a_signal_to_nobody_is_lost,
      a_signal_wakes_the_first_and_a_broadcast_all, who_comes_after_the_signal_cannot_take_it,
      who_gives_up_has_the_mutex_back_even_if_cancelled_meanwhile, makers_and_users_of_a_small_buffer_lose_nothing,
      each_signal_is_one_return)
