/*
 * case_outside.c: what a hook takes on a thread that is no fiber: a call that fails at once (there is no descriptor -1, and
 * nothing to poll) through the hook, and the same through the function that it stands in for, in turns.
 */
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/case.h"
#include <weft/hook.h>

enum { TURNS = 20 };

static ssize_t (*plain_read)(int, void *, size_t);
static ssize_t (*plain_recv)(int, void *, size_t, int);
static int (*plain_poll)(struct pollfd *, nfds_t, int);
static int (*plain_close)(int);

/* clang-format off */
#define BATCHES(name, hooked, plain) \
    static void hooked_##name(void *ctx, size_t n) { (void)ctx; for (size_t i = 0; i < n; i++) hooked; } \
    static void plain_##name##s(void *ctx, size_t n) { (void)ctx; for (size_t i = 0; i < n; i++) plain; }
/* clang-format on */

static char byte;

#define IGNORE(call)                                                                                                   \
    do {                                                                                                               \
        if ((call) > 0)                                                                                                \
            case_fail("a call that must fail did not");                                                                \
    } while (0)

BATCHES(read, IGNORE(read(-1, &byte, 1)), IGNORE(plain_read(-1, &byte, 1)))
BATCHES(recv, IGNORE(recv(-1, &byte, 1, 0)), IGNORE(plain_recv(-1, &byte, 1, 0)))
BATCHES(poll, IGNORE(poll(NULL, 0, 0)), IGNORE(plain_poll(NULL, 0, 0)))
BATCHES(close, IGNORE(close(1000)), IGNORE(plain_close(1000)))

/* The least of several turns each: what is noise only adds. */
static void compare(double budget_ms, case_batch *hooked, case_batch *plain)
{
    double with = 1e9, without = 1e9;
    char params[80];

    for (int i = 0; i < TURNS; i++) {
        double ns = case_time(budget_ms / TURNS / 2, hooked, NULL, 1);
        with = ns < with ? ns : with;
        ns = case_time(budget_ms / TURNS / 2, plain, NULL, 1);
        without = ns < without ? ns : without;
    }
    snprintf(params, sizeof params, "hooked=%.2f plain=%.2f", with, without);
    case_ok(with - without, params);
}

static void run_read(double budget_ms)
{
    compare(budget_ms, hooked_read, plain_reads);
}

static void run_recv(double budget_ms)
{
    compare(budget_ms, hooked_recv, plain_recvs);
}

static void run_poll(double budget_ms)
{
    compare(budget_ms, hooked_poll, plain_polls);
}

static void run_close(double budget_ms)
{
    compare(budget_ms, hooked_close, plain_closes);
}

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        {"outside", "read", run_read},
        {"outside", "recv", run_recv},
        {"outside", "poll", run_poll},
        {"outside", "close", run_close},
    };

    plain_read = (ssize_t(*)(int, void *, size_t))weft_hook_real("read");
    plain_recv = (ssize_t(*)(int, void *, size_t, int))weft_hook_real("recv");
    plain_poll = (int (*)(struct pollfd *, nfds_t, int))weft_hook_real("poll");
    plain_close = (int (*)(int))weft_hook_real("close");
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
