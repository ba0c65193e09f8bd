/*
 * The parser of heads: field lines, and the fields that it understands: Host, Content-Length, Transfer-Encoding, Connection,
 * Expect and Upgrade.
 */
#include <stdio.h>

#include "heads.h"

#define GET "GET / HTTP/1.1\r\n"
#define GET_0 "GET / HTTP/1.0\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
#define POST_0 "POST / HTTP/1.0\r\n"

TEST(field_names_are_tokens_before_a_colon)
{
    static const struct row rows[] = {
        ROW(WHOLE, POST "!#$%&'*+-.^_`|~09azAZ: x\r\n\r\n"),
        ROW(WHOLE, POST "x:y\r\n\r\n"),
        ROW(WHOLE, POST "a-name-that-is-longer-than-sixteen: x\r\n\r\n"),
        ROW(-400, POST "a-name-that-is-longer-than-sixteen x\r\n\r\n"),
        ROW(-400, POST "X : y\r\n\r\n"),
        ROW(-400, POST "X\t: y\r\n\r\n"),
        ROW(-400, POST "X y: z\r\n\r\n"),
        ROW(-400, POST ": y\r\n\r\n"),
        ROW(-400, POST ":\r\n\r\n"),
        ROW(-400, POST "X\r\n\r\n"),
        ROW(-400, POST "X\0: y\r\n\r\n"),
        ROW(-400, POST "X\x7f: y\r\n\r\n"),
        ROW(-400, POST "X\xe4: y\r\n\r\n"),
        ROW(-400, POST "(X): y\r\n\r\n"),
        ROW(-400, POST "X/Y: y\r\n\r\n"),
        ROW(-400, POST "\"X\": y\r\n\r\n"),
        ROW(-400, GET "Host : a\r\n\r\n"),
        ROW(-400, POST "Content-Length : 5\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding : chunked\r\n\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(folded_fields_are_refused)
{
    static const struct row rows[] = {
        ROW(-400, POST "X: a\r\n b\r\n\r\n"),
        ROW(-400, POST "X: a\r\n\tb\r\n\r\n"),
        ROW(-400, POST "X: a\r\n \r\n\r\n"),
        ROW(-400, GET " Host: a\r\n\r\n"),
        ROW(-400, GET "\tHost: a\r\n\r\n"),
        ROW(-400, GET "Host:\r\n a\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding:\r\n chunked\r\n\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(values_have_no_control_characters_but_tab)
{
    for (int byte = 0; byte < 256; byte++) {
        for (int wide = 0; wide < 2; wide++) {
            char text[128];
            struct parsed p;
            int size = snprintf(text, sizeof text, GET "Host: a\r\nX: a%s@c\r\n\r\n",
                                wide ? "0123456789abcdefghijkl" : "");
            *strchr(text, '@') = (char)byte;
            bool is_fine = byte == '\t' || (byte >= 0x20 && byte != 0x7f);
            CHECK(parse_bytes(&p, text, (size_t)size));
            if (p.rc != (is_fine ? size : -400))
                test_failed(__FILE__, __LINE__, "byte %02x: %d", byte, p.rc);
        }
    }
}

TEST(white_space_around_a_value_does_not_belong_to_it)
{
    struct parsed p;
    ACCEPT(p, "GET / HTTP/1.1\r\nHost:a\r\nA: \t\r\nB:\t b\tc \t \r\nC: 0123456789abcdef0123456789abcdef   \r\n\r\n");
    CHECK_STR(text_of(&p, p.fields[1].value), "");
    CHECK_STR(text_of(&p, p.fields[2].value), "b\tc");
    CHECK_STR(text_of(&p, p.fields[3].value), "0123456789abcdef0123456789abcdef");
}

TEST(http_1_1_needs_one_host)
{
    static const struct row rows[] = {
        ROW(-400, GET "\r\n"),
        ROW(-400, GET "Hosts: a\r\n\r\n"),
        ROW(-400, GET "X-Host: a\r\n\r\n"),
        ROW(WHOLE, GET_0 "\r\n"),
        ROW(-400, GET "Host: a\r\nHost: a\r\n\r\n"),
        ROW(-400, GET "Host: a\r\nHost: b\r\n\r\n"),
        ROW(-400, GET "Host:\r\nhost:\r\n\r\n"),
        ROW(-400, GET_0 "Host: a\r\nX: y\r\nHOST: a\r\n\r\n"),
        ROW(WHOLE, GET "hOsT: a\r\n\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(hosts_are_checked)
{
    static const char *const valid[] = {
        "",
        "a",
        "example.org",
        "127.0.0.1",
        "a:80",
        "a:",
        "a:0",
        "a:65535",
        "a:00080",
        "a_b",
        "a-b.c~d!",
        "$&'()*+,;=",
        "[::1]",
        "[::1]:80",
        "[2001:db8::]",
        "[::]:",
        "[::ffff:1.2.3.4]",
    };
    static const char *const malformed[] = {
        "a b",
        "a\tb",
        "a/b",
        "a?b",
        "a#b",
        "u@a",
        "u:p@a",
        "a:b",
        "a:8a",
        "a:65536",
        "a:+80",
        "a:-1",
        "a:080808",
        "a:1:2",
        ":80",
        ":",
        "a%41",
        "a%",
        "[::1",
        "::1",
        "[]",
        "[::1]a",
        "[::1]80",
        "[fe80::1%25eth0]",
        "[v1.a]",
        "[1.2.3.4]",
        "[::g]",
        "a]",
        "\xc3\xa4",
        "<a>",
        "\"a\"",
        "a\\b",
        "http://a",
        "{a}",
        "a|b",
        "a^b",
        "a, b",
        "[1:2:3:4:5:6:7:8:9]",
        "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]",
    };
    char text[256];
    struct parsed p;
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        int size = snprintf(text, sizeof text, GET "Host: %s\r\n\r\n", valid[i]);
        CHECK(parse_bytes(&p, text, (size_t)size));
        CHECK_INT(p.rc, ==, size);
        CHECK_STR(text_of(&p, p.head.host), valid[i]);
    }
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        for (int minor = 0; minor < 2; minor++) {
            int size = snprintf(text, sizeof text, "GET / HTTP/1.%d\r\nHost: %s\r\n\r\n", minor, malformed[i]);
            CHECK(parse_bytes(&p, text, (size_t)size));
            if (p.rc != -400)
                test_failed(__FILE__, __LINE__, "Host \"%s\": %d", malformed[i], p.rc);
        }
    }
}

TEST(a_length_is_one_number)
{
    static const struct {
        const char *text;
        uint64_t length;
    } valid[] = {
        {"0", 0}, {"5", 5}, {"007", 7}, {"9223372036854775807", INT64_MAX}, {"00000000000000000000000000000001", 1},
    };
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        char text[256];
        struct parsed p;
        int size = snprintf(text, sizeof text, POST "cOnTeNt-LeNgTh: %s\r\n\r\n", valid[i].text);
        CHECK(parse_bytes(&p, text, (size_t)size));
        CHECK_INT(p.rc, ==, size);
        CHECK(p.head.has_length && !p.head.is_chunked);
        CHECK(p.head.length == valid[i].length);
    }
    static const struct row rows[] = {
        ROW(-400, POST "Content-Length:\r\n\r\n"),
        ROW(-400, POST "Content-Length: \r\n\r\n"),
        ROW(-400, POST "Content-Length: +5\r\n\r\n"),
        ROW(-400, POST "Content-Length: -5\r\n\r\n"),
        ROW(-400, POST "Content-Length: -0\r\n\r\n"),
        ROW(-400, POST "Content-Length: 0x5\r\n\r\n"),
        ROW(-400, POST "Content-Length: 5a\r\n\r\n"),
        ROW(-400, POST "Content-Length: 5 5\r\n\r\n"),
        ROW(-400, POST "Content-Length: 5.0\r\n\r\n"),
        ROW(-400, POST "Content-Length: 1e1\r\n\r\n"),
        ROW(-400, POST "Content-Length: \"5\"\r\n\r\n"),
        ROW(-400, POST "Content-Length: 5;\r\n\r\n"),
        ROW(-400, POST "Content-Length: 5, 5\r\n\r\n"),
        ROW(-400, POST "Content-Length: 5,\r\n\r\n"),
        ROW(-400, POST "Content-Length: ,5\r\n\r\n"),
        ROW(-400, POST "Content-Length: 9223372036854775808\r\n\r\n"),
        ROW(-400, POST "Content-Length: 18446744073709551616\r\n\r\n"),
        ROW(-400, POST "Content-Length: 18446744073709551621\r\n\r\n"),
        ROW(-400, POST "Content-Length: 99999999999999999999999999\r\n\r\n"),
        ROW(-400, POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"),
        ROW(-400, POST "Content-Length: 5\r\nX: y\r\ncontent-length: 6\r\n\r\n"),
        ROW(-400, POST_0 "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"),
        ROW(WHOLE, POST_0 "Content-Length: 5\r\n\r\n"),
        ROW(WHOLE, POST "Content-Lengt: x\r\n\r\n"),
        ROW(WHOLE, POST "Content_Length: x\r\n\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(a_transfer_coding_is_chunked_alone)
{
    struct parsed p;
    ACCEPT(p, "POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: ChunkeD \r\n\r\n");
    CHECK(p.head.is_chunked && !p.head.has_length);
    static const struct row rows[] = {
        ROW(-501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n"),
        ROW(-501, POST "Transfer-Encoding: gzip,chunked\r\n\r\n"),
        ROW(-501, POST "Transfer-Encoding: gzip;q=1 ,\t deflate, Chunked\r\n\r\n"),
        ROW(-501, POST "Transfer-Encoding: identity, chunked\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding:\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: gzip\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: identity\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunked, gzip\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunked, identity\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunked, chunked\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: gzip, chunked, chunked\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunked,\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: , chunked\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: gzip,, chunked\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: ,\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: xchunked\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunkedx\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunke\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunked;a=b\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunked x\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: \"chunked\"\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: 'chunked'\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: gzip x, chunked\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: \x0b"
                       "chunked\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunked\xa0\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"),
        ROW(-501, POST "Transfer-Encoding: gzip, chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ROW(-400, POST_0 "Transfer-Encoding: chunked\r\n\r\n"),
        ROW(-400, POST_0 "Transfer-Encoding: gzip\r\n\r\n"),
        ROW(WHOLE, POST "Transfer_Encoding: x\r\n\r\n"),
        ROW(WHOLE, POST "Transfer-Encodings: x\r\n\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(a_length_beside_a_transfer_coding_is_refused)
{
    static const struct row rows[] = {
        ROW(-400, POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"),
        ROW(-400, POST "Transfer-Encoding: chunked\r\nX: y\r\nContent-Length:\r\n\r\n"),
        ROW(-400, POST_0 "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(a_connection_is_kept_by_version_and_option)
{
    static const struct {
        int minor;
        const char *fields;
        bool keeps, says;
    } rows[] = {
        {1, "", true, false},
        {0, "", false, false},
        {1, "Connection: close\r\n", false, false},
        {1, "connection: CLOSE\r\n", false, false},
        {1, "Connection: Keep-Alive\r\n", true, true},
        {0, "Connection: keep-alive\r\n", true, true},
        {0, "Connection: x, KEEP-ALIVE\r\n", true, true},
        {0, "Connection: close\r\n", false, false},
        {1, "Connection: keep-alive, close\r\n", false, true},
        {0, "Connection: close, keep-alive\r\n", false, true},
        {1, "Connection: keep-alive\r\nX: y\r\nConnection: close\r\n", false, true},
        {1, "Connection: a,\tclose ,b\r\n", false, false},
        {1, "Connection: ,,close,\r\n", false, false},
        {1, "Connection:\r\n", true, false},
        {1, "Connection: closed, xclose, close-\r\n", true, false},
        {1, "Proxy-Connection: close\r\n", true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        struct parsed p;
        int size = snprintf(text, sizeof text, "GET / HTTP/1.%d\r\nHost: a\r\n%s\r\n", rows[i].minor, rows[i].fields);
        CHECK(parse_bytes(&p, text, (size_t)size));
        CHECK_INT(p.rc, ==, size);
        if (p.head.keeps_alive != rows[i].keeps || p.head.says_keep_alive != rows[i].says)
            test_failed(__FILE__, __LINE__, "row %zu: %d %d", i, p.head.keeps_alive, p.head.says_keep_alive);
    }
    static const struct row malformed[] = {
        ROW(-400, POST "Connection: close x\r\n\r\n"),   ROW(-400, POST "Connection: close;x\r\n\r\n"),
        ROW(-400, POST "Connection: \"close\"\r\n\r\n"), ROW(-400, POST "Connection: keep-alive, (close)\r\n\r\n"),
        ROW(-400, POST "Connection: close\xff\r\n\r\n"),
    };
    CHECK_ROWS(malformed);
}

TEST(an_expectation_is_100_continue)
{
    struct parsed p;
    ACCEPT(p, "POST / HTTP/1.1\r\nHost: a\r\nexpect: 100-Continue\r\n\r\n");
    CHECK(p.head.expects_continue);
    ACCEPT(p, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nExpect: 100-continue\r\n\r\n");
    CHECK(p.head.expects_continue);
    ACCEPT(p, "POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n");
    CHECK(!p.head.expects_continue);
    static const struct row rows[] = {
        ROW(-417, POST "Expect: 200-ok\r\n\r\n"),
        ROW(WHOLE, POST "Expect:\r\n\r\n"), /* a list without elements */
        ROW(WHOLE, POST "Expect: , 100-continue,\r\n\r\n"),
        ROW(-417, POST "Expect: ,x\r\n\r\n"),
        ROW(-417, POST "Expect: 100-continue, x\r\n\r\n"),
        ROW(-417, POST "Expect: 100-continue;x=y\r\n\r\n"),
        ROW(-417, POST "Expect: 100-continu\r\n\r\n"),
        ROW(-417, POST "Expect: 100-continue\r\nExpect: x\r\n\r\n"),
        ROW(-417, POST_0 "Expect: x\r\n\r\n"),
        ROW(WHOLE, POST "Expects: x\r\n\r\n"),
    };
    CHECK_ROWS(rows);
}

TEST(an_upgrade_needs_the_option_and_the_field)
{
    static const struct {
        int minor;
        const char *fields;
        bool upgrades;
    } rows[] = {
        {1, "Connection: Upgrade\r\nUpgrade: websocket\r\n", true},
        {1, "upgrade: websocket\r\nconnection: keep-alive, upgrade\r\n", true},
        {0, "Connection: Upgrade\r\nUpgrade: websocket\r\n", false},
        {1, "Upgrade: websocket\r\n", false},
        {1, "Connection: Upgrade\r\n", false},
        {1, "Connection: upgraded\r\nUpgrade: websocket\r\n", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        struct parsed p;
        int size = snprintf(text, sizeof text, "GET / HTTP/1.%d\r\nHost: a\r\n%s\r\n", rows[i].minor, rows[i].fields);
        CHECK(parse_bytes(&p, text, (size_t)size));
        CHECK_INT(p.rc, ==, size);
        CHECK_INT(p.head.has_upgrade, ==, rows[i].upgrades);
    }
}

TESTS(http_parse_fields, field_names_are_tokens_before_a_colon, folded_fields_are_refused,
      values_have_no_control_characters_but_tab, white_space_around_a_value_does_not_belong_to_it,
      http_1_1_needs_one_host, hosts_are_checked, a_length_is_one_number, a_transfer_coding_is_chunked_alone,
      a_length_beside_a_transfer_coding_is_refused, a_connection_is_kept_by_version_and_option,
      an_expectation_is_100_continue, an_upgrade_needs_the_option_and_the_field)
