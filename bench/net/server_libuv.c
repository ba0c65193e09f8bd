/*
 * server_libuv.c: libuv's streams: one buffer for all reads, an answer goes out by uv_try_write; what does not fit is copied
 * and left to uv_write.
 */
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "../common/case.h"
#include "server.h"

struct rest {
    uv_write_t request;
    char bytes[];
};

static struct server server;
static char *room;

static void must(int rc, const char *what)
{
    if (rc < 0)
        case_fail("%s: %s", what, uv_strerror(rc));
}

static void lend_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    (void)handle, (void)suggested;
    *buffer = uv_buf_init(room, (unsigned)server.room);
}

static void on_close(uv_handle_t *handle)
{
    free(handle);
}

static void end(uv_stream_t *stream)
{
    if (!uv_is_closing((uv_handle_t *)stream))
        uv_close((uv_handle_t *)stream, on_close);
}

static void on_written(uv_write_t *request, int status)
{
    if (status < 0)
        end(request->handle);
    free(request);
}

static void write_rest(uv_stream_t *stream, const char *bytes, size_t count)
{
    struct rest *rest = server_alloc(sizeof(*rest) + count);
    uv_buf_t buffer = uv_buf_init(rest->bytes, (unsigned)count);

    memcpy(rest->bytes, bytes, count);
    must(uv_write(&rest->request, stream, &buffer, 1, on_written), "uv_write");
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    uv_buf_t answer = uv_buf_init(buffer->base, n > 0 ? (unsigned)n : 0);
    int sent;

    if (n == 0)
        return;
    sent = n > 0 ? uv_try_write(stream, &answer, 1) : (int)n;
    if (sent == UV_EAGAIN)
        sent = 0;
    if (sent < 0)
        end(stream);
    else if (sent < n)
        write_rest(stream, buffer->base + sent, (size_t)(n - sent));
}

static void on_connection(uv_stream_t *listener, int status)
{
    uv_tcp_t *stream = server_alloc(sizeof(*stream));

    must(status, "listen");
    must(uv_tcp_init(listener->loop, stream), "uv_tcp_init");
    must(uv_accept(listener, (uv_stream_t *)stream), "uv_accept");
    must(uv_read_start((uv_stream_t *)stream, lend_room, on_read), "uv_read_start");
}

int main(int argc, char **argv)
{
    uv_loop_t *loop = uv_default_loop();
    uv_tcp_t listener;

    server = server_open(argc, argv);
    room = server_alloc(server.room);
    must(uv_tcp_init(loop, &listener), "uv_tcp_init");
    must(uv_tcp_open(&listener, server.listener), "uv_tcp_open");
    must(uv_listen((uv_stream_t *)&listener, SOMAXCONN, on_connection), "uv_listen");
    server_announce(&server);
    uv_run(loop, UV_RUN_DEFAULT);
    case_fail("the event loop ended");
}
