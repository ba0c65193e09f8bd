/*
 * The access log of a server: a line for each request, whatever its answer; to a file, to a pipe that is slow and to one
 * without a reader. (unit/http/log_line tests the format of lines.)
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define GET(target) "GET " target " HTTP/1.1\r\nHost: a\r\n\r\n"

static int cuts(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_INT(weft_http_begin(x, 200), ==, 0);
    CHECK_INT(weft_http_write(x, "part", 4), ==, 0);
    return -EIO;
}

static int streams(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_INT(weft_http_events(x), ==, 0);
    return weft_http_event(x, NULL, "one"); /* "data: one\n\n" */
}

static int says_nothing(weft_exchange *x, void *arg)
{
    (void)x, (void)arg;
    return 0;
}

static const struct served_route routes[] = {
    {"GET /", says_hello, NULL},
    {"POST /", says_hello, NULL},
    {"GET /cut", cuts, NULL},
    {"GET /stream", streams, NULL},
    {"GET /nothing", says_nothing, NULL},
    {"GET /{rest...}", says_hello, NULL},
    {0},
};

static void begin_logged(struct served *s, int fd, unsigned workers)
{
    served_make(s, NULL, routes);
    CHECK_INT(weft_http_log(s->h, fd), ==, 0);
    served_start(s, workers);
}

/* What a file has, as a string. */
static char *text_of(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    CHECK_INT(pread(fd, text, (size_t)size, 0), ==, size);
    return text;
}

/* Waits until a file has `count` lines. */
static char *wait_lines(int fd, unsigned count)
{
    weft_time end = weft_in(60 * WEFT_SEC);
    for (;;) {
        char *text = text_of(fd);
        unsigned lines = 0;
        for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
            lines++;
        if (lines >= count || weft_now().ns > end.ns)
            return text;
        free(text);
        usleep(1000);
    }
}

/* Checks a line but for its date; returns the next one. */
static char *check_line(char *line, const char *request, const char *rest)
{
    char *end = strchr(line, '\n'), *bracket = strchr(line, ']'), wanted[4000];
    if (!end || !bracket || strncmp(line, "127.0.0.1 - - [", 15) != 0 || bracket - line != 41) {
        test_failed(__FILE__, __LINE__, "%s: \"%.100s\"", request, line);
        return line + strlen(line);
    }
    *end = '\0';
    snprintf(wanted, sizeof wanted, "] \"%s\" %s", request, rest);
    CHECK_STR(bracket, wanted);
    return end + 1;
}

static const struct logged {
    const char *request; /* that is sent */
    const char *line;    /* the request line in the log */
    const char *rest;    /* status and bytes */
} logged[] = {
    {GET("/"), "GET / HTTP/1.1", "200 6"},
    {GET("/a?b=c&d"), "GET /a?b=c&d HTTP/1.1", "200 6"},
    {GET("/?"), "GET /? HTTP/1.1", "200 6"},
    {GET("http://b"), "GET / HTTP/1.1", "200 6"},
    {"GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0", "200 6"},
    {"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD / HTTP/1.1", "200 -"},
    {GET("/nothing"), "GET /nothing HTTP/1.1", "204 -"},
    {"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "POST /a HTTP/1.1", "405 19"},
    {"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", "BREW / HTTP/1.1", "501 16"},
    {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * HTTP/1.1", "204 -"},
    {GET("/%22%0a%5c%1b?\\[\\"), "GET /%22%0a%5c%1b?\\\\[\\\\ HTTP/1.1", "200 6"},
    {GET("/cut"), "GET /cut HTTP/1.1", "200 4"},
    {GET("/stream"), "GET /stream HTTP/1.1", "200 11"},
    {GET("/%2e%2e"), "GET /%2e%2e HTTP/1.1", "400 12"},
    {"GET /\"x HTTP/1.1\r\nHost: a\r\n\r\n", "-", "400 12"},
    {"nonsense\r\n\r\n", "-", "400 12"},
    {"GET / HTTP/2.7\r\nHost: a\r\n\r\n", "-", "505 27"},
};
enum { LOGGED = sizeof logged / sizeof *logged };

TEST(each_request_has_its_line_whatever_its_answer)
{
    struct served s;
    int fd = memfd_create("log", MFD_CLOEXEC);
    begin_logged(&s, fd, 1);
    for (int i = 0; i < LOGGED; i++)
        ask_status(s.port, logged[i].request);
    served_end(&s);
    char *text = text_of(fd), *line = text;
    for (int i = 0; i < LOGGED; i++)
        line = check_line(line, logged[i].line, logged[i].rest);
    CHECK_STR(line, "");
    free(text);
    close(fd);
}

TEST(lines_are_written_while_the_server_serves)
{
    struct served s;
    int fd = memfd_create("log", MFD_CLOEXEC);
    begin_logged(&s, fd, 1);
    CHECK_INT(ask_status(s.port, GET("/")), ==, 200);
    char *text = wait_lines(fd, 1);
    CHECK(strstr(text, "\"GET / HTTP/1.1\" 200 6\n") != NULL);
    free(text);
    served_end(&s);
    close(fd);
}

static int refuses(weft_exchange *x, void *arg)
{
    (void)x, (void)arg;
    return -EACCES;
}

TEST(requests_that_middleware_refuses_are_logged_whether_log_or_middleware_was_added_first)
{
    for (int is_first = 0; is_first < 2; is_first++) {
        struct served s;
        int fd = memfd_create("log", MFD_CLOEXEC);
        served_make(&s, NULL, routes);
        if (is_first)
            CHECK_INT(weft_http_log(s.h, fd), ==, 0);
        CHECK_INT(weft_http_use(s.h, refuses, NULL), ==, 0);
        if (!is_first)
            CHECK_INT(weft_http_log(s.h, fd), ==, 0);
        served_start(&s, 1);
        CHECK_INT(ask_status(s.port, GET("/")), ==, 403);
        served_end(&s);
        char *text = text_of(fd);
        CHECK(strstr(text, "\"GET / HTTP/1.1\" 403 10\n") != NULL);
        free(text);
        close(fd);
    }
}

TEST(the_line_of_a_long_request_is_cut)
{
    enum { LONG = 5000 };
    struct served s;
    char request[LONG + 100], *at = stpcpy(request, "GET /");
    int fd = memfd_create("log", MFD_CLOEXEC);
    memset(at, 'x', LONG);
    strcpy(at + LONG, " HTTP/1.1\r\nHost: a\r\n\r\n");
    begin_logged(&s, fd, 1);
    CHECK_INT(ask_status(s.port, request), ==, 200);
    CHECK_INT(ask_status(s.port, GET("/")), ==, 200);
    served_end(&s);
    char *text = text_of(fd), *end = strchr(text, '\n');
    CHECK(end && end - text < 2048);
    CHECK(strstr(text, "xxx... HTTP/1.1\" 200 6\n") != NULL);
    CHECK(strstr(text, "\"GET / HTTP/1.1\" 200 6\n") != NULL);
    free(text);
    close(fd);
}

/* ---- many at a time ---- */

enum { CLIENTS = 4, REQUESTS = 50 };

static void *asks_often(void *arg)
{
    struct served *s = arg;
    struct client c;
    client_open(&c, s->port);
    for (int i = 0; i < REQUESTS; i++) {
        client_say(&c, GET("/"));
        client_expect(&c, 200);
    }
    client_close(&c);
    return NULL;
}

TEST(requests_at_the_same_time_get_whole_lines)
{
    struct served s;
    pthread_t threads[CLIENTS];
    int fd = memfd_create("log", MFD_CLOEXEC);
    begin_logged(&s, fd, 2);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, asks_often, &s), ==, 0);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    served_end(&s);
    char *text = text_of(fd), *line = text;
    for (int i = 0; i < CLIENTS * REQUESTS; i++)
        line = check_line(line, "GET / HTTP/1.1", "200 6");
    CHECK_STR(line, "");
    free(text);
    close(fd);
}

/* ---- pipes ---- */

struct pipe_reader {
    int fd;
    char *text;
    size_t size;
};

static void *read_pipe(void *arg)
{
    struct pipe_reader *r = arg;
    for (;;) {
        r->text = realloc(r->text, r->size + 65537);
        ssize_t n = read(r->fd, r->text + r->size, 65536);
        if (n <= 0)
            break;
        r->size += (size_t)n;
    }
    r->text[r->size] = '\0';
    return NULL;
}

/* Counts the lines of a log, and those that it says were dropped. */
static void count_lines(char *text, unsigned *lines, unsigned *dropped)
{
    for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *note = line[0] == '[' ? strstr(line, "] ") : NULL;
        if (note && strstr(note, " lines dropped"))
            *dropped += (unsigned)atoi(note + 2);
        else if (!strncmp(line, "127.0.0.1 - - [", 15) && strstr(line, "HTTP/1.1\" 200 6"))
            ++*lines;
        else
            test_failed(__FILE__, __LINE__, "\"%.80s\"", line);
    }
}

TEST(a_slow_pipe_loses_lines_which_are_counted_and_delays_no_request)
{
    enum { MANY = 600, LONG = 1900 };
    int ends[2];
    struct served s;
    struct client c;
    pthread_t thread;
    char request[LONG + 100], *at = stpcpy(request, "GET /");
    unsigned lines = 0, dropped = 0;
    memset(at, 'x', LONG);
    strcpy(at + LONG, " HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_INT(pipe2(ends, O_CLOEXEC), ==, 0);
    begin_logged(&s, ends[1], 1);
    client_open(&c, s.port);
    for (int i = 0; i < MANY; i++) {
        client_say(&c, request);
        client_expect(&c, 200);
    }
    client_close(&c);
    struct pipe_reader r = {.fd = ends[0]};
    CHECK_INT(pthread_create(&thread, NULL, read_pipe, &r), ==, 0);
    served_end(&s);
    close(ends[1]);
    pthread_join(thread, NULL);
    count_lines(r.text, &lines, &dropped);
    CHECK_INT(lines + dropped, ==, MANY);
    CHECK_INT(dropped, >, 0);
    CHECK_INT(lines, >, 100);
    free(r.text);
    close(ends[0]);
}

TEST(requests_are_answered_though_the_pipe_of_the_log_has_no_reader)
{
    int ends[2];
    struct served s;
    signal(SIGPIPE, SIG_IGN);
    CHECK_INT(pipe2(ends, O_CLOEXEC), ==, 0);
    close(ends[0]);
    begin_logged(&s, ends[1], 1);
    for (int i = 0; i < 5; i++)
        CHECK_INT(ask_status(s.port, GET("/")), ==, 200);
    served_end(&s);
    close(ends[1]);
    signal(SIGPIPE, SIG_DFL);
}

TEST(a_log_is_added_once_and_before_serving)
{
    struct served s;
    int fd = memfd_create("log", MFD_CLOEXEC);
    served_make(&s, NULL, routes);
    CHECK_INT(weft_http_log(NULL, fd), ==, -EINVAL);
    CHECK_INT(weft_http_log(s.h, -1), ==, -EINVAL);
    served_start(&s, 1);
    CHECK_INT(ask_status(s.port, GET("/")), ==, 200);
    CHECK_INT(weft_http_log(s.h, fd), ==, -EBUSY);
    served_end(&s);
    served_make(&s, NULL, routes);
    CHECK_INT(weft_http_log(s.h, fd), ==, 0);
    CHECK_INT(weft_http_log(s.h, fd), ==, -EALREADY);
    CHECK_INT(weft_http_free(s.h), ==, 0);
    CHECK_INT(lseek(fd, 0, SEEK_END), ==, 0);
    close(fd);
}

TESTS(access_log, each_request_has_its_line_whatever_its_answer, lines_are_written_while_the_server_serves,
      requests_that_middleware_refuses_are_logged_whether_log_or_middleware_was_added_first,
      the_line_of_a_long_request_is_cut, requests_at_the_same_time_get_whole_lines,
      a_slow_pipe_loses_lines_which_are_counted_and_delays_no_request,
      requests_are_answered_though_the_pipe_of_the_log_has_no_reader, a_log_is_added_once_and_before_serving)
