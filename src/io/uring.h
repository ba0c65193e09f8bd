/*
 * io/uring.h: a worker's ring. Calls are made by the kernel: a fiber puts one into the ring and waits for its completion,
 * and the worker hands over all that has gathered each time it looks for events.
 *
 * What a call was given belongs to the kernel until its completion. So a fiber does not return before that, even when its
 * time is up or it was cancelled: the call is cancelled, and if it has moved bytes all the same, that is what is returned.
 *
 * Only the worker's own thread touches its ring, and completions are seen only while it polls: between putting a call into
 * the ring and leaving, nothing can happen to it.
 */
#ifndef WF_IO_URING_H
#define WF_IO_URING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <weft/time.h>

struct wf_fd;
struct wf_fd_ref;
struct wf_set;
struct wf_worker;

enum wf_call {
    WF_CALL_READV, /* also of one part */
    WF_CALL_WRITEV,
    WF_CALL_RECV,
    WF_CALL_SEND,
    WF_CALL_RECVMSG,
    WF_CALL_SENDMSG,
    WF_CALL_ACCEPT,
    WF_CALL_CONNECT,
    WF_CALL_READ_AT,
    WF_CALL_WRITE_AT,
    WF_CALL_FSYNC,
    WF_CALL_OPEN, /* of no descriptor */
};

/* What a call is given; which fields count depends on `call`. */
struct wf_request {
    enum wf_call call;
    int fd;
    int flags;
    const void *memory;  /* bytes, parts, a msghdr, an address, a path */
    size_t size;         /* of memory: in bytes, or how many parts; WF_CALL_OPEN: the mode */
    socklen_t *accepted; /* WF_CALL_ACCEPT: the size of the address */
    off_t offset;        /* WF_CALL_READ_AT, WF_CALL_WRITE_AT */
};

/* A ring for the worker, or why there is none: a negative errno. On the worker's thread. */
int wf_uring_new(struct wf_set **out, struct wf_worker *w);

/*
 * Makes a call and waits for its result: what the system call returns, or a negative errno; -ETIMEDOUT, -ECANCELED and
 * -EBADF (the generation is over) only if it has done nothing. On the set's worker, in a fiber that stays there and whose
 * stack stays where it is. `of` may be NULL: the call is of no descriptor.
 */
ptrdiff_t wf_uring_call(struct wf_set *set, const struct wf_fd_ref *of, const struct wf_request *r, weft_time deadline);

/* Has it report once, as wf_set_arm. The caller has entered it (wf_fd_enter), and the report leaves it. */
int wf_uring_arm(struct wf_set *set, const struct wf_fd_ref *r, uint32_t events, uint32_t *ticket);

/* Nobody waits for what was armed any more. */
void wf_uring_disarm(struct wf_set *set, uint32_t ticket);

/* Cancels every call and every poll of a descriptor's generation that is in this ring. On its worker. */
void wf_uring_cancel(struct wf_set *set, const struct wf_fd *e, uint32_t generation);

/* Makes the ring anew, for the thread that is the worker now. 0, or a negative errno. */
int wf_uring_make(struct wf_set *set);

#endif
