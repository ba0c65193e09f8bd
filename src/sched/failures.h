/*
 * sched/failures.h: the list of a scope's failures: its first WF_FAILURES_MOST children that failed. The first piece of
 * memory has room for a few. Without memory a failure is counted, and not listed.
 */
#ifndef WF_SCHED_FAILURES_H
#define WF_SCHED_FAILURES_H

#include <string.h>

#include <weft/scope.h>

#include "base/sys.h"

enum { WF_FAILURES_FEW = 4, WF_FAILURES_MOST = 64 };

/* guarded by: the lock of the scope */
struct wf_failures {
    size_t count, room;
    weft_failure list[];
};

static inline void wf_failures_add(struct wf_failures **f, const weft_failure *who)
{
    struct wf_failures *had = *f;
    if (!had || (had->count == had->room && had->room < WF_FAILURES_MOST)) {
        size_t room = had ? WF_FAILURES_MOST : WF_FAILURES_FEW;
        struct wf_failures *made = wf_sys_malloc(sizeof *made + room * sizeof made->list[0]);
        if (!made)
            return;
        made->count = had ? had->count : 0;
        made->room = room;
        if (had)
            memcpy(made->list, had->list, had->count * sizeof made->list[0]);
        *f = made; /* before the free: a fork between the two leaves no pointer to freed memory in the child */
        wf_sys_free(had);
        had = made;
    }
    if (had->count < had->room)
        had->list[had->count++] = *who;
}

#endif
