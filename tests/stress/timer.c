/*
 * Timers that fire while other threads cancel, refresh and reset them. Each fires once, or is cancelled once, and never
 * both; none is forgotten.
 *
 * WEFT_SEED repeats the choices (not the order of the threads), WEFT_SECONDS sets how long the random part takes.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/fiber.h>
#include <weft/sched.h>
#include <weft/timer.h>

#include "base/sanitizer.h"
#include "support/test.h"

static void *zeroed(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p)
        abort();
    return p;
}

static pthread_t new_thread(void *(*fn)(void *), void *arg)
{
    pthread_t id;
    if (pthread_create(&id, NULL, fn, arg) != 0)
        abort();
    return id;
}

/* ---- a million that are cancelled while they fire ---- */

enum {
    MILLION = WF_ASAN || WF_TSAN || TEST_EMULATED ? 50000 : 1000000,
    ADDERS = 4,
    PART = MILLION / ADDERS,
};

struct one {
    weft_timer *timer; /* atomic */
    int fired;         /* atomic */
    int in_time;       /* what its cancel said; owner: who cancels */
};

static struct one *all;

static void fires(void *arg)
{
    struct one *o = arg;
    __atomic_add_fetch(&o->fired, 1, __ATOMIC_RELAXED);
}

static void *adds_its_part(void *arg)
{
    struct one *mine = all + (intptr_t)arg * PART;
    uint64_t random = (uint64_t)(intptr_t)arg + 1;
    for (int i = 0; i < PART; i++) {
        weft_timer *t = NULL;
        weft_span span = (weft_span)(test_random(&random) >> 40) % 300000 * WEFT_US;
        CHECK_INT(weft_timer_new(&t, span, false, NULL, fires, &mine[i]), ==, 0);
        __atomic_store_n(&mine[i].timer, t, __ATOMIC_RELEASE);
        if (i % 1000 == 0)
            weft_yield();
    }
    return NULL;
}

static void *cancels_all(void *arg)
{
    for (int i = 0; i < PART; i++) {
        for (int part = 0; part < ADDERS; part++) {
            struct one *o = &all[part * PART + (int)(i * 7919l % PART)]; /* some long after they were added */
            weft_timer *t;
            while ((t = __atomic_load_n(&o->timer, __ATOMIC_ACQUIRE)) == NULL)
                sched_yield();
            o->in_time = i % 2 ? weft_timer_free(t) : weft_timer_cancel(t);
            if (i % 2 == 0)
                CHECK_INT(weft_timer_free(t), ==, 0);
        }
    }
    return arg;
}

static void *adds_a_million(void *arg)
{
    pthread_t other = new_thread(cancels_all, arg);
    for (intptr_t i = 0; i < ADDERS; i++)
        CHECK_INT(weft_go(adds_its_part, (void *)i), ==, 0);
    weft_sleep(WEFT_MS); /* and returns: the timers keep the runtime up */
    return (void *)other;
}

TEST(a_million_timers_cancelled_by_another_thread_while_they_fire)
{
    void *other = NULL;
    long fired = 0, cancelled = 0;
    all = zeroed(MILLION, sizeof *all);
    CHECK_INT(weft_run(adds_a_million, NULL, &other, &(weft_sched_opts){.threads = 4}), ==, 0);
    pthread_join((pthread_t)other, NULL);
    for (int i = 0; i < MILLION; i++) {
        CHECK_INT(all[i].fired + all[i].in_time, ==, 1);
        fired += all[i].fired;
        cancelled += all[i].in_time;
    }
    printf("stress: %ld fired, %ld were cancelled in time\n", fired, cancelled);
    free(all);
}

/* ---- random steps ---- */

enum { ROOMS = 200, PLAYERS = 6, OWNERS = 8 };

/* Owned by who has taken it. */
struct room {
    int taken; /* atomic */
    weft_timer *timer;
    struct shot *shot;
};

/* One timer's life. */
struct shot {
    int fired;  /* atomic */
    int inside; /* atomic: callbacks under way */
    bool recurring;
    int64_t not_before; /* atomic: a time before which it must not fire */
    struct owned *owner;
};

struct owned {
    weft_alive *alive;
    int destroyed; /* atomic */
};

static struct room rooms[ROOMS];
static weft_time end;
static uint64_t made, shots, stopped;

static void shoots(void *arg)
{
    struct shot *s = arg;
    CHECK_INT(__atomic_add_fetch(&s->inside, 1, __ATOMIC_ACQ_REL), ==, 1);
    if (s->owner)
        CHECK_INT(__atomic_load_n(&s->owner->destroyed, __ATOMIC_ACQUIRE), ==, 0);
    CHECK_INT(weft_now().ns, >=, __atomic_load_n(&s->not_before, __ATOMIC_ACQUIRE));
    int fired = __atomic_add_fetch(&s->fired, 1, __ATOMIC_ACQ_REL);
    if (!s->recurring)
        CHECK_INT(fired, ==, 1);
    __atomic_add_fetch(&shots, 1, __ATOMIC_RELAXED);
    if (fired % 7 == 0)
        weft_sleep(30 * WEFT_US);
    else if (fired % 3 == 0)
        weft_yield();
    if (s->owner)
        CHECK_INT(__atomic_load_n(&s->owner->destroyed, __ATOMIC_ACQUIRE), ==, 0);
    __atomic_add_fetch(&s->inside, -1, __ATOMIC_ACQ_REL);
}

static void destroys(void *arg)
{
    struct owned *o = arg;
    CHECK_INT(__atomic_add_fetch(&o->destroyed, 1, __ATOMIC_ACQ_REL), ==, 1);
}

static unsigned pick(uint64_t *random, unsigned n)
{
    return (unsigned)(test_random(random) >> 33) % n;
}

/* All shots: they are looked at, and freed, at the end. */
static struct shot *keep[1 << 20];
static unsigned kept;

static void fill(struct room *r, struct owned *owner, uint64_t *random)
{
    unsigned at = __atomic_fetch_add(&kept, 1, __ATOMIC_RELAXED);
    if (at >= sizeof keep / sizeof keep[0])
        return;
    struct shot *s = zeroed(1, sizeof *s);
    keep[at] = s;
    weft_span period = (1 + pick(random, 400)) * 5 * WEFT_US;
    s->recurring = pick(random, 2);
    s->owner = pick(random, 3) == 0 ? owner : NULL;
    s->not_before = weft_now().ns + period;
    CHECK_INT(weft_timer_new(&r->timer, period, s->recurring, s->owner ? s->owner->alive : NULL, shoots, s), ==, 0);
    r->shot = s;
    __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
}

static void empty(struct room *r)
{
    struct shot *s = r->shot;
    int before = __atomic_load_n(&s->fired, __ATOMIC_ACQUIRE);
    int in_time = weft_timer_cancel(r->timer);
    if (in_time == 1) { /* nothing runs, and nothing will */
        CHECK_INT(__atomic_load_n(&s->inside, __ATOMIC_ACQUIRE), ==, 0);
        CHECK(s->recurring || before == 0);
        CHECK(s->recurring || __atomic_load_n(&s->fired, __ATOMIC_ACQUIRE) == 0);
        __atomic_store_n(&s->not_before, INT64_MAX, __ATOMIC_RELEASE); /* or it is seen */
        __atomic_add_fetch(&stopped, 1, __ATOMIC_RELAXED);
    }
    CHECK_INT(weft_timer_free(r->timer), ==, 0);
    r->timer = NULL;
}

static void step(struct room *r, struct owned *owner, uint64_t *random)
{
    if (!r->timer) {
        fill(r, owner, random);
        return;
    }
    int rc = 0;
    switch (pick(random, 6)) {
    case 0:
        empty(r);
        break;
    case 1:
        rc = weft_timer_refresh(r->timer);
        break;
    case 2:
        __atomic_store_n(&r->shot->not_before, 0, __ATOMIC_RELEASE); /* it may be sooner */
        rc = weft_timer_reset(r->timer, (1 + pick(random, 300)) * 5 * WEFT_US, true);
        break;
    case 3:
        __atomic_store_n(&r->shot->not_before, 0, __ATOMIC_RELEASE); /* it may be at once */
        rc = weft_timer_reset(r->timer, (1 + pick(random, 300)) * 5 * WEFT_US, false);
        break;
    default:
        weft_timer_next(r->timer);
        weft_timer_missed(r->timer);
    }
    CHECK(rc == 0 || rc == -ESRCH);
}

static void new_owner(struct owned *o)
{
    o->destroyed = 0;
    CHECK_INT(weft_alive_new(&o->alive, o, destroys), ==, 0);
}

static void *plays(void *arg)
{
    uint64_t random = (uint64_t)(intptr_t)arg * 0x9e3779b97f4a7c15u | 1;
    struct owned *owners = zeroed(OWNERS, sizeof *owners); /* kept: callbacks look at them */
    int owner = 0;
    new_owner(&owners[0]);
    while (weft_now().ns < end.ns && !test_has_failed()) {
        struct room *r = &rooms[pick(&random, ROOMS)];
        if (!__atomic_exchange_n(&r->taken, 1, __ATOMIC_ACQUIRE)) {
            step(r, &owners[owner], &random);
            __atomic_store_n(&r->taken, 0, __ATOMIC_RELEASE);
        }
        if (owner + 1 < OWNERS && pick(&random, 2000) == 0) {
            weft_alive_drop(owners[owner].alive);
            new_owner(&owners[++owner]);
        }
        if (pick(&random, 8) == 0)
            weft_yield();
    }
    weft_alive_drop(owners[owner].alive);
    return owners;
}

static void *starts_players(void *arg)
{
    intptr_t seed = (intptr_t)arg;
    pthread_t threads[PLAYERS / 2];
    weft_fiber *fibers[PLAYERS / 2];
    void *owners[PLAYERS] = {NULL};
    const char *seconds = getenv("WEFT_SECONDS");
    end = weft_in((seconds ? strtol(seconds, NULL, 10) : 2) *
                  WEFT_SEC); /* from here on: malloc sorts a million first */
    for (int i = 0; i < PLAYERS / 2; i++) {
        threads[i] = new_thread(plays, (void *)(seed + i));
        CHECK_INT(weft_go_with(&fibers[i], NULL, plays, (void *)(seed + 100 + i)), ==, 0);
    }
    for (int i = 0; i < PLAYERS / 2; i++)
        CHECK_INT(weft_join(fibers[i], &owners[i], WEFT_FOREVER), ==, 0);
    for (int i = 0; i < PLAYERS / 2; i++)
        pthread_join(threads[i], &owners[PLAYERS / 2 + i]);
    for (int i = 0; i < ROOMS; i++) {
        if (rooms[i].timer)
            empty(&rooms[i]);
    }
    weft_sleep(5 * WEFT_MS); /* callbacks that sleep */
    void **result = zeroed(PLAYERS, sizeof *result);
    for (int i = 0; i < PLAYERS; i++)
        result[i] = owners[i];
    return result;
}

TEST(random_steps_by_fibers_and_threads)
{
    void *value = NULL;
    CHECK_INT(weft_run(starts_players, (void *)(test_seed() >> 1), &value, &(weft_sched_opts){.threads = 3}), ==, 0);
    for (unsigned i = 0; i < kept && i < sizeof keep / sizeof keep[0]; i++) {
        CHECK_INT(keep[i]->inside, ==, 0);
        free(keep[i]);
    }
    void **owners = value;
    for (int i = 0; owners && i < PLAYERS; i++) {
        struct owned *o = owners[i];
        for (int j = 0; j < OWNERS && o[j].alive; j++)
            CHECK_INT(o[j].destroyed, ==, 1);
        free(o);
    }
    free(value);
    printf("stress: %llu timers, %llu calls, %llu cancelled in time\n", (unsigned long long)made,
           (unsigned long long)shots, (unsigned long long)stopped);
    CHECK_INT(shots, >, 100);
}

TESTS(stress_timer, a_million_timers_cancelled_by_another_thread_while_they_fire, random_steps_by_fibers_and_threads)
