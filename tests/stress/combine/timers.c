/*
 * combine/timers.c: timers that fire once, recurring timers, timers whose owner goes away, and alarms. No timer fires
 * early. A timer that fires once does so exactly once, and not at all after a cancel in time. A recurring timer never
 * overlaps itself.
 */
#include "stress/combine/combine.h"

enum { MOST_TIMERS = 12, ALIVE = 0x600d, GONE = 0xdead };

/* What callbacks use, and what goes away when its owner drops it. */
struct object {
    int state; /* ALIVE or GONE. atomic */
    int destroyed;
};

struct ticker {
    struct scene *scene;
    weft_timer *timer;
    weft_alive *alive;
    struct object *object; /* NULL: it has no condition */
    weft_span period;      /* const after the callback may run, but for resets */
    bool recurring;
    bool is_steady;     /* nobody refreshes or resets it: each time is known */
    int64_t first;      /* const: not before this */
    int64_t not_before; /* atomic: of one that fires once */
    int fired, inside;  /* flags, counted */
    uint64_t random;    /* owner: the callback */
};

static void destroy(void *arg)
{
    struct object *o = arg;
    put(&o->state, GONE);
    more(&o->destroyed);
}

static void tick(void *arg)
{
    struct ticker *t = arg;
    struct scene *s = t->scene;
    int64_t now = weft_now().ns;
    EXPECT_INT(s, more(&t->inside), ==, 1);
    int n = more(&t->fired);
    if (t->object)
        EXPECT_INT(s, seen(&t->object->state), ==, ALIVE);
    if (!t->recurring) {
        EXPECT_INT(s, n, ==, 1);
        EXPECT_INT(s, now, >=, __atomic_load_n(&t->not_before, __ATOMIC_ACQUIRE));
    } else if (t->is_steady) {
        EXPECT_INT(s, now, >=, t->first + (n - 1) * t->period);
    }
    if (chance(&t->random, 3))
        nap(s, &t->random, 700);
    if (t->object)
        EXPECT_INT(s, seen(&t->object->state), ==, ALIVE);
    did(s);
    __atomic_sub_fetch(&t->inside, 1, __ATOMIC_ACQ_REL);
}

static void make_ticker(struct scene *s, struct ticker *t)
{
    *t = (struct ticker){.scene = s, .recurring = chance(&s->random, 2), .is_steady = chance(&s->random, 2)};
    t->random = new_random(&s->random);
    t->period = (weft_span)(1 + pick(&s->random, t->recurring ? 2000 : 4000)) * WEFT_US;
    if (t->recurring || chance(&s->random, 2)) { /* of a recurring one only its condition says that it is over */
        t->object = calloc(1, sizeof *t->object);
        t->object->state = ALIVE;
        EXPECT_INT(s, weft_alive_new(&t->alive, t->object, destroy), ==, 0);
    }
    t->first = t->not_before = weft_in(t->period).ns;
    EXPECT_INT(s, weft_timer_new(&t->timer, t->period, t->recurring, t->alive, tick, t), ==, 0);
    did(s);
}

/* A new time for a timer: what is known of one that fires once is that it does not fire before. */
static void set_anew(struct ticker *t)
{
    struct scene *s = t->scene;
    weft_span period = (weft_span)(1 + pick(&s->random, 3000)) * WEFT_US;
    int rc;
    if (t->is_steady && t->recurring)
        return;
    int64_t due;
    if (chance(&s->random, 2)) {
        due = weft_in(t->period).ns;
        rc = weft_timer_refresh(t->timer);
    } else {
        due = weft_in(period).ns;
        rc = weft_timer_reset(t->timer, period, true);
        if (rc == 0)
            t->period = period;
    }
    EXPECT(s, rc == 0 || rc == -ESRCH);
    if (rc == 0 && !t->recurring)
        __atomic_store_n(&t->not_before, due, __ATOMIC_RELEASE);
    did(s);
}

/* Ends one: exactly what was promised has happened. */
static void end_ticker(struct ticker *t)
{
    struct scene *s = t->scene;
    bool drop = t->object && chance(&s->random, 2), was_dropped = false;
    if (!t->recurring && !drop && chance(&s->random, 2))
        AWAIT(seen(&t->fired) == 1);
    if (drop) {
        weft_alive_drop(t->alive);
        was_dropped = true;
    }
    int rc = chance(&s->random, 2) ? weft_timer_cancel(t->timer) : -1;
    int again = weft_timer_free(t->timer);
    EXPECT(s, rc == -1 || again == 0);
    bool in_time = rc == 1 || again == 1;
    if (!t->recurring && !was_dropped) {
        if (in_time)
            EXPECT_INT(s, seen(&t->fired), ==, 0);
        else
            AWAIT(seen(&t->fired) == 1);
    }
    if (in_time)
        EXPECT_INT(s, seen(&t->inside), ==, 0);
    if (t->object && !was_dropped)
        weft_alive_drop(t->alive);
    did(s);
}

/* No callback can be under way any more, or come. */
static void bury_ticker(struct ticker *t)
{
    if (t->object) {
        AWAIT(seen(&t->object->destroyed) == 1);
        free(t->object);
    }
    AWAIT(seen(&t->inside) == 0);
}

static void use_timers(struct scene *s)
{
    struct ticker *tickers = calloc(MOST_TIMERS, sizeof *tickers);
    unsigned n = 1 + pick(&s->random, MOST_TIMERS);
    for (unsigned i = 0; i < n; i++)
        make_ticker(s, &tickers[i]);
    for (unsigned k = pick(&s->random, 30); k > 0; k--) {
        set_anew(&tickers[pick(&s->random, n)]);
        if (chance(&s->random, 4))
            nap(s, &s->random, 1000);
    }
    for (unsigned i = 0; i < n; i++)
        end_ticker(&tickers[i]);
    for (unsigned i = 0; i < n; i++)
        bury_ticker(&tickers[i]);
    free(tickers);
}

/* ---- alarms ---- */

struct bell {
    struct scene *scene;
    int64_t at;
    int rung; /* flag, counted */
};

static void ring(void *arg)
{
    struct bell *b = arg;
    EXPECT_INT(b->scene, weft_wall_now().ns, >=, b->at);
    EXPECT_INT(b->scene, more(&b->rung), ==, 1);
}

static void use_alarm(struct scene *s)
{
    struct bell b = {.scene = s, .at = weft_wall_now().ns + (int64_t)pick(&s->random, 4000) * WEFT_US};
    weft_alarm *a = NULL;
    EXPECT_INT(s, weft_alarm_new(&a, (weft_wall){b.at}, NULL, ring, &b), ==, 0);
    if (chance(&s->random, 2))
        nap(s, &s->random, 4000);
    if (chance(&s->random, 2))
        AWAIT(seen(&b.rung) == 1);
    int rc = weft_alarm_free(a);
    if (rc == 1)
        EXPECT_INT(s, seen(&b.rung), ==, 0);
    else
        AWAIT(seen(&b.rung) == 1);
    did(s);
}

void step_timers(struct scene *s)
{
    use_timers(s);
    if (chance(&s->random, 2))
        use_alarm(s);
}
