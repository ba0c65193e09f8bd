/*
 * sched/debug.h: the checks that debug builds (WEFT_DEBUG) make beside exact return codes; docs/decisions/0028. Each
 * finding is a line on standard error that names the fiber, says where it was spawned, and says what to do. Misuse that
 * would corrupt memory later aborts the program. In other builds these functions are empty macros.
 *
 *      wf_debug_handle      the handle of a fiber that was joined, or was detached and has ended       aborts
 *      wf_debug_end         a fiber ends and holds a lock, or fibers wait for an object on its stack   aborts
 *      wf_debug_linked      an object was overwritten or freed while a fiber or thread waited for it   aborts
 *      wf_debug_busy        the program frees a channel while a fiber or thread waits for it           goes on
 *      wf_debug_ran         a fiber computed and kept other fibers of its worker waiting               goes on
 */
#ifndef WF_SCHED_DEBUG_H
#define WF_SCHED_DEBUG_H

#include "base/compiler.h"
#include "base/sanitizer.h"
#include "fiber/fiber.h"

struct wf_worker;

/* The address that the calling public function returns to. */
#define WF_CALLER __builtin_return_address(0)

#if WF_DEBUG && !defined(WF_EXPLORE)

/*
 * A public function was given this handle, which may be NULL: aborts if its fiber is gone. The record tells that its
 * fiber is gone as long as the record is set apart (fiber/pool.h).
 */
void wf_debug_handle(const char *function, const weft_fiber *f);

/* The record *f becomes free: sets it apart, and makes *f an older record to reuse. True: there is none yet. */
bool wf_debug_keeps(weft_fiber **f);

/* The calling fiber has taken a lock that only it can release, or is about to release it. */
void wf_debug_locked(const void *object, const char *what, const void *site);
void wf_debug_unlocked(const void *object);

/* The calling fiber's function has returned; its stack is still there. */
void wf_debug_end(weft_fiber *f);

/* A fiber begins, or ends, a wait for an object; `in` points into that object. f NULL: a plain thread. */
void wf_debug_wait_begin(weft_fiber *f, const void *in);
void wf_debug_wait_end(weft_fiber *f);

/* The program frees a channel that a fiber or thread waits for. */
WF_COLD void wf_debug_busy(const char *function, const void *object);

/* f, which may be NULL, can run from now on. The thread that makes it ready calls this. */
void wf_debug_ready(weft_fiber *f);

/* Called on the worker's thread: when f gets a turn, and when its turn is over. */
void wf_debug_runs(struct wf_worker *w, const weft_fiber *f);
void wf_debug_ran(struct wf_worker *w, weft_fiber *f);

WF_COLD WF_NORETURN void wf_debug_not_linked(const struct wf_waiter *w);

/* w leaves its list. `before` and `after` are the pointers of its neighbours, or of the list's ends: both must be w. */
static inline void wf_debug_linked(const struct wf_waiter *w, const struct wf_waiter *before,
                                   const struct wf_waiter *after)
{
    if (wf_unlikely(before != w || after != w))
        wf_debug_not_linked(w);
}

#else

#define wf_debug_handle(function, f) ((void)0)
#define wf_debug_keeps(f) false
#define wf_debug_locked(object, what, site) ((void)0)
#define wf_debug_unlocked(object) ((void)0)
#define wf_debug_end(f) ((void)0)
#define wf_debug_wait_begin(f, in) ((void)0)
#define wf_debug_wait_end(f) ((void)0)
#define wf_debug_busy(function, object) ((void)0)
#define wf_debug_ready(f) ((void)0)
#define wf_debug_runs(w, f) ((void)0)
#define wf_debug_ran(w, f) ((void)0)
#define wf_debug_linked(w, before, after) ((void)0)

#endif

#endif
