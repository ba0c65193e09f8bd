/*
 * echo-server.c: one fiber for each connection, written as if each had a thread.
 *
 *     echo-server [ADDRESS]      serves until it is ended, by default at 127.0.0.1:7000
 *     echo-server --self-test    serves a hundred clients of its own, and ends
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

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

static void *client(void *address)
{
    char buffer[16] = "";
    int fd = weft_dial(address, weft_in(5 * WEFT_SEC));
    bool right = fd >= 0 && weft_write_all(fd, "hello", 5, NULL, WEFT_FOREVER) == 5 &&
                 weft_read_full(fd, buffer, 5, NULL, weft_in(5 * WEFT_SEC)) == 5 && strcmp(buffer, "hello") == 0;
    if (fd >= 0)
        weft_close(fd);
    return right ? address : NULL;
}

static void *clients(void *listener)
{
    weft_fiber *f[100];
    char address[32];
    int right = 0;
    snprintf(address, sizeof address, "127.0.0.1:%d", weft_port(*(int *)listener));
    for (int i = 0; i < 100; i++)
        weft_go_with(&f[i], NULL, client, address);
    for (int i = 0; i < 100; i++) {
        void *value;
        right += weft_join(f[i], &value, WEFT_FOREVER) == 0 && value;
    }
    printf("%d of 100 clients were answered, by %s\n", right, weft_io_backend());
    weft_close(*(int *)listener); /* ends serving */
    return NULL;
}

static void *server(void *address)
{
    bool tests_itself = strcmp(address, "--self-test") == 0;
    int listener = weft_listen(tests_itself ? "127.0.0.1:0" : address);
    if (listener < 0) {
        fprintf(stderr, "cannot listen at %s: %s\n", (char *)address, strerror(-listener));
        return NULL;
    }
    if (tests_itself)
        weft_go(clients, &listener);
    return weft_serve(listener, echo, NULL, NULL, WEFT_FOREVER) == -EBADF ? address : NULL;
}

int main(int argc, char **argv)
{
    void *value = NULL;
    int rc = weft_run(server, argc > 1 ? argv[1] : "127.0.0.1:7000", &value, NULL);
    return rc < 0 || !value;
}
