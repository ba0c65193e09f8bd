/*
 * load.c: bench-http-load, the load generator. It starts a server, makes connections, keeps requests in flight on each
 * of them, and checks every answer.
 *
 *      bench-http-load BENCH LIBRARY MILLISECONDS PROGRAM
 *
 * PROGRAM is the server (server.h). BENCH is KIND-CONNECTIONS, or KIND-CONNECTIONS-WORKERS:
 *
 *      hello   GET / on connections that are kept          close        the same, a connection for each request
 *      file    GET of a file of 16 KiB                     file-close   the same, a connection for each request
 *      pipe    hello, 16 requests in one piece             tools        hello by this generator, by wrk and by ab
 *      idle    hello once, then the connections idle
 *
 * Without WORKERS, server and generator have a CPU each, and the figure is the server's CPU time for a request; for
 * idle it is the server's memory. With WORKERS the two share all CPUs, and the figure is requests per second.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../common/case.h"
#include "../common/child.h"
#include "../common/load.h"
#include "client.h"
#include "server.h"
#include "tools.h"

#define PIPE_DEPTH 16
#define IDLE_MS 2500
#define MHD_TOO_MANY 10000

static struct client_plan plan = {.path = "/", .body = SERVER_HELLO, .bytes = sizeof(SERVER_HELLO) - 1, .depth = 1};
static char site[PATH_MAX]; /* the folder that the servers serve */

struct run {
    struct child *server;
    double ms;
};

struct bench {
    const char *kind;
    unsigned workers; /* 0: one, and the server has a CPU of its own */
    void (*measure)(const struct run *run);
};

/* What was spent in one measurement: CPU time of the server and of this process, and time of the clock. */
struct spent {
    uint64_t answers;
    int64_t server_ns, own_ns, wall_ns;
};

static struct spent spend(const struct run *run)
{
    struct spent s;

    client_run(run->ms / 5);
    s.wall_ns = load_now_ns();
    s.own_ns = load_own_cpu_ns();
    s.server_ns = child_cpu_ns(run->server);
    s.answers = client_run(run->ms);
    s.server_ns = child_cpu_ns(run->server) - s.server_ns;
    s.own_ns = load_own_cpu_ns() - s.own_ns;
    s.wall_ns = load_now_ns() - s.wall_ns;
    return s;
}

static double us_each(const struct spent *s)
{
    return (double)s->server_ns / 1e3 / (double)s->answers;
}

static double rate(const struct spent *s)
{
    return (double)s->answers * 1e9 / (double)s->wall_ns;
}

static double megabytes(const struct child *server)
{
    struct case_memory m = child_memory(server);
    return (m.rss + m.pte) / 1e6;
}

static struct spent spend_timed(const struct run *run, struct latency *latency)
{
    struct spent s;

    client_record(latency);
    s = spend(run);
    client_record(NULL);
    return s;
}

static void measure_cpu(const struct run *run)
{
    static struct latency latency;
    struct spent s = spend_timed(run, &latency);
    double memory = megabytes(run->server);
    char params[200], calls[64];

    load_count_calls(run->server, client_run, run->ms / 2, calls, sizeof(calls));
    snprintf(params, sizeof(params), "rate=%.0f %sMB=%.2f p50=%.1f p99=%.1f busy=%.2f load=%.2f", rate(&s), calls,
             memory, latency_at(&latency, 0.5), latency_at(&latency, 0.99), (double)s.server_ns / (double)s.wall_ns,
             (double)s.own_ns / (double)s.wall_ns);
    case_ok(us_each(&s), params);
}

static void measure_rate(const struct run *run)
{
    static struct latency latency;
    struct spent s = spend_timed(run, &latency);
    char params[200];

    snprintf(params, sizeof(params), "cpu=%.2f busy=%.2f load=%.2f MB=%.2f p50=%.0f p99=%.0f", us_each(&s),
             (double)s.server_ns / (double)s.wall_ns, (double)s.own_ns / (double)s.wall_ns, megabytes(run->server),
             latency_at(&latency, 0.5), latency_at(&latency, 0.99));
    case_ok(rate(&s), params);
}

/* The second client_once fails if the server has closed a connection in the pause. */
static void measure_idle(const struct run *run)
{
    struct timespec pause = {.tv_sec = IDLE_MS / 1000, .tv_nsec = IDLE_MS % 1000 * 1000000L};
    double before = megabytes(run->server), active, idle;
    char params[200];
    int64_t cpu;

    client_once();
    active = megabytes(run->server);
    cpu = child_cpu_ns(run->server);
    nanosleep(&pause, NULL);
    idle = megabytes(run->server);
    cpu = child_cpu_ns(run->server) - cpu;
    client_once();
    snprintf(params, sizeof(params), "connected=%.2f active=%.2f idle_ms=%.2f", before, active, (double)cpu / 1e6);
    case_ok(idle, params);
}

/* The tools make connections of their own. */
static void measure_tools(const struct run *run)
{
    struct spent s = spend(run);
    struct tool_result wrk, ab;
    char params[200];

    wrk = tool_wrk(run->server, plan.connections, run->ms);
    ab = tool_ab(run->server, plan.connections, run->ms);
    snprintf(params, sizeof(params), "rate=%.0f wrk=%.2f wrk_rate=%.0f ab=%.2f ab_rate=%.0f", rate(&s), wrk.us_each,
             wrk.rate, ab.us_each, ab.rate);
    case_ok(us_each(&s), params);
}

static struct bench parse_bench(const char *name)
{
    static const struct bench benches[] = {
        {"hello", 0, measure_cpu},      {"close", 0, measure_cpu}, {"file", 0, measure_cpu},
        {"file-close", 0, measure_cpu}, {"pipe", 0, measure_cpu},  {"idle", 0, measure_idle},
        {"tools", 0, measure_tools},
    };
    const char *number = strpbrk(name, "0123456789");
    char *rest;

    for (size_t i = 0; number && i < sizeof(benches) / sizeof(benches[0]); i++) {
        struct bench bench = benches[i];
        if (strlen(bench.kind) + 1 != (size_t)(number - name) || strncmp(bench.kind, name, strlen(bench.kind)) != 0)
            continue;
        plan.connections = strtoul(number, &rest, 10);
        bench.workers = *rest == '-' ? (unsigned)strtoul(rest + 1, NULL, 10) : 0;
        if (bench.workers > 0)
            bench.measure = measure_rate;
        if (plan.connections > 0)
            return bench;
    }
    case_fail("there is no bench '%s'", name);
}

/*
 * libmicrohttpd 0.9.75 now and then waits for new events although it has not read all connections that had some: nearly
 * always with 10,000 connections, and on a busy machine with fewer.
 */
static void check_fit(const struct bench *bench, const char *library)
{
    if (strcmp(library, "mhd") != 0)
        return;
    plan.flaw = "it waits for new events before it has served all old ones";
    if (plan.connections >= MHD_TOO_MANY && bench->measure == measure_cpu)
        case_na("with %zu connections it leaves some without an answer for seconds", plan.connections);
}

/* Finds the folder that the servers serve: it is beside this program. */
static void find_site(void)
{
    ssize_t length = readlink("/proc/self/exe", site, sizeof(site) - sizeof(SERVER_SITE) - 1);
    char *name;

    site[length > 0 ? length : 0] = '\0';
    name = strrchr(site, '/');
    strcpy(name ? name + 1 : site, SERVER_SITE);
}

static void expect_file(void)
{
    static char body[SERVER_FILE_BYTES + 1];
    char path[PATH_MAX + sizeof(SERVER_FILE)];
    FILE *f;

    snprintf(path, sizeof(path), "%s%s", site, SERVER_FILE);
    f = fopen(path, "re");
    if (!f || fread(body, 1, sizeof(body), f) != SERVER_FILE_BYTES)
        case_fail("%s is not there, or not of %d bytes", path, SERVER_FILE_BYTES);
    fclose(f);
    plan.path = SERVER_FILE;
    plan.body = body;
    plan.bytes = SERVER_FILE_BYTES;
}

static void apply_kind(const char *kind)
{
    if (!strncmp(kind, "file", 4))
        expect_file();
    if (!strcmp(kind, "pipe"))
        plan.depth = PIPE_DEPTH;
    plan.closes = strstr(kind, "close") != NULL;
}

int main(int argc, char **argv)
{
    char workers[32];
    const char *args[] = {NULL, site, workers, NULL};
    struct child_order order = {.args = args, .cpu = -1};
    struct child server;
    struct bench bench;

    if (argc != 5) {
        fprintf(stderr, "usage: %s BENCH LIBRARY MILLISECONDS PROGRAM\n", argv[0]);
        return 2;
    }
    bench = parse_bench(argv[1]);
    check_fit(&bench, argv[2]);
    find_site();
    apply_kind(bench.kind);
    load_raise_descriptors(plan.connections);
    if (bench.workers == 0)
        order.cpu = child_share_cpus();
    args[0] = argv[2];
    order.program = argv[4];
    snprintf(workers, sizeof(workers), "%u", bench.workers > 0 ? bench.workers : 1);
    child_start(&server, &order);
    plan.port = server.port;
    client_open(&plan);
    bench.measure(&(struct run){.server = &server, .ms = strtod(argv[3], NULL)});
    child_check(&server);
    client_close();
    child_end(&server);
    return 0;
}
