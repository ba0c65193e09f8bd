/*
 * tests/clients/fleet.h: many fibers that each use a client library as its manual says, with blocking calls, against a
 * server that tests/clients/servers has started.
 *
 * A program tells by struct client how its library connects, asks, and waits for an answer that takes its time;
 * fleet_main runs the tests that are the same for all of them, then the program's own:
 *
 *  - no call of the library goes past the hooks;
 *  - 200 fibers on one worker, and on two, ask for things of their own and compare every answer;
 *  - 200 waits of half a second on one worker take the time of one, and a ticker on that worker goes on;
 *  - a wait ends with an error of the library when its fiber is cancelled;
 *  - the library's own time limits pass when they should.
 *
 * With WEFT_HOOK=off it shows that these can fail: few fibers get their answers, and waits come one after another.
 */
#ifndef TESTS_CLIENTS_FLEET_H
#define TESTS_CLIENTS_FLEET_H

#include <stddef.h>

#include <weft/weft.h>

#include "support/test.h"

/* What a server takes for an answer to `wait`. Servers count milliseconds, and some begin in the middle of one. */
#define FLEET_WAIT (500 * WEFT_MS)
#define FLEET_TICK (5 * WEFT_MS)

/* How a library is used. `who` is the fiber's number, from 0, and no two have the same; failures are told by EXPECT. */
struct client {
    const char *name;                           /* of the program, for the closing line */
    const char *port;                           /* the variable that says where the server is */
    void *(*open)(int who);                     /* connects */
    void (*ask)(void *link, int who, int turn); /* asks for something that nobody else asks for, and compares */
    /* The same, and the answer takes FLEET_WAIT; NULL: it came and is right, else what the library says. May be NULL: the
     * server has no such question. */
    const char *(*wait)(void *link, int who);
    void (*close)(void *link);
    /* Connects and waits for what does not come, until the library's time limit. NULL: it has none. */
    void (*late)(int who);
    weft_span limit; /* that time limit */
};

/* A number of fibers, each of which opens (NULL: gets no link), waits for all others, works, waits for all others and
 * closes (may be NULL). */
struct fleet {
    unsigned workers;
    int fibers;
    void *(*open)(int who);
    void (*work)(void *link, int who);
    void (*close)(void *link);
};

/* Runs a fleet, prints what it did, and returns how long it worked. A ticker on worker 0 sleeps for a millisecond over and
 * over meanwhile; *ticks (may be NULL) is how often. */
weft_span fleet_run(const struct fleet *fleet, int *ticks);

/* The tests of a client, and `count` more of its own; they run only with the hooks on. Returns main's status. */
int fleet_main(const struct client *client, const struct test *own, size_t count);

/* The port of the client's server; "" if there is none. */
const char *fleet_port(void);

/* A port where connections are taken, and nothing is ever said; "" if there is none to be had. */
const char *fleet_silent_port(void);

/* CHECK, with words about what came instead: printf-like. */
#define EXPECT(cond, ...)                                                                                              \
    do {                                                                                                               \
        if (!(cond))                                                                                                   \
            test_failed(__FILE__, __LINE__, __VA_ARGS__);                                                              \
    } while (0)

#endif
