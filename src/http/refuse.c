/*
 * http/refuse.c: see refuse.h.
 */
#include "http/refuse.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include <weft/io.h>

#include "http/connection.h"
#include "http/memory.h"
#include "http/server.h"

enum { MOST_REFUSALS = 64 }; /* clients above max_per_address that may linger at a time */

static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
                           "Content-Length: 20\r\nConnection: close\r\nRetry-After: 5\r\n\r\nService Unavailable\n";

static void refuse(int fd, const struct wh_serving *s, bool may_linger)
{
    struct wh_worker *w = &s->h->workers[weft_fiber_worker(weft_fiber_current())];
    wh_count_add(&w->refused, 1);
    if (s->h->o.busy == WEFT_HTTP_BUSY_CLOSE || weft_send(fd, busy, sizeof busy - 1, 0, WEFT_NOW) < 0)
        return;
    weft_shutdown(fd, SHUT_WR);
    if (!may_linger)
        return;
    char *waste = wh_alloc(4096);
    weft_time end = weft_in(WH_LINGER_TIME);
    while (waste && weft_read(fd, waste, 4096, end) > 0)
        ;
    wh_free(waste);
}

void wh_refuse_connection(int fd, void *arg)
{
    refuse(fd, arg, true); /* weft_serve limits how many refusals run at a time */
}

/* Clients above max_per_address take places of max_conns while they linger. So only a few may linger at a time. */
void wh_refuse_address(int fd, struct wh_serving *s)
{
    weft_http *h = s->h;
    unsigned quarter = h->o.max_conns / 4, most = quarter < MOST_REFUSALS ? quarter : MOST_REFUSALS;
    bool may_linger = atomic_fetch_add_explicit(&h->refusals, 1, memory_order_relaxed) < most;
    refuse(fd, s, may_linger);
    atomic_fetch_sub_explicit(&h->refusals, 1, memory_order_relaxed);
}
