/*
 * fiber/pool.h: the memory of fiber records. Each worker keeps some for its next fibers; the pool has the rest.
 *
 * Records are cut from blocks. A block goes back to the system when the pool has all of its records. A record that a
 * worker or a user has keeps its block, and with it the records beside it, which are free or in use: all are there to be
 * looked at by whoever walks.
 */
#ifndef WF_FIBER_POOL_H
#define WF_FIBER_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "fiber/fiber.h"

/* Records that a worker keeps: a list by `next`. owner: the worker */
struct wf_records {
    weft_fiber *first;
    uint32_t count;
    uint32_t unneeded; /* the least `count` since the last wf_records_settle */
};

enum { WF_RECORDS_AT_ONCE = 64, WF_RECORDS_KEPT = 8192 };

/* One record from the pool, or up to WF_RECORDS_AT_ONCE into a worker's; NULL, false: no memory. Any thread. */
weft_fiber *wf_pool_take(void);
WF_COLD bool wf_records_fill(struct wf_records *r);

/* A free record (state 0) to the pool, or all but `keep` of a worker's. Any thread. */
void wf_pool_give(weft_fiber *f);
WF_COLD void wf_records_trim(struct wf_records *r, uint32_t keep);

/* Now and then: gives back half of what was not needed since the last time; the pool to the system. */
void wf_records_settle(struct wf_records *r);
void wf_pool_settle(void);
/* Whether there is something that the pool could give back. */
bool wf_pool_has_empty(void);

static inline weft_fiber *wf_records_take(struct wf_records *r)
{
    if (wf_unlikely(!r->first) && !wf_records_fill(r))
        return NULL;
    weft_fiber *f = r->first;
    r->first = f->next;
    if (--r->count < r->unneeded)
        r->unneeded = r->count;
    return f;
}

static inline void wf_records_give(struct wf_records *r, weft_fiber *f)
{
    f->next = r->first;
    r->first = f;
    if (wf_unlikely(++r->count > WF_RECORDS_KEPT))
        wf_records_trim(r, WF_RECORDS_KEPT / 2);
}

/* Calls look(f, arg) for every record there is, free ones included, while the pool is locked. */
void wf_pool_walk(void (*look)(weft_fiber *f, void *arg), void *arg);

#endif
