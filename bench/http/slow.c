/*
 * slow.c: bench-http-slow: how much thousands of slow clients slow down healthy ones.
 *
 *      bench-http-slow [SECONDS [ROUNDS]]
 *
 * Half of the slow clients send one byte of a head a second. The others ask for a megabyte and read one byte a second.
 * The server ends each slow client after a while (it has the default limits), and another one takes its place. A round
 * is one run of wrk without the slow clients and one beside them. The ratio of the median rates must be at least 0.8,
 * else the exit status is 1. The server has a CPU of its own; wrk shares the other CPU with the slow clients.
 */
#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../common/child.h"
#include "../common/load.h"
#include "server.h"
#include "tools.h"

enum { SLOW = 5000, HEALTHY = 100, TICKS = 100, REQUESTS = 64, ROUNDS_MAX = 99, QUIET_SECONDS = 120 };

#define LIMIT 0.8
#define ASK "GET " SERVER_FILE " HTTP/1.1\r\nHost: slow\r\n\r\n"

static struct child server;

/* The slow clients. owner: their thread; the counts are read by others. */
static struct {
    int fds[SLOW];
    char asks[REQUESTS * sizeof(ASK)];
    atomic_bool ends;
    atomic_uint there; /* how many have begun */
    atomic_uint ended; /* how many the server has ended */
} slow;

static void be_there(unsigned i)
{
    int window = 4096; /* so that most of an answer stays with the server */

    slow.fds[i] = load_connect(server.port);
    setsockopt(slow.fds[i], SOL_SOCKET, SO_RCVBUF, &window, sizeof(window));
    if (i % 2 == 0 && send(slow.fds[i], "GET /slow", 9, MSG_NOSIGNAL) != 9)
        case_fail("a slow client cannot send");
    if (i % 2 == 1 && send(slow.fds[i], slow.asks, strlen(slow.asks), MSG_NOSIGNAL) < 0)
        case_fail("a slow client cannot send");
}

/* Sends or reads one more byte. If the server has ended this client, another one takes its place. */
static void do_little(unsigned i)
{
    char byte = 'x';
    ssize_t n = 0;

    if (i % 2 == 0)
        n = recv(slow.fds[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN
                ? send(slow.fds[i], "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT)
                : 0; /* it has got a 408, or an end */
    else
        n = recv(slow.fds[i], &byte, 1, MSG_DONTWAIT);
    if (n == 1 || (n < 0 && errno == EAGAIN))
        return;
    close(slow.fds[i]);
    atomic_fetch_add(&slow.ended, 1);
    be_there(i);
}

/* The thread of the slow clients. Each of them has a turn once a second. */
static void *be_slow(void *arg)
{
    const struct timespec tick = {.tv_nsec = 1000000000 / TICKS};

    for (unsigned i = 0; i < SLOW; i++) {
        be_there(i);
        atomic_store(&slow.there, i + 1);
    }
    for (unsigned i = 0; !atomic_load(&slow.ends); i = (i + SLOW / TICKS) % SLOW) {
        nanosleep(&tick, NULL);
        for (unsigned k = 0; k < SLOW / TICKS; k++)
            do_little(i + k);
    }
    for (unsigned i = 0; i < SLOW; i++)
        close(slow.fds[i]);
    return arg;
}

static void pause_for(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

static double megabytes(void)
{
    struct case_memory memory = child_memory(&server);
    return (double)(memory.rss + memory.pte) / 1e6;
}

/* Whether a thread of the server runs, or waits for a CPU. */
static bool is_busy(void)
{
    char pattern[64], state = 'S';
    glob_t threads;

    snprintf(pattern, sizeof(pattern), "/proc/%d/task/*/stat", (int)server.pid);
    if (glob(pattern, 0, NULL, &threads) != 0)
        case_fail("the server has no threads");
    for (size_t i = 0; i < threads.gl_pathc && state == 'S'; i++) {
        FILE *f = fopen(threads.gl_pathv[i], "re");
        if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
            state = 'S';
        if (f)
            fclose(f);
    }
    globfree(&threads);
    return state != 'S';
}

/* Waits until the server has sent what the windows of the slow clients take, and sleeps most of the time. */
static void wait_for_quiet(void)
{
    unsigned asleep = 0;

    pause_for(2000); /* each of them has had a turn */
    for (unsigned looks = 0; asleep < 20; looks++) {
        if (looks == QUIET_SECONDS * 20)
            case_fail("the server has not come to rest in %d s", QUIET_SECONDS);
        pause_for(50);
        asleep = is_busy() ? asleep / 2 : asleep + 1;
    }
}

static struct tool_result measure_beside_slow(double ms, double *memory)
{
    pthread_t thread;
    struct tool_result result;

    atomic_store(&slow.ends, false);
    atomic_store(&slow.there, 0);
    if (pthread_create(&thread, NULL, be_slow, NULL) != 0)
        case_fail("no thread");
    while (atomic_load(&slow.there) < SLOW)
        pause_for(10);
    wait_for_quiet();
    result = tool_wrk(&server, HEALTHY, ms);
    *memory = megabytes();
    atomic_store(&slow.ends, true);
    pthread_join(thread, NULL);
    pause_for(500);
    return result;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

int main(int argc, char **argv)
{
    double ms = (argc > 1 ? strtod(argv[1], NULL) : 3) * 1000, alone[ROUNDS_MAX], beside[ROUNDS_MAX], memory, most = 0;
    unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 7;
    char program[4096], site[4096];
    char *slash;
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 32);

    if (ms < 1000 || rounds < 1 || rounds > ROUNDS_MAX || length < 0) {
        fprintf(stderr, "usage: bench-http-slow [SECONDS [ROUNDS]]\n");
        return 2;
    }
    program[length] = '\0';
    slash = strrchr(program, '/');
    snprintf(site, sizeof(site), "%.*s/" SERVER_SITE, (int)(slash - program), program);
    strcpy(slash, "/bench-http-weft");
    for (unsigned i = 0; i < REQUESTS; i++)
        strcat(slow.asks, ASK);
    load_raise_descriptors(SLOW + 100);
    child_start(&server, &(struct child_order){.program = program,
                                               .args = (const char *const[]){"weft-epoll", site, "1", NULL},
                                               .cpu = child_share_cpus()});
    for (unsigned i = 0; i < rounds; i++) {
        struct tool_result without = tool_wrk(&server, HEALTHY, ms), with = measure_beside_slow(ms, &memory);
        alone[i] = without.rate;
        beside[i] = with.rate;
        most = memory > most ? memory : most;
        printf(
            "round %u: %.0f requests/s (%.1f us of CPU each) alone, %.0f (%.1f us) beside %d slow clients; %.1f MB\n",
            i + 1, without.rate, without.us_each, with.rate, with.us_each, SLOW, memory);
        fflush(stdout);
    }
    child_check(&server);
    child_end(&server);
    double before = median(alone, rounds), after = median(beside, rounds), ratio = after / before;
    printf("median of %u: %.0f requests/s alone, %.0f beside %d slow clients, of which the server has ended %u\n",
           rounds, before, after, SLOW, atomic_load(&slow.ended));
    printf("ratio %.3f (limit %.1f: %s), at most %.1f MB of memory\n", ratio, LIMIT, ratio >= LIMIT ? "met" : "MISSED",
           most);
    return ratio >= LIMIT ? 0 : 1;
}
