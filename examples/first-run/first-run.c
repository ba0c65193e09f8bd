/*
 * first-run.c: the program that `make run` runs. It starts `weft serve` on a sample site as a child process, sends
 * requests for some seconds, and shows every second what these cost: requests, latency, fibers, system calls, memory.
 *
 *      first-run WEFT DIR [--seconds 10] [--connections 100] [--port 8080]
 *
 * WEFT is the command, DIR the site. On a terminal the server then goes on until SIGINT (Ctrl-C) or SIGTERM. Without a
 * terminal the program ends.
 *
 * The clients are fibers, too (load.c). They count the answers, and compare each with its file. The number of fibers
 * comes from the server's status page, the memory from /proc, and the system calls from the kernel, if this user may
 * count them.
 *
 * Exit status: 0; 1 something was wrong; 128 plus the signal's number if a signal came before the summary.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include <weft/weft.h>

#include "../../bench/common/calls.h"
#include "../support/arguments.h"
#include "../support/fail.h"
#include "../support/numbers.h"
#include "load.h"
#include "report.h"
#include "server.h"
#include "site.h"

#define USAGE "first-run WEFT DIR [--seconds N] [--connections N] [--port N]"

static struct {
    unsigned seconds, connections, port;
} options = {.seconds = 10, .connections = 100, .port = 8080};

static const struct argument arguments[] = {
    {"--seconds", &options.seconds, 1, 1000000},
    {"--connections", &options.connections, 1, 4000}, /* the server takes 4,096 from one address */
    {"--port", &options.port, 0, 65535},
    {.name = NULL},
};

static struct site site;
static struct server server;
static struct calls counter;

static sigset_t signals;
static weft_event interrupted; /* by the first signal */
static atomic_int interrupts;  /* how many signals there were */
static atomic_int last_signal;
static atomic_int only_serving; /* the load has ended: the first signal ends the server */
static atomic_int is_told;      /* the server has been told to end */

/* ---- signals ---- */

/* Tells the server to end, but only once: a second signal would end it at once. */
static void tell_server(void)
{
    if (!atomic_exchange(&is_told, true))
        kill(server.child.pid, SIGTERM);
}

/* The first signal ends the load or, if the load has ended, the server. The next signal ends the server at once. */
static void *obey(void *arg)
{
    int number;
    (void)arg;
    while ((number = weft_wait_signal(&signals, NULL, WEFT_FOREVER)) > 0) {
        atomic_store(&last_signal, number);
        if (atomic_fetch_add(&interrupts, 1) > 0)
            kill(server.child.pid, SIGTERM);
        else if (atomic_load(&only_serving))
            tell_server();
        weft_event_set(&interrupted);
    }
    return NULL;
}

/* Ends the server. After a second signal, its exit status does not matter. */
static void end_server(void)
{
    tell_server();
    if (!child_wait(&server.child, weft_in(CHILD_PATIENCE)) && atomic_load(&interrupts) < 2)
        fail(0, "the server did not end well");
}

/* ---- the load ---- */

static void look(struct sample *s, const struct crowd *load)
{
    s->calls = UINT64_MAX;
    if (counter.threads > 0 && !calls_read(&counter, &s->calls))
        fail(errno, "the counter of system calls cannot be read");
    s->answers = crowd_turns(load);
    s->at = weft_now();
    load_latencies(&s->latencies);
    s->fibers = server_fibers(&server);
    s->memory = child_memory(&server.child);
}

/* Watches the load until its time is over, something is wrong, or a signal comes. */
static void watch(struct crowd *load, struct sample *first, struct sample *last)
{
    static struct sample now;
    look(first, load);
    *last = *first;
    crowd_begin(load);
    for (unsigned second = 1; second <= options.seconds && !crowd_failed(load); second++) {
        if (weft_event_wait(&interrupted, (weft_time){first->at.ns + second * WEFT_SEC}) == 0)
            break;
        look(&now, load);
        report_second(second, last, &now);
        *last = now;
    }
}

/* Puts the server under load, and prints the results. Returns false if a signal has ended the load. */
static bool drive(void)
{
    static struct sample first, last;
    char why[200];
    struct crowd *load = load_new(server.address, &site, options.connections);
    const char *no_calls = calls_open(&counter, server.child.pid);
    if (!load)
        fail(ENOMEM, "no load");
    report_names();
    calls_start(&counter);
    watch(load, &first, &last);
    if (!crowd_end(load, why, sizeof why))
        fail(0, "%s", why);
    calls_close(&counter);
    server_hang_up(&server);
    load_free();
    if (atomic_load(&interrupts) > 0)
        return false;
    report_summary(&first, &last, options.connections, &server, no_calls);
    return true;
}

/* ---- the whole ---- */

static void print_start(const char *folder)
{
    char conns[NUMBER_ROOM];
    printf("weft serves %s at %s\n", folder, server.url);
    printf("%s connection%s ask%s for its %u files, again and again, for %u s.\n",
           number_grouped(options.connections, conns), options.connections == 1 ? "" : "s",
           options.connections == 1 ? "s" : "", site.count, options.seconds);
}

static void print_places(const char *program, bool goes_on)
{
    printf("\n  the site       %s\n", server.url);
    printf("  its live state %s_weft\n", server.url);
    printf("  your own site  %s serve DIR --status\n", program);
    printf("\n%s\n", goes_on ? "The server goes on until Ctrl-C." : "There is no terminal, so the server ends here.");
    fflush(stdout);
}

/* Waits until a signal ends the server, or the server ends by itself. */
static void go_on(void)
{
    atomic_store(&only_serving, true);
    if (atomic_load(&interrupts) > 0) /* a signal came before the line above */
        tell_server();
    if (!child_wait(&server.child, WEFT_FOREVER) && atomic_load(&interrupts) < 2)
        fail(0, "the server did not end well");
}

static void *first_fiber(void *arg)
{
    const char *program = arg;
    bool goes_on = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    weft_fiber *obeying;
    int rc = weft_go_with(&obeying, NULL, obey, NULL);
    if (rc < 0)
        fail(-rc, "no fiber");
    bool was_whole = drive();
    if (was_whole)
        print_places(program, goes_on);
    if (was_whole && goes_on)
        go_on();
    else
        end_server();
    if (atomic_load(&interrupts) > 0)
        printf("\nThe server has ended.\n");
    weft_cancel(obeying);
    weft_join(obeying, NULL, WEFT_FOREVER);
    return (void *)(intptr_t)(was_whole ? 0 : 128 + atomic_load(&last_signal));
}

int main(int argc, char **argv)
{
    void *status = NULL;
    if (argc < 3)
        fail(0, "usage: %s", USAGE);
    arguments_read(argv + 3, arguments, USAGE);
    child_allow_connections(options.connections);
    site_read(&site, argv[2]);
    server_start(&server, argv[1], argv[2], options.port);
    print_start(argv[2]);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before there are other threads, which inherit the mask */
    int rc = weft_run(first_fiber, argv[1], &status, NULL);
    if (rc < 0)
        fail(-rc, "weft_run");
    return (int)(intptr_t)status;
}
