/*
 * idle.c: connections that say nothing for a while are closed, by a timer that every read sets back. Its callback runs beside
 * the connection's fiber, so the descriptor belongs to a weft_alive: it is closed when neither uses it any more.
 *
 *     idle [ADDRESS]    echoes, by default at 127.0.0.1:7000, until there are two seconds of silence
 */
#include <error.h>
#include <stdio.h>

#include <weft/weft.h>

static const weft_span limit = 2 * WEFT_SEC;

static void hang_up(void *fd)
{
    weft_shutdown((int)(intptr_t)fd, SHUT_RDWR); /* the connection's fiber reads the end */
}

static void release(void *fd)
{
    weft_close((int)(intptr_t)fd);
}

static void *echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buffer[4096];
    weft_alive *alive = NULL;
    weft_timer *timer = NULL;
    if (weft_alive_new(&alive, arg, release) < 0)
        release(arg);
    else if (weft_timer_new(&timer, limit, false, alive, hang_up, arg) == 0)
        for (ptrdiff_t n; (n = weft_read(fd, buffer, sizeof buffer, WEFT_FOREVER)) > 0; weft_timer_refresh(timer))
            weft_write_all(fd, buffer, (size_t)n, NULL, weft_in(limit));
    weft_timer_free(timer);
    weft_alive_drop(alive); /* releases it: now, or when a callback that is under way has returned */
    return NULL;
}

static void *serve(void *address)
{
    int listener = weft_listen(address);
    if (listener < 0)
        error(1, -listener, "cannot listen at %s", (char *)address);
    printf("serving at %s, port %d\n", (char *)address, weft_port(listener));
    while (!weft_cancelled()) {
        int fd = weft_accept(listener, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER);
        if (fd < 0)
            weft_sleep(100 * WEFT_MS); /* too many descriptors, say: in a while there may be fewer */
        else if (weft_go(echo, (void *)(intptr_t)fd) < 0)
            weft_close(fd);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    setlinebuf(stdout);
    return weft_run(serve, argc > 1 ? argv[1] : "127.0.0.1:7000", NULL, NULL) < 0;
}
