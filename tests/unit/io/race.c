/*
 * Reads that time out, or are cancelled, at the very moment when bytes come. None of the bytes is lost: either the read has
 * them, or the next one finds them. And nothing is written into the buffer of a read that has returned: with io_uring the
 * kernel has it until the call is over.
 *
 * WEFT_SEED repeats the choices, not the order in which the threads come.
 */
#include <stdio.h>

#include "base/sanitizer.h"
#include "unit/io/ground.h"

enum {
    RACES = WF_TSAN || WF_ASAN || TEST_EMULATED ? 1000 : 4000, /* six times */
    BUFFERS = 64,                                              /* are looked at again when it is their turn again */
    SIZE = 16,
    AHEAD = 64,  /* rounds that the reader may be before the writer */
    FREE = 0xee, /* in a buffer that nobody may write to */
};

struct race {
    struct pair pair;
    uint64_t seed;                /* const */
    uint64_t random;              /* the reader's */
    int round;                    /* atomic: the writer may write once in each */
    int written;                  /* atomic: the last that it has */
    unsigned long wrote;          /* by the writer */
    unsigned long have;           /* bytes that were read, each with the number that it should have */
    int bytes, timeouts, cancels; /* how reads have ended */
    unsigned char buffers[BUFFERS][SIZE];
};

static unsigned char nth(unsigned long i)
{
    return (unsigned char)(i * 7 + i / 251);
}

/* Any number below `most`. */
static unsigned below(uint64_t *random, unsigned most)
{
    return (unsigned)(test_random(random) >> 33) % most;
}

static void spin(unsigned loops)
{
    for (volatile unsigned i = 0; i < loops; i++)
        ;
}

/* A plain thread's: in every other round a few bytes, at some time. */
static void *writes_each_round(void *arg)
{
    struct race *r = arg;
    uint64_t random = r->seed * 31 + 7;
    for (int round = 1; round <= RACES; round++) {
        unsigned char some[4];
        unsigned count = below(&random, 2) * (1 + below(&random, sizeof some));
        while (seen(&r->round) < round)
            sched_yield();
        spin(below(&random, below(&random, 2) ? 2000 : 20000));
        for (unsigned i = 0; i < count; i++)
            some[i] = nth(r->wrote + i);
        if (count > 0)
            CHECK_INT(write(r->pair.b, some, count), ==, count);
        r->wrote += count;
        put(&r->written, round);
    }
    return NULL;
}

static void expect_free(const unsigned char *buffer, size_t from)
{
    for (size_t i = from; i < SIZE; i++) {
        if (buffer[i] != FREE) {
            test_failed(__FILE__, __LINE__, "byte %zu of a buffer that nobody reads into was written", i);
            return;
        }
    }
}

/* What a read has brought. */
static void account(struct race *r, unsigned char *buffer, ptrdiff_t n)
{
    if (n > 0) {
        r->bytes++;
        for (ptrdiff_t i = 0; i < n; i++)
            CHECK_INT(buffer[i], ==, nth(r->have + (unsigned long)i));
        r->have += (unsigned long)n;
        memset(buffer, FREE, (size_t)n);
    } else if (n == -ETIMEDOUT) {
        r->timeouts++;
    } else if (n == -ECANCELED) {
        r->cancels++;
    } else {
        test_failed(__FILE__, __LINE__, "a read has returned %td", n);
    }
    expect_free(buffer, 0);
}

struct one_read {
    int fd;
    unsigned char *buffer;
};

static void *reads_until_cancelled(void *arg)
{
    const struct one_read *o = arg;
    return ptr(weft_read(o->fd, o->buffer, SIZE, WEFT_FOREVER));
}

/* Cancelled ones stay so: each has a fiber of its own. */
static ptrdiff_t read_and_cancel(struct race *r, unsigned char *buffer)
{
    struct one_read o = {r->pair.a, buffer};
    weft_fiber *f = go(reads_until_cancelled, &o);
    weft_yield();
    spin(below(&r->random, 4000));
    weft_cancel(f); /* if it has not ended */
    return (ptrdiff_t)(intptr_t)ended(f);
}

static ptrdiff_t read_for_a_moment(struct race *r, unsigned char *buffer)
{
    return weft_read(r->pair.a, buffer, SIZE, weft_in(below(&r->random, 20000)));
}

static void *races(void *arg)
{
    struct race *r = arg;
    pthread_t writer = new_thread(writes_each_round, r);
    memset(r->buffers, FREE, sizeof r->buffers);
    for (int round = 1; round <= RACES; round++) {
        unsigned char *buffer = r->buffers[round % BUFFERS];
        expect_free(buffer, 0); /* since its last turn */
        while (round - seen(&r->written) > AHEAD)
            weft_sleep(10 * WEFT_US);
        put(&r->round, round);
        account(r, buffer, below(&r->random, 2) ? read_and_cancel(r, buffer) : read_for_a_moment(r, buffer));
    }
    pthread_join(writer, NULL);
    while (r->have < r->wrote && !test_has_failed())
        account(r, r->buffers[0], weft_read(r->pair.a, r->buffers[0], SIZE, weft_in(20 * WEFT_SEC)));
    CHECK_INT(r->have, ==, r->wrote);
    CHECK_INT(weft_read(r->pair.a, r->buffers[0], SIZE, WEFT_NOW), ==, -EAGAIN);
    for (int i = 0; i < BUFFERS; i++)
        expect_free(r->buffers[i], 0);
    return NULL;
}

static void race_on(int kind, uint64_t seed)
{
    for (unsigned workers = 1; workers < 3; workers++) {
        struct race *r = calloc(1, sizeof *r);
        REQUIRE(r);
        r->pair = make_pair(kind);
        r->random = r->seed = seed + workers;
        in_a_fiber(workers, races, r);
        printf("%d bytes, %d timeouts, %d cancels\n", r->bytes, r->timeouts, r->cancels);
        CHECK_INT(r->bytes, >, RACES / 50); /* else it was no race */
        CHECK_INT(r->timeouts + r->cancels, >, RACES / 50);
        close_pair(r->pair);
        free(r);
    }
}

TEST(a_tcp_read_that_gives_up_loses_nothing)
{
    race_on(0, test_seed());
}

TEST(a_unix_read_that_gives_up_loses_nothing)
{
    race_on(3, test_seed());
}

TEST(a_pipe_read_that_gives_up_loses_nothing)
{
    race_on(4, test_seed());
}

TESTS(io_race, a_tcp_read_that_gives_up_loses_nothing, a_unix_read_that_gives_up_loses_nothing,
      a_pipe_read_that_gives_up_loses_nothing)
