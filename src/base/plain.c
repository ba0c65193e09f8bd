/*
 * base/plain.c: see plain.h.
 */
#include "base/plain.h"

#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/futex.h"

void wf_plain_lock_slowly(struct wf_plain_mutex *m)
{
    while (wf_exchange(&m->word, 2) != 0)
        wf_futex_wait(&m->word, 2, INT64_MAX);
}

void wf_plain_wake(struct wf_plain_mutex *m)
{
    wf_futex_wake(&m->word, 1);
}

void wf_plain_once_slowly(struct wf_plain_once *o, void (*fn)(void))
{
    uint32_t here = (uint32_t)syscall(SYS_getpid) << 1; /* never 1; ids have 22 bits */
    uint32_t state = wf_load_acquire(&o->state);        /* pairs with the store below */
    while (state != 1) {
        if (state == here) {
            wf_futex_wait(&o->state, here, INT64_MAX);
            state = wf_load_acquire(&o->state); /* pairs with the store below */
        } else if (wf_cas(&o->state, &state, here)) {
            fn();
            wf_store_release(&o->state, 1); /* pairs with the loads */
            wf_futex_wake(&o->state, INT_MAX);
            return;
        }
    }
}
