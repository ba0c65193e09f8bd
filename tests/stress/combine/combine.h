/*
 * tests/stress/combine/combine.h: what the scenes of the combined stress test share.
 *
 * A seed makes a plan: schedulers with their workers, drivers and policies, and a set of scenes. A scene is a small
 * random program over one part of the public API, and checks itself. The scenes of a round share the schedulers, the
 * descriptor numbers and the helpers, and so disturb each other. The test uses only the public headers, as a user's
 * program does.
 *
 *      main.c        rounds, seeds, totals
 *      world.c       a round's plan: schedulers, pools, scenes, and the checks at its end
 *      watchdog.c    ends the program when a scene makes no progress; failures; SIGPIPE
 *      kinds.c       pairs of descriptors of every kind, patterned bytes
 *      the others    scenes, each named in the table of world.c
 *
 * A descriptor number is either private to a scene (struct scene, numbers), or the lowest free number, which every
 * scene may get. Only with private numbers may a scene close twice, or replace one descriptor by another: no other
 * scene can get them.
 */
#ifndef TESTS_STRESS_COMBINE_H
#define TESTS_STRESS_COMBINE_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "support/test.h"

#if defined(__SANITIZE_ADDRESS__)
#define COMBINE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COMBINE_ASAN 1
#elif __has_feature(thread_sanitizer)
#define COMBINE_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define COMBINE_TSAN 1
#endif
#ifndef COMBINE_ASAN
#define COMBINE_ASAN 0
#endif
#ifndef COMBINE_TSAN
#define COMBINE_TSAN 0
#endif

enum { MOST_SCHEDS = 3, MOST_WORKERS = 8, MOST_SCENES = 16, PRIVATE_NUMBERS = 16 };

/* One scheduler of a round. const while scenes run */
struct home {
    weft_sched *sched;
    unsigned workers;
    const weft_policy *policy;
    int io, dispatch;
    weft_stacks *pools[MOST_WORKERS]; /* one pool for each worker: only one thread may use a pool */
    pid_t threads[MOST_WORKERS];      /* the kernel's ids of the workers */
};

struct world;

/* A scene while it runs. */
struct scene {
    const struct act *act; /* const */
    struct world *world;   /* const */
    struct home *home;     /* const: where its first fiber runs */
    int numbers;           /* const: the first of PRIVATE_NUMBERS descriptor numbers that only this scene uses */
    unsigned steps;        /* const: how many steps it runs */
    uint64_t random;       /* owner: its first fiber */
    uint64_t operations;   /* atomic: did() adds; the watchdog checks that the count rises */
    int over;              /* flag */
    weft_fiber *fiber;     /* owner: the round's first fiber */
    uint64_t last;         /* owner: the watchdog */
    unsigned still;        /* owner: the watchdog: how many of its checks in a row found no new operation */
};

/* A kind of scene: its name, and its step, which is repeated. */
struct act {
    const char *name;
    void (*step)(struct scene *s);
    bool alone; /* a round has at most one such scene */
};

struct world {
    uint64_t seed, random;
    bool has_run; /* homes[0] is the runtime that weft_run made */
    unsigned scheds;
    struct home homes[MOST_SCHEDS];
    unsigned count;
    struct scene scenes[MOST_SCENES];
};

extern struct world world;

/* ---- world.c ---- */

/* Runs the round of a seed. Returns the number of operations. */
uint64_t play_round(uint64_t seed);
/* How many fibers and descriptors the process has. */
int count_fibers(void);
int count_descriptors(void);

/* ---- watchdog.c ---- */

void watchdog_start(void);
void watchdog_end(void);
/* How many times SIGPIPE was raised. */
int signals_of_pipes(void);
/* Call these around every change of `world` that the watchdog must not see half done. */
void lock_plan(void);
void unlock_plan(void);
/* Prints the plan of the round; called once, with the first failure. */
void describe_round(FILE *to);
/* A part that belongs to no scene begins something that must end (its name), or has ended it (NULL). */
void watch_solo(const char *name);

/* Records a failure of a scene; printf-like. */
void wrong_at(const struct scene *s, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define WRONG(s, ...) wrong_at(s, __FILE__, __LINE__, __VA_ARGS__)
#define EXPECT(s, cond)                                                                                                \
    do {                                                                                                               \
        if (!(cond))                                                                                                   \
            WRONG(s, "%s", #cond);                                                                                     \
    } while (0)
#define EXPECT_INT(s, a, op, b)                                                                                        \
    do {                                                                                                               \
        long long expect_a = (long long)(a), expect_b = (long long)(b);                                                \
        if (!(expect_a op expect_b))                                                                                   \
            WRONG(s, "%s %s %s: %lld, %lld", #a, #op, #b, expect_a, expect_b);                                         \
    } while (0)

/* ---- help.c: choices, flags, waiting, fibers ---- */

/* The seed of a new random sequence, for a part of a scene. */
uint64_t new_random(uint64_t *random);
/* The next random number below n. */
unsigned pick(uint64_t *random, unsigned n);

static inline bool chance(uint64_t *random, unsigned of)
{
    return pick(random, of) == 0;
}

static inline int seen(const int *n)
{
    return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static inline void put(int *n, int value)
{
    __atomic_store_n(n, value, __ATOMIC_RELEASE);
}

static inline int more(int *n)
{
    return __atomic_add_fetch(n, 1, __ATOMIC_ACQ_REL);
}

static inline void did(struct scene *s)
{
    __atomic_add_fetch(&s->operations, 1, __ATOMIC_RELAXED);
}

static inline void *ptr(intptr_t n)
{
    return (void *)n;
}

/* Lets other fibers run. It sleeps: under some policies a fiber that only yields keeps costlier fibers from running. */
void breathe(void);

/* Waits until the condition holds. If it never does, the watchdog ends the program. */
#define AWAIT(cond)                                                                                                    \
    do {                                                                                                               \
        while (!(cond))                                                                                                \
            breathe();                                                                                                 \
    } while (0)

/* A random deadline: now, in the past, soon, or never. */
weft_time some_deadline(uint64_t *random);
/* True if rc is -EAGAIN, -ETIMEDOUT or -ECANCELED. Checks that a call with this deadline may fail with that code. */
bool gave_up_rightly(const struct scene *s, ptrdiff_t rc, weft_time deadline);
/* Sleeps for up to `us` microseconds, and checks that the sleep was not too short. */
void nap(const struct scene *s, uint64_t *random, unsigned us);

struct home *some_home(struct scene *s, uint64_t *random);
/* Random attributes for a fiber of this scheduler: bound, moving, on a shared stack, with a priority and so on. */
weft_attr some_attr(const struct home *h, uint64_t *random);
/* Starts a fiber with such attributes on the scene's scheduler or on another one. `out` may be NULL. */
void start(struct scene *s, weft_fiber **out, uint64_t *random, weft_fn *fn, void *arg);
void *ended(struct scene *s, weft_fiber *f);
pthread_t new_thread(struct scene *s, void *(*fn)(void *), void *arg);
/* Waits for the flag without blocking a worker, then joins the thread. */
void join_thread(pthread_t t, const int *over);

static inline bool is_parked(const weft_fiber *f)
{
    return weft_fiber_state(f) == WEFT_FIBER_PARKED;
}

static inline pid_t thread_id(void)
{
    return gettid();
}

/* ---- kinds.c: descriptors and bytes ---- */

enum kind {
    PIPE,
    UNIX_STREAM,
    UNIX_DGRAM,
    UNIX_SEQPACKET,
    TCP,
    STREAMS_END,         /* the kinds before it carry bytes from b to a */
    EVENT = STREAMS_END, /* an eventfd, a and b are the same file */
    REGULAR,             /* a file without a name */
    LISTENER,            /* a UNIX socket that listens, to which no client connects */
    NULL_DEVICE,         /* /dev/null */
    KINDS
};

/* Two ends: bytes that are written to b are read from a. A kind with one end has b = -1. */
struct ends {
    enum kind kind;
    int a, b;
};

extern const char *const kind_names[KINDS];

static inline bool is_socket(enum kind k)
{
    return k != PIPE && k != EVENT && k != REGULAR && k != NULL_DEVICE;
}

static inline bool keeps_records(enum kind k)
{
    return k == UNIX_DGRAM || k == UNIX_SEQPACKET;
}

/* Makes the ends of a kind, blocking or not. */
struct ends make_ends(struct scene *s, enum kind k, uint64_t *random);
/* Moves a descriptor to a number that is not open. */
void move_to(struct scene *s, int *fd, int number);
void close_ends(struct scene *s, struct ends *e);

/* Fills the bytes of a stream: each depends on the stream's key and on its place. */
void fill(unsigned char *bytes, size_t n, uint64_t key, uint64_t place);
/* The first byte that is not what fill() would write; n: there is none. */
size_t differs_at(const unsigned char *bytes, size_t n, uint64_t key, uint64_t place);

/* ---- flows.c: one read or write, by a random call ---- */

struct call {
    struct scene *scene;
    enum kind kind;
    int fd;
    uint64_t random;
    const char *name; /* the name of the last call */
    int file;         /* for weft_sendfile: a file with the bytes of the stream, from its start; -1: there is none */
};

/* Reads up to `room` bytes; *moved bytes were read, even on failure. Checks the bytes of a peek by key and place. */
ptrdiff_t read_somehow(struct call *c, unsigned char *bytes, size_t room, size_t *moved, weft_time deadline,
                       uint64_t key, uint64_t place);
/* Writes up to n bytes, which are the bytes at `place`; *moved bytes were written, even on failure. */
ptrdiff_t write_somehow(struct call *c, unsigned char *bytes, size_t n, size_t *moved, weft_time deadline,
                        uint64_t place);
/* A random size of a buffer that is large enough for a read of this kind, and a random length for a write. */
size_t some_room(const struct call *c, uint64_t *random);
size_t some_length(const struct call *c, uint64_t *random);

enum { MOST_BYTES = 8192, MOST_RECORD = 1024 };

/* ---- the scenes ---- */

void step_family(struct scene *s);   /* fibers.c: spawn, join, detach, cancel, values of fibers */
void step_parking(struct scene *s);  /* fibers.c: tokens of weft_park */
void step_moving(struct scene *s);   /* fibers.c: weft_sched_submit to a named worker */
void step_order(struct scene *s);    /* scheds.c: one worker starts in the order of arrival */
void step_nursery(struct scene *s);  /* scheds.c: schedulers that come and go; stops at a deadline */
void step_caller(struct scene *s);   /* scheds.c: a thread that is worker 0 */
void step_post(struct scene *s);     /* channels.c: messages are conserved */
void step_choice(struct scene *s);   /* choices.c: selects are fair, channels are freed at once */
void step_locks(struct scene *s);    /* locks.c: one owner at a time */
void step_signals(struct scene *s);  /* meetings.c: events, waitgroups, once, barriers, conditions */
void step_timers(struct scene *s);   /* timers.c */
void step_scopes(struct scene *s);   /* scopes.c: children, failures, deadlines, cancels */
void step_tasks(struct scene *s);    /* tasks.c: tasks and executors */
void step_watches(struct scene *s);  /* watches.c */
void step_hangups(struct scene *s);  /* hangups.c: weft_cancel_on_hangup */
void step_stream(struct scene *s);   /* streams.c: bytes are conserved */
void step_closing(struct scene *s);  /* closing.c: weft_close races with readers, and the number is reused at once */
void step_reuse(struct scene *s);    /* reuse.c: a number is closed and used again, over and over */
void step_swap(struct scene *s);     /* swaps.c: descriptors of different kinds follow each other under one number */
void step_ready(struct scene *s);    /* readiness.c: weft_wait_fd and weft_poll tell the truth */
void step_service(struct scene *s);  /* servers.c: dial and serve */
void step_files(struct scene *s);    /* files.c */
void step_offload(struct scene *s);  /* files.c */
void step_fork(struct scene *s);     /* processes.c */
void step_children(struct scene *s); /* processes.c: weft_wait_child, weft_wait_signal */

/* solo.c: tests that can run only while no scene does: limits of the process, numbers that are closed twice. */
void play_solo(uint64_t *random);

#endif
