/*
 * Events that come late: two workers have one descriptor registered, and one of them is late to tell what it has fetched. The
 * byte may have been read meanwhile.
 */
#ifndef TESTS_UNIT_IO_STALE_H
#define TESTS_UNIT_IO_STALE_H

#include "base/sanitizer.h"
#include "io/fd.h"
#include "unit/io/ground.h"

enum {
    ROUNDS = WF_TSAN || WF_ASAN || TEST_EMULATED ? 500 : 5000,
    CROWD = 60, /* descriptors whose events the other worker fetches in one go with that of ours, and tells first */
};

struct stale {
    struct pair pair;
    struct pair crowd[CROWD];
    int is_registered; /* atomic */
    int read;          /* atomic: bytes that were read */
    int stop;          /* atomic */
    int wrong;         /* reports of what was not there */
};

static void *writes_byte_after_byte(void *arg)
{
    struct stale *s = arg;
    for (int i = 0; i < ROUNDS; i++) {
        while (seen(&s->read) < i)
            sched_yield();
        for (int k = 0; k < CROWD; k++)
            CHECK_INT(write(s->crowd[k].b, "x", 1), ==, 1);
        CHECK_INT(write(s->pair.b, "x", 1), ==, 1);
    }
    return NULL;
}

static void *reads_until_it_ends(void *arg)
{
    char bytes[64];
    while (weft_read(*(int *)arg, bytes, sizeof bytes, WEFT_FOREVER) > 0)
        ;
    return NULL;
}

/* Registers the descriptor with its worker's set for good. That worker computes now and then, so that events gather. */
static void *is_registered_elsewhere(void *arg)
{
    struct stale *s = arg;
    weft_fiber *crowd[CROWD];
    char byte;
    for (int i = 0; i < CROWD; i++)
        CHECK_INT(weft_go_with(&crowd[i], &(weft_attr){.size = sizeof(weft_attr), .worker = WEFT_WORKER(1)},
                               reads_until_it_ends, &s->crowd[i].a),
                  ==, 0);
    weft_recv(s->pair.a, &byte, 1, MSG_PEEK, weft_in(10 * WEFT_US));
    put(&s->is_registered, 1);
    while (!seen(&s->stop)) {
        for (int64_t until = real_now() + 100000; real_now() < until;)
            ;
        weft_sleep(20 * WEFT_US);
    }
    for (int i = 0; i < CROWD; i++) {
        shutdown(s->crowd[i].b, SHUT_WR);
        ended(crowd[i]);
    }
    return NULL;
}

/* Plays it: `reads` runs on worker 0. Returns how often something was reported that was not there. */
static int play_stale(weft_fn *reads)
{
    struct stale s = {.pair = unix_pair(SOCK_STREAM)};
    for (int i = 0; i < CROWD; i++)
        s.crowd[i] = unix_pair(SOCK_STREAM);
    weft_sched *sched = running_sched(2);
    weft_fiber *fibers[2];
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_sched_go(sched, &fibers[i], &(weft_attr){.size = sizeof(weft_attr), .worker = WEFT_WORKER(i)},
                                i == 0 ? reads : is_registered_elsewhere, &s),
                  ==, 0);
    AWAIT(seen(&s.is_registered));
    pthread_t writer = new_thread(writes_byte_after_byte, &s);
    for (int i = 0; i < 2; i++)
        ended(fibers[i]);
    pthread_join(writer, NULL);
    end_sched(sched);
    close_pair(s.pair);
    for (int i = 0; i < CROWD; i++)
        close_pair(s.crowd[i]);
    return s.wrong;
}

/* Tells of bytes that are not there. */
static void tell_of_nothing(int fd, uint32_t unsure)
{
    struct wf_fd_ref of = {0};
    CHECK_INT(wf_fd_refer(&of, fd), ==, 0);
    wf_fd_event(fd, of.generation, POLLIN | unsure);
}

#endif
