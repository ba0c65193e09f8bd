/*
 * http/field.h: the classes of bytes in a head (RFC 9110, section 5; RFC 3986), and checks of whole names and values.
 * The parser, the chunk decoder and the calls that add fields to an answer use them. Pure functions, for any thread.
 */
#ifndef WH_HTTP_FIELD_H
#define WH_HTTP_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Classes; a byte may be in several. */
enum {
    WH_TOKEN = 1,      /* tchar: names of fields and methods */
    WH_VALUE = 2,      /* a field's value: visible, space, TAB, and 0x80 to 0xff */
    WH_PATH_BYTE = 4,  /* a target before its '?': visible ASCII without " # < > ? and backslash */
    WH_QUERY_BYTE = 8, /* a target behind its '?': visible ASCII without " # < > */
    WH_HOST_BYTE = 16, /* reg-name without percent-encoding */
    WH_DIGIT = 32,     /* 0 to 9 */
    WH_HEX = 64,       /* 0 to 9, and a to f in either case */
};

extern const uint8_t wh_classes[256];

static inline bool wh_is(char byte, unsigned classes)
{
    return (wh_classes[(uint8_t)byte] & classes) != 0;
}

/* The first byte from p on that is not of the class, or `end`. */
static inline const char *wh_skip(const char *p, const char *end, unsigned classes)
{
    while (p < end && wh_is(*p, classes))
        p++;
    return p;
}

/* True for a name that a field may have: at least one byte, tchar only. */
bool wh_is_token(const char *text, size_t size);

/* True for a value that a field may have: no control characters but TAB, and no white space around it. It may be empty. */
bool wh_is_field_value(const char *text, size_t size);

static inline uint16_t wh_load2(const char *p)
{
    uint16_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static inline uint32_t wh_load4(const char *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static inline uint64_t wh_load8(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Compares a text with a word without regard to case. `lower` is the word in lower case, at least 4 letters, digits or
 * '-'. The comparison sets 0x20 in each byte of `text`. That would turn control characters into digits and '-', so
 * `text` must not have control characters. */
static inline bool wh_is_word(const char *text, size_t size, const char *lower, size_t lower_size)
{
    if (size != lower_size)
        return false;
    if (lower_size < 8) {
        size_t last = lower_size - 4;
        return (wh_load4(text) | 0x20202020) == wh_load4(lower) &&
               (wh_load4(text + last) | 0x20202020) == wh_load4(lower + last);
    }
    for (size_t i = 0; i < lower_size; i += 8) {
        size_t at = i + 8 <= lower_size ? i : lower_size - 8;
        if ((wh_load8(text + at) | 0x2020202020202020) != wh_load8(lower + at))
            return false;
    }
    return true;
}

#define WH_IS_WORD(text, size, literal) wh_is_word(text, size, literal, sizeof(literal) - 1)

#endif
