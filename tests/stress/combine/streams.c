/*
 * combine/streams.c: bytes go through descriptors of every kind that carries bytes, with random calls, lengths and
 * deadlines. If a fiber is cancelled, another fiber goes on in its place. All bytes arrive, once and in order, and then
 * the end of the stream.
 */
#include "stress/combine/combine.h"

#include <sys/mman.h>

enum { MOST_BUDGET = 200000 };

struct flow;

/* One side's part. */
struct side {
    struct flow *flow;
    struct call call;
    uint64_t place; /* bytes that it has moved. owner: its fiber or thread */
    weft_fiber *fiber;
    int over; /* flag */
};

struct flow {
    struct scene *scene;
    struct ends ends;
    uint64_t key, budget; /* const */
    struct side reader, writer;
};

/* What a call that moved nothing, or not all, means: whether this fiber goes on. */
static bool goes_on(struct side *me, ptrdiff_t n, weft_time deadline)
{
    struct scene *s = me->flow->scene;
    if (!gave_up_rightly(s, n, deadline)) {
        WRONG(s, "%s of a %s: %td (%s)", me->call.name, kind_names[me->call.kind], n, strerror((int)-n));
        put(&me->over, 1);
        return false;
    }
    if (n == -EAGAIN)
        breathe();
    return n != -ECANCELED;
}

static void *reads(void *arg)
{
    struct side *me = arg;
    struct flow *f = me->flow;
    unsigned char own[512], *far = malloc(MOST_BYTES);
    while (!seen(&me->over)) {
        size_t room = some_room(&me->call, &me->call.random), moved;
        unsigned char *bytes = room <= sizeof own ? own : far;
        weft_time deadline = some_deadline(&me->call.random);
        if (f->ends.kind == UNIX_DGRAM && me->place == f->budget) { /* it has no end */
            put(&me->over, 1);
            break;
        }
        ptrdiff_t n = read_somehow(&me->call, bytes, room, &moved, deadline, f->key, me->place);
        did(f->scene);
        if (differs_at(bytes, moved, f->key, me->place) != moved) {
            WRONG(f->scene, "%s of a %s: a wrong byte at %llu", me->call.name, kind_names[f->ends.kind],
                  (unsigned long long)(me->place + differs_at(bytes, moved, f->key, me->place)));
            put(&me->over, 1);
        }
        me->place += moved;
        if (n == 0) {
            EXPECT_INT(f->scene, me->place, ==, f->budget);
            put(&me->over, 1);
        } else if (n < 0 && !goes_on(me, n, deadline)) {
            break;
        }
    }
    free(far);
    return NULL;
}

/* All is written: the reader is told. */
static void end_stream(struct flow *f)
{
    int b = f->ends.b;
    if (f->ends.kind == UNIX_DGRAM)
        return;
    if (f->ends.kind == PIPE) {
        f->ends.b = -1;
        EXPECT_INT(f->scene, weft_close(b), ==, 0);
    } else {
        EXPECT_INT(f->scene, weft_shutdown(b, SHUT_WR), ==, 0);
    }
}

static void *writes(void *arg)
{
    struct side *me = arg;
    struct flow *f = me->flow;
    unsigned char own[512], *far = malloc(MOST_BYTES);
    while (!seen(&me->over) && !seen(&f->reader.over)) {
        size_t n = some_length(&me->call, &me->call.random), moved;
        n = n > f->budget - me->place ? (size_t)(f->budget - me->place) : n;
        if (n == 0) {
            end_stream(f);
            put(&me->over, 1);
            break;
        }
        unsigned char *bytes = n <= sizeof own ? own : far;
        weft_time deadline = some_deadline(&me->call.random);
        fill(bytes, n, f->key, me->place);
        ptrdiff_t sent = write_somehow(&me->call, bytes, n, &moved, deadline, me->place);
        did(f->scene);
        me->place += moved;
        if (sent < 0 && !goes_on(me, sent, deadline))
            break;
        if (chance(&me->call.random, 16))
            nap(f->scene, &me->call.random, 400); /* so that the reader has to wait */
    }
    if (seen(&f->reader.over))
        put(&me->over, 1);
    free(far);
    return NULL;
}

/* A file with the bytes of the stream. */
static int make_file(struct scene *s, uint64_t key, size_t n)
{
    int fd = memfd_create("stream", MFD_CLOEXEC);
    unsigned char *bytes = malloc(n + 1);
    fill(bytes, n, key, 0);
    EXPECT_INT(s, pwrite(fd, bytes, n, 0), ==, n);
    free(bytes);
    return fd;
}

/* Cancels fibers at random; others go on in their place. */
static void disturb(struct flow *f)
{
    struct scene *s = f->scene;
    for (unsigned n = pick(&s->random, 6); n > 0; n--) {
        bool reads_it = chance(&s->random, 2);
        struct side *side = reads_it ? &f->reader : &f->writer;
        nap(s, &s->random, 600);
        if (!side->fiber)
            continue;
        weft_cancel(side->fiber);
        ended(s, side->fiber);
        side->fiber = NULL;
        if (!seen(&side->over))
            start(s, &side->fiber, &s->random, reads_it ? reads : writes, side);
    }
}

void step_stream(struct scene *s)
{
    struct flow *f = calloc(1, sizeof *f);
    pthread_t thread = {0};
    unsigned on_thread = pick(&s->random, 6); /* 0: the reader, 1: the writer */
    f->scene = s;
    f->ends = make_ends(s, (enum kind)pick(&s->random, STREAMS_END), &s->random);
    f->key = test_random(&s->random);
    f->budget = chance(&s->random, 6) ? pick(&s->random, MOST_BUDGET) : pick(&s->random, MOST_BUDGET / 20);
    f->reader = (struct side){.flow = f, .call = {s, f->ends.kind, f->ends.a, new_random(&s->random), "", -1}};
    f->writer = (struct side){.flow = f, .call = {s, f->ends.kind, f->ends.b, new_random(&s->random), "", -1}};
    int file = f->writer.call.file = make_file(s, f->key, f->budget);
    if (on_thread == 0)
        thread = new_thread(s, reads, &f->reader);
    else
        start(s, &f->reader.fiber, &s->random, reads, &f->reader);
    if (on_thread == 1)
        thread = new_thread(s, writes, &f->writer);
    else
        start(s, &f->writer.fiber, &s->random, writes, &f->writer);
    disturb(f);
    if (f->writer.fiber)
        ended(s, f->writer.fiber);
    else if (on_thread == 1)
        join_thread(thread, &f->writer.over);
    if (f->reader.fiber)
        ended(s, f->reader.fiber);
    else if (on_thread == 0)
        join_thread(thread, &f->reader.over);
    if (!test_has_failed()) {
        EXPECT_INT(s, f->writer.place, ==, f->budget);
        EXPECT_INT(s, f->reader.place, ==, f->budget);
    }
    close_ends(s, &f->ends);
    EXPECT_INT(s, weft_close(file), ==, 0);
    free(f);
}
