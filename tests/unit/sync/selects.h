/*
 * tests/unit/sync/selects.h: cases in one word each, selects that somebody else runs, and what meets them.
 */
#ifndef TESTS_UNIT_SYNC_SELECTS_H
#define TESTS_UNIT_SYNC_SELECTS_H

#include <weft/chan.h>
#include <weft/sync.h>

#include "unit/sync/flows.h"

static inline weft_case sending(weft_chan *c, int *v)
{
    return (weft_case){.op = WEFT_SEND, .chan = c, .value = v, .result = 4711};
}

static inline weft_case receiving(weft_chan *c, int *v)
{
    return (weft_case){.op = WEFT_RECV, .chan = c, .value = v, .result = 4711};
}

static inline weft_case waiting_for(weft_event *e)
{
    return (weft_case){.op = WEFT_EVENT, .event = e, .result = 4711};
}

/* A select that somebody else runs. */
struct call {
    weft_case *cases;
    size_t n;
    weft_time deadline;
    int (*how)(weft_case *, size_t, weft_time);
    int rc;
    struct flow flow;
};

static inline void *selects(void *arg)
{
    struct call *k = arg;
    k->rc = k->how(k->cases, k->n, k->deadline);
    return NULL;
}

/* Its deadline is only to fail instead of hanging. */
static inline void begin_how(struct call *k, int (*how)(weft_case *, size_t, weft_time), weft_case *cases, size_t n)
{
    *k = (struct call){.cases = cases, .n = n, .deadline = weft_in(10 * WEFT_SEC), .how = how, .rc = 4711};
    flow_start(&k->flow, selects, k);
}

static inline void begin(struct call *k, weft_case *cases, size_t n)
{
    begin_how(k, weft_select, cases, n);
}

static inline int end(struct call *k)
{
    flow_end(&k->flow);
    return k->rc;
}

/* What meets a select that waits on the channel. */
static inline void sends_one(weft_chan *c)
{
    int v = 2;
    CHECK_INT(weft_chan_send(c, &v, WEFT_NOW), ==, 0);
}

static inline void receives_one(weft_chan *c)
{
    int v = 0;
    CHECK_INT(weft_chan_recv(c, &v, WEFT_NOW), ==, 0);
}

static inline void closes(weft_chan *c)
{
    CHECK_INT(weft_chan_close(c), ==, 0);
}

#endif
