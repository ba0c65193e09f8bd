/*
 * hook/wait.h: letting the fiber wait where the kernel would let the thread. Nothing is kept between two calls: the
 * descriptor's flags and timeouts are asked for when a call has found nothing.
 */
#ifndef WF_HOOK_WAIT_H
#define WF_HOOK_WAIT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <weft/hook.h>
#include <weft/time.h>

#include "hook/interrupt.h"
#include "hook/real.h"

/* What a call that has found nothing does now. */
enum wf_wait {
    WF_WAIT_AGAIN, /* the descriptor may be ready: try again */
    WF_WAIT_OVER,  /* it fails, with errno as it is */
    WF_WAIT_BLOCK, /* this is no place to let a fiber wait: the system's call is to wait itself */
};

/* A call that waits: all zero at first. */
struct wf_waiting {
    bool begun;       /* the rest is known */
    bool looks_again; /* the kernel does not tell all that ends the wait */
    bool is_datagram; /* ... and of one like this it says that there is room where there is none */
    bool has_part;    /* something was transferred: the call does not begin anew after a signal */
    bool is_limited;  /* the socket has a time limit: nor does such a call */
    weft_time until;
    int events;      /* what came at last, as poll(2) says it */
    weft_span pause; /* how long the last pause was; 0: there was none */
    struct wf_section section;
};

/*
 * Lets the fiber wait until `fd` is ready for `events` (POLLIN or POLLOUT), no longer than its SO_RCVTIMEO or SO_SNDTIMEO
 * says. Fails with EAGAIN if it has O_NONBLOCK or the time is over, with EBADF if it is closed meanwhile, and with
 * ECANCELED if the fiber is cancelled, and with EINTR if a signal handler interrupts it (interrupt.h). errno is as it was
 * if it does not fail.
 */
enum wf_wait wf_wait_ready(struct wf_waiting *w, int fd, int events);

/* The same for a call that has not tried: looks first, and waits only if `fd` is not ready. */
enum wf_wait wf_wait_unless_ready(struct wf_waiting *w, int fd, int events);

/* Which signal handlers end the wait. A call with a time limit, or with a part done, does not begin anew: signal(7). */
static inline enum wf_ends wf_ends_of(const struct wf_waiting *w)
{
    return w->has_part || w->is_limited ? WF_ENDS_ALWAYS : WF_ENDS_RESTART;
}

/* A call of several parts goes on to the next, which has a time limit of its own. `has_part`: one before it was done. */
static inline void wf_wait_for_next(struct wf_waiting *w, bool has_part)
{
    *w = (struct wf_waiting){.has_part = has_part, .section = w->section};
}

/* The first part of that, without the wait: WF_WAIT_AGAIN: it may wait until w->until. */
enum wf_wait wf_wait_begin(struct wf_waiting *w, int fd, int events);

/* Lets other fibers run, if a wait is allowed at this place and `fd` has no O_NONBLOCK. errno stays. */
void wf_share(int fd);

/* Whether this is a place to let a fiber wait: not in a signal handler, and not in a child that vfork(2) has made. */
bool wf_may_wait(void);

/* The rest of wf_cancelled. A fiber that ignores its cancel lets others run. */
__attribute__((cold)) bool wf_fails_cancelled(void);

/* The end of a call on `fd` (-1: on several) that might have waited: a fiber that has run for long lets others run. */
static inline ssize_t wf_spent(int fd, ssize_t n)
{
    if (unlikely(weft_hook_spend(n > 0 ? (size_t)n : 0)))
        wf_share(fd);
    return n;
}

/*
 * A cancellation point: every hooked call that can wait by its arguments passes one before it does anything, even if it
 * would not have to wait. True: the call fails, with ECANCELED in errno. A signal handler, and the child of a vfork(2),
 * are not the fiber: their calls go on.
 */
static inline bool wf_cancelled(void)
{
    return unlikely(weft_hook_cancelled()) && wf_fails_cancelled();
}

/* The process: without a system call. */
pid_t wf_process(void);

/* An option of a socket that is a number (SO_TYPE, SO_DOMAIN, ...); -1: it has none, or is no socket. errno stays. */
int wf_option(int fd, int name);

/* Whether a wait of weft's has failed as it is to be had otherwise only: by looking again and again. */
static inline bool wf_cannot_be_told(int rc)
{
    return rc == -EMFILE || rc == -ENFILE || rc == -ELOOP; /* no number for the worker's set; too many sets in sets */
}

/* Sleeps between two looks, each time longer, but not beyond `until`: 0, -ECANCELED or -EINTR. *pause is 0 at first. */
int wf_pause(struct wf_section *s, weft_span *pause, enum wf_ends ends, weft_time until);

/* errno of a negative result: -1. */
static inline int wf_fails(int error)
{
    errno = error;
    return -1;
}

/* The point in time that lies so far ahead; too far is for ever. */
weft_time wf_ahead(long long seconds, long long nanoseconds);

#endif
