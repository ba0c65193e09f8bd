/*
 * show.c: what `make run EXAMPLE=show` shows. It starts the server of examples/echo-server.c as a process of its own,
 * drives many connections through it for some seconds, and says every second what that takes: messages, fibers, system
 * calls, memory.
 *
 *      show [--connections 1000] [--seconds 10]
 *
 * It has a folder of its own, as it is not for copying as the examples are: it measures one of them. The load is fibers,
 * too (load.c). Messages are counted here, where every byte of an answer is compared with what was sent; the other figures
 * are the server's: fibers by its own word, memory by /proc, system calls by the kernel's counter where that may be used.
 *
 * Ends with status 1 if anything was wrong.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "../../bench/common/calls.h"
#include "../support/arguments.h"
#include "../support/fail.h"
#include "../support/numbers.h"
#include "load.h"
#include "server.h"

static struct {
    unsigned connections, seconds;
    char folder[4096]; /* where this program is, and the server */
} options = {.connections = 1000, .seconds = 10};

static struct server server;

/* What was seen at one moment. */
struct sample {
    weft_time at;
    uint64_t messages;
    uint64_t calls; /* UINT64_MAX: not known */
    unsigned fibers;
    double memory;
};

static struct calls counter;

static struct sample look(const struct crowd *load)
{
    struct sample s = {.calls = UINT64_MAX};
    if (counter.threads > 0 && !calls_read(&counter, &s.calls))
        fail(errno, "the counter of system calls cannot be read");
    s.messages = crowd_turns(load);
    s.at = weft_now();
    s.fibers = server_fibers(&server);
    s.memory = child_memory(&server.child);
    return s;
}

static uint64_t rate(const struct sample *a, const struct sample *b)
{
    return (uint64_t)number_rate(a->messages, a->at, b->messages, b->at);
}

/* System calls of the server for a message; "n/a" if they are not counted. */
static const char *calls_of_one(const struct sample *a, const struct sample *b, char room[NUMBER_ROOM])
{
    return b->calls == UINT64_MAX ? "n/a" : number_each(b->calls - a->calls, b->messages - a->messages, room);
}

/* The live line: in place on a terminal, else a line for each. */
static void print_line(unsigned second, const struct sample *before, const struct sample *now)
{
    bool in_place = isatty(STDOUT_FILENO);
    char messages[32], fibers[32], calls[32];
    printf("%s%3u s %10s messages/s %8s fibers %6s calls/message %7.1f MB%s", in_place ? "\r" : "", second,
           number_grouped(rate(before, now), messages), number_grouped(now->fibers, fibers),
           calls_of_one(before, now, calls), now->memory / 1e6, in_place ? "" : "\n");
    fflush(stdout);
}

/* Lets the load go on for its time, or until something is wrong. *first and *last are its begin and end. */
static void watch(struct crowd *load, struct sample *first, struct sample *last)
{
    *first = *last = look(load);
    crowd_begin(load);
    for (unsigned second = 1; second <= options.seconds && !crowd_failed(load); second++) {
        weft_sleep_until((weft_time){first->at.ns + second * WEFT_SEC});
        struct sample now = look(load);
        print_line(second, last, &now);
        *last = now;
    }
    if (isatty(STDOUT_FILENO))
        printf("\n");
}

/* `no_calls`: why system calls were not counted, a word of calls_open; or NULL. */
static void sum_up(const struct sample *first, const struct sample *last, double memory_before, const char *no_calls)
{
    char messages[32], connections[32], per_second[32], fibers[32], calls[32];
    printf("\n%s messages of %d bytes on %s connections in %.1f s; every byte came back as it was sent.\n",
           number_grouped(last->messages, messages), LOAD_BYTES, number_grouped(options.connections, connections),
           (double)(last->at.ns - first->at.ns) / (double)WEFT_SEC);
    printf("  messages/s         %s, by %s\n", number_grouped(rate(first, last), per_second), server.backend);
    printf("  fibers             %s: one for each connection, and those that accept and wait for signals\n",
           number_grouped(last->fibers, fibers));
    if (no_calls)
        printf("  system calls       not counted: %s\n", calls_explain(no_calls));
    else
        printf("  system calls       %s a message\n", calls_of_one(first, last, calls));
    printf("  memory             %.1f MB, page tables included; %.1f KB for each connection\n", last->memory / 1e6,
           (last->memory - memory_before) / 1e3 / options.connections);
    printf(
        "\nAll of the server is examples/echo-server.c, in less than 60 lines. To start it alone, and to talk to it:\n"
        "    %s/echo-server 127.0.0.1:7000\n"
        "    %s/echo-client 127.0.0.1:7000    (or: nc 127.0.0.1 7000)\n",
        options.folder, options.folder);
}

static void *show(void *arg)
{
    double memory_before = child_memory(&server.child);
    struct crowd *load = load_new(server.address, options.connections);
    const char *no_calls = calls_open(&counter, server.child.pid);
    struct sample first, last;
    char why[200];
    (void)arg;
    if (!load)
        fail(ENOMEM, "no load");
    calls_start(&counter);
    watch(load, &first, &last);
    if (!crowd_end(load, why, sizeof why))
        fail(0, "%s", why);
    calls_close(&counter);
    child_end(&server.child);
    load_free();
    sum_up(&first, &last, memory_before, no_calls);
    return NULL;
}

static void find_folder(void)
{
    char here[4096];
    ssize_t bytes = readlink("/proc/self/exe", options.folder, sizeof options.folder - 1);
    if (bytes < 0)
        fail(errno, "/proc/self/exe");
    options.folder[bytes] = '\0';
    *strrchr(options.folder, '/') = '\0';
    size_t above = getcwd(here, sizeof here) ? strlen(here) : 0;
    if (above > 1 && strncmp(options.folder, here, above) == 0 && options.folder[above] == '/')
        memmove(options.folder, options.folder + above + 1, strlen(options.folder + above)); /* shorter from here */
}

static const struct argument arguments[] = {
    {"--connections", &options.connections, 1, 1000000},
    {"--seconds", &options.seconds, 1, 1000000},
    {.name = NULL},
};

int main(int argc, char **argv)
{
    char program[sizeof options.folder + 16], connections[32];
    (void)argc;
    arguments_read(argv + 1, arguments, "show [--connections N] [--seconds N]");
    child_allow_connections(options.connections);
    find_folder();
    snprintf(program, sizeof program, "%s/echo-server", options.folder);
    printf("%s connections to %s, for %u s:\n", number_grouped(options.connections, connections), program,
           options.seconds);
    fflush(stdout);
    server_start(&server, program);
    int rc = weft_run(show, NULL, NULL, NULL);
    if (rc < 0)
        fail(-rc, "weft_run");
    return 0;
}
