/*
 * combine/world.c: a round: makes the plan from the seed, runs it, and checks that no fiber and no descriptor is left
 * at the end. The schedulers run either beside the runtime of weft_run, or without one.
 */
#include "stress/combine/combine.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>

struct world world;

static const struct act acts[] = {
    {"family", step_family, false},    {"parking", step_parking, false}, {"moving", step_moving, false},
    {"order", step_order, false},      {"nursery", step_nursery, false}, {"caller", step_caller, false},
    {"post", step_post, false},        {"choice", step_choice, false},   {"locks", step_locks, false},
    {"signals", step_signals, false},  {"timers", step_timers, false},   {"watches", step_watches, false},
    {"stream", step_stream, false},    {"closing", step_closing, false}, {"reuse", step_reuse, false},
    {"swap", step_swap, false},        {"ready", step_ready, false},     {"service", step_service, false},
    {"files", step_files, false},      {"offload", step_offload, false}, {"fork", step_fork, true},
    {"children", step_children, true}, {"hangups", step_hangups, false}, {"scopes", step_scopes, false},
    {"tasks", step_tasks, false},
};

enum { ACTS = sizeof acts / sizeof acts[0] };

/* ---- what is left ---- */

int count_fibers(void)
{
    FILE *nowhere = fopen("/dev/null", "we");
    int count = nowhere ? weft_dump(nowhere) : -1;
    if (nowhere)
        fclose(nowhere);
    return count;
}

/* One more than there are, for the look. With `to`, names them too. */
static int list_descriptors(FILE *to)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        char path[300], target[128];
        if (e->d_name[0] == '.')
            continue;
        count++;
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        ssize_t n = to ? readlink(path, target, sizeof target - 1) : -1;
        if (n > 0)
            fprintf(to, "  %s: %.*s\n", e->d_name, (int)n, target);
    }
    if (dir)
        closedir(dir);
    return count;
}

int count_descriptors(void)
{
    return list_descriptors(NULL);
}

/* ---- the plan ---- */

/* Whether WEFT_COMBINE_SCENES ("swap,ready", or "-swap,-ready" for all others) wants it. */
static bool is_wanted(const char *name)
{
    const char *wish = getenv("WEFT_COMBINE_SCENES");
    if (!wish || !*wish)
        return true;
    bool wanted = *wish == '-';
    for (size_t n; *wish; wish += n + (wish[n] == ',')) {
        bool out = *wish == '-';
        wish += out;
        n = strcspn(wish, ",");
        if (strlen(name) == n && strncmp(wish, name, n) == 0)
            wanted = !out;
    }
    return wanted;
}

static const weft_policy *some_policy(uint64_t *random)
{
    static const weft_policy *const policies[] = {&weft_priority, &weft_sjf, &weft_hrrn, &weft_rr, &weft_edf};
    return chance(random, 3) ? policies[pick(random, 5)] : &weft_fifo;
}

static void plan_homes(struct world *w)
{
    unsigned left = 1 + pick(&w->random, MOST_WORKERS);
    w->scheds = 0;
    for (unsigned i = 0; i < MOST_SCHEDS && left > 0; i++) {
        struct home *h = &w->homes[i];
        h->workers = 1 + pick(&w->random, left);
        left -= h->workers;
        h->policy = some_policy(&w->random);
        h->io = chance(&w->random, 2) ? WEFT_IO_EPOLL : WEFT_IO_URING;
        if (getenv("WEFT_IO"))
            h->io = WEFT_IO_AUTO;
        h->dispatch = h->policy == &weft_fifo && chance(&w->random, 4) ? WEFT_DIRECT : WEFT_QUEUE;
        w->scheds++;
    }
    w->has_run = !chance(&w->random, 4);
}

static void plan_scenes(struct world *w)
{
    const struct act *wanted[ACTS];
    unsigned wants = 0, count = 2 + pick(&w->random, 9);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    int numbers = limit.rlim_cur > 8192 ? 4096 : (int)limit.rlim_cur / 2;
    for (unsigned i = 0; i < ACTS; i++) {
        if (is_wanted(acts[i].name))
            wanted[wants++] = &acts[i];
    }
    w->count = 0;
    while (w->count < count && wants > 0) {
        unsigned which = pick(&w->random, wants);
        struct scene *s = &w->scenes[w->count];
        *s = (struct scene){.act = wanted[which], .world = w, .home = &w->homes[pick(&w->random, w->scheds)]};
        s->numbers = numbers + (int)(w->count++ * PRIVATE_NUMBERS);
        s->steps = 4 + pick(&w->random, 36);
        s->random = new_random(&w->random);
        if (s->act->alone)
            wanted[which] = wanted[--wants];
    }
}

static weft_sched_opts options_of(const struct home *h, uint64_t *random)
{
    weft_sched_opts opts = {.size = sizeof opts, .name = "combine", .threads = h->workers};
    opts.policy = h->policy;
    opts.io = h->io;
    opts.dispatch = h->dispatch;
    opts.warm = pick(random, 4);
    opts.warm_max = pick(random, 3) * 8;
    return opts;
}

/* ---- a round ---- */

struct census {
    struct home *home;
    unsigned worker;
};

static void *tells_thread(void *arg)
{
    const struct census *c = arg;
    c->home->threads[c->worker] = thread_id();
    return arg;
}

/* Every worker is asked for its thread, before anything else runs there. */
static void settle_home(struct home *h)
{
    for (unsigned i = 0; i < h->workers; i++) {
        struct census c = {h, i};
        weft_fiber *f = NULL;
        weft_attr attr = {.size = sizeof attr, .worker = WEFT_WORKER(i)};
        CHECK_INT(weft_stacks_new(&h->pools[i], 2, 0), ==, 0);
        CHECK_INT(weft_sched_go(h->sched, &f, &attr, tells_thread, &c), ==, 0);
        CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
    }
}

static void *plays(void *arg)
{
    struct scene *s = arg;
    for (unsigned i = 0; i < s->steps && !test_has_failed(); i++) {
        s->act->step(s);
        did(s);
    }
    put(&s->over, 1);
    return NULL;
}

/* In the first fiber of weft_run, or on the plain main thread. */
static void *play_all(void *arg)
{
    struct world *w = arg;
    if (w->has_run)
        w->homes[0].sched = weft_sched_current();
    for (unsigned i = w->has_run; i < w->scheds; i++) {
        struct home *h = &w->homes[i];
        weft_sched_opts opts = options_of(h, &w->random);
        CHECK_INT(weft_sched_new(&h->sched, &opts), ==, 0);
        CHECK_INT(weft_sched_start(h->sched), ==, 0);
    }
    for (unsigned i = 0; i < w->scheds; i++)
        settle_home(&w->homes[i]);
    for (unsigned i = 0; i < w->count; i++) {
        struct scene *s = &w->scenes[i];
        weft_attr attr = {.size = sizeof attr, .name = s->act->name};
        if (chance(&w->random, 2))
            attr.worker = WEFT_WORKER(pick(&w->random, s->home->workers));
        else if (chance(&w->random, 2))
            attr.flags = WEFT_MIGRATE;
        CHECK_INT(weft_sched_go(s->home->sched, &s->fiber, &attr, plays, s), ==, 0);
    }
    for (unsigned i = 0; i < w->count; i++)
        CHECK_INT(weft_join(w->scenes[i].fiber, NULL, WEFT_FOREVER), ==, 0);
    for (unsigned i = w->has_run; i < w->scheds; i++) {
        CHECK_INT(weft_sched_stop(w->homes[i].sched, WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_sched_free(w->homes[i].sched), ==, 0);
    }
    return NULL;
}

static void check_what_is_left(int descriptors)
{
    for (unsigned i = 0; i < world.scheds; i++) {
        for (unsigned k = 0; k < world.homes[i].workers; k++)
            CHECK_INT(weft_stacks_free(world.homes[i].pools[k]), ==, 0);
    }
    if (count_fibers() != 0) {
        WRONG(NULL, "fibers are left");
        weft_dump(stderr);
    }
    for (int i = 0; i < 500 && count_descriptors() != descriptors; i++)
        usleep(10000); /* a helper may still have to close what was opened too late */
    if (count_descriptors() != descriptors) {
        WRONG(NULL, "there were %d descriptors, and now there are %d", descriptors - 1, count_descriptors() - 1);
        list_descriptors(stderr);
    }
}

uint64_t play_round(uint64_t seed)
{
    uint64_t operations = 0;
    lock_plan();
    memset(&world, 0, sizeof world);
    world.seed = seed;
    world.random = seed * 0x9e3779b97f4a7c15u | 1;
    for (int i = 0; i < 8; i++) /* neighbouring seeds are alike at first */
        test_random(&world.random);
    unlock_plan();
    play_solo(&world.random);
    lock_plan();
    plan_homes(&world);
    plan_scenes(&world);
    unlock_plan();
    int descriptors = count_descriptors(), signals = signals_of_pipes();
    if (world.has_run) {
        weft_sched_opts opts = options_of(&world.homes[0], &world.random);
        CHECK_INT(weft_run(play_all, &world, NULL, &opts), ==, 0);
    } else {
        play_all(&world);
    }
    check_what_is_left(descriptors);
    if (signals_of_pipes() != signals)
        WRONG(NULL, "SIGPIPE was raised");
    lock_plan();
    for (unsigned i = 0; i < world.count; i++)
        operations += world.scenes[i].operations;
    unlock_plan();
    return operations;
}
