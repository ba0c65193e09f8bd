/*
 * tests/clients/interpreter.c: see interpreter.h.
 */
#include "clients/interpreter.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

enum { LIMIT_S = 60, NO_TICKS = 99, TICKS = 20, STACK = 8 << 20 };

static const struct interpreter *interpreter;
static const char *self; /* the program's path */

/* --- in the process that is the interpreter --- */

static int ticks; /* owner: worker 0 */

static void *tick(void *arg)
{
    for (;;) {
        if (weft_sleep(WEFT_MS) != 0)
            return arg;
        ticks++;
    }
}

struct call {
    int argc, status;
    char **argv;
};

static void *call_main(void *arg)
{
    struct call *c = arg;
    weft_attr attr = {.size = sizeof attr, .name = "ticker", .worker = WEFT_WORKER(0)};
    weft_fiber *ticker;
    if (weft_go_with(&ticker, &attr, tick, NULL) != 0)
        abort();
    c->status = interpreter->main(c->argc, c->argv);
    weft_cancel(ticker);
    weft_join(ticker, NULL, WEFT_FOREVER);
    return NULL;
}

static int be_interpreter(int argc, char **argv)
{
    weft_sched_opts opts = {.size = sizeof opts, .threads = 2, .stack = STACK};
    struct call c = {.argc = argc, .argv = argv};
    if (weft_run(call_main, &c, NULL, &opts) != 0)
        abort();
    return c.status == 0 && ticks < TICKS && getenv("WEFT_TICKS") ? NO_TICKS : c.status;
}

/* --- in the tests --- */

static pid_t start(const char *text, bool wants_ticks, int *out)
{
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0)
        abort();
    pid_t child = fork();
    if (child == 0) {
        dup2(pipe_ends[1], STDOUT_FILENO);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        if (wants_ticks)
            setenv("WEFT_TICKS", "1", 1);
        execl(self, self, "--main", interpreter->option, text, (char *)NULL);
        _exit(127);
    }
    close(pipe_ends[1]);
    *out = pipe_ends[0];
    return child;
}

void interpreter_check(const char *file, int line, const char *text, int number, int status, const char *last,
                       bool wants_ticks)
{
    char said[4096] = "";
    size_t bytes = 0;
    int out, came = -1;
    pid_t child = start(text, wants_ticks, &out);
    weft_time limit = weft_in(LIMIT_S * WEFT_SEC);
    bool late = false;
    for (struct pollfd p = {.fd = out, .events = POLLIN};;) {
        if (poll(&p, 1, 100) == 1) {
            ssize_t n = read(out, said + bytes, sizeof said - 1 - bytes);
            if (n <= 0)
                break;
            bytes += (size_t)n;
            said[bytes] = '\0';
        } else if (number != 0 && strstr(said, "ready\n")) {
            kill(child, number);
        }
        late = weft_now().ns >= limit.ns;
        if (late) {
            kill(child, SIGKILL);
            break;
        }
    }
    close(out);
    waitpid(child, &came, 0);
    while (bytes > 0 && said[bytes - 1] == '\n')
        said[--bytes] = '\0';
    const char *before = strrchr(said, '\n'), *final = before ? before + 1 : said;
    if (late)
        test_failed(file, line, "it did not end; its last line: %s", final);
    else if (came != status || (last && strcmp(final, last) != 0))
        test_failed(file, line, "it ended with %#x, and not with %#x; its last line: %s", (unsigned)came,
                    (unsigned)status, final);
}

int interpreter_main(const struct interpreter *it, int argc, char **argv, const struct test *tests, size_t count)
{
    interpreter = it;
    self = "/proc/self/exe";
    if (argc > 1 && strcmp(argv[1], "--main") == 0) {
        argv[1] = argv[0];
        return be_interpreter(argc - 1, argv + 1);
    }
    return test_main(it->name, tests, count);
}
