/*
 * combine/scheds.c: schedulers that are made and freed while others run: one worker that starts fibers in the order of
 * their arrival, stops at a deadline, second starts, and threads that are worker 0 themselves.
 */
#include "stress/combine/combine.h"

#include <sys/eventfd.h>

/* ---- order ---- */

enum { GIVERS = 2, MOST_GIFTS = 200 };

struct giver {
    struct scene *scene;
    weft_sched *sched;
    uint64_t random;
    int gifts;   /* const */
    int given;   /* flag, counted: so many calls have returned */
    int next;    /* owner: the worker: the gift that is to start next */
    int over;    /* flag */
    int started; /* flag, counted */
};

/* A fiber of the worker that spawns while the threads give. */
struct spawner {
    struct giver *givers;
    unsigned count;
    uint64_t random;
};

/* What it spawns: the threads had given so many before that. */
struct spawned {
    struct giver *givers;
    unsigned count;
    int given[GIVERS];
};

struct gift {
    struct giver *giver;
    int number;
};

static void *is_given(void *arg)
{
    struct gift *g = arg;
    struct giver *from = g->giver;
    if (g->number != from->next)
        WRONG(from->scene, "one worker, weft_fifo: gift %d of a thread started where %d was next", g->number,
              from->next);
    from->next = g->number + 1;
    did(from->scene);
    more(&from->started);
    free(g);
    return NULL;
}

static void give(struct giver *from, int number)
{
    struct gift *g = malloc(sizeof *g);
    weft_attr attr = {.size = sizeof attr, .worker = chance(&from->random, 2) ? WEFT_WORKER(0) : 0};
    *g = (struct gift){from, number};
    if (chance(&from->random, 3)) {
        weft_fiber *f = NULL;
        EXPECT_INT(from->scene, weft_fiber_new(&f, NULL, is_given, g), ==, 0);
        EXPECT_INT(from->scene, weft_sched_submit(from->sched, f, attr.worker), ==, 0);
        EXPECT_INT(from->scene, weft_detach(f), ==, 0);
    } else {
        EXPECT_INT(from->scene, weft_sched_go(from->sched, NULL, &attr, is_given, g), ==, 0);
    }
}

static void *gives(void *arg)
{
    struct giver *g = arg;
    for (int i = 0; i < g->gifts; i++) {
        give(g, i);
        more(&g->given);
    }
    put(&g->over, 1);
    return NULL;
}

static void *is_spawned(void *arg)
{
    struct spawned *p = arg;
    for (unsigned i = 0; i < p->count; i++)
        EXPECT_INT(p->givers[i].scene, seen(&p->givers[i].started), >=, p->given[i]);
    free(p);
    return NULL;
}

/* Each fiber that it spawns starts after whatever was given before. */
static void *spawns(void *arg)
{
    struct spawner *sp = arg;
    bool goes_on = true;
    while (goes_on) {
        struct spawned *p = malloc(sizeof *p);
        *p = (struct spawned){.givers = sp->givers, .count = sp->count};
        goes_on = false;
        for (unsigned i = 0; i < sp->count; i++) {
            goes_on = goes_on || !seen(&sp->givers[i].over);
            p->given[i] = seen(&sp->givers[i].given);
        }
        if (weft_go(is_spawned, p) != 0)
            free(p);
        if (chance(&sp->random, 3))
            weft_yield();
        else if (chance(&sp->random, 8))
            weft_sleep(20 * WEFT_US);
    }
    return NULL;
}

void step_order(struct scene *s)
{
    weft_sched_opts opts = {.size = sizeof opts, .name = "order", .threads = 1};
    struct giver givers[GIVERS];
    pthread_t threads[GIVERS];
    weft_sched *sched = NULL;
    bool late = chance(&s->random, 2); /* it starts when all is there */
    EXPECT_INT(s, weft_sched_new(&sched, &opts), ==, 0);
    if (!late)
        EXPECT_INT(s, weft_sched_start(sched), ==, 0);
    unsigned n = 1 + pick(&s->random, GIVERS);
    for (unsigned i = 0; i < n; i++) {
        givers[i] = (struct giver){.scene = s, .sched = sched, .random = new_random(&s->random)};
        givers[i].gifts = 1 + (int)pick(&s->random, MOST_GIFTS);
    }
    struct spawner spawner = {givers, n, new_random(&s->random)};
    if (chance(&s->random, 2))
        EXPECT_INT(s, weft_sched_go(sched, NULL, NULL, spawns, &spawner), ==, 0);
    for (unsigned i = 0; i < n; i++)
        threads[i] = new_thread(s, gives, &givers[i]);
    for (unsigned i = 0; i < n; i++)
        join_thread(threads[i], &givers[i].over);
    if (late)
        EXPECT_INT(s, weft_sched_start(sched), ==, 0);
    EXPECT_INT(s, weft_sched_stop(sched, WEFT_FOREVER), ==, 0);
    for (unsigned i = 0; i < n; i++)
        EXPECT_INT(s, givers[i].started, ==, givers[i].gifts);
    EXPECT_INT(s, weft_sched_free(sched), ==, 0);
}

/* ---- nursery ---- */

struct pupil {
    struct scene *scene;
    uint64_t random;
    bool sleeps_for_ever;
    int *ended; /* flag, counted */
};

static void *learns(void *arg)
{
    struct pupil *p = arg;
    if (p->sleeps_for_ever) {
        EXPECT_INT(p->scene, weft_sleep_until(WEFT_FOREVER), ==, -ECANCELED);
        EXPECT(p->scene, weft_cancelled());
    } else {
        for (unsigned n = pick(&p->random, 4); n > 0; n--)
            nap(p->scene, &p->random, 300);
    }
    did(p->scene);
    more(p->ended);
    free(p);
    return NULL;
}

static void teach(struct scene *s, weft_sched *sched, uint64_t *random, bool sleeps_for_ever, int *ended)
{
    struct pupil *p = malloc(sizeof *p);
    *p = (struct pupil){s, new_random(random), sleeps_for_ever, ended};
    EXPECT_INT(s, weft_sched_go(sched, NULL, NULL, learns, p), ==, 0);
}

static weft_sched_opts some_options(uint64_t *random)
{
    static const weft_policy *const policies[] = {&weft_fifo, &weft_priority, &weft_hrrn, &weft_rr, &weft_edf};
    weft_sched_opts opts = {.size = sizeof opts, .name = "nursery", .threads = 1 + pick(random, 3)};
    opts.policy = policies[pick(random, 5)];
    opts.io = chance(random, 2) ? WEFT_IO_EPOLL : WEFT_IO_URING;
    return opts;
}

/* What a scheduler is given before it starts: a timer and a watch. */
struct cradle {
    struct scene *scene;
    weft_time due;     /* const: of the timer */
    int fd;            /* an eventfd */
    int rung, watched; /* flags, counted */
};

static void rings(void *arg)
{
    struct cradle *c = arg;
    EXPECT_INT(c->scene, weft_now().ns, >=, c->due.ns);
    more(&c->rung);
}

static void sees(int fd, unsigned events, void *arg)
{
    struct cradle *c = arg;
    EXPECT_INT(c->scene, fd, ==, c->fd);
    EXPECT_INT(c->scene, events & WEFT_READ, ==, WEFT_READ);
    more(&c->watched);
}

static void fill_cradle(struct cradle *c, weft_sched *sched, uint64_t *random)
{
    weft_span period = (weft_span)pick(random, 500) * WEFT_US;
    c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->due = weft_in(period);
    EXPECT_INT(c->scene, weft_sched_timer_new(sched, NULL, period, false, NULL, rings, c), ==, 0);
    EXPECT_INT(c->scene, weft_sched_watch_add(sched, c->fd, WEFT_READ, sees, c), ==, 0);
    if (chance(random, 2))
        EXPECT_INT(c->scene, eventfd_write(c->fd, 1), ==, 0);
}

/* The scheduler has started. */
static void empty_cradle(struct cradle *c)
{
    EXPECT_INT(c->scene, eventfd_write(c->fd, 1), ==, 0);
    AWAIT(seen(&c->rung) == 1 && seen(&c->watched) == 1);
    EXPECT_INT(c->scene, weft_close(c->fd), ==, 0);
    did(c->scene);
}

void step_nursery(struct scene *s)
{
    weft_sched_opts opts = some_options(&s->random);
    weft_sched *sched = NULL;
    struct cradle cradle = {.scene = s, .fd = -1};
    EXPECT_INT(s, weft_sched_new(&sched, &opts), ==, 0);
    if (chance(&s->random, 2))
        fill_cradle(&cradle, sched, &s->random);
    for (unsigned life = 1 + pick(&s->random, 3); life > 0; life--) {
        int ends = 0, pupils = 1 + (int)pick(&s->random, 20);
        bool hangs = chance(&s->random, 2);
        EXPECT_INT(s, weft_sched_start(sched), ==, 0);
        EXPECT_INT(s, weft_sched_start(sched), ==, -EALREADY);
        if (cradle.fd >= 0)
            empty_cradle(&cradle);
        cradle.fd = -1;
        for (int i = 0; i < pupils; i++)
            teach(s, sched, &s->random, hangs && chance(&s->random, 4), &ends);
        if (!hangs && chance(&s->random, 2))
            EXPECT_INT(s, weft_sched_run(sched, WEFT_FOREVER), ==, 0);
        weft_time deadline = hangs ? weft_in((weft_span)pick(&s->random, 3000) * WEFT_US) : WEFT_FOREVER;
        int rc;
        while ((rc = weft_sched_stop(sched, deadline)) == -ETIMEDOUT) /* a second was too short for this machine */
            EXPECT(s, hangs);
        EXPECT_INT(s, rc, ==, 0);
        EXPECT_INT(s, seen(&ends), ==, pupils);
        did(s);
    }
    EXPECT_INT(s, weft_sched_free(sched), ==, 0);
}

/* ---- a thread that is worker 0 ---- */

struct caller {
    struct scene *scene;
    uint64_t random;
    int fired, over; /* flags */
};

static void fires(int fd, unsigned events, void *arg)
{
    struct caller *c = arg;
    (void)fd;
    EXPECT_INT(c->scene, events & WEFT_READ, ==, WEFT_READ);
    more(&c->fired);
}

/* Works until nothing is left, a little at a time. */
static void work(struct caller *c, weft_sched *sched)
{
    for (;;) {
        weft_time deadline = some_deadline(&c->random);
        int rc = weft_sched_run(sched, deadline);
        if (rc == 0)
            return;
        EXPECT(c->scene, gave_up_rightly(c->scene, rc, deadline));
        did(c->scene);
    }
}

static void *does_nothing(void *arg)
{
    return arg;
}

static void *calls(void *arg)
{
    struct caller *c = arg;
    struct scene *s = c->scene;
    weft_sched_opts opts = some_options(&c->random);
    weft_sched *sched = NULL;
    int ends = 0, pupils = (int)pick(&c->random, 10), fd = eventfd(0, EFD_CLOEXEC);
    eventfd_t n = 0;
    opts.use_caller = true;
    EXPECT_INT(s, weft_sched_new(&sched, &opts), ==, 0);
    EXPECT(s, weft_sched_current() == sched);
    if (chance(&c->random, 2))
        EXPECT_INT(s, weft_sched_start(sched), ==, 0);
    for (int i = 0; i < pupils; i++)
        teach(s, sched, &c->random, false, &ends);
    if (opts.threads == 1 && chance(&c->random, 2)) { /* nobody else could run it */
        weft_fiber *f = NULL;
        EXPECT_INT(s, weft_sched_go(sched, &f, NULL, does_nothing, NULL), ==, 0);
        EXPECT_INT(s, weft_join(f, NULL, WEFT_FOREVER), ==, -EDEADLK);
        EXPECT_INT(s, weft_detach(f), ==, 0);
    }
    bool watch = chance(&c->random, 2);
    if (watch) /* this thread is its worker, and works only inside weft_sched_run */
        EXPECT_INT(s, weft_watch_add(fd, WEFT_READ, fires, c), ==, 0);
    did(s);
    EXPECT_INT(s, eventfd_write(fd, 1), ==, 0);
    work(c, sched);
    EXPECT_INT(s, seen(&ends), ==, pupils);
    if (watch)
        AWAIT(seen(&c->fired) == 1 || (work(c, sched), false));
    EXPECT_INT(s, eventfd_read(fd, &n), ==, 0);
    EXPECT_INT(s, weft_sched_stop(sched, WEFT_FOREVER), ==, 0);
    EXPECT_INT(s, weft_sched_free(sched), ==, 0);
    EXPECT_INT(s, weft_close(fd), ==, 0);
    put(&c->over, 1);
    return NULL;
}

void step_caller(struct scene *s)
{
    struct caller c = {.scene = s, .random = new_random(&s->random)};
    join_thread(new_thread(s, calls, &c), &c.over);
}
