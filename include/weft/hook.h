/*
 * weft/hook.h: the hooks: code that was never written for this library waits in fibers without blocking their worker.
 *
 * Link with libweft-hook (pkg-config weft-hook, or weft::hook of the CMake package), or run a program with
 * LD_PRELOAD=/path/to/libweft-hook.so. From then on read, recv, connect, poll, sleep, getaddrinfo and their kin, called
 * by a fiber and by whatever library it calls, let the fiber wait. On any other thread they are the system's, as
 * before.
 *
 * A hooked call behaves as the system's in its result, its errno and its time. Nothing is kept about a descriptor: its
 * O_NONBLOCK and timeouts are asked for when a call is about to wait, and never changed (but see docs/hooks.md of
 * sockets that were told never to wait). docs/hooks.md has the list of names, and what is different.
 *
 * In a cancelled fiber every hooked call that can wait, sleeps included, fails with ECANCELED, also where it would not
 * have to wait now (docs/hooks.md lists the exceptions). A signal handler interrupts the calls of the first fiber of
 * weft_run as it would interrupt those of the main thread. It interrupts no other fiber.
 *
 * Environment: WEFT_HOOK=off: as if they were not there; WEFT_HOOK=verbose: weft_hook_report to stderr at the start. (A
 * value that is not known is reported on stderr.)
 * WEFT_HOOK_LOCKS=1: the locks of pthread.h, semaphore.h and threads.h too: a fiber waits for them and owns them,
 * instead of its worker. Without it, the hooks report a fiber on stderr if it waits (in whatever call) while it holds a
 * pthread mutex, and its scheduler has another fiber.
 */
#ifndef WEFT_HOOK_H
#define WEFT_HOOK_H

#include <stdio.h>

#include <weft/api.h>

WEFT_BEGIN_DECLS

/**
 * Turns the hooks on or off (they are on at first): in a fiber for that fiber and those it starts from then on; on a
 * plain thread for the fibers started from it. WEFT_NO_HOOK in a fiber's attributes does the same for one fiber.
 *
 * Returns: what it was before
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API bool weft_hook_enable(bool on);

/**
 * Whether a blocking call made here and now should let a fiber wait: the caller is a fiber, and has the hooks on. For
 * wrappers of your own around calls that block; true also where libweft-hook is not there.
 *
 * Returns: true if so
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API bool weft_hooked(void);

/**
 * The system's own function of a name that the hooks have. Part of libweft-hook.
 *
 *      ssize_t (*real)(int, void *, size_t) = (ssize_t (*)(int, void *, size_t))weft_hook_real("read");
 *
 * Returns: the function, or NULL: there is no hook of that name, or the system has none
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API void *weft_hook_real(const char *name);

/**
 * Writes whether the hooks and the locks are on and how many names are live; then one line for each cause for which
 * calls go past them, with the library and the names, and one if there are two libwefts; then one for each library that
 * calls any of the names. Part of libweft-hook.
 *
 * Returns: 0 all is well, else the number of names that go past them, each counted for each library that calls it, and
 *          one more if there are two libwefts; -EINVAL no out
 * Context: fiber | any thread
 * Blocks:  as writing to `out` does
 * Owns:    nothing
 */
WEFT_API int weft_hook_report(FILE *out);

/* ---- for programs that write hooks of their own ---- */

/**
 * With `on` true, the waits of the calling fiber ignore weft_cancel; with false, they heed it again. It is for wrappers
 * of calls that cannot fail, such as taking a lock. Calls that would return -ECANCELED without a wait ignore
 * weft_cancel too. At its end a wrapper restores the value that this call returned: the wrapper's caller may itself be
 * in an uncancellable section. Such a section is a shield without a deadline. It is independent of the shields of
 * weft_shield_begin, which programs use instead.
 *
 * Returns: what it was before; false on a plain thread
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API bool weft_hook_deaf(bool on);

/**
 * Whether the calling fiber was cancelled, and neither a shield nor an uncancellable section covers it. Every wrapper
 * of a call that can wait asks this first: if it is true, the wrapper fails with ECANCELED and does nothing, even if
 * the call would not have to wait now. A wrapper of a call that releases something (close, an unlock) does not ask.
 *
 * Returns: true if so; false on a plain thread
 * Context: fiber | any thread | signal handler
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API bool weft_hook_cancelled(void);

/**
 * Ends the calling fiber with `value`, as if its function had returned `value`. The fiber may call this at any depth.
 * The call does not unwind the fiber's stack: the caller unwinds it before (as libweft-hook does for pthread_exit). The
 * call panics on a plain thread, and in a raw coroutine.
 *
 * Returns: never
 * Context: fiber
 * Blocks:  the fiber has ended
 * Owns:    as a value that the fiber's function returns
 */
WEFT_API void weft_hook_end(void *value) __attribute__((noreturn));

/**
 * The calling fiber's id. Unlike weft_fiber_current and weft_fiber_id, this call never gives way (weft_checkpoint). So
 * it may be called anywhere, signal handlers included.
 *
 * Returns: the calling fiber's id; 0 on a plain thread
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API uint64_t weft_hook_self(void);

/**
 * The id of the first fiber of the current weft_run. That fiber runs on the thread that called weft_run. In a program
 * that runs its main in a fiber, it stands for the main thread: with libweft-hook, signal handlers interrupt its waits.
 *
 * Returns: its id; 0: no weft_run is under way
 * Context: fiber | any thread | signal handler
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API uint64_t weft_hook_first(void);

/**
 * Counts the locks of the calling fiber that would block the thread of another caller. `change` is 1
 * when the fiber has taken such a lock, and -1 when it has released it. libweft-hook counts pthread mutexes, and
 * reports a fiber that waits while it holds a mutex. The count stays between 0 and 63.
 *
 * Returns: the new count; 0 on a plain thread
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API unsigned weft_hook_held(int change);

/**
 * For a wrapper, at the end of a call that was allowed to wait and has moved `bytes` bytes: takes the cost of the call
 * from the budget of the calling thread, as a call of weft/io.h does. If this returns true, the fiber has run for so
 * long that it should let other fibers run: the wrapper calls weft_yield before it returns, if a wait is allowed at
 * that place. The result is false while weft_hook_held counts locks.
 *
 * Returns: whether the fiber should give way; false on a plain thread
 * Context: fiber | any thread | signal handler
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API bool weft_hook_spend(size_t bytes);

/** A fiber that is about to wait while it has locks: see weft_hook_on_wait. */
typedef struct {
    uint64_t id;      /* the fiber's */
    const char *name; /* weft_fiber_name */
    const char *site; /* weft_fiber_site */
    const char *what; /* what it waits for: "sleep", "channel", "yield", ... */
    unsigned held;    /* how many it has */
    bool alone;       /* its scheduler has no other fiber now */
} weft_hook_wait;

typedef void weft_hook_wait_fn(const weft_hook_wait *wait);

/**
 * Sets `fn` (NULL: none). Every fiber calls fn when it is about to wait, or to let others run, while weft_hook_held
 * counts locks of the fiber. libweft-hook sets a function of its own at its start, to report such fibers. The object
 * that the fiber waits for may be locked during the call. So fn calls no function of this library, waits for nothing,
 * and takes no lock that is held elsewhere in such a call.
 *
 * Returns: the function that was set before; NULL: none
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API weft_hook_wait_fn *weft_hook_on_wait(weft_hook_wait_fn *fn);

WEFT_END_DECLS

#endif
