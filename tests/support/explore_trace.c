/*
 * tests/support/explore_trace.c: the last steps of a schedule and the names of its memory, for when it fails.
 */
#include <stdio.h>

#include "support/explore_parts.h"

enum { TRACED = 64, NAMES = 16 };

static struct traced {
    int thread;
    const char *what, *result;
    const void *p;
    uintptr_t bits, other;
} trace[TRACED];
static size_t traced;

static struct {
    const char *start, *end, *name;
} names[NAMES];
static int name_count;

void explore_name(const void *p, size_t bytes, const char *name)
{
    if (name_count < NAMES) {
        names[name_count].start = p;
        names[name_count].end = (const char *)p + bytes;
        names[name_count++].name = name;
    }
}

void trace_begin(void)
{
    traced = 0;
}

void trace_step(int thread, const char *what, const void *p, const char *result, uintptr_t bits, uintptr_t other)
{
    trace[traced++ % TRACED] = (struct traced){thread, what, result, p, bits, other};
}

static void print_place(const char *p)
{
    char text[64] = "";
    for (int i = 0; i < name_count && !*text; i++) {
        if (p >= names[i].start && p < names[i].end)
            snprintf(text, sizeof text, "%s+%zd", names[i].name, p - names[i].start);
    }
    if (p && !*text)
        snprintf(text, sizeof text, "%p", (const void *)p);
    fprintf(stderr, "%-20s ", text);
}

void trace_print(uint64_t seed, unsigned steps)
{
    fprintf(stderr, "seed %llu, after %u steps (WEFT_SEED=%llu WEFT_SCHEDULES=1 repeats it); the last ones:\n",
            (unsigned long long)seed, steps, (unsigned long long)seed);
    for (size_t i = traced > TRACED ? traced - TRACED : 0; i < traced; i++) {
        const struct traced *s = &trace[i % TRACED];
        fprintf(stderr, "  thread %d  %-13s ", s->thread, s->what);
        print_place(s->p);
        fprintf(stderr, s->result, (unsigned long)s->bits, (unsigned long)s->other);
        fputc('\n', stderr);
    }
}
