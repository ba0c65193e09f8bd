/*
 * The live state over real sockets: who is answered, and with what. The server and its clients are fibers and helpers of
 * one scheduler, as the live state is started by the fiber that serves.
 */
#include "tools/weft/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <weft/weft.h>

#include "tools/weft/page.h"
#include "support/test.h"
#include "unit/http/client.h"
#include "unit/tools/json.h"

struct ground {
    const char *address; /* where it listens */
    void (*test)(int port);
    weft_http *h;
    int listener;
};

static void *serves(void *arg)
{
    struct ground *g = arg;
    CHECK_INT(weft_http_serve(g->h, g->listener, WEFT_FOREVER), ==, 0);
    return NULL;
}

static void *asks(void *arg)
{
    struct ground *g = arg;
    g->test(weft_port(g->listener));
    return NULL;
}

static void *first(void *arg)
{
    struct ground *g = arg;
    struct status *status = NULL;
    weft_fiber *server;
    CHECK_INT(weft_http_new(&g->h, NULL), ==, 0);
    CHECK_INT(status_start(&status, g->h), ==, 0);
    g->listener = weft_listen(g->address);
    CHECK_INT(g->listener, >=, 0);
    CHECK_INT(weft_go_with(&server, NULL, serves, g), ==, 0);
    CHECK_INT(weft_offload(asks, g, NULL, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_http_stop(g->h), ==, 0);
    CHECK_INT(weft_join(server, NULL, WEFT_FOREVER), ==, 0);
    weft_close(g->listener);
    status_end(status);
    CHECK_INT(weft_http_free(g->h), ==, 0);
    return NULL;
}

/* Runs a test on a thread of its own, beside a server at an address. */
static void beside(const char *address, void (*test)(int port))
{
    struct ground g = {.address = address, .test = test};
    CHECK_INT(weft_run(first, &g, NULL, NULL), ==, 0);
}

static const char *const paths[] = {"/_weft", "/_weft/", "/_weft/status.json", "/_weft/events"};
#define PATHS (sizeof paths / sizeof *paths)

/* The status of the answer to a head whose target is the path (and what stands before it). An event stream is left. */
static int status_of(struct client *c, const char *target, const char *path, const char *rest)
{
    char request[512], line[16] = "";
    snprintf(request, sizeof request, "GET %s%s %s\r\n\r\n", target, path, rest);
    CHECK(client_say(c, request));
    for (size_t have = 0; have < sizeof line - 1;) {
        ssize_t n = recv(c->fd, line + have, sizeof line - 1 - have, 0);
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    client_close(c);
    return strncmp(line, "HTTP/1.1 ", 9) == 0 ? atoi(line + 9) : 0;
}

static void check_answered(int port, const char *target, const char *rest)
{
    static const int statuses[PATHS] = {200, 308, 200, 200};
    for (size_t i = 0; i < PATHS; i++) {
        struct client c;
        client_open(&c, port);
        int status = status_of(&c, target, paths[i], rest);
        if (status != statuses[i])
            test_failed(__FILE__, __LINE__, "%s%s %s: %d", target, paths[i], rest, status);
    }
}

static void check_refused(int port, const char *target, const char *rest)
{
    for (size_t i = 0; i < PATHS; i++) {
        struct client c;
        client_open(&c, port);
        int status = status_of(&c, target, paths[i], rest);
        if (status != 403)
            test_failed(__FILE__, __LINE__, "%s%s %s: %d", target, paths[i], rest, status);
    }
}

static void ask_by_names(int port)
{
    check_answered(port, "", "HTTP/1.1\r\nHost: localhost");
    check_answered(port, "", "HTTP/1.1\r\nHost: localhost.:8080");
    check_answered(port, "", "HTTP/1.1\r\nHost: 127.0.0.1:1");
    check_answered(port, "", "HTTP/1.1\r\nHost: [::1]:8080");
    check_answered(port, "", "HTTP/1.0\r\nHost: localhost");
    check_refused(port, "", "HTTP/1.1\r\nHost: example.org");
    check_refused(port, "", "HTTP/1.1\r\nHost: localhost.example.org");
    check_refused(port, "", "HTTP/1.1\r\nHost: 127.0.0.1.example.org:8080");
    check_refused(port, "", "HTTP/1.1\r\nHost:");
    check_refused(port, "", "HTTP/1.0\r\nHost: example.org");
}

TEST(only_loopback_names_are_answered)
{
    beside("127.0.0.1:0", ask_by_names);
}

static void ask_without_a_name(int port)
{
    check_refused(port, "", "HTTP/1.0");
    check_refused(port, "", "HTTP/1.0\r\nX-Forwarded-Host: localhost");
}

TEST(a_request_without_a_host_is_refused)
{
    beside("127.0.0.1:0", ask_without_a_name);
}

static void ask_by_whole_targets(int port)
{
    check_answered(port, "http://localhost:8080", "HTTP/1.1\r\nHost: localhost:8080");
    check_answered(port, "http://127.0.0.1", "HTTP/1.0");
    check_refused(port, "http://example.org", "HTTP/1.1\r\nHost: localhost");
    check_refused(port, "http://localhost", "HTTP/1.1\r\nHost: example.org");
    check_refused(port, "http://example.org", "HTTP/1.0");
}

TEST(a_target_with_a_host_and_the_field_must_both_be_local)
{
    beside("127.0.0.1:0", ask_by_whole_targets);
}

static void ask_through_proxies(int port)
{
    check_refused(port, "", "HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.1");
    check_refused(port, "", "HTTP/1.1\r\nHost: localhost\r\nForwarded: for=192.0.2.1");
    check_refused(port, "", "HTTP/1.1\r\nHost: localhost\r\nVia: 1.1 example");
    check_refused(port, "", "HTTP/1.1\r\nHost: localhost\r\nx-real-ip: 192.0.2.1");
}

TEST(a_request_that_came_through_a_proxy_is_refused)
{
    beside("127.0.0.1:0", ask_through_proxies);
}

static void ask_local(int port)
{
    check_answered(port, "", "HTTP/1.1\r\nHost: localhost");
}

TEST(an_ipv4_client_of_an_ipv6_listener_is_local)
{
    int fd = weft_listen("[::]:0");
    if (fd < 0)
        SKIP("there is no IPv6 here");
    weft_close(fd);
    beside("[::]:0", ask_local);
}

static char unix_path[64];

static void ask_by_unix_socket(int port)
{
    (void)port;
    for (size_t i = 0; i < PATHS; i++) {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        struct client c = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        snprintf(to.sun_path, sizeof to.sun_path, "%s", unix_path + strlen("unix:"));
        CHECK_INT(connect(c.fd, (struct sockaddr *)&to, sizeof to), ==, 0);
        CHECK_INT(status_of(&c, "", paths[i], "HTTP/1.1\r\nHost: localhost"), ==, 403);
    }
}

TEST(a_client_of_a_unix_socket_is_refused)
{
    snprintf(unix_path, sizeof unix_path, "unix:/tmp/weft-status-%d", (int)getpid());
    beside(unix_path, ask_by_unix_socket);
    unlink(unix_path + strlen("unix:"));
}

static const char *const safe_fields[][2] = {
    {"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}, {"Referrer-Policy", "no-referrer"}};

/* How often the nonce stands in the page; 0: something else is wrong with it. */
static unsigned check_page(int port, char nonce[PAGE_NONCE + 1])
{
    struct answer a;
    unsigned found = 0;
    CHECK_PTR(ask(port, "GET /_weft HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", &a), ==, NULL);
    for (size_t i = 0; i < sizeof safe_fields / sizeof *safe_fields; i++) {
        const char *value = answer_field(&a, safe_fields[i][0]);
        CHECK_STR(value ? value : "(none)", safe_fields[i][1]);
    }
    const char *policy = answer_field(&a, "Content-Security-Policy");
    const char *at = policy ? strstr(policy, "script-src 'nonce-") : NULL;
    if (at && strlen(at) > 18 + PAGE_NONCE) {
        snprintf(nonce, PAGE_NONCE + 1, "%s", at + 18);
        for (const char *p = a.body; (p = strstr(p, nonce)); p++)
            found++;
    }
    CHECK(policy && strstr(policy, "default-src 'none'") && strstr(policy, "frame-ancestors 'none'"));
    CHECK(!policy || !strstr(policy, "unsafe"));
    CHECK_INT(a.size, ==, page_size());
    CHECK(strstr(a.body, "@@@@@@@@") == NULL);
    answer_free(&a);
    return found;
}

static void ask_pages(int port)
{
    char first_nonce[PAGE_NONCE + 1] = "", nonce[PAGE_NONCE + 1] = "";
    CHECK_INT(check_page(port, first_nonce), >=, 2);
    CHECK_INT(strspn(first_nonce, "0123456789abcdef"), ==, PAGE_NONCE);
    CHECK_INT(check_page(port, nonce), >=, 2);
    CHECK(strcmp(nonce, first_nonce) != 0);
}

TEST(each_page_has_a_nonce_of_its_own)
{
    beside("127.0.0.1:0", ask_pages);
}

static void ask_slash(int port)
{
    struct answer a;
    CHECK_PTR(ask(port, "GET /_weft/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", &a), ==, NULL);
    CHECK_INT(a.status, ==, 308);
    const char *to = answer_field(&a, "Location");
    CHECK_STR(to ? to : "(none)", "/_weft");
    answer_free(&a);
    CHECK_INT(ask_status(port, "POST /_weft/status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), ==,
              405);
}

TEST(a_slash_behind_the_path_leads_to_the_page)
{
    beside("127.0.0.1:0", ask_slash);
}

static void ask_json(int port)
{
    struct answer a;
    CHECK_PTR(ask(port, "GET /_weft/status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", &a), ==,
              NULL);
    CHECK_INT(a.status, ==, 200);
    const char *type = answer_field(&a, "Content-Type");
    CHECK_STR(type ? type : "(none)", "application/json");
    CHECK(is_json(a.body));
    CHECK_PTR(answer_field(&a, "Access-Control-Allow-Origin"), ==, NULL);
    answer_free(&a);
}

TEST(the_figures_are_json)
{
    beside("127.0.0.1:0", ask_json);
}

/* The next line of a stream that says something, without its line break; chunks' sizes are no such lines. */
static bool next_line(FILE *stream, const char *begin, char *line, int size)
{
    while (fgets(line, size, stream)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (strncmp(line, begin, strlen(begin)) == 0)
            return true;
    }
    return false;
}

static void hear(int port)
{
    static char line[65536];
    struct client c;
    client_open(&c, port);
    client_say(&c, "GET /_weft/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    FILE *stream = fdopen(dup(c.fd), "r");
    CHECK(next_line(stream, "Content-Type: text/event-stream", line, sizeof line));
    CHECK(next_line(stream, "event: history", line, sizeof line));
    CHECK(next_line(stream, "data: [[", line, sizeof line));
    CHECK(is_json(line + 6));
    char *time = NULL, before[32] = "";
    for (int i = 0; i < 2; i++) { /* the one that there is, and the next one */
        CHECK(next_line(stream, "data: {", line, sizeof line));
        CHECK(is_json(line + 6));
        time = strstr(line, "\"time\":");
        CHECK(time && strncmp(time, before, 20) != 0);
        if (time)
            snprintf(before, 21, "%s", time);
    }
    fclose(stream);
    client_close(&c);
}

TEST(a_stream_has_the_history_and_then_each_snapshot_once)
{
    beside("127.0.0.1:0", hear);
}

static struct client left;

static void leave_a_stream(int port)
{
    static char line[4096];
    client_open(&left, port);
    client_say(&left, "GET /_weft/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for (size_t have = 0; have < sizeof line - 1 && !strstr(line, "event: history");) {
        ssize_t n = recv(left.fd, line + have, sizeof line - 1 - have, 0);
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    CHECK(strstr(line, "event: history"));
}

/* It does not wait for the grace, which is 10 s, and so would still end: the stream's last chunk shows which it was. */
TEST(a_stream_ends_with_the_server)
{
    char last[65536] = "";
    beside("127.0.0.1:0", leave_a_stream);
    size_t have = 0;
    for (ssize_t n; have < sizeof last && (n = recv(left.fd, last + have, sizeof last - have, 0)) > 0;)
        have += (size_t)n;
    CHECK(have >= 5 && memcmp(last + have - 5, "0\r\n\r\n", 5) == 0);
    client_close(&left);
}

TESTS(tools_status, only_loopback_names_are_answered, a_request_without_a_host_is_refused,
      a_target_with_a_host_and_the_field_must_both_be_local, a_request_that_came_through_a_proxy_is_refused,
      an_ipv4_client_of_an_ipv6_listener_is_local, a_client_of_a_unix_socket_is_refused,
      each_page_has_a_nonce_of_its_own, a_slash_behind_the_path_leads_to_the_page, the_figures_are_json,
      a_stream_has_the_history_and_then_each_snapshot_once, a_stream_ends_with_the_server)
