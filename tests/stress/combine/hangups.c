/*
 * combine/hangups.c: weft_cancel_on_hangup. Some fibers end before the hangup, some subscriptions are replaced or taken
 * back. A fiber is cancelled if its client is gone, and for no other reason.
 */
#include "stress/combine/combine.h"

#include <sys/socket.h>

enum { MOST_HANDLERS = 12 };

/* How a handler's time ends. */
enum fate {
    GONE,       /* its client closes: it is cancelled */
    TAKEN_BACK, /* that was taken back before its client closes */
    REPLACED,   /* by another fiber */
    HALF,       /* its client only closes its half */
    CLOSED,     /* its own side is closed first, and the number may be another's */
    EARLY,      /* it has ended before its client closes */
    FATES
};

struct handler {
    struct scene *scene;
    int fd, client;
    enum fate fate;
    bool by_itself; /* it subscribes itself */
    int began;      /* flag */
    weft_fiber *fiber;
};

static void *handles(void *arg)
{
    struct handler *h = arg;
    if (h->by_itself)
        EXPECT_INT(h->scene, weft_cancel_on_hangup(h->fd, weft_fiber_current()), ==, 0);
    put(&h->began, 1);
    if (h->fate == EARLY)
        return NULL;
    int rc = weft_park(WEFT_FOREVER);
    EXPECT(h->scene, (rc == -ECANCELED) == weft_cancelled());
    return ptr(rc);
}

/* Has the record of one that has ended, mostly. */
static void *is_innocent(void *arg)
{
    struct scene *s = arg;
    EXPECT_INT(s, weft_sleep(50 * WEFT_US), ==, 0);
    EXPECT(s, !weft_cancelled());
    return NULL;
}

static void begin(struct scene *s, struct handler *h)
{
    int fds[2] = {-1, -1};
    static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
    EXPECT_INT(s, socketpair(AF_UNIX, types[pick(&s->random, 2)] | SOCK_CLOEXEC, 0, fds), ==, 0);
    *h = (struct handler){.scene = s,
                          .fd = fds[0],
                          .client = fds[1],
                          .fate = pick(&s->random, FATES),
                          .by_itself = chance(&s->random, 2)};
    start(s, &h->fiber, &s->random, handles, h);
    if (!h->by_itself) {
        int rc = weft_cancel_on_hangup(h->fd, h->fiber);
        EXPECT(s, rc == 0 || (rc == -ESRCH && h->fate == EARLY));
    }
    AWAIT(seen(&h->began));
    did(s);
}

static void end(struct scene *s, struct handler *h)
{
    bool early = h->fate == EARLY;
    if (early)
        ended(s, h->fiber);
    weft_fiber *innocent = NULL;
    start(s, &innocent, &s->random, is_innocent, s);
    if (h->fate == TAKEN_BACK)
        EXPECT_INT(s, weft_cancel_on_hangup(h->fd, NULL), ==, 0);
    if (h->fate == REPLACED) {
        int rc = weft_cancel_on_hangup(h->fd, innocent);
        EXPECT(s, rc == 0 || rc == -ESRCH);
        if (rc != 0) /* it has ended, and nothing was changed */
            EXPECT_INT(s, weft_cancel_on_hangup(h->fd, NULL), ==, 0);
        ended(s, innocent);
    }
    if (h->fate == CLOSED)
        EXPECT_INT(s, weft_close(h->fd), ==, 0);
    if (h->fate == HALF)
        EXPECT_INT(s, shutdown(h->client, SHUT_WR), ==, 0);
    else
        EXPECT_INT(s, close(h->client), ==, 0);
    if (!early && h->fate != GONE) {
        if (chance(&s->random, 2))
            nap(s, &s->random, 200);
        weft_unpark(h->fiber);
    }
    if (!early)
        EXPECT_INT(s, (intptr_t)ended(s, h->fiber), ==, h->fate == GONE ? -ECANCELED : 0);
    if (h->fate != REPLACED)
        ended(s, innocent);
    if (h->fate == HALF)
        EXPECT_INT(s, close(h->client), ==, 0);
    if (h->fate != CLOSED)
        EXPECT_INT(s, weft_close(h->fd), ==, 0);
    did(s);
}

void step_hangups(struct scene *s)
{
    struct handler *handlers = malloc(MOST_HANDLERS * sizeof *handlers); /* the scene may be on a shared stack */
    unsigned n = 1 + pick(&s->random, MOST_HANDLERS);
    for (unsigned i = 0; i < n; i++)
        begin(s, &handlers[i]);
    for (unsigned i = 0; i < n; i++)
        end(s, &handlers[i]);
    free(handlers);
}
