/*
 * combine/readiness.c: weft_wait_fd and weft_poll tell the truth. Only one fiber reads, so when a call says that there
 * are bytes, they must be there. Other fibers, on other workers, wait for room on the same descriptor.
 */
#include "stress/combine/combine.h"

#include <fcntl.h>

enum { MOST_BYTES_OF_LANE = 400, LANES = 2 };

struct lane {
    struct scene *scene;
    struct ends ends;
    uint64_t key, random, sent;
    unsigned total; /* const */
    unsigned got;
    int over; /* flag: all has come */
    uint64_t other_random;
};

static bool is_there(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    return poll(&p, 1, 0) == 1 && p.revents & events;
}

/* Takes some of what is there. */
static void take(struct lane *l, const char *told_by)
{
    unsigned char bytes[2048];
    size_t room = keeps_records(l->ends.kind) || chance(&l->random, 2) ? sizeof bytes : 1 + pick(&l->random, 8);
    ssize_t n = read(l->ends.a, bytes, room);
    if (n <= 0) {
        WRONG(l->scene, "%s (%s) told of something to read from a %s: %zd (%s)", told_by, weft_io_backend(),
              kind_names[l->ends.kind], n, n < 0 ? strerror(errno) : "the end");
        return;
    }
    if (differs_at(bytes, (size_t)n, l->key, l->got) != (size_t)n)
        WRONG(l->scene, "a wrong byte from a %s", kind_names[l->ends.kind]);
    l->got += (unsigned)n;
}

/* Waits in some way; true if it was told that there is something. */
static bool is_told(struct lane *l, const char **by)
{
    struct scene *s = l->scene;
    weft_time deadline = some_deadline(&l->random);
    struct pollfd *p;
    int rc;
    if (chance(&l->random, 2)) {
        *by = "weft_wait_fd";
        rc = weft_wait_fd(l->ends.a, POLLIN, deadline);
        if (rc > 0)
            EXPECT_INT(s, rc & POLLIN, ==, POLLIN);
    } else {
        *by = "weft_poll";
        p = malloc(sizeof *p);
        *p = (struct pollfd){.fd = l->ends.a, .events = POLLIN};
        rc = weft_poll(p, 1, deadline);
        if (rc == 1)
            EXPECT_INT(s, p->revents & POLLIN, ==, POLLIN);
        if (rc == 0)
            rc = deadline.ns == WEFT_NOW.ns ? -EAGAIN : -ETIMEDOUT;
        free(p);
    }
    did(s);
    if (rc < 0) {
        if (!gave_up_rightly(s, rc, deadline))
            WRONG(s, "%s of a %s: %d", *by, kind_names[l->ends.kind], rc);
        if (rc == -EAGAIN)
            breathe();
    }
    return rc > 0;
}

static void *receives(void *arg)
{
    struct lane *l = arg;
    while (l->got < l->total && !test_has_failed()) {
        const char *by = "";
        if (chance(&l->random, 4)) { /* so that the descriptor is known, and drained */
            unsigned char bytes[2048];
            weft_time deadline = some_deadline(&l->random);
            ptrdiff_t n = weft_read(l->ends.a, bytes, sizeof bytes, deadline);
            if (n > 0) {
                EXPECT_INT(l->scene, differs_at(bytes, (size_t)n, l->key, l->got), ==, n);
                l->got += (unsigned)n;
            } else {
                EXPECT(l->scene, gave_up_rightly(l->scene, n, deadline));
                breathe();
            }
            did(l->scene);
        } else if (is_told(l, &by)) {
            take(l, by);
        }
    }
    put(&l->over, 1);
    return NULL;
}

/* Waits for room on the same descriptor: there always is some. */
static void *looks_for_room(void *arg)
{
    struct lane *l = arg;
    while (!seen(&l->over)) {
        weft_time deadline = some_deadline(&l->other_random);
        int rc = weft_wait_fd(l->ends.a, POLLOUT, deadline);
        if (rc < 0)
            EXPECT(l->scene, gave_up_rightly(l->scene, rc, deadline));
        else
            EXPECT_INT(l->scene, rc & POLLOUT, ==, POLLOUT);
        nap(l->scene, &l->other_random, 300);
    }
    return NULL;
}

static void send_piece(struct lane *l, uint64_t *random)
{
    unsigned char bytes[32];
    size_t n = 1 + pick(random, sizeof bytes);
    n = n > l->total - l->sent ? l->total - l->sent : n;
    fill(bytes, n, l->key, l->sent);
    ssize_t sent = n > 0 ? write(l->ends.b, bytes, n) : 0;
    if (sent > 0)
        l->sent += (uint64_t)sent;
}

void step_ready(struct scene *s)
{
    struct lane *lanes = calloc(LANES, sizeof *lanes);
    weft_fiber *fibers[2 * LANES] = {NULL};
    for (int i = 0; i < LANES; i++) {
        struct lane *l = &lanes[i];
        *l = (struct lane){
            .scene = s, .key = test_random(&s->random), .total = 1 + pick(&s->random, MOST_BYTES_OF_LANE)};
        l->ends = make_ends(s, (enum kind)pick(&s->random, STREAMS_END), &s->random);
        fcntl(l->ends.a, F_SETFL, O_NONBLOCK); /* read(2) must not block if the wait was wrong */
        fcntl(l->ends.b, F_SETFL, O_NONBLOCK);
        l->random = new_random(&s->random);
        l->other_random = new_random(&s->random);
        start(s, &fibers[2 * i], &s->random, receives, l);
        if (is_socket(l->ends.kind))
            start(s, &fibers[2 * i + 1], &s->random, looks_for_room, l);
    }
    while (lanes[0].sent < lanes[0].total || lanes[1].sent < lanes[1].total) {
        send_piece(&lanes[pick(&s->random, LANES)], &s->random);
        if (chance(&s->random, 2))
            nap(s, &s->random, 150);
    }
    for (int i = 0; i < 2 * LANES; i++) {
        if (fibers[i])
            ended(s, fibers[i]);
    }
    for (int i = 0; i < LANES; i++) {
        EXPECT(s, !is_there(lanes[i].ends.a, POLLIN) || test_has_failed());
        close_ends(s, &lanes[i].ends);
    }
    free(lanes);
}
