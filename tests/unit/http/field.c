/*
 * The classes of bytes, and checks of names and values: each byte against the grammar of RFC 9110 and RFC 3986.
 */
#include "http/field.h"

#include <stdlib.h>
#include <string.h>

#include "support/test.h"

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", digits[] = "0123456789";

static bool is_in(int byte, const char *set)
{
    return byte && strchr(set, byte);
}

static bool is_alphanumeric(int byte)
{
    return is_in(byte, letters) || is_in(byte, digits);
}

TEST(each_byte_is_in_the_classes_of_the_grammar)
{
    for (int byte = 0; byte < 256; byte++) {
        bool is_visible = byte > 0x20 && byte < 0x7f;
        CHECK_INT(wh_is((char)byte, WH_TOKEN), ==, is_alphanumeric(byte) || is_in(byte, "!#$%&'*+-.^_`|~"));
        CHECK_INT(wh_is((char)byte, WH_VALUE), ==, is_visible || byte == ' ' || byte == '\t' || byte >= 0x80);
        CHECK_INT(wh_is((char)byte, WH_PATH_BYTE), ==, is_visible && !is_in(byte, "\"#<>?\\"));
        CHECK_INT(wh_is((char)byte, WH_QUERY_BYTE), ==, is_visible && !is_in(byte, "\"#<>"));
        CHECK_INT(wh_is((char)byte, WH_HOST_BYTE), ==, is_alphanumeric(byte) || is_in(byte, "-._~!$&'()*+,;="));
        CHECK_INT(wh_is((char)byte, WH_DIGIT), ==, is_in(byte, digits));
        CHECK_INT(wh_is((char)byte, WH_HEX), ==, is_in(byte, digits) || is_in(byte, "abcdefABCDEF"));
    }
}

TEST(a_name_is_a_token_that_is_not_empty)
{
    CHECK(wh_is_token("X", 1));
    CHECK(wh_is_token("Content-Type", 12));
    CHECK(!wh_is_token("", 0));
    CHECK(!wh_is_token("X:", 2));
    CHECK(!wh_is_token("X Y", 3));
    CHECK(!wh_is_token("X\0", 2));
    CHECK(!wh_is_token("X\r\nY", 4));
    CHECK(!wh_is_token("\xc3\xa4", 2));
}

/* A value of `size` letters with one byte at `at`, in memory of its exact size. */
static bool is_value_with(size_t size, size_t at, int byte)
{
    char *text = malloc(size);
    memset(text, 'a', size);
    text[at] = (char)byte;
    bool is_value = wh_is_field_value(text, size);
    free(text);
    return is_value;
}

TEST(a_value_has_no_control_characters_anywhere)
{
    for (int byte = 0; byte < 256; byte++) {
        bool is_fine = byte == '\t' || (byte >= 0x20 && byte != 0x7f), is_blank = byte == '\t' || byte == ' ';
        for (size_t size = 1; size < 40; size++) {
            for (size_t at = 0; at < size; at++) {
                bool is_edge = at == 0 || at == size - 1;
                CHECK_INT(is_value_with(size, at, byte), ==, is_fine && !(is_blank && is_edge));
            }
        }
    }
    CHECK(wh_is_field_value("", 0));
}

TEST(words_are_compared_without_case)
{
    CHECK(WH_IS_WORD("Host", 4, "host"));
    CHECK(WH_IS_WORD("CLOSE", 5, "close"));
    CHECK(WH_IS_WORD("Keep-Alive", 10, "keep-alive"));
    CHECK(WH_IS_WORD("transfer-ENCODING", 17, "transfer-encoding"));
    CHECK(!WH_IS_WORD("hos", 3, "host"));
    CHECK(!WH_IS_WORD("hosts", 5, "host"));
    /* Each other byte in each place is another word. */
    static const char *const words[] = {"host",     "close",        "expect",         "upgrade",
                                        "identity", "100-continue", "content-length", "transfer-encoding"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t size = strlen(words[i]);
        for (size_t at = 0; at < size; at++) {
            for (int byte = 0x20; byte < 256; byte++) {
                char text[32];
                memcpy(text, words[i], size);
                text[at] = (char)byte;
                bool is_same = byte == words[i][at] || (is_in(words[i][at], letters) && (byte | 0x20) == words[i][at]);
                CHECK_INT(wh_is_word(text, size, words[i], size), ==, is_same);
            }
        }
    }
}

TESTS(http_field, each_byte_is_in_the_classes_of_the_grammar, a_name_is_a_token_that_is_not_empty,
      a_value_has_no_control_characters_anywhere, words_are_compared_without_case)
