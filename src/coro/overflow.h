/*
 * coro/overflow.h: says which coroutine overflowed its stack, before the process dies of it.
 */
#ifndef WF_CORO_OVERFLOW_H
#define WF_CORO_OVERFLOW_H

#include "base/thread.h"

/* For the calling thread: a signal stack, if it has none. For the process, once: the handler. */
void wf_overflow_watch(struct wf_thread *t);
/* The thread ends. */
void wf_overflow_leave(struct wf_thread *t);

#endif
