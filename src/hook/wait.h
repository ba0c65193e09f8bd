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

#include <weft/time.h>

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
    weft_time until;
    int events;      /* what came at last, as poll(2) says it */
    weft_span pause; /* how long the last pause was; 0: there was none */
};

/*
 * Lets the fiber wait until `fd` is ready for `events` (POLLIN or POLLOUT), no longer than its SO_RCVTIMEO or SO_SNDTIMEO
 * says. Fails with EAGAIN if it has O_NONBLOCK or the time is over, with EBADF if it is closed meanwhile, and with
 * ECANCELED if the fiber is cancelled. errno is as it was if it does not fail.
 */
enum wf_wait wf_wait_ready(struct wf_waiting *w, int fd, int events);

/* The first part of that, without the wait: WF_WAIT_AGAIN: it may wait until w->until. */
enum wf_wait wf_wait_begin(struct wf_waiting *w, int fd, int events);

/* Whether this is a place to let a fiber wait: not in a signal handler, and not in a child that vfork(2) has made. */
bool wf_may_wait(void);

/* The process: without a system call. */
pid_t wf_process(void);

/* An option of a socket that is a number (SO_TYPE, SO_DOMAIN, ...); -1: it has none, or is no socket. errno stays. */
int wf_option(int fd, int name);

/* Whether a wait of weft's has failed as it is to be had otherwise only: by looking again and again. */
static inline bool wf_cannot_be_told(int rc)
{
    return rc == -EMFILE || rc == -ENFILE || rc == -ELOOP; /* no number for the worker's set; too many sets in sets */
}

/* Sleeps between two looks, each time longer, but not beyond `until`: 0 or -ECANCELED. *pause is 0 at first. */
int wf_pause(weft_span *pause, weft_time until);

/* errno of a negative result: -1. */
static inline int wf_fails(int error)
{
    errno = error;
    return -1;
}

/* The point in time that lies so far ahead; too far is for ever. */
weft_time wf_ahead(long long seconds, long long nanoseconds);

#endif
