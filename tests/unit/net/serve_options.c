/*
 * The options of weft_serve: shared stacks, peers' addresses, connections that are refused.
 */
#include <weft/net.h>
#include <weft/stack.h>

#include <sys/un.h>

#include "base/sys.h"
#include "fiber/fiber.h"
#include "unit/net/serving.h"

/* A connection by connect(2) alone, which the kernel answers at once. */
static int connected(int listener)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    CHECK_INT(getsockname(listener, (struct sockaddr *)&at, &size), ==, 0);
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&at, size), ==, 0);
    return fd;
}

static bool is_echoed(int fd)
{
    char byte = 0;
    return weft_write(fd, "x", 1, WEFT_FOREVER) == 1 && weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)) == 1 &&
           byte == 'x';
}

/* Whether the other end closes it, having said nothing. */
static bool is_ended(int fd)
{
    char byte;
    return weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)) == 0;
}

/* ---- shared stacks ---- */

static int on_shared, on_private; /* handlers. flags */

static void notes_its_stack(int fd, void *arg)
{
    more(weft_fiber_current()->shared ? &on_shared : &on_private);
    echoes(fd, arg);
}

struct sharing {
    unsigned workers;
    size_t stacks;
};

static void *serves_on_shared_stacks(void *arg)
{
    enum { CLIENTS = 24 };
    const struct sharing *how = arg;
    weft_stacks *pool = NULL;
    CHECK_INT(weft_stacks_new(&pool, how->stacks, 0), ==, 0);
    int fds[CLIENTS];
    struct serving s = {.listener = weft_listen("127.0.0.1:0"),
                        .handler = notes_its_stack,
                        .opts = {.size = sizeof s.opts, .shared = pool},
                        .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    put(&on_shared, 0);
    put(&on_private, 0);
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = connected(s.listener);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < CLIENTS; i++)
            CHECK(is_echoed(fds[i]));
    }
    CHECK_INT(seen(&on_shared), ==, CLIENTS);
    CHECK_INT(seen(&on_private), ==, 0);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_INT(weft_close(fds[i]), ==, 0);
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    AWAIT(weft_stacks_free(pool) == 0); /* the last fibers leave their stacks after they have said that they are over */
    return arg;
}

TEST(handlers_run_on_shared_stacks)
{
    in_a_fiber(1, serves_on_shared_stacks, &(struct sharing){1, 3});
    in_a_fiber(2, serves_on_shared_stacks, &(struct sharing){2, 4});
}

TEST(workers_without_a_shared_stack_leave_their_connections_to_others)
{
    in_a_fiber(3, serves_on_shared_stacks, &(struct sharing){3, 1});
    in_a_fiber(3, serves_on_shared_stacks, &(struct sharing){3, 2});
}

static void *serves_on_stacks_of_others(void *arg)
{
    weft_stacks *pool = NULL;
    weft_fiber *user = NULL;
    weft_sched *other = running_sched(1);
    CHECK_INT(weft_stacks_new(&pool, 1, 0), ==, 0);
    CHECK_INT(weft_sched_go(other, &user, &(weft_attr){.shared = pool}, parks, NULL), ==, 0);
    struct serving s = {.listener = weft_listen("127.0.0.1:0"),
                        .handler = echoes,
                        .opts = {.size = sizeof s.opts, .shared = pool},
                        .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    int fd = connected(s.listener);
    CHECK_PTR(ended(server), ==, ptr(-EBUSY));
    CHECK(is_ended(fd));
    weft_unpark(user);
    CHECK_PTR(ended(user), ==, ptr(0));
    end_sched(other);
    CHECK_INT(weft_close(fd), ==, 0);
    CHECK_INT(weft_close(s.listener), ==, 0);
    AWAIT(weft_stacks_free(pool) == 0);
    return arg;
}

TEST(a_pool_that_other_schedulers_use_is_busy)
{
    in_a_fiber(1, serves_on_stacks_of_others, NULL);
    in_a_fiber(2, serves_on_stacks_of_others, NULL);
}

IN_FIBER(a_stack_size_and_shared_stacks_exclude_each_other)
{
    weft_stacks *pool = NULL;
    CHECK_INT(weft_stacks_new(&pool, 1, 0), ==, 0);
    weft_serve_opts both = {.size = sizeof both, .shared = pool, .stack = WEFT_STACK_MIN};
    CHECK_INT(weft_serve(0, echoes, NULL, &both, WEFT_NOW), ==, -EINVAL);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
    return arg;
}

/* ---- without a size ---- */

static void learns_its_peer(int fd, void *arg)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    CHECK_INT(weft_close(fd), ==, 0);
    put(arg, weft_peer((struct sockaddr *)&peer, &size));
}

/* `peers` is the last field: if it counts, all do. */
IN_FIBER(options_without_a_size_all_count)
{
    int said = 1;
    struct serving s = {.listener = weft_listen("127.0.0.1:0"),
                        .handler = learns_its_peer,
                        .arg = &said,
                        .opts = {.peers = true},
                        .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    int fd = connected(s.listener);
    AWAIT(seen(&said) <= 0);
    CHECK_INT(seen(&said), ==, 0);
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    CHECK_INT(weft_close(fd), ==, 0);
    return arg;
}

/* ---- the peer's address ---- */

struct asking {
    struct sockaddr_storage peer; /* what the handler was told, */
    socklen_t size;               /* and its size */
    int rc, in_child, after_reset, after_close, cut;
    socklen_t cut_size;
    bool resets;
    int step; /* flag */
};

static void *asks_for_a_peer(void *arg)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    (void)arg;
    return ptr(weft_peer((struct sockaddr *)&peer, &size));
}

static void asks(int fd, void *arg)
{
    struct asking *a = arg;
    struct sockaddr_storage other;
    char byte;
    a->size = sizeof a->peer;
    a->rc = weft_peer((struct sockaddr *)&a->peer, &a->size);
    a->cut_size = 2;
    memset(&other, 0xee, sizeof other);
    a->cut = weft_peer((struct sockaddr *)&other, &a->cut_size);
    CHECK_INT(((unsigned char *)&other)[2], ==, 0xee);
    CHECK_INT(other.ss_family, ==, a->peer.ss_family);
    a->in_child = (int)(intptr_t)ended(go(asks_for_a_peer, NULL));
    put(&a->step, 1);
    CHECK_INT(weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)), ==, a->resets ? -ECONNRESET : 0);
    a->after_reset = (int)(intptr_t)asks_for_a_peer(NULL);
    CHECK_INT(weft_close(fd), ==, 0);
    a->after_close = (int)(intptr_t)asks_for_a_peer(NULL);
    put(&a->step, 2);
}

/* What it is told of one connection, until the server has ended. */
static struct asking ask(const char *address, bool keeps, struct sockaddr_storage *is, socklen_t *size)
{
    struct asking a = {.resets = address[0] != 'u'};
    struct serving s = {.listener = weft_listen(address),
                        .handler = asks,
                        .arg = &a,
                        .opts = {.size = sizeof s.opts, .peers = keeps},
                        .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    struct linger none = {.l_onoff = 1}; /* closed by a reset */
    int fd = connected(s.listener);
    *size = sizeof *is;
    CHECK_INT(getsockname(fd, (struct sockaddr *)is, size), ==, 0);
    AWAIT(seen(&a.step) == 1);
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none), ==, 0);
    close(fd);
    AWAIT(seen(&a.step) == 2);
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    return a;
}

IN_FIBER(a_handler_learns_its_peers_address)
{
    char name[64];
    const char *where[] = {"127.0.0.1:0", "[::1]:0", name};
    snprintf(name, sizeof name, "unix:@weft-test-peer-%d", getpid());
    for (int i = 0; i < 6; i++) {
        bool keeps = i % 2;
        struct sockaddr_storage is;
        socklen_t size;
        int probe = weft_listen(where[i / 2]);
        if (probe == -EADDRNOTAVAIL)
            continue; /* no IPv6 here */
        CHECK_INT(weft_close(probe), ==, 0);
        struct asking a = ask(where[i / 2], keeps, &is, &size);
        CHECK_INT(a.rc, ==, 0);
        CHECK_INT(a.size, ==, size);
        CHECK(memcmp(&a.peer, &is, size) == 0);
        CHECK_INT(a.cut, ==, 0);
        CHECK_INT(a.cut_size, ==, size);
        CHECK_INT(a.in_child, ==, -ENXIO);
        CHECK_INT(a.after_reset, ==, keeps || !a.resets ? 0 : -ENOTCONN);
        CHECK_INT(a.after_close, ==, keeps ? 0 : -EBADF);
    }
    return arg;
}

static void closes_and_asks(int fd, void *arg)
{
    int *said = arg, next = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
    CHECK_INT(weft_close(fd), ==, 0);
    CHECK_INT(dup2(next, fd), ==, fd);
    put(said, (int)(intptr_t)asks_for_a_peer(NULL));
    close(fd);
    close(next);
}

static void *asks_after_its_number_was_reused(void *arg)
{
    int said = 1;
    struct serving s = {
        .listener = weft_listen("127.0.0.1:0"), .handler = closes_and_asks, .arg = &said, .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    int fd = connected(s.listener);
    AWAIT(seen(&said) <= 0);
    CHECK_INT(seen(&said), ==, -EBADF);
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    CHECK_INT(weft_close(fd), ==, 0);
    return arg;
}

TEST(who_has_the_number_next_is_not_the_peer)
{
    in_a_fiber(1, asks_after_its_number_was_reused, NULL); /* with two the other one may take the number first */
}

IN_FIBER(there_is_no_peer_outside_of_a_handler)
{
    struct sockaddr_in peer;
    socklen_t size = sizeof peer;
    CHECK_INT(weft_peer((struct sockaddr *)&peer, &size), ==, -ENXIO);
    CHECK_INT(weft_peer(NULL, &size), ==, -EINVAL);
    CHECK_INT(weft_peer((struct sockaddr *)&peer, NULL), ==, -EINVAL);
    return arg;
}

/* ---- refusing ---- */

/* Answers, and waits until its peer has read that and left. */
static void says_busy(int fd, void *arg)
{
    char byte;
    more(arg);
    CHECK_INT(weft_write_all(fd, "busy", 4, NULL, WEFT_FOREVER), ==, 4);
    CHECK_INT(weft_shutdown(fd, SHUT_WR), ==, 0);
    weft_read(fd, &byte, 1, WEFT_FOREVER);
}

static bool is_told_busy(int fd)
{
    char answer[5] = "";
    return weft_read_full(fd, answer, 4, NULL, weft_in(20 * WEFT_SEC)) == 4 && strcmp(answer, "busy") == 0;
}

static weft_fiber *serve_refusing(struct serving *s, weft_serve_fn *refuse, int *refused, unsigned max)
{
    *s = (struct serving){.listener = weft_listen("127.0.0.1:0"),
                          .handler = echoes,
                          .arg = refused,
                          .opts = {.size = sizeof s->opts, .max_conns = max, .refuse = refuse, .grace = 5 * WEFT_MS},
                          .until = WEFT_FOREVER};
    return go(serves, s);
}

IN_FIBER(connections_above_max_conns_are_closed_at_once)
{
    struct serving s;
    weft_fiber *server = serve_refusing(&s, weft_refuse, NULL, 2);
    int first = connected(s.listener), second = connected(s.listener);
    CHECK(is_echoed(first) && is_echoed(second));
    for (int i = 0; i < 20; i++) {
        int fd = connected(s.listener);
        CHECK(is_ended(fd));
        CHECK_INT(weft_close(fd), ==, 0);
    }
    CHECK(is_echoed(first) && is_echoed(second));
    CHECK_INT(weft_close(first), ==, 0);
    CHECK_INT(weft_close(second), ==, 0);
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    return arg;
}

static void answers_once(int fd, void *arg)
{
    (void)arg;
    weft_write(fd, "y", 1, WEFT_FOREVER);
}

/* Its connection has ended: there is room for it by the time that it can know. */
IN_FIBER(a_client_that_comes_again_is_not_refused)
{
    struct serving s = {.listener = weft_listen("127.0.0.1:0"),
                        .handler = answers_once,
                        .opts = {.size = sizeof s.opts, .max_conns = 1, .refuse = weft_refuse},
                        .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    for (int i = 0; i < 200; i++) {
        char byte;
        int fd = connected(s.listener);
        CHECK_INT(weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)), ==, 1);
        CHECK(is_ended(fd));
        CHECK_INT(weft_close(fd), ==, 0);
    }
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    return arg;
}

IN_FIBER(a_refusal_needs_max_conns)
{
    weft_serve_opts unlimited = {.refuse = weft_refuse};
    CHECK_INT(weft_serve(0, echoes, NULL, &unlimited, WEFT_NOW), ==, -EINVAL);
    return arg;
}

/* Refusals that wait hold up neither each other nor the handlers, and when there is room again nobody is refused. */
IN_FIBER(a_refusal_answers_and_holds_up_nobody)
{
    enum { REFUSED = 5 };
    int refused = 0, fds[REFUSED];
    struct serving s;
    weft_fiber *server = serve_refusing(&s, says_busy, &refused, 1);
    int first = connected(s.listener);
    CHECK(is_echoed(first));
    for (int i = 0; i < REFUSED; i++) {
        fds[i] = connected(s.listener);
        CHECK(is_told_busy(fds[i]));
        CHECK(is_echoed(first));
    }
    CHECK_INT(seen(&refused), ==, REFUSED);
    CHECK_INT(weft_shutdown(first, SHUT_WR), ==, 0);
    CHECK(is_ended(first));
    int next = connected(s.listener);
    CHECK(is_echoed(next));
    CHECK_INT(seen(&refused), ==, REFUSED);
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0)); /* it has cancelled those that wait, as it does with handlers */
    for (int i = 0; i < REFUSED; i++) {
        CHECK(is_ended(fds[i]));
        CHECK_INT(weft_close(fds[i]), ==, 0);
    }
    CHECK_INT(weft_close(first), ==, 0);
    CHECK_INT(weft_close(next), ==, 0);
    return arg;
}

IN_FIBER(at_most_64_refusals_are_under_way)
{
    enum { MOST = 64, MORE = 10 };
    int refused = 0, fds[MOST + MORE];
    struct serving s;
    weft_fiber *server = serve_refusing(&s, says_busy, &refused, 1);
    int first = connected(s.listener);
    CHECK(is_echoed(first));
    for (int i = 0; i < MOST + MORE; i++) {
        fds[i] = connected(s.listener);
        CHECK(i < MOST ? is_told_busy(fds[i]) : is_ended(fds[i]));
    }
    CHECK_INT(seen(&refused), ==, MOST);
    for (int i = 0; i < MOST + MORE; i++)
        CHECK_INT(weft_close(fds[i]), ==, 0);
    bool is_told = false;
    for (int64_t until = real_now() + 20000000000; !is_told && real_now() < until;) { /* their places become free */
        int fd = connected(s.listener);
        is_told = is_told_busy(fd);
        CHECK_INT(weft_close(fd), ==, 0);
    }
    CHECK(is_told);
    CHECK(is_echoed(first));
    CHECK_INT(weft_close(first), ==, 0);
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    return arg;
}

/* A lack of memory costs the connection that it is for, and serving goes on. */
static void *lacks_memory(void *arg)
{
    int refused = 0;
    for (int of_a_refusal = 0; of_a_refusal < 2; of_a_refusal++) {
        struct serving s;
        weft_fiber *server = serve_refusing(&s, says_busy, &refused, 1);
        int first = of_a_refusal ? connected(s.listener) : -1;
        CHECK(first < 0 || is_echoed(first));
        AWAIT(is_parked(server));
        wf_sys_fail(1u << WF_SYS_MALLOC, 1, 0);
        int fd = connected(s.listener);
        CHECK(is_ended(fd));
        wf_sys_fail(0, 0, 0);
        CHECK_INT(weft_close(fd), ==, 0);
        fd = connected(s.listener);
        CHECK(of_a_refusal ? is_told_busy(fd) : is_echoed(fd));
        CHECK_INT(weft_close(fd), ==, 0);
        CHECK_INT(first < 0 ? 0 : weft_close(first), ==, 0);
        CHECK_INT(weft_close(s.listener), ==, 0);
        CHECK_PTR(ended(server), ==, ptr(0));
    }
    CHECK_INT(seen(&refused), ==, 1);
    return arg;
}

TEST(a_lack_of_memory_for_a_connection_is_waited_out)
{
    in_a_fiber(1, lacks_memory, NULL); /* with two the server may be faster than who lets memory fail */
}

TESTS(net_serve_options, handlers_run_on_shared_stacks,
      workers_without_a_shared_stack_leave_their_connections_to_others, a_pool_that_other_schedulers_use_is_busy,
      a_stack_size_and_shared_stacks_exclude_each_other, options_without_a_size_all_count,
      a_handler_learns_its_peers_address, who_has_the_number_next_is_not_the_peer,
      there_is_no_peer_outside_of_a_handler, connections_above_max_conns_are_closed_at_once,
      a_client_that_comes_again_is_not_refused, a_refusal_needs_max_conns, a_refusal_answers_and_holds_up_nobody,
      at_most_64_refusals_are_under_way, a_lack_of_memory_for_a_connection_is_waited_out)
