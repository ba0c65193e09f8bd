/*
 * http/chunk.h: the strict decoder of a chunked body (RFC 9112, section 7.1). It takes the frame out of a buffer, in
 * place, and keeps its state between calls. Extensions and trailer fields are checked, and thrown away: no code here gives
 * them a meaning.
 *
 * Refused: a size with anything but 1 to 16 hex digits, or above INT64_MAX; white space in a size line; an extension that
 * does not follow the grammar, a long one, and many; a line end that is not CR LF; trailer fields that are malformed, folded
 * or about framing and routing (Content-Length, Transfer-Encoding, Host).
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
    uint8_t name_size;   /* of the current trailer field's name; it stops counting at the longest refused name */
    uint8_t names;       /* the refused names that this name begins like, one bit each */
};

/* In bytes: of a size line with its CR LF, of the trailer with its empty line, and of all extensions of a body. */
enum { WH_CHUNK_LINE_MOST = 256, WH_TRAILER_MOST = 8192, WH_EXTENSIONS_MOST = 16384 };

/*
 * Decodes `size` bytes that have come. *used: how many of them it has looked at; the rest belongs to what follows. At most
 * `room` bytes of data are found in one call: they begin at *data, and may be fewer than have come, so call again.
 *
 * Returns the number of data bytes found at *data (0: none in what was looked at, and more bytes, or room, are needed),
 * -1: the body has ended (*used counts its last byte; *data is not set), or -400: malformed. After -1 or -400 the body must
 * not be decoded further.
 */
ptrdiff_t wh_chunks_take(struct wh_chunks *c, const char *bytes, size_t size, size_t room, const char **data,
                         size_t *used);

#endif
