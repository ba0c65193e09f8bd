/*
 * slow.c: bench-http-slow: how much thousands of slow clients slow down healthy ones, and how much memory they take.
 *
 *      bench-http-slow [--library LIST] [SECONDS [ROUNDS]]
 *
 * Half of the slow clients send one byte of a head a second. The others ask for a megabyte and read one byte a second.
 * The server ends each slow client after a while, and another one takes its place: it has the default timeouts and
 * limits, except that it takes more connections, in all and from one address. A round is one run of wrk without the slow
 * clients and one beside them, for each way to run the server in turn. Two figures of each way are judged, and if one
 * misses its limit the exit status is 1:
 *
 *      the ratio of the median rates           at least 0.8
 *      memory of the server beside slow ones   at most what these may make it hold: MOST_KIB below, for each
 *
 * The server has a CPU of its own; wrk shares the other CPU with the slow clients.
 */
#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
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

/* What a slow client may make the server hold, in KiB of VmRSS and VmPTE; the kernel's buffers of sockets are not in it. */
enum {
    STACK_KIB = 12,  /* three pages of its fiber's stack, or the copy of what it has on a shared one */
    INPUT_KIB = 4,   /* its record, and the small buffer for what it sends */
    OUTPUT_KIB = 20, /* the exchange, with room for 100 fields and for 16 KiB of answers */
    FILE_KIB = 16,   /* the file that its handler has read and cannot send */
    SENDER_KIB = STACK_KIB + INPUT_KIB,
    READER_KIB = SENDER_KIB + OUTPUT_KIB + FILE_KIB,
    MOST_KIB = (SENDER_KIB + READER_KIB) / 2, /* half of the clients are of each kind */
};

#define LEAST_RATIO 0.8
#define ASK "GET " SERVER_FILE " HTTP/1.1\r\nHost: slow\r\n\r\n"

/* A way to run the server, and what was measured of it. */
struct way {
    const char *library; /* as server_weft.c knows it */
    bool is_default;
    bool chosen;
    struct child server;
    double alone[ROUNDS_MAX], beside[ROUNDS_MAX]; /* requests per second */
    double memory;                                /* bytes, after the first run of wrk without slow clients */
    double most;                                  /* the most beside slow clients */
    unsigned ended;                               /* slow clients, by the server */
};

static struct way ways[] = {
    {.library = "weft-epoll", .is_default = true},
    {.library = "weft-uring", .is_default = true},
    {.library = "weft-epoll-shared", .is_default = true},
    {.library = "weft-uring-shared", .is_default = true},
    {.library = "weft-epoll-warm"},
    {.library = "weft-uring-warm"},
    {.library = "weft-epoll-acceptor"},
    {.library = "weft-uring-acceptor"},
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* The slow clients. owner: their thread; the counts are read by others. */
static struct {
    uint16_t port; /* const while the thread runs */
    int fds[SLOW];
    char asks[REQUESTS * sizeof(ASK)];
    atomic_bool ends;
    atomic_uint there; /* how many have begun */
    atomic_uint ended; /* how many the server has ended */
} slow;

/*
 * A client far away. Segments are as long as on an Ethernet, so the server's kernel takes tens of KiB of unsent bytes; with
 * those of loopback it would take the whole megabyte, and the server would have nothing to wait for. The small window
 * keeps what has come and was not read small too.
 */
static int connect_from_afar(void)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(slow.port)};
    struct linger none = {.l_onoff = 1}; /* the close resets, so no port stays behind */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), window = 4096, segment = 1448;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof(window)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment)) != 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        case_fail("no connection for a slow client: %s", strerror(errno));
    return fd;
}

static void be_there(unsigned i)
{
    slow.fds[i] = connect_from_afar();
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

static double memory_of(const struct way *way)
{
    struct case_memory memory = child_memory(&way->server);
    return memory.rss + memory.pte;
}

/* Whether a thread of the server runs, or waits for a CPU. */
static bool is_busy(const struct way *way)
{
    char pattern[64], state = 'S';
    glob_t threads;

    snprintf(pattern, sizeof(pattern), "/proc/%d/task/*/stat", (int)way->server.pid);
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

/* Until the server has sent to the slow clients what their windows take, and sleeps most of the time. */
static void wait_for_quiet(const struct way *way)
{
    unsigned asleep = 0;

    pause_for(2000); /* each of them has had a turn */
    for (unsigned looks = 0; asleep < 20; looks++) {
        if (looks == QUIET_SECONDS * 20)
            case_fail("%s has not come to rest in %d s", way->library, QUIET_SECONDS);
        pause_for(50);
        asleep = is_busy(way) ? asleep / 2 : asleep + 1;
    }
}

static void note_memory(struct way *way)
{
    double memory = memory_of(way);
    way->most = memory > way->most ? memory : way->most;
}

static struct tool_result measure_beside_slow(struct way *way, double ms)
{
    pthread_t thread;
    struct tool_result result;

    slow.port = way->server.port;
    atomic_store(&slow.ends, false);
    atomic_store(&slow.there, 0);
    atomic_store(&slow.ended, 0);
    if (pthread_create(&thread, NULL, be_slow, NULL) != 0)
        case_fail("no thread");
    while (atomic_load(&slow.there) < SLOW)
        pause_for(10);
    wait_for_quiet(way);
    note_memory(way);
    result = tool_wrk(&way->server, HEALTHY, ms);
    note_memory(way);
    atomic_store(&slow.ends, true);
    pthread_join(thread, NULL);
    way->ended += atomic_load(&slow.ended);
    pause_for(500);
    return result;
}

static void play_round(struct way *way, unsigned round, double ms)
{
    struct tool_result without = tool_wrk(&way->server, HEALTHY, ms), with;

    if (round == 0)
        way->memory = memory_of(way);
    with = measure_beside_slow(way, ms);
    way->alone[round] = without.rate;
    way->beside[round] = with.rate;
    printf("round %u, %s: %.0f requests/s (%.1f us of CPU each) alone, %.0f (%.1f us) beside %d slow clients\n",
           round + 1, way->library, without.rate, without.us_each, with.rate, with.us_each, SLOW);
    fflush(stdout);
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

/* Prints what came out. Returns whether both limits were met. */
static bool judge(struct way *way, unsigned rounds)
{
    double alone = median(way->alone, rounds), beside = median(way->beside, rounds), ratio = beside / alone;
    double each = (way->most - way->memory) / SLOW / 1024;
    bool keeps = ratio >= LEAST_RATIO, is_bounded = each <= MOST_KIB;

    printf("%-19s  %7.0f  %7.0f  %5.3f  %-6s  %6.1f  %6.1f  %5.1f  %-6s  %6u\n", way->library, alone, beside, ratio,
           keeps ? "ok" : "MISSED", way->memory / 1e6, way->most / 1e6, each, is_bounded ? "ok" : "MISSED", way->ended);
    return keeps && is_bounded;
}

static bool judge_all(unsigned rounds)
{
    bool all = true;

    printf("\nbench-http-slow: medians of %u; %d healthy clients of wrk, alone and beside %d slow clients\n", rounds,
           HEALTHY, SLOW);
    printf("%-19s  %7s  %7s  %5s  %-6s  %6s  %6s  %5s  %-6s  %6s\n", "library", "req/s", "beside", "ratio", "", "MB",
           "beside", "KiB", "", "ended");
    for (struct way *way = ways; way < ways + WAYS; way++)
        if (way->chosen)
            all = judge(way, rounds) && all;
    printf("limits: ratio at least %.1f; at most %d KiB of memory for a slow client\n", LEAST_RATIO, MOST_KIB);
    printf("  (one that sends: %d of stack, %d of record and input; one that reads: also %d of exchange and unsent\n"
           "  answers, and %d of the file that is being sent; half are of each kind)\n",
           STACK_KIB, INPUT_KIB, OUTPUT_KIB, FILE_KIB);
    return all;
}

static void usage(FILE *f)
{
    fprintf(f, "usage: bench-http-slow [--library LIST] [SECONDS [ROUNDS]]\n"
               "  --library LIST  only these ways to run the server, with commas between them; * are the default:\n");
    for (const struct way *way = ways; way < ways + WAYS; way++)
        fprintf(f, "                  %s%s\n", way->library, way->is_default ? " *" : "");
    fprintf(f,
            "  SECONDS         of each run of wrk, at least 1; 3\n"
            "  ROUNDS          1 to %d; 7\n",
            ROUNDS_MAX);
}

/* Returns whether all names of the list are known. */
static bool choose(char *list)
{
    for (struct way *way = ways; way < ways + WAYS; way++)
        way->chosen = false;
    for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
        struct way *way = ways;
        while (way < ways + WAYS && strcmp(way->library, name) != 0)
            way++;
        if (way == ways + WAYS)
            return false;
        way->chosen = true;
    }
    return true;
}

static void parse(int argc, char **argv, double *ms, unsigned *rounds)
{
    static const struct option options[] = {
        {"library", required_argument, NULL, 'l'}, {"help", no_argument, NULL, 'h'}, {0}};
    bool right = true;
    int option;

    for (struct way *way = ways; way < ways + WAYS; way++)
        way->chosen = way->is_default;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'h') {
            usage(stdout);
            exit(0);
        }
        right = right && option == 'l' && choose(optarg);
    }
    *ms = (optind < argc ? strtod(argv[optind], NULL) : 3) * 1000;
    *rounds = optind + 1 < argc ? (unsigned)strtoul(argv[optind + 1], NULL, 10) : 7;
    if (!right || optind + 2 < argc || *ms < 1000 || *rounds < 1 || *rounds > ROUNDS_MAX) {
        usage(stderr);
        exit(2);
    }
}

/* All servers run from the beginning to the end, so memory that is lost in a round is still there in the next. */
static void start_servers(void)
{
    char program[4096], site[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 32);
    int cpu = child_share_cpus();
    char *slash;

    if (length < 0)
        case_fail("there is no /proc");
    program[length] = '\0';
    slash = strrchr(program, '/');
    snprintf(site, sizeof(site), "%.*s/" SERVER_SITE, (int)(slash - program), program);
    strcpy(slash, "/bench-http-weft");
    for (struct way *way = ways; way < ways + WAYS; way++) {
        const char *const args[] = {way->library, site, "1", NULL};
        if (way->chosen)
            child_start(&way->server, &(struct child_order){.program = program, .args = args, .cpu = cpu});
    }
}

static void end_servers(void)
{
    for (struct way *way = ways; way < ways + WAYS; way++)
        if (way->chosen) {
            child_check(&way->server);
            child_end(&way->server);
        }
}

int main(int argc, char **argv)
{
    unsigned rounds;
    double ms;

    parse(argc, argv, &ms, &rounds);
    for (unsigned i = 0; i < REQUESTS; i++)
        strcat(slow.asks, ASK);
    load_raise_descriptors(SLOW + 100);
    start_servers();
    for (unsigned i = 0; i < rounds; i++)
        for (struct way *way = ways; way < ways + WAYS; way++)
            if (way->chosen)
                play_round(way, i, ms);
    end_servers();
    return judge_all(rounds) ? 0 : 1;
}
