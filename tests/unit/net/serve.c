/*
 * Listening, dialling and serving.
 */
#include <sys/resource.h>

#include <weft/net.h>
#include <weft/process.h>
#include <weft/sync.h>

#include "unit/io/ground.h"

static void echoes(int fd, void *arg)
{
    char buffer[256];
    ptrdiff_t n;
    (void)arg;
    while ((n = weft_read(fd, buffer, sizeof buffer, WEFT_FOREVER)) > 0) {
        if (weft_write_all(fd, buffer, (size_t)n, NULL, WEFT_FOREVER) < 0)
            return;
    }
}

struct serving {
    int listener;
    weft_serve_fn *handler;
    void *arg;
    weft_serve_opts opts;
    weft_time until;
};

static void *serves(void *arg)
{
    struct serving *s = arg;
    return ptr(weft_serve(s->listener, s->handler, s->arg, &s->opts, s->until));
}

static const char *address_of(int listener)
{
    static char text[32];
    snprintf(text, sizeof text, "127.0.0.1:%d", weft_port(listener));
    return text;
}

static void *talks(void *arg)
{
    int fd = weft_dial(arg, weft_in(20 * WEFT_SEC));
    char buffer[16];
    CHECK_INT(fd, >=, 0);
    for (int i = 0; i < 5; i++) {
        CHECK_INT(weft_write_all(fd, "0123456789", 10, NULL, WEFT_FOREVER), ==, 10);
        CHECK_INT(weft_read_full(fd, buffer, 10, NULL, weft_in(20 * WEFT_SEC)), ==, 10);
        CHECK(memcmp(buffer, "0123456789", 10) == 0);
    }
    CHECK_INT(weft_close(fd), ==, 0);
    return NULL;
}

IN_FIBER(connections_are_served)
{
    enum { CLIENTS = 30 };
    char name[64];
    const char *where[] = {"127.0.0.1:0", "[::1]:0", "localhost:0", name};
    snprintf(name, sizeof name, "unix:@weft-test-serve-%d", getpid());
    for (int i = 0; i < 4; i++) {
        int listener = weft_listen(where[i]);
        if (i == 1 && listener == -EADDRNOTAVAIL)
            continue; /* no IPv6 here */
        CHECK_INT(listener, >=, 0);
        struct serving s = {.listener = listener, .handler = echoes, .until = WEFT_FOREVER};
        weft_fiber *server = go(serves, &s), *client[CLIENTS];
        char to[64];
        const char *host[] = {"127.0.0.1", "[::1]", "localhost"};
        if (i < 3)
            snprintf(to, sizeof to, "%s:%d", host[i], weft_port(listener));
        else
            snprintf(to, sizeof to, "%s", where[i]);
        for (int c = 0; c < CLIENTS; c++)
            client[c] = go(talks, to);
        for (int c = 0; c < CLIENTS; c++)
            ended(client[c]);
        CHECK_INT(weft_close(listener), ==, 0);
        CHECK_PTR(ended(server), ==, ptr(-EBADF));
    }
    return arg;
}

IN_FIBER(serving_ends_at_its_deadline)
{
    int listener = weft_listen("127.0.0.1:0");
    struct serving s = {.listener = listener, .handler = echoes, .until = weft_in(10 * WEFT_MS)};
    CHECK_PTR(serves(&s), ==, ptr(0));
    CHECK_INT(weft_now().ns, >=, s.until.ns);
    CHECK_INT(weft_close(listener), ==, 0);
    return arg;
}

/* One that waits for ever is cancelled after the grace, and serving does not return before it has. */
IN_FIBER(handlers_are_cancelled_after_the_grace)
{
    int listener = weft_listen("127.0.0.1:0");
    struct serving s = {.listener = listener, .handler = echoes, .opts = {.grace = 5 * WEFT_MS}, .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    int fd = weft_dial(address_of(listener), WEFT_FOREVER);
    char byte;
    CHECK_INT(weft_write(fd, "x", 1, WEFT_FOREVER), ==, 1);
    CHECK_INT(weft_read(fd, &byte, 1, WEFT_FOREVER), ==, 1); /* it is being served */
    CHECK_INT(weft_cancel(server), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(-ECANCELED));
    CHECK_INT(weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)), ==, 0);
    CHECK_INT(weft_close(fd), ==, 0);
    CHECK_INT(weft_close(listener), ==, 0);
    return arg;
}

struct busy {
    int now, most;
};

static void is_busy(int fd, void *arg)
{
    struct busy *b = arg;
    int now = more(&b->now);
    if (now > seen(&b->most))
        put(&b->most, now);
    weft_sleep(3 * WEFT_MS);
    CHECK_INT(weft_write(fd, "y", 1, WEFT_FOREVER), ==, 1);
    __atomic_sub_fetch(&b->now, 1, __ATOMIC_ACQ_REL);
}

static void *asks_once(void *arg)
{
    int fd = weft_dial(arg, WEFT_FOREVER);
    char byte;
    CHECK_INT(weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)), ==, 1);
    CHECK_INT(weft_close(fd), ==, 0);
    return NULL;
}

IN_FIBER(no_more_than_max_conns_are_served_at_a_time)
{
    int listener = weft_listen("127.0.0.1:0");
    struct busy b = {0};
    struct serving s = {
        .listener = listener, .handler = is_busy, .arg = &b, .opts = {.max_conns = 3}, .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s), *client[20];
    char to[32];
    snprintf(to, sizeof to, "%s", address_of(listener));
    for (int i = 0; i < 20; i++)
        client[i] = go(asks_once, to);
    for (int i = 0; i < 20; i++)
        ended(client[i]);
    CHECK_INT(b.most, <=, 3);
    CHECK_INT(b.most, >, 1);
    CHECK_INT(weft_close(listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(-EBADF));
    return arg;
}

/* No descriptor is left to accept with: it is waited out, and nobody is lost. */
static void *runs_out_of_descriptors(void *arg)
{
    struct rlimit was, few;
    int listener = weft_listen("127.0.0.1:0"), fds[4], blockers[64], n = 0;
    struct serving s = {.listener = listener, .handler = echoes, .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    char byte;
    AWAIT(is_parked(server));
    CHECK(weft_io_backend() != NULL); /* this worker has what it waits with, too */
    for (int i = 0; i < 4; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &was), ==, 0);
    few = (struct rlimit){(rlim_t)fds[3] + 1, was.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), ==, 0);
    while (n < 64 && (blockers[n] = dup(0)) >= 0)
        n++;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)weft_port(listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 4; i++) {
        CHECK_INT(weft_connect(fds[i], (struct sockaddr *)&at, sizeof at, WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_write(fds[i], "x", 1, WEFT_FOREVER), ==, 1);
    }
    weft_sleep(20 * WEFT_MS);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &was), ==, 0);
    while (n > 0)
        close(blockers[--n]);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(weft_read(fds[i], &byte, 1, weft_in(20 * WEFT_SEC)), ==, 1);
        CHECK_INT(weft_close(fds[i]), ==, 0);
    }
    CHECK_INT(weft_close(listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(-EBADF));
    return arg;
}

TEST(a_lack_of_descriptors_is_waited_out)
{
#ifdef WF_VALGRIND
    SKIP("valgrind closes a connection that it has no number for");
#endif
    in_a_fiber(1, runs_out_of_descriptors, NULL);
    in_a_fiber(2, runs_out_of_descriptors, NULL);
}

/* ---- and under load, by another process ---- */

enum { CLIENTS = 60, CALLS = 5, SPARE = 12 };

static void *calls_again_and_again(void *arg)
{
    for (int i = 0; i < CALLS; i++)
        talks(arg);
    return NULL;
}

static void *is_all_clients(void *arg)
{
    weft_fiber *f[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        f[i] = go(calls_again_and_again, arg);
    for (int i = 0; i < CLIENTS; i++)
        ended(f[i]);
    return NULL;
}

struct crowd {
    pid_t clients;
    int listener, go; /* go: closed when they may begin */
    struct busy busy;
};

static void echoes_and_counts(int fd, void *arg)
{
    struct busy *b = arg;
    int now = more(&b->now);
    if (now > seen(&b->most))
        put(&b->most, now);
    echoes(fd, NULL);
    __atomic_sub_fetch(&b->now, 1, __ATOMIC_ACQ_REL);
}

static void *has_a_driver(void *arg)
{
    CHECK(weft_io_backend() != NULL);
    return arg;
}

/* Each worker has what it waits with: that takes descriptors, too. */
static void make_drivers(void)
{
    int workers = (int)figures(weft_sched_current()).workers;
    for (int i = 0; i < workers; i++) {
        weft_fiber *f = NULL;
        CHECK_INT(weft_go_with(&f, &(weft_attr){.worker = WEFT_WORKER(i)}, has_a_driver, NULL), ==, 0);
        ended(f);
    }
}

static void *serves_a_crowd(void *arg)
{
    struct crowd *c = arg;
    struct rlimit was, few;
    make_drivers();
    int status = -1, free_one = dup(0);
    struct serving s = {.listener = c->listener, .handler = echoes_and_counts, .arg = &c->busy, .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    AWAIT(is_parked(server));
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &was), ==, 0);
    few = (struct rlimit){(rlim_t)free_one + SPARE, was.rlim_max};
    close(free_one);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), ==, 0);
    close(c->go);
    CHECK_INT(weft_wait_child(c->clients, &status, weft_in(100 * WEFT_SEC)), ==, 0);
    CHECK_INT(status, ==, 0);
    CHECK_INT(seen(&c->busy.most), >, 1);
    CHECK_INT(seen(&c->busy.most), <=, SPARE); /* fewer than there were clients: the others had to wait */
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &was), ==, 0);
    char to[32];
    snprintf(to, sizeof to, "%s", address_of(c->listener));
    talks(to);
    CHECK_INT(weft_close(c->listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(-EBADF));
    return NULL;
}

TEST(a_lack_of_descriptors_under_load_is_waited_out)
{
#ifdef WF_VALGRIND
    SKIP("valgrind closes a connection that it has no number for");
#endif
    for (unsigned workers = 1; workers < 3; workers++) {
        struct crowd c = {.listener = weft_listen("127.0.0.1:0")};
        struct pair gate = pipe_pair(0);
        char to[32], byte;
        snprintf(to, sizeof to, "%s", address_of(c.listener));
        fflush(stdout);
        c.clients = fork();
        if (c.clients == 0) {
            close(c.listener);
            close(gate.b);
            CHECK_INT(read(gate.a, &byte, 1), ==, 0);
            in_a_fiber(1, is_all_clients, to);
            _exit(0);
        }
        close(gate.a);
        c.go = gate.b;
        in_a_fiber(workers, serves_a_crowd, &c);
    }
}

IN_FIBER(what_is_no_address_is_said)
{
    const char *wrong[] = {"", "nocolon", "a:b:c", "[::1", "[::1]", "host:", "unix:", "256.1.1.1.1:x y"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0] - 1; i++) {
        CHECK_INT(weft_dial(wrong[i], WEFT_FOREVER), ==, -EINVAL);
        CHECK_INT(weft_listen(wrong[i]), ==, -EINVAL);
    }
    CHECK_INT(weft_dial(NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_serve(0, NULL, NULL, NULL, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_port(-1), ==, -EBADF);
    int listener = weft_listen("127.0.0.1:0"), port = weft_port(listener);
    char to[32];
    snprintf(to, sizeof to, "127.0.0.1:%d", port);
    CHECK_INT(weft_listen(to), ==, -EADDRINUSE);
    CHECK_INT(weft_close(listener), ==, 0);
    CHECK_INT(weft_dial(to, weft_in(20 * WEFT_SEC)), ==, -ECONNREFUSED);
    CHECK_INT(weft_dial("unix:@weft-test-serve-nobody", WEFT_FOREVER), ==, -ECONNREFUSED);
    return arg;
}

static int count_at(int worker, const int *workers, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        count += seen(&workers[i]) == worker;
    return count;
}

static int places[8], begun, placed;

static void notes_its_worker(int fd, void *arg)
{
    char byte;
    (void)arg;
    put(&places[more(&begun) - 1], weft_fiber_worker(weft_fiber_current()));
    more(&placed);
    weft_read(fd, &byte, 1, WEFT_FOREVER);
}

static void *spreads(void *arg)
{
    int listener = weft_listen("127.0.0.1:0"), fds[8];
    struct serving s = {.listener = listener, .handler = notes_its_worker, .until = WEFT_FOREVER};
    begun = placed = 0;
    weft_fiber *server = go(serves, &s);
    for (int i = 0; i < 8; i++)
        fds[i] = weft_dial(address_of(listener), WEFT_FOREVER);
    AWAIT(seen(&placed) == 8);
    for (int w = 0; w < 4; w++)
        CHECK_INT(count_at(w, places, 8), ==, 2);
    for (int i = 0; i < 8; i++)
        CHECK_INT(weft_close(fds[i]), ==, 0);
    CHECK_INT(weft_close(listener), ==, 0);
    ended(server);
    return arg;
}

TEST(connections_are_spread_over_the_workers)
{
    in_a_fiber(4, spreads, NULL);
}

TESTS(net_serve, connections_are_served, serving_ends_at_its_deadline, handlers_are_cancelled_after_the_grace,
      no_more_than_max_conns_are_served_at_a_time, a_lack_of_descriptors_is_waited_out,
      a_lack_of_descriptors_under_load_is_waited_out, what_is_no_address_is_said,
      connections_are_spread_over_the_workers)
