/*
 * sync/select.c: weft_select and weft_select_ordered: exactly one of several cases happens.
 *
 * It takes the locks of all objects, each once, in the order of their addresses. With all of them held it looks at the
 * cases in a random order; if none can happen, it links a waiter for each, in that order, and waits. So of several
 * cases on one object each is as likely to be the first in its list. An ordered select looks at the cases, and links
 * them, in the order in which they were given. The locks are released by the commit of that wait, when the sleeper can
 * be won. Who comes first for any of the cases wins it: the sleeper's word, settled by one compare-and-swap, is the
 * only arbiter. Its result is twice the index of the case, or one more (see chan.h). Awake again, select takes back the
 * waiters on the other objects, one object at a time. It does not touch the object of the case that happened: the
 * winner took out all waiters of this select there, and may have freed the object.
 *
 * Cases with WEFT_NONE are in neither of the two arrays of indices. If all cases are WEFT_NONE, select locks nothing
 * and links nothing: only the deadline or a cancel ends the wait.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/chan.h>

#include "base/errno.h"
#include "base/atomic.h"
#include "base/lock.h"
#include "base/sys.h"
#include "base/thread.h"
#include "sched/budget.h"
#include "sched/wait.h"
#include "sync/chan.h"
#include "sync/event.h"

enum {
    FEW = 8,        /* cases that need no memory but the C stack's */
    MOST = 1 << 30, /* cases whose results an int can hold */
};

#define NO_CASE SIZE_MAX /* instead of the index of a case: none */

struct entry {
    struct wf_chan_case place; /* guarded by: *lock, from the look to the end of take_back */
    struct wf_lock *lock;      /* const: the object's */
    size_t copied; /* const: bytes of the value in memory of ours, at place.waiter.data; 0: it stays where it is */
};

/* What a caller asked for. */
struct choice {
    weft_case *cases;
    size_t n;
    bool ordered;
};

/* One select. On the C stack, or allocated if there are many cases or that stack is a shared one. */
struct call {
    weft_case *cases;      /* const; only for the caller: they may be on a shared stack */
    size_t given;          /* const: how many cases there are */
    size_t n;              /* const: how many have an operation; by_lock and order have only these */
    struct entry *entries; /* by the index of the case; without meaning for a case that has no operation */
    uint32_t *by_lock;     /* const: indices of cases in the order of their locks' addresses */
    uint32_t *order;       /* indices of cases in the order of the look; all of them after a look that found none */
    bool ordered;          /* const: the first case that can happen does */
    bool allocated;        /* const */
    bool repeats;          /* an object is in several cases; known since lock_all */
};

/* ---- chance ---- */

enum { ROW_BITS = 6 };

/* Each thread draws from the row that its address falls on. Two on one row do no harm: a draw may be made twice. */
static struct {
    _Alignas(64) uint64_t state; /* atomic: relaxed */
} rows[1 << ROW_BITS];

/* A number below n. */
static inline __attribute__((always_inline)) uint32_t draw_below(uint32_t n)
{
    uint64_t *state = &rows[((uintptr_t)wf_thread_now() >> 6) * 0x9e3779b97f4a7c15u >> (64 - ROW_BITS)].state;
    uint64_t x = wf_load(state) + 0x9e3779b97f4a7c15u;
    wf_store(state, x);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u; /* splitmix64 */
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((x >> 32) * n >> 32);
}

/* ---- one case ---- */

static bool valid(const weft_case *k)
{
    switch (k->op) {
    case WEFT_SEND:
    case WEFT_RECV:
        return k->chan && (k->value || k->chan->elem == 0);
    case WEFT_EVENT:
        wf_check_place("weft_select", k->event);
        return k->event != NULL;
    default:
        return k->op == WEFT_NONE;
    }
}

static struct wf_lock *lock_of(const weft_case *k)
{
    return k->op == WEFT_EVENT ? wf_event_lock(k->event) : &k->chan->lock;
}

/* 0 or -EPIPE: it happened; -EAGAIN: it cannot. */
static int happen(const weft_case *k, struct wf_sleeper **woken)
{
    if (k->op == WEFT_EVENT)
        return wf_event_is_set(k->event) ? 0 : -EAGAIN;
    return k->op == WEFT_SEND ? wf_chan_send_now(k->chan, k->value, woken) : wf_chan_recv_now(k->chan, k->value, woken);
}

static void add(const weft_case *k, struct wf_waiter *w, struct wf_sleeper *me)
{
    if (k->op == WEFT_EVENT)
        wf_event_add(k->event, w, me);
    else
        wf_chan_add(k->chan, k->op == WEFT_SEND, w, me);
}

static void take_back(const weft_case *k, struct wf_waiter *w)
{
    if (k->op == WEFT_EVENT)
        wf_event_take_back(k->event, w);
    else
        wf_chan_take_back(k->chan, k->op == WEFT_SEND, w);
}

/* ---- all cases ---- */

/* Shell's sort: with a few cases it is a plain insertion. */
static void sort_by_lock(struct call *s)
{
    for (size_t gap = s->n > FEW ? s->n / 2 : 1; gap > 0; gap /= 2) {
        for (size_t i = gap; i < s->n; i++) {
            uint32_t moved = s->by_lock[i];
            size_t to = i;
            for (; to >= gap && s->entries[s->by_lock[to - gap]].lock > s->entries[moved].lock; to -= gap)
                s->by_lock[to] = s->by_lock[to - gap];
            s->by_lock[to] = moved;
        }
    }
}

/* The kth lock in order of address if it is not the one before; else NULL. */
static struct wf_lock *distinct(const struct call *s, size_t k)
{
    struct wf_lock *lock = s->entries[s->by_lock[k]].lock;
    return k > 0 && s->entries[s->by_lock[k - 1]].lock == lock ? NULL : lock;
}

static void lock_all(struct call *s)
{
    for (size_t k = 0; k < s->n; k++) {
        struct wf_lock *lock = distinct(s, k);
        if (lock)
            wf_lock(lock);
        else
            s->repeats = true;
    }
}

static void unlock_all(const struct call *s)
{
    for (size_t k = 0; k < s->n; k++) {
        struct wf_lock *lock = distinct(s, k);
        if (lock)
            wf_unlock(lock);
    }
}

/* Lets a case happen that can: each is equally likely, or if ordered the first one happens. Its index, or NO_CASE. */
static size_t look(struct call *s, struct wf_sleeper **woken)
{
    for (size_t k = 0; k < s->n; k++) {
        size_t drawn = k + (s->ordered ? 0 : draw_below((uint32_t)(s->n - k)));
        uint32_t i = s->order[drawn];
        s->order[drawn] = s->order[k];
        s->order[k] = i;
        int result = happen(&s->cases[i], woken);
        if (result != -EAGAIN) {
            s->cases[i].result = result;
            return i;
        }
    }
    return NO_CASE;
}

/*
 * Reads the call to its end, although the first lock that it releases lets others win the caller: a thread runs this
 * itself, and a fiber comes back by the inbox of the worker that runs this.
 */
static bool commit(struct wf_sleeper *me, void *arg)
{
    unlock_all(arg);
    wf_commit_done(me);
    return true;
}

/* Takes back the waiters of all cases, but those on the object of the case that happened (if any). */
static void take_back_all(struct call *s, size_t happened)
{
    const struct wf_lock *gone = happened != NO_CASE ? s->entries[happened].lock : NULL; /* not to be followed */
    struct wf_lock *held = NULL;
    for (size_t k = 0; k < s->n; k++) {
        uint32_t i = s->by_lock[k];
        if (s->entries[i].lock == gone)
            continue;
        if (s->entries[i].lock != held) {
            if (held)
                wf_unlock(held);
            held = s->entries[i].lock;
            wf_lock(held);
        }
        take_back(&s->cases[i], &s->entries[i].place.waiter);
    }
    if (held)
        wf_unlock(held);
}

/* Rings of the cases that are on one channel. (A set event takes out all waiters anyway.) */
static WF_COLD void link_siblings(struct call *s)
{
    struct wf_chan_case *first = &s->entries[s->by_lock[0]].place, *last = first;
    for (size_t k = 1; k < s->n; k++) {
        struct entry *e = &s->entries[s->by_lock[k]];
        const weft_case *it = &s->cases[s->by_lock[k]];
        if (distinct(s, k)) {
            first = last = &e->place;
            continue;
        }
        if (it->op == WEFT_EVENT)
            continue;
        first->waiter.index |= WF_CHAN_SIBLINGS;
        e->place.waiter.index |= WF_CHAN_SIBLINGS;
        last->sibling = &e->place;
        e->place.sibling = first;
        last = &e->place;
    }
}

static void link_all(struct call *s, struct wf_sleeper *me)
{
    if (wf_unlikely(s->repeats))
        link_siblings(s);
    for (size_t k = 0; k < s->n; k++) {
        uint32_t i = s->order[k];
        add(&s->cases[i], &s->entries[i].place.waiter, me);
    }
}

/* The channel of case i was closed: chooses a case on it, each as likely as the others, or if ordered the first. */
static WF_COLD size_t any_closed_with(const struct call *s, size_t i)
{
    const struct wf_lock *lock = s->entries[i].lock; /* not to be followed */
    size_t first = 0, n = 0, lowest = i;
    while (s->entries[s->by_lock[first]].lock != lock)
        first++;
    for (; first + n < s->n && s->entries[s->by_lock[first + n]].lock == lock; n++) {
        if (s->by_lock[first + n] < lowest)
            lowest = s->by_lock[first + n];
    }
    return s->ordered ? lowest : s->by_lock[first + draw_below((uint32_t)n)];
}

/* With all locks held, which it releases: waits until a case happens. Its index, or a negative errno. */
static int wait_for_one(struct call *s, struct wf_sleeper *me, weft_time deadline)
{
    link_all(s, me);
    int rc = wf_wait(me, "select", commit, s, deadline);
    size_t i = rc < 0 ? NO_CASE : (size_t)rc / 2;
    take_back_all(s, i);
    if (rc < 0)
        return rc;
    bool closed = rc & WF_CHAN_CLOSED;
    if (closed)
        i = any_closed_with(s, i);
    s->cases[i].result = closed ? -EPIPE : 0;
    if (s->entries[i].copied > 0 && s->cases[i].op == WEFT_RECV && !closed)
        wf_chan_copy(s->cases[i].value, s->entries[i].place.waiter.data, s->entries[i].copied);
    return (int)i;
}

/* ---- the memory ---- */

static bool must_copy(const weft_case *k)
{
    return k->op != WEFT_EVENT && k->op != WEFT_NONE && k->chan->elem > 0 && wf_on_copied_stack(k->value);
}

/* Whether others could not find what they need while the caller waits. */
static bool out_of_reach(const struct call *s)
{
    bool any = wf_on_copied_stack(s);
    for (size_t k = 0; k < s->n && !any; k++)
        any = must_copy(&s->cases[s->order[k]]);
    return any;
}

static void prepare(struct call *s, const struct choice *of, struct entry *entries, uint32_t *indices)
{
    *s = (struct call){.cases = of->cases, .given = of->n, .ordered = of->ordered, .entries = entries};
    s->by_lock = indices;
    s->order = indices + of->n;
    for (size_t i = 0; i < of->n; i++) {
        if (wf_unlikely(of->cases[i].op == WEFT_NONE))
            continue;
        s->entries[i].place.waiter.index = 2 * (uint32_t)i;
        s->entries[i].place.waiter.data = of->cases[i].value;
        s->entries[i].lock = lock_of(&of->cases[i]);
        s->entries[i].copied = 0;
        s->by_lock[s->n] = s->order[s->n] = (uint32_t)i;
        s->n++;
    }
    sort_by_lock(s);
}

/* Gives each value on the caller's shared stack a place that stays. */
static void copy_values(struct call *s, unsigned char *room)
{
    for (size_t i = 0; i < s->given; i++) {
        const weft_case *k = &s->cases[i];
        if (!must_copy(k))
            continue;
        s->entries[i].copied = k->chan->elem;
        s->entries[i].place.waiter.data = room;
        if (k->op == WEFT_SEND)
            wf_chan_copy(room, k->value, k->chan->elem);
        room += k->chan->elem;
    }
}

/* A call that is not on the C stack; NULL: no memory. */
static struct call *allocate(const struct choice *of)
{
    struct call *s;
    size_t bytes = sizeof *s + of->n * (sizeof *s->entries + 2 * sizeof *s->order); /* n is at most MOST */
    size_t fixed = bytes;
    for (size_t i = 0; i < of->n; i++) {
        if (must_copy(&of->cases[i]) && __builtin_add_overflow(bytes, of->cases[i].chan->elem, &bytes))
            return NULL;
    }
    s = wf_sys_malloc(bytes);
    if (!s)
        return NULL;
    struct entry *entries = (struct entry *)(s + 1);
    prepare(s, of, entries, (uint32_t *)(entries + of->n));
    s->allocated = true;
    copy_values(s, (unsigned char *)s + fixed);
    return s;
}

/* ---- the call ---- */

static int choose(struct call *s, weft_time deadline);

static WF_COLD int choose_allocated(const struct choice *of, weft_time deadline)
{
    struct call *s = allocate(of);
    if (!s)
        return -ENOMEM;
    int rc = choose(s, deadline);
    wf_sys_free(s);
    return rc;
}

static int choose(struct call *s, weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own), *woken = NULL;
    if (wf_cancel_point_of(me, deadline))
        return -ECANCELED;
    lock_all(s);
    size_t i = look(s, &woken);
    bool waits = i == NO_CASE && !wf_time_is_now(deadline), moves = waits && !s->allocated && out_of_reach(s);
    if (waits && !moves)
        return wait_for_one(s, me, deadline);
    unlock_all(s);
    if (wf_unlikely(moves))
        return choose_allocated(&(struct choice){s->cases, s->given, s->ordered}, deadline);
    if (woken)
        wf_ready(woken);
    wf_budget_spend(WF_COST_CHAN, !wf_time_is_now(deadline));
    return i == NO_CASE ? -EAGAIN : (int)i;
}

/* Inline, as wf_wait is: a return that follows a switch is mispredicted. */
static inline __attribute__((always_inline)) int select_among(const struct choice *of, weft_time deadline)
{
    if ((!of->cases && of->n > 0) || of->n > MOST)
        return -EINVAL;
    for (size_t i = 0; i < of->n; i++) {
        if (!valid(&of->cases[i]))
            return -EINVAL;
    }
    if (wf_unlikely(of->n > FEW))
        return choose_allocated(of, deadline);
    struct call here;
    struct entry entries[FEW];
    uint32_t indices[2 * FEW];
    prepare(&here, of, entries, indices);
    return choose(&here, deadline);
}

int weft_select(weft_case *cases, size_t n, weft_time deadline)
{
    return select_among(&(struct choice){cases, n, .ordered = false}, deadline);
}

int weft_select_ordered(weft_case *cases, size_t n, weft_time deadline)
{
    return select_among(&(struct choice){cases, n, .ordered = true}, deadline);
}
