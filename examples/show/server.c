/*
 * server.c: see server.h.
 */
#include "server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "fail.h"

#define PATIENCE (10 * WEFT_SEC)

/* Its next line, without the newline. Works in a fiber and before there are any. */
static void read_line(const struct server *server, char *line, size_t size)
{
    weft_time deadline = weft_in(PATIENCE);
    for (size_t used = 0; used < size; used++) {
        ptrdiff_t n = weft_read(server->words, line + used, 1, deadline);
        if (n <= 0)
            fail((int)-n, "the server says nothing more");
        if (line[used] == '\n') {
            line[used] = '\0';
            return;
        }
    }
    fail(0, "the server says too much: %.*s", (int)size, line);
}

void server_start(struct server *server, const char *program)
{
    char line[128];
    int ends[2], port;
    if (pipe(ends) != 0 || (server->pid = fork()) < 0)
        fail(errno, "cannot start the server");
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(program, program, "127.0.0.1:0", (char *)NULL);
        fail(errno, "cannot run %s", program);
    }
    close(ends[1]);
    server->words = ends[0];
    read_line(server, line, sizeof line);
    if (sscanf(line, "serving at 127.0.0.1:0, port %d, by %15s", &port, server->backend) != 2)
        fail(0, "the server says: %s", line);
    snprintf(server->address, sizeof server->address, "127.0.0.1:%d", port);
}

unsigned server_fibers(const struct server *server)
{
    char line[32];
    unsigned fibers;
    if (kill(server->pid, SIGUSR1) != 0)
        fail(errno, "cannot reach the server");
    read_line(server, line, sizeof line);
    if (sscanf(line, "%u fibers", &fibers) != 1)
        fail(0, "the server says: %s", line);
    return fibers;
}

double server_memory(const struct server *server)
{
    char path[64], line[128];
    double sum = 0, kib;
    snprintf(path, sizeof path, "/proc/%d/status", (int)server->pid);
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

void server_end(const struct server *server)
{
    int status;
    kill(server->pid, SIGTERM);
    int rc = weft_wait_child(server->pid, &status, weft_in(PATIENCE));
    if (rc < 0)
        fail(-rc, "the server does not end");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail(0, "the server ended with status 0x%x", (unsigned)status);
}
