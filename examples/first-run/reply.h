/*
 * reply.h: reads the answer to an HTTP request from a connection that has no other request in flight.
 */
#ifndef FIRST_RUN_REPLY_H
#define FIRST_RUN_REPLY_H

#include <stddef.h>

#include <weft/time.h>

enum { REPLY_HEAD = 4096 }; /* room for a head */

struct reply {
    char *room; /* the caller's; holds head and body */
    size_t size;
    int status;
    const char *body; /* in `room`; a zero byte follows */
    size_t bytes;
};

/**
 * Reads one answer, which must have a Content-Length.
 *
 * Returns: 0, -ECONNRESET the server has hung up, -EBADMSG this is no such answer, or more than one, -EMSGSIZE it does not
 *          fit into the room, or what weft_read returns
 */
int reply_read(struct reply *r, int fd, weft_time deadline);

#endif
