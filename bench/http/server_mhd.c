/*
 * server_mhd.c: libmicrohttpd on epoll with a pool of as many threads as there are workers. Both answers are made once; the
 * file goes out by sendfile.
 */
#include <microhttpd.h>
#include <string.h>
#include <unistd.h>

#include "../common/case.h"
#include "../common/listener.h"
#include "server.h"

#define CONNECTIONS_MAX 20000

static struct MHD_Response *hello, *file;

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **request)
{
    static char seen;

    (void)arg, (void)version, (void)upload, (void)upload_size;
    /* The first call is for the head. An answer to that would close the connection. */
    if (!*request) {
        *request = &seen;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
        return MHD_NO;
    if (!strcmp(url, "/"))
        return MHD_queue_response(connection, MHD_HTTP_OK, hello);
    if (!strcmp(url, SERVER_FILE))
        return MHD_queue_response(connection, MHD_HTTP_OK, file);
    return MHD_NO;
}

static void make_answers(const struct server *server)
{
    hello = MHD_create_response_from_buffer(sizeof(SERVER_HELLO) - 1, (void *)SERVER_HELLO, MHD_RESPMEM_PERSISTENT);
    file = MHD_create_response_from_fd(SERVER_FILE_BYTES, server_open_file(server));
    if (!hello || !file || MHD_add_response_header(hello, "Content-Type", "text/plain") != MHD_YES ||
        MHD_add_response_header(file, "Content-Type", "text/plain") != MHD_YES)
        case_fail("no answers");
}

int main(int argc, char **argv)
{
    struct server server = server_open(argc, argv);
    int listener = listener_open();
    struct MHD_OptionItem pool[] = {
        {MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)server.workers, NULL},
        {MHD_OPTION_END, 0, NULL},
    };

    if (server.workers == 1)
        pool[0].option = MHD_OPTION_END; /* the daemon's own thread is the one */
    make_answers(&server);
    if (!MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TURBO, 0, NULL, NULL, handle, NULL,
                          MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
                          MHD_OPTION_ARRAY, pool, MHD_OPTION_END))
        case_fail("the daemon did not start");
    listener_announce(listener_port(listener), 0);
    for (;;)
        pause();
}
