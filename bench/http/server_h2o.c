/*
 * server_h2o.c: libh2o on its own event loop. Each worker is a thread with a loop, a context and a listener of its own. The
 * file is served by h2o's handler for files, which reads it into memory and keeps it open.
 */
#include <h2o.h>
#include <string.h>

#include "../common/case.h"
#include "server.h"

#define TIMEOUT_MS 3600000
#define ACCEPTS_A_TURN 64

struct worker {
    h2o_globalconf_t config;
    h2o_context_t context;
    h2o_accept_ctx_t accept;
};

static int hello(h2o_handler_t *self, h2o_req_t *request)
{
    static h2o_generator_t generator = {NULL, NULL};
    h2o_iovec_t body = {(char *)SERVER_HELLO, sizeof(SERVER_HELLO) - 1};

    (void)self;
    if (!h2o_memis(request->method.base, request->method.len, H2O_STRLIT("GET")))
        return -1;
    request->res.status = 200;
    request->res.reason = "OK";
    request->res.content_length = body.len;
    h2o_add_header(&request->pool, &request->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL, H2O_STRLIT("text/plain"));
    h2o_start_response(request, &generator);
    h2o_send(request, &body, 1, H2O_SEND_STATE_FINAL);
    return 0;
}

static void on_accept(h2o_socket_t *listener, const char *error)
{
    struct worker *worker = listener->data;

    for (int i = 0; i < ACCEPTS_A_TURN && !error; i++) {
        h2o_socket_t *socket = h2o_evloop_socket_accept(listener);
        if (!socket)
            return;
        h2o_accept(&worker->accept, socket);
    }
}

static void configure(struct worker *worker, const struct server *server)
{
    h2o_hostconf_t *host;
    h2o_mimemap_type_t *text;

    h2o_config_init(&worker->config);
    worker->config.http1.req_timeout = TIMEOUT_MS;
    host = h2o_config_register_host(&worker->config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    text = h2o_mimemap_get_type_by_extension(worker->config.mimemap, h2o_iovec_init(H2O_STRLIT("txt")));
    h2o_file_register_file(h2o_config_register_path(host, SERVER_FILE, 0), server->file, text, 0);
    h2o_create_handler(h2o_config_register_path(host, "/", 0), sizeof(h2o_handler_t))->on_req = hello;
}

static void serve(const struct server *server, int listener)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    h2o_socket_t *socket;

    if (!worker)
        case_fail("no memory");
    configure(worker, server);
    h2o_context_init(&worker->context, h2o_evloop_create(), &worker->config);
    worker->accept.ctx = &worker->context;
    worker->accept.hosts = worker->config.hosts;
    socket = h2o_evloop_socket_create(worker->context.loop, listener, H2O_SOCKET_FLAG_DONT_READ);
    if (!socket)
        case_fail("no socket");
    socket->data = worker;
    h2o_socket_read_start(socket, on_accept);
    while (h2o_evloop_run(worker->context.loop, INT32_MAX) == 0)
        ;
}

int main(int argc, char **argv)
{
    struct server server = server_open(argc, argv);

    server_run_threads(&server, serve);
}
