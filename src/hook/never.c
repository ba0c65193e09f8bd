/*
 * hook/never.c: see never.h. The cookies are in a table without a lock, as setsockopt may be called by a signal handler. A word
 * is a cookie and the directions; one without directions may be taken for another socket. Two threads that set the same
 * socket at the same time may give it two words, which say the same to who looks: either counts, and both are taken back.
 */
#include "hook/never.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "hook/real.h"

enum {
    WORDS = 4096,
    PLACES = 16, /* where one may be, from its own place on */
    IN = 1,
    OUT = 2,
    DIRECTIONS = IN | OUT,
    SHIFT = 2,
};

static uint64_t words[WORDS]; /* atomic */
static bool any;              /* atomic: there is, or was, one */

static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    int kept = errno;
    if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) != 0)
        cookie = 0;
    errno = kept;
    return cookie << SHIFT;
}

static uint64_t *place(uint64_t cookie, unsigned i)
{
    return &words[(((cookie >> SHIFT) * 0x9e3779b97f4a7c15 >> 52) + i) & (WORDS - 1)];
}

static bool add(uint64_t cookie, uint64_t direction)
{
    for (unsigned i = 0; i < PLACES; i++) {
        uint64_t *p = place(cookie, i), was = __atomic_load_n(p, __ATOMIC_RELAXED);
        while ((was & ~(uint64_t)DIRECTIONS) == cookie || !(was & DIRECTIONS)) {
            uint64_t now = ((was & ~(uint64_t)DIRECTIONS) == cookie ? was : cookie) | direction;
            if (__atomic_compare_exchange_n(p, &was, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                return true;
        }
    }
    return false;
}

static uint64_t directions_of(uint64_t cookie)
{
    uint64_t found = 0;
    for (unsigned i = 0; i < PLACES; i++) {
        uint64_t word = __atomic_load_n(place(cookie, i), __ATOMIC_RELAXED);
        if ((word & ~(uint64_t)DIRECTIONS) == cookie)
            found |= word & DIRECTIONS;
    }
    return found;
}

static void take_back(uint64_t cookie, uint64_t direction)
{
    for (unsigned i = 0; i < PLACES; i++) {
        uint64_t *p = place(cookie, i), was = __atomic_load_n(p, __ATOMIC_RELAXED);
        while ((was & ~(uint64_t)DIRECTIONS) == cookie && was & direction) {
            if (__atomic_compare_exchange_n(p, &was, was & ~direction, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                break;
        }
    }
}

bool wf_never_note(int fd, int events, bool never)
{
    uint64_t direction = events == POLLIN ? IN : OUT;
    if (!never && !__atomic_load_n(&any, __ATOMIC_RELAXED))
        return true;
    uint64_t cookie = cookie_of(fd);
    if (!never)
        take_back(cookie, direction);
    else if (cookie == 0 || !add(cookie, direction))
        return false;
    else
        __atomic_store_n(&any, true, __ATOMIC_RELAXED);
    return true;
}

bool wf_never_waits(int fd, int events)
{
    if (!__atomic_load_n(&any, __ATOMIC_RELAXED))
        return false;
    uint64_t cookie = cookie_of(fd);
    return cookie != 0 && directions_of(cookie) & (events == POLLIN ? IN : OUT);
}
