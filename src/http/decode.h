/*
 * http/decode.h: taking apart what a request's strings hold: percent-encoding, queries and forms, cookies. Pure functions:
 * they allocate nothing, and write only where they are told to.
 */
#ifndef WH_HTTP_DECODE_H
#define WH_HTTP_DECODE_H

#include <stdbool.h>
#include <stddef.h>

/* Decodes %XX once (and '+' to a space, if `plus`) to `out`, which has room for `size` bytes and may be `text` itself.
 * Returns the decoded size, or -1: a '%' without two hex digits, or %00. */
ptrdiff_t wh_decode(char *out, const char *text, size_t size, bool plus);

/*
 * The first pair of a query or form whose decoded name is `name`. Its decoded value, with a zero byte, is written to `out`, which
 * has room for size + 1 bytes. Returns false if there is none. A pair with a malformed '%' is taken as it was sent.
 */
bool wh_query_find(const char *text, size_t size, const char *name, char *out);

/* The same for the value of a Cookie field; values are not decoded, and lose the quotes around them. */
bool wh_cookie_find(const char *text, size_t size, const char *name, char *out);

#endif
