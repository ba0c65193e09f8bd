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

#if WF_DEBUG
/*
 * Debug builds: a record that becomes free stays out of use until wf_pool_apart others have become free, so that the
 * checks notice a use of its old handle. Returns the record that has waited longest, for reuse, or NULL if there is
 * none yet. 0 for wf_pool_apart turns this off.
 */
weft_fiber *wf_pool_set_apart(weft_fiber *f);
extern WF_HIDDEN size_t wf_pool_apart; /* atomic: at most WF_APART_MOST */
enum { WF_APART_MOST = 512 };
#endif

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

/* The same for one record; nothing is called if its memory went back to the system. */
void wf_pool_look_at(weft_fiber *f, void (*look)(weft_fiber *f, void *arg), void *arg);

/*
 * Clears WF_KNOWN and WF_OPENED of f. From then on no walk looks at its extra, and wf_cancel_if_alive does not take the
 * record for the fiber that it was.
 */
WF_COLD void wf_pool_forget(weft_fiber *f);

#endif
