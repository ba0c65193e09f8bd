/*
 * unit/http/client.c: see client.h.
 */
#include "unit/http/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <weft/weft.h>

#include "support/test.h"

enum { PATIENCE = 60, PART = 64 * 1024 };

static void be_patient(const struct client *c)
{
    struct timeval patience = {.tv_sec = PATIENCE};
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

/* `buffer` and `from` may be 0 and NULL. Returns what connect(2) does. */
static int open_as(struct client *c, int port, int buffer, const char *from)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}, mine = {.sin_family = AF_INET};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *c = (struct client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    int one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (buffer > 0)
        setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    if (from) {
        mine.sin_addr.s_addr = inet_addr(from);
        CHECK_INT(bind(c->fd, (struct sockaddr *)&mine, sizeof mine), ==, 0);
    }
    int rc = connect(c->fd, (struct sockaddr *)&to, sizeof to);
    be_patient(c); /* not before: with a timeout, connect(2) would not go on after an interruption without a handler */
    return rc;
}

void client_open_small(struct client *c, int port, int buffer)
{
    CHECK_INT(open_as(c, port, buffer, NULL), ==, 0);
}

void client_open(struct client *c, int port)
{
    CHECK_INT(open_as(c, port, 0, NULL) == 0 ? 0 : -errno, ==, 0);
}

bool client_try_open(struct client *c, int port)
{
    if (open_as(c, port, 0, NULL) == 0)
        return true;
    client_close(c);
    return false;
}

void client_open_from(struct client *c, int port, const char *address)
{
    CHECK_INT(open_as(c, port, 0, address), ==, 0);
}

struct dial {
    const char *address;
    int fd;
};

static void *dials(void *arg)
{
    struct dial *d = arg;
    d->fd = weft_dial(d->address, weft_in(PATIENCE * WEFT_SEC));
    return NULL;
}

void client_open_at(struct client *c, const char *address)
{
    struct dial d = {.address = address};
    CHECK_INT(weft_run(dials, &d, NULL, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 1}), ==, 0);
    CHECK_INT(d.fd, >=, 0);
    *c = (struct client){.fd = d.fd};
    fcntl(c->fd, F_SETFL, 0);
    be_patient(c);
}

void client_close(struct client *c)
{
    close(c->fd);
    free(c->bytes);
    *c = (struct client){.fd = -1};
}

void client_abort(struct client *c)
{
    struct linger now = {.l_onoff = 1};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    client_close(c);
}

bool client_send(struct client *c, const void *bytes, size_t size)
{
    const char *p = bytes;
    while (size > 0) {
        ssize_t n = send(c->fd, p, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

bool client_say(struct client *c, const char *text)
{
    return client_send(c, text, strlen(text));
}

void client_end(struct client *c)
{
    shutdown(c->fd, SHUT_WR);
}

/* Reads more. False: the server has ended. */
static bool read_more(struct client *c)
{
    if (c->has_ended)
        return false;
    if (c->room - c->end < PART) {
        c->room = c->room * 2 + PART;
        c->bytes = realloc(c->bytes, c->room);
    }
    ssize_t n;
    do
        n = recv(c->fd, c->bytes + c->end, c->room - c->end, 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0) {
        c->error = n < 0 ? errno : 0;
        c->has_ended = true;
        return false;
    }
    c->reads++;
    c->end += (size_t)n;
    return true;
}

static bool need(struct client *c, size_t bytes)
{
    while (c->end - c->at < bytes) {
        if (!read_more(c))
            return false;
    }
    return true;
}

/* Bytes up to and with the first `text` from c->at on; 0: the server has ended before it. */
static size_t find(struct client *c, const char *text)
{
    size_t size = strlen(text);
    for (;;) {
        char *p = c->end - c->at >= size ? memmem(c->bytes + c->at, c->end - c->at, text, size) : NULL;
        if (p)
            return (size_t)(p - c->bytes) + size - c->at;
        if (!read_more(c))
            return 0;
    }
}

/* Cuts the head into strings. */
static const char *split_head(struct answer *a)
{
    char *line = a->head, *next;
    if (strncmp(line, "HTTP/1.1 ", 9) != 0 || strspn(line + 9, "0123456789") != 3 || line[12] != ' ')
        return "status line";
    a->status = atoi(line + 9);
    for (line = strstr(line, "\r\n") + 2; strncmp(line, "\r\n", 2) != 0; line = next) {
        char *end = strstr(line, "\r\n"), *colon = strchr(line, ':');
        next = end + 2;
        *end = '\0';
        if (!colon || colon == line || colon > end || a->count == ANSWER_FIELDS)
            return "field line";
        *colon = '\0';
        a->fields[a->count].name = line;
        a->fields[a->count++].value = colon + 1 + strspn(colon + 1, " ");
    }
    return NULL;
}

static void append(struct answer *a, const char *bytes, size_t size)
{
    a->body = realloc(a->body, a->size + size + 1);
    if (size > 0)
        memcpy(a->body + a->size, bytes, size);
    a->size += size;
    a->body[a->size] = '\0';
}

static bool take(struct client *c, struct answer *a, size_t size)
{
    if (!need(c, size))
        return false;
    append(a, c->bytes + c->at, size);
    c->at += size;
    return true;
}

static const char *read_chunks(struct client *c, struct answer *a)
{
    for (;;) {
        size_t line = find(c, "\r\n");
        if (line == 0)
            return "end inside chunks";
        char *end;
        unsigned long size = strtoul(c->bytes + c->at, &end, 16);
        if (end == c->bytes + c->at || end != c->bytes + c->at + line - 2)
            return "chunk size";
        c->at += line;
        if (!take(c, a, size) || !need(c, 2))
            return "end inside a chunk";
        if (memcmp(c->bytes + c->at, "\r\n", 2) != 0)
            return "chunk end";
        c->at += 2;
        if (size == 0)
            return NULL;
    }
}

static const char *read_body(struct client *c, struct answer *a, bool is_head)
{
    const char *length = answer_field(a, "Content-Length"), *coding = answer_field(a, "Transfer-Encoding");
    bool has_none = a->status < 200 || a->status == 204 || a->status == 304;
    append(a, "", 0);
    a->is_chunked = coding != NULL;
    if ((length && coding) || (has_none && a->status != 304 && (length || coding)) ||
        answer_field_count(a, "Content-Length") > 1)
        return "framing";
    if (has_none || is_head)
        return NULL;
    if (coding)
        return strcmp(coding, "chunked") ? "coding" : read_chunks(c, a);
    if (length)
        return take(c, a, strtoul(length, NULL, 10)) ? NULL : "end inside the body";
    a->ends_with_close = true;
    while (read_more(c))
        ;
    take(c, a, c->end - c->at);
    return c->error != 0 ? "reset inside the body" : NULL;
}

const char *client_answer(struct client *c, struct answer *a, bool is_head)
{
    *a = (struct answer){0};
    size_t head = find(c, "\r\n\r\n");
    if (head == 0)
        return c->error != 0 ? "error" : c->at < c->end ? "end inside the head" : "end";
    a->head = strndup(c->bytes + c->at, head);
    c->at += head;
    const char *wrong = strlen(a->head) == head ? split_head(a) : "zero byte";
    return wrong ? wrong : read_body(c, a, is_head);
}

unsigned client_segments(const struct client *c)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    return getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_data_segs_in : 0;
}

void answer_free(struct answer *a)
{
    free(a->head);
    free(a->body);
    *a = (struct answer){0};
}

const char *answer_field(const struct answer *a, const char *name)
{
    for (unsigned i = 0; i < a->count; i++) {
        if (!strcasecmp(a->fields[i].name, name))
            return a->fields[i].value;
    }
    return NULL;
}

unsigned answer_field_count(const struct answer *a, const char *name)
{
    unsigned count = 0;
    for (unsigned i = 0; i < a->count; i++)
        count += strcasecmp(a->fields[i].name, name) == 0;
    return count;
}

void client_expect(struct client *c, int status)
{
    client_expect_body(c, status, NULL);
}

void client_expect_body(struct client *c, int status, const char *body)
{
    struct answer a;
    const char *wrong = client_answer(c, &a, false);
    CHECK_STR(wrong ? wrong : "", "");
    CHECK_INT(a.status, ==, status);
    if (body)
        CHECK_STR(a.body ? a.body : "(none)", body);
    answer_free(&a);
}

size_t client_drain(struct client *c)
{
    while (read_more(c))
        ;
    size_t count = c->end - c->at;
    c->at = c->end;
    return count;
}

bool client_sees_end(struct client *c)
{
    return client_drain(c) == 0 && c->error == 0;
}

const char *ask(int port, const char *request, struct answer *a)
{
    struct client c;
    client_open(&c, port);
    client_say(&c, request);
    const char *wrong = client_answer(&c, a, !strncmp(request, "HEAD ", 5));
    client_close(&c);
    return wrong;
}

int ask_status(int port, const char *request)
{
    struct answer a;
    const char *wrong = ask(port, request, &a);
    int status = wrong ? 0 : a.status;
    answer_free(&a);
    return status;
}
