/*
 * server.c: see server.h.
 */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../common/case.h"
#include "../common/listener.h"

#define WORKERS_MAX 64

struct worker {
    const struct server *server;
    void (*serve)(const struct server *server, int listener);
    int listener;
};

static struct worker workers[WORKERS_MAX];

struct server server_open(int argc, char **argv)
{
    struct server server = {0};

    if (argc != 4)
        case_fail("usage: %s LIBRARY SITE WORKERS", argv[0]);
    signal(SIGPIPE, SIG_IGN);
    server.library = argv[1];
    server.site = argv[2];
    server.workers = (unsigned)strtoul(argv[3], NULL, 10);
    if (server.workers == 0 || server.workers > WORKERS_MAX)
        case_fail("%s workers", argv[3]);
    snprintf(server.file, sizeof(server.file), "%s%s", server.site, SERVER_FILE);
    return server;
}

int server_open_file(const struct server *server)
{
    int fd = open(server->file, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        case_fail("%s: %s", server->file, strerror(errno));
    return fd;
}

/* Opens the listeners of all workers on one port, before any of them accepts. Returns the port. */
static uint16_t open_listeners(const struct server *server, void (*serve)(const struct server *server, int listener))
{
    uint16_t port = 0;

    for (unsigned i = 0; i < server->workers; i++) {
        workers[i] = (struct worker){server, serve, listener_open_shared(port)};
        port = listener_port(workers[i].listener);
    }
    return port;
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    worker->serve(worker->server, worker->listener);
    case_fail("a worker has ended");
}

void server_run_threads(const struct server *server, void (*serve)(const struct server *server, int listener))
{
    uint16_t port = open_listeners(server, serve);
    pthread_t thread;

    for (unsigned i = 1; i < server->workers; i++)
        if (pthread_create(&thread, NULL, work, &workers[i]) != 0)
            case_fail("no thread");
    listener_announce(port, 0);
    work(&workers[0]);
}

void server_run_processes(const struct server *server, void (*serve)(const struct server *server, int listener))
{
    uint16_t port = open_listeners(server, serve);

    for (unsigned i = 1; i < server->workers; i++) {
        pid_t pid = fork();
        if (pid < 0)
            case_fail("fork: %s", strerror(errno));
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            work(&workers[i]);
        }
    }
    listener_announce(port, 0);
    work(&workers[0]);
}
