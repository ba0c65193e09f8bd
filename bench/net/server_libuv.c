/*
 * server_libuv.c: libuv's streams: one buffer for all reads of a loop, an answer goes out by uv_try_write; what does not fit
 * is copied and left to uv_write. Work is done in the callback, a sleep is a timer.
 *
 * With several workers each has a loop and a thread of its own. The first accepts for all and hands connections on in turn:
 * by SO_REUSEPORT they would be spread by a hash, and of 64 one would get ten more than the other.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "../common/case.h"
#include "server.h"

#define WORKERS_MAX 64
#define HANDED_MAX 4096

struct rest {
    uv_write_t request;
    char bytes[];
};

/* A loop, and what it is handed. */
struct worker {
    uv_loop_t loop;
    uv_async_t handed;
    pthread_mutex_t lock;
    int fds[HANDED_MAX]; /* guarded by: lock */
    size_t count;        /* guarded by: lock */
    char *room;
};

struct connection {
    uv_tcp_t stream; /* the first member: streams are cast to connections */
    uv_timer_t nap;
    size_t waiting; /* bytes of the message that is answered after the nap */
    char *message;  /* it; only if the server sleeps */
    unsigned open;  /* handles that are to be closed */
};

static struct server server;
static struct worker workers[WORKERS_MAX];

static void must(int rc, const char *what)
{
    if (rc < 0)
        case_fail("%s: %s", what, uv_strerror(rc));
}

static void lend_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    const struct worker *w = handle->loop->data;

    (void)suggested;
    *buffer = uv_buf_init(w->room, (unsigned)server.room);
}

static void on_close(uv_handle_t *handle)
{
    struct connection *c = handle->data;

    if (--c->open > 0)
        return;
    free(c->message);
    free(c);
}

static void end(struct connection *c)
{
    if (uv_is_closing((uv_handle_t *)&c->stream))
        return;
    uv_close((uv_handle_t *)&c->stream, on_close);
    uv_close((uv_handle_t *)&c->nap, on_close);
}

static void on_written(uv_write_t *request, int status)
{
    if (status < 0)
        end(request->handle->data);
    free(request);
}

static void write_rest(uv_stream_t *stream, const char *bytes, size_t count)
{
    struct rest *rest = server_alloc(sizeof(*rest) + count);
    uv_buf_t buffer = uv_buf_init(rest->bytes, (unsigned)count);

    memcpy(rest->bytes, bytes, count);
    must(uv_write(&rest->request, stream, &buffer, 1, on_written), "uv_write");
}

static void answer(struct connection *c, char *bytes, size_t count)
{
    uv_buf_t buffer = uv_buf_init(bytes, (unsigned)count);
    int sent = uv_try_write((uv_stream_t *)&c->stream, &buffer, 1);

    if (sent == UV_EAGAIN)
        sent = 0;
    if (sent < 0)
        end(c);
    else if ((size_t)sent < count)
        write_rest((uv_stream_t *)&c->stream, bytes + sent, count - (size_t)sent);
}

static void on_nap_over(uv_timer_t *nap)
{
    struct connection *c = nap->data;
    answer(c, c->message, c->waiting);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct connection *c = stream->data;

    if (n < 0) {
        end(c);
    } else if (n > 0 && server.sleeps) {
        memcpy(c->message, buffer->base, (size_t)n);
        c->waiting = (size_t)n;
        must(uv_timer_start(&c->nap, on_nap_over, SERVER_SLEEP_MS, 0), "uv_timer_start");
    } else if (n > 0) {
        if (server.work_us > 0)
            server_work(server.work_us);
        answer(c, buffer->base, (size_t)n);
    }
}

static void take(struct worker *w, int fd)
{
    struct connection *c = server_alloc(sizeof(*c));

    *c = (struct connection){.open = 2, .message = server.sleeps ? server_alloc(server.room) : NULL};
    must(uv_tcp_init(&w->loop, &c->stream), "uv_tcp_init");
    must(uv_timer_init(&w->loop, &c->nap), "uv_timer_init");
    c->stream.data = c->nap.data = c;
    must(uv_tcp_open(&c->stream, fd), "uv_tcp_open");
    must(uv_read_start((uv_stream_t *)&c->stream, lend_room, on_read), "uv_read_start");
}

static void on_handed(uv_async_t *handed)
{
    struct worker *w = handed->loop->data;

    pthread_mutex_lock(&w->lock);
    while (w->count > 0)
        take(w, w->fds[--w->count]);
    pthread_mutex_unlock(&w->lock);
}

static void hand(struct worker *w, int fd)
{
    pthread_mutex_lock(&w->lock);
    if (w->count == HANDED_MAX)
        case_fail("more connections at once than there is room for");
    w->fds[w->count++] = fd;
    pthread_mutex_unlock(&w->lock);
    must(uv_async_send(&w->handed), "uv_async_send");
}

static void on_connection(uv_poll_t *listener, int status, int events)
{
    static unsigned next;
    int fd;

    (void)listener, (void)events;
    must(status, "listen");
    while ((fd = accept4(server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct worker *w = &workers[next++ % server.workers];
        if (w == &workers[0])
            take(w, fd);
        else
            hand(w, fd);
    }
    if (errno != EAGAIN && errno != ECONNABORTED)
        case_fail("accept4: %s", strerror(errno));
}

static void make_worker(struct worker *w)
{
    must(uv_loop_init(&w->loop), "uv_loop_init");
    w->loop.data = w;
    w->room = server_alloc(server.room);
    must(-pthread_mutex_init(&w->lock, NULL), "pthread_mutex_init");
    must(uv_async_init(&w->loop, &w->handed, on_handed), "uv_async_init");
}

static void *run(void *arg)
{
    struct worker *w = arg;
    uv_run(&w->loop, UV_RUN_DEFAULT);
    case_fail("the event loop ended");
}

int main(int argc, char **argv)
{
    uv_poll_t listener;
    pthread_t id;

    server = server_open(argc, argv);
    if (server.workers == 0 || server.workers > WORKERS_MAX)
        case_fail("%u workers", server.workers);
    for (unsigned i = 0; i < server.workers; i++)
        make_worker(&workers[i]);
    must(uv_poll_init(&workers[0].loop, &listener, server.listener), "uv_poll_init");
    must(uv_poll_start(&listener, UV_READABLE, on_connection), "uv_poll_start");
    for (unsigned i = 1; i < server.workers; i++)
        must(-pthread_create(&id, NULL, run, &workers[i]), "pthread_create");
    server_announce(&server);
    run(&workers[0]);
}
