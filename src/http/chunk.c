/*
 * http/chunk.c: the strict decoder of a chunked body, as a state machine that takes one byte of the frame at a time. It
 * skips data as a whole. See chunk.h for what it refuses.
 *
 *      SIZE ─;─▶ extension ─CR─▶ SIZE_LF ──▶ DATA ──▶ DATA_CR ─▶ DATA_LF ─▶ SIZE
 *        └──────────CR──────────────▲ └─size 0─▶ LINE ─▶ NAME ─:─▶ VALUE ─CR─▶ VALUE_LF ─▶ LINE ─CR─▶ END_LF
 */
#include "http/chunk.h"

#include <stdbool.h>
#include <string.h>

#include "http/field.h"

enum state {
    SIZE,
    SIZE_LF,
    EXT_NAME_BEGIN, /* behind a ';' */
    EXT_NAME,
    EXT_VALUE_BEGIN, /* behind a '=' */
    EXT_VALUE,       /* a token */
    EXT_QUOTED,      /* in quotes */
    EXT_ESCAPED,     /* behind a backslash in quotes */
    EXT_QUOTED_END,  /* behind the closing quote */
    DATA,
    DATA_CR,
    DATA_LF,
    LINE, /* the beginning of a line of the trailer */
    NAME,
    VALUE,
    VALUE_LF,
    END_LF,
    ENDED,
    REFUSED,
};

enum { DIGITS_MOST = 16 };

/* Names that a trailer must not have: these fields say how long the message is, or where it goes. */
static const char refused_names[][18] = {"content-length", "transfer-encoding", "host"};

enum { REFUSED_NAMES = sizeof refused_names / sizeof refused_names[0], ALL_REFUSED = (1 << REFUSED_NAMES) - 1 };

static unsigned hex_value(char digit)
{
    return (unsigned)(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
}

static enum state take_size(struct wh_chunks *c, char byte)
{
    if (wh_is(byte, WH_HEX)) {
        c->left = c->left << 4 | hex_value(byte);
        return ++c->digits <= DIGITS_MOST ? SIZE : REFUSED;
    }
    if (c->digits == 0 || c->left > INT64_MAX)
        return REFUSED;
    return byte == '\r' ? SIZE_LF : byte == ';' ? EXT_NAME_BEGIN : REFUSED;
}

/* The byte after an extension's name or value. */
static enum state take_ext_end(char byte)
{
    return byte == '\r' ? SIZE_LF : byte == ';' ? EXT_NAME_BEGIN : REFUSED;
}

static enum state take_extension(enum state state, char byte)
{
    switch (state) {
    case EXT_NAME_BEGIN:
        return wh_is(byte, WH_TOKEN) ? EXT_NAME : REFUSED;
    case EXT_NAME:
        return wh_is(byte, WH_TOKEN) ? EXT_NAME : byte == '=' ? EXT_VALUE_BEGIN : take_ext_end(byte);
    case EXT_VALUE_BEGIN:
        return byte == '"' ? EXT_QUOTED : wh_is(byte, WH_TOKEN) ? EXT_VALUE : REFUSED;
    case EXT_VALUE:
        return wh_is(byte, WH_TOKEN) ? EXT_VALUE : take_ext_end(byte);
    case EXT_QUOTED:
        return byte == '"' ? EXT_QUOTED_END : byte == '\\' ? EXT_ESCAPED : wh_is(byte, WH_VALUE) ? EXT_QUOTED : REFUSED;
    case EXT_ESCAPED:
        return wh_is(byte, WH_VALUE) ? EXT_QUOTED : REFUSED;
    default:
        return take_ext_end(byte);
    }
}

/* The line feed behind a size. Data is next; after size 0, the trailer. */
static enum state take_size_end(struct wh_chunks *c, char byte)
{
    if (byte != '\n')
        return REFUSED;
    c->frame = 0;
    c->digits = 0;
    return c->left ? DATA : LINE;
}

/* Keeps the bits of the refused names that have this byte next. */
static void match_name(struct wh_chunks *c, char byte)
{
    if (byte >= 'A' && byte <= 'Z')
        byte |= 0x20;
    for (unsigned i = 0; i < REFUSED_NAMES && c->names; i++) {
        if (refused_names[i][c->name_size] != byte)
            c->names &= (uint8_t) ~(1u << i);
    }
    if (c->names)
        c->name_size++;
}

/* True if the name that ends here is a refused name: it begins like that name, and is as long. */
static bool is_refused_name(const struct wh_chunks *c)
{
    for (unsigned i = 0; i < REFUSED_NAMES; i++) {
        if (c->names & 1u << i && refused_names[i][c->name_size] == 0)
            return true;
    }
    return false;
}

static enum state take_trailer(struct wh_chunks *c, enum state state, char byte)
{
    switch (state) {
    case LINE:
        c->name_size = 0;
        c->names = ALL_REFUSED;
        if (byte == '\r')
            return END_LF;
        break;
    case NAME:
        if (byte == ':')
            return is_refused_name(c) ? REFUSED : VALUE;
        break;
    case VALUE:
        return byte == '\r' ? VALUE_LF : wh_is(byte, WH_VALUE) ? VALUE : REFUSED;
    case VALUE_LF:
        return byte == '\n' ? LINE : REFUSED;
    default: /* END_LF */
        return byte == '\n' ? ENDED : REFUSED;
    }
    match_name(c, byte);
    return wh_is(byte, WH_TOKEN) ? NAME : REFUSED;
}

/* Takes one byte of the frame: checks the limits and the grammar. */
static enum state take_byte(struct wh_chunks *c, char byte)
{
    enum state state = c->state;
    if (state == DATA_CR)
        return byte == '\r' ? DATA_LF : REFUSED;
    if (state == DATA_LF)
        return byte == '\n' ? SIZE : REFUSED;
    bool is_size_line = state < DATA;
    if (++c->frame > (is_size_line ? WH_CHUNK_LINE_MOST : WH_TRAILER_MOST))
        return REFUSED;
    if (state == SIZE)
        return take_size(c, byte);
    if (state == SIZE_LF)
        return take_size_end(c, byte);
    if (is_size_line)
        return ++c->extensions <= WH_EXTENSIONS_MOST ? take_extension(state, byte) : REFUSED;
    return take_trailer(c, state, byte);
}

/* Takes as much of the chunk's data as there is. */
static size_t take_data(struct wh_chunks *c, size_t size, size_t room)
{
    size_t n = size < room ? size : room;
    if (n > c->left)
        n = (size_t)c->left;
    c->left -= n;
    if (c->left == 0)
        c->state = DATA_CR;
    return n;
}

ptrdiff_t wh_chunks_take(struct wh_chunks *c, const char *bytes, size_t size, size_t room, const char **data,
                         size_t *used)
{
    for (size_t i = 0; i < size; i++) {
        if (c->state == DATA) {
            size_t n = take_data(c, size - i, room);
            *data = bytes + i;
            *used = i + n;
            return (ptrdiff_t)n;
        }
        c->state = take_byte(c, bytes[i]);
        if (c->state >= ENDED) {
            *used = i + 1;
            return c->state == ENDED ? -1 : -400;
        }
    }
    *used = size;
    return 0;
}
