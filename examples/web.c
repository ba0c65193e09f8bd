/*
 * web.c: an HTTP server. A handler is plain blocking code in the fiber of its connection: it may sleep, query a
 * database or wait for other fibers. If the client hangs up, the handler's waits return -ECANCELED.
 *
 *     web [ADDRESS]    then: curl http://127.0.0.1:7000/hello/you
 *                            curl -d "some text" http://127.0.0.1:7000/count
 *                            curl -N http://127.0.0.1:7000/ticks
 *
 * Ctrl-C ends it: handlers are asked to stop, and their answers still go out.
 */
#include <errno.h>
#include <error.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <weft/http.h>
#include <weft/weft.h>

static sigset_t signals;

static int hello(weft_exchange *x, void *arg)
{
    const char *name = weft_http_param(x, "name");
    char *text = weft_http_alloc(x, strlen(name) + 16); /* freed when the handler has returned */
    (void)arg;
    return text ? weft_http_reply(x, 200, "text/plain", text, (size_t)sprintf(text, "hello, %s\n", name)) : -ENOMEM;
}

static int count(weft_exchange *x, void *arg) /* reads a body in parts; the default limit is 1 MiB */
{
    char part[4096], text[40];
    ptrdiff_t n, bytes = 0;
    (void)arg;
    while ((n = weft_http_read(x, part, sizeof part, WEFT_FOREVER)) > 0)
        bytes += n;
    if (n < 0)
        return (int)n; /* the server answers: 413 for -EFBIG, 400 for -EBADMSG, ... */
    return weft_http_reply(x, 200, "text/plain", text, (size_t)sprintf(text, "%td bytes\n", bytes));
}

static int ticks(weft_exchange *x, void *arg) /* server-sent events: new EventSource("/ticks") in a browser */
{
    char number[16];
    (void)arg;
    int rc = weft_http_events(x), waited = -ETIMEDOUT;
    for (int i = 1; rc == 0 && waited == -ETIMEDOUT; i++) { /* 0: the server stops; -ECANCELED: the client is gone */
        sprintf(number, "%d", i);
        rc = weft_http_event(x, "tick", number);
        waited = weft_event_wait(weft_stop_event(), weft_in(100 * WEFT_MS));
    }
    return rc;
}

static int stop_at_signal(void *h)
{
    weft_wait_signal(&signals, NULL, WEFT_FOREVER);
    return weft_http_stop(h); /* handlers have opts.grace to end */
}

static void *serve(void *address)
{
    weft_http *h;
    int listener = weft_listen(address), rc = weft_http_new(&h, NULL);
    if (listener < 0 || rc != 0)
        error(1, listener < 0 ? -listener : -rc, "cannot serve at %s", (char *)address);
    weft_http_route(h, "GET /hello/{name}", hello, NULL);
    weft_http_route(h, "POST /count", count, NULL);
    weft_http_route(h, "GET /ticks", ticks, NULL);
    weft_http_files(h, "/files/", ".", NULL);
    WEFT_SCOPE (server, NULL) { /* its end waits for stop_at_signal, which uses h */
        weft_scope_go(&server, stop_at_signal, h);
        printf("serving at %s, port %d\n", (char *)address, weft_port(listener));
        weft_http_serve(h, listener, WEFT_FOREVER);
    }
    return weft_http_free(h) == 0 ? NULL : h;
}

int main(int argc, char **argv)
{
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT); /* Ctrl-C */
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before there are other threads, which inherit the mask */
    setlinebuf(stdout);
    return weft_run(serve, argc > 1 ? argv[1] : "127.0.0.1:7000", NULL, NULL) < 0;
}
