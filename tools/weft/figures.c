/*
 * figures.c: see figures.h. The kernel's figures come from /proc, which never waits for a disk.
 */
#include "figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct figures *figures_new(void)
{
    weft_sched_figures sched = {.size = sizeof sched};
    weft_sched_stats(weft_sched_current(), &sched);
    struct figures *f = calloc(1, sizeof *f + sched.workers * sizeof f->workers[0]);
    if (f)
        f->worker_count = sched.workers;
    return f;
}

/* CPU time of a thread of this process: fields 14 and 15 of its stat file, in ticks. The name before them may have spaces. */
static double cpu_of(int thread)
{
    char path[64], line[1024];
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *f = fopen(path, "re");
    if (f && fgets(line, sizeof line, f)) {
        const char *behind_name = strrchr(line, ')');
        if (behind_name)
            sscanf(behind_name, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
    }
    if (f)
        fclose(f);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static void take_memory(struct figures *out)
{
    char line[128];
    unsigned long kib;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmRSS: %lu", &kib) == 1)
            out->resident = (uint64_t)kib * 1024;
        else if (sscanf(line, "VmPTE: %lu", &kib) == 1)
            out->page_tables = (uint64_t)kib * 1024;
    }
    if (f)
        fclose(f);
}

void figures_take(struct figures *f, const weft_http *h)
{
    struct timespec now;
    const weft_sched *sched = weft_sched_current();
    f->http.size = sizeof f->http;
    f->sched.size = sizeof f->sched;
    f->stacks.size = sizeof f->stacks;
    f->helpers.size = sizeof f->helpers;
    f->at = weft_now();
    clock_gettime(CLOCK_REALTIME, &now);
    f->clock_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    weft_http_stats(h, &f->http);
    weft_sched_stats(sched, &f->sched);
    weft_stack_stats(&f->stacks);
    weft_offload_stats(&f->helpers);
    for (size_t i = 0; i < f->worker_count; i++) {
        f->workers[i].thread = weft_sched_tid(sched, (int)i);
        f->workers[i].cpu = cpu_of(f->workers[i].thread);
    }
    take_memory(f);
}

static double seconds_between(const struct figures *a, const struct figures *b)
{
    return (double)(b->at.ns - a->at.ns) / (double)WEFT_SEC;
}

double figures_load(const struct figures *before, const struct figures *now, size_t worker)
{
    double seconds = seconds_between(before, now);
    double load = seconds > 0 ? (now->workers[worker].cpu - before->workers[worker].cpu) / seconds : 0;
    return load < 0 ? 0 : load < 1 ? load : 1; /* ticks of 10 ms may add up to a little more */
}

double figures_rate(const struct figures *f, uint64_t before, const struct figures *g, uint64_t now)
{
    double seconds = seconds_between(f, g);
    return seconds > 0 && now > before ? (double)(now - before) / seconds : 0;
}
