/*
 * hook/lock_lot.c: where fibers wait for locks; see lock.h.
 *
 * A row's lock is held for a few steps, never while a fiber waits, and never by a signal handler: one that unlocks
 * something wakes nobody. Who wakes takes the waiter out under the lock and tells it when it is free again; who leaves
 * and finds that it was taken out waits to be told. So its memory is there as long as somebody may touch it.
 *
 * Who was woken may find the object taken again, by one that did not wait. On one worker that may go on for ever, as the
 * other comes first each time. So one that has lost LOSSES times marks the row, and others that come then queue without an
 * attempt, until it has the object or gives up. No wake is lost by that. Such a one joins, and then looks for the mark. The
 * mark is taken away under the row's lock: if it is still seen, that happens after the join. What follows finds the one
 * that has joined: the unlock, if the marked one has got the object, or the wake that it passes on, if it has given up.
 * Either may take its time, if the marked one's worker is busy, so who is first looks again after a while, as ever, and
 * that attempt does not ask for marks. Nor do threads and those that only try: the marked one goes on waiting then. A row
 * has one mark: of two objects that share the row the second has to wait for it.
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/hook.h>
#include <weft/sync.h>

#include "hook/lock.h"
#include "hook/signal.h"
#include "hook/wait.h"

enum {
    SPINS = 100,  /* about as long as a row's lock is held */
    YIELDS = 100, /* its holder may be waiting for this CPU */
    LOSSES = 2,   /* how often one that was told may find the object taken */
};

#define SOON WEFT_MS                  /* how long the first of those that wait does not look again */
#define LATER ((weft_span)100 * SOON) /* ... at most: each time it is twice as long */
#define BEHIND (10 * WEFT_MS)         /* how long it leaves the object to one that is before it */
#define MUCH_LATER (500 * WEFT_MS)    /* and the others */
#define CLOCK_LOOK (250 * WEFT_MS)    /* how long a clock that is set goes unnoticed */

struct wf_lot_waiter {
    const void *key;                   /* the fiber's own */
    enum wf_lot_kind kind;             /* the fiber's own, while it is not queued */
    bool queued;                       /* guarded by: the row's lock, and all below */
    struct wf_lot_waiter *next, *prev; /* in the row; `next` also in the list of those that are being woken */
    bool told_off;                     /* the fiber's own: it has used up what it was told */
    bool starved;                      /* the fiber's own: the row's mark is its own */
    weft_sem told;
};

struct wf_lot_row wf_lot[WF_LOT_ROWS];
bool wf_locks_on;

static weft_local places;
static bool has_places; /* const after the constructor */

static void lock(struct wf_lot_row *row)
{
    for (int i = 0; __atomic_exchange_n(&row->lock, 1, __ATOMIC_ACQUIRE) != 0; i++) {
        if (i >= SPINS + YIELDS)
            syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 50000}, NULL);
        else if (i >= SPINS)
            sched_yield();
    }
}

static void unlock(struct wf_lot_row *row)
{
    __atomic_store_n(&row->lock, 0, __ATOMIC_RELEASE); /* pairs with lock() */
}

struct wf_lot_waiter *wf_lot_place(void)
{
    struct wf_lot_waiter *me = has_places ? weft_local_get(places) : NULL;
    if (me || !has_places)
        return me;
    me = calloc(1, sizeof *me);
    if (me && weft_local_set(places, me) != 0) {
        free(me);
        return NULL;
    }
    return me;
}

static void put(struct wf_lot_row *row, struct wf_lot_waiter *w, bool first)
{
    w->prev = first ? NULL : row->last;
    w->next = first ? row->first : NULL;
    *(w->prev ? &w->prev->next : &row->first) = w;
    *(w->next ? &w->next->prev : &row->last) = w;
    w->queued = true;
    __atomic_store_n(&row->waiting, row->waiting + 1, __ATOMIC_RELAXED);
}

static void take_out(struct wf_lot_row *row, struct wf_lot_waiter *w)
{
    *(w->prev ? &w->prev->next : &row->first) = w->next;
    *(w->next ? &w->next->prev : &row->last) = w->prev;
    w->queued = false;
    __atomic_store_n(&row->waiting, row->waiting - 1, __ATOMIC_RELAXED);
}

void wf_lot_join(struct wf_lot_waiter *me, const void *key, enum wf_lot_kind kind, bool first)
{
    struct wf_lot_row *row = wf_lot_row(key);
    me->key = key;
    me->kind = kind;
    me->told_off = false;
    lock(row);
    put(row, me, first);
    unlock(row);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with wf_lot_wake's: it sees us, or we what it has done before */
}

static int wait_told(struct wf_lot_waiter *me, weft_time until, bool deaf)
{
    bool was = deaf && weft_hook_deaf(true);
    int rc = weft_sem_wait(&me->told, WEFT_NOW); /* what was told counts, also in a cancelled fiber */
    if (rc == -EAGAIN)
        rc = weft_sem_wait(&me->told, until);
    if (deaf)
        weft_hook_deaf(was);
    return rc;
}

int wf_lot_wait(struct wf_lot_waiter *me, weft_time until, bool deaf)
{
    int rc = wait_told(me, until, deaf);
    me->told_off = rc == 0;
    return rc;
}

bool wf_lot_leave(struct wf_lot_waiter *me)
{
    struct wf_lot_row *row = wf_lot_row(me->key);
    if (me->told_off)
        return true;
    lock(row);
    bool queued = me->queued;
    if (queued)
        take_out(row, me);
    unlock(row);
    if (!queued)
        wait_told(me, WEFT_FOREVER, true);
    return !queued;
}

/* Who waits there first; under the row's lock. */
static struct wf_lot_waiter *first_at(const struct wf_lot_row *row, const void *key)
{
    struct wf_lot_waiter *w = row->first;
    while (w && w->key != key)
        w = w->next;
    return w;
}

int wf_lot_wake_some(const void *key, int most)
{
    struct wf_lot_row *row = wf_lot_row(key);
    struct wf_lot_waiter *out = NULL, **end = &out, *w, *next;
    int count = 0, kept = errno;
    bool sharing = false;
    if (!wf_may_wait()) /* the row's lock may be another's for good: in a handler, or in the child of a fork or vfork */
        return 0;
    lock(row);
    for (w = first_at(row, key); w; w = next) {
        next = w->next;
        if (w->key != key)
            continue;
        if (count >= most && !(sharing && w->kind == WF_LOT_SHARED))
            break;
        sharing = w->kind == WF_LOT_SHARED;
        take_out(row, w);
        w->next = NULL;
        *end = w;
        end = &w->next;
        count++;
    }
    unlock(row);
    for (; out; out = next) {
        next = out->next;
        weft_sem_post(&out->told); /* then it may be gone */
    }
    errno = kept;
    return count;
}

/* Whether nobody waits at the same object before us. */
static bool is_first(struct wf_lot_waiter *me)
{
    struct wf_lot_row *row = wf_lot_row(me->key);
    lock(row);
    struct wf_lot_waiter *first = first_at(row, me->key);
    unlock(row);
    return first == me || !first;
}

/* From now on others queue behind us. */
static void mark(struct wf_lot_waiter *me)
{
    struct wf_lot_row *row = wf_lot_row(me->key);
    lock(row);
    if (!row->starved) {
        __atomic_store_n(&row->starved, me->key, __ATOMIC_RELAXED);
        me->starved = true;
    }
    unlock(row);
}

static void unmark(struct wf_lot_waiter *me)
{
    struct wf_lot_row *row = wf_lot_row(me->key);
    me->starved = false;
    lock(row);
    __atomic_store_n(&row->starved, NULL, __ATOMIC_RELAXED);
    unlock(row);
}

static int64_t nanoseconds(const struct timespec *t)
{
    return t->tv_sec > INT64_MAX / WEFT_SEC / 4 ? INT64_MAX : t->tv_sec < 0 ? 0 : t->tv_sec * WEFT_SEC + t->tv_nsec;
}

weft_time wf_limit_time(struct wf_limit limit)
{
    if (!limit.at || nanoseconds(limit.at) == INT64_MAX)
        return WEFT_FOREVER;
    if (limit.clock == CLOCK_MONOTONIC)
        return (weft_time){nanoseconds(limit.at)};
    struct timespec now;
    clock_gettime(limit.clock, &now);
    int64_t left = nanoseconds(limit.at) - nanoseconds(&now);
    return weft_in(left > CLOCK_LOOK ? CLOCK_LOOK : left < 0 ? 0 : left);
}

bool wf_limit_is_over(struct wf_limit limit)
{
    if (!limit.at)
        return false;
    struct timespec now;
    clock_gettime(limit.clock, &now);
    return now.tv_sec > limit.at->tv_sec || (now.tv_sec == limit.at->tv_sec && now.tv_nsec >= limit.at->tv_nsec);
}

static weft_time earlier(weft_time a, weft_time b)
{
    return a.ns < b.ns ? a : b;
}

/* Without memory for a place in the lot: nobody can wake us. */
static int take_without_place(void *object, int (*attempt)(void *), struct wf_limit limit, bool deaf)
{
    for (;;) {
        int rc = attempt(object);
        if (rc != EBUSY)
            return rc;
        if (wf_limit_is_over(limit))
            return ETIMEDOUT;
        bool was = deaf && weft_hook_deaf(true);
        rc = weft_sleep_until(earlier(wf_limit_time(limit), weft_in(SOON)));
        if (deaf)
            weft_hook_deaf(was);
        if (rc == -ECANCELED)
            return ECANCELED;
    }
}

static int take(struct wf_lot_waiter *me, void *object, enum wf_lot_kind kind, int (*attempt)(void *),
                struct wf_limit limit, bool deaf)
{
    weft_span look = SOON;
    bool told = false; /* we were taken out, and have tried once since then */
    int rc = EBUSY, losses = 0;
    wf_lot_join(me, object, kind, false);
    /* Who shares it may have it already, and who has no time to wait only tries. */
    bool behind = kind != WF_LOT_SHARED && wf_lot_is_starved(object) && !wf_limit_is_over(limit);
    while (behind || (rc = attempt(object)) == EBUSY) {
        if (told) {
            told = false;
            if (++losses >= LOSSES && !me->starved && kind != WF_LOT_SHARED)
                mark(me);
            wf_lot_join(me, object, kind, true);
            continue;
        }
        if (wf_limit_is_over(limit)) {
            rc = ETIMEDOUT;
            break;
        }
        weft_span pause = !is_first(me) ? MUCH_LATER : behind ? BEHIND : look;
        int waited = wf_lot_wait(me, earlier(wf_limit_time(limit), weft_in(pause)), deaf);
        behind = false;
        if (waited == -ECANCELED) {
            rc = ECANCELED;
            break;
        }
        told = waited == 0;
        if (!told)
            look = look < LATER / 2 ? look * 2 : LATER;
    }
    if (me->starved)
        unmark(me);
    bool is_late = !told && wf_lot_leave(me); /* the wake was meant for another */
    if (is_late || rc != 0 || kind != WF_LOT_ALONE)
        wf_lot_wake(object, 1); /* or there is more for the next, and if not it is the first now, who looks again */
    return rc;
}

int wf_lot_take(void *object, enum wf_lot_kind kind, int (*attempt)(void *), struct wf_limit limit, bool deaf)
{
    int kept = errno;
    struct wf_lot_waiter *me = wf_lot_place();
    int rc = me ? take(me, object, kind, attempt, limit, deaf) : take_without_place(object, attempt, limit, deaf);
    errno = kept;
    return rc;
}

/* Of the fibers that waited only their memory is left, in the child of a fork. */
static void forget_all(void)
{
    for (int i = 0; i < WF_LOT_ROWS; i++)
        wf_lot[i] = (struct wf_lot_row){0};
}

__attribute__((constructor(102))) static void set_up(void)
{
    if (!wf_hooks_on || wf_environment("WEFT_HOOK_LOCKS", NULL, "1 or 0") != WF_ON)
        return;
    has_places = weft_local_new(&places, free) == 0;
    wf_locks_on = true;
    pthread_atfork(NULL, NULL, forget_all);
}
