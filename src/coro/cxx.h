/*
 * coro/cxx.h: C++ as a guest: the exception globals that a coroutine keeps, and the line for an exception that leaves.
 */
#ifndef WF_CORO_CXX_H
#define WF_CORO_CXX_H

#include "coro/coro.h"

/* The C++ runtime's __cxa_get_globals, as C++ callers gave it; the first one stays. */
void wf_eh_learn(void *(*eh_globals)(void));

/* Whether any C++ code is about. */
bool wf_eh_known(void);

/* Exchanges the thread's exception globals with *kept. */
WF_NOINLINE void wf_eh_swap(struct wf_eh_globals *kept);

#endif
