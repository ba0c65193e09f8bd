/*
 * combine/meetings.c: events, waitgroups, once, barriers and conditions. No waiter passes too early, and no waiter is
 * forgotten.
 */
#include "stress/combine/combine.h"

enum { MOST_GUESTS = 6 };

/* One step's. */
struct meeting {
    struct scene *scene;
    unsigned guests, turns;
    weft_event event;
    int is_set; /* flag: set before the event is */
    weft_waitgroup group;
    int worked; /* flag, counted: before each weft_waitgroup_done */
    weft_once once;
    int calls, called; /* flags, counted */
    weft_barrier barrier;
    int ones;         /* flag, counted: calls of weft_barrier_wait that returned 1 */
    int arrived;      /* flag, counted: before each wait at the barrier that is not given up */
    weft_mutex mutex; /* of what follows */
    weft_cond has_tokens;
    unsigned tokens, made, taken;
    bool no_more;
};

struct guest {
    struct meeting *meeting;
    unsigned index;
    uint64_t random;
};

static void call_once(void *arg)
{
    struct meeting *m = arg;
    EXPECT_INT(m->scene, more(&m->calls), ==, 1);
    weft_sleep(100 * WEFT_US);
    put(&m->called, 1);
}

/* Waits as often as it takes; a cancelled guest goes on without waiting for its turn. */
#define UNTIL_DONE(g, rc, deadline, call)                                                                              \
    do {                                                                                                               \
        (deadline) = some_deadline(&(g)->random);                                                                      \
        (rc) = (call);                                                                                                 \
        did((g)->meeting->scene);                                                                                      \
        if ((rc) < 0) {                                                                                                \
            if (!gave_up_rightly((g)->meeting->scene, rc, deadline))                                                   \
                WRONG((g)->meeting->scene, "%s: %d", #call, rc);                                                       \
            breathe();                                                                                                 \
        }                                                                                                              \
    } while ((rc) < 0 && !test_has_failed())

static void meet_at_barrier(struct guest *g)
{
    struct meeting *m = g->meeting;
    weft_time deadline;
    int rc;
    for (unsigned turn = 0; turn < m->turns; turn++) {
        more(&m->arrived);
        UNTIL_DONE(g, rc, deadline, weft_barrier_wait(&m->barrier, deadline));
        if (rc == 1)
            more(&m->ones);
        EXPECT_INT(m->scene, seen(&m->arrived), >=, (int)((turn + 1) * m->guests));
    }
}

/* Takes tokens until there are no more. */
static void take_tokens(struct guest *g)
{
    struct meeting *m = g->meeting;
    weft_time deadline;
    int rc;
    UNTIL_DONE(g, rc, deadline, weft_mutex_lock(&m->mutex, deadline));
    for (;;) {
        while (m->tokens == 0 && !m->no_more) {
            deadline = some_deadline(&g->random);
            rc = weft_cond_wait(&m->has_tokens, &m->mutex, deadline);
            did(m->scene);
            if (rc != 0) {
                EXPECT(m->scene, gave_up_rightly(m->scene, rc, deadline));
                EXPECT_INT(m->scene, weft_mutex_unlock(&m->mutex), ==, 0);
                breathe();
                UNTIL_DONE(g, rc, deadline, weft_mutex_lock(&m->mutex, deadline));
            }
        }
        if (m->tokens == 0)
            break;
        m->tokens--;
        m->taken++;
    }
    EXPECT_INT(m->scene, weft_mutex_unlock(&m->mutex), ==, 0);
}

static void *attends(void *arg)
{
    struct guest *g = arg;
    struct meeting *m = g->meeting;
    weft_time deadline;
    int rc;
    UNTIL_DONE(g, rc, deadline, weft_event_wait(&m->event, deadline));
    EXPECT_INT(m->scene, seen(&m->is_set), ==, 1);
    UNTIL_DONE(g, rc, deadline, weft_once_do(&m->once, call_once, m, deadline));
    EXPECT_INT(m->scene, seen(&m->called), ==, 1);
    meet_at_barrier(g);
    take_tokens(g);
    more(&m->worked);
    EXPECT_INT(m->scene, weft_waitgroup_done(&m->group), ==, 0);
    return NULL;
}

static void make_tokens(struct meeting *m)
{
    struct scene *s = m->scene;
    for (unsigned n = pick(&s->random, 40); n > 0; n--) {
        EXPECT_INT(s, weft_mutex_lock(&m->mutex, WEFT_FOREVER), ==, 0);
        unsigned more_tokens = 1 + pick(&s->random, 2);
        m->tokens += more_tokens;
        m->made += more_tokens;
        EXPECT_INT(s, weft_mutex_unlock(&m->mutex), ==, 0);
        for (; more_tokens > 0; more_tokens--)
            EXPECT_INT(s, weft_cond_signal(&m->has_tokens), ==, 0);
        if (chance(&s->random, 3))
            nap(s, &s->random, 200);
        did(s);
    }
    EXPECT_INT(s, weft_mutex_lock(&m->mutex, WEFT_FOREVER), ==, 0);
    m->no_more = true;
    EXPECT_INT(s, weft_cond_broadcast(&m->has_tokens), ==, 0);
    EXPECT_INT(s, weft_mutex_unlock(&m->mutex), ==, 0);
}

void step_signals(struct scene *s)
{
    struct meeting *m = calloc(1, sizeof *m);
    struct guest *guests = calloc(MOST_GUESTS, sizeof *guests);
    weft_fiber *fibers[MOST_GUESTS];
    m->scene = s;
    m->guests = 1 + pick(&s->random, MOST_GUESTS);
    m->turns = pick(&s->random, 8);
    EXPECT_INT(s, weft_barrier_init(&m->barrier, m->guests), ==, 0);
    EXPECT_INT(s, weft_waitgroup_add(&m->group, (int)m->guests), ==, 0);
    for (unsigned i = 0; i < m->guests; i++) {
        guests[i] = (struct guest){m, i, new_random(&s->random)};
        start(s, &fibers[i], &s->random, attends, &guests[i]);
    }
    nap(s, &s->random, 500);
    put(&m->is_set, 1);
    EXPECT_INT(s, weft_event_set(&m->event), ==, 0);
    if (chance(&s->random, 3))
        weft_cancel(fibers[pick(&s->random, m->guests)]);
    make_tokens(m);
    EXPECT_INT(s, weft_waitgroup_wait(&m->group, WEFT_FOREVER), ==, 0);
    EXPECT_INT(s, seen(&m->worked), ==, (int)m->guests);
    for (unsigned i = 0; i < m->guests; i++)
        ended(s, fibers[i]);
    EXPECT_INT(s, m->ones, ==, (int)m->turns);
    EXPECT_INT(s, m->taken, ==, m->made);
    EXPECT_INT(s, m->calls, ==, 1);
    free(guests);
    free(m);
}
