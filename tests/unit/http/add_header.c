/*
 * Fields that a handler adds: what is refused, and how the others arrive.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

/* Runs in the handler: `add` is what the test wants to add. */
static void (*add)(weft_exchange *x);

static int adds(weft_exchange *x, void *arg)
{
    add(x);
    return says_hello(x, arg);
}

/* The same with an answer in parts. */
static int adds_in_parts(weft_exchange *x, void *arg)
{
    (void)arg;
    add(x);
    int rc = weft_http_begin(x, 200);
    return rc != 0 ? rc : weft_http_write(x, "hello\n", 6);
}

static const struct served_route routes[] = {{"GET /", adds, NULL}, {"GET /parts", adds_in_parts, NULL}, {0}};

/* What the client gets when the handler has added what `fn` adds: as a reply and in parts. `check` looks at each. */
static void check_added(void (*fn)(weft_exchange *x), void (*check)(const struct answer *a))
{
    struct served s;
    struct answer a;
    add = fn;
    served_begin(&s, NULL, routes);
    for (int i = 0; i < 2; i++) {
        const char *wrong = ask(
            s.port, i == 0 ? "GET / HTTP/1.1\r\nHost: a\r\n\r\n" : "GET /parts HTTP/1.1\r\nHost: a\r\n\r\n", &a);
        CHECK_STR(wrong ? wrong : "", "");
        CHECK_INT(a.status, ==, 200);
        CHECK_STR(a.body ? a.body : "", "hello\n");
        if (!wrong)
            check(&a);
        answer_free(&a);
    }
    served_end(&s);
}

static void check_value(const struct answer *a, const char *name, const char *value)
{
    const char *is = answer_field(a, name);
    CHECK_STR(is ? is : "(none)", value);
}

static void add_good(weft_exchange *x)
{
    CHECK_INT(weft_http_add_header(x, "X-One", "1"), ==, 0);
    CHECK_INT(weft_http_add_header(x, "x-!#$%&'*+-.^_`|~9", "a\tb c: \"d\""), ==, 0);
    CHECK_INT(weft_http_add_header(x, "X-Empty", ""), ==, 0);
    CHECK_INT(weft_http_add_header(x, "X-High", "\x80\xff\xc3\xa4"), ==, 0);
    CHECK_INT(weft_http_add_header(x, "Set-Cookie", "a=1"), ==, 0);
    CHECK_INT(weft_http_add_header(x, "Set-Cookie", "b=2"), ==, 0);
}

static void check_good(const struct answer *a)
{
    check_value(a, "X-One", "1");
    check_value(a, "x-!#$%&'*+-.^_`|~9", "a\tb c: \"d\"");
    check_value(a, "X-Empty", "");
    check_value(a, "X-High", "\x80\xff\xc3\xa4");
    CHECK_INT(answer_field_count(a, "Set-Cookie"), ==, 2);
    check_value(a, "Set-Cookie", "a=1");
}

TEST(added_fields_arrive_as_they_are)
{
    check_added(add_good, check_good);
}

static void add_bad_values(weft_exchange *x)
{
    static const char *const values[] = {"a\r\nX-Evil: 1",
                                         "a\nX-Evil: 1",
                                         "a\rX-Evil: 1",
                                         "a\r\n\r\nbody",
                                         "\n",
                                         "\r",
                                         "a\x01",
                                         "\x1f",
                                         "a\x7f",
                                         "a\013b",
                                         "\x1b[31m",
                                         " a",
                                         "a ",
                                         "\ta",
                                         "a\t",
                                         " ",
                                         "X-Evil: 1\r\n"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        CHECK_INT(weft_http_add_header(x, "X-Evil", values[i]), ==, -EINVAL);
    CHECK_INT(weft_http_add_header(x, "X-Evil", NULL), ==, -EINVAL);
}

static void add_bad_names(weft_exchange *x)
{
    static const char *const names[] = {"",           "X Evil",  "X-Evil:",   "X-Evil ", " X-Evil",   "X-Evil\r\n",
                                        "X\nEvil",    "X\rEvil", "X\001Evil", "X(Evil",  "X\xc3\xa4", "X/Evil",
                                        "\"X-Evil\"", "X@Evil",  "X,Evil",    "X\tEvil", "X\x7f"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK_INT(weft_http_add_header(x, names[i], "1"), ==, -EINVAL);
    CHECK_INT(weft_http_add_header(x, NULL, "1"), ==, -EINVAL);
}

static void add_reserved(weft_exchange *x)
{
    static const char *const names[] = {"Date", "Connection", "Transfer-Encoding", "Keep-Alive", "Upgrade", "Trailer",
                                        "date", "CONNECTION", "transfer-encoding", "keep-ALIVE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK_INT(weft_http_add_header(x, names[i], "close"), ==, -EINVAL);
    CHECK_INT(weft_http_add_header(x, "Dates", "1"), ==, 0);
    CHECK_INT(weft_http_add_header(x, "Connection-", "1"), ==, 0);
}

static void check_none(const struct answer *a)
{
    for (unsigned i = 0; i < a->count; i++)
        CHECK(!strstr(a->fields[i].name, "Evil") && !strstr(a->fields[i].value, "Evil"));
    CHECK_INT(answer_field_count(a, "Date"), ==, 1);
    CHECK_PTR(answer_field(a, "Connection"), ==, NULL);
    CHECK_PTR(answer_field(a, "Upgrade"), ==, NULL);
}

TEST(values_with_line_ends_and_control_characters_are_refused)
{
    check_added(add_bad_values, check_none);
}

TEST(names_that_are_no_tokens_are_refused)
{
    check_added(add_bad_names, check_none);
}

TEST(names_that_the_server_writes_are_refused)
{
    check_added(add_reserved, check_none);
}

static void add_lengths(weft_exchange *x)
{
    static const char *const values[] = {
        "", "-1", "+6", "6 ", " 6", "0x6", "6a", "6, 6", "6.0", "99999999999999999999", "18446744073709551616"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        CHECK_INT(weft_http_add_header(x, "Content-Length", values[i]), ==, -EINVAL);
    CHECK_INT(weft_http_add_header(x, "content-length", "6"), ==, 0);
    CHECK_INT(weft_http_add_header(x, "Content-Length", "6"), ==, -EINVAL);
}

static void check_length(const struct answer *a)
{
    CHECK_INT(answer_field_count(a, "Content-Length"), ==, 1);
    check_value(a, "Content-Length", "6");
}

TEST(content_length_must_be_a_number_and_can_be_added_once)
{
    check_added(add_lengths, check_length);
}

enum { LARGE = 40000, MANY = 40 };

static void add_much(weft_exchange *x)
{
    static char value[LARGE + 1];
    char name[16];
    memset(value, 'v', LARGE);
    CHECK_INT(weft_http_add_header(x, "X-Large", value), ==, 0);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "X-%d", i);
        CHECK_INT(weft_http_add_header(x, name, name), ==, 0);
    }
}

static void check_much(const struct answer *a)
{
    char name[16];
    const char *large = answer_field(a, "X-Large");
    CHECK_INT(large ? strlen(large) : 0, ==, LARGE);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "X-%d", i);
        check_value(a, name, name);
    }
}

TEST(fields_may_be_larger_than_the_output)
{
    check_added(add_much, check_much);
}

static int says_type(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, "text/plain; charset=\"utf-8\"", "a", 1);
}

TEST(an_answer_has_date_and_the_server_field_once)
{
    struct served s;
    struct answer a;
    served_begin(&s, &(weft_http_opts){.server = "weft (test)"},
                 (struct served_route[]){{"GET /", says_type, NULL}, {0}});
    CHECK_PTR(ask(s.port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", &a), ==, NULL);
    check_value(&a, "Server", "weft (test)");
    check_value(&a, "Content-Type", "text/plain; charset=\"utf-8\"");
    CHECK_INT(answer_field_count(&a, "Date"), ==, 1);
    CHECK_INT(a.count, ==, 4);
    answer_free(&a);
    served_end(&s);
}

TESTS(add_header, added_fields_arrive_as_they_are, values_with_line_ends_and_control_characters_are_refused,
      names_that_are_no_tokens_are_refused, names_that_the_server_writes_are_refused,
      content_length_must_be_a_number_and_can_be_added_once, fields_may_be_larger_than_the_output,
      an_answer_has_date_and_the_server_field_once)
