/*
 * fuzz/connection.c: a whole connection of a real server (fuzz/site.h), in this process, through a UNIX socket or TCP.
 *
 * An input is two bytes and what a client sends. The first byte says how: how the bytes are cut into pieces, whether the client
 * reads meanwhile, and how it ends (struct plan). The second byte is the seed of the pieces. Server and client are fibers of
 * one worker, the calling thread, so an input always runs in the same order. A piece is sent when the server has read the one before.
 *
 * After each input fuzz/judge.h says whether the answers fit, the server's figures add up, the connection is gone, and
 * another connection, which lives as long as the process, still gets its answer.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <weft/http.h>
#include <weft/weft.h>

#include "fuzz/fuzz.h"
#include "fuzz/judge.h"
#include "fuzz/site.h"

enum {
    SETTLE = 64,        /* turns that a piece waits for the one before it, at most */
    RECEIVED = 8 << 20, /* bytes that a client keeps */
    PIECES = 64,
};
#define PATIENCE (60 * WEFT_SEC)

enum kind { UNIX_SOCKET, TCP, KINDS };

static struct {
    weft_http *h;
    weft_sched *sched;
    weft_fiber *servers[KINDS];
    int listeners[KINDS];
    char addresses[KINDS][64];
    int healthy; /* a connection that must be served after every input */
} world;

/* ---- the server --------------------------------------------------------------------------------------------- */

static void *serve(void *arg)
{
    FUZZ_CHECK_INT(weft_http_serve(world.h, *(int *)arg, WEFT_FOREVER), 0);
    return NULL;
}

/* Works until a fiber has ended. */
static void run_until_ended(weft_fiber *f)
{
    weft_time end = weft_in(PATIENCE);
    int rc;
    while ((rc = weft_join(f, NULL, WEFT_NOW)) == -EAGAIN) {
        weft_sched_run(world.sched, WEFT_NOW);
        FUZZ_CHECK(weft_now().ns < end.ns);
    }
    FUZZ_CHECK_INT(rc, 0);
}

static void run_fiber(void *(*fn)(void *), void *arg)
{
    weft_fiber *f;
    FUZZ_CHECK_INT(weft_sched_go(world.sched, &f, NULL, fn, arg), 0);
    run_until_ended(f);
}

static weft_http_figures figures(void)
{
    weft_http_figures f = {.size = sizeof f};
    FUZZ_CHECK_INT(weft_http_stats(world.h, &f), 0);
    return f;
}

static void end_world(void)
{
    weft_close(world.healthy);
    FUZZ_CHECK_INT(weft_http_stop(world.h), 0);
    for (int kind = 0; kind < KINDS; kind++) {
        run_until_ended(world.servers[kind]);
        FUZZ_CHECK_INT(weft_close(world.listeners[kind]), 0);
    }
    FUZZ_CHECK_INT(figures().connections, 0);
    FUZZ_CHECK_INT(weft_sched_stop(world.sched, weft_in(PATIENCE)), 0);
    FUZZ_CHECK_INT(weft_sched_free(world.sched), 0);
    site_free(world.h);
}

static void *dial_healthy(void *arg)
{
    (void)arg;
    world.healthy = weft_dial(world.addresses[UNIX_SOCKET], weft_in(PATIENCE));
    FUZZ_CHECK(world.healthy >= 0);
    while (figures().connections == 0)
        weft_yield();
    return NULL;
}

static void start_server(enum kind kind)
{
    char *address = world.addresses[kind];
    if (kind == UNIX_SOCKET)
        snprintf(address, sizeof world.addresses[kind], "unix:@weft-fuzz-%d", (int)getpid());
    int fd = weft_listen(kind == TCP ? "127.0.0.1:0" : address);
    FUZZ_CHECK(fd >= 0);
    if (kind == TCP)
        snprintf(address, sizeof world.addresses[kind], "127.0.0.1:%d", weft_port(fd));
    world.listeners[kind] = fd;
    FUZZ_CHECK_INT(weft_sched_go(world.sched, &world.servers[kind], NULL, serve, &world.listeners[kind]), 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    weft_sched_opts opts = {.size = sizeof opts, .threads = 1, .use_caller = true};
    (void)argc;
    (void)argv;
    world.h = site_new();
    FUZZ_CHECK_INT(weft_sched_new(&world.sched, &opts), 0);
    FUZZ_CHECK_INT(weft_sched_start(world.sched), 0);
    start_server(UNIX_SOCKET);
    start_server(TCP);
    run_fiber(dial_healthy, NULL);
    atexit(end_world);
    return 0;
}

/* ---- the client --------------------------------------------------------------------------------------------- */

enum ending {
    END_HALF_CLOSE, /* it ends its half, and reads until the server has ended */
    END_PATIENTLY,  /* the same, but it gives the server time before */
    END_CLOSE,      /* it closes, and has read nothing */
    END_READ_CLOSE, /* it reads what is there, and closes */
};

struct plan {
    enum ending ending;
    enum kind kind;
    bool is_slow;   /* it reads nothing while it sends */
    bool is_whole;  /* in one piece */
    unsigned piece; /* the most bytes of a piece */
    struct dice dice;
};

static struct plan read_plan(uint8_t how, uint8_t seed)
{
    return (struct plan){.ending = how & 3,
                         .kind = how & 0x40 ? TCP : UNIX_SOCKET,
                         .is_slow = how & 4,
                         .is_whole = !(how & 0x30),
                         .piece = how & 0x20 ? 4 : 200,
                         .dice = {seed}};
}

struct client {
    int fd;
    struct plan plan;
    const char *bytes;
    size_t size, sent;
    char *received;
    size_t received_size, room;
    bool has_ended;   /* the server: nothing more comes */
    bool was_reset;   /* it has ended that way */
    bool cannot_send; /* it has ended before it had all */
    weft_http_figures before;
};

/* Reads what there is; with a deadline it waits for something. */
static void receive(struct client *c, weft_time deadline)
{
    while (!c->has_ended) {
        if (c->room - c->received_size < 4096) {
            c->room = c->room * 2 + 8192;
            FUZZ_CHECK(c->room < RECEIVED);
            c->received = realloc(c->received, c->room);
        }
        ptrdiff_t n = weft_recv(c->fd, c->received + c->received_size, c->room - c->received_size, 0, deadline);
        if (n == -EAGAIN)
            return;
        if (n == -ETIMEDOUT)
            fuzz_fail(__FILE__, __LINE__, "the server hangs");
        c->has_ended = n <= 0;
        c->was_reset = n < 0;
        c->received_size += n > 0 ? (size_t)n : 0;
    }
}

/* Lets the server read what was sent, unless it waits for something else. */
static void settle(struct client *c)
{
    for (int i = 0; i < SETTLE && !c->has_ended && figures().bytes_in - c->before.bytes_in < c->sent; i++) {
        weft_yield();
        if (!c->plan.is_slow)
            receive(c, WEFT_NOW);
    }
    weft_yield();
}

static void send_piece(struct client *c, size_t size)
{
    weft_time end = weft_in(PATIENCE);
    while (size > 0 && !c->cannot_send) {
        ptrdiff_t n = weft_send(c->fd, c->bytes + c->sent, size, MSG_NOSIGNAL, WEFT_NOW);
        if (n == -EAGAIN) { /* the server waits for its client */
            receive(c, WEFT_NOW);
            weft_yield();
            FUZZ_CHECK(weft_now().ns < end.ns);
        } else if (n < 0) {
            c->cannot_send = true;
        } else {
            c->sent += (size_t)n;
            size -= (size_t)n;
        }
    }
}

static void send_all(struct client *c)
{
    for (int pieces = 0; c->sent < c->size && !c->cannot_send; pieces++) {
        size_t left = c->size - c->sent, most = c->plan.piece < left ? c->plan.piece : left;
        size_t piece = c->plan.is_whole || pieces == PIECES ? left : 1 + dice_throw(&c->plan.dice, (unsigned)most);
        send_piece(c, piece);
        settle(c);
    }
}

static void end(struct client *c)
{
    switch (c->plan.ending) {
    case END_PATIENTLY:
        settle(c);
        receive(c, WEFT_NOW);
        settle(c);
        /* fall through */
    case END_HALF_CLOSE:
        weft_shutdown(c->fd, SHUT_WR);
        receive(c, weft_in(PATIENCE));
        break;
    case END_READ_CLOSE:
        receive(c, WEFT_NOW);
        break;
    case END_CLOSE:
        break;
    }
    weft_close(c->fd);
}

static void converse(struct client *c)
{
    c->fd = weft_dial(world.addresses[c->plan.kind], weft_in(PATIENCE));
    FUZZ_CHECK(c->fd >= 0);
    send_all(c);
    end(c);
}

/* ---- after it ----------------------------------------------------------------------------------------------- */

static void check_healthy(const struct client *c)
{
    static const char request[] = "GET /hello HTTP/1.1\r\nHost: healthy\r\n\r\n";
    char answer[512];
    size_t size = 0;
    weft_time until = weft_in(PATIENCE);
    FUZZ_CHECK_INT(weft_send(world.healthy, request, sizeof request - 1, MSG_NOSIGNAL, until), sizeof request - 1);
    while (size < 6 || memcmp(answer + size - 6, "hello\n", 6) != 0) {
        ptrdiff_t n = weft_recv(world.healthy, answer + size, sizeof answer - size, 0, until);
        FUZZ_CHECK(n > 0);
        size += (size_t)n;
    }
    FUZZ_CHECK(memcmp(answer, "HTTP/1.1 200 OK\r\n", 17) == 0);
    while ((figures().connections != 1 || figures().accepted == c->before.accepted) && weft_now().ns < until.ns)
        weft_yield();
}

static void check_figures(const struct client *c)
{
    weft_http_figures f = figures();
    uint64_t answers = f.cut;
    for (size_t i = 0; i < sizeof f.status / sizeof f.status[0]; i++)
        answers += f.status[i];
    FUZZ_CHECK_INT(f.connections, 1);
    FUZZ_CHECK_INT(f.streams, 0);
    FUZZ_CHECK_INT(f.accepted, c->before.accepted + 1);
    FUZZ_CHECK_INT(f.refused, 0);
    FUZZ_CHECK_INT(f.requests, answers);
    FUZZ_CHECK(f.bytes_out - c->before.bytes_out > c->received_size);
}

static void *run_input(void *arg)
{
    struct client *c = arg;
    c->before = figures();
    converse(c);
    check_healthy(c);
    check_figures(c);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size)
{
    if (input_size < 2)
        return 0;
    struct client c = {.plan = read_plan(input[0], input[1]), .bytes = (const char *)input + 2, .size = input_size - 2};
    run_fiber(run_input, &c);
    judge(&(struct conversation){.sent = c.bytes,
                                 .sent_size = c.sent,
                                 .received = c.received ? c.received : "",
                                 .received_size = c.received_size,
                                 .is_patient = c.plan.ending <= END_PATIENTLY,
                                 .was_reset = c.was_reset,
                                 .can_reset = c.plan.kind == TCP});
    free(c.received);
    return 0;
}
