/*
 * base/lock.c: the contended ways of base/lock.h.
 */
#include "base/lock.h"

#include "base/futex.h"

#define SPINS 100 /* about as long as a critical section takes */

void wf_lock_slowly(struct wf_lock *l)
{
    for (int i = 0; i < SPINS; i++) {
        if (wf_load(&l->word) == 0 && wf_lock_try(l))
            return;
        wf_cpu_relax();
    }
    while (wf_exchange(&l->word, 2) != 0)
        wf_futex_wait(&l->word, 2, INT64_MAX);
}

void wf_lock_wake(struct wf_lock *l)
{
    wf_futex_wake(&l->word, 1);
}
