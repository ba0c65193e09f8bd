/*
 * weft/io.h: reading, writing and waiting on descriptors. Each call is the system call of its name, except that it takes a
 * deadline, returns a negative errno instead of setting errno, and lets the fiber wait instead of its worker.
 *
 * A descriptor may be blocking or not; its flags are never looked at to decide whether to wait, and never changed. Several
 * fibers may wait on one descriptor, in both directions, on different workers. A call that a signal interrupts goes on.
 * On a plain thread every call works too, and blocks the thread.
 *
 * A call that need not wait may still let other fibers run before it returns: it yields if the fiber has run for 100 us
 * (weft_sched_opts.look_every). So a connection that always has bytes does not hold up other connections. A call with
 * WEFT_NOW or MSG_DONTWAIT never yields, nor does any call while weft_hook_held counts locks of the fiber.
 *
 * Use weft_close to close a descriptor that these calls were used on. Every call that waits on it then returns -EBADF
 * at once, no such call touches the descriptor that gets the same number next, and the library forgets what it knew
 * about the number.
 *
 * If the program closes a descriptor by close(2) or dup2(2) without telling this library (weft_closing), calls that
 * begin after the close are correct, even if the number is reused. A call that waits verifies its descriptor from time
 * to time. The first verification comes after 50 to 100 ms, or after at most 0.85 s on a number whose waits have been
 * long. Later ones come less and less often, but at least every 13 s. (A worker that runs a computing fiber verifies
 * once that fiber yields or waits.) A call that was waiting at the close finds out at its next verification. With epoll
 * the call then continues on the file that has the number now, or returns -EBADF. With io_uring weft_wait_fd and
 * weft_poll do the same; other calls continue on the closed file.
 *
 * A read or write that is under way at the close may reach the file that gets the number next, and may block the worker
 * until that file is ready. This holds for regular files, FIFOs, terminals, writes to event descriptors, and before
 * Linux 6.4 for all pipes.
 *
 * Buffers, and whatever else a call is given, must not lie on the shared stack of another fiber.
 *
 * Failure: a negative errno. Beside what the system call may say: -ETIMEDOUT past the deadline, -EAGAIN with
 * WEFT_NOW, -ECANCELED the fiber was cancelled, also if it would not have to wait (weft_cancel says which calls go
 * on), -EBADF closed meanwhile. In each of these cases nothing was read or written, unless the call says otherwise.
 */
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <weft/api.h>
#include <weft/fiber.h>
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
 * write(2), without SIGPIPE on sockets (on a pipe without a reader the call raises it, as write(2) does). The call may
 * write fewer bytes than it was given; weft_write_all writes all. As with write(2), a write of 0 bytes to a socket that
 * keeps packets apart (SOCK_DGRAM, SOCK_SEQPACKET) sends an empty packet. The call waits until the socket has room for
 * that packet.
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
 * by itself until it ends. If the backlog of a UNIX listener is full, the call waits for room. With O_NONBLOCK it tries
 * again after a millisecond, then after longer and longer pauses, up to 128 ms.
 *
 * Returns: 0, -EAGAIN with WEFT_NOW, or another negative errno; -EISCONN and -EALREADY as the system call says
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_connect(int fd, const struct sockaddr *to, socklen_t size, weft_time deadline);

/**
 * close(2). Who waits on the descriptor gets -EBADF. The descriptor is gone whatever is returned.
 *
 * Returns: 0, or a negative errno; -EBADF also if fd is one of the library's own, which stays open
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
 * them. In a child made by vfork(2), which shares its parent's memory, the call wakes no fiber. The call skips the
 * library's own descriptors in the range, and the caller must not close them either (weft_own_next finds them).
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
 * The lowest number from `first` to `last` that is a descriptor of the library's own. The library keeps a few: an epoll set
 * or a ring for each worker, and the descriptors for alarms, children and signals. They have high numbers, which
 * programs seldom reach (from 1024 on, or in the last eighth of a lower RLIMIT_NOFILE). weft_close refuses to close
 * them. A program that closes descriptors by other means, for example all open descriptors, must skip them. If the
 * program has closed a descriptor of the library and has opened a file of its own at that number, weft_own_next skips
 * the number.
 *
 * Returns: the number, or -1: there is none
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_own_next(unsigned first, unsigned last);

/**
 * Makes a descriptor that the caller has just opened one of the library's own. It is for wrappers such as
 * libweft-hook's, which wait with descriptors that their callers do not know. weft_own_take moves the descriptor to
 * another number if possible, and closes the old number. The descriptor serves one call of one fiber. That fiber does
 * not exist in the child of a fork, so the library closes the descriptor there.
 *
 * Returns: its number from now on, or -EBADF if fd is negative
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    takes fd; end it by weft_own_close
 */
WEFT_API int weft_own_take(int fd);

/**
 * Makes a duplicate of fd that is one of the library's own, as by weft_own_take. exec closes the duplicate.
 *
 * Returns: its number, or a negative errno
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; end the duplicate by weft_own_close
 */
WEFT_API int weft_own_dup(int fd);

/**
 * Closes a descriptor that weft_own_take or weft_own_dup returned. If the program has another file at that number by
 * now, that file stays open.
 *
 * Returns: 0, or -EBADF if fd is none of the library's own
 * Context: fiber | any thread
 * Blocks:  as weft_close
 * Owns:    takes fd
 */
WEFT_API int weft_own_close(int fd);

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

/**
 * Subscribes fiber `f` to the hangup of a descriptor: the hangup cancels f, as weft_cancel does. A TCP client's
 * ordinary close is NOT a hangup until the server writes; the list below explains it. To learn of such a close, let
 * another fiber read the connection, and let it cancel the handler when a read returns 0. For other hangups one call
 * is enough: a handler that computes, or waits for something else, ends when its client is gone.
 *
 * With f NULL the call takes the subscription back. A descriptor has at most one subscribed fiber: a later call
 * replaces the fiber of an earlier call (a call that fails leaves it subscribed). A hangup cancels once; after that
 * the descriptor has no subscribed fiber. Once a call that takes back, replaces or closes (weft_close) has returned,
 * the hangup no longer cancels the former fiber. It may have cancelled that fiber before.
 *
 * A hangup is POLLERR or POLLHUP, as poll(2) reports it. POLLRDHUP alone, the other side's half-close, is not a hangup:
 * a client may close its sending half and still wait for the answer. So a server sees this:
 *  - A UNIX stream or seqpacket client that closes its socket, or whose process ends: a hangup at once.
 *  - A TCP client that closes its socket, or whose process ends, and has read all that was sent to it: no hangup yet. TCP
 *    says the same as for a half-close: a read returns 0. The client's machine answers the server's next write by a
 *    reset, and that is a hangup. If the server has shut down its own sending half, the close itself is a hangup.
 *  - A TCP client that closes with data unread, or aborts (SO_LINGER with 0): a reset, and so a hangup at once.
 *  - A client whose machine or network is gone: no hangup before TCP gives up (SO_KEEPALIVE, TCP_USER_TIMEOUT).
 *  - A pipe whose reader has gone: a hangup for its writer. A pipe whose writers have gone: a hangup for its reader,
 *    which may still have bytes to read.
 * Use the call for connections only: a UDP socket has POLLERR after an ICMP error, and a socket that timestamps sent
 * packets has POLLERR too.
 *
 * If the descriptor has hung up already, the call cancels f at once. f need not be the caller, nor of the same
 * scheduler. If f ends first, the hangup cancels no fiber. weft_close and weft_closing end the subscription.
 *
 * Before close(2) call weft_closing, as for every call here. Without it io_uring keeps the connection open. (A
 * handler of weft_serve need not call it for a descriptor to which only the handler's own fiber is subscribed: the
 * server ends that subscription after the handler.) And if the number is reused, the library may miss hangups of
 * the new descriptor, with epoll and with io_uring, unless weft_accept, weft_serve or weft_dial made that descriptor.
 *
 * The calling fiber's worker reports the hangup, so its scheduler has to run. If that scheduler is stopped, it
 * reports the hangup after it has been started again. On epoll the first call for a descriptor takes two system
 * calls, and saves one for the descriptor's next wait; later calls take none, unless the descriptor has hung up. With
 * io_uring one poll for each descriptor stays in the ring from the first call until the descriptor is closed. (On
 * Linux before 5.13 such a poll ends at the other side's half-close, and the library misses later hangups.)
 *
 * Returns: 0, -ESRCH f has ended, -EBADF not an open descriptor, or closed meanwhile, -EPERM it is of a kind that is always
 *          ready (a regular file), -ENXIO the caller is no fiber (any thread may pass NULL for f), -ENOMEM, or the
 *          error of registering the descriptor
 * Context: fiber
 * Blocks:  never; the call may wait a moment for another worker that is cancelling the former fiber
 * Owns:    nothing; f must not be released during the call
 */
WEFT_API int weft_cancel_on_hangup(int fd, weft_fiber *f);

WEFT_END_DECLS

#endif
