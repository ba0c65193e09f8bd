/*
 * net/served.h: one connection of weft_serve, from its start to its end. net/serve.c accepts, and says when serving
 * ends.
 *
 * The server's state, struct server, lives until every connection is over; net/serve.c waits for that.
 */
#ifndef WF_NET_SERVED_H
#define WF_NET_SERVED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weft/net.h>
#include <weft/sync.h>

#include "io/fd.h"

/* What a descriptor number refers to at this moment, whoever has opened it. */
struct identity {
    uint64_t inode;
    uint32_t device; /* WF_NO_DEVICE: the number is not open, or the kernel does not tell */
};

#define WF_NO_DEVICE UINT32_MAX

/* A connection. There is one for each that waits: with malloc's own word it takes 64 bytes. */
struct served {
    struct server *server;
    struct served *next, *prev; /* guarded by: server->lock */
    weft_fiber *fiber;          /* guarded by: server->lock: NULL until it is known */
    uint64_t inode;             /* const: of the socket, with `device` */
    uint32_t device;            /* const */
    int fd;                     /* const */
    uint32_t generation;        /* const: of fd */
    uint16_t worker;            /* const: the worker that it is counted for */
    bool is_refused;            /* const: it is above max_conns */
    uint8_t peer_size;          /* const: the size of `peer`; 0: the address is not kept */
    char peer[];                /* const: the peer's address */
};

_Static_assert(sizeof(struct served) == 56, "a small connection");

struct server {
    struct wf_fd_ref listener; /* const */
    weft_serve_fn *handler;    /* const */
    weft_serve_fn *refuse;     /* const: NULL: no connection is refused */
    void *arg;                 /* const */
    uint32_t forks;            /* const: wf_forks when it was made */
    weft_stacks *shared;       /* const */
    size_t stack;              /* const */
    bool peers;                /* const: keep their addresses */
    unsigned workers;          /* const */
    weft_mutex lock;
    struct served *first; /* guarded by: lock */
    bool cancelled;       /* handlers are to end. guarded by: lock */
    weft_waitgroup live;  /* handlers */
    unsigned max;         /* const: so many connections at a time; 0: no limit */
    unsigned count;       /* connections. atomic */
    unsigned refusals;    /* under way. atomic */
    unsigned conns[];     /* of each worker. atomic */
};

/* A connection that was accepted. */
struct accepted {
    int fd;
    socklen_t size; /* of its peer's address; 0: the server does not keep addresses */
    struct sockaddr_storage peer;
};

/* Makes the record of a connection, which is in no list yet; NULL: no memory. */
struct served *wf_served_new(struct server *s, const struct accepted *a, unsigned worker, bool is_refused);

/* Counts a connection more (1), or one less (-1). */
void wf_served_count(const struct served *c, int change);

/* What its fiber runs: the handler, and the end. */
weft_fn wf_serve_one;

#endif
