/*
 * combine/watches.c: callbacks on readiness. An event, a delete, a cancel and a close race for each watch, and exactly
 * one of them wins. The events that a callback gets are true.
 */
#include "stress/combine/combine.h"

#include <sys/eventfd.h>

/* One watch. */
struct watch {
    struct scene *scene;
    struct ends ends;
    int fired;       /* flag, counted */
    unsigned events; /* what it fired with. const after fired */
    bool written;    /* what may have happened. owner: the scene */
    bool cancelled, closed;
    int over; /* flag: the other thread has done its part */
    int deleted;
    unsigned what; /* const: what the other thread does */
};

static void fires(int fd, unsigned events, void *arg)
{
    struct watch *w = arg;
    (void)fd;
    w->events = events;
    EXPECT_INT(w->scene, more(&w->fired), ==, 1);
}

static void check_events(struct watch *w)
{
    struct scene *s = w->scene;
    unsigned e = w->events;
    if (e & WEFT_CANCELED)
        EXPECT(s, w->cancelled);
    else if (e & WEFT_CLOSED)
        EXPECT(s, w->closed);
    else if (!(e & WEFT_READ) || !w->written)
        WRONG(s, "a watch of a %s fired with %x, and %s was written", kind_names[w->ends.kind], e,
              w->written ? "something" : "nothing");
}

static void write_one(struct watch *w)
{
    static const uint64_t one = 1;
    int fd = w->ends.kind == EVENT ? w->ends.a : w->ends.b;
    ssize_t n = write(fd, &one, sizeof one);
    EXPECT_INT(w->scene, n, ==, sizeof one);
}

/* Deletes, cancels or adds beside the scene. */
static void *interferes(void *arg)
{
    struct watch *w = arg;
    int rc = 0;
    if (w->what == 0) {
        rc = weft_watch_del(w->ends.a, WEFT_READ);
        w->deleted = rc == 0;
    } else if (w->what == 1) {
        rc = weft_watch_cancel(w->ends.a, WEFT_READ);
    } else if (w->what == 2) {
        rc = weft_watch_cancel_all(w->ends.a);
    } else { /* the scene's watch is there, or it has fired */
        rc = weft_watch_add(w->ends.a, WEFT_READ, fires, w);
        EXPECT(w->scene, rc == 0 || rc == -EEXIST || rc == -ENXIO);
        rc = 0;
    }
    EXPECT(w->scene, rc == 0 || rc == -ENOENT);
    put(&w->over, 1);
    return NULL;
}

/* One watch, added here or by a plain thread, for which several race. */
static void race(struct scene *s)
{
    static const enum kind kinds[] = {PIPE, UNIX_STREAM, UNIX_DGRAM, UNIX_SEQPACKET, TCP, EVENT};
    struct watch *w = calloc(1, sizeof *w);
    struct watch *add = NULL;
    w->scene = s;
    w->ends = make_ends(s, kinds[pick(&s->random, 6)], &s->random);
    bool by_thread = s->world->has_run && chance(&s->random, 4);
    bool early = chance(&s->random, 3), interferes_too = chance(&s->random, 2);
    w->what = pick(&s->random, 3);
    w->cancelled = interferes_too && w->what > 0;
    w->written = early;
    if (early)
        write_one(w);
    if (by_thread) {
        add = calloc(1, sizeof *add);
        *add = *w;
        add->what = 3;
        join_thread(new_thread(s, interferes, add), &add->over);
        free(w);
        w = add;
        w->over = 0;
        w->what = pick(&s->random, 3);
        w->cancelled = interferes_too && w->what > 0;
    } else {
        EXPECT_INT(s, weft_watch_add(w->ends.a, WEFT_READ, fires, w), ==, 0);
    }
    did(s);
    pthread_t thread = {0};
    weft_fiber *f = NULL;
    bool on_thread = chance(&s->random, 2);
    if (interferes_too && on_thread)
        thread = new_thread(s, interferes, w);
    else if (interferes_too)
        start(s, &f, &s->random, interferes, w);
    if (chance(&s->random, 2))
        nap(s, &s->random, 300);
    bool closes = !interferes_too && chance(&s->random, 3);
    w->closed = closes;
    if (!early && !closes) {
        w->written = true;
        write_one(w);
    }
    int a = w->ends.a;
    if (closes) {
        w->ends.a = -1;
        EXPECT_INT(s, weft_close(a), ==, 0);
    }
    if (f)
        ended(s, f);
    else if (interferes_too)
        join_thread(thread, &w->over);
    if (!w->deleted) {
        AWAIT(seen(&w->fired) == 1);
        check_events(w);
    } else {
        EXPECT_INT(s, seen(&w->fired), ==, 0);
    }
    did(s);
    if (!closes)
        EXPECT_INT(s, weft_watch_del(w->ends.a, WEFT_READ), ==, -ENOENT);
    close_ends(s, &w->ends);
    free(w);
}

/* ---- a fiber that is unparked ---- */

static void *is_unparked(void *arg)
{
    struct watch *w = arg;
    struct scene *s = w->scene;
    EXPECT_INT(s, weft_watch_add(w->ends.a, WEFT_READ, NULL, NULL), ==, 0);
    put(&w->over, 1);
    EXPECT_INT(s, weft_park(WEFT_FOREVER), ==, 0);
    EXPECT_INT(s, weft_watch_del(w->ends.a, WEFT_READ), ==, -ENOENT);
    did(s);
    return NULL;
}

static void unpark(struct scene *s)
{
    struct watch *w = calloc(1, sizeof *w);
    weft_fiber *f = NULL;
    w->scene = s;
    w->ends = make_ends(s, chance(&s->random, 2) ? EVENT : TCP, &s->random);
    start(s, &f, &s->random, is_unparked, w);
    if (chance(&s->random, 2))
        AWAIT(seen(&w->over));
    write_one(w);
    ended(s, f);
    close_ends(s, &w->ends);
    free(w);
}

/* ---- a fiber that has ended ---- */

static void *adds_and_ends(void *arg)
{
    struct watch *w = arg;
    EXPECT_INT(w->scene, weft_watch_add(w->ends.a, WEFT_READ, NULL, NULL), ==, 0);
    did(w->scene);
    return NULL;
}

/* Probably in the record of the fiber that added the watch. */
static void *parks_in_vain(void *arg)
{
    struct watch *w = arg;
    weft_time deadline = weft_in(WEFT_MS);
    put(&w->over, 1);
    int rc = weft_park(deadline);
    if (rc == 0)
        WRONG(w->scene, "a watch of a fiber that has ended unparks another one");
    else
        EXPECT(w->scene, gave_up_rightly(w->scene, rc, deadline));
    did(w->scene);
    return NULL;
}

static void outlive(struct scene *s)
{
    struct watch *w = calloc(1, sizeof *w);
    struct home *h = some_home(s, &s->random);
    weft_attr attr = {.size = sizeof attr, .worker = WEFT_WORKER(pick(&s->random, h->workers))};
    weft_fiber *f = NULL;
    w->scene = s;
    w->ends = make_ends(s, EVENT, &s->random);
    EXPECT_INT(s, weft_sched_go(h->sched, &f, &attr, adds_and_ends, w), ==, 0);
    ended(s, f);
    EXPECT_INT(s, weft_sched_go(h->sched, &f, &attr, parks_in_vain, w), ==, 0);
    AWAIT(seen(&w->over) && (is_parked(f) || weft_fiber_state(f) == WEFT_FIBER_DONE));
    write_one(w);
    ended(s, f);
    close_ends(s, &w->ends);
    free(w);
}

void step_watches(struct scene *s)
{
    for (unsigned n = pick(&s->random, 10); n > 0; n--) {
        if (chance(&s->random, 6))
            outlive(s);
        else if (chance(&s->random, 4))
            unpark(s);
        else
            race(s);
    }
}
