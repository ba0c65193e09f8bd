/*
 * run.c: one run of a case program: start it, wait for its line, make sense of it.
 */
#include "result.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* No case takes nearly that long; one that does hangs. */
#define ANSWER_TIMEOUT_S 120

static void give_up(struct result *r, enum result_state state, const char *text)
{
    r->state = state;
    snprintf(r->text, sizeof(r->text), "%s", text);
}

/* Where the bench program itself lies, with the case programs beside it. */
static void program_path(char path[PATH_MAX], const char *program)
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    char *name;

    path[length > 0 ? length : 0] = '\0';
    name = strrchr(path, '/');
    name = name ? name + 1 : path;
    snprintf(name, (size_t)(path + PATH_MAX - name), "%s", program);
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Reads until the end of the stream. Returns the number of bytes, or -1 if it did not come in time. */
static ssize_t read_answer(int fd, char *line, size_t size)
{
    double end = seconds_now() + ANSWER_TIMEOUT_S;
    size_t got = 0;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        double left = end - seconds_now();
        ssize_t n;
        if (left <= 0 || got == size - 1)
            return -1;
        if (poll(&p, 1, (int)(left * 1000) + 1) <= 0)
            continue;
        n = read(fd, line + got, size - 1 - got);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    line[got] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return (ssize_t)got;
}

/* `through` is the program to start for `path`, or NULL. */
static pid_t start(const char *path, const char *through, int out, const char *bench, const char *library,
                   double budget_ms)
{
    char budget[32];
    pid_t pid;

    snprintf(budget, sizeof(budget), "%g", budget_ms);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        dup2(out, STDOUT_FILENO);
        if (through)
            execl(through, through, bench, library, budget, path, (char *)NULL);
        else
            execl(path, path, bench, library, budget, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void add(struct series *s, double value)
{
    s->values[s->count++] = value;
}

/* The bench's further figures, as far as the parameters "KEY=VALUE ..." have them. */
static void take_figures(struct result *r, const struct bench_figure *figures, const char *params)
{
    for (size_t i = 0; figures && figures[i].key; i++) {
        size_t length = strlen(figures[i].key);
        for (const char *p = params; *p; p += strcspn(p, " "), p += strspn(p, " "))
            if (!strncmp(p, figures[i].key, length) && p[length] == '=')
                add(&r->series[1 + i], strtod(p + length + 1, NULL));
    }
}

/* "ok VALUE PARAMS" or "n/a REASON". */
static void take_answer(struct result *r, const struct bench *bench, const char *line)
{
    char *rest;

    if (!strncmp(line, "n/a ", 4)) {
        give_up(r, RESULT_NA, line + 4);
        return;
    }
    if (!strncmp(line, "ok ", 3)) {
        double value = strtod(line + 3, &rest);
        if (rest != line + 3) {
            add(&r->series[0], value);
            snprintf(r->text, sizeof(r->text), "%s", rest + strspn(rest, " "));
            take_figures(r, bench->figures, r->text);
            return;
        }
    }
    give_up(r, RESULT_FAILED, "the case program gave no answer");
}

static void take_end(struct result *r, const struct bench *bench, int status, ssize_t got, const char *line)
{
    char text[128];

    if (got < 0)
        snprintf(text, sizeof(text), "no answer in %d s", ANSWER_TIMEOUT_S);
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        give_up(r, RESULT_NA, "killed, probably for want of memory");
        return;
    } else if (WIFSIGNALED(status))
        snprintf(text, sizeof(text), "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        snprintf(text, sizeof(text), "a check failed (exit status %d)", WEXITSTATUS(status));
    else {
        take_answer(r, bench, line);
        return;
    }
    give_up(r, RESULT_FAILED, text);
}

static void run_program(struct result *r, const char *path, const struct bench *bench, const struct bench_row *row,
                        double budget_ms)
{
    char line[sizeof(r->text)], through[PATH_MAX];
    int ends[2], status;
    ssize_t got;
    pid_t pid;

    if (pipe(ends) != 0) {
        give_up(r, RESULT_FAILED, strerror(errno));
        return;
    }
    if (row->through)
        program_path(through, row->through);
    pid = start(path, row->through ? through : NULL, ends[1], bench->name, row->library, budget_ms);
    close(ends[1]);
    if (pid < 0) {
        give_up(r, RESULT_FAILED, strerror(errno));
    } else {
        got = read_answer(ends[0], line, sizeof(line));
        if (got < 0)
            kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        take_end(r, bench, status, got, line);
    }
    close(ends[0]);
}

void result_run(struct result *r, const struct bench *bench, const struct bench_row *row, double budget_ms)
{
    char path[PATH_MAX];
    double start_time = seconds_now();

    program_path(path, row->program);
    if (access(path, X_OK) == 0) {
        run_program(r, path, bench, row, budget_ms);
        r->seconds += seconds_now() - start_time;
    } else if (row->package) {
        r->state = RESULT_NA;
        snprintf(r->text, sizeof(r->text), "not installed (package %s)", row->package);
    } else {
        r->state = RESULT_FAILED;
        snprintf(r->text, sizeof(r->text), "%s is missing", row->program);
    }
}
