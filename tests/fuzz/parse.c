/*
 * fuzz/parse.c: the head parser against the rules of rules.h, and against llhttp in strict mode.
 *
 * An input is a byte, a head, and perhaps more bytes behind the head. The byte says how heads are cut into pieces (its low
 * four bits), which limits count (the next two), and which bytes of a head the server makes zero (the last two).
 *
 *  - The parser gives the same result for the whole head, for pieces and byte by byte, and reads no byte that it was not
 *    given.
 *  - It accepts a complete head exactly if the head breaks no rule, and then with the meaning that the rules give it. The
 *    status of a refusal is that of a broken rule.
 *  - What it accepts, llhttp accepts with the same meaning. Known differences are first taken out of the head (translate
 *    in meaning.c).
 *  - A head that llhttp accepts and the parser refuses breaks a rule.
 *  - A head behind another one in the same buffer (wh_head_go_on) has the same result as alone, whole and in pieces. Second
 *    heads are the bytes behind the first head, and heads that the harness makes from the first one (check_next).
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz/meaning.h"

enum { SMALL_HEAD = 96, FEW_FIELDS = 3, BYTE_BY_BYTE = 256 };
enum { ONE_STRING = 0x40, ALL_STRINGS = 0x80 }; /* of the first byte: what becomes a string */

/* ---- in pieces ---- */

static void check_alike(const struct parsed *whole, const struct parsed *parts)
{
    FUZZ_CHECK_INT(whole->rc, parts->rc);
    FUZZ_CHECK(ended_alike(whole, parts));
}

static void parse_pieces(const struct parsed *whole, struct parsed *p, const char *bytes, size_t size,
                         struct meaning_limits limits, unsigned seed)
{
    struct dice dice = {seed};
    size_t given = 0, most = seed % 4 == 3 ? size + 1 : 24;
    parsed_init(p, limits.bytes, limits.fields);
    do {
        given += dice_throw(&dice, (unsigned)(most < size - given + 1 ? most : size - given + 1));
        given += given < size;
        parse_part(p, bytes, given);
    } while (p->rc == 0 && given < size);
    check_alike(whole, p);
}

static void parse_bytewise(const struct parsed *whole, const char *bytes, size_t size, struct meaning_limits limits)
{
    struct parsed p;
    parsed_init(&p, limits.bytes, limits.fields);
    for (size_t n = 0; n <= size && p.rc == 0; n++)
        parse_part(&p, bytes, n);
    check_alike(whole, &p);
}

/* ---- behind another head ---- */

/*
 * Begins a head behind another one, as connection.c does: both are in one buffer, and a body of `gap` bytes is between them.
 * The first `given` bytes of the new head have come. `kept` is the previous head, with the zero bytes of the server. Later
 * calls get a copy of the new head alone, because the server may move it then.
 */
static void parse_behind(struct parsed *p, const struct parsed *before, const char *kept, size_t gap, const char *bytes,
                         size_t given)
{
    size_t size = (size_t)before->rc, distance = size + gap;
    char *buffer = malloc(distance + given);
    memcpy(buffer, kept, size);
    memset(buffer + size, 'b', gap);
    memcpy(buffer + distance, bytes, given);
    *p = *before;
    p->head.fields = p->fields;
    p->bytes = bytes;
    wh_head_go_on(&p->head, (uint32_t)distance);
    p->rc = wh_parse_head(&p->head, buffer + distance, given);
    free(buffer);
}

static void check_alone(const struct parsed *alone, const struct parsed *behind, struct text head)
{
    if (!ended_alike(alone, behind))
        fuzz_fail(__FILE__, __LINE__, "%d behind another head, %d alone, or another meaning: %.*s", behind->rc,
                  alone->rc, (int)head.size, head.at);
}

/* The latest head of a buffer, twice. */
struct before {
    struct parsed whole, parts; /* parsed in one call, and in several */
    struct meaning_limits limits;
    struct dice dice; /* for the next head: its parts, and the body before it */
};

/* Parses a head (of at least one byte) behind another one, and checks the result. *b becomes the new head. */
static void check_behind(struct before *b, const char *kept, struct text head)
{
    struct parsed alone, p;
    size_t gap = dice_throw(&b->dice, 3) * 7, given = 1 + dice_throw(&b->dice, (unsigned)head.size);
    parsed_init(&alone, b->limits.bytes, b->limits.fields);
    parse_part(&alone, head.at, head.size);
    parse_behind(&p, &b->whole, kept, gap, head.at, head.size);
    check_alone(&alone, &p, head);
    check_meaning(&p, head.at, head.size, b->limits);
    b->whole = p;
    parse_behind(&p, &b->parts, kept, gap, head.at, given);
    while (p.rc == 0 && given < head.size) {
        given += 1 + dice_throw(&b->dice, (unsigned)(head.size - given));
        parse_part(&p, head.at, given);
    }
    check_alone(&alone, &p, head);
    b->parts = p;
}

/* Parses a head behind the first one, and then the first one again: that is mostly a repeat of a repeat. */
static void check_two(const struct before *first, const char *kept, struct text head)
{
    struct before b = *first;
    check_behind(&b, kept, head);
    if (b.whole.rc > 0)
        check_behind(&b, head.at, (struct text){first->whole.bytes, (size_t)first->whole.rc});
}

static void make_string(char *bytes, struct wh_slice s)
{
    if (s.size > 0)
        bytes[s.at + s.size] = '\0';
}

/* Puts zero bytes behind the value of one field, or behind all strings that a handler may ask for (wh_text). */
static void make_strings(char *bytes, const struct parsed *p, uint8_t mode, struct dice dice)
{
    const struct wh_head *head = &p->head;
    unsigned one = head->count > 0 ? dice_throw(&dice, head->count) : 0;
    for (unsigned i = 0; i < head->count; i++) {
        if (mode & ALL_STRINGS || i == one)
            bytes[p->fields[i].value.at + p->fields[i].value.size] = '\0'; /* it may be empty */
        if (mode & ALL_STRINGS)
            make_string(bytes, p->fields[i].name);
    }
    if (mode & ALL_STRINGS) {
        make_string(bytes, head->method_text);
        make_string(bytes, head->path);
        make_string(bytes, head->has_query ? head->query : (struct wh_slice){0});
        make_string(bytes, head->form == WH_ABSOLUTE_FORM ? (struct wh_slice){0} : head->host);
    }
}

/* What follows the first head, behind its body if all of that is there. */
static struct text rest_of(const struct parsed *p, const char *bytes, size_t size)
{
    struct text rest = {bytes + p->rc, size - (size_t)p->rc};
    if (p->head.length <= rest.size)
        rest = (struct text){rest.at + p->head.length, rest.size - (size_t)p->head.length};
    return rest;
}

/* The first line of the text that is not empty, with its line end, and an empty line before it. Size 0: there is none. */
static struct text first_line(struct text t)
{
    size_t empty = t.size >= 2 && memcmp(t.at, "\r\n", 2) == 0 ? 2 : 0;
    const char *stop = memmem(t.at + empty, t.size - empty, "\r\n", 2);
    return stop ? text_between(t.at, stop + 2) : (struct text){t.at, 0};
}

/* Checks a head of this line and these fields. */
static void check_made(const struct before *first, const char *kept, struct text line, const char *fields, size_t size)
{
    char *head = malloc(line.size + size);
    memcpy(head, line.at, line.size);
    memcpy(head + line.size, fields, size);
    check_two(first, kept, (struct text){head, line.size + size});
    free(head);
}

/* The same with one byte of the fields changed. Three bytes say which byte, and what it becomes. */
static void check_changed(const struct before *first, struct text line, const char *fields, size_t size,
                          const uint8_t *change)
{
    char *changed = fuzz_copy(fields, size);
    changed[(change[0] << 8 | change[1]) % size] = (char)change[2];
    check_made(first, first->whole.bytes, line, changed, size);
    free(changed);
}

/*
 * Second heads behind one that was accepted:
 *  - the bytes that follow it;
 *  - a head with the same fields. Its request line is the first line that follows, or else that of the first head;
 *  - such a head with one byte changed. The three bytes behind the line say how;
 *  - such a head behind a first one with zero bytes, and one that has these zero bytes too.
 */
static void check_next(const struct before *first, size_t size, uint8_t mode)
{
    const char *bytes = first->whole.bytes;
    size_t head_size = (size_t)first->whole.rc, line_size = first->whole.head.fields_at;
    size_t fields_size = head_size - line_size;
    struct text rest = rest_of(&first->whole, bytes, size), line = first_line(rest);
    const char *change = rest.at + line.size;
    bool has_change = rest.size - line.size >= 3;
    if (line.size == 0)
        line = (struct text){bytes, line_size};
    if (rest.size > 0)
        check_two(first, bytes, rest);
    check_made(first, bytes, line, bytes + line_size, fields_size);
    if (has_change)
        check_changed(first, line, bytes + line_size, fields_size, (const uint8_t *)change);
    if (mode & (ONE_STRING | ALL_STRINGS)) {
        char *kept = fuzz_copy(bytes, head_size);
        make_strings(kept, &first->whole, mode, first->dice);
        check_made(first, kept, line, bytes + line_size, fields_size);
        check_made(first, kept, line, kept + line_size, fields_size);
        free(kept);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size)
{
    if (input_size == 0)
        return 0;
    const char *bytes = (const char *)input + 1;
    size_t size = input_size - 1;
    struct meaning_limits limits = {input[0] & 0x10 ? SMALL_HEAD : MEANING_HEAD,
                                    input[0] & 0x20 ? FEW_FIELDS : HEAD_FIELDS};
    struct before first = {.limits = limits, .dice = {input[0] << 16 ^ size}};
    parsed_init(&first.whole, limits.bytes, limits.fields);
    parse_part(&first.whole, bytes, size);
    first.whole.bytes = bytes;
    parse_pieces(&first.whole, &first.parts, bytes, size, limits, input[0] & 15);
    if (size <= BYTE_BY_BYTE)
        parse_bytewise(&first.whole, bytes, size, limits);
    check_meaning(&first.whole, bytes, size, limits);
    if (first.whole.rc > 0)
        check_next(&first, size, input[0]);
    return 0;
}
