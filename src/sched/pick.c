/*
 * sched/pick.c: see pick.h and the picture in worker.h.
 */
#include "sched/pick.h"

#include "base/barrier.h"
#include "base/clock.h"
#include "coro/coro.h"
#include "sched/idle.h"
#include "sched/queue.h"
#include "sched/sched.h"
#include "sched/wait.h"

#define INJECT_EVERY 61 /* passes after which the injection queue comes first */

static inline bool push_to_ring(struct wf_worker *w, weft_fiber *f)
{
    uint32_t tail = wf_load(&w->ring.tail), turn = f->turn;
    if (wf_unlikely(!wf_ring_push(&w->ring, f)))
        return false;
    w->ring_turn[tail % WF_RING_SIZE] = turn; /* f may be another worker's by now */
    return true;
}

/* What did not fit into the ring goes there, oldest first, as it empties. */
WF_COLD static void refill_ring(struct wf_worker *w)
{
    for (uint32_t room = WF_RING_SIZE - wf_ring_count(&w->ring); w->waiting.first && room > 0; room--)
        push_to_ring(w, wf_fifo_pop(&w->waiting)); /* only we fill it, so there is room */
}

/* To the ring, for anybody to take; while that is full, to those who wait for a place in it. */
static void offer(struct wf_worker *w, weft_fiber *f)
{
    if (wf_unlikely(w->waiting.first != NULL || !push_to_ring(w, f))) {
        wf_fifo_push(&w->waiting, f);
        if (wf_ring_count(&w->ring) <= WF_RING_SIZE / 2)
            refill_ring(w);
    }
    wf_barrier_light(); /* pairs with wf_idle's */
    wf_sched_wake_one(w->sched);
}

static inline bool may_move(const struct wf_worker *w, const weft_fiber *f)
{
    return !w->solo && !f->bound && (!f->coro || f->flags & WEFT_MIGRATE);
}

static inline void push_last(struct wf_worker *w, weft_fiber *f)
{
    f->turn = w->turn++;
    if (may_move(w, f))
        offer(w, f);
    else
        wf_fifo_push(&w->queue, f);
}

static void push_to_set(struct wf_worker *w, weft_fiber *f, enum weft_why why)
{
    wf_store(&f->home, w);
    wf_store(&w->set_count, w->set_count + 1);
    w->sched->policy->push(w->set, f, why, (weft_time){wf_clock_now()});
}

void wf_worker_push(struct wf_worker *w, weft_fiber *f, enum weft_why why)
{
    wf_store(&f->state, WEFT_FIBER_READY);
    if (wf_unlikely(w->set))
        push_to_set(w, f, why);
    else
        push_last(w, f);
}

void wf_worker_woken(struct wf_worker *w, weft_fiber *f)
{
    bool timed_out = false;
    if (f->until != INT64_MAX) {
        timed_out = !f->timed;
        wf_deadline_end(w, f);
    }
    wf_store(&f->state, WEFT_FIBER_READY);
    uint16_t forward = wf_load(&f->forward);
    if (wf_unlikely(forward)) {
        struct wf_worker *to = w->sched->worker[forward - 1];
        wf_store(&f->forward, 0);
        wf_store(&f->home, to);
        wf_worker_send(to, f);
    } else if (wf_unlikely(w->set)) {
        push_to_set(w, f, WEFT_WHY_WAKE);
    } else if ((timed_out && !may_move(w, f)) || ((timed_out || w->polls) && w->sched->dispatch == WEFT_DIRECT)) {
        f->turn = w->turn++;
        w->round |= WF_ROUND_SLEEPERS;
        wf_fifo_push(&w->direct, f);
    } else if (w->thread && w->thread->fiber) { /* a fiber of ours woke it */
        weft_fiber *before = w->slot;
        wf_store(&w->slot, f);
        if (before)
            push_last(w, before);
    } else {
        push_last(w, f);
    }
}

void wf_worker_send(struct wf_worker *w, weft_fiber *f)
{
    const struct wf_worker *here = wf_thread_now()->worker;
    weft_sched *s = w->sched;
    bool outside = !here || here->sched != s; /* else it is there as long as we are */
    if (outside)
        wf_add(&s->senders, 1);
    wf_inbox_push(&w->inbox, &f->link);
    wf_fence(); /* pairs with wf_idle's */
    wf_driver_wake(&w->driver);
    if (outside)
        wf_add(&s->senders, (uint32_t)-1); /* pairs with weft_sched_free */
}

void wf_pick_gather(struct wf_worker *w)
{
    struct wf_inbox_node *next = wf_inbox_take_all(&w->inbox);
    for (struct wf_inbox_node *node = next; node; node = next) {
        next = node->next;
        weft_fiber *f = WF_FIBER_OF(node, link);
        if (wf_load(&f->state) == WEFT_FIBER_PARKED)
            wf_worker_woken(w, f);
        else
            wf_worker_push(w, f, f->coro ? WEFT_WHY_WAKE : WEFT_WHY_NEW);
    }
}

/* A share of the injection queue; the first of it is returned. */
static weft_fiber *take_injected(struct wf_worker *w)
{
    weft_sched *s = w->sched;
    if (wf_load(&s->injected.count) == 0)
        return NULL;
    wf_lock(&s->lock);
    size_t share = s->injected.count / s->workers + 1;
    share = share < WF_RING_SIZE / 2 ? share : WF_RING_SIZE / 2;
    weft_fiber *first = wf_fifo_pop(&s->injected);
    struct wf_fifo rest = {0};
    for (size_t i = 1; i < share; i++) {
        weft_fiber *f = wf_fifo_pop(&s->injected);
        if (!f)
            break;
        wf_fifo_push(&rest, f);
    }
    wf_unlock(&s->lock);
    for (weft_fiber *f; (f = wf_fifo_pop(&rest)) != NULL;)
        push_last(w, f);
    return first;
}

/* Half of what another worker has that may move. */
static weft_fiber *steal(struct wf_worker *w)
{
    weft_sched *s = w->sched;
    w->random = w->random * 1664525u + 1013904223u;
    unsigned start = (w->random >> 16) % s->workers;
    for (unsigned i = 0; i < s->workers; i++) {
        struct wf_worker *victim = s->worker[(start + i) % s->workers];
        if (victim == w)
            continue;
        uint32_t before = wf_load(&w->ring.tail);
        weft_fiber *f = wf_ring_steal(&victim->ring, &w->ring);
        if (!f)
            continue;
        uint32_t more = wf_load(&w->ring.tail) - before;
        for (uint32_t j = 0; j < more; j++)
            w->ring_turn[(before + j) % WF_RING_SIZE] = w->turn++;
        wf_store(&w->counts.stolen, w->counts.stolen + more + 1);
        if (more > 0) {         /* who looked for it on its way from ring to ring has seen nothing */
            wf_barrier_light(); /* pairs with wf_idle's */
            wf_sched_wake_one(s);
        }
        return f;
    }
    return NULL;
}

/*
 * What the next ones of the queue will touch first, which nobody has for long: the stack of the first, the coroutine of the
 * second, the record of the third. Each step needs what the one before fetched, a turn ago. (Always inline: gcc takes a
 * function that only fetches for one that does nothing.)
 */
static inline __attribute__((always_inline)) void fetch_ahead(const weft_fiber *f)
{
    if (!f)
        return;
    if (f->coro) {
        const char *sp = f->coro->sp;
        for (int line = 0; line < 6; line++)
            __builtin_prefetch(sp + line * 64);
    }
    if (f->next) {
        const char *third = (const char *)f->next->next;
        __builtin_prefetch(f->next->coro);
        for (size_t line = 0; line < sizeof *f; line += 64)
            __builtin_prefetch(third + line);
    }
}

static weft_fiber *pop_from(struct wf_worker *w, struct wf_fifo *from)
{
    weft_fiber *f = wf_fifo_pop(from);
    if (wf_unlikely(from == &w->direct) && !from->first)
        w->round &= (uint8_t)~WF_ROUND_SLEEPERS;
    return f;
}

/* Whether the first of `direct` goes before all others, whoever's turn it is. Every other pass: they hold up nobody. */
static bool goes_first(const struct wf_worker *w)
{
    return w->sched->dispatch == WEFT_DIRECT || (w->tick % 2 == 0 && wf_pick_here(w) >= WF_CROWD);
}

/* That of the queue and `direct` whose first has come earlier. */
static inline struct wf_fifo *earlier(struct wf_worker *w)
{
    const weft_fiber *d = w->direct.first, *f = w->queue.first;
    return wf_unlikely(d) && (!f || (int32_t)(d->turn - f->turn) < 0) ? &w->direct : &w->queue;
}

/* The first of queue, `direct` and ring, by their turns. */
static inline weft_fiber *pick_first(struct wf_worker *w)
{
    struct wf_fifo *from = earlier(w);
    weft_fiber *f = from->first;
    while (!w->solo) {
        uint32_t head = wf_load(&w->ring.head);
        if (wf_unlikely(w->waiting.first != NULL) && wf_load(&w->ring.tail) - head <= WF_RING_SIZE / 2)
            refill_ring(w);
        bool ring_has = head != wf_load(&w->ring.tail);
        if (!ring_has || (f && (int32_t)(w->ring_turn[head % WF_RING_SIZE] - f->turn) >= 0))
            break;
        weft_fiber *r = wf_ring_pop(&w->ring);
        if (r)
            return r; /* else thieves took all of it meanwhile: there may be more to fill it with */
    }
    if (f) {
        pop_from(w, from);
        fetch_ahead(from->first);
    }
    return f;
}

static inline weft_fiber *pick_slot(struct wf_worker *w)
{
    weft_fiber *f = w->slot;
    wf_store(&w->slot, NULL);
    if (++w->slot_streak < WF_SLOT_STREAK)
        return f;
    w->slot_streak = 0;
    push_last(w, f);
    return pick_first(w);
}

WF_COLD static weft_fiber *pick_from_set(struct wf_worker *w)
{
    if (w->set_count == 0)
        return NULL;
    wf_store(&w->set_count, w->set_count - 1);
    return w->sched->policy->pop(w->set, (weft_time){wf_clock_now()});
}

static inline weft_fiber *found(struct wf_worker *w, weft_fiber *f)
{
    if (wf_unlikely(w->searching))
        wf_idle_found(w);
    return f;
}

WF_COLD static weft_fiber *pick_elsewhere(struct wf_worker *w)
{
    weft_fiber *f = take_injected(w);
    if (!f && !w->solo)
        f = steal(w);
    return f ? found(w, f) : NULL;
}

weft_fiber *wf_pick(struct wf_worker *w)
{
    weft_fiber *f;
    w->tick++;
    if (wf_unlikely(!wf_inbox_is_empty(&w->inbox)))
        wf_pick_gather(w);
    if (wf_unlikely(w->set))
        return pick_from_set(w);
    if (wf_unlikely(w->direct.first) && goes_first(w))
        return found(w, pop_from(w, &w->direct));
    if (wf_unlikely((int32_t)(w->tick - w->inject_at) >= 0)) {
        w->inject_at = w->tick + INJECT_EVERY;
        if ((f = take_injected(w)) != NULL)
            return found(w, f);
    }
    if (w->slot)
        return pick_slot(w);
    w->slot_streak = 0;
    f = pick_first(w);
    return wf_likely(f) ? found(w, f) : pick_elsewhere(w);
}

void wf_pick_leave(struct wf_worker *w)
{
    weft_sched *s = w->sched;
    if (!w->waiting.first)
        return;
    wf_lock(&s->lock);
    for (weft_fiber *f; (f = wf_fifo_pop(&w->waiting)) != NULL;)
        wf_fifo_push(&s->injected, f);
    wf_unlock(&s->lock);
    wf_barrier_light(); /* pairs with wf_idle's */
    wf_sched_wake_one(s);
}

size_t wf_pick_here(const struct wf_worker *w)
{
    return wf_load(&w->queue.count) + wf_load(&w->waiting.count) + wf_ring_count(&w->ring) +
           (wf_load(&w->slot) != NULL) + wf_load(&w->set_count) + wf_load(&w->direct.count);
}

bool wf_pick_elsewhere(struct wf_worker *w)
{
    weft_sched *s = w->sched;
    if (w->set)
        return false;
    if (wf_load(&s->injected.count) > 0)
        return true;
    for (unsigned i = 0; i < s->workers; i++) {
        if (s->worker[i] != w && wf_ring_count(&s->worker[i]->ring) > 0)
            return true;
    }
    return false;
}
