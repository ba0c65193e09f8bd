/*
 * http/chunk.h: the strict decoder of a chunked body (RFC 9112, section 7.1). It takes the frame out of a buffer, in
 * place, and keeps its state between calls. Trailer fields are checked as fields are, and thrown away.
 */
#ifndef WH_HTTP_CHUNK_H
#define WH_HTTP_CHUNK_H

#include <stddef.h>
#include <stdint.h>

struct wh_chunks {
    uint64_t left;      /* bytes of the current chunk that have not come */
    uint32_t frame;     /* bytes of the current size line, or of the trailer, so far */
    uint8_t state;      /* private to chunk.c; 0 at the beginning */
    uint8_t digits;     /* of the current size */
};

enum { WH_CHUNK_LINE_MOST = 256, WH_TRAILER_MOST = 8192 };

/*
 * Decodes `size` bytes that have come. *used: how many of them it has looked at; the rest belongs to what follows the
 * body. At most `room` bytes of data are found in one call: they begin at *data, and may be fewer than have come, so call again.
 *
 * Returns the number of data bytes found at *data (0: none in what was looked at, and more bytes are needed),
 * -1: the body has ended (*used counts its last byte; *data is not set), or -400: malformed.
 */
ptrdiff_t wh_chunks_take(struct wh_chunks *c, const char *bytes, size_t size, size_t room, const char **data, size_t *used);

#endif
