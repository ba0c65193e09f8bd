/*
 * server_weft.c: weft's HTTP server, on each driver and in each way to run it. The name of the library says which:
 * weft-epoll and weft-uring are the two drivers, with private stacks and one scheduler.
 *
 *      -shared     connections run on a pool of shared stacks
 *      -warm       each worker makes stacks for connections at its start
 *      -acceptor   a scheduler of its own accepts the connections, another one serves them
 */
#include <errno.h>
#include <string.h>

#include "../common/case.h"
#include "../common/listener.h"
#include "server.h"
#include <weft/http.h>
#include <weft/io.h>
#include <weft/sched.h>
#include <weft/stack.h>

#define SHARED_STACKS 4
#define WARM_STACKS 1024
#define CONNECTIONS_MAX 100000

static struct server server;
static weft_http_opts opts = {.size = sizeof(opts), .max_conns = CONNECTIONS_MAX, .max_per_address = CONNECTIONS_MAX};

static void check(const char *what, int rc)
{
    if (rc != 0)
        case_fail("%s: %s", what, strerror(-rc));
}

static bool runs(const char *way)
{
    return strstr(server.library, way) != NULL;
}

static int hello(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, "text/plain", SERVER_HELLO, sizeof(SERVER_HELLO) - 1);
}

static void *serve(void *arg)
{
    const char *backend = arg;
    int listener = listener_open();
    weft_http *http;

    if (strcmp(weft_io_backend(), backend) != 0)
        case_na("the driver is %s", weft_io_backend());
    check("weft_http_new", weft_http_new(&http, &opts));
    check("weft_http_route", weft_http_route(http, "GET /", hello, NULL));
    check("weft_http_files", weft_http_files(http, "/", server.site, NULL));
    listener_announce(listener_port(listener), 0);
    check("weft_http_serve", weft_http_serve(http, listener, WEFT_FOREVER));
    case_fail("the server has ended");
}

int main(int argc, char **argv)
{
    weft_sched_opts sched = {.size = sizeof(sched)};

    server = server_open(argc, argv);
    sched.threads = server.workers;
    sched.io = runs("uring") ? WEFT_IO_URING : WEFT_IO_EPOLL;
    if (runs("-warm"))
        sched.warm = sched.warm_max = WARM_STACKS;
    if (runs("-shared"))
        check("weft_stacks_new", weft_stacks_new(&opts.shared, SHARED_STACKS, 0));
    if (runs("-acceptor")) {
        check("weft_sched_new", weft_sched_new(&opts.on, &sched));
        check("weft_sched_start", weft_sched_start(opts.on));
        sched.threads = 1;
    }
    check("weft_run", weft_run(serve, runs("uring") ? "io_uring" : "epoll", NULL, &sched));
}
