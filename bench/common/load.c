/*
 * load.c: see load.h.
 */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#define OTHER_DESCRIPTORS 64 /* in either process */

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int64_t load_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t load_own_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void load_raise_descriptors(size_t connections)
{
    size_t needed = connections + OTHER_DESCRIPTORS;
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < needed)
        case_na("%zu descriptors are more than this process may have (%llu)", needed,
                (unsigned long long)limit.rlim_cur);
}

int load_connect_briefly(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    struct linger none = {.l_onoff = 1};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) != 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        case_fail("no connection: %s", strerror(errno));
    return fd;
}

int load_connect(uint16_t port)
{
    struct timeval patience = {.tv_sec = LOAD_SILENCE_MS / 1000};
    int on = 1, fd = load_connect_briefly(port);

    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        case_fail("setsockopt: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4); /* the default may have a timer for each */
    return fd;
}

void load_count_calls(struct child *server, load_run *run, double ms, char *text, size_t size)
{
    const char *why = child_prepare_counting(server);
    uint64_t answers;

    if (why) {
        snprintf(text, size, "calls_na=%s ", why);
        return;
    }
    run(0); /* the server was left alone for a while */
    child_count_calls(server);
    answers = run(ms);
    snprintf(text, size, "calls=%.4f ", (double)child_calls(server) / (double)answers);
}
