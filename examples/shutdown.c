/*
 * shutdown.c: SIGTERM ends a server gracefully. All connections are children of one scope. weft_scope_stop asks them to
 * stop: an idle connection ends at once, a busy connection answers first. After 3 s the scope cancels what is left.
 *
 *     shutdown [ADDRESS]    a request is a line with a number: the server works for so many ms, then sends it back
 */
#include <error.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

static sigset_t signals;
static int listener;

static int end_reads_at_stop(void *fd)
{
    weft_event_wait(weft_stop_event(), WEFT_FOREVER); /* or the connection has ended, and cancels this child */
    weft_shutdown(*(int *)fd, SHUT_RD);               /* a read that waits for the next request returns 0, the end */
    return 0;
}

static int converse(void *server)
{
    char line[32] = "";
    int fd = weft_accept(listener, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER);
    if (fd < 0)
        return fd == -EBADF ? 0 : fd;        /* 0: the listener was closed */
    weft_scope_go(server, converse, server); /* the next child accepts the next connection */
    WEFT_SCOPE (connection, NULL) {
        weft_scope_go(&connection, end_reads_at_stop, &fd);
        for (ptrdiff_t n; (n = weft_read(fd, line, 31, WEFT_FOREVER)) > 0 && weft_sleep(atoi(line) * WEFT_MS) == 0;)
            weft_write_all(fd, line, (size_t)n, NULL, WEFT_FOREVER);
    }
    return weft_close(fd);
}

static void *serve(void *address)
{
    if ((listener = weft_listen(address)) < 0)
        error(1, -listener, "cannot listen at %s", (char *)address);
    printf("serving at %s, port %d\n", (char *)address, weft_port(listener));
    WEFT_SCOPE (server, NULL) {
        weft_scope_go(&server, converse, &server);
        weft_wait_signal(&signals, NULL, WEFT_FOREVER);
        weft_scope_stop(&server, 3 * WEFT_SEC);
        weft_close(listener);
        puts(weft_scope_wait(&server) == 0 ? "every request was answered" : "some requests were cut off");
    }
    return NULL;
}

int main(int argc, char **argv)
{
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before there are other threads: they inherit it */
    setlinebuf(stdout);
    return weft_run(serve, argc > 1 ? argv[1] : "127.0.0.1:7000", NULL, NULL) < 0;
}
