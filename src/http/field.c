/*
 * http/field.c: the table of the classes of bytes, and checks of whole names and values.
 */
#include "http/field.h"

#include "http/scan.h"

/* Short names, for the table alone. */
enum {
    T = WH_TOKEN,
    V = WH_VALUE,
    P = WH_PATH_BYTE,
    Q = WH_QUERY_BYTE,
    H = WH_HOST_BYTE,
    D = WH_DIGIT,
    X = WH_HEX,
};

const uint8_t wh_classes[256] = {
    [0x09] = V,
    [0x20] = V,
    ['!'] = T | V | P | Q | H,
    ['"'] = V,
    ['#'] = T | V,
    ['$'] = T | V | P | Q | H,
    ['%'] = T | V | P | Q,
    ['&' ... '\''] = T | V | P | Q | H,
    ['(' ... ')'] = V | P | Q | H,
    ['*' ... '+'] = T | V | P | Q | H,
    [','] = V | P | Q | H,
    ['-' ... '.'] = T | V | P | Q | H,
    ['/'] = V | P | Q,
    ['0' ... '9'] = T | V | P | Q | H | D | X,
    [':'] = V | P | Q,
    [';'] = V | P | Q | H,
    ['<'] = V,
    ['='] = V | P | Q | H,
    ['>'] = V,
    ['?'] = V | Q,
    ['@'] = V | P | Q,
    ['A' ... 'F'] = T | V | P | Q | H | X,
    ['G' ... 'Z'] = T | V | P | Q | H,
    ['['] = V | P | Q,
    ['\\'] = V | Q,
    [']'] = V | P | Q,
    ['^'] = T | V | P | Q,
    ['_'] = T | V | P | Q | H,
    ['`'] = T | V | P | Q,
    ['a' ... 'f'] = T | V | P | Q | H | X,
    ['g' ... 'z'] = T | V | P | Q | H,
    ['{'] = V | P | Q,
    ['|'] = T | V | P | Q,
    ['}'] = V | P | Q,
    ['~'] = T | V | P | Q | H,
    [0x80 ... 0xff] = V,
};

bool wh_is_token(const char *text, size_t size)
{
    return size > 0 && wh_skip(text, text + size, WH_TOKEN) == text + size;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

bool wh_is_field_value(const char *text, size_t size)
{
    if (size == 0)
        return true;
    if (size >= 8 && size <= 16 && !wh_word_may_stop(wh_load8(text)) && !wh_word_may_stop(wh_load8(text + size - 8)))
        return text[0] != ' ' && text[size - 1] != ' '; /* wh_word_may_stop is true for a TAB, so there is none */
    return !is_blank(text[0]) && !is_blank(text[size - 1]) && wh_value_end(text, text + size) == text + size;
}
