/*
 * echo-server.c: one fiber for each connection, written as if each had a thread. Signals come to a fiber, too.
 *
 *     echo-server [ADDRESS]    serves, by default at 127.0.0.1:7000, until SIGINT or SIGTERM; SIGUSR1: counts its fibers
 */
#include <error.h>
#include <stdio.h>

#include <weft/weft.h>

static sigset_t signals;
static int listener;

static void echo(int fd, void *arg)
{
    char buffer[4096];
    ptrdiff_t n;
    (void)arg;
    while ((n = weft_read(fd, buffer, sizeof buffer, weft_in(60 * WEFT_SEC))) > 0) {
        if (weft_write_all(fd, buffer, (size_t)n, NULL, weft_in(10 * WEFT_SEC)) < 0)
            break;
    }
}

static void *obey(void *arg)
{
    weft_sched_figures now = {.size = sizeof now};
    while (weft_wait_signal(&signals, NULL, WEFT_FOREVER) == SIGUSR1) {
        weft_sched_stats(weft_sched_current(), &now);
        printf("%d fibers\n", (int)(now.spawned - now.ended));
    }
    weft_close(listener); /* ends weft_serve: connections have 5 s to end, then their calls return -ECANCELED */
    return arg;
}

static void *serve(void *address)
{
    int rc = listener = weft_listen(address);
    if (rc >= 0) {
        printf("serving at %s, port %d, by %s\n", (char *)address, weft_port(listener), weft_io_backend());
        weft_go(obey, NULL);
        rc = weft_serve(listener, echo, NULL, NULL, WEFT_FOREVER);
    }
    if (rc != 0)
        error(1, -rc, "cannot serve at %s", (char *)address);
    return NULL;
}

int main(int argc, char **argv)
{
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before there are other threads: they inherit it */
    setlinebuf(stdout);
    return weft_run(serve, argc > 1 ? argv[1] : "127.0.0.1:7000", NULL, NULL) < 0;
}
