/*
 * tests/hook/machine.c: see machine.h. Makes no call that has a hook.
 */
#include "hook/machine.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    KEPT = 4096,       /* a power of two */
    LEAST_WAIT_MS = 1, /* what is worth a note */
    LEAST_STOP_MS = 5  /* any timer of a guest may be late by a bit */
};

/* What one thread has found: the last of it. */
static struct losses {
    struct loss {
        double from, to, ms;
    } at[KEPT];
    unsigned count; /* atomic: pairs with sum */
} waits, stops;     /* the watched thread's in queues; its CPU's */

static pthread_t watcher;
static bool ready;   /* atomic: the watcher has its descriptor */
static bool over;    /* atomic: the watch has ended */
static int last_cpu; /* atomic: of the watched thread */

double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void note(struct losses *losses, double from, double to, double ms)
{
    unsigned n = __atomic_load_n(&losses->count, __ATOMIC_RELAXED);
    losses->at[n % KEPT] = (struct loss){from, to, ms};
    __atomic_store_n(&losses->count, n + 1, __ATOMIC_RELEASE);
}

static double sum(const struct losses *losses, double from, double to)
{
    double ms = 0;
    unsigned n = __atomic_load_n(&losses->count, __ATOMIC_ACQUIRE);
    for (unsigned i = n > KEPT ? n - KEPT : 0; i < n; i++) {
        const struct loss *l = &losses->at[i % KEPT];
        double both = (l->to < to ? l->to : to) - (l->from > from ? l->from : from);
        if (both > 0)
            ms += both < l->ms ? both : l->ms;
    }
    return ms;
}

double machine_queued(double from, double to)
{
    return sum(&waits, from, to);
}

double machine_stopped(double from, double to)
{
    return sum(&stops, from, to);
}

/* --- one thread's time in queues --- */

/* How long the calling thread has waited for a CPU so far, in milliseconds; `before` if the kernel does not say. */
static double waited_for_cpu(int fd, double before)
{
    char text[128] = "", *end;
    if (syscall(SYS_pread64, fd, text, sizeof text - 1, 0) <= 0)
        return before;
    strtoull(text, &end, 10); /* how long it has run */
    return (double)strtoull(end, NULL, 10) / 1e6;
}

/* A descriptor with a number that no statement asks for. */
static int open_schedstat(void)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    int high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
    syscall(SYS_close, fd);
    return high;
}

/* What the calling thread has waited since it was seen last. */
static double waited_since(struct machine_seen *seen)
{
    double before = seen->waited;
    seen->waited = waited_for_cpu(seen->fd, before);
    return seen->waited - before;
}

static void seen_first(struct machine_seen *seen)
{
    seen->fd = open_schedstat();
    seen->waited = waited_for_cpu(seen->fd, 0);
    seen->at = now_ms();
}

void machine_seen_last(struct machine_seen *seen)
{
    syscall(SYS_close, seen->fd);
}

void machine_seen_first(struct machine_seen *seen)
{
    __atomic_store_n(&last_cpu, sched_getcpu(), __ATOMIC_RELAXED);
    seen_first(seen);
}

void machine_see(struct machine_seen *seen)
{
    double now = now_ms(), waited = waited_since(seen);
    if (waited >= LEAST_WAIT_MS)
        note(&waits, seen->at, now, waited);
    seen->at = now;
    __atomic_store_n(&last_cpu, sched_getcpu(), __ATOMIC_RELAXED);
}

/* --- the CPU's standing still --- */

static void stay_on(int cpu)
{
    cpu_set_t set;
    if (cpu < 0 || cpu >= CPU_SETSIZE)
        return;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *watch(void *arg)
{
    static const struct timespec ms = {.tv_nsec = 1000000};
    struct machine_seen seen;
    int mine = -1;
    seen_first(&seen);
    __atomic_store_n(&ready, true, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        int cpu = __atomic_load_n(&last_cpu, __ATOMIC_RELAXED);
        if (cpu != mine)
            stay_on(mine = cpu);
        syscall(SYS_nanosleep, &ms, NULL);
        double now = now_ms(), stopped = now - seen.at - 1 - waited_since(&seen);
        if (stopped >= LEAST_STOP_MS)
            note(&stops, seen.at, now, stopped);
        seen.at = now;
    }
    machine_seen_last(&seen);
    return arg;
}

void machine_watch(void)
{
    waits.count = stops.count = 0;
    ready = over = false;
    last_cpu = -1;
    if (pthread_create(&watcher, NULL, watch, NULL) != 0)
        abort();
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) /* from then on it takes no number that a statement counts on */
        sched_yield();
}

void machine_unwatch(void)
{
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    pthread_join(watcher, NULL);
}
