/*
 * sched/inspect.c: what one may ask of a fiber and of a scheduler. Changes nothing.
 */
#include <sched.h>
#include <string.h>

#include "base/errno.h"
#include "sched/pick.h"
#include "sched/sched.h"
#include "sched/slice.h"
#include "sched/timers.h"
#include "sched/wait.h"

weft_fiber *weft_fiber_current(void)
{
    wf_slice_here();
    return wf_thread_now()->fiber;
}

uint64_t weft_fiber_id(const weft_fiber *f)
{
    wf_slice_here();
    wf_debug_handle(__func__, f);
    return f ? wf_load(&f->id) : 0;
}

const char *weft_fiber_name(const weft_fiber *f)
{
    wf_slice_here();
    wf_debug_handle(__func__, f);
    return f ? f->name : "";
}

enum weft_fiber_state weft_fiber_state(const weft_fiber *f)
{
    wf_slice_here();
    wf_debug_handle(__func__, f);
    wf_fork_look();
    if (!f)
        return WEFT_FIBER_NONE;
    uint32_t state = wf_load_acquire(&f->state); /* pairs with wf_worker_commit */
    /* Its worker is about to let it wait, or it has been woken: it is not to be found where it waits. */
    if (state == WEFT_FIBER_PARKED && !wf_waits(wf_load(&f->sleeper.phase)))
        return WEFT_FIBER_READY;
    return (enum weft_fiber_state)state;
}

weft_time weft_fiber_born(const weft_fiber *f)
{
    wf_slice_here();
    wf_debug_handle(__func__, f);
    return (weft_time){f ? wf_load(&f->born) : 0};
}

const char *weft_fiber_site(const weft_fiber *f)
{
    wf_slice_here();
    wf_debug_handle(__func__, f);
    return f ? wf_load(&f->site) : "";
}

const char *weft_fiber_waits_for(const weft_fiber *f, weft_time *until)
{
    wf_slice_here();
    wf_debug_handle(__func__, f);
    wf_fork_look();
    const char *what = weft_fiber_state(f) == WEFT_FIBER_PARKED ? wf_load(&f->what) : NULL;
    if (until)
        until->ns = what ? wf_load(&f->until) : INT64_MAX;
    return what ? what : "";
}

int weft_fiber_worker(const weft_fiber *f)
{
    wf_slice_here();
    wf_debug_handle(__func__, f);
    const struct wf_worker *w = f ? wf_load(&f->home) : NULL;
    return w ? (int)w->index : -1;
}

void *weft_policy_room(weft_fiber *f)
{
    return f ? f->room : NULL;
}

void weft_policy_attr(const weft_fiber *f, int *priority, weft_span *cost, weft_time *due)
{
    if (!f)
        return;
    if (priority)
        *priority = f->priority;
    if (cost)
        *cost = f->cost;
    if (due)
        *due = f->due;
}

const char *weft_sched_name(const weft_sched *s)
{
    wf_slice_here();
    return s ? s->name : "";
}

weft_time weft_sched_born(const weft_sched *s)
{
    wf_slice_here();
    return (weft_time){s ? s->born : 0};
}

int weft_sched_tid(const weft_sched *s, int worker)
{
    wf_slice_here();
    if (!s || worker < 0 || (unsigned)worker >= s->made)
        return -EINVAL;
    if ((unsigned)worker >= s->workers)
        return -ESRCH;
    const struct wf_worker *w = s->worker[worker];
    while (wf_load(&w->tid) == 0 && wf_load(&s->life) == WF_RUNNING)
        sched_yield(); /* the thread was made, and will begin */
    int tid = wf_load(&w->tid);
    return tid != 0 ? tid : -ESRCH;
}

struct waiting {
    const weft_sched *of;
    size_t ready, parked, sleeping, deadlines;
};

static void count_waiting(weft_fiber *f, void *arg)
{
    struct waiting *n = arg;
    uint32_t state = wf_load(&f->state);
    if (wf_load(&f->sched) != n->of)
        return;
    n->ready += state == WEFT_FIBER_READY; /* in an inbox as well */
    if (state != WEFT_FIBER_PARKED)
        return;
    n->parked++;
    n->sleeping += wf_load(&f->what) == wf_what_sleep;
    n->deadlines += wf_load(&f->until) != INT64_MAX;
}

int weft_sched_stats(const weft_sched *s, weft_sched_figures *out)
{
    wf_slice_here();
    if (!s || !out || out->size == 0 || out->size > sizeof *out)
        return -EINVAL;
    weft_sched_figures all = {.size = out->size, .workers = s->workers};
    all.idle = wf_load(&s->idle_count);
    all.spawned = wf_load(&s->spawned_outside);
    for (unsigned i = 0; i < s->workers; i++) {
        const struct wf_worker *w = s->worker[i];
        all.active += wf_load(&w->works);
        all.timers += wf_load(&w->timers->pending) + wf_load(&w->timers->scopes);
        all.watches += wf_load(&w->counts.watches);
        all.spawned += wf_load(&w->counts.spawned);
        all.ended += wf_load(&w->counts.ended);
        all.stolen += wf_load(&w->counts.stolen);
        all.switches += wf_load(&w->counts.switches);
        all.warm_hits += wf_load(&w->counts.warm_hits);
        all.warm_misses += wf_load(&w->counts.warm_misses);
    }
    all.active -= all.idle < all.active ? all.idle : all.active;
    struct waiting waiting = {.of = s};
    wf_fork_look();
    wf_pool_walk(count_waiting, &waiting);
    all.ready = waiting.ready;
    all.parked = waiting.parked;
    all.sleeping = waiting.sleeping;
    all.timers += waiting.deadlines;
    memcpy(out, &all, out->size);
    return 0;
}
