/*
 * sched/starved.c: see starved.h.
 */
#include "sched/starved.h"

#include "base/barrier.h"
#include "base/clock.h"
#include "sched/queue.h"
#include "sched/sched.h"

#define PAUSE_NS ((int64_t)1000000)

enum {
    FEWEST_TRIES = 16, /* so many of `others` may fail before the next pause. If none fails, twice as many next time */
    MOST_TRIES = 4096,
    AT_ONCE = 64, /* a thief takes at most so many fibers from another worker */
};

/* Whether a submit has named this worker for f's first turn. */
static bool is_named(const struct wf_worker *w, const weft_fiber *f)
{
    return !f->coro && !f->bound && wf_load(&f->home) == w;
}

static bool may_move(const struct wf_worker *w, const weft_fiber *f)
{
    return !w->solo && !f->bound && !is_named(w, f);
}

static bool is_other(const struct wf_worker *w, const weft_fiber *f)
{
    return w->set || f->shared || f->coro;
}

static bool in_use(const struct wf_starved_size *l)
{
    return l->list.first || l->trying;
}

/* The list of f's size; NULL: there is none. guarded by: starved.lock */
static struct wf_starved_size *find(struct wf_worker *w, const weft_fiber *f)
{
    bool moves = may_move(w, f);
    for (unsigned i = 0; !is_other(w, f) && i < WF_STARVED_SIZES; i++) {
        struct wf_starved_size *l = &w->starved.size[i];
        if (in_use(l) && l->class == f->class && l->moves == moves)
            return l;
    }
    return NULL;
}

/* Like find, but begins a list if there is none, unless all lists are in use. */
static struct wf_starved_size *find_or_begin(struct wf_worker *w, const weft_fiber *f)
{
    struct wf_starved_size *known = find(w, f);
    if (known || is_other(w, f))
        return known;
    for (struct wf_starved_size *l = w->starved.size; l < w->starved.size + WF_STARVED_SIZES; l++) {
        if (!in_use(l)) {
            *l = (struct wf_starved_size){.class = f->class, .moves = may_move(w, f)};
            return l;
        }
    }
    return NULL;
}

/* Call after a change of the lists: recounts `active` and `movable`, and unlocks. */
static void unlock(struct wf_starved *s)
{
    uint32_t active = s->others.first != NULL;
    size_t movable = 0;
    for (const struct wf_starved_size *l = s->size; l < s->size + WF_STARVED_SIZES; l++) {
        active += in_use(l);
        movable += l->moves ? l->list.count : 0;
    }
    wf_store(&s->active, active);
    wf_store(&s->movable, movable);
    wf_unlock(&s->lock);
}

static void push_first(struct wf_fifo *q, weft_fiber *f)
{
    if (!q->first)
        q->last = f;
    f->next = q->first;
    q->first = f;
    wf_store(&q->count, q->count + 1);
}

/* Lets the first fiber of a list try, unless a fiber of that list is trying. guarded by: starved.lock */
static void take_first(struct wf_starved_size *l, struct wf_fifo *ready)
{
    if (l->trying || !l->list.first)
        return;
    l->trying = wf_fifo_pop(&l->list);
    wf_fifo_push(ready, l->trying);
}

static void take_others(struct wf_starved *s, size_t most, struct wf_fifo *ready)
{
    for (; most > 0 && s->others.first; most--)
        wf_fifo_push(ready, wf_fifo_pop(&s->others));
}

/* Makes the fibers ready to try on this worker, where no thief can take them. */
static void make_ready(struct wf_worker *w, struct wf_fifo *ready)
{
    w->starved.freed += ready->count;
    for (weft_fiber *f; (f = wf_fifo_pop(ready)) != NULL;) {
        if (w->set)
            wf_worker_push(w, f, WEFT_WHY_YIELD);
        else
            wf_worker_keep(w, f);
    }
}

/* Wakes an idle worker, which may have stacks at hand. */
static void wake_another(const struct wf_worker *w)
{
    wf_barrier_light(); /* pairs with wf_idle's */
    wf_sched_wake_one(w->sched);
}

bool wf_starved_waits(struct wf_worker *w, weft_fiber *f)
{
    struct wf_starved *s = &w->starved;
    wf_lock(&s->lock);
    struct wf_starved_size *l = find(w, f);
    bool waits = l ? l->trying != f : is_other(w, f) && s->others.first && s->tries == 0;
    if (waits) {
        wf_store(&f->state, WEFT_FIBER_READY);
        wf_fifo_push(l ? &l->list : &s->others, f);
    }
    bool moves = waits && l && l->moves;
    unlock(s);
    if (moves)
        wake_another(w);
    return waits;
}

void wf_starved_failed(struct wf_worker *w, weft_fiber *f)
{
    struct wf_starved *s = &w->starved;
    wf_worker_drop_spare(w); /* else a newcomer could take it, and overtake the fibers that wait */
    wf_store(&f->state, WEFT_FIBER_READY);
    wf_lock(&s->lock);
    struct wf_starved_size *l = find_or_begin(w, f);
    if (l) {
        push_first(&l->list, f);
        l->trying = NULL;
    } else {
        wf_fifo_push(&s->others, f);
        s->tries -= s->tries > 0;
    }
    int64_t now = wf_clock_now();
    if (s->again_at <= now) /* a fiber that fails again and again does not delay the others */
        s->again_at = now + PAUSE_NS;
    w->round |= WF_ROUND_TIMED;
    bool moves = l && l->moves;
    unlock(s);
    if (moves)
        wake_another(w);
}

void wf_starved_started(struct wf_worker *w, const weft_fiber *f)
{
    struct wf_starved *s = &w->starved;
    struct wf_fifo ready = {0};
    wf_lock(&s->lock);
    struct wf_starved_size *l = find(w, f);
    if (l && l->trying == f) {
        l->trying = NULL;
        take_first(l, &ready);
    } else if (is_other(w, f)) {
        take_others(s, 1, &ready);
    }
    unlock(s);
    make_ready(w, &ready);
}

void wf_starved_given(struct wf_worker *w, unsigned class)
{
    struct wf_starved *s = &w->starved;
    struct wf_fifo ready = {0};
    wf_lock(&s->lock);
    for (struct wf_starved_size *l = s->size; l < s->size + WF_STARVED_SIZES; l++) {
        if (l->class == class)
            take_first(l, &ready);
    }
    s->tries += s->tries == 0;
    take_others(s, 1, &ready);
    unlock(s);
    make_ready(w, &ready);
}

void wf_starved_look(struct wf_worker *w)
{
    struct wf_starved *s = &w->starved;
    struct wf_fifo ready = {0};
    if (w->now < s->again_at)
        return;
    s->again_at = w->now + PAUSE_NS;
    wf_lock(&s->lock);
    for (struct wf_starved_size *l = s->size; l < s->size + WF_STARVED_SIZES; l++)
        take_first(l, &ready);
    bool all_ran = s->batch > 0 && s->tries >= s->batch;
    s->batch = !all_ran ? FEWEST_TRIES : s->batch < MOST_TRIES ? 2 * s->batch : MOST_TRIES;
    s->tries = s->batch;
    take_others(s, s->batch, &ready);
    unlock(s);
    make_ready(w, &ready);
}

size_t wf_starved_count(struct wf_worker *w)
{
    struct wf_starved *s = &w->starved;
    wf_lock(&s->lock);
    size_t count = s->others.count;
    for (const struct wf_starved_size *l = s->size; l < s->size + WF_STARVED_SIZES; l++)
        count += l->list.count;
    wf_unlock(&s->lock);
    return count;
}

size_t wf_starved_freed(struct wf_worker *w)
{
    size_t freed = w->starved.freed;
    w->starved.freed = 0;
    return freed;
}

/* Takes fibers that may move from one worker. */
static struct wf_fifo take_movable(struct wf_starved *s)
{
    struct wf_fifo taken = {0};
    wf_lock(&s->lock);
    for (struct wf_starved_size *l = s->size; l < s->size + WF_STARVED_SIZES; l++) {
        while (l->moves && l->list.first && taken.count < AT_ONCE)
            wf_fifo_push(&taken, wf_fifo_pop(&l->list));
    }
    unlock(s);
    return taken;
}

weft_fiber *wf_starved_steal(struct wf_worker *w)
{
    const weft_sched *s = w->sched;
    for (unsigned i = 0; i < s->workers && !wf_starves(w); i++) {
        struct wf_worker *victim = s->worker[i];
        if (victim == w || wf_load(&victim->starved.movable) == 0)
            continue;
        struct wf_fifo taken = take_movable(&victim->starved);
        wf_store(&w->counts.stolen, w->counts.stolen + taken.count);
        weft_fiber *first = wf_fifo_pop(&taken);
        for (weft_fiber *f; (f = wf_fifo_pop(&taken)) != NULL;)
            wf_worker_push(w, f, WEFT_WHY_YIELD);
        if (first)
            return first;
    }
    return NULL;
}

bool wf_starved_elsewhere(const struct wf_worker *w)
{
    const weft_sched *s = w->sched;
    for (unsigned i = 0; i < s->workers && !wf_starves(w); i++) {
        if (s->worker[i] != w && wf_load(&s->worker[i]->starved.movable) > 0)
            return true;
    }
    return false;
}

void wf_starved_forget(struct wf_worker *w)
{
    w->starved = (struct wf_starved){0};
}
