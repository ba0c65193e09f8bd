/*
 * answer.c: see answer.h.
 *
 * The generator must be cheaper than the servers that it measures. A server's heads are the same until its Date
 * changes. So the last head that was checked in full is kept, and a head that is equal to it is right.
 */
#include "answer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../common/case.h"

#define HEAD_MAX 4096

static struct answer_rules rules;

static struct {
    char bytes[HEAD_MAX];
    size_t count;
} known; /* the last head that was checked */

void answer_expect(const struct answer_rules *wanted)
{
    rules = *wanted;
    known.count = 0;
}

/* Whether the list "TOKEN, TOKEN" has this one. */
static bool has_token(const char *list, size_t count, const char *token)
{
    size_t length = strlen(token);

    for (size_t i = 0; i + length <= count; i++)
        if (!strncasecmp(list + i, token, length) && (i == 0 || strchr(", ", list[i - 1])) &&
            (i + length == count || strchr(", ", list[i + length])))
            return true;
    return false;
}

/* What the fields of a head have said. */
struct said {
    unsigned lengths; /* fields Content-Length */
    bool close;
};

static void check_length(const char *value, size_t count)
{
    size_t length = 0;

    for (size_t i = 0; i < count; i++) {
        if (value[i] < '0' || value[i] > '9' || length > rules.bytes)
            case_fail("Content-Length: %.*s", (int)count, value);
        length = 10 * length + (size_t)(value[i] - '0');
    }
    if (count == 0 || length != rules.bytes)
        case_fail("Content-Length is %.*s, not %zu", (int)count, value, rules.bytes);
}

/* A line "NAME: VALUE" without its end. */
static void check_field(const char *line, size_t count, struct said *said)
{
    const char *colon = memchr(line, ':', count), *end = line + count, *value;
    size_t name;

    if (!colon || colon == line)
        case_fail("the head has a line '%.*s'", (int)count, line);
    name = (size_t)(colon - line);
    value = colon + 1;
    while (value < end && *value == ' ')
        value++;
    while (end > value && end[-1] == ' ')
        end--;
    if (name == 14 && !strncasecmp(line, "Content-Length", name)) {
        check_length(value, (size_t)(end - value));
        said->lengths++;
    } else if (name == 10 && !strncasecmp(line, "Connection", name)) {
        said->close |= has_token(value, (size_t)(end - value), "close");
    } else if (name == 17 && !strncasecmp(line, "Transfer-Encoding", name)) {
        case_fail("the answer is in chunks");
    }
}

/* A whole head, with the empty line that ends it. */
static void check_head(const char *head, size_t count)
{
    static const char status[] = "HTTP/1.1 200";
    const char *line = head, *end = head + count - 2;
    struct said said = {0};

    while (line < end) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t length;
        if (!next || next == line || next[-1] != '\r')
            case_fail("a line of the head does not end with CR LF");
        length = (size_t)(next - 1 - line);
        if (line != head)
            check_field(line, length, &said);
        else if (length < sizeof(status) || memcmp(line, status, sizeof(status) - 1) != 0 ||
                 line[sizeof(status) - 1] != ' ')
            case_fail("the answer is '%.*s'", (int)length, line);
        line = next + 1;
    }
    if (said.lengths != 1)
        case_fail("the answer has %u fields Content-Length", said.lengths);
    if (said.close != rules.closes)
        case_fail("the server says that it %s the connection", said.close ? "closes" : "keeps");
}

static void keep_part(struct answer_stream *s, const char *bytes, size_t count)
{
    if (s->head_got + count > HEAD_MAX)
        case_fail("the head of an answer is too long");
    if (!s->head && !(s->head = malloc(HEAD_MAX)))
        case_fail("no memory");
    memcpy(s->head + s->head_got, bytes, count);
    s->head_got += (uint32_t)count;
}

/* The length of the head that begins here; 0 if the head is not complete. */
static size_t head_length(const char *bytes, size_t count)
{
    const char *end = memmem(bytes, count, "\r\n\r\n", 4);
    return end ? (size_t)(end + 4 - bytes) : 0;
}

/* Takes bytes of a head that differs from the known one, or is not complete. Returns how many bytes it has used. */
static size_t take_head_slow(struct answer_stream *s, const char *bytes, size_t count)
{
    size_t before = s->head_got, length;

    keep_part(s, bytes, count < HEAD_MAX - before ? count : HEAD_MAX - before);
    length = head_length(s->head, s->head_got);
    if (length == 0) {
        if (s->head_got == HEAD_MAX)
            case_fail("the head of an answer is too long");
        return count;
    }
    check_head(s->head, length);
    memcpy(known.bytes, s->head, length);
    known.count = length;
    free(s->head);
    s->head = NULL;
    s->head_got = 0;
    s->in_body = true;
    return length - before;
}

static size_t take_head(struct answer_stream *s, const char *bytes, size_t count)
{
    if (s->head || known.count == 0 || count < known.count || memcmp(bytes, known.bytes, known.count) != 0)
        return take_head_slow(s, bytes, count);
    s->in_body = true;
    return known.count;
}

unsigned answer_take(struct answer_stream *s, const char *bytes, size_t count)
{
    unsigned complete = 0;

    while (count > 0) {
        size_t part;
        if (!s->in_body) {
            part = take_head(s, bytes, count);
        } else {
            part = rules.bytes - s->body_got < count ? rules.bytes - s->body_got : count;
            if (memcmp(bytes, rules.body + s->body_got, part) != 0)
                case_fail("the body is not what it should be");
            s->body_got += (uint32_t)part;
            if (s->body_got == rules.bytes) {
                s->in_body = false;
                s->body_got = 0;
                complete++;
            }
        }
        bytes += part;
        count -= part;
    }
    return complete;
}

bool answer_is_whole(const struct answer_stream *s)
{
    return !s->head && !s->in_body;
}
