/*
 * tests/unit/sched/points.h: calls that can wait, as cancellation points. A row of a table is a call in a state in
 * which it would succeed at once. check_point runs a row in a fiber that was cancelled:
 *
 *  - without a deadline, with one to come and with one that has passed, the call returns -ECANCELED and does nothing;
 *  - with WEFT_NOW it does what it does otherwise;
 *  - so it does inside a shield.
 */
#ifndef TESTS_UNIT_SCHED_POINTS_H
#define TESTS_UNIT_SCHED_POINTS_H

#include "unit/sched/ground.h"

struct point {
    const char *name;
    void (*ready)(void);        /* brings the state about; may be NULL */
    long (*call)(weft_time);    /* the call */
    bool (*is_untouched)(void); /* whether nothing was done; NULL: the call with WEFT_NOW would notice */
    void (*clean)(void);        /* after the state was used; may be NULL */
    long now;                   /* what the call returns with WEFT_NOW */
    long shielded;              /* what it returns in a shield; POINT_ANY: any number that is no error */
    bool has_no_deadline;       /* the call has none, so WEFT_NOW is left out */
    bool waits;                 /* in the shield the call gets a deadline that has passed: else it would wait */
};

enum { POINT_ANY = 1 << 20 }; /* of `now` and `shielded` */

static inline void check_result(const struct point *p, const char *how, long got, long wanted)
{
    if (wanted == POINT_ANY ? got < 0 : got != wanted)
        test_failed(__FILE__, __LINE__, "%s, %s: %ld, not %ld", p->name, how, got, wanted);
}

static inline void check_untouched(const struct point *p, const char *how)
{
    if (p->is_untouched && !p->is_untouched())
        test_failed(__FILE__, __LINE__, "%s, %s: something was done", p->name, how);
}

static inline void check_cancelled(const struct point *p, const char *how, weft_time deadline)
{
    check_result(p, how, p->call(deadline), -ECANCELED);
    check_untouched(p, how);
}

/* The body of a fiber. */
static inline void *try_point(void *arg)
{
    const struct point *p = arg;
    AWAIT(weft_cancelled());
    if (p->ready)
        p->ready();
    check_cancelled(p, "for ever", WEFT_FOREVER);
    check_cancelled(p, "a deadline to come", weft_in(AWAIT_SECONDS * WEFT_SEC));
    check_cancelled(p, "a deadline that has passed", weft_in(-1));
    if (!p->has_no_deadline) {
        check_result(p, "WEFT_NOW", p->call(WEFT_NOW), p->now);
        if (p->clean)
            p->clean();
        if (p->ready)
            p->ready();
    }
    CHECK_INT(weft_shield_begin(weft_in(AWAIT_SECONDS * WEFT_SEC)), ==, 0);
    check_result(p, "in a shield", p->call(p->waits ? weft_in(-1) : WEFT_FOREVER), p->shielded);
    weft_shield_end();
    if (p->clean)
        p->clean();
    return NULL;
}

/* In a fiber: runs a row in another one. */
static inline void check_point(const struct point *p)
{
    weft_fiber *f = go(try_point, (void *)(uintptr_t)p);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
}

#endif
