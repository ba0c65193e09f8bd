/*
 * fuzz/meaning.c: see meaning.h.
 */
#include "fuzz/meaning.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fuzz/rules.h"

#if FUZZ_LLHTTP
#include "fuzz/partner.h"
#endif

/* ---- against the rules ---- */

static struct text slice(const struct parsed *p, struct wh_slice s)
{
    FUZZ_CHECK(s.at <= (uint32_t)p->rc && s.size <= (uint32_t)p->rc - s.at);
    return (struct text){p->bytes + s.at, s.size};
}

static void check_target(const struct parsed *p, const struct rules_head *h)
{
    const struct wh_head *head = &p->head;
    struct text path = slice(p, head->path);
    FUZZ_CHECK(texts_equal(slice(p, head->method_text), h->method));
    FUZZ_CHECK(texts_equal(slice(p, head->target), h->target));
    FUZZ_CHECK(texts_equal(path, h->path));
    FUZZ_CHECK_INT(head->has_query, h->has_query);
    if (head->has_query)
        FUZZ_CHECK(texts_equal(slice(p, head->query), h->query));
    FUZZ_CHECK(texts_equal(head->host.size > 0 ? slice(p, head->host) : (struct text){0}, h->host));
    if (path.size > 0) {
        FUZZ_CHECK_INT(head->has_percent, memchr(path.at, '%', path.size) != NULL);
        FUZZ_CHECK(head->has_dot || !memmem(path.at, path.size, "/.", 2));
    }
}

static void check_fields(const struct parsed *p, const struct rules_head *h)
{
    static const char *const methods[] = {NULL,  "GET",   "HEAD",   "OPTIONS", "POST",
                                          "PUT", "PATCH", "DELETE", "CONNECT", "TRACE"};
    const struct wh_head *head = &p->head;
    for (unsigned i = WH_GET; i <= WH_TRACE; i++)
        FUZZ_CHECK_INT(head->method == i, text_is(h->method, methods[i]));
    check_target(p, h);
    FUZZ_CHECK_INT(head->minor, h->minor);
    FUZZ_CHECK_INT(head->is_chunked, h->is_chunked);
    FUZZ_CHECK_INT(head->has_length, h->has_length);
    FUZZ_CHECK_INT(head->length, h->length);
    FUZZ_CHECK_INT(head->keeps_alive, h->keeps_alive);
    FUZZ_CHECK_INT(head->says_keep_alive, h->says_keep_alive);
    FUZZ_CHECK_INT(head->expects_continue, h->expects_continue);
    FUZZ_CHECK_INT(head->has_upgrade, h->has_upgrade);
    FUZZ_CHECK_INT(head->count, h->count);
    for (unsigned i = 0; i < h->count; i++) {
        FUZZ_CHECK(texts_equal(slice(p, p->fields[i].name), h->fields[i].name));
        FUZZ_CHECK(texts_equal(slice(p, p->fields[i].value), h->fields[i].value));
    }
}

static void check_broken(const struct parsed *p, uint32_t broken)
{
    if (broken == 0)
        fuzz_fail(__FILE__, __LINE__, "the parser answers %d to a head that breaks no rule", -p->rc);
    if (!rules_have_status(broken, -p->rc))
        fuzz_fail(__FILE__, __LINE__, "the parser answers %d, and the broken rules are %#x", -p->rc, broken);
}

static void check_rules(const struct parsed *p, const char *bytes, size_t size, struct meaning_limits limits)
{
    struct rules_head h;
    size_t head = rules_head_size(bytes, size);
    if (head == 0) {
        FUZZ_CHECK(p->rc <= 0 && (p->rc < 0 || size < limits.bytes));
        return;
    }
    rules_read(&h, bytes, head, limits.bytes, limits.fields);
    if (p->rc <= 0) {
        check_broken(p, h.broken);
        return;
    }
    FUZZ_CHECK_INT(h.broken, 0);
    FUZZ_CHECK_INT(p->rc, head);
    check_fields(p, &h);
}

/* ---- against llhttp ---- */

#if FUZZ_LLHTTP

static bool has_name(struct text name, const char *lower)
{
    return name.size == strlen(lower) && strncasecmp(name.at, lower, name.size) == 0;
}

/*
 * What llhttp is known to read otherwise than the parser. In a copy of the head:
 *  - a method that it does not know becomes GET (and what follows moves);
 *  - a TAB in Connection, Content-Length and Transfer-Encoding becomes a space: it takes the TAB for a part of the word;
 *  - the name Proxy-Connection gets another first letter: it takes it for Connection.
 */
static char *translate(const struct rules_head *h, const char *bytes, size_t *size)
{
    static const char get[3] = {'G', 'E', 'T'};
    char *copy = malloc(h->size + sizeof get);
    memcpy(copy, bytes, h->size);
    *size = h->size;
    for (unsigned i = 0; i < h->count; i++) {
        struct text name = h->fields[i].name;
        if (has_name(name, "proxy-connection"))
            copy[name.at - bytes] = 'X';
        if (!has_name(name, "connection") && !has_name(name, "content-length") && !has_name(name, "transfer-encoding"))
            continue;
        for (char *p = copy + (name.at - bytes); *p != '\r'; p++) {
            if (*p == '\t')
                *p = ' ';
        }
    }
    if (!partner_knows_method(h->method)) {
        size_t at = (size_t)(h->method.at - bytes), end = at + h->method.size;
        memmove(copy + at + 3, copy + end, h->size - end);
        memcpy(copy + at, get, sizeof get);
        *size = h->size - h->method.size + 3;
    }
    return copy;
}

/* A head that both have accepted. */
static void compare(const struct rules_head *h, const struct partner_head *other)
{
    FUZZ_CHECK_INT(other->size, h->size);
    FUZZ_CHECK(text_is(h->method, other->method));
    FUZZ_CHECK(texts_equal(h->target, other->url));
    FUZZ_CHECK_INT(other->major, 1);
    FUZZ_CHECK_INT(other->minor, h->minor);
    FUZZ_CHECK_INT(other->is_chunked, h->is_chunked);
    FUZZ_CHECK_INT(other->has_length, h->has_length);
    FUZZ_CHECK_INT(other->length, h->length);
    if (h->minor == 1 || !h->says_close) /* it keeps an HTTP/1.0 connection that says both */
        FUZZ_CHECK_INT(other->keeps_alive, h->keeps_alive);
    if (h->minor == 1 && rules_field(h, "upgrade").size > 0) /* it does not see one without a value */
        FUZZ_CHECK_INT(other->has_upgrade, h->has_upgrade);
    FUZZ_CHECK_INT(other->count, h->count);
    for (unsigned i = 0; i < h->count; i++) {
        FUZZ_CHECK(texts_equal(h->fields[i].name, other->fields[i].name));
        FUZZ_CHECK(texts_equal(h->fields[i].value, other->fields[i].value));
    }
}

static void check_accepted(const struct parsed *p, const char *bytes)
{
    struct rules_head h;
    struct partner_head other;
    size_t size;
    rules_read(&h, bytes, (size_t)p->rc, MEANING_HEAD, RULES_FIELDS);
    char *copy = translate(&h, bytes, &size);
    rules_read(&h, copy, size, MEANING_HEAD, RULES_FIELDS);
    partner_read_head(&other, copy, size);
    if (!other.is_accepted)
        fuzz_fail(__FILE__, __LINE__, "llhttp refuses what the parser accepts: %s", other.reason);
    compare(&h, &other);
    free(copy);
}

/* What llhttp accepts and the parser refuses. */
static void check_refused(const struct parsed *p, const char *bytes, size_t size, struct meaning_limits limits)
{
    struct rules_head h;
    struct partner_head other;
    partner_read_head(&other, bytes, size);
    if (!other.is_accepted)
        return;
    FUZZ_CHECK(p->rc < 0); /* its end is seen */
    rules_read(&h, bytes, other.size, limits.bytes, limits.fields);
    check_broken(p, h.broken);
}

#endif

void check_meaning(const struct parsed *p, const char *bytes, size_t size, struct meaning_limits limits)
{
    check_rules(p, bytes, size, limits);
#if FUZZ_LLHTTP
    if (p->rc > 0)
        check_accepted(p, bytes);
    else
        check_refused(p, bytes, size, limits);
#endif
}
