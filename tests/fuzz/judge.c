/*
 * fuzz/judge.c: see judge.h.
 *
 *  - The answers belong to the first requests, in their order. Each is well-formed, and has a status that the server may
 *    give. The bytes behind the last request get at most one answer, a refusal.
 *  - A request whose head breaks a rule gets the status of that rule, and is the last request.
 *  - No answer follows an answer that says "close". A complete request behind another complete answer has an answer.
 *  - Each answer is complete, except the last one, if its handler fails half-way.
 *  - The server resets the connection only if an answer may be cut, or the client sends bytes behind its last request.
 *  - Handlers such as /hello and /echo give the right content.
 */
#include "fuzz/judge.h"

#include <stdlib.h>

#include "fuzz/answers.h"
#include "fuzz/reference.h"
#include "fuzz/rules.h"
#include "fuzz/site.h"

struct request {
    struct rules_head head;
    bool is_complete; /* the head, and its body */
    bool has_head;
    struct text body; /* decoded */
    size_t used;
};

/* Whether nothing of the answers is lost. */
static bool is_whole(const struct conversation *c)
{
    return c->is_patient && !c->was_reset;
}

/* The request at the beginning of the text. Its body goes to `room`. */
static void read_request(struct request *r, struct text sent, char *room)
{
    struct reference_body b;
    size_t size = rules_head_size(sent.at, sent.size);
    memset(r, 0, sizeof *r);
    r->has_head = size > 0;
    if (size == 0)
        return;
    rules_read(&r->head, sent.at, size, SITE_HEAD, SITE_FIELDS);
    r->used = size;
    if (r->head.broken)
        return;
    struct text rest = {sent.at + size, sent.size - size};
    if (r->head.is_chunked) {
        char *plain = malloc(rest.size + 1);
        reference_read(&b, rest.at, rest.size, room, plain);
        free(plain);
        r->body = (struct text){room, b.size};
        r->is_complete = b.end == REFERENCE_ENDED;
        r->used += b.used;
    } else {
        r->is_complete = r->head.length <= rest.size;
        r->body = (struct text){rest.at, r->is_complete ? (size_t)r->head.length : rest.size};
        r->used += r->body.size;
    }
}

static bool is_allowed(int status, const struct request *r)
{
    static const short allowed[] = {200, 204, 206, 301, 303, 304, 400, 403, 404, 405, 408, 412,
                                    413, 414, 416, 417, 421, 431, 500, 501, 503, 504, 505};
    bool may_choose = r->has_head && r->head.path.size > 8 && memcmp(r->head.path.at, "/status/", 8) == 0;
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        if (allowed[i] == status)
            return true;
    }
    return may_choose;
}

static bool is_get(const struct request *r)
{
    return text_is(r->head.method, "GET");
}

/* Whether its handler may fail half-way. */
static bool may_be_cut(const struct request *r)
{
    return text_is(r->head.path, "/cut") || text_is(r->head.path, "/late") || !r->is_complete ||
           (text_is(r->head.path, "/parts") && r->body.size > SITE_BODY);
}

static void expect_body(const struct answer *a, const char *body, size_t size)
{
    FUZZ_CHECK_INT(a->status, 200);
    FUZZ_CHECK_INT(a->body.size, size);
    FUZZ_CHECK(size == 0 || memcmp(a->body.at, body, size) == 0);
}

/* If the request has no body, the connection ends only if the client asks for that. */
static void expect_hello(const struct answer *a, const struct request *r)
{
    expect_body(a, "hello\n", 6);
    if (r->body.size == 0 && !r->head.is_chunked)
        FUZZ_CHECK_INT(a->says_close, !r->head.keeps_alive);
}

/* What handlers answer to a complete request. */
static void check_content(const struct answer *a, const struct request *r)
{
    struct text path = r->head.path;
    bool is_post = text_is(r->head.method, "POST");
    if (text_is(path, "/hello") && (is_get(r) || is_post))
        expect_hello(a, r);
    else if (text_is(path, "/chunks") && is_get(r))
        expect_body(a, "onetwo", 6);
    else if (text_is(path, "/waits") && is_get(r))
        expect_body(a, "waited", 6);
    else if (text_is(path, "/own") && is_get(r))
        expect_body(a, "four", 4);
    else if (text_is(path, "/large") && is_get(r))
        expect_body(a, site_large, sizeof site_large);
    else if (text_is(path, "/after") && is_post && r->body.size <= SITE_BODY)
        expect_body(a, rules_field(&r->head, "x").at, rules_field(&r->head, "x").size);
    else if ((text_is(path, "/echo") || text_is(path, "/parts")) && is_post) {
        if (r->body.size <= SITE_BODY)
            expect_body(a, r->body.at, r->body.size);
        else if (text_is(path, "/echo"))
            FUZZ_CHECK_INT(a->status, 413);
    }
}

/* What handlers must not have answered. */
static void check_lies(const struct answer *a, const struct request *r, const struct conversation *c)
{
    struct text path = r->head.path;
    bool is_post = text_is(r->head.method, "POST");
    if (is_get(r) && (text_is(path, "/late") || (text_is(path, "/cut") && r->head.minor == 1)))
        FUZZ_CHECK(!a->is_complete);
    if (is_post && !r->is_complete && (text_is(path, "/echo") || (text_is(path, "/parts") && r->head.minor == 1)))
        FUZZ_CHECK(a->status != 200 || !a->is_complete);
    if (is_get(r) && text_is(path, "/cut") && c->can_reset)
        FUZZ_CHECK(!is_whole(c) || !a->is_complete);
    if (text_is(path, "/fails"))
        FUZZ_CHECK(!answer_field(a, "X-Lost").at);
}

static void check_answer(const struct answer *a, const struct request *r, const struct conversation *c)
{
    if (!is_allowed(a->status, r))
        fuzz_fail(__FILE__, __LINE__, "the status is %d", a->status);
    if (!r->has_head) {
        FUZZ_CHECK(a->status >= 400 && a->says_close && a->is_complete);
        return;
    }
    if (r->head.broken) {
        if (!rules_have_status(r->head.broken, a->status))
            fuzz_fail(__FILE__, __LINE__, "%d is the answer to a head that breaks %#x", a->status, r->head.broken);
        FUZZ_CHECK(a->says_close && a->is_complete);
        return;
    }
    FUZZ_CHECK(a->is_complete || may_be_cut(r));
    FUZZ_CHECK(r->head.keeps_alive || a->says_close);
    FUZZ_CHECK(!a->says_keep_alive || r->head.minor == 0);
    FUZZ_CHECK(r->head.minor == 1 || a->says_close || a->says_keep_alive);
    FUZZ_CHECK(r->head.minor == 1 || !a->is_chunked);
    check_lies(a, r, c);
    if (r->is_complete && a->is_complete && !text_is(r->head.method, "HEAD"))
        check_content(a, r);
}

/* Reads an answer, and before it a 100 Continue if the request has asked for that. False: there is none. */
static bool next_answer(struct answer *a, struct text *received, const struct request *r, char *room)
{
    bool is_head = r->has_head && text_is(r->head.method, "HEAD");
    bool may_continue = r->has_head && !r->head.broken && r->head.expects_continue;
    do {
        if (received->size == 0)
            return false;
        const char *fault = answer_read(a, received->at, received->size, is_head && !r->head.broken, room);
        if (fault)
            fuzz_fail(__FILE__, __LINE__, "the answer is malformed: %s", fault);
        *received = (struct text){received->at + a->used, received->size - a->used};
        if (a->status == 0 || a->status >= 200)
            return true;
        FUZZ_CHECK(a->status == 100 && may_continue);
        may_continue = false;
    } while (true);
}

/* There is no answer: checks that none was due. */
static void check_silence(const struct request *r, const struct conversation *c)
{
    if (is_whole(c) && r->has_head && (r->head.broken || (r->is_complete && !may_be_cut(r))))
        fuzz_fail(__FILE__, __LINE__, "a request has no answer: %.*s", (int)r->head.target.size, r->head.target.at);
}

void judge(const struct conversation *c)
{
    struct text sent = {c->sent, c->sent_size}, received = {c->received, c->received_size};
    char *body = malloc(c->sent_size + 1), *room = malloc(c->received_size + 1);
    bool ends = false, may_reset = false;
    while (!ends) {
        struct request r;
        struct answer a;
        read_request(&r, sent, body);
        may_reset |= r.has_head && (may_be_cut(&r) || !r.head.keeps_alive);
        if (!next_answer(&a, &received, &r, room)) {
            check_silence(&r, c);
            break;
        }
        if (a.ends_with_connection && !is_whole(c))
            a.is_complete = false; /* the client has left before its end, perhaps */
        if (a.status == 0 || !a.is_complete) {
            FUZZ_CHECK(!is_whole(c) || (r.has_head && may_be_cut(&r)));
            FUZZ_CHECK_INT(received.size, 0);
        }
        if (a.status != 0 && (a.is_complete || is_whole(c)))
            check_answer(&a, &r, c);
        ends = a.status == 0 || !a.is_complete || a.says_close || !r.is_complete;
        sent = (struct text){sent.at + r.used, sent.size - r.used};
    }
    FUZZ_CHECK_INT(received.size, 0);
    FUZZ_CHECK(!c->is_patient || !c->was_reset || may_reset);
    free(body);
    free(room);
}
