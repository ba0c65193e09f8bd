/*
 * A fiber whose reads and writes never have to wait lets others run all the same, and so do fibers that compute: what waits
 * for a descriptor is told. Turns are counted, not time.
 */
#include <weft/file.h>
#include <weft/hook.h>
#include <weft/net.h>

#include <sys/un.h>

#include "unit/io/ground.h"

static int turns, stop; /* atomic; flag */

/* ---- a socket beside fibers that compute ---- */

#define TURN (2 * WEFT_MS)

static void *computes(void *arg)
{
    while (!seen(&stop)) {
        for (int64_t until = real_now() + TURN; real_now() < until;)
            ;
        more(&turns);
        weft_yield();
    }
    return arg;
}

static void *writes_from_thread(void *arg)
{
    struct timespec pause = {.tv_nsec = TURN / 2};
    nanosleep(&pause, NULL);
    CHECK_INT(write(*(int *)arg, "x", 1), ==, 1);
    return ptr(seen(&turns));
}

static void *reads_beside_computers(void *arg)
{
    enum { TIMES = 5, SOON = 20 }; /* two turns, and ten times that: the kernel may be late as well */
    for (int count = 1; count <= 2; count++) {
        weft_fiber *f[2];
        put(&stop, 0);
        for (int i = 0; i < count; i++)
            f[i] = go(computes, NULL);
        for (int kind = 0; kind < KINDS; kind++) {
            struct pair p = make_pair(kind);
            for (int i = 0; i < TIMES; i++) {
                char c = 0;
                pthread_t id = new_thread(writes_from_thread, &p.b);
                CHECK_INT(weft_read(p.a, &c, 1, WEFT_FOREVER), ==, 1);
                int now = seen(&turns);
                void *before = NULL;
                pthread_join(id, &before);
                CHECK_INT(now - (int)(intptr_t)before, <=, SOON * count);
            }
            close_pair(p);
        }
        put(&stop, 1);
        for (int i = 0; i < count; i++)
            ended(f[i]);
    }
    return arg;
}

TEST(who_waits_for_a_descriptor_waits_for_one_turn_of_who_computes)
{
    in_a_fiber(1, reads_beside_computers, NULL);
}

TEST(so_it_does_under_every_policy)
{
    const weft_policy *const policies[] = {&weft_priority, &weft_sjf, &weft_hrrn, &weft_rr, &weft_edf};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        weft_sched_opts o = {.threads = 1, .policy = policies[i]};
        CHECK_INT(weft_run(reads_beside_computers, NULL, NULL, &o), ==, 0);
    }
    weft_sched_opts direct = {.threads = 1, .dispatch = WEFT_DIRECT};
    CHECK_INT(weft_run(reads_beside_computers, NULL, NULL, &direct), ==, 0);
}

/* ---- flooders ---- */

/* It reads what it has written: neither call ever waits. */
struct flood {
    struct pair p;
    uint64_t rounds;
};

static bool is_flooding; /* atomic */

static void *floods(void *arg)
{
    struct flood *f = arg;
    static const char bytes[512];
    char back[512];
    int64_t limit = real_now() + 20 * WEFT_SEC; /* one that nobody can stop */
    while (!seen(&stop) && real_now() < limit) {
        CHECK_INT(weft_write(f->p.b, bytes, sizeof bytes, WEFT_FOREVER), ==, sizeof bytes);
        CHECK_INT(weft_read(f->p.a, back, sizeof back, WEFT_FOREVER), ==, sizeof back);
        f->rounds++;
        __atomic_store_n(&is_flooding, true, __ATOMIC_RELAXED);
    }
    CHECK(seen(&stop));
    return arg;
}

static void *answers(void *arg)
{
    const struct pair *p = arg;
    char c;
    while (weft_read(p->a, &c, 1, WEFT_FOREVER) == 1)
        CHECK_INT(weft_write(p->a, &c, 1, WEFT_FOREVER), ==, 1);
    return NULL;
}

/* A plain thread: the client. */
static void *asks(void *arg)
{
    const struct pair *p = arg;
    char c = 'x';
    for (int i = 0; i < 20; i++) {
        CHECK_INT(write(p->b, &c, 1), ==, 1);
        CHECK_INT(read(p->b, &c, 1), ==, 1);
    }
    put(&stop, 1);
    CHECK_INT(shutdown(p->b, SHUT_WR), ==, 0);
    return NULL;
}

static void *answers_beside_flooders(void *arg)
{
    struct flood f[2] = {{.p = unix_pair(SOCK_STREAM)}, {.p = pipe_pair(0)}};
    struct pair p = tcp_pair();
    put(&stop, 0);
    weft_fiber *fibers[] = {go(floods, &f[0]), go(floods, &f[1]), go(answers, &p)};
    AWAIT(__atomic_load_n(&is_flooding, __ATOMIC_RELAXED));
    pthread_t client = new_thread(asks, &p);
    for (int i = 0; i < 3; i++)
        ended(fibers[i]);
    pthread_join(client, NULL);
    CHECK(f[0].rounds > 0 && f[1].rounds > 0);
    close_pair(p);
    close_pair(f[0].p);
    close_pair(f[1].p);
    return arg;
}

TEST(a_connection_is_served_beside_two_that_flood)
{
    in_a_fiber(1, answers_beside_flooders, NULL);
}

/* ---- which calls give way ---- */

static void *takes_turns(void *arg)
{
    while (!seen(&stop)) {
        more(&turns);
        weft_yield();
    }
    return arg;
}

static struct pair stream;
static int file;

static void send_and_recv(weft_time deadline, int flags)
{
    char c = 'x';
    CHECK_INT(weft_send(stream.b, &c, 1, flags, deadline), ==, 1);
    CHECK_INT(weft_recv(stream.a, &c, 1, flags, deadline), ==, 1);
}

static void write_and_read(weft_time deadline, int flags)
{
    char c = 'x';
    (void)flags;
    CHECK_INT(weft_write(stream.b, &c, 1, deadline), ==, 1);
    CHECK_INT(weft_read(stream.a, &c, 1, deadline), ==, 1);
}

static void poll_for_room(weft_time deadline, int flags)
{
    struct pollfd p = {.fd = stream.a, .events = POLLOUT};
    (void)flags;
    CHECK_INT(weft_poll(&p, 1, deadline), ==, 1);
}

static void read_file(weft_time deadline, int flags)
{
    char bytes[512];
    (void)flags;
    CHECK_INT(weft_pread(file, bytes, sizeof bytes, 0, deadline), ==, sizeof bytes);
}

/* From a pipe that is never empty to where there is always room. */
static void splice_byte(weft_time deadline, int flags)
{
    static struct pair p = {-1, -1};
    static int nowhere = -1, left;
    (void)flags;
    if (nowhere < 0) {
        p = pipe_pair(0);
        nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    }
    if (left == 0)
        left = (int)write(p.b, (char[4096]){0}, 4096);
    CHECK_INT(weft_splice(p.a, NULL, nowhere, NULL, 1, 0, deadline), ==, 1);
    left--;
}

/* A UNIX socket connects at once if the backlog has room; only the call itself may give way. */
static void connect_local(weft_time deadline, int flags)
{
    static struct sockaddr_un at = {.sun_family = AF_UNIX};
    static socklen_t size = sizeof at;
    static int l = -1;
    (void)flags;
    if (l < 0) {
        l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_INT(bind(l, (struct sockaddr *)&at, sizeof at.sun_family), ==, 0); /* the kernel names it */
        CHECK(getsockname(l, (struct sockaddr *)&at, &size) == 0 && listen(l, 8) == 0);
    }
    int c = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK_INT(weft_connect(c, (struct sockaddr *)&at, size, deadline), ==, 0);
    close(accept4(l, NULL, NULL, SOCK_CLOEXEC));
    close(c);
}

static void read_nothing(weft_time deadline, int flags)
{
    char c;
    (void)flags;
    CHECK_INT(weft_read(stream.a, &c, 0, deadline), ==, 0);
}

static void listen_and_close(weft_time deadline, int flags)
{
    (void)deadline, (void)flags;
    CHECK_INT(weft_close(weft_listen("127.0.0.1:0")), ==, 0);
}

typedef void call_fn(weft_time deadline, int flags);

/* Whether the neighbour has its turn now and then while such calls are made. */
static bool gives_way(call_fn *call)
{
    int before = seen(&turns);
    for (int64_t until = real_now() + 20 * WEFT_SEC; real_now() < until && seen(&turns) < before + 5;)
        call(WEFT_FOREVER, 0);
    return seen(&turns) >= before + 5;
}

/* Of the neighbour, while such calls are made. */
static int turns_during(call_fn *call, weft_time deadline, int flags)
{
    weft_yield();
    int before = seen(&turns);
    for (int64_t until = real_now() + 20 * WEFT_MS; real_now() < until;)
        call(deadline, flags);
    return seen(&turns) - before;
}

static void *makes_calls(void *arg)
{
    call_fn *const calls[] = {send_and_recv, write_and_read, poll_for_room, read_file,
                              splice_byte,   connect_local,  read_nothing};
    bool in_ring = strcmp(weft_io_backend(), "io_uring") == 0; /* there a call waits, and a lock does not help */
    char name[] = "/tmp/weft-fair-XXXXXX", zeros[512] = {0};
    file = mkostemp(name, O_CLOEXEC);
    CHECK(file >= 0);
    unlink(name);
    CHECK_INT(write(file, zeros, sizeof zeros), ==, sizeof zeros);
    stream = unix_pair(SOCK_STREAM);
    put(&stop, 0);
    weft_fiber *neighbour = go(takes_turns, NULL);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CHECK(gives_way(calls[i]));
        if (calls[i] == read_file) /* a disk, or a helper that reads it, cannot be told not to wait */
            continue;
        CHECK_INT(turns_during(calls[i], WEFT_NOW, 0), ==, 0);
        weft_hook_held(1);
        if (!in_ring)
            CHECK_INT(turns_during(calls[i], WEFT_FOREVER, 0), ==, 0);
        weft_hook_held(-1);
    }
    CHECK_INT(turns_during(send_and_recv, WEFT_FOREVER, MSG_DONTWAIT), ==, 0);
    CHECK(gives_way(listen_and_close));
    put(&stop, 1);
    ended(neighbour);
    close_pair(stream);
    CHECK_INT(weft_close(file), ==, 0);
    return arg;
}

TEST(a_call_that_may_wait_gives_way_and_one_that_may_not_does_not)
{
    in_a_fiber(1, makes_calls, NULL);
}

/* More connections wait than are taken. */
static void *accepts_many(void *arg)
{
    enum { MANY = 100, TAKEN = 80 };
    struct sockaddr_in at;
    int l = listener(&at), clients[MANY];
    for (int i = 0; i < MANY; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_INT(connect(clients[i], (struct sockaddr *)&at, sizeof at), ==, 0);
    }
    put(&stop, 0);
    weft_fiber *neighbour = go(takes_turns, NULL);
    weft_yield();
    int before = seen(&turns);
    for (int i = 0; i < TAKEN; i++) {
        int fd = weft_accept(l, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER);
        CHECK(fd >= 0);
        CHECK_INT(close(fd), ==, 0);
        for (int64_t until = real_now() + 200 * WEFT_US; real_now() < until;)
            ;
    }
    CHECK_INT(seen(&turns), >, before);
    put(&stop, 1);
    ended(neighbour);
    for (int i = 0; i < MANY; i++)
        CHECK_INT(close(clients[i]), ==, 0);
    CHECK_INT(weft_close(l), ==, 0);
    return arg;
}

TEST(who_accepts_one_after_the_other_gives_way)
{
    in_a_fiber(1, accepts_many, NULL);
}

TESTS(io_fair, who_waits_for_a_descriptor_waits_for_one_turn_of_who_computes, so_it_does_under_every_policy,
      a_connection_is_served_beside_two_that_flood, a_call_that_may_wait_gives_way_and_one_that_may_not_does_not,
      who_accepts_one_after_the_other_gives_way)
