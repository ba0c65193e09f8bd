/*
 * tests/support/test.c: records of failures and the small helpers of test.h; the runners are runner_*.c.
 */
#include "support/test.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/runner.h"

/* Failures are counted in memory that forked children share. */
static int *failures(void)
{
    static int *shared; /* const after the first call, which is test_main's */
    if (!shared)
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared;
}

static const char *skipped; /* the reason, while a test runs */

void test_failed(const char *file, int line, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "%s:%d: %s\n", file, line, text);
    __atomic_add_fetch(failures(), 1, __ATOMIC_RELAXED);
}

bool test_has_failed(void)
{
    return __atomic_load_n(failures(), __ATOMIC_RELAXED) != 0;
}

void test_skip(const char *reason)
{
    skipped = reason;
}

void test_check_str(const char *file, int line, const char *what, const char *a, const char *b)
{
    if (!a || !b || strcmp(a, b) != 0)
        test_failed(file, line, "%s is \"%s\", not \"%s\"", what, a ? a : "(null)", b ? b : "(null)");
}

enum test_result test_run_one(const struct test *test)
{
    __atomic_store_n(failures(), 0, __ATOMIC_RELAXED);
    skipped = NULL;
    test->run();
    fflush(stdout);
    if (test_has_failed())
        return TEST_FAILED;
    if (skipped)
        fprintf(stderr, "skipped: %s: %s\n", test->name, skipped);
    return skipped ? TEST_SKIPPED : TEST_PASSED;
}

static size_t read_all(int fd, char *text, size_t room)
{
    size_t n = 0;
    for (;;) {
        ssize_t got = read(fd, text + n, room - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
        if (n == room - 1) { /* the rest is read and dropped */
            n = room / 2;
        }
    }
    text[n] = '\0';
    return n;
}

void test_forget_emulator(char *said)
{
    for (char *line = said; TEST_EMULATED && *line;) {
        char *next = line + strcspn(line, "\n");
        next += *next == '\n';
        if (strncmp(line, "qemu: ", 6) == 0)
            memmove(line, next, strlen(next) + 1);
        else
            line = next;
    }
}

void test_child(const char *file, int line, void (*fn)(void *), void *arg, int signal, const char *say)
{
    int pipefd[2], status, failed_before = *failures();
    char said[16384];
    fflush(stdout);
    if (pipe(pipefd) != 0) {
        test_failed(file, line, "pipe: %s", strerror(errno));
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        dup2(pipefd[1], STDERR_FILENO);
        close(pipefd[0]);
        close(pipefd[1]);
        fn(arg);
        _exit(0);
    }
    close(pipefd[1]);
    read_all(pipefd[0], said, sizeof said);
    close(pipefd[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    int ended_by = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) != 0 ? TEST_EXITS : 0;
    if (ended_by != signal)
        test_failed(file, line, "the child ended by signal %d, not %d (%d: a status that is not 0); it said: %s",
                    ended_by, signal, TEST_EXITS, said);
    else if (say && !strstr(said, say))
        test_failed(file, line, "the child did not say \"%s\" but: %s", say, said);
    else if (*failures() != failed_before)
        fprintf(stderr, "%s:%d: in the child: %s", file, line, said);
}

uint64_t test_seed(void)
{
    const char *given = getenv("WEFT_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)now.tv_nsec * 2654435761u + (uint64_t)now.tv_sec;
    if (seed == 0)
        seed = 1;
    printf("seed %llu (set WEFT_SEED to repeat)\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

uint64_t test_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 2685821657736338717u;
}

size_t test_memory(void)
{
    size_t kib = 0, part;
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmRSS: %zu", &part) == 1 || sscanf(line, "VmPTE: %zu", &part) == 1)
            kib += part;
    }
    if (f)
        fclose(f);
    return kib * 1024;
}
