/*
 * hook/transfer.h: reading and writing, whatever the descriptor is.
 *
 * A socket is told not to wait by a flag of the call. What is no socket says so (ENOTSOCK): then pipes and the like are told by
 * RWF_NOWAIT; what does not know that is polled first; and files are left to the system.
 */
#ifndef WF_HOOK_TRANSFER_H
#define WF_HOOK_TRANSFER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "hook/wait.h"

/* In a fiber. As the system's, but that the fiber waits. *w is all zero, or of the part before (wf_wait_for_next). */
ssize_t wf_receive(int fd, struct msghdr *message, int flags, struct wf_waiting *w);
ssize_t wf_send(int fd, const struct msghdr *message, int flags, struct wf_waiting *w);

/* The same for calls that need no more than that. */
ssize_t wf_read_parts(int fd, const struct iovec *parts, int count);
ssize_t wf_write_parts(int fd, const struct iovec *parts, int count);

/* What is no socket: other.c. */
ssize_t wf_read_other(int fd, const struct iovec *parts, int count);
ssize_t wf_write_other(int fd, const struct iovec *parts, int count);

/* readv(2) and writev(2) with RWF_NOWAIT. EOPNOTSUPP: that cannot be had of this descriptor, or of this system. */
ssize_t wf_try_readv(int fd, const struct iovec *parts, int count);
ssize_t wf_try_writev(int fd, const struct iovec *parts, int count);

bool wf_is_file(int fd); /* of a kind that may wait for a disk and for nothing else */

/* wf_wait_ready for POLLIN. What is there may have been peeked at (SO_PEEK_OFF), and nothing tells of more. */
enum wf_wait wf_wait_data(struct wf_waiting *w, int fd, int flags);

/*
 * After `done` bytes: the rest of what MSG_WAITALL or SO_RCVLOWAT asks for, which one may do whom wf_wants_more is true for;
 * and of what a blocking call is to send.
 */
ssize_t wf_receive_rest(int fd, struct msghdr *message, int flags, size_t done, struct wf_waiting *w);
ssize_t wf_send_rest(int fd, const struct msghdr *message, int flags, size_t done, struct wf_waiting *w);

/* After EINPROGRESS: the connection that a send has begun (MSG_FASTOPEN) is waited for, and then sent to. */
ssize_t wf_send_connected(int fd, const struct msghdr *message, int flags, struct wf_waiting *w);

extern bool wf_low_marks __attribute__((visibility("hidden"))); /* atomic: somebody has set an SO_RCVLOWAT */

static inline bool wf_wants_more(int flags)
{
    return flags & MSG_WAITALL || __atomic_load_n(&wf_low_marks, __ATOMIC_RELAXED);
}

enum { WF_AT_ONCE = 16 }; /* parts of one call that goes on after others */

/* No call moves more than this, whatever it is given: read(2). */
#define WF_MOST ((size_t)0x7ffff000)

bool wf_is_refused(const void *memory, size_t bytes); /* more than WF_MOST */

/* Whether read(2) and write(2) refuse so many bytes. The calls of sockets take what they can of them. */
static inline bool wf_is_too_much(const void *memory, size_t bytes)
{
    return __builtin_expect(bytes > WF_MOST, 0) && wf_is_refused(memory, bytes);
}

/* Whether there are 8 bytes at a place for the kernel to read: one that it must find out before we look there ourselves. */
bool wf_is_memory(const void *at);

/* The bytes of some parts together, as many as a call moves. */
size_t wf_length(const struct iovec *parts, size_t count);

/* Copies to `to` what comes after the first `skip` bytes of that, as far as there is room: how many parts that is. */
size_t wf_parts_after(struct iovec *to, size_t room, const struct iovec *parts, size_t count, size_t skip);

#endif
