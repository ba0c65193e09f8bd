/*
 * Listening, dialling and serving.
 */
#include <weft/hook.h>
#include <weft/net.h>
#include <weft/process.h>
#include <weft/sync.h>

#include <sys/un.h>

#include "base/sys.h"
#include "unit/net/serving.h"
#include "unit/net/shortage.h"

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
        CHECK_PTR(ended(server), ==, ptr(0));
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

/* A number that is nobody's, one that was closed before, and what does not listen. */
IN_FIBER(what_never_was_a_listener_is_told)
{
    int closed = weft_listen("127.0.0.1:0");
    CHECK_INT(weft_close(closed), ==, 0);
    CHECK_INT(weft_serve(closed, echoes, NULL, NULL, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_serve(-1, echoes, NULL, NULL, WEFT_FOREVER), ==, -EBADF);
    CHECK_INT(weft_serve(999999, echoes, NULL, NULL, WEFT_FOREVER), ==, -EBADF);
    struct pair p = tcp_pair();
    CHECK_INT(weft_serve(p.a, echoes, NULL, NULL, WEFT_FOREVER), ==, -EINVAL);
    close_pair(p);
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

/* A deadline by which a connection is being served, also on a machine that has other things to do. */
#define SERVED_BY (500 * WEFT_MS)

/* Takes its time for an answer; what it was told while it did. */
static void answers_slowly(int fd, void *arg)
{
    char byte;
    if (weft_read(fd, &byte, 1, WEFT_FOREVER) != 1)
        return;
    put(arg, 1);
    CHECK_INT(weft_sleep(20 * WEFT_MS), ==, 0);
    CHECK_INT(weft_write(fd, "y", 1, WEFT_FOREVER), ==, 1);
    put(arg, 2);
}

/* However serving ends: nobody is cancelled within the grace, and nobody new is let in. */
IN_FIBER(handlers_have_the_grace_to_end)
{
    for (int how = 0; how < 3; how++) {
        int listener = weft_listen("127.0.0.1:0"), step = 0;
        struct serving s = {.listener = listener,
                            .handler = answers_slowly,
                            .arg = &step,
                            .opts = {.grace = 20 * WEFT_SEC},
                            .until = how == 0 ? weft_in(SERVED_BY) : WEFT_FOREVER};
        weft_fiber *server = go(serves, &s);
        int fd = weft_dial(address_of(listener), WEFT_FOREVER);
        char byte = 0;
        CHECK_INT(weft_write(fd, "x", 1, WEFT_FOREVER), ==, 1);
        AWAIT(seen(&step) > 0);
        if (how == 1)
            CHECK_INT(weft_cancel(server), ==, 0);
        else if (how == 2)
            CHECK_INT(weft_close(listener), ==, 0);
        CHECK_PTR(ended(server), ==, ptr(how == 1 ? -ECANCELED : 0));
        CHECK_INT(seen(&step), ==, 2);
        CHECK_INT(weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)), ==, 1);
        CHECK_INT(weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)), ==, 0);
        CHECK_INT(weft_close(fd), ==, 0);
        if (how < 2)
            CHECK_INT(weft_close(listener), ==, 0);
    }
    return arg;
}

/* None of its connections ends, and so it accepts nothing: a close, a cancel and the deadline are noticed all the same. */
IN_FIBER(serving_ends_while_there_is_no_room)
{
    for (int how = 0; how < 3; how++) {
        int listener = weft_listen("127.0.0.1:0");
        struct serving s = {.listener = listener,
                            .handler = echoes,
                            .opts = {.max_conns = 1, .grace = -1},
                            .until = how == 0 ? weft_in(SERVED_BY) : WEFT_FOREVER};
        weft_fiber *server = go(serves, &s);
        int fd = weft_dial(address_of(listener), WEFT_FOREVER), second = weft_dial(address_of(listener), WEFT_FOREVER);
        char byte;
        CHECK_INT(weft_write(fd, "x", 1, WEFT_FOREVER), ==, 1);
        CHECK_INT(weft_read(fd, &byte, 1, WEFT_FOREVER), ==, 1); /* it is being served */
        AWAIT(is_parked(server));
        if (how == 1)
            CHECK_INT(weft_cancel(server), ==, 0);
        else if (how == 2)
            CHECK_INT(weft_close(listener), ==, 0);
        CHECK_PTR(ended(server), ==, ptr(how == 1 ? -ECANCELED : 0));
        CHECK_INT(weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)), ==, 0);
        CHECK_INT(weft_close(fd), ==, 0);
        CHECK_INT(weft_close(second), ==, 0);
        if (how < 2)
            CHECK_INT(weft_close(listener), ==, 0);
    }
    return arg;
}

IN_FIBER(with_now_serving_ends_when_there_is_no_room)
{
    struct serving s = {.listener = weft_listen("127.0.0.1:0"),
                        .handler = echoes,
                        .opts = {.max_conns = 1, .grace = -1},
                        .until = WEFT_NOW};
    int fds[2];
    for (int i = 0; i < 2; i++)
        fds[i] = weft_dial(address_of(s.listener), WEFT_FOREVER);
    CHECK_PTR(serves(&s), ==, ptr(-EAGAIN));
    int left = weft_accept(s.listener, NULL, NULL, SOCK_CLOEXEC, WEFT_NOW); /* it has taken one of the two */
    CHECK_INT(left, >=, 0);
    CHECK_INT(weft_close(left), ==, 0);
    CHECK_PTR(serves(&s), ==, ptr(-EAGAIN));
    for (int i = 0; i < 2; i++)
        CHECK_INT(weft_close(fds[i]), ==, 0);
    CHECK_INT(weft_close(s.listener), ==, 0);
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
    CHECK_PTR(ended(server), ==, ptr(0));
    return arg;
}

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* No descriptor is left to accept with: it is waited out, with pauses that grow, and nobody is lost. */
static void *runs_out_of_descriptors(void *arg)
{
    int listener = weft_listen("127.0.0.1:0"), fds[4];
    struct serving s = {.listener = listener, .handler = echoes, .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    struct shortage lack;
    char byte;
    AWAIT(is_parked(server));
    CHECK(weft_io_backend() != NULL); /* this worker has what it waits with, too */
    for (int i = 0; i < 4; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    begin_shortage(&lack, fds[3]);
    struct sockaddr_in at = loopback(weft_port(listener));
    for (int i = 0; i < 4; i++) {
        CHECK_INT(weft_connect(fds[i], (struct sockaddr *)&at, sizeof at, WEFT_FOREVER), ==, 0);
        CHECK_INT(weft_write(fds[i], "x", 1, WEFT_FOREVER), ==, 1);
    }
    uint64_t before = figures(weft_sched_current()).switches;
    weft_sleep(40 * WEFT_MS);
    CHECK_INT(figures(weft_sched_current()).switches - before, <, 200);
    end_shortage(&lack);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(weft_read(fds[i], &byte, 1, weft_in(20 * WEFT_SEC)), ==, 1);
        CHECK_INT(weft_close(fds[i]), ==, 0);
    }
    CHECK_INT(weft_close(listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    return arg;
}

TEST(a_lack_of_descriptors_is_waited_out)
{
#if WF_VALGRIND
    SKIP("valgrind closes a connection that it has no number for");
#endif
    in_a_fiber(1, runs_out_of_descriptors, NULL);
    in_a_fiber(2, runs_out_of_descriptors, NULL);
}

static int tries; /* of accept(2). flag */

static void counts_tries(void *arg)
{
    (void)arg;
    more(&tries);
}

/* A connection waits, and there is no descriptor for it, for as long as this serves. */
static void *lacks_descriptors_until(void *arg)
{
    const weft_time *given = arg;
    bool is_now = given->ns == INT64_MIN;
    int listener = weft_listen("127.0.0.1:0");
    CHECK(weft_io_backend() != NULL);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = loopback(weft_port(listener));
    CHECK_INT(weft_connect(fd, (struct sockaddr *)&at, sizeof at, WEFT_FOREVER), ==, 0);
    struct shortage lack;
    begin_shortage(&lack, fd);
    put(&tries, 0);
    wf_sys_before(1u << WF_SYS_ACCEPT, counts_tries, NULL);
    struct serving s = {
        .listener = listener, .handler = echoes, .until = is_now ? *given : (weft_time){weft_now().ns + given->ns}};
    weft_fiber *server = go(serves, &s);
    void *value = ptr(1);
    bool is_over = weft_join(server, &value, weft_in(10 * WEFT_SEC)) == 0;
    CHECK(is_over);
    CHECK_INT(real_now(), >=, s.until.ns);
    CHECK_INT(seen(&tries), <=, given->ns <= 0 ? 1 : 20);
    end_shortage(&lack);
    CHECK_PTR(is_over ? value : ended(server), ==, ptr(is_now ? -EAGAIN : 0));
    wf_sys_before(0, NULL, NULL);
    CHECK_INT(weft_close(fd), ==, 0);
    CHECK_INT(weft_close(listener), ==, 0);
    return arg;
}

static void lack_descriptors_until(weft_time until)
{
#if WF_VALGRIND
    SKIP("valgrind closes a connection that it has no number for");
#endif
    in_a_fiber(1, lacks_descriptors_until, &until);
    in_a_fiber(2, lacks_descriptors_until, &until);
}

TEST(a_lack_of_descriptors_does_not_outlast_the_deadline)
{
    lack_descriptors_until((weft_time){40 * WEFT_MS});
}

TEST(a_deadline_that_has_passed_ends_serving_at_a_lack_of_descriptors)
{
    lack_descriptors_until((weft_time){-WEFT_SEC});
}

TEST(with_now_a_lack_of_descriptors_ends_serving_at_once)
{
    lack_descriptors_until(WEFT_NOW);
}

/* The caller's own section goes on after it has served, also for what does not have to wait. */
static void *serves_uncancellably(void *arg)
{
    int listener = weft_listen("127.0.0.1:0");
    CHECK(!weft_hook_deaf(true));
    put(arg, 1);
    weft_sleep(5 * WEFT_MS);
    AWAIT(weft_cancelled());
    CHECK_INT(weft_serve(listener, echoes, NULL, NULL, weft_in(5 * WEFT_MS)), ==, 0);
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    CHECK(weft_hook_deaf(false));
    CHECK_INT(weft_sleep(WEFT_SEC), ==, -ECANCELED);
    CHECK_INT(weft_close(listener), ==, 0);
    return NULL;
}

IN_FIBER(an_uncancellable_section_outlasts_serving)
{
    int begun = 0;
    weft_fiber *f = go(serves_uncancellably, &begun);
    AWAIT(seen(&begun) == 1);
    CHECK_INT(weft_cancel(f), ==, 0);
    ended(f);
    return arg;
}

/* It pauses while the listener is closed, and another one gets the number: that is not its to accept from. */
static void *closes_during_a_shortage(void *arg)
{
    int listener = weft_listen("127.0.0.1:0"), next = weft_listen("127.0.0.1:0"), number = listener;
    struct serving s = {.listener = listener, .handler = echoes, .until = WEFT_FOREVER};
    weft_fiber *server = go(serves, &s);
    struct shortage lack;
    struct sockaddr_in at = loopback(weft_port(listener)), next_at = loopback(weft_port(next));
    AWAIT(is_parked(server));
    CHECK(weft_io_backend() != NULL);
    int first = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int second = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    begin_shortage(&lack, second);
    CHECK_INT(weft_connect(first, (struct sockaddr *)&at, sizeof at, WEFT_FOREVER), ==, 0);
    AWAIT(figures(weft_sched_current()).sleeping == 1); /* the pause */
    CHECK_INT(weft_close(listener), ==, 0);
    CHECK_INT(dup2(next, number), ==, number);
    end_shortage(&lack);
    CHECK_INT(weft_connect(second, (struct sockaddr *)&next_at, sizeof next_at, WEFT_FOREVER), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    int accepted = weft_accept(number, NULL, NULL, SOCK_CLOEXEC, WEFT_NOW);
    CHECK_INT(accepted, >=, 0);
    const int all[] = {accepted, number, next, first, second};
    for (int i = 0; i < 5; i++)
        CHECK_INT(weft_close(all[i]), ==, 0);
    return arg;
}

TEST(a_listener_that_is_closed_in_a_pause_is_left_alone)
{
#if WF_VALGRIND
    SKIP("valgrind closes a connection that it has no number for");
#endif
    in_a_fiber(1, closes_during_a_shortage, NULL);
    in_a_fiber(2, closes_during_a_shortage, NULL);
}

static void handler_of_nothing(int fd, void *arg)
{
    (void)fd, (void)arg;
}

struct crowding {
    uint64_t before, seen;
};

static void *notes_how_many(void *arg)
{
    struct crowding *c = arg;
    c->seen = figures(weft_sched_current()).spawned - c->before;
    return NULL;
}

/* Many connections wait to be accepted: other fibers of the worker do not wait for all of them. */
static void *accepts_a_crowd(void *arg)
{
    enum { CROWD = 200 };
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int l = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), crowd[CROWD];
    snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "weft-crowd-%d", (int)getpid());
    CHECK(bind(l, (struct sockaddr *)&at, sizeof at) == 0 && listen(l, 2 * CROWD) == 0);
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        CHECK_INT(connect(crowd[i], (struct sockaddr *)&at, sizeof at), ==, 0);
    }
    struct crowding c = {0};
    weft_fiber *other = go(notes_how_many, &c);
    c.before = figures(weft_sched_current()).spawned;
    CHECK_INT(weft_serve(l, handler_of_nothing, NULL, NULL, weft_in(20 * WEFT_MS)), ==, 0);
    ended(other);
    CHECK_INT(c.seen, <, CROWD / 2);
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
    CHECK_INT(weft_close(l), ==, 0);
    return arg;
}

TEST(a_crowd_does_not_hold_up_others)
{
    in_a_fiber(1, accepts_a_crowd, NULL); /* with two the other one may be stolen, and its thief be kept waiting */
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
    CHECK_PTR(ended(server), ==, ptr(0));
    return NULL;
}

TEST(a_lack_of_descriptors_under_load_is_waited_out)
{
#if WF_VALGRIND
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
    const char *wrong[] = {"",
                           "nocolon",
                           "a:b:c",
                           "[::1",
                           "[::1]",
                           "host:",
                           "unix:",
                           "127.0.0.1:65536",
                           ":99999",
                           ":+80",
                           ": 80",
                           ":-1",
                           "127.0.0.1:4294967376",
                           "256.1.1.1.1:x y"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0] - 1; i++) {
        CHECK_INT(weft_dial(wrong[i], WEFT_FOREVER), ==, -EINVAL);
        CHECK_INT(weft_listen(wrong[i]), ==, -EINVAL);
    }
    CHECK_INT(weft_dial(NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_serve(0, NULL, NULL, NULL, WEFT_NOW), ==, -EINVAL);
    weft_serve_opts small = {.size = sizeof small, .stack = 100};
    CHECK_INT(weft_serve(0, handler_of_nothing, NULL, &small, WEFT_NOW), ==, -EINVAL);
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

TESTS(net_serve, connections_are_served, serving_ends_at_its_deadline, what_never_was_a_listener_is_told,
      handlers_are_cancelled_after_the_grace, handlers_have_the_grace_to_end, serving_ends_while_there_is_no_room,
      with_now_serving_ends_when_there_is_no_room, a_listener_that_is_closed_in_a_pause_is_left_alone,
      no_more_than_max_conns_are_served_at_a_time, a_lack_of_descriptors_is_waited_out,
      a_lack_of_descriptors_under_load_is_waited_out, a_lack_of_descriptors_does_not_outlast_the_deadline,
      a_deadline_that_has_passed_ends_serving_at_a_lack_of_descriptors,
      with_now_a_lack_of_descriptors_ends_serving_at_once, an_uncancellable_section_outlasts_serving,
      a_crowd_does_not_hold_up_others, what_is_no_address_is_said, connections_are_spread_over_the_workers)
