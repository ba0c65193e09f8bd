/*
 * sync/chan.c: channels; weft/chan.h says what they promise, chan.h how they are made.
 *
 * An operation that need not wait takes the lock once. One that finds its other half waiting wins it under the lock
 * (wf_settle), copies the value straight from or to its place, and makes it ready after the lock was released; it
 * touches the channel no more then, as who was woken may free it.
 */
#include "sync/chan.h"

#include <stdint.h>

#include "base/errno.h"
#include "base/sys.h"
#include "sched/budget.h"
#include "sched/object.h"
#include "sync/object.h"

_Static_assert(offsetof(weft_chan, lock) == WF_CHAN_LOCK_AT, "dumps look for the channel");

int weft_chan_new(weft_chan **out, size_t elem, size_t capacity)
{
    size_t bytes;
    if (!out || elem > PTRDIFF_MAX || __builtin_mul_overflow(elem, capacity, &bytes) ||
        bytes > PTRDIFF_MAX - sizeof(weft_chan))
        return -EINVAL;
    weft_chan *c = wf_sys_malloc(sizeof *c + bytes);
    if (!c)
        return -ENOMEM;
    *c = (weft_chan){.elem = elem, .capacity = capacity};
    *out = c;
    return 0;
}

int weft_chan_free(weft_chan *c)
{
    if (!c)
        return 0;
    wf_lock(&c->lock);
    bool busy = c->waiting > 0;
    wf_unlock(&c->lock);
    if (busy) {
        wf_debug_busy(__func__, c);
        return -EBUSY;
    }
    wf_sys_free(c);
    return 0;
}

static inline void *slot(weft_chan *c, size_t i)
{
    return c->slots + i * c->elem;
}

static void push(weft_chan *c, const void *value)
{
    size_t i = c->first + c->count++;
    wf_chan_copy(slot(c, i < c->capacity ? i : i - c->capacity), value, c->elem);
}

static void pop(weft_chan *c, void *value)
{
    wf_chan_copy(value, slot(c, c->first), c->elem);
    if (++c->first == c->capacity)
        c->first = 0;
    c->count--;
}

/* `won` was won: the other cases of its select leave the channel too, as the select will not look at it any more. */
static WF_COLD void remove_siblings(weft_chan *c, struct wf_chan_case *won)
{
    for (struct wf_chan_case *k = won->sibling; k != won; k = k->sibling) {
        /* Which list it is in matters at the ends of that only. */
        bool sends = c->senders.first == &k->waiter || c->senders.last == &k->waiter;
        wf_chan_take_back(c, sends, &k->waiter);
    }
}

/* Takes waiters out, first come first, until one is won; NULL: there is none. `closed`: added to its result. */
static inline struct wf_waiter *win_first(weft_chan *c, struct wf_waiters *list, uint32_t closed)
{
    for (struct wf_waiter *w; (w = list->first) != NULL;) {
        wf_waiters_remove_first(list, w);
        if (wf_settle(w->who, (int)((w->index & ~WF_CHAN_SIBLINGS) | closed))) {
            c->waiting--;
            if (wf_unlikely(w->index & WF_CHAN_SIBLINGS))
                remove_siblings(c, (struct wf_chan_case *)w);
            return w;
        }
    }
    return NULL;
}

static inline __attribute__((always_inline)) int send_now(weft_chan *c, const void *value, struct wf_sleeper **woken)
{
    if (c->closed)
        return -EPIPE;
    struct wf_waiter *receiver = win_first(c, &c->receivers, 0);
    if (receiver) {
        wf_chan_copy(receiver->data, value, c->elem);
        *woken = receiver->who;
        return 0;
    }
    if (c->count == c->capacity)
        return -EAGAIN;
    push(c, value);
    return 0;
}

static inline __attribute__((always_inline)) int recv_now(weft_chan *c, void *value, struct wf_sleeper **woken)
{
    bool any = c->count > 0;
    if (any)
        pop(c, value);
    struct wf_waiter *sender = win_first(c, &c->senders, 0);
    if (sender) {
        if (any)
            push(c, sender->data); /* behind those that were there before it */
        else
            wf_chan_copy(value, sender->data, c->elem);
        *woken = sender->who;
    }
    return any || sender ? 0 : c->closed ? -EPIPE : -EAGAIN;
}

int wf_chan_send_now(weft_chan *c, const void *value, struct wf_sleeper **woken)
{
    return send_now(c, value, woken);
}

int wf_chan_recv_now(weft_chan *c, void *value, struct wf_sleeper **woken)
{
    return recv_now(c, value, woken);
}

/* Under the lock, which it releases: waits for the other half, which finds the value's place in the waiter. */
static int wait_for_other_half(weft_chan *c, bool sends, void *value, struct wf_sleeper *me, weft_time deadline)
{
    me->node.data = value;
    me->node.index = 0;
    wf_chan_add(c, sends, &me->node, me);
    int rc = wf_wait_unlocking(me, sends ? "channel send" : "channel receive", &c->lock, deadline);
    if (rc >= 0)
        return rc == 0 ? 0 : -EPIPE; /* the channel may be gone */
    wf_lock(&c->lock);
    wf_chan_take_back(c, sends, &me->node);
    wf_unlock(&c->lock);
    return rc;
}

/* The value lies on the caller's shared stack, where nobody can find it while the caller waits: tries with a copy. */
static WF_COLD int send_copy(weft_chan *c, const void *value, weft_time deadline)
{
    void *copy = wf_sys_malloc(c->elem);
    if (!copy)
        return -ENOMEM;
    wf_chan_copy(copy, value, c->elem);
    int rc = weft_chan_send(c, copy, deadline);
    wf_sys_free(copy);
    return rc;
}

static WF_COLD int recv_copy(weft_chan *c, void *value, weft_time deadline)
{
    size_t elem = c->elem;
    void *copy = wf_sys_malloc(elem);
    if (!copy)
        return -ENOMEM;
    int rc = weft_chan_recv(c, copy, deadline);
    if (rc == 0)
        wf_chan_copy(value, copy, elem); /* the channel may be gone */
    wf_sys_free(copy);
    return rc;
}

WF_HOT int weft_chan_send(weft_chan *c, const void *value, weft_time deadline)
{
    if (wf_unlikely(!c || (!value && c->elem > 0)))
        return -EINVAL;
    struct wf_sleeper own, *me = wf_sleeper(&own), *woken = NULL;
    if (wf_cancel_point_of(me, deadline))
        return -ECANCELED;
    wf_lock(&c->lock);
    int rc = send_now(c, value, &woken);
    bool waits = rc == -EAGAIN && !wf_time_is_now(deadline), moves = waits && c->elem > 0 && wf_on_copied_stack(value);
    if (waits && !moves)
        return wait_for_other_half(c, true, (void *)(uintptr_t)value, me, deadline);
    wf_unlock(&c->lock);
    if (wf_unlikely(moves))
        return send_copy(c, value, deadline);
    if (woken)
        wf_ready(woken);
    wf_budget_spend(WF_COST_CHAN, !wf_time_is_now(deadline));
    return rc;
}

WF_HOT int weft_chan_recv(weft_chan *c, void *value, weft_time deadline)
{
    if (wf_unlikely(!c || (!value && c->elem > 0)))
        return -EINVAL;
    struct wf_sleeper own, *me = wf_sleeper(&own), *woken = NULL;
    if (wf_cancel_point_of(me, deadline))
        return -ECANCELED;
    wf_lock(&c->lock);
    int rc = recv_now(c, value, &woken);
    bool waits = rc == -EAGAIN && !wf_time_is_now(deadline), moves = waits && c->elem > 0 && wf_on_copied_stack(value);
    if (waits && !moves)
        return wait_for_other_half(c, false, value, me, deadline);
    wf_unlock(&c->lock);
    if (wf_unlikely(moves))
        return recv_copy(c, value, deadline);
    if (woken)
        wf_ready(woken);
    wf_budget_spend(WF_COST_CHAN, !wf_time_is_now(deadline));
    return rc;
}

/* Wins all of a list and appends them to the caller's, by `next`. Returns where that ends. */
static struct wf_waiter **win_all(weft_chan *c, struct wf_waiters *list, struct wf_waiter **end)
{
    for (struct wf_waiter *w; (w = win_first(c, list, WF_CHAN_CLOSED)) != NULL; end = &w->next)
        *end = w;
    return end;
}

int weft_chan_close(weft_chan *c)
{
    if (!c)
        return -EINVAL;
    struct wf_waiter *won = NULL, **end = &won;
    wf_lock(&c->lock);
    bool again = c->closed;
    c->closed = true;
    end = win_all(c, &c->senders, end);
    end = win_all(c, &c->receivers, end);
    *end = NULL;
    wf_unlock(&c->lock);
    wf_ready_all(won);
    return again ? -EPIPE : 0;
}

size_t weft_chan_count(const weft_chan *c)
{
    if (!c)
        return 0;
    struct wf_lock *lock = (struct wf_lock *)(uintptr_t)&c->lock; /* a channel is never const itself */
    wf_lock(lock);
    size_t count = c->count;
    wf_unlock(lock);
    return count;
}

size_t weft_chan_capacity(const weft_chan *c)
{
    return c ? c->capacity : 0;
}
