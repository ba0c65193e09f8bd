/*
 * http/scan.h: wide scanning. Each wh_..._end function finds the end of a run of bytes of one class: it returns the
 * first byte from p on that is not of the class, or `end`. It reads no byte at or behind `end`.
 *
 * With SSE2 the functions look at 16 bytes at a time. Without it, wh_value_end looks at 8, and the others at one. The
 * table of field.h says the class of the bytes that are left. Only runs that are long in real requests are here: names,
 * values, paths and queries. Pure functions.
 */
#ifndef WH_HTTP_SCAN_H
#define WH_HTTP_SCAN_H

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "http/field.h"

/* What a scan has found in a path. */
struct wh_path_marks {
    bool has_percent; /* a '%' */
    bool has_dot;     /* a '.' behind a '/' */
};

#ifdef __SSE2__

static inline __m128i wh_equals(__m128i bytes, char byte)
{
    return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte));
}

static inline __m128i wh_load16(const char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* A bit for each byte that a value cannot have: below 0x20 without TAB, and 0x7f. */
static inline unsigned wh_value_stops(__m128i bytes)
{
    __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
    __m128i stop = _mm_or_si128(_mm_andnot_si128(wh_equals(bytes, '\t'), control), wh_equals(bytes, 0x7f));
    return (unsigned)_mm_movemask_epi8(stop);
}

/* The same for a query: all but visible ASCII (as signed numbers, 0x80 and above are below 0x21), and " # < >. */
static inline __m128i wh_query_stops(__m128i bytes)
{
    __m128i unseen = _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(0x21)), wh_equals(bytes, 0x7f));
    __m128i quote_hash = wh_equals(_mm_or_si128(bytes, _mm_set1_epi8(1)), '#');
    __m128i less_greater = wh_equals(_mm_or_si128(bytes, _mm_set1_epi8(2)), '>');
    return _mm_or_si128(unseen, _mm_or_si128(quote_hash, less_greater));
}

/* A bit for each byte that is no letter, digit or '-'. The table checks the other bytes that names may have. */
static inline unsigned wh_name_stops(__m128i bytes)
{
    __m128i letter = _mm_sub_epi8(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), _mm_set1_epi8('a'));
    __m128i digit = _mm_sub_epi8(bytes, _mm_set1_epi8('0'));
    __m128i letters = _mm_cmpeq_epi8(_mm_min_epu8(letter, _mm_set1_epi8(25)), letter);
    __m128i digits = _mm_cmpeq_epi8(_mm_min_epu8(digit, _mm_set1_epi8(9)), digit);
    __m128i passed = _mm_or_si128(_mm_or_si128(letters, digits), wh_equals(bytes, '-'));
    return (unsigned)_mm_movemask_epi8(passed) ^ 0xffff;
}

/* A bit for each digit. */
static inline unsigned wh_digits(__m128i bytes)
{
    __m128i number = _mm_sub_epi8(bytes, _mm_set1_epi8('0'));
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(number, _mm_set1_epi8(9)), number));
}

/* A bit for each byte that is no letter, digit, '-' or '.'. The table checks the other bytes that hosts may have. */
static inline unsigned wh_host_stops(__m128i bytes)
{
    return wh_name_stops(bytes) & ~(unsigned)_mm_movemask_epi8(wh_equals(bytes, '.'));
}

static inline unsigned wh_path_stops(__m128i bytes)
{
    __m128i other = _mm_or_si128(wh_equals(bytes, '?'), wh_equals(bytes, '\\'));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(wh_query_stops(bytes), other));
}

#endif

enum { WH_WORD = 8 };

/* Sets the upper bit of each byte of the result whose byte in `word` is less than n. n is at most 0x80. */
static inline uint64_t wh_bytes_below(uint64_t word, unsigned n)
{
    return (word - ~0ull / 255 * n) & ~word & ~0ull / 255 * 128;
}

/* True if a word may have a byte that ends a value. It is also true for some words that have none (with a TAB). */
static inline bool wh_word_may_stop(uint64_t word)
{
    return wh_bytes_below(word, 0x20) || wh_bytes_below(word ^ ~0ull / 255 * 0x7f, 1);
}

static inline const char *wh_value_end(const char *p, const char *end)
{
#ifdef __SSE2__
    for (; end - p >= 16; p += 16) {
        unsigned stops = wh_value_stops(wh_load16(p));
        if (stops)
            return p + __builtin_ctz(stops);
    }
#else
    for (; end - p >= WH_WORD; p += WH_WORD) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        if (wh_word_may_stop(word)) {
            const char *stop = wh_skip(p, p + WH_WORD, WH_VALUE);
            if (stop != p + WH_WORD)
                return stop;
        }
    }
#endif
    return wh_skip(p, end, WH_VALUE);
}

static inline const char *wh_name_end(const char *p, const char *end)
{
#ifdef __SSE2__
    if (end - p >= 16) {
        unsigned stops = wh_name_stops(wh_load16(p));
        p += stops ? __builtin_ctz(stops) : 16;
    }
#endif
    return wh_skip(p, end, WH_TOKEN);
}

static inline const char *wh_query_end(const char *p, const char *end)
{
#ifdef __SSE2__
    for (; end - p >= 16; p += 16) {
        unsigned stops = (unsigned)_mm_movemask_epi8(wh_query_stops(wh_load16(p)));
        if (stops)
            return p + __builtin_ctz(stops);
    }
#endif
    return wh_skip(p, end, WH_QUERY_BYTE);
}

/* The byte before p must be readable. Sets the marks of the bytes that it has passed, and clears none. */
static inline const char *wh_path_end(const char *p, const char *end, struct wh_path_marks *marks)
{
#ifdef __SSE2__
    for (; end - p >= 16; p += 16) {
        __m128i bytes = wh_load16(p);
        unsigned stops = wh_path_stops(bytes);
        unsigned passed = (stops & -stops) - 1; /* bits below the first stop; all if there is none */
        unsigned percents = (unsigned)_mm_movemask_epi8(wh_equals(bytes, '%'));
        unsigned dots = (unsigned)_mm_movemask_epi8(wh_equals(bytes, '.'));
        unsigned slashes = (unsigned)_mm_movemask_epi8(wh_equals(bytes, '/')) << 1 | (p[-1] == '/');
        marks->has_percent |= (percents & passed) != 0;
        marks->has_dot |= (dots & slashes & passed) != 0;
        if (stops)
            return p + __builtin_ctz(stops);
    }
#endif
    for (; p < end && wh_is(*p, WH_PATH_BYTE); p++) {
        marks->has_percent |= *p == '%';
        marks->has_dot |= *p == '.' && p[-1] == '/';
    }
    return p;
}

#endif
