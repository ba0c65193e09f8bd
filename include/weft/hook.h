/*
 * weft/hook.h: the hooks: code that was never written for this library waits in fibers without blocking their worker.
 *
 * Link with libweft-hook (pkg-config weft-hook, or weft::hook of the CMake package), or run a program with
 * LD_PRELOAD=libweft-hook.so. From then on read, recv, connect, poll, sleep, getaddrinfo and their kin, called by a fiber
 * and by whatever library it calls, let the fiber wait. On any other thread they are the system's, as before.
 *
 * A hooked call behaves as the system's in its result, its errno and its time. Nothing is kept about a descriptor: its
 * O_NONBLOCK and timeouts are asked for when a call is about to wait, and never changed. docs/hooks.md has the list of
 * names, and what is different.
 *
 * A fiber that is cancelled gets ECANCELED where it would have to wait; a sleep of it ends as if by a signal.
 *
 * Environment: WEFT_HOOK=off: as if they were not there; WEFT_HOOK=verbose: weft_hook_report to stderr at the start.
 */
#ifndef WEFT_HOOK_H
#define WEFT_HOOK_H

#include <stdio.h>

#include <weft/api.h>

WEFT_BEGIN_DECLS

/**
 * Turns the hooks on or off (they are on at first): in a fiber for that fiber and those it starts from then on; on a plain
 * thread for the fibers started from it. WEFT_NO_HOOK in a fiber's attributes does the same for one fiber.
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
 * The system's own function of a name that the hooks have ("read"). Part of libweft-hook.
 *
 * Returns: the function, or NULL: there is no hook of that name, or the system has none
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API void *weft_hook_real(const char *name);

/**
 * Writes which hooks are live, and for each library that is loaded which of its calls go past them, and why. Part of
 * libweft-hook.
 *
 * Returns: how many calls of how many libraries go past them: 0 is good; -EINVAL no out
 * Context: fiber | any thread
 * Blocks:  as writing to `out` does
 * Owns:    nothing
 */
WEFT_API int weft_hook_report(FILE *out);

WEFT_END_DECLS

#endif
