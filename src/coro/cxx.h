/*
 * coro/cxx.h: C++ as a guest: the exception globals that a coroutine keeps, and the lines for an exception and for a
 * pthread_exit that leave.
 */
#ifndef WF_CORO_CXX_H
#define WF_CORO_CXX_H

#include "coro/coro.h"

/* The C++ runtime's __cxa_get_globals, as C++ callers gave it; the first one stays. */
void wf_eh_learn(void *(*eh_globals)(void));

/* The calling thread's exception globals; NULL as long as no C++ code has shown up. */
struct wf_eh_globals *wf_eh_here(void);

/* For fibers: *kept becomes what the thread has now, which gets *next instead. */
static inline void wf_eh_change(struct wf_eh_globals *here, struct wf_eh_globals *kept,
                                const struct wf_eh_globals *next)
{
    *kept = *here;
    *here = *next;
}

/*
 * The calling thread ends (pthread_exit, pthread_cancel). Panics if it runs a fiber: then it is a worker, and others
 * lose it. Raw coroutines on a plain thread may end with it.
 */
void wf_check_thread_end(const weft_coro *current);

/* Exchanges the thread's exception globals with *kept. */
WF_NOINLINE void wf_eh_swap(struct wf_eh_globals *kept);

#endif
