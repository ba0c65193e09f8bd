/*
 * http/target.h: the part of the parser for the forms of a request's target (RFC 9112, section 3.2), and for hosts.
 * Pure functions.
 */
#ifndef WH_HTTP_TARGET_H
#define WH_HTTP_TARGET_H

#include "http/parse.h"

static inline struct wh_slice wh_slice_of(const char *bytes, const char *from, const char *to)
{
    return (struct wh_slice){(uint32_t)(from - bytes), (uint32_t)(to - from)};
}

/* True for uri-host [ ":" port ] from p to `end`. *port: -1 if there is none, or if it is empty. */
bool wh_is_host(const char *p, const char *end, int *port);

/* Finds the parts of a target from p to `end` that is not in origin form; its path ends at path_end. Returns 1; -400 if it
 * is malformed, or its form does not fit the method; or -421 if its scheme is https, because the connection is not
 * secured (RFC 9110, 7.4). */
int wh_split_other_form(struct wh_head *head, const char *bytes, const char *p, const char *path_end, const char *end);

#endif
