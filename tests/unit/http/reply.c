/*
 * Whole answers: bodies of every size, statuses without a body, HEAD, handlers that fail or do not answer, redirects.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#define END " HTTP/1.1\r\nHost: a\r\n\r\n"

/* A body of {size} bytes. */
static int says_bytes(weft_exchange *x, void *arg)
{
    (void)arg;
    size_t size = strtoul(weft_http_param(x, "size"), NULL, 10);
    char *body = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        body[i] = (char)(i * 3 + i / 253);
    int rc = weft_http_reply(x, 200, "application/octet-stream", body, size);
    bool is_head = strcmp(weft_http_method(x), "HEAD") == 0;
    CHECK_INT(weft_http_sent(x), ==, is_head ? 0 : size);
    free(body);
    return rc;
}

/* {how} it answers: by reply, or in parts; with {status}, and with a length of its own or not. */
static int says_status(weft_exchange *x, void *arg)
{
    (void)arg;
    const char *how = weft_http_param(x, "how");
    int status = atoi(weft_http_param(x, "status")), rc = 0;
    CHECK_INT(weft_http_status(x), ==, 0);
    weft_http_add_header(x, "X-Own", "1");
    if (!strcmp(how, "reply"))
        return weft_http_reply(x, status, "text/plain", "body", 4);
    if (!strcmp(how, "length"))
        rc = weft_http_add_header(x, "Content-Length", "4");
    if (rc == 0)
        rc = weft_http_begin(x, status);
    CHECK_INT(weft_http_status(x), ==, rc == 0 ? status : 0);
    if (rc == 0)
        rc = weft_http_write(x, "body", 4);
    return rc != 0 ? rc : weft_http_end(x);
}

/* Returns -{errno}, or what was asked for otherwise. */
static int fails(weft_exchange *x, void *arg)
{
    (void)arg;
    weft_http_add_header(x, "X-Own", "1"); /* for an answer that is not to come */
    weft_http_add_header(x, "Content-Length", "1000");
    return -atoi(weft_http_param(x, "errno"));
}

static int does_nothing(weft_exchange *x, void *arg)
{
    (void)x;
    (void)arg;
    return 0;
}

/* All that reply refuses; after that it answers. */
static int replies_wrongly(weft_exchange *x, void *arg)
{
    (void)arg;
    CHECK_INT(weft_http_reply(x, 199, NULL, "", 0), ==, -EINVAL);
    CHECK_INT(weft_http_reply(x, 100, NULL, "", 0), ==, -EINVAL);
    CHECK_INT(weft_http_reply(x, 600, NULL, "", 0), ==, -EINVAL);
    CHECK_INT(weft_http_reply(x, 0, NULL, "", 0), ==, -EINVAL);
    CHECK_INT(weft_http_reply(x, -1, NULL, "", 0), ==, -EINVAL);
    CHECK_INT(weft_http_reply(x, 200, "a\r\nb: c", "", 0), ==, -EINVAL);
    CHECK_INT(weft_http_reply(x, 200, "a\nb", "", 0), ==, -EINVAL);
    CHECK_INT(weft_http_reply(x, 200, " a", "", 0), ==, -EINVAL);
    CHECK_INT(weft_http_begin(x, 600), ==, -EINVAL);
    CHECK_INT(weft_http_begin(x, 101), ==, -EINVAL);
    CHECK_INT(weft_http_add_header(x, "Content-Length", "3"), ==, 0);
    CHECK_INT(weft_http_reply(x, 200, NULL, "abcd", 4), ==, -EINVAL);
    CHECK_INT(weft_http_status(x), ==, 0);
    CHECK_INT(weft_http_reply(x, 599, NULL, "abc", 3), ==, 0);
    CHECK_INT(weft_http_reply(x, 200, NULL, "abc", 3), ==, -EALREADY);
    CHECK_INT(weft_http_begin(x, 200), ==, -EALREADY);
    CHECK_INT(weft_http_redirect(x, 302, "/"), ==, -EALREADY);
    CHECK_INT(weft_http_write(x, "a", 1), ==, -EINVAL);
    CHECK_INT(weft_http_flush(x), ==, 0);
    CHECK_INT(weft_http_end(x), ==, -EINVAL);
    CHECK_INT(weft_http_status(x), ==, 599);
    return -EIO; /* after an answer that is complete a failure changes nothing */
}

static int redirects(weft_exchange *x, void *arg)
{
    (void)arg;
    int status = atoi(weft_http_param(x, "status"));
    CHECK_INT(weft_http_redirect(x, status, "/a\r\nSet-Cookie: b"), ==, -EINVAL);
    CHECK_INT(weft_http_redirect(x, status, ""), ==, -EINVAL);
    CHECK_INT(weft_http_redirect(x, status, NULL), ==, -EINVAL);
    return weft_http_redirect(x, status, "/to?a=b");
}

static const struct served_route routes[] = {{"GET /bytes/{size}", says_bytes, NULL},
                                             {"GET /status/{how}/{status}", says_status, NULL},
                                             {"/fail/{errno}", fails, NULL},
                                             {"/nothing", does_nothing, NULL},
                                             {"GET /wrong", replies_wrongly, NULL},
                                             {"GET /redirect/{status}", redirects, NULL},
                                             {"GET /", says_hello, NULL},
                                             {0}};

static void begin(struct served *s, struct client *c)
{
    served_begin(s, NULL, routes);
    client_open(c, s->port);
}

static void end(struct served *s, struct client *c)
{
    client_close(c);
    served_end(s);
}

/* Asks for a path on a connection that stays. */
static void get(struct client *c, const char *method, const char *path, struct answer *a)
{
    char request[256];
    snprintf(request, sizeof request, "%s %s" END, method, path);
    client_say(c, request);
    const char *wrong = client_answer(c, a, !strcmp(method, "HEAD"));
    CHECK_STR(wrong ? wrong : "", "");
}

static void expect_bytes(struct client *c, size_t size)
{
    struct answer a;
    size_t wrong = 0;
    CHECK_PTR(client_answer(c, &a, false), ==, NULL);
    CHECK_INT(a.size, ==, size);
    for (size_t i = 0; i < a.size; i++)
        wrong += a.body[i] != (char)(i * 3 + i / 253);
    CHECK_INT(wrong, ==, 0);
    answer_free(&a);
}

/* Behind one another, so that each begins somewhere else in the output. */
TEST(replies_of_every_size_are_whole)
{
    static const size_t sizes[] = {0,     1,     4096, 4097,    12000, 16000,   16384,
                                   16385, 40000, 100,  1 << 20, 5,     3 << 20, 16383};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    char batch[COUNT * 64];
    size_t end_of_batch = 0;
    struct served s;
    struct client c;
    begin(&s, &c);
    for (size_t i = 0; i < COUNT; i++)
        end_of_batch += (size_t)sprintf(batch + end_of_batch, "GET /bytes/%zu" END, sizes[i]);
    client_send(&c, batch, end_of_batch);
    for (size_t i = 0; i < COUNT; i++)
        expect_bytes(&c, sizes[i]);
    client_send(&c, batch, end_of_batch);
    for (size_t i = 0; i < COUNT; i++)
        expect_bytes(&c, sizes[i]);
    end(&s, &c);
}

TEST(statuses_without_a_body_have_none)
{
    static const char *const hows[] = {"reply", "length", "parts"};
    static const int statuses[] = {204, 205, 304};
    struct served s;
    struct client c;
    struct answer a;
    begin(&s, &c);
    for (int i = 0; i < 9; i++) {
        char path[64];
        int status = statuses[i / 3];
        snprintf(path, sizeof path, "/status/%s/%d", hows[i % 3], status);
        get(&c, "GET", path, &a);
        CHECK_INT(a.status, ==, status);
        CHECK_INT(a.size, ==, 0);
        CHECK_STR(answer_field(&a, "X-Own"), "1");
        CHECK_PTR(answer_field(&a, "Transfer-Encoding"), ==, NULL);
        const char *length = answer_field(&a, "Content-Length");
        CHECK_STR(length ? length : "", status == 205 ? "0" : status == 304 && i % 3 == 1 ? "4" : "");
        CHECK(!a.ends_with_close);
        answer_free(&a);
        get(&c, "GET", "/", &a); /* nothing was left behind */
        CHECK_STR(a.body, "hello\n");
        answer_free(&a);
    }
    end(&s, &c);
}

/* All lines of a head but Date and Transfer-Encoding, which is not known before the body (RFC 9110, section 9.3.2). */
static void head_text(const struct answer *a, char *to)
{
    to += sprintf(to, "%d\n", a->status);
    for (unsigned i = 0; i < a->count; i++) {
        const char *name = a->fields[i].name;
        if (strcmp(name, "Date") != 0 && strcmp(name, "Transfer-Encoding") != 0)
            to += sprintf(to, "%s: %s\n", name, a->fields[i].value);
    }
}

TEST(head_has_the_head_of_get_and_no_body)
{
    static const char *const paths[] = {"/status/reply/200",  "/status/length/200",
                                        "/status/parts/200",  "/status/reply/404",
                                        "/status/reply/204",  "/status/parts/205",
                                        "/status/length/304", "/bytes/16384",
                                        "/bytes/1048576",     "/fail/2",
                                        "/nothing",           "/nowhere"};
    struct served s;
    struct client c;
    struct answer a;
    begin(&s, &c);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char of_get[1024], of_head[1024];
        get(&c, "GET", paths[i], &a);
        head_text(&a, of_get);
        answer_free(&a);
        get(&c, "HEAD", paths[i], &a);
        head_text(&a, of_head);
        answer_free(&a);
        CHECK_STR(of_head, of_get);
    }
    get(&c, "GET", "/", &a);
    CHECK_STR(a.body, "hello\n");
    answer_free(&a);
    end(&s, &c);
}

TEST(each_errno_of_a_handler_has_its_status)
{
    static const struct {
        int error, status;
    } table[] = {{ENOENT, 404},    {EACCES, 403},     {EPERM, 403},  {EINVAL, 400}, {EBADMSG, 400}, {EOPNOTSUPP, 405},
                 {ETIMEDOUT, 408}, {EFBIG, 413},      {EAGAIN, 503}, {EBUSY, 503},  {ETIME, 504},   {EIO, 500},
                 {ENOMEM, 500},    {ECONNRESET, 500}, {EPIPE, 500},  {99999, 500},  {ENODATA, 500}};
    struct served s;
    struct client c;
    struct answer a;
    begin(&s, &c);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char path[64], body[64];
        snprintf(path, sizeof path, "/fail/%d", table[i].error);
        snprintf(body, sizeof body, "%s\n", weft_http_reason(table[i].status));
        get(&c, "GET", path, &a); /* the connection is kept */
        CHECK_INT(a.status, ==, table[i].status);
        CHECK_STR(a.body, body);
        CHECK_PTR(answer_field(&a, "X-Own"), ==, NULL);
        answer_free(&a);
    }
    end(&s, &c);
}

TEST(a_handler_that_answers_nothing_gives_204)
{
    struct served s;
    struct client c;
    struct answer a;
    begin(&s, &c);
    get(&c, "GET", "/nothing", &a);
    CHECK_INT(a.status, ==, 204);
    answer_free(&a);
    get(&c, "POST", "/nothing", &a);
    CHECK_INT(a.status, ==, 204);
    answer_free(&a);
    end(&s, &c);
}

TEST(after_a_refused_reply_the_handler_can_answer_and_a_complete_answer_stays)
{
    struct served s;
    struct client c;
    struct answer a;
    begin(&s, &c);
    for (int i = 0; i < 2; i++) {
        get(&c, "GET", "/wrong", &a);
        CHECK_INT(a.status, ==, 599);
        CHECK_STR(a.body, "abc");
        CHECK_INT(answer_field_count(&a, "Content-Length"), ==, 1);
        answer_free(&a);
    }
    weft_http_figures f = served_figures(&s);
    CHECK_INT(f.status[5], ==, 2);
    CHECK_INT(f.cut, ==, 0);
    end(&s, &c);
}

TEST(a_redirect_has_its_location_and_only_some_statuses)
{
    static const int statuses[] = {301, 302, 303, 307, 308, 300, 304, 305, 200, 404};
    struct served s;
    struct client c;
    struct answer a;
    begin(&s, &c);
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        char path[64];
        snprintf(path, sizeof path, "/redirect/%d", statuses[i]);
        get(&c, "GET", path, &a);
        CHECK_INT(a.status, ==, i < 5 ? statuses[i] : 400); /* -EINVAL */
        const char *location = answer_field(&a, "Location");
        CHECK_STR(location ? location : "", i < 5 ? "/to?a=b" : "");
        answer_free(&a);
    }
    end(&s, &c);
}

TESTS(reply, replies_of_every_size_are_whole, statuses_without_a_body_have_none, head_has_the_head_of_get_and_no_body,
      each_errno_of_a_handler_has_its_status, a_handler_that_answers_nothing_gives_204,
      after_a_refused_reply_the_handler_can_answer_and_a_complete_answer_stays,
      a_redirect_has_its_location_and_only_some_statuses)
