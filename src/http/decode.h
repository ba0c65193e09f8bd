/*
 * http/decode.h: decodes the strings of a request: percent-encoding, queries and forms, cookies. Pure functions, for
 * any thread: they allocate nothing, and write only to `out`.
 */
#ifndef WH_HTTP_DECODE_H
#define WH_HTTP_DECODE_H

#include <stdbool.h>
#include <stddef.h>

/* Decodes each %XX once (and each '+' to a space, if `plus`). `out` has room for `size` bytes, and may be `text`
 * itself. Returns the decoded size, or -1: a '%' without two hex digits, or %00. */
ptrdiff_t wh_decode(char *out, const char *text, size_t size, bool plus);

/*
 * Finds the first pair of a query or form whose decoded name is `name`. Writes its decoded value, with a zero byte, to
 * `out`, which has room for size + 1 bytes. Returns false if there is no such pair. A name or value with a malformed
 * '%' is not decoded.
 */
bool wh_query_find(const char *text, size_t size, const char *name, char *out);

/* The same for the value of a Cookie field. Values are not decoded, but quotes around them are removed. */
bool wh_cookie_find(const char *text, size_t size, const char *name, char *out);

#endif
