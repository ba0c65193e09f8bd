/*
 * unit/http/served.h: a server of libweft-http for a test. It serves a free port of 127.0.0.1 on a scheduler of its own, so a
 * test talks to it from its own thread, through plain sockets (client.h).
 *
 *      struct served s;
 *      served_begin(&s, NULL, (struct served_route[]){{"GET /", hello}, {0}});
 *      ...
 *      served_end(&s);
 *
 * served_end ends the server gracefully, and checks that nothing is left: no connection, no fiber, no descriptor. The
 * clients of the test are closed before it.
 */
#ifndef TESTS_UNIT_HTTP_SERVED_H
#define TESTS_UNIT_HTTP_SERVED_H

#include <weft/http.h>
#include <weft/weft.h>

struct served_route {
    const char *pattern; /* NULL: the end of the routes */
    weft_handler *fn;
    void *arg;
};

struct served {
    weft_http *h;
    weft_sched *sched;
    weft_fiber *server;
    int listener;
    int port;
    int descriptors; /* of the process, before */
    weft_sched *on;  /* what weft_http_opts.on is, if it is to end with the server; a test sets it after served_make */
};

/* Makes the server and its routes, and starts to serve on one worker. */
void served_begin(struct served *s, const weft_http_opts *opts, const struct served_route *routes);

/* The same in two steps: between them a test adds what else it needs to s->h. */
void served_make(struct served *s, const weft_http_opts *opts, const struct served_route *routes);
void served_start(struct served *s, unsigned workers);
/* The same at another address ("[::1]:0", "unix:path"; NULL: as above), on a scheduler with these options. */
void served_start_with(struct served *s, const char *address, const weft_sched_opts *opts);

/* Ends it, within its grace: weft_http_serve returns 0. */
void served_end(struct served *s);

/* Its figures now. */
weft_http_figures served_figures(const struct served *s);

/* Waits until the server has `count` connections. */
void served_wait_connections(const struct served *s, unsigned count);

/* Waits until the server has read `bytes` in all: what a client has sent so far has come then. */
void served_wait_read(const struct served *s, uint64_t bytes);

/* Waits until *flag is at least `value`; another thread or fiber sets it. */
void wait_for_flag(const int *flag, int value);

/* How many descriptors this process has. */
int count_descriptors(void);

/* A handler: 200 and "hello\n". */
weft_handler says_hello;

/* A handler: 200 and the body of the request. */
weft_handler echoes;

#endif
