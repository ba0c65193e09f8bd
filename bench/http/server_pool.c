/*
 * server_pool.c: the classic server on epoll and a pool of threads. One thread, the reactor, waits for events, accepts, and
 * puts connections that can be read into a queue under a mutex. Eight threads wait at its condition variable, take a
 * connection, read and answer all that is there, and arm it again: edge-triggered, and for one event at a time, so that
 * no two threads have the same connection.
 *
 * The number of workers does not change the number of threads. The threads share the CPUs that the process may use.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/case.h"
#include "../common/listener.h"
#include "request.h"
#include "server.h"

#define THREADS 8
#define EVENTS 512
#define IN_BYTES 8192
#define OUT_BYTES 8192
#define SLOW_CLIENT_MS 10000

struct connection {
    int fd;
    uint64_t skip; /* bytes of a body that are to come, and are thrown away */
    size_t count;  /* bytes of `in` that wait for the rest of a request */
    struct connection *next;
    char in[IN_BYTES];
};

/* Connections that can be read. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct connection *first, **last;
} queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, &queue.first};

/* What a thread of the pool has for itself. */
struct thread {
    struct answer_texts answers;
    size_t count;
    char out[OUT_BYTES];
};

static int set, file;

static void put(struct connection *c)
{
    c->next = NULL;
    pthread_mutex_lock(&queue.lock);
    *queue.last = c;
    queue.last = &c->next;
    pthread_mutex_unlock(&queue.lock);
    pthread_cond_signal(&queue.filled);
}

static struct connection *take(void)
{
    struct connection *c;

    pthread_mutex_lock(&queue.lock);
    while (!queue.first)
        pthread_cond_wait(&queue.filled, &queue.lock);
    c = queue.first;
    queue.first = c->next;
    if (!queue.first)
        queue.last = &queue.first;
    pthread_mutex_unlock(&queue.lock);
    return c;
}

/* Returns false if the connection is broken, or the client does not read. */
static bool wait_for_room(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return errno == EAGAIN && poll(&p, 1, SLOW_CLIENT_MS) > 0;
}

static bool send_answers(struct thread *t, int fd, int flags)
{
    for (size_t sent = 0; sent < t->count;) {
        ssize_t n = send(fd, t->out + sent, t->count - sent, MSG_NOSIGNAL | flags);
        if (n < 0 && !wait_for_room(fd))
            return false;
        sent += n > 0 ? (size_t)n : 0;
    }
    t->count = 0;
    return true;
}

static bool send_file(int fd)
{
    for (off_t at = 0; at < SERVER_FILE_BYTES;) {
        ssize_t n = sendfile(fd, file, &at, (size_t)(SERVER_FILE_BYTES - at));
        if (n == 0 || (n < 0 && !wait_for_room(fd)))
            return false;
    }
    return true;
}

/* Returns false if the connection ends. */
static bool answer(struct thread *t, struct connection *c, const struct request *request)
{
    const struct answer_text *text = answer_to(&t->answers, request);
    bool is_file = request->target == REQUEST_FILE;

    if (t->count + text->count > OUT_BYTES && !send_answers(t, c->fd, 0))
        return false;
    memcpy(t->out + t->count, text->bytes, text->count);
    t->count += text->count;
    c->skip = request->body_bytes;
    if (is_file && !(send_answers(t, c->fd, MSG_MORE) && send_file(c->fd)))
        return false;
    if (request->end != REQUEST_CLOSE)
        return true;
    send_answers(t, c->fd, 0);
    return false;
}

/* Answers the requests that are complete, and keeps the rest. Returns false if the connection ends. */
static bool answer_all(struct thread *t, struct connection *c)
{
    size_t at = 0;

    while (at < c->count) {
        struct request request;
        size_t left = c->count - at;
        ssize_t head;
        if (c->skip > 0) {
            size_t part = c->skip < left ? (size_t)c->skip : left;
            at += part;
            c->skip -= part;
            continue;
        }
        head = request_parse(c->in + at, left, &request);
        if (head < 0 || (head == 0 && left == IN_BYTES))
            return false;
        if (head == 0)
            break;
        at += (size_t)head;
        if (!answer(t, c, &request))
            return false;
    }
    memmove(c->in, c->in + at, c->count - at);
    c->count -= at;
    return send_answers(t, c->fd, 0);
}

/* Reads until there is no more. Returns false if the connection ends. */
static bool serve(struct thread *t, struct connection *c)
{
    for (;;) {
        ssize_t n = recv(c->fd, c->in + c->count, IN_BYTES - c->count, 0);
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        c->count += (size_t)n;
        t->count = 0;
        if (!answer_all(t, c))
            return false;
    }
}

static void *work(void *arg)
{
    struct thread *t = calloc(1, sizeof(*t));

    (void)arg;
    if (!t)
        case_fail("no memory");
    for (;;) {
        struct connection *c = take();
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET | EPOLLONESHOT, .data.ptr = c};
        answers_refresh(&t->answers);
        if (!serve(t, c)) {
            close(c->fd);
            free(c);
        } else if (epoll_ctl(set, EPOLL_CTL_MOD, c->fd, &event) != 0) {
            case_fail("epoll_ctl: %s", strerror(errno));
        }
    }
    return NULL;
}

static void accept_all(int listener)
{
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct connection *c = malloc(sizeof(*c));
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET | EPOLLONESHOT, .data.ptr = c};
        if (!c)
            case_fail("no memory");
        c->fd = fd;
        c->skip = 0;
        c->count = 0;
        if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0)
            case_fail("epoll_ctl: %s", strerror(errno));
    }
    if (errno != EAGAIN && errno != ECONNABORTED)
        case_fail("accept4: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    static struct epoll_event events[EVENTS];
    struct server server = server_open(argc, argv);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    int listener = listener_open();
    pthread_t thread;

    file = server_open_file(&server);
    set = epoll_create1(EPOLL_CLOEXEC);
    if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) != 0)
        case_fail("epoll: %s", strerror(errno));
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, work, NULL) != 0)
            case_fail("no thread");
    listener_announce(listener_port(listener), 0);
    for (;;) {
        int n = epoll_wait(set, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                put(events[i].data.ptr);
            else
                accept_all(listener);
        }
    }
}
