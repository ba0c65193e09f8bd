/*
 * tests/integration/deadline/pingpong.h: two fibers of one worker that send each other a byte through a socketpair, so that
 * every read has to wait: the bytes of one turn are two reads. The deadline is made once, before: reading the clock for it
 * is the caller's affair, and costs the same whatever it is for.
 */
#ifndef TESTS_INTEGRATION_DEADLINE_PINGPONG_H
#define TESTS_INTEGRATION_DEADLINE_PINGPONG_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/sched.h>

enum { PINGPONG_WARM_UP = 300, PINGPONG_READS = 2 };

struct pingpong {
    bool has_deadline;
    int turns;
    void (*each)(void); /* before each turn that counts; or NULL */
    weft_time deadline;
    int ends[2];
};

static inline void pingpong_fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    _Exit(1);
}

static inline void pingpong_turn(const struct pingpong *p, int fd, bool first)
{
    char byte = 1;
    if (first && weft_write(fd, &byte, 1, WEFT_FOREVER) != 1)
        pingpong_fail("weft_write");
    if (weft_read(fd, &byte, 1, p->deadline) != 1)
        pingpong_fail("weft_read");
    if (!first && weft_write(fd, &byte, 1, WEFT_FOREVER) != 1)
        pingpong_fail("weft_write");
}

static inline void *pingpong_other(void *arg)
{
    const struct pingpong *p = arg;
    for (int i = 0; i < PINGPONG_WARM_UP + p->turns; i++)
        pingpong_turn(p, p->ends[1], false);
    return NULL;
}

static inline void *pingpong_first(void *arg)
{
    struct pingpong *p = arg;
    weft_fiber *other;
    p->deadline = p->has_deadline ? weft_in(1000 * WEFT_SEC) : WEFT_FOREVER;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->ends) != 0 ||
        weft_go_with(&other, NULL, pingpong_other, p) != 0)
        pingpong_fail("no pair");
    for (int i = 0; i < PINGPONG_WARM_UP + p->turns; i++) {
        if (p->each && i >= PINGPONG_WARM_UP)
            p->each();
        pingpong_turn(p, p->ends[0], true);
    }
    if (p->each)
        p->each();
    weft_join(other, NULL, WEFT_FOREVER);
    weft_close(p->ends[0]);
    weft_close(p->ends[1]);
    return NULL;
}

static inline void pingpong(struct pingpong *p)
{
    /* Whoever counts instructions is slow: a worker that looked around by time would do so all the time. */
    if (weft_run(pingpong_first, p, NULL, &(weft_sched_opts){.threads = 1, .look_every = 3600 * WEFT_SEC}) != 0)
        pingpong_fail("weft_run");
}

#endif
