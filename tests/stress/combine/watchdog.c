/*
 * combine/watchdog.c: a thread that ends the program when a scene makes no progress, and the function that records
 * every failure. Both print the seed, the plan and the scene.
 */
#include "stress/combine/combine.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

enum { LOOK_MS = 100, PATIENCE = COMBINE_TSAN || COMBINE_ASAN ? 60 : 30 };

static pthread_t thread;
static pthread_mutex_t plan = PTHREAD_MUTEX_INITIALIZER; /* held by whoever changes the plan, and to look at it */
static int over;                                         /* flag */
static int described;                                    /* flag: the plan was printed */
static const char *solo;    /* atomic: what is played outside of every scene; NULL: nothing */
static unsigned solo_still; /* atomic: for how many looks */

void lock_plan(void)
{
    pthread_mutex_lock(&plan);
}

void unlock_plan(void)
{
    pthread_mutex_unlock(&plan);
}

void describe_round(FILE *to)
{
    static const char *const drivers[] = {"auto", "epoll", "io_uring"};
    fprintf(to, "combine: WEFT_COMBINE_SEED=%llu:", (unsigned long long)world.seed);
    for (unsigned i = 0; i < world.scheds; i++) {
        const struct home *h = &world.homes[i];
        fprintf(to, " %s(%u workers, %s, %s%s)", i == 0 && world.has_run ? "weft_run" : "scheduler", h->workers,
                drivers[h->io], h->policy ? h->policy->name : "?", h->dispatch == WEFT_DIRECT ? ", direct" : "");
    }
    fprintf(to, ";");
    for (unsigned i = 0; i < world.count; i++)
        fprintf(to, " %s", world.scenes[i].act->name);
    fprintf(to, "\n");
}

void wrong_at(const struct scene *s, const char *file, int line, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    test_failed(file, line, "combine: seed %llu, scene %s: %s", (unsigned long long)world.seed,
                s ? s->act->name : "(none)", text);
    if (__atomic_exchange_n(&described, 1, __ATOMIC_RELAXED) == 0)
        describe_round(stderr);
}

static int raised; /* flag, counted */

int signals_of_pipes(void)
{
    return seen(&raised);
}

/* A write to a socket must not raise it, and no scene writes to a pipe that nobody reads. */
static void on_pipe(int number)
{
    static const char text[] = "combine: SIGPIPE was raised\n";
    (void)number;
    more(&raised);
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    (void)n;
}

static void die(const char *what)
{
    fprintf(stderr, "combine: %s did nothing for %d s\n", what, PATIENCE);
    describe_round(stderr);
    for (unsigned i = 0; i < world.count; i++) {
        const struct scene *s = &world.scenes[i];
        fprintf(stderr, "  scene %s: %llu operations%s\n", s->act->name,
                (unsigned long long)__atomic_load_n(&s->operations, __ATOMIC_RELAXED), seen(&s->over) ? ", over" : "");
    }
    weft_dump(stderr);
    abort();
}

static void look(struct scene *s)
{
    uint64_t now = __atomic_load_n(&s->operations, __ATOMIC_RELAXED);
    s->still = now == s->last && !seen(&s->over) ? s->still + 1 : 0;
    s->last = now;
    if (s->still > PATIENCE * 1000 / LOOK_MS)
        die(s->act->name);
}

static void *watches(void *arg)
{
    while (!seen(&over)) {
        usleep(LOOK_MS * 1000);
        lock_plan();
        for (unsigned i = 0; i < world.count; i++)
            look(&world.scenes[i]);
        unlock_plan();
        const char *what = __atomic_load_n(&solo, __ATOMIC_ACQUIRE);
        if (what && __atomic_add_fetch(&solo_still, 1, __ATOMIC_RELAXED) > PATIENCE * 1000 / LOOK_MS)
            die(what);
    }
    return arg;
}

void watch_solo(const char *name)
{
    __atomic_store_n(&solo_still, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&solo, name, __ATOMIC_RELEASE);
}

void watchdog_start(void)
{
    struct sigaction act = {.sa_handler = on_pipe};
    sigaction(SIGPIPE, &act, NULL);
    put(&over, 0);
    pthread_create(&thread, NULL, watches, NULL);
}

void watchdog_end(void)
{
    put(&over, 1);
    pthread_join(thread, NULL);
}
