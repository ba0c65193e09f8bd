/*
 * request.c: see request.h.
 */
#include "request.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "server.h"

struct line {
    const char *at;
    size_t count; /* without its CR LF */
};

/* The next line. Returns what follows it; NULL if it is not complete; `line->at` is NULL if it does not end with CR. */
static const char *next_line(const char *bytes, const char *end, struct line *line)
{
    const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));

    if (!newline)
        return NULL;
    line->at = newline > bytes && newline[-1] == '\r' ? bytes : NULL;
    line->count = (size_t)(newline - bytes) - (line->at != NULL);
    return newline + 1;
}

static bool parse_first(const struct line *line, struct request *r)
{
    const char *end = line->at + line->count, *target, *version;

    r->target = REQUEST_OTHER;
    target = memchr(line->at, ' ', line->count);
    version = target ? memchr(target + 1, ' ', (size_t)(end - target - 1)) : NULL;
    if (!version || end - version != 9 || memcmp(version, " HTTP/1.", 8) != 0)
        return false;
    if (version[8] != '0' && version[8] != '1')
        return false;
    r->end = version[8] == '1' ? REQUEST_KEEP : REQUEST_CLOSE;
    if (target - line->at == 3 && !memcmp(line->at, "GET", 3)) {
        size_t length = (size_t)(version - target - 1);
        if (length == 1 && target[1] == '/')
            r->target = REQUEST_HELLO;
        else if (length == sizeof(SERVER_FILE) - 1 && !memcmp(target + 1, SERVER_FILE, length))
            r->target = REQUEST_FILE;
    }
    return true;
}

static bool has_name(const struct line *line, const char *name, size_t length)
{
    return line->count > length && line->at[length] == ':' && !strncasecmp(line->at, name, length);
}

/* Whether the list after the colon has this token. */
static bool has_token(const struct line *line, size_t from, const char *token)
{
    size_t length = strlen(token);

    for (size_t i = from; i + length <= line->count; i++)
        if (strchr(":, \t", line->at[i - 1]) && !strncasecmp(line->at + i, token, length) &&
            (i + length == line->count || strchr(", \t", line->at[i + length])))
            return true;
    return false;
}

static bool parse_length(const struct line *line, size_t from, uint64_t *length)
{
    uint64_t sum = 0;
    size_t end = line->count;

    while (from < end && (line->at[from] == ' ' || line->at[from] == '\t'))
        from++;
    while (end > from && (line->at[end - 1] == ' ' || line->at[end - 1] == '\t'))
        end--;
    if (from == end || end - from > 18)
        return false;
    for (; from < end; from++) {
        if (line->at[from] < '0' || line->at[from] > '9')
            return false;
        sum = 10 * sum + (uint64_t)(line->at[from] - '0');
    }
    *length = sum;
    return true;
}

/* The first letter decides quickly, because most fields begin with neither of two. Lines with one of them need no
 * colon. */
static bool parse_field(const struct line *line, struct request *r)
{
    switch (line->at[0] | 0x20) {
    case 'c':
        if (has_name(line, "content-length", 14))
            return parse_length(line, 15, &r->body_bytes);
        if (has_name(line, "connection", 10)) {
            if (has_token(line, 11, "close"))
                r->end = REQUEST_CLOSE;
            else if (r->end == REQUEST_CLOSE && has_token(line, 11, "keep-alive"))
                r->end = REQUEST_KEEP_10;
        }
        return true;
    case 't':
        return !has_name(line, "transfer-encoding", 17);
    default:
        return memchr(line->at, ':', line->count) != NULL;
    }
}

ssize_t request_parse(const char *bytes, size_t count, struct request *r)
{
    const char *end = bytes + count, *next;
    struct line line;

    r->body_bytes = 0;
    next = next_line(bytes, end, &line);
    if (!next)
        return 0;
    if (!line.at || !parse_first(&line, r))
        return -1;
    for (;;) {
        next = next_line(next, end, &line);
        if (!next)
            return 0;
        if (!line.at)
            return -1;
        if (line.count == 0)
            return next - bytes;
        if (!parse_field(&line, r))
            return -1;
    }
}

static void make_text(struct answer_text *text, enum request_target target, enum request_end end, const char *date)
{
    static const char *const ends[REQUEST_ENDS] = {"", "Connection: keep-alive\r\n", "Connection: close\r\n"};
    const char *status = target == REQUEST_OTHER ? "404 Not Found" : "200 OK";
    const char *body = target == REQUEST_HELLO ? SERVER_HELLO : "";
    size_t length = target == REQUEST_FILE ? SERVER_FILE_BYTES : strlen(body);

    text->count = (size_t)snprintf(text->bytes, sizeof(text->bytes),
                                   "HTTP/1.1 %s\r\n"
                                   "Date: %s\r\n"
                                   "Content-Type: text/plain\r\n"
                                   "Content-Length: %zu\r\n"
                                   "%s\r\n%s",
                                   status, date, length, ends[end], body);
}

void answers_refresh(struct answer_texts *answers)
{
    time_t now = time(NULL);
    char date[64];
    struct tm tm;

    if (answers->second == now)
        return;
    answers->second = now;
    gmtime_r(&now, &tm);
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
    for (int target = 0; target < REQUEST_TARGETS; target++)
        for (int end = 0; end < REQUEST_ENDS; end++)
            make_text(&answers->texts[target][end], target, end, date);
}
