/*
 * tests/unit/net/serving.h: what the tests of weft_serve share: a server in one line, handlers and clients of it.
 */
#ifndef TESTS_UNIT_NET_SERVING_H
#define TESTS_UNIT_NET_SERVING_H

#include <weft/net.h>

#include "unit/io/ground.h"

static inline void echoes(int fd, void *arg)
{
    char buffer[256];
    ptrdiff_t n;
    (void)arg;
    while ((n = weft_read(fd, buffer, sizeof buffer, WEFT_FOREVER)) > 0) {
        if (weft_write_all(fd, buffer, (size_t)n, NULL, WEFT_FOREVER) < 0)
            return;
    }
}

struct serving {
    int listener;
    weft_serve_fn *handler;
    void *arg;
    weft_serve_opts opts;
    weft_time until;
};

static inline void *serves(void *arg)
{
    struct serving *s = arg;
    return ptr(weft_serve(s->listener, s->handler, s->arg, &s->opts, s->until));
}

static inline const char *address_of(int listener)
{
    static char text[32];
    snprintf(text, sizeof text, "127.0.0.1:%d", weft_port(listener));
    return text;
}

static inline void *talks(void *arg)
{
    int fd = weft_dial(arg, weft_in(20 * WEFT_SEC));
    char buffer[16];
    CHECK_INT(fd, >=, 0);
    for (int i = 0; i < 5; i++) {
        CHECK_INT(weft_write_all(fd, "0123456789", 10, NULL, WEFT_FOREVER), ==, 10);
        CHECK_INT(weft_read_full(fd, buffer, 10, NULL, weft_in(20 * WEFT_SEC)), ==, 10);
        CHECK(memcmp(buffer, "0123456789", 10) == 0);
    }
    CHECK_INT(weft_close(fd), ==, 0);
    return NULL;
}

#endif
