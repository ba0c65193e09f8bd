/*
 * tests/hook/peer.h: what the statements about transfers, timeouts and connections share: sockets with another end, and
 * somebody there who does something a little later.
 */
#ifndef TESTS_HOOK_PEER_H
#define TESTS_HOOK_PEER_H

#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>

#include "hook/ends.h"

#define AS_ADDRESS(a) ((struct sockaddr *)&(a))

static inline void put_ends(int pair[2], struct ends e)
{
    pair[0] = e.a;
    pair[1] = e.b;
}

/* A pair of AF_UNIX sockets. */
static inline void unix_pair(int pair[2], int type)
{
    put_ends(pair, unix_ends(type));
}

/* A TCP connection: who called, and who was called. */
static inline void tcp_pair(int pair[2])
{
    put_ends(pair, tcp_ends());
}

/* Two UDP sockets that are each other's peer. */
static inline void udp_pair(int pair[2])
{
    struct sockaddr_in at[2];
    for (int i = 0; i < 2; i++)
        pair[i] = bound(SOCK_DGRAM, &at[i]);
    for (int i = 0; i < 2; i++)
        CHECK_INT(connect(pair[i], AS_ADDRESS(at[1 - i]), sizeof at[0]), ==, 0);
}

static inline void close_pair(const int pair[2])
{
    CHECK_INT(close(pair[0]), ==, 0);
    CHECK_INT(close(pair[1]), ==, 0);
}

/* The connection is reset: the other end finds that out. */
static inline void reset(int fd)
{
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger)), ==, 0);
    CHECK_INT(close(fd), ==, 0);
}

static inline void set_timeout(int fd, int option, int ms)
{
    struct timeval t = {ms / 1000, ms % 1000 * 1000};
    CHECK_INT(setsockopt(fd, SOL_SOCKET, option, &t, sizeof t), ==, 0);
}

#define CHECK_BLOCKING(fd) CHECK_INT(raw_flags(fd) & O_NONBLOCK, ==, 0)

/* Who writes `bytes` of `text` after a while. */
struct writer {
    int fd, after_ms;
    const char *text;
    size_t bytes;
};

static inline void write_later(void *arg)
{
    const struct writer *w = arg;
    usleep((useconds_t)w->after_ms * 1000);
    CHECK_INT(write(w->fd, w->text, w->bytes), ==, w->bytes);
}

/* Who reads a stream to its end, or until `most` bytes: `chunk` at a time, with a pause after each; then closes it. */
struct reader {
    int fd, after_ms, pause_ms;
    size_t chunk, most; /* 0: no limit */
    size_t bytes;       /* what was read; valid at its end */
    bool wrong;         /* something else was read than what pattern() says; valid at its end */
    bool keep;          /* it stays open */
};

/* What is at a place of a long transfer. */
static inline unsigned char pattern(size_t at)
{
    return (unsigned char)(at * 31 + (at >> 11));
}

static inline void fill_pattern(unsigned char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = pattern(i);
}

static inline void read_slowly(void *arg)
{
    struct reader *r = arg;
    unsigned char memory[65536];
    usleep((useconds_t)r->after_ms * 1000);
    while (r->most == 0 || r->bytes < r->most) {
        size_t room = r->chunk < sizeof memory ? r->chunk : sizeof memory;
        ssize_t n = read(r->fd, memory, r->most && r->most - r->bytes < room ? r->most - r->bytes : room);
        if (n <= 0) {
            CHECK_INT(n, ==, 0);
            break;
        }
        for (ssize_t i = 0; i < n; i++)
            r->wrong |= memory[i] != pattern(r->bytes + (size_t)i);
        r->bytes += (size_t)n;
        if (r->pause_ms)
            usleep((useconds_t)r->pause_ms * 1000);
    }
    if (!r->keep)
        CHECK_INT(close(r->fd), ==, 0);
}

static inline void just_close(int fd)
{
    CHECK_INT(close(fd), ==, 0);
}

#endif
