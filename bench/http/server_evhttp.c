/*
 * server_evhttp.c: libevent's evhttp, with libevent's list of changes and without its locks. Each worker is a thread with a
 * base and a listener of its own. The file is a segment that is made once: evhttp sends it by sendfile.
 */
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <string.h>
#include <sys/queue.h>

#include "../common/case.h"
#include "server.h"

struct worker {
    struct evbuffer_file_segment *file;
};

static void type_is_text(struct evhttp_request *request)
{
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", "text/plain");
}

static void hello(struct evhttp_request *request, void *arg)
{
    struct evbuffer *out = evhttp_request_get_output_buffer(request);

    (void)arg;
    type_is_text(request);
    if (evbuffer_add_reference(out, SERVER_HELLO, sizeof(SERVER_HELLO) - 1, NULL, NULL) != 0)
        case_fail("evbuffer_add_reference");
    evhttp_send_reply(request, HTTP_OK, "OK", NULL);
}

static void file(struct evhttp_request *request, void *arg)
{
    struct worker *worker = arg;
    struct evbuffer *out = evhttp_request_get_output_buffer(request);

    type_is_text(request);
    if (evbuffer_add_file_segment(out, worker->file, 0, SERVER_FILE_BYTES) != 0)
        case_fail("evbuffer_add_file_segment");
    evhttp_send_reply(request, HTTP_OK, "OK", NULL);
}

static void serve(const struct server *server, int listener)
{
    struct event_config *config = event_config_new();
    struct worker worker;
    struct event_base *base;
    struct evhttp *http;

    if (!config || event_config_set_flag(config, EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST | EVENT_BASE_FLAG_NOLOCK) != 0 ||
        !(base = event_base_new_with_config(config)) || !(http = evhttp_new(base)))
        case_fail("no event base");
    worker.file = evbuffer_file_segment_new(server_open_file(server), 0, SERVER_FILE_BYTES, EVBUF_FS_CLOSE_ON_FREE);
    if (!worker.file || evhttp_set_cb(http, "/", hello, NULL) != 0 ||
        evhttp_set_cb(http, SERVER_FILE, file, &worker) != 0 || evhttp_accept_socket(http, listener) != 0)
        case_fail("evhttp cannot begin");
    event_base_dispatch(base);
}

int main(int argc, char **argv)
{
    struct server server = server_open(argc, argv);

    server_run_threads(&server, serve);
}
