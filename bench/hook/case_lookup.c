/*
 * case_lookup.c: a ticker beside 1,000 fibers that look up a name that /etc/hosts has, by getaddrinfo, once or
 * 20 times each; with either way to run sleepers whose time has come.
 */
#include <netdb.h>

#include "../common/case.h"
#include "ticker.h"

static int each; /* lookups of a fiber */

static void look_up(void)
{
    struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM};

    for (int i = 0; i < each; i++) {
        int rc = getaddrinfo("localhost", "80", &hints, &found);
        if (rc != 0)
            case_fail("getaddrinfo: %s", gai_strerror(rc));
        freeaddrinfo(found);
    }
}

#define RUN(name, times, how)                                                                                          \
    static void name(double budget_ms)                                                                                 \
    {                                                                                                                  \
        (void)budget_ms;                                                                                               \
        each = times;                                                                                                  \
        ticker_run(&(struct ticker){.wait = look_up, .dispatch = how});                                                \
    }

RUN(run_once, 1, WEFT_QUEUE)
RUN(run_once_direct, 1, WEFT_DIRECT)
RUN(run_often, 20, WEFT_QUEUE)
RUN(run_often_direct, 20, WEFT_DIRECT)

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        {"ticker", "lookup", run_once},
        {"ticker", "lookup-direct", run_once_direct},
        {"ticker", "lookup-20", run_often},
        {"ticker", "lookup-20-direct", run_often_direct},
    };

    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
