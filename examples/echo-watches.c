/*
 * echo-watches.c: an echo server of callbacks on readiness. A watch fires once; its callback runs in a fiber, so it may
 * wait, and says at its end what to wait for next. A connection that says nothing has no fiber and no stack.
 *
 *     echo-watches [ADDRESS]    serves, by default at 127.0.0.1:7000
 */
#include <error.h>
#include <stdio.h>

#include <weft/weft.h>

static void can_read(int fd, unsigned events, void *arg)
{
    char buffer[4096];
    ptrdiff_t n = weft_read(fd, buffer, sizeof buffer, WEFT_NOW);
    (void)events;
    if (n > 0)
        n = weft_write_all(fd, buffer, (size_t)n, NULL, weft_in(10 * WEFT_SEC));
    if ((n <= 0 && n != -EAGAIN) || weft_watch_add(fd, WEFT_READ, can_read, arg) < 0)
        weft_close(fd); /* the other side has ended, or it is broken */
}

static void can_accept(int listener, unsigned events, void *arg)
{
    int fd;
    (void)events;
    while ((fd = weft_accept(listener, NULL, NULL, SOCK_CLOEXEC, WEFT_NOW)) >= 0) {
        if (weft_watch_add(fd, WEFT_READ, can_read, NULL) < 0)
            weft_close(fd);
    }
    if (fd != -EAGAIN)
        weft_sleep(100 * WEFT_MS); /* too many descriptors, say: in a while there may be fewer */
    weft_watch_add(listener, WEFT_READ, can_accept, arg);
}

static void *first(void *address)
{
    int listener = weft_listen(address);
    int rc = listener < 0 ? listener : weft_watch_add(listener, WEFT_READ, can_accept, NULL);
    if (rc < 0)
        error(1, -rc, "cannot serve at %s", (char *)address);
    printf("serving at %s, port %d\n", (char *)address, weft_port(listener));
    return NULL; /* the runtime stays up as long as something is watched */
}

int main(int argc, char **argv)
{
    setlinebuf(stdout);
    return weft_run(first, argc > 1 ? argv[1] : "127.0.0.1:7000", NULL, NULL) < 0;
}
