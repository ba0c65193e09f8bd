/*
 * sync/rwlock.c: readers and writers, first come, first served.
 *
 * One word: 0 free; a writer's identity; or readers, counted. Its lowest bit says that somebody waits: then the word
 * changes under l->lock only, and nobody who comes gets in. Who leaves last passes the lock to the first in the list, so
 * it is never free while somebody waits. A waiter's `data` is the identity of a writer, NULL of a reader.
 */

#include "base/errno.h"
#include "sched/object.h"
#include "sync/object.h"

#define WAITERS ((uintptr_t)1)
#define READERS ((uintptr_t)2) /* somebody reads: the rest is how many */
#define READER ((uintptr_t)4)  /* one of them */
_Static_assert((WAITERS | READERS) == WF_OWNER_BITS && READERS == WF_OWNER_READERS, "dumps look for the owner");

/* Whether `want` (0: to read, else a writer) gets in at once, and what the word is then. */
static bool may_enter(uintptr_t word, uintptr_t want, uintptr_t *then)
{
    *then = want ? want : (word | READERS) + READER;
    return word == 0 || (!want && (word & (READERS | WAITERS)) == READERS);
}

/* What is left when one leaves. Nobody waits. */
static uintptr_t without_one(uintptr_t word)
{
    return (word & READERS) && word != (READERS | READER) ? word - READER : 0;
}

/* The readers at the head of the list, up to the next writer, are added to *word. Returns them for wf_ready_all. */
static struct wf_waiter *admit_readers(struct wf_waiters *waiters, uintptr_t *word)
{
    struct wf_waiter *won = NULL, **end = &won;
    for (struct wf_waiter *w; (w = waiters->first) != NULL && !w->data;) {
        wf_waiters_remove(waiters, w);
        if (wf_settle(w->who, 0)) {
            *word += READER;
            *end = w;
            end = &w->next;
        }
    }
    *end = NULL;
    return won;
}

/* The last that had the lock leaves: *word becomes whose turn it is. NULL: all gave up, and it is as before. */
static struct wf_waiter *admit(struct wf_waiters *waiters, uintptr_t *word)
{
    for (struct wf_waiter *w; (w = waiters->first) != NULL;) {
        if (!w->data) {
            uintptr_t readers = READERS;
            struct wf_waiter *won = admit_readers(waiters, &readers);
            if (!won)
                continue;
            *word = readers;
            return won;
        }
        wf_waiters_remove(waiters, w);
        if (wf_settle(w->who, 0)) {
            *word = (uintptr_t)w->data;
            w->next = NULL;
            return w;
        }
    }
    return NULL;
}

/* One that waited gave up: if it was a writer, readers behind it may now join those that read. */
static void give_up(weft_rwlock *l, struct wf_sleeper *who)
{
    struct wf_waiters *waiters = wf_waiters_of(&l->waiters);
    struct wf_waiter *won = NULL;
    wf_lock(wf_lock_of(&l->lock));
    wf_waiters_remove(waiters, &who->node);
    uintptr_t word = wf_load(&l->word);
    if (word & WAITERS) {
        if (word & READERS)
            won = admit_readers(waiters, &word);
        wf_store_release(&l->word, waiters->first ? word : word & ~WAITERS); /* hands on: pairs with lock */
    }
    wf_unlock(wf_lock_of(&l->lock));
    wf_ready_all(won);
}

WF_NOINLINE static int lock_slowly(weft_rwlock *l, uintptr_t want, weft_time deadline)
{
    uintptr_t then, word = wf_load(&l->word);
    if ((word & ~WAITERS) == wf_me())
        return -EDEADLK;
    if (wf_time_is_now(deadline))
        return -EAGAIN;
    struct wf_sleeper own, *who = wf_sleeper(&own);
    wf_lock(wf_lock_of(&l->lock));
    for (word = wf_load(&l->word); !(word & WAITERS);) {
        if (!may_enter(word, want, &then))
            then = word | WAITERS;
        if (wf_cas(&l->word, &word, then)) { /* acquire: pairs with unlock */
            if (then & WAITERS)
                break;
            wf_unlock(wf_lock_of(&l->lock));
            return 0;
        }
    }
    who->node.data = (void *)want;
    wf_waiters_join(wf_waiters_of(&l->waiters), who);
    int rc = wf_wait_unlocking(who, want ? "rwlock (write)" : "rwlock (read)", wf_lock_of(&l->lock), deadline);
    if (rc < 0)
        give_up(l, who);
    return rc;
}

/* Leaves when somebody waits. False: nobody does any more, and the caller still has the lock. */
WF_NOINLINE static bool leave_slowly(weft_rwlock *l)
{
    struct wf_waiters *waiters = wf_waiters_of(&l->waiters);
    struct wf_waiter *won = NULL;
    wf_lock(wf_lock_of(&l->lock));
    uintptr_t word = wf_load(&l->word), had = word & ~WAITERS;
    bool left = word & WAITERS;
    if (left && without_one(had) != 0) {
        wf_store(&l->word, word - READER); /* nobody gets in by this: who leaves last comes here too */
    } else if (left) {
        word = had;
        won = admit(waiters, &word);
        left = won != NULL;
        wf_store_release(&l->word, waiters->first ? word | WAITERS : word); /* hands on: pairs with lock */
    }
    wf_unlock(wf_lock_of(&l->lock));
    wf_ready_all(won);
    return left;
}

int weft_rwlock_read_lock(weft_rwlock *l, weft_time deadline)
{
    if (!l)
        return -EINVAL;
    if (wf_enter_cancelled(__func__, l, deadline))
        return -ECANCELED;
    uintptr_t word = wf_load(&l->word), then;
    while (may_enter(word, 0, &then)) {
        if (wf_cas(&l->word, &word, then)) /* acquire: pairs with unlock */
            return 0;
    }
    return lock_slowly(l, 0, deadline);
}

int weft_rwlock_write_lock(weft_rwlock *l, weft_time deadline)
{
    if (!l)
        return -EINVAL;
    if (wf_enter_cancelled(__func__, l, deadline))
        return -ECANCELED;
    uintptr_t me = wf_me(), word = 0;
    int rc = wf_cas(&l->word, &word, me) ? 0 : lock_slowly(l, me, deadline); /* acquire: pairs with unlock */
    if (rc == 0)
        wf_debug_locked(l, "rwlock (to write)", WF_CALLER);
    return rc;
}

int weft_rwlock_unlock(weft_rwlock *l)
{
    if (!l)
        return -EINVAL;
    wf_check_place(__func__, l);
    uintptr_t me = wf_me(), word = wf_load(&l->word);
    for (;;) {
        if (!(word & READERS) && (word & ~WAITERS) != me)
            return -EPERM;
        wf_debug_unlocked(l);
        if (word & WAITERS) {
            if (leave_slowly(l))
                return 0;
            word = wf_load(&l->word);
        } else if (wf_cas(&l->word, &word, without_one(word))) { /* release: pairs with lock */
            return 0;
        }
    }
}
