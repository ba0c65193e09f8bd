/*
 * tests/hook/statement.c: see statement.h. Uses what is public of weft, and waits through it alone: never by a call that
 * has a hook, as that is what is tested.
 */
#include "hook/statement.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

enum {
    LIMIT_S = 90,       /* of one statement: a guest's machine may stand still for half a minute */
    STANDSTILL = 30000, /* so many milliseconds are allowed where nothing watches the machine */
};

struct flow {
    void (*fn)(void *arg);
    void *arg;
    bool is_thread;    /* const after begin */
    pthread_t thread;  /* valid if is_thread */
    weft_fiber *fiber; /* valid if not */
    struct flow *next; /* in the list of those that leave */
    weft_event ended;  /* of a thread: set as its last deed; fibers wait for it without blocking their worker */
};

static const char *current; /* the statement that runs */
static weft_sched *sched;   /* of the statement that runs; NULL in the kernel's run */

bool is_kernel(void)
{
    const char *hook = getenv("WEFT_HOOK");
    return hook && strcmp(hook, "off") == 0;
}

double statement_gap_limit(void)
{
    return STATEMENT_ASAN ? 500 : 50;
}

/* --- time --- */

/*
 * What takes too long fails a statement only if it does so in all of four runs. Once or twice it may be the machine in a way
 * that machine.h does not see: a page of the program that comes from the disk, or a terminal that the kernel closes while it
 * waits for threads of its own.
 */
enum { RUNS = 4 };

static int *late; /* how often in this run; in memory that forked children share */
static bool is_last_run;

static void too_late(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void too_late(const char *file, int line, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (late)
        __atomic_add_fetch(late, 1, __ATOMIC_RELAXED);
    if (!late || is_last_run)
        test_failed(file, line, "%s", text);
    else
        fprintf(stderr, "%s:%d: %s\n", file, line, text);
}

/* For all that the machine took to be known. */
static void settle(void)
{
    static const struct timespec while_ms = {.tv_nsec = 5000000};
    if (weft_fiber_current())
        weft_sleep(5 * WEFT_MS);
    else
        syscall(SYS_nanosleep, &while_ms, NULL);
}

void check_within(const char *file, int line, double start, double ms)
{
    double now = now_ms();
    if (now - start <= (sched ? ms : ms + STANDSTILL))
        return;
    settle();
    double machine = machine_queued(start, now) + machine_stopped(start, now);
    if (now - start - machine > ms)
        too_late(file, line, "it took %.3f ms (the machine %.3f), and should take %.0f at most", now - start, machine,
                 ms);
}

void check_time(const char *file, int line, double start, double ms)
{
    double took = now_ms() - start;
    if (took < ms)
        test_failed(file, line, "it took %.3f ms, and should take %.0f", took, ms);
    check_within(file, line, start, ms > 0 ? 10 * ms + 500 : STATEMENT_ASAN ? 500 : 100);
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

static void release(struct flow *flow)
{
    if (flow->is_thread)
        pthread_join(flow->thread, NULL);
    free(flow);
}

/* Threads that have done their work, but may not have got the CPU to leave: no worker is to wait for that. */
static struct flow *leaving; /* atomic */

static void release_leaving(void)
{
    for (struct flow *f = leaving, *next; f; f = next) {
        next = f->next;
        release(f);
    }
    leaving = NULL;
}

void end(struct flow *flow)
{
    if (!flow->is_thread) {
        weft_join(flow->fiber, NULL, WEFT_FOREVER);
    } else if (sched) {
        weft_event_wait(&flow->ended, WEFT_FOREVER);
        flow->next = __atomic_load_n(&leaving, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&leaving, &flow->next, flow, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            ;
        return;
    }
    release(flow);
}

/* --- the ticker --- */

struct ticker {
    bool over;      /* atomic: set when the body has returned */
    double longest; /* the ticker's until it has ended */
};

/*
 * The time between two ticks. Waiting in a queue is not the worker's. What its CPU stood still for is not either, if that was
 * all but for a bit: else, as it could have been blocked meanwhile, it counts in full.
 */
static void judge(struct ticker *t, double from, double to)
{
    double gap = to - from - machine_queued(from, to), rest = gap - machine_stopped(from, to);
    if (gap <= statement_gap_limit() || rest <= 0.4 * statement_gap_limit())
        gap = rest;
    if (gap > t->longest)
        t->longest = gap;
    if (gap > statement_gap_limit())
        printf("between two ticks: %.1f ms, %.1f without queues, %.1f without the CPU's stops\n", to - from, gap, rest);
}

static void *tick(void *arg)
{
    struct ticker *t = arg;
    struct machine_seen seen;
    machine_seen_first(&seen);
    do {
        double last = seen.at;
        weft_sleep(WEFT_MS);
        machine_see(&seen);
        double now = seen.at;
        if (now - last > statement_gap_limit()) {
            settle();
            machine_see(&seen);
            judge(t, now, seen.at);
        }
        judge(t, last, now);
    } while (!__atomic_load_n(&t->over, __ATOMIC_ACQUIRE));
    machine_seen_last(&seen);
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
    machine_watch();
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
    machine_unwatch();
    if (weft_sched_stop(sched, weft_in(WEFT_SEC)) != 0)
        give_up("the statement has left flows behind");
    release_leaving();
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

static void run_once(const char *name, void (*body)(void))
{
    double start = now_ms();
    if (is_kernel()) {
        run_in_kernel(body);
        printf("%s: %.0f ms\n", name, now_ms() - start);
        return;
    }
    double gap = statement_gap(body);
    printf("%s: %.0f ms, the ticker's longest gap %.1f ms\n", name, now_ms() - start, gap);
    if (gap > statement_gap_limit())
        too_late(__FILE__, __LINE__, "%s: the worker was blocked: the ticker's longest gap is %.1f ms", name, gap);
}

/* The table of descriptors grows once all CPUs know, which takes long on a busy machine: no worker is to wait for that. */
static void widen_table(void)
{
    enum { WIDE = 4000 };
    struct rlimit before, wide;
    if (getrlimit(RLIMIT_NOFILE, &before) != 0 || before.rlim_max <= WIDE)
        return;
    wide = before;
    if (wide.rlim_cur <= WIDE)
        wide.rlim_cur = WIDE + 1;
    setrlimit(RLIMIT_NOFILE, &wide);
    syscall(SYS_close, (int)syscall(SYS_dup3, 0, WIDE, O_CLOEXEC));
    setrlimit(RLIMIT_NOFILE, &before);
}

void statement_run(const char *name, void (*body)(void))
{
    const char *only = getenv("STATEMENT");
    if (only && !strstr(name, only)) /* an empty one is in all */
        SKIP("the environment asks for others");
    if (!late) {
        widen_table();
        late = mmap(NULL, sizeof *late, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    }
    current = name;
    for (int run = 1; run <= RUNS; run++) {
        *late = 0;
        is_last_run = run == RUNS;
        run_once(name, body);
        if (*late == 0 || test_has_failed())
            return;
        printf("again: %s: something took too long\n", name);
        usleep(300000); /* what keeps the machine busy may be over by then */
    }
}
