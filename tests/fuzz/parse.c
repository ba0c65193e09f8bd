/*
 * fuzz/parse.c: the head parser against the rules of rules.h, and against llhttp in strict mode.
 *
 * An input is a byte and a head. The byte says how the head is cut into pieces (its low four bits) and which limits count.
 *
 *  - The parser gives the same result for the whole head, for pieces and byte by byte, and reads no byte that it was not
 *    given.
 *  - It accepts a complete head exactly if the head breaks no rule, and then with the meaning that the rules give it. The
 *    status of a refusal is that of a broken rule.
 *  - What it accepts, llhttp accepts with the same meaning. Known differences are first taken out of the head (translate).
 *  - A head that llhttp accepts and the parser refuses breaks a rule.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fuzz/fuzz.h"
#include "fuzz/rules.h"
#include "unit/http/heads.h"

#if FUZZ_LLHTTP
#include "fuzz/partner.h"
#endif

enum { SMALL_HEAD = 96, LARGE_HEAD = 16384, FEW_FIELDS = 3, BYTE_BY_BYTE = 256 };

struct limits {
    uint32_t bytes, fields;
};

/* ---- in pieces ---- */

static void check_alike(const struct parsed *whole, const struct parsed *parts)
{
    FUZZ_CHECK_INT(whole->rc, parts->rc);
    FUZZ_CHECK(ended_alike(whole, parts));
}

static void parse_pieces(const struct parsed *whole, const char *bytes, size_t size, struct limits limits,
                         unsigned seed)
{
    struct dice dice = {seed};
    struct parsed p;
    size_t given = 0, most = seed % 4 == 3 ? size + 1 : 24;
    parsed_init(&p, limits.bytes, limits.fields);
    do {
        given += dice_throw(&dice, (unsigned)(most < size - given + 1 ? most : size - given + 1));
        given += given < size;
        parse_part(&p, bytes, given);
    } while (p.rc == 0 && given < size);
    check_alike(whole, &p);
}

static void parse_bytewise(const struct parsed *whole, const char *bytes, size_t size, struct limits limits)
{
    struct parsed p;
    parsed_init(&p, limits.bytes, limits.fields);
    for (size_t n = 0; n <= size && p.rc == 0; n++)
        parse_part(&p, bytes, n);
    check_alike(whole, &p);
}

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

static void check_meaning(const struct parsed *p, const struct rules_head *h)
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

static void check_rules(const struct parsed *p, const char *bytes, size_t size, struct limits limits)
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
    check_meaning(p, &h);
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
    rules_read(&h, bytes, (size_t)p->rc, LARGE_HEAD, RULES_FIELDS);
    char *copy = translate(&h, bytes, &size);
    rules_read(&h, copy, size, LARGE_HEAD, RULES_FIELDS);
    partner_read_head(&other, copy, size);
    if (!other.is_accepted)
        fuzz_fail(__FILE__, __LINE__, "llhttp refuses what the parser accepts: %s", other.reason);
    compare(&h, &other);
    free(copy);
}

/* What llhttp accepts and the parser refuses. */
static void check_refused(const struct parsed *p, const char *bytes, size_t size, struct limits limits)
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

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size)
{
    if (input_size == 0)
        return 0;
    const char *bytes = (const char *)input + 1;
    size_t size = input_size - 1;
    struct limits limits = {input[0] & 0x10 ? SMALL_HEAD : LARGE_HEAD, input[0] & 0x20 ? FEW_FIELDS : HEAD_FIELDS};
    struct parsed whole;
    parsed_init(&whole, limits.bytes, limits.fields);
    parse_part(&whole, bytes, size);
    whole.bytes = bytes;
    parse_pieces(&whole, bytes, size, limits, input[0] & 15);
    if (size <= BYTE_BY_BYTE)
        parse_bytewise(&whole, bytes, size, limits);
    check_rules(&whole, bytes, size, limits);
#if FUZZ_LLHTTP
    if (whole.rc > 0)
        check_accepted(&whole, bytes);
    else
        check_refused(&whole, bytes, size, limits);
#endif
    return 0;
}
