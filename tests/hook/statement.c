/*
 * tests/hook/statement.c: see statement.h. Uses what is public of weft, and waits through it alone: never by a call that
 * has a hook, as that is what is tested.
 */
#include "hook/statement.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

#if defined(__SANITIZE_ADDRESS__)
#define SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLOW 1
#endif
#endif
#ifndef SLOW
#define SLOW 0
#endif

enum { LIMIT_S = 25 }; /* of one statement */

struct flow {
    void (*fn)(void *arg);
    void *arg;
    bool is_thread;    /* const after begin */
    pthread_t thread;  /* valid if is_thread */
    weft_fiber *fiber; /* valid if not */
    weft_event ended;  /* of a thread: set as its last deed; fibers wait for it without blocking their worker */
};

static const char *current; /* the statement that runs */
static weft_sched *sched;   /* of the statement that runs; NULL in the kernel's run */

bool is_kernel(void)
{
    const char *hook = getenv("WEFT_HOOK");
    return hook && strcmp(hook, "off") == 0;
}

double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

double statement_gap_limit(void)
{
    return SLOW ? 500 : 50;
}

void check_time(const char *file, int line, double start, double ms)
{
    double took = now_ms() - start, most = ms > 0 ? 10 * ms + 500 : SLOW ? 500 : 100;
    if (took < ms)
        test_failed(file, line, "it took %.3f ms, and should take %.0f", took, ms);
    if (took > most)
        test_failed(file, line, "it took %.3f ms, and should take %.0f: %.0f at most", took, ms, most);
}

void check_errno(const char *file, int line, const char *call, long long rc, int error, int wanted)
{
    if (rc != -1 || error != wanted)
        test_failed(file, line, "%s: %lld with errno %s, not -1 with %s", call, rc, strerrorname_np(error),
                    strerrorname_np(wanted));
}

/* --- flows --- */

static void *run_thread(void *arg)
{
    struct flow *flow = arg;
    flow->fn(flow->arg);
    if (sched)
        weft_event_set(&flow->ended);
    return NULL;
}

static void *run_fiber(void *arg)
{
    struct flow *flow = arg;
    flow->fn(flow->arg);
    return NULL;
}

static struct flow *new_flow(void (*fn)(void *), void *arg)
{
    struct flow *flow = calloc(1, sizeof *flow);
    if (!flow)
        abort();
    flow->fn = fn;
    flow->arg = arg;
    return flow;
}

struct flow *begin_thread(void (*fn)(void *), void *arg)
{
    struct flow *flow = new_flow(fn, arg);
    flow->is_thread = true;
    if (pthread_create(&flow->thread, NULL, run_thread, flow) != 0)
        abort();
    return flow;
}

static struct flow *begin_on(int worker, void (*fn)(void *), void *arg)
{
    if (!sched)
        return begin_thread(fn, arg);
    struct flow *flow = new_flow(fn, arg);
    weft_attr attr = {.size = sizeof attr, .name = "flow", .worker = WEFT_WORKER(worker)};
    if (weft_sched_go(sched, &flow->fiber, &attr, run_fiber, flow) != 0)
        abort();
    return flow;
}

struct flow *begin(void (*fn)(void *), void *arg)
{
    return begin_on(0, fn, arg);
}

struct flow *begin_elsewhere(void (*fn)(void *), void *arg)
{
    return begin_on(1, fn, arg);
}

void end(struct flow *flow)
{
    if (!flow->is_thread) {
        weft_join(flow->fiber, NULL, WEFT_FOREVER);
    } else {
        if (sched)
            weft_event_wait(&flow->ended, WEFT_FOREVER);
        pthread_join(flow->thread, NULL);
    }
    free(flow);
}

/* --- the ticker --- */

struct ticker {
    bool over;      /* atomic: set when the body has returned */
    double longest; /* the ticker's until it has ended */
};

/* How long the calling thread has waited for a CPU so far, in milliseconds; `fd` is its schedstat. */
static double waited_for_cpu(int fd)
{
    char text[128] = "";
    unsigned long long ran, waited = 0;
    if (syscall(SYS_pread64, fd, text, sizeof text - 1, 0) <= 0 || sscanf(text, "%llu %llu", &ran, &waited) != 2)
        return 0;
    return (double)waited / 1e6;
}

/* A descriptor with a number that no statement asks for. */
static int open_schedstat(void)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    int high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
    syscall(SYS_close, fd);
    return high;
}

/* A gap that the machine made, as others had its CPUs, is not the statement's. */
static void *tick(void *arg)
{
    struct ticker *t = arg;
    int fd = open_schedstat();
    double last = now_ms(), waited = waited_for_cpu(fd);
    do {
        weft_sleep(WEFT_MS);
        double now = now_ms(), waited_now = waited_for_cpu(fd), gap = now - last - (waited_now - waited);
        if (gap > t->longest)
            t->longest = gap;
        last = now;
        waited = waited_now;
    } while (!__atomic_load_n(&t->over, __ATOMIC_ACQUIRE));
    syscall(SYS_close, fd);
    return NULL;
}

/* --- the runs --- */

static void *run_body(void *arg)
{
    void (**body)(void) = arg;
    (*body)();
    return NULL;
}

static void give_up(const char *why)
{
    fprintf(stderr, "%s: %s\n", current ? current : "", why);
    if (sched)
        weft_dump(stderr);
    fflush(NULL);
    _exit(1);
}

/* Signals to the process find one of the threads that a statement runs on. */
static void leave_signals_to_others(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, before);
}

double statement_gap(void (*body)(void))
{
    struct ticker ticker = {0};
    weft_fiber *ticking, *speaking;
    weft_sched_opts opts = {.size = sizeof opts, .name = "hook", .threads = 2};
    weft_attr attr = {.size = sizeof attr, .name = "ticker", .worker = WEFT_WORKER(0), .flags = WEFT_NO_HOOK};
    sigset_t before;
    if (weft_sched_new(&sched, &opts) != 0 || weft_sched_start(sched) != 0)
        give_up("no scheduler");
    leave_signals_to_others(&before);
    if (weft_sched_go(sched, &ticking, &attr, tick, &ticker) != 0)
        give_up("no ticker");
    attr.name = "body";
    attr.flags = 0;
    if (weft_sched_go(sched, &speaking, &attr, run_body, &body) != 0)
        give_up("no body");
    if (weft_join(speaking, NULL, weft_in(LIMIT_S * WEFT_SEC)) != 0)
        give_up("the statement does not end");
    __atomic_store_n(&ticker.over, true, __ATOMIC_RELEASE);
    if (weft_join(ticking, NULL, weft_in(LIMIT_S * WEFT_SEC)) != 0)
        give_up("the ticker is blocked for good");
    if (weft_sched_stop(sched, weft_in(WEFT_SEC)) != 0)
        give_up("the statement has left flows behind");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    weft_sched_free(sched);
    sched = NULL;
    return ticker.longest;
}

static void run_in_kernel(void (*body)(void))
{
    pthread_t thread;
    sigset_t before;
    struct timespec limit;
    if (pthread_create(&thread, NULL, run_body, &body) != 0)
        give_up("no thread");
    leave_signals_to_others(&before);
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += LIMIT_S;
    if (pthread_timedjoin_np(thread, NULL, &limit) != 0)
        give_up("the statement does not end");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void statement_run(const char *name, void (*body)(void))
{
    double start = now_ms();
    current = name;
    if (is_kernel()) {
        run_in_kernel(body);
        printf("%s: %.0f ms\n", name, now_ms() - start);
        return;
    }
    double gap = statement_gap(body);
    printf("%s: %.0f ms, the ticker's longest gap %.1f ms\n", name, now_ms() - start, gap);
    if (gap > statement_gap_limit())
        test_failed(__FILE__, __LINE__, "%s: the worker was blocked: the ticker's longest gap is %.1f ms", name, gap);
}
