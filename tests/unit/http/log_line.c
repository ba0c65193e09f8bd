/*
 * tests/unit/http/log_line.c: a line of the access log is a line, whatever a client sends.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "http/log_line.h"
#include "support/test.h"

static const struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = 0x0100007f};

/* An ordinary request. */
static struct wh_log_line ordinary(void)
{
    return (struct wh_log_line){
        .peer = (const struct sockaddr *)&local,
        .peer_size = sizeof local,
        .second = 971186136,
        .method = "GET",
        .path = "/a",
        .version = 11,
        .status = 200,
        .bytes = 2326,
    };
}

static const char *formatted(const struct wh_log_line *line)
{
    static char out[WH_LOG_LINE + 1];
    size_t size = wh_log_format(out, line);
    CHECK_INT(size, <=, WH_LOG_LINE);
    out[size] = '\0';
    return out;
}

/* The line without what an ordinary line begins with. */
static const char *request_of(const struct wh_log_line *line)
{
    static const char head[] = "127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] ";
    const char *text = formatted(line);
    CHECK(strncmp(text, head, sizeof head - 1) == 0);
    return text + sizeof head - 1;
}

TEST(a_line_has_the_common_format)
{
    struct wh_log_line line = ordinary();
    CHECK_STR(formatted(&line), "127.0.0.1 - - [10/Oct/2000:13:55:36 +0000] \"GET /a HTTP/1.1\" 200 2326\n");
    line.query = "b=c";
    line.version = 10;
    line.status = 404;
    line.bytes = 0;
    CHECK_STR(request_of(&line), "\"GET /a?b=c HTTP/1.0\" 404 -\n");
    line.query = "";
    line.bytes = UINT64_MAX;
    CHECK_STR(request_of(&line), "\"GET /a? HTTP/1.0\" 404 18446744073709551615\n");
}

TEST(a_request_that_was_malformed_is_a_dash)
{
    struct wh_log_line line = ordinary();
    line.method = line.path = NULL;
    line.status = 400;
    line.bytes = 0;
    CHECK_STR(request_of(&line), "\"-\" 400 -\n");
}

static const char *host_of(const void *peer, socklen_t size)
{
    static char host[64];
    struct wh_log_line line = ordinary();
    line.peer = peer;
    line.peer_size = size;
    sscanf(formatted(&line), "%63s", host);
    return host;
}

TEST(hosts_are_addresses_of_all_families)
{
    struct sockaddr_in in = local;
    inet_pton(AF_INET, "203.0.113.255", &in.sin_addr);
    CHECK_STR(host_of(&in, sizeof in), "203.0.113.255");
    CHECK_STR(host_of(&in, sizeof in - 1), "-");
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    inet_pton(AF_INET6, "2001:db8::a:1", &in6.sin6_addr);
    CHECK_STR(host_of(&in6, sizeof in6), "2001:db8::a:1");
    CHECK_STR(host_of(&in6, sizeof in), "-");
    inet_pton(AF_INET6, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &in6.sin6_addr);
    CHECK_STR(host_of(&in6, sizeof in6), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    inet_pton(AF_INET6, "::ffff:192.0.2.1", &in6.sin6_addr);
    CHECK_STR(host_of(&in6, sizeof in6), "192.0.2.1");
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "/a\nb"};
    CHECK_STR(host_of(&un, sizeof un), "unix:");
    CHECK_STR(host_of(&un, sizeof un.sun_family), "unix:");
    CHECK_STR(host_of(NULL, 0), "-");
    CHECK_STR(host_of(&un, 0), "-");
    CHECK_STR(host_of(&un, 1), "-");
}

TEST(bytes_that_could_break_a_line_or_a_terminal_are_escaped)
{
    struct wh_log_line line = ordinary();
    line.path = "/a\"b\\c\r\nd\t\x1b[31m\x7f\x80\xff~";
    line.query = "\"\n";
    CHECK_STR(request_of(&line),
              "\"GET /a\\\"b\\\\c\\x0D\\x0Ad\\x09\\x1B[31m\\x7F\\x80\\xFF~?\\\"\\x0A HTTP/1.1\" 200 2326\n");
    line = ordinary();
    line.method = "G\"ET";
    CHECK_STR(request_of(&line), "\"G\\\"ET /a HTTP/1.1\" 200 2326\n");
}

TEST(every_byte_leaves_a_line_of_printable_bytes)
{
    for (int c = 1; c < 256; c++) {
        char path[] = {'/', (char)c, '/', '\0'}, expected[64];
        struct wh_log_line line = ordinary();
        line.path = path;
        bool is_plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';
        if (is_plain || c == '"' || c == '\\')
            snprintf(expected, sizeof expected, "\"GET /%s%c/ HTTP/1.1\" 200 2326\n", is_plain ? "" : "\\", c);
        else
            snprintf(expected, sizeof expected, "\"GET /\\x%02X/ HTTP/1.1\" 200 2326\n", c);
        CHECK_STR(request_of(&line), expected);
    }
}

/* Checks a line that was cut, and returns how many bytes of the request it has. */
static size_t check_cut(const struct wh_log_line *line)
{
    const char *request = request_of(line), *dots = strstr(request, "...");
    CHECK(dots && strcmp(dots, "... HTTP/1.1\" 200 2326\n") == 0);
    return dots ? (size_t)(dots - request) - 1 : 0;
}

TEST(long_requests_are_cut_wherever_the_line_ends)
{
    enum { LONG = 20000 };
    char *text = malloc(LONG + 1);
    memset(text, 'a', LONG);
    text[LONG] = '\0';
    struct wh_log_line line = ordinary();
    line.path = text;
    CHECK_INT(check_cut(&line), >, 1900);
    line = ordinary();
    line.query = text;
    CHECK_INT(check_cut(&line), >, 1900);
    line = ordinary();
    line.method = text;
    CHECK_INT(check_cut(&line), >, 1900);
    memset(text, '\n', LONG);
    line = ordinary();
    line.path = text;
    CHECK_INT(check_cut(&line), >, 1900);
    CHECK_INT(check_cut(&line) % 4, ==, 0); /* "GET " and whole escapes */
    free(text);
}

TEST(lines_of_every_length_fit)
{
    struct wh_log_line line = ordinary();
    char path[2100], query[8] = "\n\n";
    line.bytes = UINT64_MAX;
    line.query = query;
    for (size_t size = 1; size < sizeof path; size++) {
        memset(path, 'b', size);
        path[size] = '\0';
        line.path = path;
        const char *text = formatted(&line), *end = strchr(text, '\n');
        CHECK(end && end[1] == '\0');
        CHECK(strstr(text, "\" 200 18446744073709551615\n") != NULL);
        CHECK(strstr(text, "... HTTP/1.1\"") || strstr(text, "b?\\x0A\\x0A HTTP/1.1\""));
    }
}

TESTS(log_line, a_line_has_the_common_format, a_request_that_was_malformed_is_a_dash,
      hosts_are_addresses_of_all_families, bytes_that_could_break_a_line_or_a_terminal_are_escaped,
      every_byte_leaves_a_line_of_printable_bytes, long_requests_are_cut_wherever_the_line_ends,
      lines_of_every_length_fit)
