/*
 * All objects of weft/sync.h at once: players take random steps on shared ones and check what must hold there. Players are
 * fibers of two schedulers, on private and shared stacks, bound and free to move, and plain threads; some are cancelled.
 *
 * WEFT_SEED repeats the choices (not the order of the threads), WEFT_SECONDS sets how long it takes in all.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/fiber.h>
#include <weft/sched.h>
#include <weft/sync.h>

#include "support/test.h"

enum { MUTEXES = 3, PAGES = 2, PERMITS = 3, ROOM = 4, ONCES = 1 << 15, GROUP = 3 };

/* What is shared. Fields without a word are guarded by the object before them. */
static struct world {
    struct {
        weft_mutex mutex;
        const void *inside; /* who is */
        uint64_t entered;
    } counters[MUTEXES];
    struct {
        weft_rmutex mutex;
        unsigned depth;
    } nested;
    struct {
        weft_rwlock lock;
        unsigned readers; /* atomic */
        bool writing;
        uint64_t a, b; /* always the same */
    } pages[PAGES];
    weft_sem permits;
    int in_use; /* atomic */
    struct {
        weft_mutex mutex;
        weft_cond not_empty, not_full;
        unsigned full;
        uint64_t made, used;
    } buffer;
    weft_event event;
    weft_barrier barrier;
    uint64_t leaders, followers; /* atomic */
    struct {
        weft_once once;
        unsigned runs;
    } onces[ONCES];
    unsigned once_at; /* atomic */
} world;

struct player {
    uint64_t random;
    weft_sched *sched; /* where its helpers run */
    uint64_t steps;
    pthread_t thread;
    weft_fiber *fiber;
};

static weft_time end;
static weft_stacks *pool;

static unsigned pick(struct player *p, unsigned n)
{
    return (unsigned)(test_random(&p->random) >> 33) % n;
}

static void dawdle(struct player *p)
{
    for (unsigned n = pick(p, 8) == 0 ? pick(p, 3) : 0; n > 0; n--)
        weft_yield();
}

/* FOREVER is for what others are sure to give. */
static weft_time some_deadline(struct player *p, bool forever)
{
    switch (pick(p, forever ? 4 : 3)) {
    case 0:
        return WEFT_NOW;
    case 1:
        return weft_in(-WEFT_US);
    case 2:
        return weft_in((weft_span)pick(p, 200) * WEFT_US);
    default:
        return WEFT_FOREVER;
    }
}

/* Whether a wait was granted; checks that a refusal had a reason. */
static bool granted(int rc, weft_time deadline)
{
    bool now = deadline.ns == WEFT_NOW.ns, forever = deadline.ns == WEFT_FOREVER.ns;
    CHECK(rc >= 0 || (rc == -EAGAIN && now) || (rc == -ETIMEDOUT && !now && !forever && weft_now().ns >= deadline.ns) ||
          (rc == -ECANCELED && !now && weft_cancelled()));
    return rc >= 0;
}

static void step_mutex(struct player *p)
{
    unsigned i = pick(p, MUTEXES);
    weft_time deadline = some_deadline(p, true);
    if (!granted(weft_mutex_lock(&world.counters[i].mutex, deadline), deadline))
        return;
    CHECK_PTR(world.counters[i].inside, ==, NULL);
    world.counters[i].inside = p;
    world.counters[i].entered++;
    dawdle(p);
    CHECK_PTR(world.counters[i].inside, ==, p);
    world.counters[i].inside = NULL;
    CHECK_INT(weft_mutex_unlock(&world.counters[i].mutex), ==, 0);
}

static void step_nested(struct player *p)
{
    weft_time deadline = some_deadline(p, true);
    if (!granted(weft_rmutex_lock(&world.nested.mutex, deadline), deadline))
        return;
    CHECK_INT(world.nested.depth, ==, 0);
    unsigned depth = pick(p, 4);
    for (unsigned i = 0; i < depth; i++) {
        world.nested.depth++;
        dawdle(p);
        CHECK_INT(weft_rmutex_lock(&world.nested.mutex, WEFT_NOW), ==, 0);
    }
    CHECK_INT(world.nested.depth, ==, depth);
    world.nested.depth = 0;
    for (unsigned i = 0; i <= depth; i++)
        CHECK_INT(weft_rmutex_unlock(&world.nested.mutex), ==, 0);
}

static void step_page(struct player *p)
{
    __typeof__(world.pages[0]) *page = &world.pages[pick(p, PAGES)];
    weft_time deadline = some_deadline(p, true);
    bool writes = pick(p, 3) == 0;
    int rc = writes ? weft_rwlock_write_lock(&page->lock, deadline) : weft_rwlock_read_lock(&page->lock, deadline);
    if (!granted(rc, deadline))
        return;
    CHECK(!page->writing);
    if (writes) {
        CHECK_INT(__atomic_load_n(&page->readers, __ATOMIC_RELAXED), ==, 0);
        page->writing = true;
        page->a++;
        dawdle(p);
        page->b++;
        page->writing = false;
    } else {
        __atomic_add_fetch(&page->readers, 1, __ATOMIC_RELAXED);
        uint64_t a = page->a;
        dawdle(p);
        CHECK_INT(page->b, ==, a);
        __atomic_sub_fetch(&page->readers, 1, __ATOMIC_RELAXED);
    }
    CHECK_INT(weft_rwlock_unlock(&page->lock), ==, 0);
}

static void step_sem(struct player *p)
{
    weft_time deadline = some_deadline(p, true);
    if (!granted(weft_sem_wait(&world.permits, deadline), deadline))
        return;
    CHECK_INT(__atomic_add_fetch(&world.in_use, 1, __ATOMIC_RELAXED), <=, PERMITS);
    dawdle(p);
    __atomic_sub_fetch(&world.in_use, 1, __ATOMIC_RELAXED);
    CHECK_INT(weft_sem_post(&world.permits), ==, 0);
}

/* Makes one or uses one, if the other side lets it within the deadline. */
static void step_buffer(struct player *p)
{
    __typeof__(world.buffer) *b = &world.buffer;
    bool makes = pick(p, 2);
    weft_time deadline = some_deadline(p, false);
    if (!granted(weft_mutex_lock(&b->mutex, deadline), deadline))
        return;
    int rc = 0;
    while (rc == 0 && (makes ? b->full == ROOM : b->full == 0))
        rc = weft_cond_wait(makes ? &b->not_full : &b->not_empty, &b->mutex, deadline);
    if (granted(rc, deadline)) {
        CHECK_INT(b->full, <=, ROOM);
        CHECK_INT(b->made - b->used, ==, b->full);
        makes ? b->made++ : b->used++;
        makes ? b->full++ : b->full--;
        dawdle(p);
    }
    bool signals_inside = pick(p, 2);
    if (signals_inside)
        weft_cond_signal(makes ? &b->not_empty : &b->not_full);
    CHECK_INT(weft_mutex_unlock(&b->mutex), ==, 0);
    if (!signals_inside)
        pick(p, 4) ? weft_cond_signal(makes ? &b->not_empty : &b->not_full) : weft_cond_broadcast(&b->not_full);
}

static void step_event(struct player *p)
{
    weft_time deadline = some_deadline(p, false);
    switch (pick(p, 4)) {
    case 0:
        CHECK_INT(weft_event_set(&world.event), ==, 0);
        break;
    case 1:
        CHECK_INT(weft_event_reset(&world.event), ==, 0);
        break;
    case 2:
        (void)weft_event_is_set(&world.event);
        break;
    default:
        granted(weft_event_wait(&world.event, deadline), deadline);
    }
}

static void step_barrier(struct player *p)
{
    weft_time deadline = some_deadline(p, false);
    int rc = weft_barrier_wait(&world.barrier, deadline);
    if (granted(rc, deadline))
        __atomic_add_fetch(rc == 1 ? &world.leaders : &world.followers, 1, __ATOMIC_RELAXED);
}

static void runs_once(void *arg)
{
    ++*(unsigned *)arg;
}

static void step_once(struct player *p)
{
    unsigned i = __atomic_fetch_add(&world.once_at, 1, __ATOMIC_RELAXED) / 4 % ONCES;
    weft_time deadline = some_deadline(p, true);
    if (granted(weft_once_do(&world.onces[i].once, runs_once, &world.onces[i].runs, deadline), deadline))
        CHECK_INT(world.onces[i].runs, ==, 1);
}

/* Helpers: fibers that end soon. What they share with who started them is freed as soon as that goes on. */
struct errand {
    weft_waitgroup group;
    weft_event told;
    weft_sem called;
    struct player players[4]; /* the helpers' */
    unsigned done;            /* atomic */
};

struct helper {
    struct errand *errand;
    unsigned number;
};

static void step_leaf(struct player *p)
{
    static void (*const steps[])(struct player *) = {step_mutex,  step_nested, step_page,    step_sem,
                                                     step_buffer, step_event,  step_barrier, step_once};
    steps[pick(p, sizeof steps / sizeof steps[0])](p);
    p->steps++;
}

static void *helps(void *arg)
{
    struct helper *h = arg;
    struct errand *e = h->errand;
    struct player *p = &e->players[h->number];
    for (unsigned n = pick(p, 4); n > 0; n--)
        step_leaf(p);
    __atomic_add_fetch(&e->done, 1, __ATOMIC_RELAXED);
    unsigned how = h->number;
    free(h);
    if (how == 0)
        CHECK_INT(weft_sem_post(&e->called), ==, 0);
    if (how == 1)
        CHECK_INT(weft_event_set(&e->told), ==, 0);
    CHECK_INT(weft_waitgroup_done(&e->group), ==, 0);
    return NULL;
}

static void must(int rc)
{
    CHECK_INT(rc, ==, 0);
}

/* A wait that a cancelled player makes too: it asks until it gets it. */
#define INSIST(call)                                                                                                   \
    do {                                                                                                               \
        int insist_rc;                                                                                                 \
        while ((insist_rc = (call)) == -ECANCELED)                                                                     \
            weft_yield();                                                                                              \
        must(insist_rc);                                                                                               \
    } while (0)

static void step_errand(struct player *p)
{
    struct errand *e = calloc(1, sizeof *e);
    REQUIRE(e);
    must(weft_waitgroup_add(&e->group, 4));
    for (unsigned i = 0; i < 4; i++) {
        struct helper *h = malloc(sizeof *h);
        *h = (struct helper){e, i};
        e->players[i] = (struct player){.random = test_random(&p->random) | 1, .sched = p->sched};
        weft_attr attr = {.flags = pick(p, 2) ? WEFT_MIGRATE : 0};
        must(weft_sched_go(p->sched, NULL, &attr, helps, h));
    }
    if (pick(p, 2))
        INSIST(weft_sem_wait(&e->called, WEFT_FOREVER));
    if (pick(p, 2))
        INSIST(weft_event_wait(&e->told, WEFT_FOREVER));
    INSIST(weft_waitgroup_wait(&e->group, WEFT_FOREVER));
    CHECK_INT(__atomic_load_n(&e->done, __ATOMIC_RELAXED), ==, 4);
    free(e);
}

static void *plays_until_cancelled(void *arg)
{
    struct player *p = arg;
    while (!weft_cancelled())
        step_leaf(p);
    step_leaf(p); /* what does not have to wait still works */
    return NULL;
}

static void step_cancel(struct player *p)
{
    struct player *other = malloc(sizeof *other);
    REQUIRE(other);
    *other = (struct player){.random = test_random(&p->random) | 1, .sched = p->sched};
    weft_fiber *f;
    weft_attr attr = {.flags = pick(p, 2) ? WEFT_MIGRATE : 0};
    must(weft_sched_go(p->sched, &f, &attr, plays_until_cancelled, other));
    for (unsigned n = pick(p, 4); n > 0; n--)
        step_leaf(p);
    must(weft_cancel(f));
    INSIST(weft_join(f, NULL, WEFT_FOREVER));
    free(other);
}

static void *plays(void *arg)
{
    struct player *p = arg;
    while (weft_now().ns < end.ns && !test_has_failed()) {
        unsigned what = pick(p, 32);
        if (what == 0)
            step_errand(p);
        else if (what == 1)
            step_cancel(p);
        else
            step_leaf(p);
    }
    return NULL;
}

static void check_the_end(void)
{
    for (int i = 0; i < MUTEXES; i++)
        CHECK_INT(world.counters[i].mutex.owner, ==, 0);
    for (int i = 0; i < PAGES; i++)
        CHECK_INT(world.pages[i].lock.word, ==, 0);
    for (int i = 0; i < PERMITS; i++)
        CHECK_INT(weft_sem_wait(&world.permits, WEFT_NOW), ==, 0);
    CHECK_INT(weft_sem_wait(&world.permits, WEFT_NOW), ==, -EAGAIN);
    CHECK_INT(world.buffer.made - world.buffer.used, ==, world.buffer.full);
    CHECK_INT(world.barrier.arrived, ==, 0);
    CHECK_INT(world.leaders * (GROUP - 1), ==, world.followers);
    for (unsigned i = 0; i < ONCES; i++)
        CHECK_INT(world.onces[i].runs, <=, 1);
}

/* How a fiber runs: on a private stack, bound, free to move; on a shared stack. */
static weft_attr some_attr(unsigned i, unsigned workers)
{
    switch (i % 4) {
    case 1:
        return (weft_attr){.flags = WEFT_MIGRATE};
    case 2:
        return (weft_attr){.worker = WEFT_WORKER(i % workers)};
    case 3:
        return (weft_attr){.shared = pool, .worker = WEFT_WORKER(0)};
    default:
        return (weft_attr){0};
    }
}

static void play(unsigned workers)
{
    enum { FIBERS = 16, OTHERS = 2, THREADS = 3, ALL = FIBERS + OTHERS + THREADS };
    static uint64_t seed;
    const char *seconds = getenv("WEFT_SECONDS");
    struct player *players = calloc(ALL, sizeof *players);
    weft_sched *sched, *other;
    uint64_t steps = 0;
    if (seed == 0)
        seed = test_seed();
    world = (struct world){.permits = WEFT_SEM(PERMITS)};
    REQUIRE(players && weft_barrier_init(&world.barrier, GROUP) == 0);
    REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    REQUIRE(weft_sched_new(&sched, &(weft_sched_opts){.threads = workers}) == 0 && weft_sched_start(sched) == 0);
    REQUIRE(weft_sched_new(&other, &(weft_sched_opts){.threads = 1}) == 0 && weft_sched_start(other) == 0);
    end = weft_in((seconds ? atol(seconds) * WEFT_SEC : 3 * WEFT_SEC) / 4);
    for (unsigned i = 0; i < ALL; i++) {
        struct player *p = &players[i];
        *p = (struct player){.random = (seed + i) * 0x9e3779b97f4a7c15u | 1, .sched = sched};
        weft_attr attr = i < FIBERS ? some_attr(i, workers) : (weft_attr){0};
        if (i < FIBERS + OTHERS)
            must(weft_sched_go(i < FIBERS ? sched : other, &p->fiber, &attr, plays, p));
        else
            must(pthread_create(&p->thread, NULL, plays, p));
    }
    for (unsigned i = 0; i < ALL; i++) {
        if (players[i].fiber)
            must(weft_join(players[i].fiber, NULL, WEFT_FOREVER));
        else
            pthread_join(players[i].thread, NULL);
        steps += players[i].steps;
    }
    must(weft_sched_stop(sched, WEFT_FOREVER));
    must(weft_sched_stop(other, WEFT_FOREVER));
    must(weft_sched_free(sched));
    must(weft_sched_free(other));
    must(weft_stacks_free(pool));
    check_the_end();
    printf("%u workers: %llu steps, %llu groups at the barrier\n", workers, (unsigned long long)steps,
           (unsigned long long)world.leaders);
    free(players);
}

TEST(with_1_worker)
{
    play(1);
}

TEST(with_2_workers)
{
    play(2);
}

TEST(with_4_workers)
{
    play(4);
}

TEST(with_64_workers)
{
    play(64);
}

TESTS(stress_sync, with_1_worker, with_2_workers, with_4_workers, with_64_workers)
