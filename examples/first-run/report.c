/*
 * report.c: see report.h.
 */
#include "report.h"

#include <stdio.h>
#include <unistd.h>

#include "../../bench/common/calls.h"
#include "../support/numbers.h"

/* Writes a time in us with a suitable unit. */
static const char *span(double us, char room[NUMBER_ROOM])
{
    if (us < 1000)
        snprintf(room, NUMBER_ROOM, "%.0f us", us);
    else
        snprintf(room, NUMBER_ROOM, us < 10000 ? "%.2f ms" : "%.1f ms", us / 1000);
    return room;
}

/* The latencies that were counted between two samples. */
static const struct latency *between(const struct sample *a, const struct sample *b)
{
    static struct latency l;
    l.count = b->latencies.count - a->latencies.count;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
        l.buckets[i] = b->latencies.buckets[i] - a->latencies.buckets[i];
    return &l;
}

static uint64_t rate(const struct sample *a, const struct sample *b)
{
    return (uint64_t)number_rate(a->answers, a->at, b->answers, b->at);
}

/* The server's system calls for a request, or why they are not known. */
static const char *calls_of_one(const struct sample *a, const struct sample *b, char room[NUMBER_ROOM])
{
    if (b->calls == UINT64_MAX)
        return geteuid() == 0 ? "n/a" : "only root";
    return number_each(b->calls - a->calls, b->answers - a->answers, room);
}

static const char *megabytes(double bytes, char room[NUMBER_ROOM])
{
    snprintf(room, NUMBER_ROOM, "%.1f MB", bytes / 1e6);
    return room;
}

#define COLUMNS "%7s %12s %13s %13s %8s %21s %9s\n"

void report_names(void)
{
    printf("\n" COLUMNS, "second", "requests/s", "latency 50 %", "latency 99 %", "fibers", "system calls/request",
           "memory");
    fflush(stdout);
}

void report_second(unsigned second, const struct sample *before, const struct sample *now)
{
    char number[NUMBER_ROOM], requests[NUMBER_ROOM], half[NUMBER_ROOM], most[NUMBER_ROOM], fibers[NUMBER_ROOM],
        calls[NUMBER_ROOM], memory[NUMBER_ROOM];
    const struct latency *l = between(before, now);
    printf(COLUMNS, number_grouped(second, number), number_grouped(rate(before, now), requests),
           span(latency_at(l, 0.5), half), span(latency_at(l, 0.99), most), number_grouped(now->fibers, fibers),
           calls_of_one(before, now, calls), megabytes(now->memory, memory));
    fflush(stdout);
}

static void print_latency(const struct latency *l)
{
    char half[NUMBER_ROOM], most[NUMBER_ROOM], longest[NUMBER_ROOM];
    printf("  latency        half of them %s at most, 99 %% of them %s, the longest %s\n",
           span(latency_at(l, 0.5), half), span(latency_at(l, 0.99), most), span(latency_at(l, 1), longest));
}

void report_summary(const struct sample *first, const struct sample *last, unsigned connections,
                    const struct server *server, const char *no_calls)
{
    char answers[NUMBER_ROOM], conns[NUMBER_ROOM], requests[NUMBER_ROOM], fibers[NUMBER_ROOM], calls[NUMBER_ROOM];
    printf("\n%s answers on %s connections in %.1f s. Each was compared with its file: none was wrong.\n\n",
           number_grouped(last->answers, answers), number_grouped(connections, conns),
           (double)(last->at.ns - first->at.ns) / (double)WEFT_SEC);
    printf("  requests/s     %s, by %u worker%s on %s\n", number_grouped(rate(first, last), requests), server->workers,
           server->workers == 1 ? "" : "s", server->backend);
    print_latency(between(first, last));
    printf("  fibers         %s: one for each connection, and those of the server itself\n",
           number_grouped(last->fibers, fibers));
    if (no_calls)
        printf("  system calls   not counted: %s\n", calls_explain(no_calls));
    else
        printf("  system calls   %s for a request, counted by the kernel\n", calls_of_one(first, last, calls));
    printf("  memory         %s, page tables included\n", megabytes(last->memory, calls));
}
