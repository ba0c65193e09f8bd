/*
 * server_threads.c: a thread for each connection, which waits in recv. They are not workers: with one worker they all are on
 * one CPU.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../common/case.h"
#include "server.h"

#define STACK_BYTES 65536

static struct server server;

static void *connection(void *arg)
{
    int fd = (int)(intptr_t)arg;
    struct timespec nap = {.tv_nsec = SERVER_SLEEP_MS * 1000000};
    char *room = server_alloc(server.room);
    ssize_t n;

    while ((n = recv(fd, room, server.room, 0)) > 0) {
        if (server.work_us > 0)
            server_work(server.work_us);
        else if (server.sleeps)
            nanosleep(&nap, NULL);
        if (send(fd, room, (size_t)n, MSG_NOSIGNAL) != n)
            break;
    }
    close(fd);
    free(room);
    return NULL;
}

static void stay_on_one_cpu(void)
{
    cpu_set_t all, only;

    sched_getaffinity(0, sizeof(all), &all);
    CPU_ZERO(&only);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&only) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &only);
    if (sched_setaffinity(0, sizeof(only), &only) != 0)
        case_fail("sched_setaffinity: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    pthread_attr_t attr;
    pthread_t id;
    int fd;

    server = server_open(argc, argv);
    if (server.workers == 1)
        stay_on_one_cpu();
    if (fcntl(server.listener, F_SETFL, 0) != 0 || pthread_attr_init(&attr) != 0 ||
        pthread_attr_setstacksize(&attr, STACK_BYTES) != 0 ||
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) != 0)
        case_fail("cannot begin: %s", strerror(errno));
    server_announce(&server);
    while ((fd = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        if (pthread_create(&id, &attr, connection, (void *)(intptr_t)fd) != 0)
            case_na("a thread cannot be made");
    case_fail("accept4: %s", strerror(errno));
}
