/*
 * weft/http.h: an HTTP/1.1 server. It is the interface of libweft-http, which uses only the other public headers.
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
 * belongs to the fiber that runs the handler: other fibers and threads must not use it.
 *
 * Phases of a connection:
 *
 *      IDLE ──first byte──▶ HEAD ──complete──▶ HANDLE ──returned──▶ FINISH ──keep-alive──▶ IDLE
 *                            │ refused                                │ close    │ cut
 *                            └───────▶ answer 4xx/5xx ─▶ LINGER ◀─────┘          └──▶ closed without LINGER
 *
 * weft_http_opts has a limit of time for IDLE, for HEAD, for reading the body and for writing the answer. A handler
 * itself may take any time. In LINGER the server gives the client up to 2 s to read its last answer.
 *
 * Handlers. A handler answers by weft_http_reply, or by weft_http_begin, weft_http_write and weft_http_end. It returns
 * 0, or a negative errno. If a handler fails before its answer has begun, the server answers for it:
 *
 *      -ENOENT            404        -EFBIG             413
 *      -EACCES, -EPERM    403        -EAGAIN, -EBUSY    503
 *      -EINVAL, -EBADMSG  400        -ETIME             504
 *      -ETIMEDOUT         408        any other code     500
 *      -EOPNOTSUPP        405, with the path's other methods in Allow
 *      -ECONNRESET        400 if the client has ended inside the body (weft_http_read), else 500
 *
 * If a handler fails between the beginning and the end of its answer, the server cuts the connection, so that the
 * client can tell that the answer is not complete. A failure after the end of the answer changes nothing for the
 * client.
 *
 * If a handler returns 0 without an answer, the server answers 204. If a handler returns 0 after weft_http_begin and
 * without weft_http_end, the server ends the answer. A positive result counts as -ERANGE: a handler that returns 404
 * answers 500. To answer with a status, call weft_http_reply, or return an errno as above. The server does not print
 * failures; middleware sees them as the result of weft_http_next.
 *
 * Handlers run in fibers: while a handler waits in a call of this library, or in a hooked call, other connections run.
 * A handler runs in the fiber of its connection. If the client hangs up, the server cancels that fiber, and the
 * handler's waits return -ECANCELED. A half-close is not a hangup (see weft_cancel_on_hangup). weft_http_scope gives
 * the handler a scope for children, and for clean-up handlers. If a handler ends its fiber (pthread_exit under
 * libweft-hook), the server cuts the answer unless it is complete.
 *
 * The same fiber serves the next request of its connection, which may be another user's. So a value that a handler has
 * set by weft_local_set is still set then, and a clean-up handler (weft_defer) that was added outside of a scope runs
 * only when the connection ends.
 *
 * Handlers of different connections run at the same time, on all workers of the scheduler. Protect the data that they
 * share by a lock (weft/sync.h) or a channel, whose waits block only the fiber.
 *
 * Strings that these calls return belong to the exchange, and live until the handler and all middleware have returned.
 *
 * Parsing is strict, because servers that disagree about a request can be tricked into serving one client's request to
 * another. The server refuses malformed requests, most of them with 400, also where RFC 9112 allows it to accept them:
 * a bare LF, folded fields, a Content-Length beside a Transfer-Encoding and so on (docs/http-conformance.md lists all).
 *
 * Failure: a call that fails returns a negative errno, and leaves its outputs untouched. Do not read errno after it.
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

/** A handler: answers a request. Returns 0 once it has answered, or a negative errno (see above), never a status. */
typedef int weft_handler(weft_exchange *x, void *arg);

/** What the server does with a connection above max_conns or max_per_address. */
enum {
    WEFT_HTTP_BUSY_503 = 0,   /* answers 503 with Retry-After, gives the client up to 2 s to read it, and closes. If the
                               * server refuses many clients at a time, it closes some at once or without an answer */
    WEFT_HTTP_BUSY_CLOSE = 1, /* closes without an answer */
};

/**
 * Limits, and how connections run. NULL, or a zero field, means the default. No default is infinite. You may set a
 * limit as large as its type allows, unless its comment gives a maximum.
 */
typedef struct weft_http_opts {
    size_t size;              /* sizeof(weft_http_opts); 0 means the first release's size */
    const char *server;       /* the value of the Server field, at most 256 bytes; weft_http_new copies it. Default:
                               * no Server field */
    size_t head_bytes;        /* the most bytes of a head (request line and fields), else 431, or 414 if the request
                               * line alone is too long; default 16 KiB, at least 256, at most 1 MiB */
    unsigned head_fields;     /* the most fields of a head, else 431; default 100, at most 10,000 */
    uint64_t body_bytes;      /* the most bytes of a body that a handler reads, else weft_http_read fails with -EFBIG
                               * (413); default 1 MiB. See weft_http_allow_body */
    uint64_t drain_bytes;     /* the most bytes of an unread body that the server reads and discards to keep the
                               * connection; default 256 KiB */
    weft_span idle_time;      /* how long a connection may wait for its next request; default 60 s */
    weft_span head_time;      /* from the first byte of a head to its last, else 408; default 10 s */
    uint64_t body_rate;       /* bytes per second that a body must reach on average after the first 5 s, else the read
                               * fails with -ETIMEDOUT. Only the time that reads wait counts. Default 256 */
    weft_span write_time;     /* how long the client may take to read each 64 KiB of an answer; default 30 s */
    weft_span grace;          /* how long handlers may go on when serving ends, before the server cancels them;
                               * default 10 s, negative: not at all */
    unsigned max_conns;       /* the most connections at a time of each call of weft_http_serve; default 16,384 */
    unsigned max_per_address; /* the most connections of the whole server from one IPv4 address or IPv6 /64; default
                               * 4,096. Connections of UNIX sockets do not count */
    int busy;                 /* what happens above these two limits: WEFT_HTTP_BUSY_503 or WEFT_HTTP_BUSY_CLOSE */
    size_t stack;             /* bytes of a connection's stack; 0: the scheduler's default. 0 with `shared` */
    weft_stacks *shared;      /* connections run on these shared stacks (see weft_serve_opts). Handlers then obey the
                               * rule of weft/stack.h about pointers to locals. NULL: private stacks */
    weft_sched *on;           /* the scheduler that runs the connections; NULL: the one of the fiber that calls
                               * weft_http_serve. With `on`, accepting does not wait behind handlers */
} weft_http_opts;

/* ---- the server --------------------------------------------------------------------------------------------- */

/**
 * Makes a server.
 *
 * Returns: 0, -EINVAL `out` is NULL, or an option is out of range, -ENOMEM
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
 * Blocks:  the fiber | the thread, for some seconds at most, while the file of weft_http_log does not take its last
 *          lines
 * Owns:    takes h on 0
 */
WEFT_API int weft_http_free(weft_http *h);

/**
 * Adds a route. A pattern is "METHOD /path", or "/path" for all methods. Methods are case-sensitive: "get" is not GET.
 * Write a literal segment decoded, without '%'. A segment "{name}" matches one segment that is not empty. A last
 * segment "{name...}" matches the rest of the path with its slashes; the rest may be empty. A pattern may have 16
 * names, all different.
 *
 * If several patterns match, the server compares them at the first segment in which they differ: a literal wins over
 * "{name}", and "{name}" wins over "{name...}". So "/notes/new" wins over "/notes/{id}", whichever was added first.
 *
 * The server decodes each segment of the request's path once (%41 becomes A), and then compares it. A %2F stays part of
 * its segment: "/notes/a%2Fb" matches "/notes/{id}", and the id is "a/b". The server refuses with 400 a path that has
 * %00, or a segment "." or ".." in any encoding. It also refuses a %2F in the part that "{name...}" matches, because a
 * handler could not tell it from a slash.
 *
 * If no route has the path, the server answers 404. If routes have the path and none of them has the method, it answers
 * 405 with Allow. If no route of the server takes the method, and it is neither PATCH nor a method of RFC 9110, the
 * server answers 501. CONNECT always gets 501: the server makes no tunnels. A GET route also answers HEAD (the server
 * leaves out the body). The server answers OPTIONS if no route does.
 *
 * Returns: 0, -EINVAL h or fn is NULL, the pattern is malformed, or its method would be the 65th, -EEXIST there is such
 *          a route, -EBUSY the server is serving, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; the pattern is copied, `arg` must live as long as h
 */
WEFT_API int weft_http_route(weft_http *h, const char *pattern, weft_handler *fn, void *arg);

/**
 * Adds middleware: a handler that runs before the handlers of routes, and calls weft_http_next to go on. Middleware
 * runs in the order in which it was added. It runs for every request that was parsed, also for those that end with 404
 * or 405.
 *
 * Returns: 0, -EINVAL h or fn is NULL, -EBUSY the server is serving, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; `arg` must live as long as h
 */
WEFT_API int weft_http_use(weft_http *h, weft_handler *fn, void *arg);

/**
 * In middleware: runs the next middleware, or the route's handler. If the handler fails before its answer has begun,
 * this call answers for it. That answer has the fields that were added before this call, and none that the handler has
 * added. So after this call weft_http_status tells the status that the client gets, unless the answer was cut.
 *
 * A call runs nothing once the handler has begun, or once an earlier call has returned: then the answer is complete.
 *
 * Returns: what the handler has returned (-ERANGE for a positive value); if there is no handler, because the server
 *          itself answers (404 and so on), as weft_http_reply; -EALREADY the call runs nothing
 * Context: fiber
 * Blocks:  as the handler does
 * Owns:    nothing
 */
WEFT_API int weft_http_next(weft_exchange *x);

/**
 * Middleware that gives each request an id, and sends it in the answer as X-Request-Id. If the request has an
 * X-Request-Id of 1 to 64 letters, digits, '-', '_' and '.', that is the id. weft_http_id returns it. `arg` is not
 * used.
 *
 * Returns: as weft_http_next
 * Context: fiber
 * Blocks:  as the handler does
 * Owns:    nothing
 */
WEFT_API int weft_http_give_id(weft_exchange *x, void *arg);

/**
 * Writes an access log to a file: a line in the common log format for each request, also for malformed requests ("-")
 * and for those that middleware has answered, but not for connections that were refused at a limit. For an answer that
 * was cut, the line has the status and the bytes of body that the handler gave; the client may have got fewer
 * (weft_http_figures counts cuts).
 *
 * A byte of the request that could break a line or confuse a terminal is written as \xHH. A quote or backslash is
 * written after a backslash. A line has at most 2 KiB: if the request line is longer, it is cut, and "..." follows.
 *
 * The server collects lines, and writes them at least once a second, when serving ends, and when it is freed. The file
 * may be a pipe or a terminal. A pipe without a reader raises SIGPIPE, as write(2) does. If the file cannot take lines
 * as fast as they come, the server drops lines, and writes a line that says how many.
 *
 * Returns: 0, -EINVAL h is NULL, or fd is negative, -EALREADY there is a log, -EBUSY the server is serving, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; fd must stay open until h is freed
 */
WEFT_API int weft_http_log(weft_http *h, int fd);

/** How files are served. NULL, or a zero field, means the default. */
typedef struct weft_files_opts {
    size_t size;       /* sizeof(weft_files_opts); 0 means the first release's size */
    const char *index; /* the name of the file that answers for its folder; copied. Default: "index.html" */
    bool list;         /* list a folder that has no index (see weft_http_files); default: 404 */
    bool hidden;       /* serve files and folders whose names begin with a dot; default: 404 */
    int links;         /* which symbolic links are followed: WEFT_FILES_LINKS_BENEATH, ... */
    weft_span max_age; /* max-age in Cache-Control; 0: no Cache-Control field */
} weft_files_opts;

/** Which symbolic links are followed: weft_files_opts.links. The others are answered by 404. */
enum {
    WEFT_FILES_LINKS_BENEATH = 0, /* links that stay in the folder */
    WEFT_FILES_NO_LINKS = 1,      /* no links */
    WEFT_FILES_ALL_LINKS = 2,     /* all links, wherever they lead */
};

/**
 * Serves the files below a folder under a prefix ("/static/", or "/"). It answers GET and HEAD, single ranges, and
 * conditions on ETag and Last-Modified. A client that accepts gzip gets "name.gz" for "name", if there is such a file
 * and it is not older. No path leads out of the folder in any encoding. Only regular files and folders are served.
 *
 * The listing of a folder (opts.list) has at most 10,000 entries. While listings of 64 MiB wait for slow clients, a
 * listing above 64 KiB gets 503.
 *
 * Returns: 0, -EINVAL h, prefix or dir is NULL, the prefix is not a valid path of a route or does not begin and end
 *          with a slash, or an option is out of range, -EEXIST the prefix is taken, -EBUSY the server is serving,
 *          -ENOMEM, or the errno of opening the folder: -ENOENT, -ENOTDIR, -EACCES, ...
 * Context: fiber | any thread
 * Blocks:  the thread, while it opens the folder
 * Owns:    nothing; the folder stays open until h is freed
 */
WEFT_API int weft_http_files(weft_http *h, const char *prefix, const char *dir, const weft_files_opts *opts);

/**
 * Serves the connections of a listener (weft_listen), until the deadline passes, the calling fiber is cancelled,
 * weft_http_stop is called, or weft_close closes the listener. One server may serve several listeners, each from a
 * fiber of its own. All connections then run on one scheduler.
 *
 * Serving ends gracefully. The server accepts no more connections, and closes idle ones. On each other connection it
 * answers the request that has begun to come, says "Connection: close" in that answer, and ignores pipelined requests
 * behind it. For handlers that have used weft_http_scope or weft_http_events, weft_stopping() becomes true. After
 * opts.grace the server cancels the handlers that have not returned. This call returns when all handlers have returned.
 *
 * The call sets TCP_NODELAY on the listener, and connections inherit it.
 *
 * Returns: 0 the deadline has passed, weft_http_stop was called, or weft_close has closed the listener, -ECANCELED,
 *          -ENXIO not in a fiber, -EINVAL h is NULL, -ESHUTDOWN weft_http_stop was called before, or the scheduler `on`
 *          has stopped, -EBUSY another call serves with this server on another scheduler, -EBADF, -ENOMEM and other
 *          negative errnos as weft_serve
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    nothing; the listener stays open
 */
WEFT_API int weft_http_serve(weft_http *h, int listener, weft_time deadline);

/**
 * Makes all calls of weft_http_serve end gracefully, and does not wait for them. Later calls of weft_http_serve return
 * -ESHUTDOWN: the server cannot serve again. A handler may call weft_http_stop.
 *
 * Returns: 0, -EINVAL h is NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; h must not be freed meanwhile
 */
WEFT_API int weft_http_stop(weft_http *h);

/**
 * How many counts of latencies there are. Count n is for latencies from 2^(n-1) us to below 2^n us, count 0 for those
 * below 1 us. The last count is also for all that are longer.
 */
enum { WEFT_HTTP_LATENCIES = 32 };

/** Figures of a server. */
typedef struct weft_http_figures {
    size_t size;                             /* set it to sizeof(weft_http_figures) */
    unsigned connections;                    /* open now */
    unsigned idle;                           /* of these, the ones that wait for a request and have no buffer */
    unsigned streams;                        /* of these, event streams */
    uint64_t accepted;                       /* connections so far, without those that were closed because 64 others
                                              * were being refused */
    uint64_t refused;                        /* of these, the ones above a limit */
    uint64_t requests;                       /* requests whose heads were complete, or were refused */
    uint64_t status[6];                      /* complete answers by the first digit of their status: status[2] counts
                                              * 2xx. A 100 Continue, and the 503 of a refused connection, do not
                                              * count */
    uint64_t cut;                            /* answers that were not completed */
    uint64_t bytes_in;                       /* bytes read from connections */
    uint64_t bytes_out;                      /* bytes written to connections */
    uint64_t latencies[WEFT_HTTP_LATENCIES]; /* from the read of a head's last byte to the write of the answer */
} weft_http_figures;

/**
 * Reads the figures. It reads them one after another while the server goes on, so they may not fit together exactly.
 *
 * Returns: 0, -EINVAL h or out is NULL, or out->size is 0
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_http_stats(const weft_http *h, weft_http_figures *out);

/* ---- the request -------------------------------------------------------------------------------------------- */

/**
 * The method as the client sent it: "GET".
 *
 * Returns: the method
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_method(weft_exchange *x);

/**
 * The path as the client sent it: not decoded, without the query. "*" for OPTIONS *.
 *
 * Returns: the path; "/" if the target has none
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_path(weft_exchange *x);

/**
 * The whole query as the client sent it: not decoded, without the question mark.
 *
 * Returns: the query; NULL if the target has none
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_query_text(weft_exchange *x);

/**
 * The authority of the target, if the target has one; else the value of Host: "example.org:8080".
 *
 * Returns: the host; "" if it is empty, if an HTTP/1.0 request has none, or if there is no memory
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
 * The part of the path that a pattern's {name} or {name...} has matched, decoded.
 *
 * Returns: the value; NULL if the route has no such parameter
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_param(weft_exchange *x, const char *name);

/**
 * The first value of a name in the query, decoded: a plus is a space. A value with a malformed '%' stays as it was
 * sent.
 *
 * Returns: the value, "" if the name has none; NULL if the query does not have the name, or if there is no memory
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_query(weft_exchange *x, const char *name);

/**
 * The value of the first field with this name. The case of the name does not matter.
 *
 * Returns: the value, "" if it is empty; NULL if there is no such field
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_header(weft_exchange *x, const char *name);

/**
 * The name and value of field number i, counted from 0 in the order of the request. The name is as the client sent it.
 *
 * Returns: 0, -ENOENT the request has i fields or fewer
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_http_header_at(weft_exchange *x, unsigned i, const char **name, const char **value);

/**
 * The value of the first cookie with this name. It is not decoded; quotes around it are removed.
 *
 * Returns: the value; NULL if there is no such cookie, or if there is no memory
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
 * The request's id, from weft_http_give_id.
 *
 * Returns: the id; NULL without that middleware
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_id(weft_exchange *x);

/**
 * The length of the body in bytes.
 *
 * Returns: the length; 0 if the request has no body; -1 if the length is not known (chunked)
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int64_t weft_http_body_length(weft_exchange *x);

/**
 * Sets the limit for the body of this request, instead of opts.body_bytes. Call it before the first read.
 *
 * Returns: nothing
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API void weft_http_allow_body(weft_exchange *x, uint64_t bytes);

/**
 * Reads a part of the body. The first read answers "Expect: 100-continue". While the handler does not read, the client
 * can send only as much as the buffers of the sockets hold; then it has to wait.
 *
 * Returns: the number of bytes read, 0 at the end of the body, -EAGAIN nothing has come and the deadline is WEFT_NOW
 *          (this is no failure: read again), -EFBIG the body is longer than allowed, -EBADMSG a chunk is malformed,
 *          -ECONNRESET the client has ended inside the body, -ETIMEDOUT the deadline has passed, or the client is slower
 *          than opts.body_rate, -ECANCELED, or another negative errno. After a failure (a deadline that has passed is
 *          one) all further reads of this body return the same errno, and the connection is not kept
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    nothing; the buffer must not lie on the shared stack of another fiber
 */
WEFT_API ptrdiff_t weft_http_read(weft_exchange *x, void *buffer, size_t bytes, weft_time deadline);

/**
 * Reads the whole body into memory of the exchange, and puts a zero byte behind it. A body can be read only once: a
 * second call, or a call after weft_http_read, gets only the rest, which may be empty. So do not use WEFT_NOW: if only
 * a part of the body has come, that part is lost, and the body has failed.
 *
 * Returns: 0, -ENOMEM, or as weft_http_read; with WEFT_NOW -EAGAIN if nothing has come, -ETIMEDOUT if only a part has
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    nothing
 */
WEFT_API int weft_http_read_all(weft_exchange *x, const char **body, size_t *bytes, weft_time deadline);

/**
 * Reads a body of the type application/x-www-form-urlencoded, so that weft_http_form can return its values. Call it
 * instead of weft_http_read_all.
 *
 * Returns: 0, -EINVAL the body is of another type, or as weft_http_read_all
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    nothing
 */
WEFT_API int weft_http_read_form(weft_exchange *x, weft_time deadline);

/**
 * The first value of a name in the form that weft_http_read_form has read, decoded.
 *
 * Returns: the value; NULL if the form does not have the name, if no form was read, or if there is no memory
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_http_form(weft_exchange *x, const char *name);

/**
 * Memory that lives until the handler and all middleware have returned.
 *
 * Returns: the memory, aligned for any type; NULL if there is none
 * Context: fiber
 * Blocks:  never
 * Owns:    the exchange owns it
 */
WEFT_API void *weft_http_alloc(weft_exchange *x, size_t bytes);

/**
 * A scope for children of the handler. The first call opens it. When the handler, or the middleware, that has opened it
 * has returned, the server cancels and joins the children that are left, and closes the scope. The scope does not lie
 * on the stack, so a handler on a shared stack may use it. A handler that also opens other scopes must call
 * weft_http_scope before it opens them, and must close them before it returns; else the program ends with a message.
 *
 * Returns: the scope; NULL if there is no memory
 * Context: fiber
 * Blocks:  never
 * Owns:    the exchange owns it
 */
WEFT_API weft_scope *weft_http_scope(weft_exchange *x);

/* ---- the answer --------------------------------------------------------------------------------------------- */

/**
 * Adds a field to the answer. Call it before weft_http_reply or weft_http_begin. The server itself writes Date,
 * Connection and Transfer-Encoding. If you add Content-Length, the body must have that length. A field that is added
 * twice is sent twice. The value is sent as it is. So if you put text of a client into a cookie (Set-Cookie), encode
 * the semicolons in it.
 *
 * Returns: 0, -EINVAL the name is not a token, or is Date, Connection, Transfer-Encoding, Keep-Alive, Upgrade or
 *          Trailer, or the value has a CR, LF, NUL or another control character but TAB, or begins or ends with white
 *          space, or it is a Content-Length that is not a number, or a second Content-Length, -EALREADY the answer has
 *          begun, -ENOMEM
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing; both strings are copied
 */
WEFT_API int weft_http_add_header(weft_exchange *x, const char *name, const char *value);

/**
 * Answers with a whole body. `type` is the value of Content-Type; NULL: no Content-Type. `body` may be NULL if `bytes`
 * is 0. The server does not send the body for HEAD, 204, 205 and 304.
 *
 * A large body is not copied, and goes out before the call returns. A small body is copied. It goes out when the
 * handler and its middleware have returned, or later with the answers to pipelined requests. So if work is left for
 * which the client need not wait, call weft_http_flush before that work, or do it in a fiber of its own (weft_go).
 *
 * Returns: 0, -EINVAL the status is outside 200 to 599, or is 426 (the server has no protocol to upgrade to), or the
 *          type is malformed, or a Content-Length was added that differs (for HEAD it may differ), -EALREADY the answer
 *          has begun, or a negative errno of the write: the connection is then not kept
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_reply(weft_exchange *x, int status, const char *type, const void *body, size_t bytes);

/**
 * Answers with a redirect: 301, 302, 303, 307 or 308.
 *
 * Returns: as weft_http_reply; -EINVAL also for another status, or if the location is not a valid value of a field
 * Context: fiber
 * Blocks:  as weft_http_reply
 * Owns:    nothing
 */
WEFT_API int weft_http_redirect(weft_exchange *x, int status, const char *location);

/**
 * Begins an answer whose body follows in parts. If no Content-Length was added, the body goes out in chunks; to an
 * HTTP/1.0 client it ends with the connection. The head goes out with the first bytes of the body, or with
 * weft_http_flush.
 *
 * Returns: 0, -EINVAL the status is not one that weft_http_reply takes, -EALREADY the answer has begun, or a negative
 *          errno of a write
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_begin(weft_exchange *x, int status);

/**
 * Writes a part of the body. The server collects small parts until its buffer is full, or the handler calls
 * weft_http_flush or weft_http_end. If the client reads slowly, the call waits. If the body is not sent, no call waits
 * for the client: a handler whose body has no end must itself end when the method is HEAD.
 *
 * Returns: 0 (also for HEAD, 204, 205 and 304, whose body is not sent), -EINVAL no answer has begun, or it has ended,
 *          -EFBIG more bytes than the Content-Length, -ETIMEDOUT the client was too slow for opts.write_time,
 *          -ECANCELED, -EPIPE or -ECONNRESET the client is gone, or another negative errno. After a failure of the
 *          write the connection is not kept
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_write(weft_exchange *x, const void *bytes, size_t count);

/**
 * Writes a part of a file as a part of the body, by sendfile(2) where possible.
 *
 * Returns: as weft_http_write; -ENODATA the file is shorter than `offset` and `count` say: the answer is then cut
 * Context: fiber
 * Blocks:  the fiber, while the client does not read, or while the file is read
 * Owns:    nothing
 */
WEFT_API int weft_http_write_file(weft_exchange *x, int file, int64_t offset, uint64_t count);

/**
 * Sends what the server has collected. After weft_http_reply or weft_http_end it sends the complete answer, so that the
 * client need not wait for a handler that goes on.
 *
 * Returns: 0, -EINVAL no answer has begun, or as weft_http_write
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_flush(weft_exchange *x);

/**
 * Ends the answer that weft_http_begin has begun. A handler that returns 0 need not call it.
 *
 * Returns: as weft_http_write; -ENODATA fewer bytes were written than the Content-Length says: the answer is then cut
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_end(weft_exchange *x);

/**
 * Begins a stream of server-sent events: an answer 200 of the type text/event-stream that is not cached. The call opens
 * the exchange's scope (weft_http_scope), so that weft_stopping() and weft_stop_event() tell the handler when serving
 * ends. No limit of time applies while the handler waits for its next event. The server notices that a client is gone
 * when the client hangs up, or when the server sends it the next event or comment. So send a comment every 15 s or so.
 *
 * An answer to HEAD has no events: the call then cancels the scope, so the handler's next event or wait returns
 * -ECANCELED, and the connection serves its next request.
 *
 * Returns: as weft_http_begin; -ENOMEM there is no memory for the scope
 * Context: fiber
 * Blocks:  the fiber, while the client does not read
 * Owns:    nothing
 */
WEFT_API int weft_http_events(weft_exchange *x);

/**
 * Sends an event at once. `name` may be NULL. Each line of `data` becomes a line of the event. If both are NULL, the
 * call sends a comment, which clients ignore. To send other fields of the event ("id: 7\n"), first call weft_http_write.
 *
 * Returns: as weft_http_write; -EINVAL also if the answer is no stream of events, or the name has a line break
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
 * How many bytes of the body were given so far, sent or still collected. The framing of chunks does not count, and
 * neither does a body that is not sent (HEAD, 204, 205, 304).
 *
 * Returns: the number of bytes
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API uint64_t weft_http_sent(weft_exchange *x);

/**
 * The reason phrase of a status: "Not Found" for 404.
 *
 * Returns: a string that lives for ever; "" if the status is not known
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
