/*
 * echo-forked.c: several processes accept from one listener, each by a fixed number of fibers. They are forked before there
 * is a runtime. One that dies takes its own connections along; the others go on.
 *
 *     echo-forked [ADDRESS [--self-test]]    serves, by default at 127.0.0.1:7000; or kills its processes one by one
 */
#include <error.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

enum { PROCESSES = 3, FIBERS = 8 };

static void *serve(void *listener)
{
    char buffer[4096];
    for (int fd; (fd = weft_accept(*(int *)listener, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER)) >= 0; weft_close(fd))
        for (ptrdiff_t n; (n = weft_read(fd, buffer, sizeof buffer, weft_in(60 * WEFT_SEC))) > 0;)
            weft_write_all(fd, buffer, (size_t)n, NULL, weft_in(10 * WEFT_SEC));
    return NULL;
}

static void *serve_all(void *listener)
{
    for (int i = 0; i < FIBERS; i++)
        weft_go(serve, listener);
    return NULL;
}

static void *try_it(void *address)
{
    char answer[] = "nothing";
    int fd = weft_dial(address, weft_in(5 * WEFT_SEC));
    weft_write_all(fd, "hello", 6, NULL, weft_in(5 * WEFT_SEC));
    weft_read_full(fd, answer, 6, NULL, weft_in(5 * WEFT_SEC));
    weft_close(fd);
    printf("%s\n", answer);
    return NULL;
}

int main(int argc, char **argv)
{
    char *address = argc > 1 ? argv[1] : "127.0.0.1:7000";
    int listener = weft_listen(address);
    pid_t pids[PROCESSES];
    if (listener < 0)
        error(1, -listener, "cannot listen at %s", address);
    for (int i = 0; i < PROCESSES; i++)
        if ((pids[i] = fork()) == 0)
            return weft_run(serve_all, &listener, NULL, NULL) < 0;
    for (int left = PROCESSES; left > 0; left--, wait(NULL)) {
        if (argc > 2 && pids[left - 1] > 0) {
            weft_run(try_it, address, NULL, NULL);
            kill(pids[left - 1], SIGKILL);
        }
    }
    return 0;
}
