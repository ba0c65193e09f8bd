/*
 * operation.h: what tools/count-instructions counts: one operation of one worker, done as often as its caller says.
 *
 * Each program brings its own table `operations`, which ends with an entry without a name. main.c finds the operation that the
 * command line names and runs it in the first fiber of a weft_run with one worker.
 */
#ifndef BENCH_INSTRUCTIONS_OPERATION_H
#define BENCH_INSTRUCTIONS_OPERATION_H

#include <stdio.h>
#include <stdlib.h>

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/sched.h>

struct operation {
    const char *name;
    int per_turn;     /* how often one turn does it */
    const char *says; /* what it is, in a few words */
    void (*run)(int turns);
};

extern const struct operation operations[];

/* Bytes that wait in a socket at a time: small enough for any socket's buffer. */
enum { BYTES_AT_ONCE = 1000 };

static inline void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "count-instructions: failed: %s\n", what);
    _Exit(1);
}

static inline weft_fiber *spawn(weft_fn *fn, void *arg)
{
    weft_fiber *f;
    must(weft_go_with(&f, NULL, fn, arg) == 0, "weft_go_with");
    return f;
}

static inline void join(weft_fiber *f)
{
    must(weft_join(f, NULL, WEFT_FOREVER) == 0, "weft_join");
}

#endif
