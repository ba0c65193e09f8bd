/*
 * sched/queue.h: FIFO lists of fibers, by their `next`. owner: whoever owns the list, or its lock
 */
#ifndef WF_SCHED_QUEUE_H
#define WF_SCHED_QUEUE_H

#include "sched/worker.h"

/* Without counting: for who has taken one out without. */
static inline void wf_fifo_append(struct wf_fifo *q, weft_fiber *f)
{
    f->next = NULL;
    if (q->first)
        q->last->next = f;
    else
        q->first = f;
    q->last = f;
}

static inline void wf_fifo_push(struct wf_fifo *q, weft_fiber *f)
{
    wf_fifo_append(q, f);
    wf_store(&q->count, q->count + 1);
}

static inline weft_fiber *wf_fifo_pop(struct wf_fifo *q)
{
    weft_fiber *f = q->first;
    if (f) {
        q->first = f->next;
        wf_store(&q->count, q->count - 1);
    }
    return f;
}

#endif
