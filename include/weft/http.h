/*
 * weft/http.h: an HTTP/1.1 server. Part of libweft-http, which stands on the other headers alone.
 *
 *      static int hello(weft_exchange *x, void *arg)
 *      {
 *          return weft_http_reply(x, 200, "text/plain", "hello\n", 6);
 *      }
 *
 *      static void *first(void *arg) // a fiber: weft_run(first, NULL, NULL, NULL)
 *      {
 *          weft_http *h;
 *          int listener = weft_listen("127.0.0.1:8080"); // weft/net.h; a negative errno if the port is taken
 *          if (listener < 0 || weft_http_new(&h, NULL) != 0)
 *              return NULL;
 *          weft_http_route(h, "GET /hello", hello, NULL);
 *          weft_http_serve(h, listener, WEFT_FOREVER);
 *          weft_http_free(h);
 *          weft_close(listener);
 *          return NULL;
 *      }
 *
 * A server (weft_http) has routes, middleware and limits. Each connection has one fiber, which reads a request, calls
 * the handler of its route, and reads the next request. An exchange (weft_exchange) is one request and its answer. It
 * belongs to the fiber that runs the handler: other fibers and threads must not use it, except where a call says so.
 *
 * Phases of an exchange, each with its own limit (weft_http_opts):
 *
 *      IDLE ──first byte──▶ HEAD ──head complete──▶ HANDLE ──handler returned──▶ FINISH ──keep-alive──▶ IDLE
 *                            │ bad request             │ cut                         │ close
 *                            └──────────▶ answer 4xx ──┴────────▶ LINGER ◀───────────┘
 *
 * Handlers. A handler answers by weft_http_reply, or by weft_http_begin, weft_http_write and weft_http_end. It returns
 * 0, or a negative errno. If a handler fails before its answer has begun, the server answers for it: 404 for -ENOENT,
 * 403 for -EACCES and -EPERM, 400 for -EINVAL and -EBADMSG, 405 for -EOPNOTSUPP (Allow names the other methods that
 * routes of the path have), 408 for -ETIMEDOUT, 413 for -EFBIG, 503 for -EAGAIN and -EBUSY, 504 for -ETIME, and 500 for
 * every other code. If a handler fails after its answer has begun, the server cuts the connection, so the client can
 * tell that the answer is not complete. A handler that returns 0 without an answer gives 204. An answer of
 * weft_http_begin that was not ended is ended. A positive value counts as 0, so `return 404` is a mistake: reply with
 * that status, or return -ENOENT. The server prints no failures; middleware sees them as the result of weft_http_next.
 *
 * Handlers are fibers: waits of this library, and hooked calls, let other connections run. A handler runs in the fiber
 * of its connection. If the client hangs up (weft_cancel_on_hangup says what that is; a half-close is not), the fiber
 * is cancelled, and the handler's waits return -ECANCELED. weft_http_scope gives the handler a scope for children.
 * Handlers of different connections run at the same time, on all workers of the scheduler. So what they share needs a
 * lock (weft/sync.h) or a channel, whose waits block only the fiber.
 *
 * Strings that these calls return belong to the exchange, and live until the handler has returned.
 *
 * Parsing is strict, because servers that disagree about a request can be tricked into serving one client's request to
 * another. What RFC 9112 allows a server to forgive is refused with 400: a bare LF, folded fields, white space before a
 * colon, a Content-Length beside a Transfer-Encoding and so on (docs/http-conformance.md lists all).
 *
 * Failure: a negative errno is returned, errno is never set, and an out pointer is untouched.
 */
#ifndef WEFT_HTTP_H
#define WEFT_HTTP_H

#include <stdarg.h>
#include <sys/socket.h>

#include <weft/api.h>
#include <weft/fiber.h>
#include <weft/sched.h>
#include <weft/scope.h>
#include <weft/stack.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/** A server: routes, middleware, limits, and the connections that are being served. */
typedef struct weft_http weft_http;

/** One request and its answer. */
typedef struct weft_exchange weft_exchange;

/** Answers a request. Returns 0 once it has answered, or a negative errno (see above), never a status. */
typedef int weft_handler(weft_exchange *x, void *arg);

/** What happens to a connection above max_conns or max_per_address. */
enum {
    WEFT_HTTP_BUSY_503 = 0,   /* it is answered by 503 with Retry-After, and closed. The client has 2 s to read that; if
                               * many clients are refused at a time, some of them have no time, or get no answer */
    WEFT_HTTP_BUSY_CLOSE = 1, /* it is closed without an answer */
};

/**
 * Limits, and how connections run. NULL, or a zero field, means the default. No default is infinite; a limit of your own
 * may be as large as its type allows.
 */
typedef struct weft_http_opts {
    size_t size;              /* sizeof(weft_http_opts); 0 means the first release's size */
    const char *server;       /* the value of the field Server, copied, at most 256 bytes; default: there is no such
                               * field */
    size_t head_bytes;        /* the most bytes of a head (request line and fields), else 431 (a target that is too
                               * long: 414); default 16 KiB, at least 256, at most 1 MiB */
    unsigned head_fields;     /* the most fields of a head, else 431; default 100, at most 10,000 */
    uint64_t body_bytes;      /* the most bytes of a body, else 413; default 1 MiB. See weft_http_allow_body */
    uint64_t drain_bytes;     /* of a body that the handler has not read: the most bytes that the server reads and throws
                               * away to keep the connection; default 256 KiB */
    weft_span idle_time;      /* how long a connection may wait for its next request; default 60 s */
    weft_span head_time;      /* from the first byte of a head to its last, else 408; default 10 s */
    uint64_t body_rate;       /* bytes a second that a body must have on average after its first 5 s, else the read
                               * fails with -ETIMEDOUT; default 256 */
    weft_span write_time;     /* how long the client may take to read each 64 KiB of an answer; default 30 s */
    weft_span grace;          /* how long handlers may go on when serving ends, until they are cancelled; default 10 s,
                               * negative: not at all */
    unsigned max_conns;       /* connections at a time; default 16,384 */
    unsigned max_per_address; /* of these, from one address (IPv6: one /64); default 4,096. UNIX sockets do not count */
    int busy;                 /* what happens above these two: WEFT_HTTP_BUSY_503 or WEFT_HTTP_BUSY_CLOSE */
    size_t stack;             /* bytes of stack of a connection's fiber; 0: the scheduler's default; 0 with `shared` */
    weft_stacks *shared;      /* connections run on these shared stacks (see weft_serve_opts), and the rule of
                               * weft/stack.h about pointers to locals counts for handlers; NULL: private stacks */
    weft_sched *on;           /* connections run on this scheduler; NULL: on that of the fiber that calls
                               * weft_http_serve. So a scheduler of its own can accept connections */
} weft_http_opts;

/* ---- the server --------------------------------------------------------------------------------------------- */

/**
 * Makes a server.
 *
 * Returns: 0, -EINVAL no out, or options that are out of range, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out and releases it by weft_http_free
 */
WEFT_API int weft_http_new(weft_http **out, const weft_http_opts *opts);

/**
 * Releases a server. NULL does nothing.
 *
 * Returns: 0, -EBUSY a call of weft_http_serve has not returned
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread, for 3 s at most, if the file of weft_http_log does not take its last lines
 * Owns:    takes h on 0
 */
WEFT_API int weft_http_free(weft_http *h);

/**
 * Adds a route. A pattern is "METHOD /path", or "/path" for all methods. Methods are case-sensitive: "get" is not GET. A
 * literal segment is written as it is decoded, without %. A segment "{name}" stands for one segment that
 * is not empty; a last segment "{name...}" stands for the rest of the path, which may be empty, slashes included. Of the
 * routes that match, that with the first literal segment wins over that with a parameter, and a parameter wins over
 * the rest of the path. So "/notes/new" goes before "/notes/{id}", in whatever order they were added.
 *
 * Each segment of the request's path is decoded once (%41 becomes A) and then compared. A %2F in a segment stays part of
 * that segment: "/notes/a%2Fb" matches "/notes/{id}", and its id is "a/b". A path with a segment "." or "..", however it
 * is encoded, or with %00 is refused by 400. So is a %2F in what "{name...}" stands for, where it would look like a slash.
 *
 * If no route has the path, the server answers 404. If routes have the path and none has the method, it answers 405 with
 * Allow; a GET route also answers HEAD (the server leaves out the body), and OPTIONS if no route does.
 *
 * Returns: 0, -EINVAL no h, no fn, a malformed pattern, or a 65th method, -EEXIST there is such a route, -EBUSY the
 *          server is serving, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; the pattern is copied, `arg` must live as long as h
 */
WEFT_API int weft_http_route(weft_http *h, const char *pattern, weft_handler *fn, void *arg);

/**
 * Adds middleware: a handler that runs before those of the routes, and calls weft_http_next to go on. The one that was
 * added first runs first. Middleware runs for every request that was parsed, also for those that end with 404 or 405.
 *
 * Returns: 0, -EINVAL no h or fn, -EBUSY the server is serving, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; `arg` must live as long as h
 */
WEFT_API int weft_http_use(weft_http *h, weft_handler *fn, void *arg);

/**
 * In middleware: runs the next middleware, or the route's handler. Answers for a handler that has failed before its
 * answer began: fields that were added before this call stay in that answer, and those that the handler has added do not.
 * So after this call weft_http_status is what the client gets, unless the answer was cut.
 *
 * Returns: what the handler has returned; where the server itself answers (404 and so on): as weft_http_reply
 * Context: fiber
 * Blocks:  as the handler does
 * Owns:    nothing
 */
WEFT_API int weft_http_next(weft_exchange *x);

/**
 * Middleware that comes with the library: gives each request an id, and answers with it in X-Request-Id. If the request
 * has such a field, of 1 to 64 letters, digits and "-_.", that is the id. weft_http_id reads it. `arg` is not used.
 *
 * Returns: as weft_http_next
 * Context: fiber
 * Blocks:  as the handler does
 * Owns:    nothing
 */
WEFT_API int weft_http_give_id(weft_exchange *x, void *arg);

/**
 * Writes an access log in the common format to a file. Bytes of the request that could break a line, or a terminal, are
 * written as \xHH, and a quote or backslash after a backslash. A request line that is too long for a line of 2 KiB is cut,
 * and "..." follows. Lines are collected, and written at least once a second and when the server is freed. The file may
 * be a pipe or a terminal; a pipe without a reader raises SIGPIPE, as write(2) does. If the file cannot take lines as
 * fast as they come, lines are dropped, and a line says how many. All requests are logged, also those that were malformed
 * ("-") and those that middleware has answered. Connections above a limit are not. An answer that was cut is logged like
 * others, with its status and the bytes of body that it had: its client may have got fewer (weft_http_figures counts cuts).
 *
 * Returns: 0, -EINVAL no h, or fd is negative, -EALREADY there is a log, -EBUSY the server is serving, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; fd must stay open until h is freed
 */
WEFT_API int weft_http_log(weft_http *h, int fd);

/** How files are served. NULL, or a zero field, means the default. */
typedef struct weft_files_opts {
    size_t size;       /* sizeof(weft_files_opts); 0 means the first release's size */
    const char *index; /* what a folder answers with, copied; default "index.html" */
    bool list;         /* a folder without an index is listed; default: 404 */
    bool hidden;       /* files and folders whose names begin with a dot are served; default: 404 */
    int links;         /* symbolic links: WEFT_FILES_NO_LINKS, ... */
    weft_span max_age; /* Cache-Control: max-age; 0: there is no such field */
} weft_files_opts;

/** Whether symbolic links are followed: weft_files_opts.links. */
enum {
    WEFT_FILES_LINKS_BENEATH = 0, /* those that stay in the folder; others are 404 */
    WEFT_FILES_NO_LINKS = 1,      /* none: each is 404 */
    WEFT_FILES_ALL_LINKS = 2,     /* all, wherever they lead */
};

/**
 * Serves the files below a folder under a prefix ("/static/", or "/"). GET and HEAD; single ranges; ETag, Last-Modified and
 * the conditions on them; a twin "name.gz" for clients that accept gzip. No path leads out of the folder in any
 * encoding. Only regular files and folders are served.
 *
 * Returns: 0, -EINVAL no h, prefix or dir, a prefix that is no path of a route or does not begin and end with a slash,
 *          or options that are out of range, -ENOENT, -ENOTDIR, -EACCES and others as opening the folder says, -EEXIST
 *          the prefix is taken, -EBUSY the server is serving, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  for as long as opening the folder takes
 * Owns:    nothing; the folder stays open until h is freed
 */
WEFT_API int weft_http_files(weft_http *h, const char *prefix, const char *dir, const weft_files_opts *opts);

/**
 * Serves the connections of a listener (weft_listen), until the deadline passes, the calling fiber is cancelled, or
 * weft_http_stop is called. Several fibers may serve several listeners with one server, with the connections of all on
 * one scheduler.
 *
 * Serving ends gracefully. The listener accepts no more, idle connections are closed, and answers say "Connection:
 * close". A request that has come by then on an accepted connection is still answered. For a handler that has used
 * weft_http_scope or weft_http_events, weft_stopping() becomes true. Handlers that have not returned after opts.grace
 * are cancelled. All handlers have returned when this call does.
 *
 * The call sets TCP_NODELAY on the listener, which its connections inherit.
 *
 * Returns: 0 the deadline has passed or weft_http_stop was called, -ECANCELED, -ENXIO not in a fiber, -EINVAL no h,
 *          -ESHUTDOWN weft_http_stop was called before, -EBUSY another call serves with this server on another
 *          scheduler, -EBADF, -ENOMEM and other negative errnos as weft_serve
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    nothing. The call does not close the listener
 */
WEFT_API int weft_http_serve(weft_http *h, int listener, weft_time deadline);

/**
 * Ends all calls of weft_http_serve, gracefully. It does not wait for them. A handler may call it.
 *
 * Returns: 0, -EINVAL no h
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; h must not be freed meanwhile
 */
WEFT_API int weft_http_stop(weft_http *h);

/** Latencies are counted by powers of two: number n counts those below 2^n microseconds (and not below 2^(n-1)). */
enum { WEFT_HTTP_LATENCIES = 32 };

/** What a server is doing, and has done. */
typedef struct weft_http_figures {
    size_t size;           /* set it to sizeof(weft_http_figures) */
    unsigned connections;  /* now */
    unsigned idle;         /* of these, without a request, and without a buffer */
    unsigned streams;      /* of these, event streams */
    uint64_t accepted;     /* connections so far */
    uint64_t refused;      /* of these, above a limit */
    uint64_t requests;     /* requests whose heads were complete, refused ones included */
    uint64_t status[6];    /* answers by the first digit of their status: status[2] counts 2xx */
    uint64_t cut;          /* answers that were not completed */
    uint64_t bytes_in;     /* bytes read from connections */
    uint64_t bytes_out;    /* bytes written to connections */
    uint64_t latencies[WEFT_HTTP_LATENCIES]; /* from the read of a request's last byte of head to the write of its answer */
} weft_http_figures;

/**
 * Counts. The figures are taken one after another while work goes on.
 *
 * Returns: 0, -EINVAL no h or out, or a size of 0
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_http_stats(const weft_http *h, weft_http_figures *out);

/* ---- the request -------------------------------------------------------------------------------------------- */

/**
 * The method, as it was sent: "GET".
 *
 * Returns: the method
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_method(weft_exchange *x);

/**
 * The path, as it was sent: not decoded, without the query. "*" for OPTIONS *.
 *
 * Returns: the path
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_path(weft_exchange *x);

/**
 * The whole query, as it was sent: not decoded, without the question mark.
 *
 * Returns: the query; NULL if the target has none
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_query_text(weft_exchange *x);

/**
 * The authority of the target, or else the value of Host: "example.org:8080".
 *
 * Returns: the host; "" if an HTTP/1.0 request has none
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_host(weft_exchange *x);

/**
 * The version of the request.
 *
 * Returns: 10 or 11
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_http_version(weft_exchange *x);

/**
 * The part of the path that a pattern's {name} stands for, decoded.
 *
 * Returns: the value; NULL if the route has no such parameter
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_param(weft_exchange *x, const char *name);

/**
 * The first value of a name in the query, decoded: a plus is a space.
 *
 * Returns: the value, "" if the name stands without one; NULL if the query does not have the name, or without memory
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_query(weft_exchange *x, const char *name);

/**
 * The value of a field, by its name in any case. If there are several such fields, the first.
 *
 * Returns: the value, "" if it is empty; NULL if there is no such field
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_header(weft_exchange *x, const char *name);

/**
 * The field number i, from 0, in the order of the request. `name` is as it was sent.
 *
 * Returns: 0, -ENOENT there are not so many
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_http_header_at(weft_exchange *x, unsigned i, const char **name, const char **value);

/**
 * The first cookie of a name, as it was sent; without its quotes if it has some.
 *
 * Returns: the value; NULL if there is no such cookie, or without memory
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_cookie(weft_exchange *x, const char *name);

/**
 * The address of the client.
 *
 * Returns: as weft_peer
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_http_peer(weft_exchange *x, struct sockaddr *to, socklen_t *size);

/**
 * The id that weft_http_give_id has given.
 *
 * Returns: the id; NULL without that middleware
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_id(weft_exchange *x);

/**
 * How long the body is.
 *
 * Returns: the length; 0 if the request has no body; -1 if the length is not known (chunked)
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int64_t weft_http_body_length(weft_exchange *x);

/**
 * Sets another limit for this request's body than opts.body_bytes. Call it before the first read.
 *
 * Returns: nothing
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API void weft_http_allow_body(weft_exchange *x, uint64_t bytes);

/**
 * Reads a part of the body. The first read answers "Expect: 100-continue". Bytes that the handler does not read stay
 * with the client, which waits.
 *
 * Returns: the bytes read, 0 at the end of the body, -EAGAIN nothing has come and the deadline is WEFT_NOW (this is no
 *          failure: read again), -EFBIG the body is longer than allowed, -EBADMSG malformed chunks,
 *          -ECONNRESET the client has ended inside the body, -ETIMEDOUT the deadline has passed, or the client is slower
 *          than opts.body_rate, -ECANCELED, or a negative errno. After a failure the connection is not kept
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    nothing; the buffer must not lie on the shared stack of another fiber
 */
WEFT_API ptrdiff_t weft_http_read(weft_exchange *x, void *buffer, size_t bytes, weft_time deadline);

/**
 * Reads the whole body into memory of the exchange. A zero byte follows it. A body can be read once: a second call, or
 * one after weft_http_read, has only what is left, which may be nothing.
 *
 * Returns: 0, -ENOMEM, or as weft_http_read
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    nothing
 */
WEFT_API int weft_http_read_all(weft_exchange *x, const char **body, size_t *bytes, weft_time deadline);

/**
 * Reads a body of the type application/x-www-form-urlencoded, for weft_http_form. Call it instead of weft_http_read_all.
 *
 * Returns: 0, -EINVAL it is of another type, or as weft_http_read_all
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    nothing
 */
WEFT_API int weft_http_read_form(weft_exchange *x, weft_time deadline);

/**
 * The first value of a name in the form that weft_http_read_form has read, decoded.
 *
 * Returns: the value; NULL if the form does not have the name, was not read, or without memory
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_form(weft_exchange *x, const char *name);

/**
 * Memory that lives until the handler, and all middleware, has returned.
 *
 * Returns: the memory, aligned for any type; NULL if there is none
 * Context: fiber
 * Blocks:  never
 * Owns:    the exchange owns it
 */
WEFT_API void *weft_http_alloc(weft_exchange *x, size_t bytes);

/**
 * A scope for children of the handler. The first call opens it. The server closes it after the handler: it cancels
 * and joins the children that are left. Its storage lies in the connection, so a handler on a shared stack may use it.
 * If the handler opens other scopes, it closes them before it returns.
 *
 * Returns: the scope; NULL without memory
 * Context: fiber
 * Blocks:  never
 * Owns:    the exchange owns it
 */
WEFT_API weft_scope *weft_http_scope(weft_exchange *x);

/* ---- the answer --------------------------------------------------------------------------------------------- */

/**
 * Adds a field to the answer. Call it before weft_http_reply or weft_http_begin. The server itself writes Date,
 * Connection and Transfer-Encoding. Content-Length may be added before weft_http_begin: then the body must have that
 * length. If a field is added twice, it is sent twice. A value goes out as it is: for a cookie (Set-Cookie), encode
 * semicolons of what a client has sent.
 *
 * Returns: 0, -EINVAL the name is no token, or is Date, Connection, Transfer-Encoding, Keep-Alive, Upgrade or Trailer; the
 *          value has a CR, LF, NUL or another control character, or begins or ends with white space; a
 *          Content-Length that is no number, or a second one; -EALREADY the answer has begun, -ENOMEM
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing; both strings are copied
 */
WEFT_API int weft_http_add_header(weft_exchange *x, const char *name, const char *value);

/**
 * Answers with a whole body. `type` (may be NULL) is the value of Content-Type; `body` may be NULL if `bytes` is 0. For
 * HEAD, 204 and 304 the body is not sent. A large body goes out without being copied, before the call returns. A small
 * one is copied, and goes out when the handler and its middleware have returned, or later with the answers of pipelined
 * requests. So start work that the client need not wait for in a fiber of its own (weft_go).
 *
 * Returns: 0, -EINVAL a status outside 200 to 599, or 426 (the server has no protocol to upgrade to), or a malformed
 *          type, or a Content-Length that was added and differs; -EALREADY the answer has begun, or a negative errno of
 *          the write: the connection is not kept
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_reply(weft_exchange *x, int status, const char *type, const void *body, size_t bytes);

/**
 * Answers with a redirect: 301, 302, 303, 307 or 308.
 *
 * Returns: as weft_http_reply; -EINVAL also for another status, or a location that is no valid value
 * Context: fiber
 * Blocks:  as weft_http_reply
 * Owns:    nothing
 */
WEFT_API int weft_http_redirect(weft_exchange *x, int status, const char *location);

/**
 * Begins an answer whose body follows in parts. Without a Content-Length the body goes out in chunks; to an HTTP/1.0
 * client it ends with the connection. The head goes out with the first flush.
 *
 * Returns: 0, -EINVAL a status as for weft_http_reply, -EALREADY the answer has begun, or a negative errno of a write
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_begin(weft_exchange *x, int status);

/**
 * Writes a part of the body. Small parts are collected until the buffer is full, weft_http_flush or weft_http_end. If
 * the client reads slowly, the call waits.
 *
 * Returns: 0 (also where the body is not sent: HEAD, 204, 304), -EINVAL there is no answer that has begun and not
 *          ended, -EFBIG more bytes than the Content-Length, -ETIMEDOUT the client has not read for opts.write_time,
 *          -ECANCELED, -EPIPE or -ECONNRESET the client is gone, or another negative errno. After a failure of the
 *          write the connection is not kept
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_write(weft_exchange *x, const void *bytes, size_t count);

/**
 * Writes a part of a file as a part of the body, by sendfile(2) where that can be.
 *
 * Returns: as weft_http_write; -ENODATA the file has ended before that: the answer must be cut
 * Context: fiber
 * Blocks:  the fiber, while the client does not read, or the file is read
 * Owns:    nothing
 */
WEFT_API int weft_http_write_file(weft_exchange *x, int file, int64_t offset, uint64_t count);

/**
 * Sends what was collected.
 *
 * Returns: as weft_http_write
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_flush(weft_exchange *x);

/**
 * Ends the answer that weft_http_begin has begun. A handler that returns 0 need not call it.
 *
 * Returns: as weft_http_write; -ENODATA fewer bytes than the Content-Length were written: the connection is not kept
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_end(weft_exchange *x);

/**
 * Begins a stream of server-sent events: 200, text/event-stream, not cached. It opens the exchange's scope
 * (weft_http_scope), so the handler can tell by weft_stopping() and weft_stop_event() that serving ends. While
 * a handler waits for its next event, no limit counts; a client that is gone is noticed at a hangup, or at the next
 * event or comment. So send a comment every 15 s or so.
 *
 * Returns: as weft_http_begin; -ENOMEM no scope
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_events(weft_exchange *x);

/**
 * Sends an event at once. `name` may be NULL. Each line of `data` becomes a line of the event. With both NULL it sends a
 * comment, which clients ignore. For other fields of the event ("id: 7\n") call weft_http_write before.
 *
 * Returns: as weft_http_write; -EINVAL also for a name with a line break
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_event(weft_exchange *x, const char *name, const char *data);

/**
 * The status of the answer.
 *
 * Returns: the status; 0 if the answer has not begun
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_http_status(weft_exchange *x);

/**
 * How many bytes of body the answer has so far; as long as they are collected they count too. Chunks' sizes do not.
 *
 * Returns: the bytes
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API uint64_t weft_http_sent(weft_exchange *x);

/**
 * The reason phrase of a status: "Not Found" for 404.
 *
 * Returns: a string that lives for ever; "" for a status that is not known
 * Context: any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_reason(int status);

/**
 * The content type of a file by its name: "text/html; charset=utf-8" for "a.html".
 *
 * Returns: a string that lives for ever; "application/octet-stream" if the name's extension is not known
 * Context: any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_type(const char *name);

WEFT_END_DECLS

#endif
