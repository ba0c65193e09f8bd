/*
 * A storm of connections against weft_serve. Fibers and plain threads connect, and leave again: when they have their answer,
 * before it, before anybody has accepted, politely or by a reset. Each connection is handled once; no descriptor, no fiber
 * and no memory is left behind.
 *
 * WEFT_CONNECTIONS is how many there are for each number of workers, WEFT_SEED repeats the choices.
 */
#include <weft/net.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "unit/io/ground.h"

#if WF_DEBUG || WF_VALGRIND || TEST_EMULATED
enum { CONNECTIONS = 2000 };
#else
enum { CONNECTIONS = 20000 };
#endif

enum { FIBERS = 40, THREADS = 2, BURST = 16, MOST_WAITING = 256 };

struct storm {
    int listener;
    struct sockaddr_in at;
    int wanted;               /* const */
    int begun, made, handled; /* flags, counted: connections that were asked for, are there, and came to a handler */
    int answered, resets;     /* flags, counted */
    int over;                 /* clients that have ended. flag, counted */
    uint64_t random;          /* the next one's seed. owner: who starts them */
};

struct client {
    struct storm *storm;
    uint64_t random;
    pthread_t thread;
    weft_fiber *fiber;
};

static void answers(int fd, void *arg)
{
    struct storm *s = arg;
    char buffer[64];
    ptrdiff_t n;
    more(&s->handled);
    while ((n = weft_read(fd, buffer, sizeof buffer, weft_in(60 * WEFT_SEC))) > 0) {
        if ((n = weft_write_all(fd, buffer, (size_t)n, NULL, weft_in(60 * WEFT_SEC))) < 0)
            break;
    }
    CHECK(n == 0 || n == -ECONNRESET || n == -EPIPE);
}

static unsigned pick(struct client *c, unsigned n)
{
    return (unsigned)(test_random(&c->random) >> 33) % n;
}

/* A connection, or -1. */
static int connects(struct client *c, bool blocking)
{
    struct storm *s = c->storm;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (blocking ? 0 : SOCK_NONBLOCK), 0), rc;
    CHECK_INT(fd, >=, 0);
    if (blocking)
        rc = connect(fd, (struct sockaddr *)&s->at, sizeof s->at) == 0 ? 0 : -errno;
    else
        rc = weft_connect(fd, (struct sockaddr *)&s->at, sizeof s->at, weft_in(60 * WEFT_SEC));
    if (rc == 0) {
        more(&s->made);
        return fd;
    }
    CHECK_INT(rc, ==, -EADDRNOTAVAIL); /* all ports are in use for a moment */
    CHECK_INT(weft_close(fd), ==, 0);
    breathe();
    return -1;
}

static int dials(struct storm *s)
{
    char to[32];
    snprintf(to, sizeof to, "127.0.0.1:%d", ntohs(s->at.sin_port));
    int fd = weft_dial(to, weft_in(60 * WEFT_SEC));
    if (fd >= 0)
        more(&s->made);
    CHECK(fd >= 0 || fd == -EADDRNOTAVAIL);
    return fd;
}

static void leaves(struct client *c, int fd, bool reset)
{
    struct linger now = {.l_onoff = 1};
    if (reset) {
        CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), ==, 0);
        more(&c->storm->resets);
    }
    CHECK_INT(weft_close(fd), ==, 0);
}

/* Asks, and perhaps has the answer before it leaves. */
static void talks(struct client *c, int fd)
{
    char buffer[32];
    size_t bytes = 1 + pick(c, sizeof buffer);
    memset(buffer, (int)bytes, sizeof buffer);
    CHECK_INT(weft_write_all(fd, buffer, bytes, NULL, weft_in(60 * WEFT_SEC)), ==, bytes);
    if (pick(c, 4) == 0)
        return;
    memset(buffer, 0, sizeof buffer);
    CHECK_INT(weft_read_full(fd, buffer, bytes, NULL, weft_in(60 * WEFT_SEC)), ==, bytes);
    CHECK_INT(buffer[bytes - 1], ==, bytes);
    more(&c->storm->answered);
}

/* Several come and go in a row. In a fiber of the only worker nobody can accept meanwhile. */
static void bursts(struct client *c)
{
    for (int i = 0; i < BURST && more(&c->storm->begun) <= c->storm->wanted; i++) {
        int fd = connects(c, true);
        if (fd >= 0)
            leaves(c, fd, pick(c, 3) == 0);
        else
            __atomic_sub_fetch(&c->storm->begun, 1, __ATOMIC_ACQ_REL);
    }
}

/* Until as many as are wanted are made. How many of them have not been accepted is bounded. */
static void *storms(void *arg)
{
    struct client *c = arg;
    struct storm *s = c->storm;
    while (!test_has_failed()) {
        AWAIT(seen(&s->made) - seen(&s->handled) < MOST_WAITING || test_has_failed());
        if (pick(c, 20) == 0) {
            bursts(c);
            continue;
        }
        if (more(&s->begun) > s->wanted)
            break;
        bool in_fiber = weft_fiber_current() != NULL;
        int fd = in_fiber && pick(c, 2) ? dials(s) : connects(c, !in_fiber || pick(c, 2));
        if (fd < 0) {
            __atomic_sub_fetch(&s->begun, 1, __ATOMIC_ACQ_REL);
            continue;
        }
        if (pick(c, 3))
            talks(c, fd);
        leaves(c, fd, pick(c, 3) == 0);
    }
    more(&s->over);
    return NULL;
}

static void *serves(void *arg)
{
    struct storm *s = arg;
    return ptr(weft_serve(s->listener, answers, s, NULL, WEFT_FOREVER));
}

static void *rages(void *arg)
{
    struct storm *s = arg;
    struct client clients[FIBERS + THREADS];
    weft_fiber *server = go(serves, s);
    for (int i = 0; i < FIBERS + THREADS; i++) {
        clients[i] = (struct client){.storm = s, .random = test_random(&s->random) | 1};
        if (i < FIBERS)
            clients[i].fiber = go(storms, &clients[i]);
        else
            clients[i].thread = new_thread(storms, &clients[i]);
    }
    for (int i = 0; i < FIBERS; i++)
        ended(clients[i].fiber);
    AWAIT(seen(&s->over) == FIBERS + THREADS);
    for (int i = FIBERS; i < FIBERS + THREADS; i++)
        pthread_join(clients[i].thread, NULL);
    CHECK_INT(s->made, ==, s->wanted);
    AWAIT(seen(&s->handled) == s->made);
    CHECK_INT(weft_close(s->listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    AWAIT(figures(weft_sched_current()).spawned - figures(weft_sched_current()).ended == 1); /* this one */
    CHECK_INT(figures(weft_sched_current()).parked, ==, 0);
    return NULL;
}

static void rage(unsigned workers, int connections, uint64_t *random)
{
    struct storm s = {.listener = weft_listen("127.0.0.1:0"), .wanted = connections, .random = *random};
    s.at = (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)weft_port(s.listener)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int64_t begin = real_now();
    in_a_fiber(workers, rages, &s);
    *random = s.random;
    CHECK_INT(s.answered, >, 0);
    CHECK_INT(s.resets, >, 0);
    if (connections >= CONNECTIONS)
        printf("accept: %u workers, %d connections in %.2f s, %d answered, %d resets\n", workers, s.handled,
               (double)(real_now() - begin) / 1e9, s.answered, s.resets);
}

static void storm_with(unsigned workers)
{
    static uint64_t random;
    const char *wish = getenv("WEFT_CONNECTIONS");
    int descriptors = count_descriptors();
    if (random == 0)
        random = test_seed();
    rage(workers, 200, &random); /* what is made once is there after this one */
    struct wf_sys_held held = wf_sys_held();
    rage(workers, wish ? atoi(wish) : CONNECTIONS, &random);
    CHECK_INT(count_descriptors(), ==, descriptors);
    CHECK_INT(wf_sys_held().n, <=, held.n + 64); /* records and stacks of whatever threads there are differ a little */
}

TEST(on_1_worker)
{
    storm_with(1);
}

TEST(on_2_workers)
{
    storm_with(2);
}

TEST(on_4_workers)
{
    storm_with(4);
}

TESTS(stress_accept, on_1_worker, on_2_workers, on_4_workers)
