/*
 * weft/process.h: waiting for child processes and for signals, as for anything else: the fiber waits, not its worker.
 */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>

#include <weft/api.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/**
 * Waits for the child `pid` to end, and reaps it; *status (may be NULL) is as waitpid(2) gives it. Of several who wait for
 * one child, one gets it and the others -ECHILD.
 *
 * Returns: 0, -ECHILD it is no child of this process, or was reaped, -EINVAL pid is not above 0, -ETIMEDOUT, -EAGAIN it has
 *          not ended and WEFT_NOW, -ECANCELED, or what making a descriptor says (-EMFILE)
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_wait_child(pid_t pid, int *status, weft_time deadline);

/**
 * Waits for a signal of `set` that is pending for the process or the calling thread, and takes it; *info (may be NULL) says
 * about it what signalfd(2) says. The signals must be blocked in all threads, so block them before the first scheduler
 * starts: elsewhere they do what they do by default. (Helpers, see weft/offload.h, have all blocked.)
 *
 * Returns: the signal's number, -EINVAL no set, or a signal of it is not blocked in the calling thread, -ETIMEDOUT, -EAGAIN
 *          none is pending and WEFT_NOW, -ECANCELED, or what making a descriptor says (-EMFILE)
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_wait_signal(const sigset_t *set, struct signalfd_siginfo *info, weft_time deadline);

WEFT_END_DECLS

#endif
