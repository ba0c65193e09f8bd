/*
 * ping.c: bench-sched-ping, the load generator of fair-ping. It starts an echo server of bench-net and makes three
 * connections to it: two flood the server, the third one sends a ping now and then and waits for it.
 *
 *      bench-sched-ping BENCH LIBRARY MILLISECONDS PROGRAM
 *
 * PROGRAM is the server (../net/server.h). Server and generator have a CPU each. A flooding connection sends as much as
 * fits and takes back what is there, in large pieces. So the server, which has a small buffer, always finds more to
 * read and room to write. The generator is one thread that looks after the ping before each flooder: its flooders do not
 * compete with its ping for the CPU. The generator checks all that comes back.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/case.h"
#include "../common/child.h"
#include "../common/fair.h"

#define FLOODERS 2
#define PING_BYTES 64
#define PING_EVERY_NS 300000
#define PIECE 65536 /* of a flood, in a call */
#define WARM_UP_NS 50000000
#define PATIENCE_NS 20000000000LL /* a ping that takes longer is lost */

struct flooder {
    int fd;
    uint64_t sent, got; /* bytes */
};

static struct flooder flooders[FLOODERS];

static struct {
    int fd;
    bool under_way;
    int64_t sent_at; /* or, unless one is under way, when the last one came back */
    size_t got;
} ping;

/* What is sent: byte i of a flood is text[i % PIECE]. Twice, so that a piece may begin anywhere. */
static unsigned char text[2 * PIECE];

static void make_text(void)
{
    uint64_t x = 88172645463325252;

    for (size_t i = 0; i < PIECE; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        text[i] = text[i + PIECE] = (unsigned char)x;
    }
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    struct linger none = {.l_onoff = 1}; /* closed by a reset: no port stays behind */
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        case_fail("no connection: %s", strerror(errno));
    return fd;
}

static bool would_wait(ssize_t n)
{
    return n < 0 && errno == EAGAIN;
}

static void flood(struct flooder *f)
{
    static unsigned char back[PIECE];
    ssize_t n = recv(f->fd, back, sizeof(back), MSG_DONTWAIT);

    if (n == 0 || (n < 0 && !would_wait(n)))
        case_fail("the server has left a flooder");
    if (n > 0) {
        if (f->got + (uint64_t)n > f->sent || memcmp(back, text + f->got % PIECE, (size_t)n) != 0)
            case_fail("what came back to a flooder is not what was sent");
        f->got += (uint64_t)n;
    }
    n = send(f->fd, text + f->sent % PIECE, PIECE, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && !would_wait(n))
        case_fail("the server has left a flooder");
    f->sent += n > 0 ? (uint64_t)n : 0;
}

static void send_ping(void)
{
    ping.under_way = true;
    ping.got = 0;
    ping.sent_at = fair_now();
    if (send(ping.fd, text, PING_BYTES, MSG_NOSIGNAL) != PING_BYTES)
        case_fail("send: %s", strerror(errno));
}

static void receive_ping(void)
{
    unsigned char back[PING_BYTES];
    ssize_t n = recv(ping.fd, back, sizeof(back) - ping.got, MSG_DONTWAIT);

    if (would_wait(n)) {
        if (fair_now() > ping.sent_at + PATIENCE_NS)
            case_fail("a ping is lost");
        return;
    }
    if (n <= 0 || memcmp(back, text + ping.got, (size_t)n) != 0)
        case_fail("what came back is not the ping");
    ping.got += (size_t)n;
    if (ping.got < PING_BYTES)
        return;
    fair_late(fair_now() - ping.sent_at);
    ping.under_way = false;
    ping.sent_at = fair_now();
}

/* The flooders, and the ping before each of them. */
static void take_turn(bool pings)
{
    struct pollfd fds[1 + FLOODERS] = {{.fd = ping.fd, .events = POLLIN}};

    for (size_t i = 0; i < FLOODERS; i++)
        fds[1 + i] = (struct pollfd){.fd = flooders[i].fd, .events = POLLIN | POLLOUT};
    poll(fds, 1 + FLOODERS, 1);
    for (size_t i = 0; i < FLOODERS; i++) {
        if (ping.under_way)
            receive_ping();
        if (!ping.under_way && pings && fair_now() > ping.sent_at + PING_EVERY_NS)
            send_ping();
        flood(&flooders[i]);
    }
}

static void take_turns_until(int64_t end, bool pings)
{
    while (fair_now() < end)
        take_turn(pings);
}

static uint64_t flooded(void)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < FLOODERS; i++) {
        if (flooders[i].got == 0)
            case_fail("a flooder had nothing back");
        bytes += flooders[i].got;
    }
    return bytes;
}

static void measure(pid_t server, double budget_ms)
{
    char more[40];
    int64_t begun;
    uint64_t before;

    take_turns_until(fair_now() + WARM_UP_NS, false);
    for (size_t i = 0; i < FLOODERS; i++)
        while (flooders[i].got == 0)
            take_turn(false);
    fair_begin(server);
    begun = fair_now();
    before = flooded();
    take_turns_until(begun + (int64_t)(budget_ms * 1e6), true);
    while (ping.under_way)
        take_turn(false);
    snprintf(more, sizeof(more), "flood=%.0f", (double)(flooded() - before) * 1e3 / (double)(fair_now() - begun));
    fair_end(server);
    fair_answer(true, more);
}

int main(int argc, char **argv)
{
    char bytes[32];
    const char *args[3] = {NULL, bytes};
    struct child_order order = {.args = args};
    struct child server;

    if (argc != 5) {
        fprintf(stderr, "usage: %s BENCH LIBRARY MILLISECONDS PROGRAM\n", argv[0]);
        return 2;
    }
    make_text();
    snprintf(bytes, sizeof(bytes), "%d", PING_BYTES);
    order.program = argv[4];
    args[0] = argv[2];
    order.cpu = child_share_cpus();
    child_start(&server, &order);
    ping.fd = connect_to(server.port);
    for (size_t i = 0; i < FLOODERS; i++)
        flooders[i].fd = connect_to(server.port);
    measure(server.pids[0], strtod(argv[3], NULL));
    child_check(&server);
    child_end(&server);
    return 0;
}
