/*
 * sched/circle.c: see circle.h.
 */
#include "sched/circle.h"

#include <stdlib.h>

#include "base/sys.h"
#include "sched/object.h"

struct link {
    uintptr_t fiber; /* its record */
    uintptr_t next;  /* the fiber that it waits for; 0: no particular fiber */
    size_t round;    /* the first walk that visited this link; 0: none */
    struct wf_awaited awaited;
};

struct links {
    const weft_sched *of;
    struct link *link;
    size_t count, room;
};

static void collect(weft_fiber *f, void *arg)
{
    struct links *l = arg;
    if (wf_load_acquire(&f->state) != WEFT_FIBER_PARKED ||
        wf_load(&f->sched) != l->of) /* pairs with wf_worker_commit */
        return;
    if (l->count++ < l->room)
        l->link[l->count - 1] = (struct link){.fiber = (uintptr_t)f, .awaited = wf_awaited_by(f)};
}

static int by_fiber(const void *a, const void *b)
{
    uintptr_t x = ((const struct link *)a)->fiber, y = ((const struct link *)b)->fiber;
    return x < y ? -1 : x > y;
}

static void find_next(struct links *l)
{
    struct wf_window window;
    wf_window_open(&window);
    for (size_t i = 0; i < l->count; i++) {
        struct wf_object o = wf_object_of(&window, &l->link[i].awaited);
        l->link[i].next = o.holder == WF_HOLDER_ONE || o.holder == WF_HOLDER_JOINED ? o.by : 0;
    }
    wf_window_close(&window);
}

/*
 * Each walk goes from a fiber to the fiber that it waits for, and so on, until it meets a fiber that a walk has visited
 * before. If the same walk has visited it, there is a circle.
 */
static bool walk_all(struct links *l)
{
    for (size_t i = 0; i < l->count; i++) {
        for (struct link *at = &l->link[i]; at;) {
            if (at->round == i + 1)
                return true;
            if (at->round != 0)
                break;
            at->round = i + 1;
            struct link next = {.fiber = at->next};
            at = bsearch(&next, l->link, l->count, sizeof *l->link, by_fiber);
        }
    }
    return false;
}

bool wf_has_circle(const weft_sched *s)
{
    struct links l = {.of = s};
    wf_pool_walk(collect, &l); /* counts */
    l.room = l.count;
    l.link = l.room > 0 ? wf_sys_malloc(l.room * sizeof *l.link) : NULL;
    if (!l.link)
        return false;
    l.count = 0;
    wf_pool_walk(collect, &l);
    l.count = l.count < l.room ? l.count : l.room;
    qsort(l.link, l.count, sizeof *l.link, by_fiber);
    find_next(&l);
    bool found = walk_all(&l);
    wf_sys_free(l.link);
    return found;
}
