/*
 * weft/net.h: names, listening, dialling and serving.
 *
 * An address is "host:port", "[ipv6]:port", ":port" (all interfaces to listen on, this machine to dial) or "unix:path"
 * ("unix:@name" for one without a file). A host may be a name, a port may be a service's name.
 *
 * Failure: a negative errno. A name that cannot be resolved: -ENOENT it does not exist, -EAGAIN the name server did not
 * answer, -EINVAL it is no address.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <weft/api.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

struct addrinfo;

/**
 * getaddrinfo(3): the addresses of a host, as it is configured (/etc/hosts, a name server). host or port may be NULL. Of
 * `hints` the flags, family, type and protocol count; NULL: for streams, of the families that this machine has. Who has to
 * be asked is asked by a helper (weft/offload.h), of which 32 can be under way; numbers need nobody.
 *
 * Returns: 0, -ENOENT there is no such name or service, -EAGAIN the name server did not answer (or WEFT_NOW, or there is no
 *          helper), -EIO it failed, -ETIMEDOUT, -ECANCELED, -EINVAL wrong hints, no out, no host and no port; -ENOMEM
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
 * Returns: the descriptor, or a negative errno
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

/** What serves a connection. It need not close it. */
typedef void weft_serve_fn(int fd, void *arg);

/** How to serve. NULL, or a zero field, means the default. */
typedef struct weft_serve_opts {
    size_t size;        /* sizeof(weft_serve_opts); 0 means the first release's size */
    unsigned max_conns; /* connections at a time; above it nothing is accepted until one ends. 0: no limit */
    size_t stack;       /* bytes of stack of each fiber; 0: the scheduler's default */
    weft_span grace;    /* how long handlers have when serving ends, until they are cancelled; 0: 5 s, negative: none */
} weft_serve_opts;

/**
 * Accepts connections and runs handler(fd, arg) in a fiber for each, on the worker that has the fewest of them; the
 * descriptor is closed when the handler returns. A lack of descriptors or memory is waited out.
 *
 * Serving ends when the deadline passes, when the calling fiber is cancelled, or when the listener is closed by weft_close.
 * Then nothing more is accepted; handlers that have not returned after the grace are cancelled; all have returned when this
 * does.
 *
 * Returns: 0 the deadline has passed, -EAGAIN the same with WEFT_NOW, -ECANCELED, -EBADF the listener was closed or never was
 *          one, -EINVAL no handler, or options that are none, -ENXIO not in a fiber, or a negative errno of accept(2) that
 *          waiting does not mend
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    nothing; the listener is not closed by this, and whoever is in its queue stays there until it is
 */
WEFT_API int weft_serve(int listener, weft_serve_fn *handler, void *arg, const weft_serve_opts *opts,
                        weft_time deadline);

WEFT_END_DECLS

#endif
