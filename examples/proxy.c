/*
 * proxy.c: passes connections on to another address. Two fibers for each: one copies there, the other back. The end of one
 * side is passed on as just that: the other side may go on sending.
 *
 *     proxy ADDRESS TARGET    for example: proxy 127.0.0.1:7001 127.0.0.1:7000
 */
#include <error.h>
#include <stdio.h>

#include <weft/weft.h>

struct way {
    int from, to;
};

static void *copy(void *arg)
{
    struct way *way = arg;
    char buffer[8192];
    ptrdiff_t n;
    while ((n = weft_read(way->from, buffer, sizeof buffer, WEFT_FOREVER)) > 0) {
        if (weft_write_all(way->to, buffer, (size_t)n, NULL, weft_in(60 * WEFT_SEC)) < 0)
            break;
    }
    weft_shutdown(way->to, n == 0 ? SHUT_WR : SHUT_RDWR); /* one way has ended; if it is broken, both are over */
    return NULL;
}

static void pass_on(int client, void *target)
{
    int server = weft_dial(target, weft_in(10 * WEFT_SEC));
    struct way there = {client, server}, back = {server, client};
    weft_fiber *copier;
    if (server >= 0 && weft_go_with(&copier, NULL, copy, &back) == 0) {
        copy(&there);
        weft_join(copier, NULL, WEFT_FOREVER); /* it uses `back`, and both descriptors */
    }
    weft_close(server);
}

static void *serve(void *arg)
{
    char **args = arg;
    int rc = weft_listen(args[1]);
    if (rc >= 0) {
        printf("serving at %s, port %d\n", args[1], weft_port(rc));
        rc = weft_serve(rc, pass_on, args[2], NULL, WEFT_FOREVER);
    }
    error(1, -rc, "cannot serve at %s", args[1]);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        error(2, 0, "usage: proxy ADDRESS TARGET");
    setlinebuf(stdout);
    return weft_run(serve, argv, NULL, NULL) < 0;
}
