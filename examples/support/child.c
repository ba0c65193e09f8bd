/*
 * child.c: see child.h.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "fail.h"

#define OTHER_DESCRIPTORS 64 /* in either process, beside one for each connection */

static void become(pid_t parent, const char *const words[], int output, bool apart)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before */
        _exit(1);
    if (apart)
        setpgid(0, 0);
    dup2(output, STDOUT_FILENO);
    execv(words[0], (char *const *)words);
    fail(errno, "cannot run %s", words[0]);
}

void child_start(struct child *child, const char *const words[], bool apart)
{
    int ends[2];
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0 || (child->pid = fork()) < 0)
        fail(errno, "cannot start the server");
    if (child->pid == 0)
        become(parent, words, ends[1], apart);
    close(ends[1]);
    child->words = ends[0];
}

bool child_try_line(const struct child *child, char *line, size_t size)
{
    weft_time deadline = weft_in(CHILD_PATIENCE);
    for (size_t used = 0; used < size; used++) {
        ptrdiff_t n = weft_read(child->words, line + used, 1, deadline);
        if (n == 0)
            return false;
        if (n < 0)
            fail((int)-n, "the server says nothing");
        if (line[used] == '\n') {
            line[used] = '\0';
            return true;
        }
    }
    fail(0, "the server says too much: %.*s", (int)size, line);
}

void child_read_line(const struct child *child, char *line, size_t size)
{
    if (!child_try_line(child, line, size))
        fail(0, "the server says nothing more");
}

double child_memory(const struct child *child)
{
    char path[64], line[128];
    double sum = 0, kib;
    snprintf(path, sizeof path, "/proc/%d/status", (int)child->pid);
    FILE *status = fopen(path, "re");
    if (!status)
        fail(errno, "%s", path);
    while (fgets(line, sizeof line, status)) {
        if (sscanf(line, "VmRSS: %lf", &kib) == 1 || sscanf(line, "VmPTE: %lf", &kib) == 1)
            sum += kib * 1024;
    }
    fclose(status);
    return sum;
}

void child_forget(const struct child *child)
{
    close(child->words);
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

bool child_wait(const struct child *child, weft_time deadline)
{
    int status;
    int rc = weft_wait_child(child->pid, &status, deadline);
    if (rc < 0)
        fail(-rc, "the server does not end");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void child_end(const struct child *child)
{
    kill(child->pid, SIGTERM);
    if (!child_wait(child, weft_in(CHILD_PATIENCE)))
        fail(0, "the server did not end well");
}

void child_allow_connections(unsigned count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail(errno, "getrlimit");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < count + OTHER_DESCRIPTORS)
        fail(0, "this process may have %llu descriptors: too few for %u connections (--connections N)",
             (unsigned long long)limit.rlim_cur, count);
}
