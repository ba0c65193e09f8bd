/*
 * client.c: see client.h.
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/case.h"
#include "../common/load.h"
#include "answer.h"

#define EVENTS 256
#define ROOM 65536
#define REQUEST_MAX 256

struct connection {
    int fd;
    unsigned left; /* answers of the batch that are to come */
    int64_t sent_at;
    struct answer_stream stream;
};

static struct client_plan plan;

static struct {
    struct connection *connections;
    char batch[CLIENT_DEPTH_MAX * REQUEST_MAX];
    size_t batch_bytes;
    size_t under_way; /* batches */
    uint64_t answered;
    bool ending;             /* no more is sent */
    struct latency *latency; /* where latencies count, or NULL */
    int set;
} client;

/* The same fields as a command-line client sends. So a server also has to read fields that it does not need. */
static void make_batch(void)
{
    char request[REQUEST_MAX];
    int length = snprintf(request, sizeof(request),
                          "GET %s HTTP/1.1\r\n"
                          "Host: 127.0.0.1:%u\r\n"
                          "User-Agent: bench-http\r\n"
                          "Accept: */*\r\n"
                          "%s\r\n",
                          plan.path, plan.port, plan.closes ? "Connection: close\r\n" : "");

    if (length <= 0 || length >= REQUEST_MAX || plan.depth > CLIENT_DEPTH_MAX)
        case_fail("the requests are too long");
    for (unsigned i = 0; i < plan.depth; i++)
        memcpy(client.batch + i * (size_t)length, request, (size_t)length);
    client.batch_bytes = plan.depth * (size_t)length;
}

static void watch(struct connection *c)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = c};

    if (epoll_ctl(client.set, EPOLL_CTL_ADD, c->fd, &event) != 0)
        case_fail("epoll_ctl: %s", strerror(errno));
}

/* The send never has to wait, because the socket holds only one batch. */
static void send_batch(struct connection *c)
{
    c->sent_at = client.latency ? load_now_ns() : 0;
    c->left = plan.depth;
    client.under_way++;
    if (plan.closes)
        c->fd = load_connect_briefly(plan.port);
    for (size_t sent = 0; sent < client.batch_bytes;) {
        ssize_t n = send(c->fd, client.batch + sent, client.batch_bytes - sent, MSG_NOSIGNAL);
        if (n <= 0)
            case_fail("send: %s", strerror(errno));
        sent += (size_t)n;
    }
    if (plan.closes)
        watch(c);
}

/* The server has closed the connection. */
static void take_end(struct connection *c)
{
    if (!plan.closes || c->left > 0 || !answer_is_whole(&c->stream))
        case_fail("the server has closed a connection, %u answers are missing", c->left);
    close(c->fd);
    c->fd = -1;
}

/* Takes the bytes that have come. Returns whether the batch is complete. */
static bool receive(struct connection *c, int flags)
{
    static char room[ROOM];
    ssize_t n;

    do {
        unsigned complete;
        n = recv(c->fd, room, sizeof(room), flags);
        if (n < 0 && errno == EAGAIN && flags & MSG_DONTWAIT)
            return false;
        if (n < 0)
            case_fail("recv: %s", strerror(errno));
        if (n == 0) {
            take_end(c);
            return true;
        }
        complete = answer_take(&c->stream, room, (size_t)n);
        if (complete > c->left || (complete == c->left && !answer_is_whole(&c->stream)))
            case_fail("the server has sent more than was asked for");
        c->left -= complete;
        client.answered += complete;
        /* A read that does not fill its buffer has taken all, except perhaps the end of the stream. */
    } while (n == (ssize_t)sizeof(room) || plan.closes);
    return c->left == 0;
}

static bool take_answers(struct connection *c)
{
    if (!receive(c, MSG_DONTWAIT))
        return false;
    client.under_way--;
    if (client.latency)
        latency_add(client.latency, load_now_ns() - c->sent_at);
    return !client.ending;
}

/*
 * Reads all answers that have come, then sends the next requests, faster than any server answers them. So even a server
 * that is faster than this generator finds several requests at a time, and does not sleep after each.
 */
static void take_turn(void)
{
    static struct epoll_event events[EVENTS];
    static struct connection *next[EVENTS];
    int n = epoll_wait(client.set, events, EVENTS, LOAD_SILENCE_MS), ready = 0;

    if (n == 0 && plan.flaw)
        case_na("%zu requests have no answer: %s", client.under_way, plan.flaw);
    if (n == 0)
        case_fail("%zu requests have no answer", client.under_way);
    for (int i = 0; i < n; i++)
        if (take_answers(events[i].data.ptr))
            next[ready++] = events[i].data.ptr;
    for (int i = 0; i < ready; i++)
        send_batch(next[i]);
}

static void start_all(void)
{
    client.answered = 0;
    client.ending = false;
    for (size_t i = 0; i < plan.connections; i++)
        send_batch(&client.connections[i]);
}

static void finish_all(void)
{
    client.ending = true;
    while (client.under_way > 0)
        take_turn();
}

static void connect_all(void)
{
    for (size_t i = 0; i < plan.connections; i++) {
        struct connection *c = &client.connections[i];
        c->fd = load_connect(plan.port);
        if (i % LOAD_KNOCK_EVERY == 0) {
            send_batch(c);
            while (!receive(c, 0))
                ;
            client.under_way--;
        }
        watch(c);
    }
}

void client_open(const struct client_plan *what)
{
    plan = *what;
    answer_expect(&(struct answer_rules){.body = plan.body, .bytes = plan.bytes, .closes = plan.closes});
    make_batch();
    client.connections = calloc(plan.connections, sizeof(*client.connections));
    client.set = epoll_create1(EPOLL_CLOEXEC);
    if (!client.connections || client.set < 0)
        case_fail("cannot make %zu connections", plan.connections);
    if (!plan.closes)
        connect_all();
}

uint64_t client_run(double ms)
{
    int64_t end = load_now_ns() + (int64_t)(ms * 1e6);

    start_all();
    while (load_now_ns() < end || client.answered < plan.connections)
        take_turn();
    finish_all();
    return client.answered;
}

uint64_t client_once(void)
{
    start_all();
    finish_all();
    return client.answered;
}

void client_record(struct latency *latency)
{
    client.latency = latency;
}

void client_close(void)
{
    for (size_t i = 0; i < plan.connections && !plan.closes; i++)
        close(client.connections[i].fd);
    close(client.set);
    free(client.connections);
}
