/*
 * net/served.h: one connection of weft_serve, from its start to its end. net/serve.c accepts connections, and decides
 * when serving ends.
 *
 * The server's state, struct server, lives until every connection has ended; net/serve.c waits for that.
 */
#ifndef WF_NET_SERVED_H
#define WF_NET_SERVED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weft/net.h>
#include <weft/sync.h>

#include "io/fd.h"

/* The file that a descriptor number refers to at this moment, whichever code has opened it. */
struct identity {
    uint64_t inode;
    uint32_t device; /* WF_NO_DEVICE: the number is not open, or the kernel does not say */
};

#define WF_NO_DEVICE UINT32_MAX

/* A connection. Every idle connection has such a record: with malloc's own word it takes 64 bytes. */
struct served {
    struct server *server;
    struct served *next, *prev; /* guarded by: server->lock */
    weft_fiber *fiber;          /* guarded by: server->lock. NULL until the fiber is known */
    uint64_t inode;             /* const: the socket's identity, with `device` */
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
    weft_serve_fn *refuse;     /* const. NULL: no connection is refused */
    void *arg;                 /* const */
    uint32_t forks;            /* const: wf_forks when the server was made */
    weft_stacks *shared;       /* const */
    weft_sched *on;            /* const: where handlers run */
    size_t stack;              /* const */
    bool peers;                /* const: keep the peers' addresses */
    unsigned workers;          /* const */
    weft_mutex lock;
    struct served *first; /* guarded by: lock */
    bool cancelled;       /* handlers must end. guarded by: lock */
    weft_waitgroup live;  /* counts the handlers */
    unsigned max;         /* const: the most connections at a time; 0: no limit */
    unsigned count;       /* the number of connections. atomic */
    unsigned refusals;    /* the number of refusals in flight. atomic */
    unsigned conns[];     /* the number of connections of each worker. atomic */
};

/* A connection that was accepted. */
struct accepted {
    int fd;
    socklen_t size; /* the size of `peer`; 0: the server does not keep addresses */
    struct sockaddr_storage peer;
};

/* Makes the record of a connection, which is not in the server's list yet; NULL: no memory. */
struct served *wf_served_new(struct server *s, const struct accepted *a, unsigned worker, bool is_refused);

/* Counts one connection more (1), or one less (-1). */
void wf_served_count(const struct served *c, int change);

/* The function of a connection's fiber: runs the handler, then ends the connection. */
weft_fn wf_serve_one;

#endif
