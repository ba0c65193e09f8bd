/*
 * coro/cxx.c: see cxx.h. The library itself needs no C++ runtime: the globals' accessor comes from the callers, and the
 * personality of a stack's first frame needs types only.
 */
#include "coro/cxx.h"

#include <stdio.h>
#include <unwind.h>

#include "base/panic.h"

#define NOT_EXCHANGED UINTPTR_MAX

static void *(*get_globals)(void); /* atomic: set once, read by all */

void wf_eh_learn(void *(*eh_globals)(void))
{
    if (!__atomic_load_n(&get_globals, __ATOMIC_RELAXED))
        __atomic_store_n(&get_globals, eh_globals, __ATOMIC_RELAXED);
}

struct wf_eh_globals *wf_eh_here(void)
{
    void *(*get)(void) = __atomic_load_n(&get_globals, __ATOMIC_RELAXED);
    return get ? get() : NULL;
}

int weft_cxx_use(void *(*eh_globals)(void))
{
    if (eh_globals)
        wf_eh_learn(eh_globals);
    return 0;
}

void wf_eh_swap(struct wf_eh_globals *kept)
{
    void *(*get)(void) = __atomic_load_n(&get_globals, __ATOMIC_RELAXED);
    if (kept->uncaught == NOT_EXCHANGED) { /* on the way in; so not on the way out either, whoever came meanwhile */
        *kept = (struct wf_eh_globals){0};
        return;
    }
    if (!get) { /* WEFT_CXX asked for in a program that has no C++ caller so far */
        kept->uncaught = NOT_EXCHANGED;
        return;
    }
    struct wf_eh_globals *now = get(); /* Itanium ABI: the stack of caught exceptions, the count of uncaught ones */
    struct wf_eh_globals other = *kept;
    *kept = *now;
    *now = other;
}

void wf_check_thread_end(const weft_coro *current)
{
    for (const weft_coro *c = current; c; c = c->resumer) {
        char name[80];
        if (wf_mode(c) & WF_BASE)
            wf_panic("pthread_exit",
                     "fiber %llu%s would end the thread of its worker, and the fibers there would be lost; return from "
                     "its function instead, or use libweft-hook, where pthread_exit ends the fiber alone (outside raw "
                     "coroutines and callbacks). pthread_cancel of a worker's thread does the same",
                     (unsigned long long)c->id, wf_coro_quoted(c, name, sizeof name));
    }
}

/* The class of the C library's own forced unwinding. Who ends a fiber alone (libweft-hook) has another one. */
#define LIBC_CLASS 0

_Unwind_Reason_Code wf_begin_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                         struct _Unwind_Exception *exception, struct _Unwind_Context *context);

/*
 * The unwinder asks the first frame of a coroutine's stack: nobody on it has caught the exception, or the thread is
 * ending and has left all frames on it. (wf_check_thread_end is called once more when the thread ends: frames that the
 * unwinder knows nothing of keep it from coming here.)
 */
_Unwind_Reason_Code wf_begin_personality(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                         struct _Unwind_Exception *exception, struct _Unwind_Context *context)
{
    (void)version, (void)exception, (void)context;
    const weft_coro *c = wf_thread_now()->current;
    if ((actions & _UA_FORCE_UNWIND) && class == LIBC_CLASS)
        wf_check_thread_end(c);
    if ((actions & _UA_SEARCH_PHASE) && c) {
        char line[256], name[80];
        snprintf(line, sizeof line, "weft: %s %llu%s: an exception left its entry function; catch it there\n",
                 wf_mode(c) & WF_BASE ? "fiber" : "coroutine", (unsigned long long)c->id,
                 wf_coro_quoted(c, name, sizeof name));
        wf_say(line);
    }
    return _URC_CONTINUE_UNWIND;
}
