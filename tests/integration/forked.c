/*
 * Processes that share a listener, forked before any of them has a runtime.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "support/test.h"

enum { PROCESSES = 3, FIBERS = 8, ROUNDS = 30 };

struct ground {
    int listener, ready[2];
    struct sockaddr_un address; /* of the system's choice, without a file */
    socklen_t size;
};

static void *greets(void *arg)
{
    struct ground *g = arg;
    for (int fd; (fd = weft_accept(g->listener, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER)) >= 0; weft_close(fd))
        weft_write_all(fd, "x", 1, NULL, WEFT_FOREVER);
    return NULL;
}

static void *serves(void *arg)
{
    struct ground *g = arg;
    for (int i = 0; i < FIBERS; i++)
        weft_go(greets, g);
    weft_yield(); /* they wait now */
    weft_write_all(g->ready[1], "x", 1, NULL, WEFT_FOREVER);
    return NULL;
}

static pid_t fork_server(struct ground *g)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(weft_run(serves, g, NULL, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 1}) < 0);
    }
    return pid;
}

static bool is_greeted(const struct ground *g)
{
    struct timeval patience = {.tv_sec = 10};
    char c = 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool greeted = setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
                   connect(fd, (const struct sockaddr *)&g->address, g->size) == 0 && read(fd, &c, 1) == 1 && c == 'x';
    close(fd);
    return greeted;
}

/* Each is killed while all wait for a connection; the next one is for those that are left. */
static void run_round(struct ground *g)
{
    pid_t pids[PROCESSES];
    char c;
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork_server(g);
        REQUIRE(pids[i] > 0 && read(g->ready[0], &c, 1) == 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
        CHECK(is_greeted(g));
        kill(pids[i], SIGKILL);
        CHECK_INT(waitpid(pids[i], NULL, 0), ==, pids[i]);
    }
}

TEST(a_process_that_is_killed_keeps_no_connection_from_the_others)
{
    for (int round = 0; round < ROUNDS && !test_has_failed(); round++) {
        struct ground g = {.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                           .address.sun_family = AF_UNIX,
                           .size = sizeof g.address};
        REQUIRE(bind(g.listener, (struct sockaddr *)&g.address, sizeof(sa_family_t)) == 0 && pipe(g.ready) == 0);
        REQUIRE(getsockname(g.listener, (struct sockaddr *)&g.address, &g.size) == 0 && listen(g.listener, 16) == 0);
        run_round(&g);
        close(g.listener);
        close(g.ready[0]);
        close(g.ready[1]);
    }
}

TESTS(integration_forked, a_process_that_is_killed_keeps_no_connection_from_the_others)
