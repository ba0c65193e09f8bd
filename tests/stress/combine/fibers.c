/*
 * combine/fibers.c: fibers that start other fibers, and join, detach and cancel them; tokens of weft_park; submits that
 * name a worker. Each child runs once and its value arrives; a fiber stays on its worker unless it may move.
 */
#include "stress/combine/combine.h"

enum { MOST_CHILDREN = 8, DEPTH = 2 };

/* ---- family ---- */

/* All children of one step, however deep. */
struct clan {
    struct scene *scene;
    weft_waitgroup detached; /* of them, those that nobody joins */
    int born, run;           /* flags, counted */
    int destroyed, kept;     /* values of fibers. flags, counted */
};

struct child {
    struct clan *clan;
    uint64_t random;
    int depth;
    bool moves, detached;
    int answer; /* const: what it returns */
};

static weft_local key;
static weft_once key_made;

static void forget_value(void *value)
{
    struct clan *c = value;
    more(&c->destroyed);
}

static void make_key(void *arg)
{
    struct scene *s = arg;
    EXPECT_INT(s, weft_local_new(&key, forget_value), ==, 0);
}

static void raise_children(struct clan *c, uint64_t *random, int depth);

/* A cancel ends none of these waits before the shield's end. */
static void wait_in_shields(struct scene *s, uint64_t *random, unsigned depth, int64_t outer)
{
    weft_time shield = weft_in((weft_span)pick(random, 500) * WEFT_US);
    int64_t until = shield.ns < outer ? shield.ns : outer;
    EXPECT_INT(s, weft_shield_begin(shield), ==, 0);
    if (depth > 1)
        wait_in_shields(s, random, depth - 1, until);
    weft_time deadline = weft_in((weft_span)pick(random, 500) * WEFT_US);
    int rc = weft_park(deadline);
    EXPECT(s, gave_up_rightly(s, rc, deadline));
    if (rc == -ECANCELED)
        EXPECT_INT(s, weft_now().ns, >=, until);
    weft_shield_end();
}

/* One thing that a fiber may do. */
static void pass_time(struct child *c)
{
    struct scene *s = c->clan->scene;
    weft_time deadline;
    switch (pick(&c->random, 7)) {
    case 0:
        weft_yield();
        break;
    case 1:
        nap(s, &c->random, 500);
        break;
    case 2:
        weft_checkpoint();
        break;
    case 3: /* nobody unparks it */
        deadline = weft_in((weft_span)pick(&c->random, 500) * WEFT_US);
        EXPECT(s, gave_up_rightly(s, weft_park(deadline), deadline));
        break;
    case 4:
        EXPECT_INT(s, weft_local_set(key, c->clan), ==, 0);
        break;
    case 5:
        wait_in_shields(s, &c->random, 1 + pick(&c->random, 3), INT64_MAX);
        break;
    default:
        if (c->depth > 0 && !weft_cancelled())
            raise_children(c->clan, &c->random, c->depth - 1);
    }
    did(s);
}

static void *grows_up(void *arg)
{
    struct child *c = arg;
    struct clan *clan = c->clan;
    int answer = c->answer;
    bool detached = c->detached;
    pid_t thread = thread_id();
    for (unsigned n = pick(&c->random, 5); n > 0; n--) {
        pass_time(c);
        if (!c->moves && thread_id() != thread)
            WRONG(clan->scene, "a fiber that may not move went from thread %d to %d", thread, thread_id());
    }
    if (weft_local_get(key)) {
        EXPECT(clan->scene, weft_local_get(key) == clan);
        more(&clan->kept);
    }
    more(&clan->run);
    free(c);
    if (detached)
        weft_waitgroup_done(&clan->detached);
    return ptr(answer);
}

static struct child *new_child(struct clan *clan, uint64_t *random, int depth)
{
    struct child *c = malloc(sizeof *c);
    *c = (struct child){.clan = clan, .depth = depth, .random = new_random(random), .detached = chance(random, 4)};
    c->answer = (int)pick(random, 1 << 20);
    more(&clan->born);
    return c;
}

/* Joins with deadlines, until it is joined. */
static void join_patiently(struct scene *s, weft_fiber *f, int answer, uint64_t *random)
{
    void *value = ptr(-1);
    for (;;) {
        weft_time deadline = weft_cancelled() ? WEFT_NOW : some_deadline(random);
        int rc = weft_join(f, &value, deadline);
        if (rc == 0)
            break;
        EXPECT(s, gave_up_rightly(s, rc, deadline));
        EXPECT(s, value == ptr(-1));
        breathe();
    }
    EXPECT_INT(s, (intptr_t)value, ==, answer);
}

static void raise_children(struct clan *clan, uint64_t *random, int depth)
{
    struct scene *s = clan->scene;
    weft_fiber *fibers[MOST_CHILDREN];
    int answers[MOST_CHILDREN];
    unsigned n = 1 + pick(random, MOST_CHILDREN), joined = 0;
    for (unsigned i = 0; i < n; i++) {
        struct child *c = new_child(clan, random, depth);
        struct home *h = some_home(s, random);
        weft_attr attr = some_attr(h, random);
        weft_fiber **out = c->detached ? NULL : &fibers[joined];
        if (!out)
            weft_waitgroup_add(&clan->detached, 1);
        else
            answers[joined++] = c->answer;
        c->moves = attr.flags & WEFT_MIGRATE;
        if (out && chance(random, 4)) {
            EXPECT_INT(s, weft_fiber_new(out, &attr, grows_up, c), ==, 0);
            EXPECT_INT(s, weft_sched_submit(h->sched, *out, attr.worker), ==, 0);
        } else {
            EXPECT_INT(s, weft_sched_go(h->sched, out, &attr, grows_up, c), ==, 0);
        }
    }
    for (unsigned i = 0; i < joined; i++) {
        if (chance(random, 4)) {
            int rc = weft_cancel(fibers[i]);
            EXPECT(s, rc == 0 || rc == -ESRCH);
        }
    }
    for (unsigned i = 0; i < joined; i++)
        join_patiently(s, fibers[i], answers[i], random);
}

struct joiner {
    struct scene *scene;
    weft_fiber *fiber;
    int answer, over;
};

static void *joins_on_a_thread(void *arg)
{
    struct joiner *j = arg;
    void *value = NULL;
    EXPECT_INT(j->scene, weft_join(j->fiber, &value, WEFT_FOREVER), ==, 0);
    EXPECT_INT(j->scene, (intptr_t)value, ==, j->answer);
    put(&j->over, 1);
    return NULL;
}

void step_family(struct scene *s)
{
    struct clan clan = {.scene = s};
    weft_once_do(&key_made, make_key, s, WEFT_FOREVER);
    raise_children(&clan, &s->random, DEPTH);
    if (chance(&s->random, 8)) {
        struct joiner j = {.scene = s};
        struct child *c = new_child(&clan, &s->random, 0);
        c->detached = false;
        c->moves = true; /* it may be given WEFT_MIGRATE */
        j.answer = c->answer;
        start(s, &j.fiber, &s->random, grows_up, c);
        join_thread(new_thread(s, joins_on_a_thread, &j), &j.over);
    }
    EXPECT_INT(s, weft_waitgroup_wait(&clan.detached, WEFT_FOREVER), ==, 0);
    EXPECT_INT(s, clan.run, ==, clan.born);
    AWAIT(seen(&clan.destroyed) ==
          seen(&clan.kept)); /* a detached fiber forgets its values after its last word to us */
}

/* ---- parking ---- */

struct parker {
    struct scene *scene;
    weft_fiber *fiber;
    uint64_t random;
    int given, taken, over; /* flags, counted */
    unsigned rounds;
};

static void *parks(void *arg)
{
    struct parker *p = arg;
    for (unsigned i = 0; i < p->rounds;) {
        weft_time deadline = some_deadline(&p->random);
        int rc = weft_park(deadline);
        if (rc == 0) {
            EXPECT_INT(p->scene, more(&p->taken), <=, seen(&p->given));
            i++;
        } else {
            EXPECT(p->scene, gave_up_rightly(p->scene, rc, deadline));
            if (rc == -EAGAIN)
                weft_yield();
        }
        did(p->scene);
    }
    put(&p->over, 1);
    return NULL;
}

static void *unparks(void *arg)
{
    struct parker *p = arg;
    while (!seen(&p->over)) {
        more(&p->given);
        weft_unpark(p->fiber);
        AWAIT(seen(&p->taken) == seen(&p->given) || seen(&p->over)); /* a token at a time: so they can be counted */
    }
    return NULL;
}

static void *unparks_on_a_thread(void *arg)
{
    return unparks(arg);
}

void step_parking(struct scene *s)
{
    struct parker p = {.scene = s, .random = new_random(&s->random), .rounds = 1 + pick(&s->random, 50)};
    weft_fiber *other = NULL;
    start(s, &p.fiber, &s->random, parks, &p);
    if (chance(&s->random, 2)) {
        start(s, &other, &s->random, unparks, &p);
        ended(s, other);
    } else {
        join_thread(new_thread(s, unparks_on_a_thread, &p), &p.over);
    }
    ended(s, p.fiber);
}

/* ---- moving ---- */

struct mover {
    struct scene *scene;
    struct home *home;
    int to;     /* the worker that it was given to. owner: who submits, while it is parked */
    int moves;  /* flag, counted: it has arrived so often */
    int rounds; /* const */
    bool may;   /* const: it may move */
};

static void *moves(void *arg)
{
    struct mover *m = arg;
    pid_t home = thread_id();
    while (seen(&m->moves) < m->rounds) {
        int rc = weft_park(WEFT_FOREVER);
        pid_t thread = thread_id();
        EXPECT_INT(m->scene, rc, ==, 0);
        if (m->may && thread != m->home->threads[m->to])
            WRONG(m->scene, "a fiber that was given to worker %d (thread %d) went on on thread %d", m->to,
                  m->home->threads[m->to], thread);
        if (!m->may)
            EXPECT_INT(m->scene, thread, ==, home);
        did(m->scene);
        more(&m->moves);
    }
    return NULL;
}

/* Gives it to a worker once, when it is parked. */
static void submit_once(struct mover *m, weft_fiber *f, uint64_t *random)
{
    int rc;
    AWAIT(is_parked(f));
    int mine = weft_fiber_worker(f), to = (int)pick(random, m->home->workers);
    m->to = to;
    while ((rc = weft_sched_submit(m->home->sched, f, WEFT_WORKER(to))) == -EBUSY)
        breathe(); /* it was not quite parked */
    if (!m->may && to != mine) {
        EXPECT_INT(m->scene, rc, ==, -EPERM);
        weft_unpark(f);
    } else {
        EXPECT_INT(m->scene, rc, ==, 0);
    }
}

void step_moving(struct scene *s)
{
    struct mover m = {.scene = s, .home = some_home(s, &s->random), .rounds = 1 + (int)pick(&s->random, 40)};
    weft_attr attr = {.size = sizeof attr, .name = "mover"};
    weft_fiber *f = NULL;
    attr.flags = chance(&s->random, 4) ? 0 : WEFT_MIGRATE;
    m.may = attr.flags && m.home->policy == &weft_fifo; /* under another policy no fiber moves */
    if (chance(&s->random, 2)) {
        int to = (int)pick(&s->random, m.home->workers + 1); /* the last: any of them */
        EXPECT_INT(s, weft_fiber_new(&f, &attr, moves, &m), ==, 0);
        EXPECT_INT(s, weft_sched_submit(m.home->sched, f, to == (int)m.home->workers ? 0 : WEFT_WORKER(to)), ==, 0);
    } else {
        EXPECT_INT(s, weft_sched_go(m.home->sched, &f, &attr, moves, &m), ==, 0);
    }
    for (int i = 0; i < m.rounds; i++) {
        submit_once(&m, f, &s->random);
        AWAIT(seen(&m.moves) > i);
    }
    ended(s, f);
}
