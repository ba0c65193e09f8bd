/*
 * An outside program with an HTTP server: it serves at a free port, asks its own server once, and checks the answer.
 */
#include <stdio.h>
#include <string.h>

#include <weft/http.h>
#include <weft/weft.h>

static int listener;

static int greet(weft_exchange *x, void *arg)
{
    const char *name = weft_http_param(x, "name");
    (void)arg;
    return weft_http_reply(x, 200, "text/plain", name, strlen(name));
}

static void *serve(void *server)
{
    return weft_http_serve(server, listener, WEFT_FOREVER) == 0 ? server : NULL;
}

/* Reads the answer, behind which the server closes the connection. */
static void ask(int port, char *answer, size_t size)
{
    static const char request[] = "GET /hello/weft HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char address[32];
    size_t got = 0;
    ptrdiff_t n = 0;
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    int fd = weft_dial(address, weft_in(10 * WEFT_SEC));
    if (fd >= 0 && weft_write_all(fd, request, sizeof request - 1, NULL, weft_in(10 * WEFT_SEC)) > 0) {
        while (got < size - 1 && (n = weft_read(fd, answer + got, size - 1 - got, weft_in(10 * WEFT_SEC))) > 0)
            got += (size_t)n;
    }
    answer[got] = '\0';
    if (fd >= 0)
        weft_close(fd);
}

static void *first(void *arg)
{
    weft_http *server = NULL;
    weft_fiber *serving = NULL;
    void *ended = NULL;
    char answer[512];
    listener = weft_listen("127.0.0.1:0");
    if (listener < 0 || weft_http_new(&server, NULL) != 0 ||
        weft_http_route(server, "GET /hello/{name}", greet, NULL) != 0 ||
        weft_go_with(&serving, NULL, serve, server) != 0)
        return NULL;
    ask(weft_port(listener), answer, sizeof answer);
    int is_right = strncmp(answer, "HTTP/1.1 200 OK\r\n", 17) == 0 && strstr(answer, "\r\n\r\nweft");
    weft_http_stop(server);
    weft_join(serving, &ended, WEFT_FOREVER);
    weft_close(listener);
    return is_right && ended == server && weft_http_free(server) == 0 ? arg : NULL;
}

int main(void)
{
    void *value = NULL;
    return weft_run(first, &listener, &value, NULL) != 0 || value != &listener;
}
