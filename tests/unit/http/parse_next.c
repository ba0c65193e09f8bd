/*
 * Heads that follow each other in one buffer (wh_head_go_on): whatever the head before was, a head means what it means
 * when it is parsed alone. Heads are made at random from lines that are usual, odd or malformed.
 */
#include "unit/http/heads.h"

enum { ROUNDS = 4000, BUFFER = 8192 };

static const char *const lines[] = {"GET / HTTP/1.1\r\n",     "GET /a/longer/path?with=query HTTP/1.1\r\n",
                                    "GET /%41 HTTP/1.0\r\n",  "POST /x/.y HTTP/1.1\r\n",
                                    "OPTIONS * HTTP/1.1\r\n", "GET http://other.example:81/p HTTP/1.1\r\n",
                                    "\r\nGET / HTTP/1.1\r\n", "PURGE / HTTP/1.1\r\n",
                                    "GET / HTTP/1.2\r\n"};

static const char *const fields[] = {"Host: 127.0.0.1:43210\r\n",
                                     "Host: example.org\r\n",
                                     "host:\ta_b:80 \r\n",
                                     "Accept: */*\r\n",
                                     "User-Agent: a program with a long name/1.0 (and a comment about it)\r\n",
                                     "X_Y: odd name\r\n",
                                     "X-Empty:\r\n",
                                     "X: \xe4\r\n",
                                     "Connection: keep-alive\r\n",
                                     "Connection: close, upgrade\r\n",
                                     "Upgrade: h2c\r\n",
                                     "Content-Length: 7\r\n",
                                     "Transfer-Encoding: chunked\r\n",
                                     "Expect: 100-continue\r\n",
                                     "Host : x\r\n",
                                     "X: a\tb \t\r\n",
                                     "X: \x01\r\n"};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static size_t append(char *to, size_t at, const char *text)
{
    memcpy(to + at, text, strlen(text));
    return at + strlen(text);
}

/* Mostly a head that is accepted. */
static size_t make_head(char *to, uint64_t *random)
{
    uint64_t r = test_random(random);
    size_t size = append(to, 0, lines[r % 3 ? r / 3 % 3 : r / 3 % COUNT(lines)]);
    size = append(to, size, fields[r / 64 % 2]);
    for (unsigned i = 0, n = r / 256 % 5; i < n; i++)
        size = append(to, size, fields[3 + test_random(random) % (test_random(random) % 8 ? 6 : COUNT(fields) - 3)]);
    return append(to, size, "\r\n");
}

/* The next head: often with the fields of the one before, and now and then with a byte changed. */
static size_t make_next(char *to, const char *before, const struct wh_head *head, uint64_t *random)
{
    uint64_t r = test_random(random);
    if (r % 4 == 0)
        return make_head(to, random);
    size_t size = append(to, 0, lines[r / 4 % COUNT(lines)]);
    size_t fields_size = head->line + 2 - head->fields_at;
    memcpy(to + size, before + head->fields_at, fields_size);
    size += fields_size;
    if (r / 64 % 4 == 0)
        to[r / 256 % size] = "\0\r\n:, aZ\x7f"[r / 65536 % 10];
    return size;
}

/* Some slices of a head become strings, as when a handler asks for them. */
static void make_strings(char *bytes, const struct wh_head *head, uint64_t *random)
{
    uint64_t r = test_random(random);
    if (r % 4 != 0)
        return;
    for (uint32_t i = 0; i < head->count; i++) {
        if (r >> i & 16)
            bytes[head->fields[i].value.at + head->fields[i].value.size] = 0;
        if (r >> i & 32)
            bytes[head->fields[i].name.at + head->fields[i].name.size] = 0;
    }
}

static bool means_the_same(struct parsed *next, const char *bytes, size_t size)
{
    struct parsed alone;
    if (!parse_bytes(&alone, bytes, size))
        test_failed(__FILE__, __LINE__, "in parts it ends otherwise: %.*s", (int)size, bytes);
    return ended_alike(next, &alone);
}

TEST(a_head_means_the_same_behind_any_other)
{
    uint64_t random = test_seed();
    static char buffer[BUFFER + 1024];
    unsigned accepted = 0, repeated = 0;
    for (int i = 0; i < ROUNDS && !test_has_failed(); i++) {
        struct parsed p;
        size_t at = 0, size = make_head(buffer, &random);
        parsed_init(&p, 16384, HEAD_FIELDS);
        p.rc = wh_parse_head(&p.head, buffer, size);
        while (p.rc > 0 && at + 2048 < BUFFER) {
            char *before = buffer + at,
                 *next = before + size + test_random(&random) % 3 * 7; /* a body may lie between */
            make_strings(before, &p.head, &random);
            size = make_next(next, before, &p.head, &random);
            wh_head_go_on(&p.head, (uint32_t)(next - before));
            repeated += p.head.before.distance != 0;
            p.rc = wh_parse_head(&p.head, next, size);
            if (!means_the_same(&p, next, size))
                test_failed(__FILE__, __LINE__, "%d, otherwise than alone: %.*s", p.rc, (int)size, next);
            accepted += p.rc > 0;
            at = (size_t)(next - buffer);
        }
    }
    CHECK_INT(accepted, >, ROUNDS / 2);
    CHECK_INT(repeated, >, ROUNDS / 2);
}

TEST(a_head_that_comes_in_parts_behind_another_means_the_same)
{
    static char buffer[] = "GET /a HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nContent-Length: 3\r\n\r\nabc"
                           "GET http://b/ HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nContent-Length: 3\r\n\r\n";
    size_t first = strlen("GET /a HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nContent-Length: 3\r\n\r\n");
    const char *second = buffer + first + 3;
    size_t size = sizeof buffer - 1 - first - 3;
    for (size_t split = 0; split <= size; split++) {
        struct parsed p;
        parsed_init(&p, 16384, HEAD_FIELDS);
        p.rc = wh_parse_head(&p.head, buffer, sizeof buffer - 1);
        CHECK_INT(p.rc, ==, first);
        wh_head_go_on(&p.head, (uint32_t)first + 3);
        p.rc = wh_parse_head(&p.head, second, split);
        if (p.rc == 0)
            p.rc = wh_parse_head(&p.head, second, size);
        if (!means_the_same(&p, second, size))
            test_failed(__FILE__, __LINE__, "split at %zu", split);
        CHECK_INT(p.head.host.size, ==, 1);
    }
}

TESTS(http_parse_next, a_head_means_the_same_behind_any_other, a_head_that_comes_in_parts_behind_another_means_the_same)
