/*
 * snapshot.c: see snapshot.h.
 */
#include "snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weft/io.h>

#define U64 "%" PRIu64

static void print_workers(FILE *to, const struct figures *before, const struct figures *now)
{
    fputs("\"workers\":[", to);
    for (size_t i = 0; i < now->worker_count; i++)
        fprintf(to, "%s{\"thread\":%d,\"cpu_seconds\":%.2f,\"cpu\":%.3f}", i ? "," : "", now->workers[i].thread,
                now->workers[i].cpu, figures_load(before, now, i));
    fputs("],", to);
}

static void print_fibers(FILE *to, const struct figures *before, const struct figures *now)
{
    const weft_sched_figures *s = &now->sched;
    fprintf(to,
            "\"fibers\":{\"alive\":" U64 ",\"ready\":%zu,\"parked\":%zu,\"sleeping\":%zu,\"spawned\":" U64
            ",\"ended\":" U64 ",\"stolen\":" U64 ",\"switches\":" U64 ",\"switches_per_second\":%.0f},",
            s->spawned > s->ended ? s->spawned - s->ended : 0, s->ready, s->parked, s->sleeping, s->spawned, s->ended,
            s->stolen, s->switches, figures_rate(before, before->sched.switches, now, s->switches));
}

static void print_latency(FILE *to, const char *name, struct latency l)
{
    fprintf(to, "\"%s\":{\"count\":" U64, name, l.count);
    if (l.count > 0)
        fprintf(to, ",\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f}", l.p50, l.p90, l.p99);
    else
        fputs(",\"p50\":null,\"p90\":null,\"p99\":null}", to);
}

static void print_http(FILE *to, const struct figures *before, const struct figures *now)
{
    const weft_http_figures *b = &before->http, *h = &now->http;
    fprintf(to,
            "\"connections\":{\"now\":%u,\"idle\":%u,\"streams\":%u,\"accepted\":" U64 ",\"refused\":" U64 "},"
            "\"requests\":{\"total\":" U64 ",\"per_second\":%.1f,\"cut\":" U64 "},",
            h->connections, h->idle, h->streams, h->accepted, h->refused, h->requests,
            figures_rate(before, b->requests, now, h->requests), h->cut);
    fprintf(to,
            "\"status\":{\"1xx\":" U64 ",\"2xx\":" U64 ",\"3xx\":" U64 ",\"4xx\":" U64 ",\"5xx\":" U64 "},"
            "\"bytes\":{\"in\":" U64 ",\"out\":" U64 ",\"in_per_second\":%.0f,\"out_per_second\":%.0f},",
            h->status[1], h->status[2], h->status[3], h->status[4], h->status[5], h->bytes_in, h->bytes_out,
            figures_rate(before, b->bytes_in, now, h->bytes_in), figures_rate(before, b->bytes_out, now, h->bytes_out));
    fputs("\"latency_us\":{", to);
    print_latency(to, "since_start", latency_between(NULL, h->latencies));
    fputc(',', to);
    print_latency(to, "last_second", latency_between(b->latencies, h->latencies));
    fputs("},", to);
}

static void print_memory(FILE *to, const struct figures *now)
{
    fprintf(to,
            "\"memory\":{\"resident\":" U64 ",\"page_tables\":" U64 ",\"stacks\":%zu,\"stacks_reserved\":%zu},"
            "\"helpers\":{\"threads\":%u,\"busy\":%u,\"queued\":%zu}",
            now->resident, now->page_tables, now->stacks.stacks, now->stacks.reserved, now->helpers.threads,
            now->helpers.busy, now->helpers.queued);
}

char *snapshot_text(const struct figures *before, const struct figures *now)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return NULL;
    fprintf(to, "{\"version\":\"%s\",\"pid\":%d,\"time\":%" PRId64 ",\"uptime\":%.1f,\"driver\":\"%s\",",
            weft_version(), (int)getpid(), now->clock_ms,
            (double)(now->at.ns - weft_sched_born(weft_sched_current()).ns) / (double)WEFT_SEC, weft_io_backend());
    print_workers(to, before, now);
    print_fibers(to, before, now);
    print_http(to, before, now);
    print_memory(to, now);
    fputs("}", to);
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}

void point_take(struct point *p, const struct figures *before, const struct figures *now)
{
    const weft_http_figures *b = &before->http, *h = &now->http;
    struct latency l = latency_between(b->latencies, h->latencies);
    *p = (struct point){
        .clock_ms = now->clock_ms,
        .requests = figures_rate(before, b->requests, now, h->requests),
        .p50 = l.p50,
        .p99 = l.p99,
        .connections = h->connections,
        .fibers = now->sched.spawned > now->sched.ended ? now->sched.spawned - now->sched.ended : 0,
        .memory = (double)(now->resident + now->page_tables),
        .in = figures_rate(before, b->bytes_in, now, h->bytes_in),
        .out = figures_rate(before, b->bytes_out, now, h->bytes_out),
    };
    for (size_t i = 0; i < now->worker_count; i++)
        p->loads[i] = (float)figures_load(before, now, i);
}

void point_print(FILE *to, const struct point *p, size_t workers)
{
    fprintf(to, "[%" PRId64 ",%.1f,", p->clock_ms, p->requests);
    if (p->p50 >= 0)
        fprintf(to, "%.1f,%.1f,", p->p50, p->p99);
    else
        fputs("null,null,", to);
    fprintf(to, "%u,%zu,%.0f,%.0f,%.0f,[", p->connections, p->fibers, p->memory, p->in, p->out);
    for (size_t i = 0; i < workers; i++)
        fprintf(to, "%s%.3f", i ? "," : "", (double)p->loads[i]);
    fputs("]]", to);
}
