/*
 * sched/pick.c: see pick.h and the picture in worker.h.
 */
#include "sched/pick.h"

#include "base/barrier.h"
#include "base/clock.h"
#include "coro/coro.h"
#include "sched/cancel.h"
#include "sched/idle.h"
#include "sched/lookout.h"
#include "sched/queue.h"
#include "sched/sched.h"
#include "sched/starved.h"
#include "sched/wait.h"

#define INJECT_EVERY 61 /* passes after which a worker that is busy takes from the injection queue */

/* To the injection queue. The caller wakes an idle worker if it has to. */
static void inject(weft_sched *s, weft_fiber *f)
{
    wf_lock(&s->lock);
    wf_fifo_push(&s->injected, f);
    wf_unlock(&s->lock);
    wf_fence(); /* pairs with take_nudge's and wf_idle's */
    wf_sched_nudge(s);
}

/* The ring is full. If it cannot grow, the fiber goes to the injection queue, where all workers see it. */
WF_COLD static void push_to_larger(struct wf_worker *w, weft_fiber *f)
{
    weft_sched *s = w->sched;
    if (wf_ring_grow(&w->ring)) {
        wf_ring_push(&w->ring, f, f->turn);
        return;
    }
    inject(s, f);
}

/* To the ring, for anybody to take. */
static void offer(struct wf_worker *w, weft_fiber *f)
{
    if (wf_unlikely(!wf_ring_push(&w->ring, f, f->turn)))
        push_to_larger(w, f);
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

/* f is to run next here, or on another worker if the fiber that runs here goes on for long. */
WF_NOINLINE static void offer_next(struct wf_worker *w, weft_fiber *f)
{
    weft_fiber *before = wf_worker_take_offered(w);
    wf_store(&w->offers, w->offers + 1);
    wf_store_release(&w->offered, f); /* pairs with wf_lookout_take */
    wf_barrier_light();               /* pairs with wf_idle's, and with that of a lookout that gives up */
    if (!wf_load(&w->sched->lookout))
        wf_sched_wake_one(w->sched);
    if (before)
        push_last(w, before);
}

static void push_to_set(struct wf_worker *w, weft_fiber *f, enum weft_why why)
{
    wf_store(&f->home, w);
    wf_store(&w->set_count, w->set_count + 1);
    w->sched->policy->push(w->set, f, why, (weft_time){wf_clock_now()});
}

/* As wf_worker_push, for the next of what came to the inbox. */
static inline void push(struct wf_worker *w, weft_fiber *f, enum weft_why why)
{
    wf_store(&f->state, WEFT_FIBER_READY);
    if (wf_unlikely(w->set))
        push_to_set(w, f, why);
    else
        push_last(w, f);
}

/*
 * f has come from another worker, and may be hopped to. The cancel of all fibers may have missed it: this worker has
 * cancelled its fibers already, and f's former worker has not. (A fiber that does not hop gets the bit in run().)
 */
static void catch_up_on_cancel(const struct wf_worker *w, weft_fiber *f)
{
    if (wf_unlikely(w->cancelled_to != 0))
        wf_bits_cancel(f, WEFT_CAUSE_SHUTDOWN);
}

/* To the queue, from which nobody steals: there it needs no mark, and is free once it has run. */
static void keep(struct wf_worker *w, weft_fiber *f)
{
    f->named = 0;
    f->turn = w->turn++;
    catch_up_on_cancel(w, f);
    wf_fifo_push(&w->queue, f);
}

/* What others have sent came before what this worker is given now, and has the earlier turns. */
WF_COLD static void gather_and_push(struct wf_worker *w, weft_fiber *f, enum weft_why why)
{
    wf_pick_gather(w);
    push(w, f, why);
}

void wf_worker_push(struct wf_worker *w, weft_fiber *f, enum weft_why why)
{
    if (wf_unlikely(!wf_inbox_is_empty(&w->inbox)))
        gather_and_push(w, f, why);
    else
        push(w, f, why);
}

void wf_worker_keep(struct wf_worker *w, weft_fiber *f)
{
    wf_pick_gather(w); /* as above */
    keep(w, f);
}

WF_COLD static void go_where_named(struct wf_worker *w, weft_fiber *f)
{
    struct wf_worker *to = w->sched->worker[f->named - 1];
    if (to == w) {
        keep(w, f);
    } else {
        wf_store(&f->home, to);
        wf_worker_send(to, f); /* with its mark, for wf_pick_gather */
    }
}

/* `sent`: by its inbox, so that neither the fiber that runs now woke it nor an event. */
static inline __attribute__((always_inline)) void woken(struct wf_worker *w, weft_fiber *f, bool sent)
{
    bool timed_out = false;
    if (f->until != INT64_MAX) {
        timed_out = !f->timed;
        wf_deadline_end(w, f);
    } else if (wf_unlikely(f->deaf)) {
        wf_deadline_end(w, f); /* its shield's */
    }
    wf_store(&f->state, WEFT_FIBER_READY);
    if (wf_unlikely(f->named)) {
        go_where_named(w, f);
    } else if (wf_unlikely(w->set)) {
        push_to_set(w, f, WEFT_WHY_WAKE);
    } else if ((timed_out && !may_move(w, f)) ||
               ((timed_out || (!sent && w->polls)) && w->sched->dispatch == WEFT_DIRECT)) {
        f->turn = w->turn++;
        w->round |= WF_ROUND_SLEEPERS;
        wf_fifo_push(&w->direct, f);
    } else if (!sent && w->thread && w->thread->fiber) { /* a fiber of ours woke it */
        if (wf_unlikely(f->flags & WEFT_MIGRATE) && may_move(w, f)) {
            offer_next(w, f);
            return;
        }
        weft_fiber *before = w->slot;
        wf_store(&w->slot, f);
        if (before)
            push_last(w, before);
    } else {
        push_last(w, f);
    }
}

void wf_worker_woken(struct wf_worker *w, weft_fiber *f)
{
    woken(w, f, false);
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

void wf_worker_take(struct wf_worker *home, weft_fiber *f)
{
    const struct wf_thread *t = wf_thread_now();
    struct wf_worker *here = t->worker;
    weft_sched *s = home->sched;
    wf_store(&f->state, WEFT_FIBER_READY);
    if (here && here->sched == s && (t->fiber || here->works)) {
        wf_store(&f->home, here);
        catch_up_on_cancel(here, f);
        if (t->fiber && wf_load(&home->driver.asleep) == WF_UP)
            offer_next(here, f);
        else
            push_last(here, f);
        return;
    }
    wf_add(&s->senders, 1); /* f may end, and with it the scheduler, before we have told of it */
    inject(s, f);
    wf_sched_wake_one(s);
    wf_add(&s->senders, (uint32_t)-1); /* pairs with weft_sched_free */
}

void wf_worker_nudge(struct wf_worker *w)
{
    if (wf_load(&w->nudged) == 0 && wf_exchange(&w->nudged, 1) == 0)
        wf_inbox_push(&w->inbox, &w->nudge);
}

void wf_sched_nudge(weft_sched *s)
{
    for (unsigned i = 0; i < s->workers; i++) {
        if (wf_load(&s->worker[i]->driver.asleep) == WF_UP) /* else it looks before it sleeps, or the caller wakes it */
            wf_worker_nudge(s->worker[i]);
    }
}

/*
 * The nudge has come: the worker looks around in its next pass. A thread that finds `nudged` set relies on that look to
 * see what the thread has published. So that thread reads `nudged` after a fence, and here a fence stands between the
 * store to `nudged` and the look.
 */
WF_COLD static void take_nudge(struct wf_worker *w)
{
    wf_store_release(&w->nudged, 0); /* pairs with the exchange of wf_worker_nudge: we have read the node's `next` */
    wf_fence();                      /* pairs with the fence before wf_worker_nudge */
    w->inject_at = w->tick;
    w->round |= WF_ROUND_TIMED;
    w->counted = wf_counter() - w->look_span.units;
}

void wf_pick_gather(struct wf_worker *w)
{
    struct wf_inbox_node *next = wf_inbox_take_all(&w->inbox);
    for (struct wf_inbox_node *node = next; node; node = next) {
        next = node->next;
        if (wf_unlikely(node == &w->nudge)) {
            take_nudge(w);
            continue;
        }
        weft_fiber *f = WF_FIBER_OF(node, link);
        if (wf_load(&f->state) == WEFT_FIBER_PARKED)
            woken(w, f, true);
        else if (f->named)
            keep(w, f);
        else
            push(w, f, f->coro ? WEFT_WHY_WAKE : WEFT_WHY_NEW);
    }
}

/* Takes a share of the injection queue, oldest first. */
static struct wf_fifo take_injected(weft_sched *s)
{
    struct wf_fifo taken = {0};
    if (wf_load(&s->injected.count) == 0)
        return taken;
    wf_lock(&s->lock);
    size_t share = s->injected.count / s->workers + 1;
    share = share < WF_RING_SIZE / 2 ? share : WF_RING_SIZE / 2;
    for (weft_fiber *f; taken.count < share && (f = wf_fifo_pop(&s->injected)) != NULL;)
        wf_fifo_push(&taken, f);
    wf_unlock(&s->lock);
    return taken;
}

/* It has come to this worker now: after all that is here. */
static void push_taken(struct wf_worker *w, struct wf_fifo *taken)
{
    for (weft_fiber *f; (f = wf_fifo_pop(taken)) != NULL;)
        push_last(w, f);
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
        weft_fiber *f = wf_ring_steal(&victim->ring, &w->ring, w->turn);
        if (!f)
            continue;
        uint32_t more = wf_load(&w->ring.tail) - before;
        w->turn += more;
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
        for (int line = 0; line < 12; line++)
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

/*
 * Whether the first of `direct` goes before all others, whoever's turn it is. With WEFT_DIRECT one turn in 16 goes to
 * the fiber that came first, so that short sleeps cannot hold up all other fibers. Else it is every other turn, and only
 * in a crowd.
 */
static bool goes_first(const struct wf_worker *w)
{
    if (w->sched->dispatch == WEFT_DIRECT)
        return w->tick % WF_SLOT_STREAK != 0;
    return w->tick % 2 == 0 && wf_pick_here(w) >= WF_CROWD;
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
        bool ring_has = head != wf_load(&w->ring.tail);
        if (!ring_has || (f && (int32_t)(wf_ring_note(&w->ring, head) - f->turn) >= 0))
            break;
        weft_fiber *r = wf_ring_pop_at(&w->ring, head);
        if (r)
            return r; /* else thieves took it: the next may be younger than f */
    }
    if (f) {
        pop_from(w, from);
        fetch_ahead(from->first);
    }
    return f;
}

static inline bool has_woken(const struct wf_worker *w)
{
    return ((uintptr_t)w->slot | (uintptr_t)wf_load(&w->offered)) != 0;
}

/* The fiber that the last one woke; NULL: the lookout has taken it. */
static inline weft_fiber *pick_woken(struct wf_worker *w)
{
    weft_fiber *f = w->slot;
    if (wf_likely(f))
        wf_store(&w->slot, NULL);
    else if ((f = wf_worker_take_offered(w)) == NULL)
        return NULL;
    if (++w->slot_streak < WF_SLOT_STREAK)
        return f;
    w->slot_streak = 0;
    if (!w->queue.first && !w->direct.first && wf_ring_count(&w->ring) == 0)
        return f; /* it is first and last in the line: no need to wake another worker */
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
    struct wf_fifo taken = take_injected(w->sched);
    weft_fiber *f = wf_fifo_pop(&taken); /* nothing else is here, so it is the first */
    push_taken(w, &taken);
    if (!f && !w->solo)
        f = steal(w);
    if (!f && !w->solo)
        f = wf_starved_steal(w);
    if (!f && w->lookout)
        f = wf_lookout_take(w);
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
        struct wf_fifo taken = take_injected(w->sched);
        w->inject_at = w->tick + INJECT_EVERY;
        push_taken(w, &taken);
    }
    if (has_woken(w) && (f = pick_woken(w)) != NULL)
        return f;
    w->slot_streak = 0;
    f = pick_first(w);
    return wf_likely(f) ? found(w, f) : pick_elsewhere(w);
}

size_t wf_pick_here(const struct wf_worker *w)
{
    return wf_load(&w->queue.count) + wf_ring_count(&w->ring) + (wf_load(&w->slot) != NULL) +
           (wf_load(&w->offered) != NULL) + wf_load(&w->set_count) + wf_load(&w->direct.count);
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
    return !w->solo && wf_starved_elsewhere(w);
}
