/*
 * http/chunk.h: the strict decoder of a chunked body (RFC 9112, section 7.1). It finds the data in a buffer, and keeps
 * its state between calls in the caller's struct wh_chunks. It checks extensions and trailer fields, and discards them.
 *
 * It refuses: a size with anything but 1 to 16 hex digits, or above INT64_MAX; white space in a size line; extensions
 * that are malformed, too long or too many; a line end that is not CR LF; trailer fields that are malformed, folded, or
 * about framing and routing (Content-Length, Transfer-Encoding, Host).
 */
#ifndef WH_HTTP_CHUNK_H
#define WH_HTTP_CHUNK_H

#include <stddef.h>
#include <stdint.h>

/* All 0 at the beginning of a body. */
struct wh_chunks {
    uint64_t left;       /* bytes of the current chunk that have not come */
    uint32_t frame;      /* bytes of the current size line, or of the trailer, so far */
    uint32_t extensions; /* bytes of all extensions so far */
    uint8_t state;       /* private to chunk.c */
    uint8_t digits;      /* of the current size */
    uint8_t name_size;   /* bytes of the current trailer field's name, as long as it can be a refused name */
    uint8_t names;       /* a bit for each refused name that begins like the current name */
};

/* Limits in bytes: a size line with its CR LF; the trailer with its empty line; all extensions of a body together. */
enum { WH_CHUNK_LINE_MOST = 256, WH_TRAILER_MOST = 8192, WH_EXTENSIONS_MOST = 16384 };

/*
 * Decodes `size` bytes that have come. *used: how many of them it has consumed. One call finds at most `room` bytes of
 * data, which begin at *data. More data may follow in the bytes that are not consumed, so call again.
 *
 * Returns the number of data bytes at *data; 0: there was no data in the consumed bytes, and the decoder needs more
 * bytes or room; -1: the body has ended (*used counts its last byte; *data is not set); -400: malformed. After -1 or
 * -400 the caller must not decode further.
 */
ptrdiff_t wh_chunks_take(struct wh_chunks *c, const char *bytes, size_t size, size_t room, const char **data,
                         size_t *used);

#endif
