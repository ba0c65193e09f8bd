/*
 * weft/io.h: reading, writing and waiting on descriptors. Each call is the system call of its name, except that it takes a
 * deadline, returns a negative errno instead of setting errno, and lets the fiber wait instead of its worker.
 *
 * A descriptor may be blocking or not; its flags are never looked at to decide whether to wait, and never changed. Several
 * fibers may wait on one descriptor, in both directions, on different workers. A call that a signal interrupts goes on.
 * On a plain thread every call works too, and blocks the thread.
 *
 * Close by weft_close whatever these calls were used on: who waits gets -EBADF at once, none of them touches whatever gets
 * the same number next, and what is known about the number is forgotten. If one is closed by close(2) or dup2(2) behind this
 * library's back, calls that begin after that are right, also if the number is reused: a wait looks again after 50 ms (at
 * most 0.8 s). A call that was waiting then is not told: with epoll it goes on with whatever has the number, or gets -EBADF;
 * with io_uring it goes on with the file that was closed.
 *
 * Buffers, and whatever else a call is given, must not lie on the shared stack of another fiber.
 *
 * Failure: a negative errno. Beside what the system call may say: -ETIMEDOUT past the deadline, -EAGAIN with WEFT_NOW,
 * -ECANCELED the fiber was cancelled and would have to wait (what is there it still gets), -EBADF closed meanwhile. In each
 * of these cases nothing was read or written, unless the call says otherwise.
 */
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <weft/api.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/**
 * What the calling fiber's worker waits for descriptors with; on a plain thread, what a new scheduler would.
 *
 * Returns: "epoll" or "io_uring"
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_io_backend(void);

/**
 * read(2). Of a stream it returns what is there, and waits only if that is nothing.
 *
 * Returns: the bytes read, 0 at the end, or a negative errno (see above)
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_read(int fd, void *buffer, size_t bytes, weft_time deadline);

/**
 * write(2), without SIGPIPE on sockets. It may write less than it was given: weft_write_all does not.
 *
 * Returns: the bytes written, or a negative errno
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_write(int fd, const void *buffer, size_t bytes, weft_time deadline);

/**
 * readv(2).
 *
 * Returns: as weft_read
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_readv(int fd, const struct iovec *parts, int count, weft_time deadline);

/**
 * writev(2), without SIGPIPE on sockets.
 *
 * Returns: as weft_write
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_writev(int fd, const struct iovec *parts, int count, weft_time deadline);

/**
 * Reads until `bytes` are there or the other side has ended. *done (may be NULL) is how many there are, also on failure.
 *
 * Returns: the bytes read (fewer than asked for only at the end), or a negative errno
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_read_full(int fd, void *buffer, size_t bytes, size_t *done, weft_time deadline);

/**
 * Writes all of it. *done (may be NULL) is how much has gone out, also on failure.
 *
 * Returns: `bytes`, or a negative errno
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_write_all(int fd, const void *buffer, size_t bytes, size_t *done, weft_time deadline);

/**
 * recv(2).
 *
 * Returns: as weft_read; with MSG_DONTWAIT in the flags -EAGAIN if there is nothing
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_recv(int fd, void *buffer, size_t bytes, int flags, weft_time deadline);

/**
 * send(2), without SIGPIPE.
 *
 * Returns: as weft_write; with MSG_DONTWAIT in the flags -EAGAIN if there is no room
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_send(int fd, const void *buffer, size_t bytes, int flags, weft_time deadline);

/**
 * recvfrom(2); `from` and `size` may be NULL.
 *
 * Returns: as weft_recv
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_recvfrom(int fd, void *buffer, size_t bytes, int flags, struct sockaddr *from, socklen_t *size,
                                 weft_time deadline);

/**
 * sendto(2), without SIGPIPE; `to` may be NULL.
 *
 * Returns: as weft_send
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_sendto(int fd, const void *buffer, size_t bytes, int flags, const struct sockaddr *to,
                               socklen_t size, weft_time deadline);

/**
 * recvmsg(2).
 *
 * Returns: as weft_recv
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing; descriptors that come with the message are the caller's
 */
WEFT_API ptrdiff_t weft_recvmsg(int fd, struct msghdr *message, int flags, weft_time deadline);

/**
 * sendmsg(2), without SIGPIPE.
 *
 * Returns: as weft_send
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_sendmsg(int fd, const struct msghdr *message, int flags, weft_time deadline);

/**
 * accept4(2). `from` and `size` may be NULL; flags: SOCK_NONBLOCK, SOCK_CLOEXEC.
 *
 * Returns: the new descriptor, or a negative errno
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    the caller owns the new descriptor
 */
WEFT_API int weft_accept(int fd, struct sockaddr *from, socklen_t *size, int flags, weft_time deadline);

/**
 * connect(2). After -ETIMEDOUT or -ECANCELED the attempt may still be under way: close the socket. On a descriptor without
 * O_NONBLOCK, without io_uring, a helper makes it (weft/offload.h): then WEFT_NOW begins nothing, and after a close it goes on
 * by itself until it ends.
 *
 * Returns: 0, or a negative errno; -EISCONN and -EALREADY as the system call says
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_connect(int fd, const struct sockaddr *to, socklen_t size, weft_time deadline);

/**
 * close(2). Who waits on the descriptor gets -EBADF. The descriptor is gone whatever is returned.
 *
 * Returns: 0, or a negative errno
 * Context: fiber | any thread
 * Blocks:  as close(2), and until calls on it that are under way have ended: with io_uring that takes until the workers
 *          that made them look at their rings. (So worker 0 of use_caller must not wait, outside of its loop, for one who
 *          closes what its fibers read.)
 * Owns:    takes fd
 */
WEFT_API int weft_close(int fd);

/**
 * For who closes descriptors otherwise than by weft_close, or has others take their numbers (dup2, close_range): call it
 * before, and weft_closed after. Who waits on any of `first` to `last` gets -EBADF, what is known about the numbers is
 * forgotten, and nobody begins to wait on them until weft_closed (for 10 ms at the longest). Between the two only close
 * them. In a child made by vfork(2), which has its parent's memory, nobody is told.
 *
 * Returns: false: nothing is known of any of them, and weft_closed need not be called
 * Context: fiber | any thread
 * Blocks:  as weft_close
 * Owns:    nothing
 */
WEFT_API bool weft_closing(unsigned first, unsigned last);

/**
 * They are closed: see weft_closing, which was called with the same numbers.
 *
 * Returns: nothing
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API void weft_closed(unsigned first, unsigned last);

/**
 * shutdown(2).
 *
 * Returns: 0, or a negative errno
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_shutdown(int fd, int how);

/**
 * sendfile(2), from a file, without SIGPIPE on sockets. *offset (may be NULL: where the file is) moves on by what was sent.
 * To a descriptor with O_NONBLOCK it may send less than it was asked to. What is in memory goes there without being copied;
 * what is not, and all that goes to a blocking descriptor, by way of a buffer.
 *
 * Returns: the bytes sent, 0 at the end of the file, or a negative errno if nothing was
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_sendfile(int to, int from, off_t *offset, size_t bytes, weft_time deadline);

/**
 * splice(2), without SIGPIPE on sockets; one of the two is a pipe. With SPLICE_F_NONBLOCK it does not wait. To a blocking
 * descriptor that is no pipe it moves at most 4 KiB at a time.
 *
 * Returns: the bytes moved, 0 at the end, or a negative errno
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread; and the thread on a file
 * Owns:    nothing
 */
WEFT_API ptrdiff_t weft_splice(int from, off_t *from_offset, int to, off_t *to_offset, size_t bytes, unsigned flags,
                               weft_time deadline);

/**
 * poll(2). A negative fd is left out. Regular files are always ready.
 *
 * Returns: how many have an event in `revents`, 0 past the deadline (also with WEFT_NOW), or a negative errno
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_poll(struct pollfd *fds, size_t count, weft_time deadline);

/**
 * Waits until a descriptor is ready for any of `events` (POLLIN, POLLOUT, POLLPRI, POLLRDHUP). For any descriptor, one of
 * this library's calls or of another library; nothing is kept about it afterwards.
 *
 * Returns: what happened, as poll(2) says it, POLLERR and POLLHUP included; -EPERM it is of a kind that is always ready
 *          (a regular file), or a negative errno
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_wait_fd(int fd, unsigned events, weft_time deadline);

WEFT_END_DECLS

#endif
