/*
 * base/plain.h: a mutex and a once that block the thread: for what this library does on a fiber's stack and cannot wait
 * in. Those of pthread.h may be libweft-hook's, which let the fiber wait.
 *
 * Zeroed memory is a free mutex, and a once that was not called. Neither is held while a fiber waits.
 */
#ifndef WF_BASE_PLAIN_H
#define WF_BASE_PLAIN_H

#include <pthread.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/raw.h"

struct wf_plain_mutex {
    uint32_t word; /* atomic: 0 free, 1 held, 2 held and somebody may sleep for it */
};

WF_COLD void wf_plain_lock_slowly(struct wf_plain_mutex *m);
WF_COLD void wf_plain_wake(struct wf_plain_mutex *m);

static inline void wf_plain_lock(struct wf_plain_mutex *m)
{
    uint32_t is_free = 0;
    if (wf_unlikely(!wf_cas(&m->word, &is_free, 1))) /* acquire: pairs with wf_plain_unlock */
        wf_plain_lock_slowly(m);
}

static inline void wf_plain_unlock(struct wf_plain_mutex *m)
{
    if (wf_unlikely(wf_exchange(&m->word, 0) == 2)) /* release: pairs with wf_plain_lock */
        wf_plain_wake(m);
}

struct wf_plain_once {
    uint32_t state; /* atomic: 0, 1 it was called, else which process is at it */
};

WF_COLD void wf_plain_once_slowly(struct wf_plain_once *o, void (*fn)(void));

/* Calls fn() if nobody has; else waits until that call has returned. One that a fork has cut off is made again. */
static inline void wf_plain_once(struct wf_plain_once *o, void (*fn)(void))
{
    if (wf_unlikely(wf_load_acquire(&o->state) != 1)) /* pairs with wf_plain_once_slowly */
        wf_plain_once_slowly(o, fn);
}

/* Waits for the end of a thread: no hook has this name. */
static inline void wf_plain_join(pthread_t thread)
{
    (void)WF_RAW(pthread_timedjoin_np(thread, NULL, NULL), pthread_join(thread, NULL));
}

#endif
