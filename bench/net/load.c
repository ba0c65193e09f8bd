/*
 * load.c: bench-net-load, the load generator. It starts a server, connects to it so many times, keeps one message under way
 * on each connection, and checks every byte that comes back.
 *
 *      bench-net-load BENCH LIBRARY MILLISECONDS PROGRAM
 *
 * PROGRAM is the server (server.h). After a time to warm up, messages and CPU time are counted for the given time. Each of
 * them begins and ends with nothing under way, so that what is counted is all of what so many messages cost; and nothing may
 * be lost.
 *
 * BENCH is echo-CONNECTIONS or echo-CONNECTIONS-KILOBYTESk: server and generator have a CPU each, the answer is the server's CPU
 * time for a message, and its system calls are counted, for half of the time. Or it is serve-HANDLER, and LIBRARY ends with the
 * number of workers: the two share all CPUs, and the answer is messages per second.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../common/case.h"
#include "../common/child.h"
#include "../common/latency.h"
#include "../common/load.h"

#define EVENTS 256
#define SMALL_BYTES 64
#define SERVE_CONNECTIONS 64
#define PAUSES_A_QUEUE 8
#define OFFSETS 8191 /* messages are pieces of one long text that start here or there; prime */
#define ROOM 65536

struct connection {
    int fd;
    uint32_t offset; /* where its message under way starts in the text */
    uint32_t got;    /* of it, by now */
    int64_t sent_at;
};

static struct {
    const char *handler; /* of serve; NULL: echo */
    long pause_us;       /* between two looks for answers; 0: it waits for them */
    struct connection *connections;
    size_t count;
    size_t bytes;
    size_t under_way; /* messages */
    uint64_t answered;
    bool ending;             /* no more is sent */
    struct latency *latency; /* where latencies count, or NULL */
    int set;
    unsigned char *text;
} load;

/* Setting up */

static void parse_bench(const char *bench)
{
    char *rest;

    if (!strncmp(bench, "serve-", 6)) {
        load.handler = bench + 6;
        load.count = SERVE_CONNECTIONS;
        load.bytes = SMALL_BYTES;
        if (!strncmp(load.handler, "cpu", 3))
            load.pause_us = strtol(load.handler + 3, NULL, 10) * SERVE_CONNECTIONS / PAUSES_A_QUEUE;
        return;
    }
    if (strncmp(bench, "echo-", 5) != 0)
        case_fail("there is no bench '%s'", bench);
    load.count = strtoul(bench + 5, &rest, 10);
    load.bytes = *rest == '-' ? 1024 * strtoul(rest + 1, NULL, 10) : SMALL_BYTES;
    if (load.count == 0 || load.bytes == 0 || load.bytes >= ROOM)
        case_fail("there is no bench '%s'", bench);
}

static void make_text(void)
{
    uint64_t x = 88172645463325252;

    load.text = malloc(OFFSETS + load.bytes);
    if (!load.text)
        case_fail("no memory");
    for (size_t i = 0; i < OFFSETS + load.bytes; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        load.text[i] = (unsigned char)x;
    }
}

/* Messages */

/* Into a socket that waits; one message is all that is in it. */
static void send_message(struct connection *c)
{
    c->offset = (c->offset + 4099) % OFFSETS;
    c->got = 0;
    c->sent_at = load_now_ns();
    for (size_t sent = 0; sent < load.bytes;) {
        ssize_t n = send(c->fd, load.text + c->offset + sent, load.bytes - sent, MSG_NOSIGNAL);
        if (n <= 0)
            case_fail("send: %s", strerror(errno));
        sent += (size_t)n;
    }
    load.under_way++;
}

/* Whether the message is complete. */
static bool receive(struct connection *c, int flags)
{
    static unsigned char room[ROOM];
    ssize_t n = recv(c->fd, room, sizeof(room), flags);

    if (n < 0 && errno == EAGAIN && flags & MSG_DONTWAIT)
        return false;
    if (n <= 0)
        case_fail("the server has left: %s", n < 0 ? strerror(errno) : "end of stream");
    if (c->got + (size_t)n > load.bytes)
        case_fail("%zu bytes came back of a message of %zu", c->got + (size_t)n, load.bytes);
    if (memcmp(room, load.text + c->offset + c->got, (size_t)n) != 0)
        case_fail("what came back is not what was sent");
    c->got += (uint32_t)n;
    if (c->got < load.bytes)
        return false;
    load.under_way--;
    return true;
}

static void connect_one(struct connection *c, uint16_t port, size_t number)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = c};

    c->fd = load_connect(port);
    c->offset = (uint32_t)(number * 31 % OFFSETS);
    if (number % LOAD_KNOCK_EVERY == 0) {
        send_message(c);
        while (!receive(c, 0))
            ;
    }
    if (epoll_ctl(load.set, EPOLL_CTL_ADD, c->fd, &event) != 0)
        case_fail("epoll_ctl: %s", strerror(errno));
}

static void connect_all(uint16_t port)
{
    load.connections = calloc(load.count, sizeof(*load.connections));
    load.set = epoll_create1(EPOLL_CLOEXEC);
    if (!load.connections || load.set < 0)
        case_fail("cannot make %zu connections", load.count);
    for (size_t i = 0; i < load.count; i++)
        connect_one(&load.connections[i], port, i);
}

static void start_all(void)
{
    for (size_t i = 0; i < load.count; i++)
        send_message(&load.connections[i]);
}

/* Whether the message is complete, and another may go. */
static bool take_answer(struct connection *c)
{
    if (!receive(c, MSG_DONTWAIT))
        return false;
    load.answered++;
    if (load.latency)
        latency_add(load.latency, load_now_ns() - c->sent_at);
    return !load.ending;
}

/*
 * Where messages take long they come back one by one. Waiting for each would cost the server a wake-up of this process each
 * time, and the two CPUs that they share more than the work that is measured. So this process looks now and then, so often
 * that one worker has an eighth of its queue done meanwhile, and none ever runs out of messages.
 */
static int await_answers(struct epoll_event *events)
{
    int64_t end = load_now_ns() + LOAD_SILENCE_MS * 1000000LL;
    struct timespec pause = {.tv_nsec = load.pause_us * 1000};
    int n;

    if (load.pause_us == 0)
        return epoll_wait(load.set, events, EVENTS, LOAD_SILENCE_MS);
    do {
        nanosleep(&pause, NULL);
        n = epoll_wait(load.set, events, EVENTS, 0);
    } while (n == 0 && load_now_ns() < end);
    return n;
}

/*
 * First all that came is read, then the next messages go out, faster than any server answers them: so even one that is
 * faster than this generator finds several at a time, and does not fall asleep after each.
 */
static void take_turn(void)
{
    static struct epoll_event events[EVENTS];
    static struct connection *next[EVENTS];
    int n = await_answers(events), ready = 0;

    if (n == 0)
        case_fail("%zu messages are lost", load.under_way);
    for (int i = 0; i < n; i++)
        if (take_answer(events[i].data.ptr))
            next[ready++] = events[i].data.ptr;
    for (int i = 0; i < ready; i++)
        send_message(next[i]);
}

/* Puts the server under load for this time, or a little longer. Returns how many messages it was. */
static uint64_t run_for(double ms)
{
    int64_t end = load_now_ns() + (int64_t)(ms * 1e6);

    load.answered = 0;
    load.ending = false;
    start_all();
    while (load_now_ns() < end || load.answered < load.count)
        take_turn();
    load.ending = true;
    while (load.under_way > 0)
        take_turn();
    return load.answered;
}

static void end_all(const struct child *server)
{
    child_check(server);
    for (size_t i = 0; i < load.count; i++)
        close(load.connections[i].fd);
}

/* Measuring */

/* `busy` and `load`: how many CPUs the server has used, and this process. */
static void measure_serving(struct child *server, double budget_ms)
{
    static struct latency latency;
    char params[200];
    int64_t cpu, own, start, took;
    uint64_t answers;

    run_for(budget_ms / 5);
    load.latency = &latency;
    start = load_now_ns();
    cpu = child_cpu_ns(server);
    own = load_own_cpu_ns();
    answers = run_for(budget_ms);
    own = load_own_cpu_ns() - own;
    cpu = child_cpu_ns(server) - cpu;
    took = load_now_ns() - start;
    end_all(server);
    snprintf(params, sizeof(params), "cpu=%.2f busy=%.2f load=%.2f least=%.0f p50=%.0f p99=%.0f",
             (double)cpu / 1e3 / (double)answers, (double)cpu / (double)took, (double)own / (double)took,
             latency_at(&latency, 0), latency_at(&latency, 0.5), latency_at(&latency, 0.99));
    case_ok((double)answers * 1e9 / (double)took, params);
}

static void measure(struct child *server, double budget_ms)
{
    static struct latency latency;
    char params[200], calls[64];
    struct case_memory memory;
    int64_t cpu, start, took;
    uint64_t answers;

    run_for(budget_ms / 5);
    load.latency = &latency;
    start = load_now_ns();
    cpu = child_cpu_ns(server);
    answers = run_for(budget_ms);
    cpu = child_cpu_ns(server) - cpu;
    took = load_now_ns() - start;
    load.latency = NULL;
    memory = child_memory(server);
    load_count_calls(server, run_for, budget_ms / 2, calls, sizeof(calls));
    end_all(server);
    snprintf(params, sizeof(params), "rate=%.0f %sMB=%.2f p50=%.1f p99=%.1f p99.9=%.1f busy=%.2f",
             (double)answers * 1e9 / (double)took, calls, (memory.rss + memory.pte) / 1e6, latency_at(&latency, 0.5),
             latency_at(&latency, 0.99), latency_at(&latency, 0.999), (double)cpu / (double)took);
    case_ok((double)cpu / (double)answers, params);
}

/* "NAME-WORKERS" becomes NAME; the workers. */
static unsigned split_workers(char *library)
{
    char *last = strrchr(library, '-');
    unsigned workers = last ? (unsigned)strtoul(last + 1, NULL, 10) : 0;

    if (workers == 0)
        case_fail("'%s' does not say how many workers", library);
    *last = '\0';
    return workers;
}

int main(int argc, char **argv)
{
    char bytes[32], workers[32];
    const char *args[5] = {NULL, bytes};
    struct child_order order = {.args = args, .cpu = -1};
    struct child server;

    if (argc != 5) {
        fprintf(stderr, "usage: %s BENCH LIBRARY MILLISECONDS PROGRAM\n", argv[0]);
        return 2;
    }
    parse_bench(argv[1]);
    make_text();
    load_raise_descriptors(load.count);
    order.program = argv[4];
    args[0] = argv[2];
    snprintf(bytes, sizeof(bytes), "%zu", load.bytes);
    if (load.handler) {
        snprintf(workers, sizeof(workers), "%u", split_workers(argv[2]));
        args[2] = workers;
        args[3] = load.handler;
    } else {
        order.cpu = child_share_cpus();
    }
    child_start(&server, &order);
    connect_all(server.port);
    (load.handler ? measure_serving : measure)(&server, strtod(argv[3], NULL));
    child_end(&server);
    return 0;
}
