/*
 * http/reply.h: parts of an answer, for source files that write a body without weft_http_write (events.c). For the
 * fiber of the exchange.
 */
#ifndef WH_HTTP_REPLY_H
#define WH_HTTP_REPLY_H

#include <stddef.h>

#include "http/exchange.h"

/* Begins a part of the body (a chunk, if the body goes out in chunks). The caller then puts `count` bytes by
 * wh_out_put, and calls wh_part_end. Returns as weft_http_write; 1: the body is not sent, so the caller puts
 * nothing. */
int wh_part_begin(weft_exchange *x, size_t count);
/* Ends the part of `count` bytes. */
int wh_part_end(weft_exchange *x, size_t count);

#endif
