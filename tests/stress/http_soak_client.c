/*
 * stress/http_soak_client.c: see http_soak.h: what the clients of the soak do. Most exchanges are checked to their last byte;
 * others end in the middle: by a reset, a close, or a half-close.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stress/http_soak.h"
#include "support/test.h"
#include "unit/http/client.h"

#define CHUNKED "POST /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
#define CHILDREN "GET /children HTTP/1.1\r\nHost: a\r\n\r\n"

static unsigned pick(struct soak_client *me, unsigned n)
{
    return (unsigned)(test_random(&me->random) >> 33) % n;
}

/* How the client leaves: all ways are right after an exchange that is complete. */
static void leave(struct soak_client *me, struct client *c)
{
    switch (pick(me, 3)) {
    case 0:
        soak_add(&soak_total.resets, 1);
        client_abort(c);
        break;
    case 1:
        soak_add(&soak_total.halves, 1);
        client_end(c);
        if (!me->listens) /* a half-close does not end a stream */
            client_drain(c);
        client_close(c);
        break;
    default:
        soak_add(&soak_total.closes, 1);
        client_close(c);
    }
}

/*
 * Reads an answer and checks it. True: the exchange is complete. A server that is disturbed may refuse, or end before or
 * in the answer.
 */
static bool expect(struct soak_client *me, struct client *c, int status, const char *body)
{
    struct answer a;
    const char *wrong = client_answer(c, &a, false);
    bool is_refused = !wrong && (a.status == 503 || a.status == 500); /* 500: its handler was cancelled */
    bool is_right = !wrong && a.status == status && (!body || !strcmp(a.body, body));
    if (is_right)
        soak_add(&soak_total.answers, 1);
    else if (is_refused)
        soak_add(&soak_total.refused, 1);
    else if (wrong)
        soak_add(&soak_total.cut, 1);
    if (!is_right && (me->is_calm || !(wrong || is_refused)))
        test_failed(__FILE__, __LINE__, "%s; status %d instead of %d, body \"%.40s\" instead of \"%.40s\"",
                    wrong ? wrong : "an answer", a.status, status, a.body ? a.body : "", body ? body : "(any)");
    answer_free(&a);
    return is_right;
}

/* Several requests after each other, each with a number that the answer repeats. */
static void asks_in_turn(struct soak_client *me, struct client *c)
{
    char request[128], body[32];
    for (unsigned i = pick(me, 8) + 1; i > 0; i--) {
        unsigned id = pick(me, 1000000);
        sprintf(request, "GET /echo?id=%u HTTP/1.1\r\nHost: a\r\n\r\n", id);
        sprintf(body, "id %u", id);
        if (!client_say(c, request) || !expect(me, c, 200, body))
            return;
    }
}

/* The same in one batch. Some handlers wait. */
static void pipelines(struct soak_client *me, struct client *c)
{
    char batch[16 * 64] = "", body[32];
    unsigned ids[16], count = pick(me, 16) + 1;
    for (unsigned i = 0; i < count; i++) {
        ids[i] = pick(me, 1000000);
        sprintf(batch + strlen(batch), "GET /%s?id=%u HTTP/1.1\r\nHost: a\r\n\r\n", pick(me, 4) ? "echo" : "slow",
                ids[i]);
    }
    client_say(c, batch);
    for (unsigned i = 0; i < count; i++) {
        sprintf(body, "id %u", ids[i]);
        if (!expect(me, c, 200, body))
            return;
    }
}

static char *large_text(size_t size)
{
    char *text = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        text[i] = soak_byte(i);
    text[size] = '\0';
    return text;
}

static void posts_sized(struct soak_client *me, struct client *c)
{
    char head[128], sum[32];
    size_t size = pick(me, 100000);
    char *body = large_text(size);
    sprintf(head, "POST /sum HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", size);
    sprintf(sum, "%zu bytes", size);
    if (client_say(c, head) && client_send(c, body, size))
        expect(me, c, 200, sum);
    free(body);
}

static void posts_chunks(struct soak_client *me, struct client *c)
{
    char frame[32], sum[32];
    size_t size = pick(me, 20000), at = 0;
    char *body = large_text(size);
    bool sends = client_say(c, CHUNKED);
    while (sends && at < size) {
        size_t part = 1 + pick(me, 3000);
        part = part < size - at ? part : size - at;
        sprintf(frame, "%zx\r\n", part);
        sends = client_say(c, frame) && client_send(c, body + at, part) && client_say(c, "\r\n");
        at += part;
    }
    sprintf(sum, "%zu bytes", size);
    if (sends && client_say(c, "0\r\n\r\n") && expect(me, c, 200, sum))
        asks_in_turn(me, c);
    free(body);
}

/* The handler does not read the body. */
static void posts_for_nothing(struct soak_client *me, struct client *c)
{
    char head[128];
    size_t size = pick(me, 600000);
    char *body = large_text(size);
    sprintf(head, "POST /ignore HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", size);
    if (client_say(c, head) && client_send(c, body, size))
        expect(me, c, 200, "ignored");
    free(body);
}

static void gets_much(struct soak_client *me, struct client *c)
{
    static const char *const paths[] = {"/big", "/chunks", "/file"};
    char request[64];
    struct answer a;
    sprintf(request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", paths[pick(me, 3)]);
    client_say(c, request);
    const char *wrong = client_answer(c, &a, false);
    bool is_whole = !wrong && a.status == 200 && a.size == SOAK_BIG;
    for (size_t i = 0; is_whole && i < a.size; i += 97)
        CHECK_INT(a.body[i], ==, soak_byte(i));
    if (me->is_calm && !is_whole)
        test_failed(__FILE__, __LINE__, "%s: %s, %zu bytes", request, wrong ? wrong : "an answer", a.size);
    soak_add(is_whole ? &soak_total.answers : &soak_total.cut, 1);
    answer_free(&a);
}

/* The server must cut it: never may it look complete. */
static void gets_a_failure(struct soak_client *me, struct client *c)
{
    struct answer a;
    client_say(c, "GET /fails HTTP/1.1\r\nHost: a\r\n\r\n");
    const char *wrong = client_answer(c, &a, false);
    CHECK(wrong || a.status == 503);
    soak_add(&soak_total.cut, 1);
    answer_free(&a);
    (void)me;
}

/* Some events of a stream that would go on. */
static void listens(struct soak_client *me, struct client *c)
{
    char some[512];
    me->listens = true;
    client_say(c, "GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    for (unsigned i = pick(me, 4); i > 0; i--) {
        if (read(c->fd, some, sizeof some) <= 0)
            return;
    }
}

static void sends_slowly(struct soak_client *me, struct client *c)
{
    static const char request[] = "GET /echo?id=5 HTTP/1.1\r\nHost: a\r\nX-Slow: 1\r\n\r\n";
    unsigned slow = pick(me, 40);
    for (unsigned i = 0; i < slow; i++) {
        if (!client_send(c, request + i, 1))
            return;
        usleep(pick(me, 300));
    }
    if (client_say(c, request + slow))
        expect(me, c, 200, "id 5");
}

static void sends_nonsense(struct soak_client *me, struct client *c)
{
    char text[64];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(1 + pick(me, 255));
    memcpy(text + sizeof text - 4, "\r\n\r\n", 4);
    if (client_send(c, text, sizeof text))
        expect(me, c, 400, NULL);
}

/* Ends at any byte of a request, in some way. */
static void breaks_off(struct soak_client *me, struct client *c)
{
    static const char *const requests[] = {
        "GET /big HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /slow?id=1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n01234567890123456789",
        CHUNKED "5\r\nabcde\r\n7;x=y\r\nabcdefg\r\n0\r\nA: b\r\n\r\n",
        CHILDREN CHILDREN,
    };
    const char *request = requests[pick(me, 5)];
    client_send(c, request, pick(me, (unsigned)strlen(request) + 1));
    if (pick(me, 2))
        usleep(pick(me, 2000)); /* it is under way */
}

static void has_children(struct soak_client *me, struct client *c)
{
    client_say(c, CHILDREN);
    expect(me, c, 200, "children");
}

void soak_visit(struct soak_client *me)
{
    static void (*const things[])(struct soak_client *, struct client *) = {
        asks_in_turn, pipelines,    posts_sized,    posts_chunks, posts_for_nothing, gets_much,    gets_a_failure,
        listens,      sends_slowly, sends_nonsense, breaks_off,   breaks_off,        has_children, breaks_off};
    struct client c;
    me->listens = false;
    client_open_from(&c, me->port, me->address);
    soak_add(&soak_total.connections, 1);
    things[pick(me, sizeof things / sizeof things[0])](me, &c);
    leave(me, &c);
}
