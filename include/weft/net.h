/*
 * weft/net.h: names, listening, dialling and serving.
 *
 * An address is "host:port", "[ipv6]:port", ":port" (all interfaces to listen on, this machine to dial) or "unix:path"
 * ("unix:@name" for one without a file). A host may be a name, a port may be a service's name.
 *
 * Failure: a negative errno. A name that cannot be resolved: -ENOENT it does not exist, -EAGAIN the name server did not
 * answer, -EINVAL it is no address; -EMFILE, -ENFILE and -ENOMEM: the lookup lacked descriptors or memory, and its
 * failure says nothing about the name.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <stdbool.h>
#include <sys/socket.h>

#include <weft/api.h>
#include <weft/sched.h>
#include <weft/stack.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

struct addrinfo;

/**
 * getaddrinfo(3): the addresses of a host, as it is configured (/etc/hosts, a name server). host or port may be NULL. Of
 * `hints` the flags, family, type and protocol count; NULL: for streams, of the families that this machine has. Who has to
 * be asked is asked by a helper (weft/offload.h), of which 32 can be under way; numbers need nobody.
 *
 * Returns: 0, -ENOENT there is no such name or service, -EAGAIN the name server did not answer (or WEFT_NOW, or there is no
 *          helper), -EIO it failed, -ETIMEDOUT, -ECANCELED, -EINVAL wrong hints, no out, no host and no port; -EMFILE,
 *          -ENFILE, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    the caller owns *out and releases it by freeaddrinfo(3)
 */
WEFT_API int weft_resolve(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out,
                          weft_time deadline);

/**
 * A socket that listens at an address: non-blocking, closed by exec, with SO_REUSEADDR. Port 0 lets the system choose; a
 * host that means several addresses is listened to at the first that works. A socket file that nobody listens on any more
 * is replaced.
 *
 * Returns: the descriptor, or a negative errno; -ECANCELED the caller was cancelled, whatever the address is
 * Context: fiber | any thread
 * Blocks:  while a name is resolved
 * Owns:    the caller owns the descriptor
 */
WEFT_API int weft_listen(const char *address);

/**
 * The port that a socket is bound to.
 *
 * Returns: the port, -EINVAL it has none (a UNIX socket), or a negative errno
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_port(int fd);

/**
 * A socket that is connected to an address: non-blocking, closed by exec, with TCP_NODELAY. If a host has several addresses
 * they are tried in turn, IPv6 and IPv4 alternating, each beginning 250 ms after the one before or when that has failed;
 * the first that connects is taken.
 *
 * Returns: the descriptor, or a negative errno: that of the last one tried, -ETIMEDOUT past the deadline, -ECANCELED, -ENXIO
 *          not in a fiber (weft_connect works on any thread)
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    the caller owns the descriptor
 */
WEFT_API int weft_dial(const char *address, weft_time deadline);

/**
 * The function that serves a connection, the handler. It may leave the descriptor open: the server closes it when the
 * handler returns. The handler may also close it by weft_close, by close(2), or by a function that closes it (fclose,
 * or one of a library). The server then leaves the number alone, whichever file has it by that time. If other fibers
 * may be waiting on the descriptor, close it by weft_close: without the hooks close(2) does not wake them (weft/io.h).
 * When the handler has returned, only the server may close the descriptor.
 */
typedef void weft_serve_fn(int fd, void *arg);

/** How to serve. NULL, or a zero field, means the default. */
typedef struct weft_serve_opts {
    size_t size;        /* sizeof(weft_serve_opts); 0 means the first release's size */
    unsigned max_conns; /* connections at a time; above it nothing is accepted until one ends. 0: no limit */
    size_t stack;       /* bytes of stack of each fiber; 0: the scheduler's default. Must be 0 with `shared` */
    weft_span grace;    /* how long handlers have when serving ends, until they are cancelled; 0: 5 s, negative: none */
    weft_stacks *shared;   /* handlers run on these shared stacks, see below; NULL: each has a private stack */
    weft_serve_fn *refuse; /* connections above max_conns, which must be set, are refused, see below; NULL: they wait */
    bool peers;     /* keep the addresses for weft_peer: 16 bytes for each IPv4 connection, 28 IPv6, up to 110 UNIX */
    weft_sched *on; /* handlers run on this scheduler, which must be running; NULL: on the caller's. On a scheduler of
                     * their own, handlers that compute for long do not delay accepts */
    void (*ending)(void *arg); /* called when nothing more is accepted, see below; NULL: nothing is called */
} weft_serve_opts;

/**
 * Accepts connections and runs handler(fd, arg) in a fiber for each, on the worker that has the fewest of them; the
 * descriptor is closed when the handler returns, if the handler has not closed it. If the process lacks descriptors or
 * memory, the call waits until it has them again, or until the deadline; with WEFT_NOW it does not wait.
 *
 * Serving ends when the deadline passes, when the calling fiber is cancelled, or when the listener is closed by weft_close.
 * Then nothing more is accepted; handlers that have not returned after the grace are cancelled; all have returned when this
 * does.
 *
 * Shared stacks. With `shared` an idle connection costs a few hundred bytes instead of a page. In return the rule of
 * weft/stack.h about pointers to locals applies. A stack of the pool belongs to one worker at a time, so a pool should
 * have a few stacks for each worker. If a worker can get no stack, its connections go to other workers. All that a
 * handler has on its stack is copied while the handler waits. So let the handler wait for the next request by
 * weft_wait_fd, and keep the buffers in an inner function.
 *
 * Refusing. With `refuse`, the server accepts a connection above max_conns at once and runs refuse(fd, arg) in a new
 * fiber, which max_conns does not count. This function may write an answer and wait until the peer has read it. The
 * server then closes the connection, as after a handler. At most 64 refusals are in flight at a time. The server closes
 * further connections at once, without a refusal, so that refusals do not hold up others. With weft_refuse as `refuse`,
 * the server closes each connection above max_conns at once. `refuse` without max_conns is -EINVAL.
 *
 * Ending. When the server accepts no more, and handlers may still run, it calls ending(arg) once, in the fiber of the
 * caller, with the arg of the handlers. This function must not wait. It is not called if weft_serve fails with -EINVAL,
 * -ENXIO or -ENOMEM, or if the listener was closed, or the caller cancelled, before the call.
 *
 * Returns: 0 the deadline has passed or weft_close has closed the listener, -EAGAIN with WEFT_NOW: no connection is in
 *          the queue, or max_conns are being served, -ECANCELED, -EBADF the listener was closed before the call, was
 *          closed by other means than weft_close, or never was one, -EINVAL no handler, or invalid options, -ENXIO not
 *          in a fiber, -ESHUTDOWN the scheduler `on` has stopped, -EBUSY other schedulers use all stacks of `shared`, or a
 *          negative errno of accept(2) that waiting does not mend
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    nothing. The call does not close the listener, and connections in its queue stay there until the caller
 *          closes it. The handlers' fibers borrow `shared`: weft_stacks_free returns -EBUSY until the last handler has
 *          left its stack, which may be a moment after this call returns
 */
WEFT_API int weft_serve(int listener, weft_serve_fn *handler, void *arg, const weft_serve_opts *opts,
                        weft_time deadline);

/**
 * For weft_serve_opts.refuse: the server closes the connection at once, without an answer and without a fiber.
 *
 * Returns: nothing
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API void weft_refuse(int fd, void *arg);

/**
 * In a handler of weft_serve, or in a refusal: the address of the peer. Without the option `peers` the call asks the
 * kernel (getpeername(2)), which fails with -ENOTCONN once the peer has reset the connection, and with -EBADF once the
 * handler has closed it. With the option the call returns the address that accept(2) reported: this takes no system
 * call, and works in both cases.
 *
 * *size is the number of bytes at `to`, and becomes the size of the address. An address that is larger than `to` is
 * truncated.
 *
 * Returns: 0, -ENXIO the caller is no handler or refusal of weft_serve, -EINVAL no `to` or no `size`, or a negative
 *          errno
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_peer(struct sockaddr *to, socklen_t *size);

WEFT_END_DECLS

#endif
