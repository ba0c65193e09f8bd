/*
 * fuzz/rules.c: see rules.h.
 */
#include "fuzz/rules.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define TOKEN LETTERS DIGITS "!#$%&'*+-.^_`|~"
#define UNRESERVED LETTERS DIGITS "-._~"
#define SUB_DELIMS "!$&'()*+,;="
#define TARGET UNRESERVED SUB_DELIMS "/:@%[]^`{|}"

enum { METHOD_MOST = 32 };

/* How many bytes from the beginning of a text are of a set. */
static size_t span(struct text t, const char *set)
{
    size_t n = 0;
    while (n < t.size && t.at[n] != '\0' && strchr(set, t.at[n]))
        n++;
    return n;
}

static struct text skip(struct text t, size_t n)
{
    return n ? (struct text){t.at + n, t.size - n} : t; /* t.at may be NULL */
}

static bool is_word(struct text t, const char *lower)
{
    return t.size == strlen(lower) && strncasecmp(t.at, lower, t.size) == 0;
}

static bool is_token(struct text t)
{
    return t.size > 0 && span(t, TOKEN) == t.size;
}

static struct text trim(struct text t)
{
    t = skip(t, span(t, " \t"));
    while (t.size > 0 && (t.at[t.size - 1] == ' ' || t.at[t.size - 1] == '\t'))
        t.size--;
    return t;
}

/* The part before the first separator; *rest is what follows it, and has at NULL if there is none. */
static struct text cut(struct text t, char separator, struct text *rest)
{
    const char *stop = t.size ? memchr(t.at, separator, t.size) : NULL;
    *rest = stop ? skip(t, (size_t)(stop - t.at) + 1) : (struct text){0};
    return stop ? text_between(t.at, stop) : t;
}

static void break_rule(struct rules_head *h, enum rule rule)
{
    h->broken |= 1u << rule;
}

int rules_status(enum rule rule)
{
    static const int status[RULES] = {
        [RULE_METHOD_SIZE] = 501, [RULE_VERSION] = 505,    [RULE_OTHER_CODING] = 501, [RULE_EXPECT] = 417,
        [RULE_FIELDS] = 431,      [RULE_HEAD_BYTES] = 431, [RULE_LINE_BYTES] = 414,   [RULE_SCHEME] = 421,
    };
    return status[rule] ? status[rule] : 400;
}

bool rules_have_status(uint32_t broken, int status)
{
    for (unsigned rule = 0; rule < RULES; rule++) {
        if (broken & 1u << rule && rules_status(rule) == status)
            return true;
    }
    return false;
}

struct text rules_field(const struct rules_head *h, const char *lower)
{
    for (unsigned i = 0; i < h->count && i < RULES_FIELDS; i++) {
        if (is_word(h->fields[i].name, lower))
            return h->fields[i].value;
    }
    return (struct text){0};
}

size_t rules_head_size(const char *bytes, size_t size)
{
    size_t begin = size >= 2 && memcmp(bytes, "\r\n", 2) == 0 ? 2 : 0;
    if (size - begin >= 2 && memcmp(bytes + begin, "\r\n", 2) == 0)
        return begin + 2;
    const char *end = memmem(bytes + begin, size - begin, "\r\n\r\n", 4);
    return end ? (size_t)(end - bytes) + 4 : 0;
}

/* ---- hosts and targets ---- */

/* *port: -1 if there is none. */
static bool is_host(struct text t, long *port)
{
    size_t host;
    *port = -1;
    if (t.size > 0 && t.at[0] == '[') {
        char copy[64], address[16];
        host = span(t, "[:." DIGITS "abcdefABCDEF");
        if (host < 2 || host >= sizeof copy || host == t.size || t.at[host] != ']')
            return false;
        memcpy(copy, t.at + 1, host - 1);
        copy[host - 1] = '\0';
        if (inet_pton(AF_INET6, copy, address) != 1)
            return false;
        host++;
    } else {
        host = span(t, UNRESERVED SUB_DELIMS);
    }
    struct text rest = skip(t, host);
    if (host == 0 || rest.size == 0)
        return host > 0;
    rest = skip(rest, 1);
    if (t.at[host] != ':' || rest.size > 5 || span(rest, DIGITS) != rest.size)
        return false;
    for (size_t i = 0; i < rest.size; i++)
        *port = (*port < 0 ? 0 : *port) * 10 + (rest.at[i] - '0');
    return *port <= 65535;
}

static bool is_absolute(struct rules_head *h, struct text before_query)
{
    struct text rest, scheme = cut(before_query, ':', &rest);
    long port;
    if ((!is_word(scheme, "http") && !is_word(scheme, "https")) || rest.size < 2 || memcmp(rest.at, "//", 2) != 0)
        return false;
    if (is_word(scheme, "https"))
        break_rule(h, RULE_SCHEME);
    struct text path, authority = cut(skip(rest, 2), '/', &path);
    h->host = authority;
    h->path = text_between(authority.at + authority.size, before_query.at + before_query.size);
    return is_host(authority, &port);
}

static bool is_target(struct rules_head *h)
{
    long port;
    struct text before = cut(h->target, '?', &h->query);
    h->has_query = h->query.at != NULL;
    h->path = before;
    if (span(before, TARGET) != before.size || span(h->query, TARGET "?\\") != h->query.size)
        return false;
    if (text_is(h->method, "CONNECT")) {
        h->host = h->target;
        h->path.size = 0;
        return !h->has_query && is_host(h->target, &port) && port > 0;
    }
    if (text_is(h->target, "*"))
        return text_is(h->method, "OPTIONS");
    return (before.size > 0 && before.at[0] == '/') || is_absolute(h, before);
}

static void read_request_line(struct rules_head *h, struct text line)
{
    struct text rest, version;
    h->method = cut(line, ' ', &rest);
    if (span(line, TOKEN) > METHOD_MOST)
        break_rule(h, RULE_METHOD_SIZE);
    h->target = cut(rest, ' ', &version);
    if (!is_token(h->method) || version.size != 8 || memcmp(version.at, "HTTP/", 5) != 0 ||
        !isdigit((unsigned char)version.at[5]) || version.at[6] != '.' || !isdigit((unsigned char)version.at[7])) {
        break_rule(h, RULE_REQUEST_LINE);
    } else {
        h->major = version.at[5] - '0';
        h->minor = version.at[7] - '0';
        if (h->major != 1 || h->minor > 1)
            break_rule(h, RULE_VERSION);
    }
    if (!is_target(h))
        break_rule(h, RULE_TARGET);
}

/* ---- fields ---- */

static void read_field(struct rules_head *h, struct text line)
{
    struct rules_field f;
    f.name = cut(line, ':', &f.value);
    if (line.at[0] == ' ' || line.at[0] == '\t')
        break_rule(h, RULE_FOLDED);
    if (!f.value.at || !is_token(f.name))
        break_rule(h, RULE_NAME);
    for (size_t i = 0; i < f.value.size; i++) {
        if (f.value.at[i] != '\t' && ((unsigned char)f.value.at[i] < ' ' || f.value.at[i] == 0x7f))
            break_rule(h, RULE_CONTROL);
    }
    f.value = f.value.at ? trim(f.value) : f.name;
    if (h->count < RULES_FIELDS)
        h->fields[h->count] = f;
    h->count++;
}

static bool is_length(struct text t, uint64_t *length)
{
    static const char most[] = "9223372036854775807";
    if (t.size == 0 || span(t, DIGITS) != t.size)
        return false;
    t = skip(t, span(t, "0"));
    if (t.size > sizeof most - 1 || (t.size == sizeof most - 1 && memcmp(t.at, most, t.size) > 0))
        return false;
    *length = 0;
    for (size_t i = 0; i < t.size; i++)
        *length = *length * 10 + (uint64_t)(t.at[i] - '0');
    return true;
}

static void read_coding(struct rules_head *h, struct text list)
{
    unsigned members = 0, chunked = 0;
    bool is_last = false, is_valid = h->minor == 1;
    while (list.at) {
        struct text parameters, member = trim(cut(list, ',', &list)), name = cut(member, ';', &parameters);
        is_last = is_word(name, "chunked");
        members++;
        chunked += is_last;
        is_valid &= is_token(name) && !(is_last && parameters.at);
    }
    if (!is_valid || !is_last || chunked != 1)
        break_rule(h, RULE_CODING);
    else if (members > 1)
        break_rule(h, RULE_OTHER_CODING);
    h->is_chunked = true;
}

static void read_expect(struct rules_head *h, struct text list)
{
    while (list.at) {
        struct text expectation = trim(cut(list, ',', &list));
        if (expectation.size == 0)
            continue;
        if (!is_word(expectation, "100-continue"))
            break_rule(h, RULE_EXPECT);
        h->expects_continue = h->minor == 1;
    }
}

static void read_connection(struct rules_head *h, struct text list, bool *upgrade)
{
    while (list.at) {
        struct text option = trim(cut(list, ',', &list));
        h->says_close |= is_word(option, "close");
        h->says_keep_alive |= is_word(option, "keep-alive");
        *upgrade |= is_word(option, "upgrade");
        if (option.size > 0 && !is_token(option))
            break_rule(h, RULE_CONNECTION);
    }
}

static void read_meaning(struct rules_head *h)
{
    unsigned hosts = 0, lengths = 0, codings = 0;
    bool upgrade = false, upgrade_option = false;
    long port;
    for (unsigned i = 0; i < h->count && i < RULES_FIELDS; i++) {
        struct text name = h->fields[i].name, value = h->fields[i].value;
        if (is_word(name, "host")) {
            if (++hosts > 1 || (value.size > 0 && !is_host(value, &port)))
                break_rule(h, RULE_HOST);
            if (!h->host.at)
                h->host = value;
        } else if (is_word(name, "content-length")) {
            if (++lengths > 1 || !is_length(value, &h->length))
                break_rule(h, RULE_LENGTH);
        } else if (is_word(name, "transfer-encoding")) {
            if (++codings > 1)
                break_rule(h, RULE_CODING);
            read_coding(h, value);
        } else if (is_word(name, "expect")) {
            read_expect(h, value);
        } else if (is_word(name, "connection")) {
            read_connection(h, value, &upgrade_option);
        } else if (is_word(name, "upgrade")) {
            upgrade = true;
        }
    }
    if (hosts == 0 && h->minor == 1)
        break_rule(h, RULE_HOST);
    if (lengths > 0 && codings > 0)
        break_rule(h, RULE_LENGTH);
    h->has_length = lengths > 0;
    h->keeps_alive = (h->minor == 1 || h->says_keep_alive) && !h->says_close;
    h->has_upgrade = h->minor == 1 && upgrade && upgrade_option;
}

/* ---- the head ---- */

static bool has_lone_line_end(const char *p, const char *end)
{
    for (const char *at = p; at < end; at++) {
        if (*at == '\r' && (at + 1 == end || at[1] != '\n'))
            return true;
        if (*at == '\n' && (at == p || at[-1] != '\r'))
            return true;
    }
    return false;
}

static struct text next_line(const char **p, const char *end)
{
    const char *stop = memmem(*p, (size_t)(end - *p), "\r\n", 2);
    struct text line = text_between(*p, stop ? stop : end);
    *p = stop ? stop + 2 : end;
    return line;
}

void rules_read(struct rules_head *h, const char *bytes, size_t size, size_t most_bytes, unsigned most_fields)
{
    const char *p = bytes, *end = bytes + size;
    memset(h, 0, offsetof(struct rules_head, fields));
    h->size = size;
    if (has_lone_line_end(bytes, end))
        break_rule(h, RULE_LINE_ENDS);
    struct text line = next_line(&p, end);
    if (line.size == 0)
        line = next_line(&p, end);
    if (line.size == 0)
        break_rule(h, RULE_EMPTY_LINES);
    if (size > most_bytes)
        break_rule(h, (size_t)(p - bytes) > most_bytes ? RULE_LINE_BYTES : RULE_HEAD_BYTES);
    read_request_line(h, line);
    while (p < end && (line = next_line(&p, end)).size > 0)
        read_field(h, line);
    if (h->count > most_fields)
        break_rule(h, RULE_FIELDS);
    read_meaning(h);
}
