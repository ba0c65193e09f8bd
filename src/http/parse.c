/*
 * http/parse.c: the strict parser of a request's head. See parse.h for what it promises.
 *
 * A head is a request line, field lines and an empty line. The parser takes whole lines. When more bytes of an
 * incomplete line have come, it parses the line again from its beginning, unless the new bytes only continue the run of
 * bytes in which the line stopped (head->run). No check looks at a byte behind the one that decides it, so parts do not
 * change the result.
 */
#include "http/parse.h"

#include "http/field.h"
#include "http/scan.h"
#include "http/target.h"

enum { MORE = 0, BAD = -400, METHOD_MOST = 32 };

/* head->saw */
enum {
    SAW_REQUEST_LINE = 1,
    SAW_HOST = 2,
    SAW_LENGTH = 4,
    SAW_CODING = 8,
    SAW_CLOSE = 16,
    SAW_UPGRADE = 32,        /* the field Upgrade */
    SAW_UPGRADE_OPTION = 64, /* "upgrade" in Connection */
};

/* The head has come only up to a place inside a run of bytes of one class. Notes where the parser goes on. */
static int stop_in_run(struct wh_head *head, const char *bytes, const char *end, uint8_t run)
{
    head->run = run;
    head->passed = (uint32_t)(end - bytes);
    return MORE;
}

/* True if the new bytes only continue the run in which the last call has stopped. */
static bool run_goes_on(struct wh_head *head, const char *bytes, const char *end)
{
    const char *stop = wh_skip(bytes + head->passed, end, head->run);
    head->passed = (uint32_t)(stop - bytes);
    return stop == end;
}

/* ---- the request line --------------------------------------------------------------------------------------- */

static uint8_t known_method(const char *text, size_t size)
{
    static const struct {
        char text[8];
        uint8_t size, method;
    } known[] = {
        {"GET", 3, WH_GET},     {"HEAD", 4, WH_HEAD},       {"POST", 4, WH_POST},
        {"PUT", 3, WH_PUT},     {"DELETE", 6, WH_DELETE},   {"PATCH", 5, WH_PATCH},
        {"TRACE", 5, WH_TRACE}, {"OPTIONS", 7, WH_OPTIONS}, {"CONNECT", 7, WH_CONNECT},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].size == size && memcmp(known[i].text, text, size) == 0)
            return known[i].method;
    }
    return WH_OTHER_METHOD;
}

/* Sets *to behind the method and its space. Returns 1, MORE or minus a status. */
static int parse_method(struct wh_head *head, const char *bytes, const char *p, const char *end, const char **to)
{
    const char *most = end - p > METHOD_MOST ? p + METHOD_MOST + 1 : end;
    const char *stop = wh_skip(p, most, WH_TOKEN);
    if (stop - p > METHOD_MOST)
        return -501;
    if (stop == end)
        return MORE;
    if (*stop != ' ' || stop == p)
        return BAD;
    head->method = known_method(p, (size_t)(stop - p));
    head->method_text = wh_slice_of(bytes, p, stop);
    *to = stop + 1;
    return 1;
}

/* Parses what is not " HTTP/1.1" and CR LF: another version, a version that is not complete. Returns as
 * parse_version. */
static int parse_version_slow(struct wh_head *head, const char *p, const char *end, const char **to)
{
    static const char form[] = " HTTP/d.d\r\n";
    enum { SIZE = sizeof form - 1, MAJOR = 6, MINOR = 8 };
    size_t size = end - p < SIZE ? (size_t)(end - p) : SIZE;
    for (size_t i = 0; i < size; i++) {
        if (form[i] == 'd' ? !wh_is(p[i], WH_DIGIT) : p[i] != form[i])
            return BAD;
    }
    if (size < SIZE)
        return MORE;
    if (p[MAJOR] != '1' || p[MINOR] > '1')
        return -505;
    head->minor = (uint8_t)(p[MINOR] - '0');
    *to = p + SIZE;
    return 1;
}

/* Parses a space, the version and CR LF, and sets *to behind them. Returns 1, MORE or minus a status. */
static inline int parse_version(struct wh_head *head, const char *p, const char *end, const char **to)
{
    if (end - p < 11 || wh_load8(p) != wh_load8(" HTTP/1.") || wh_load4(p + 7) != wh_load4(".1\r\n"))
        return parse_version_slow(head, p, end, to);
    head->minor = 1;
    *to = p + 11;
    return 1;
}

/* Splits the target from p to `end`, whose path ends at path_end. Returns 1, or minus a status. */
static inline int split_target(struct wh_head *head, const char *bytes, const char *p, const char *path_end,
                               const char *end)
{
    head->target = wh_slice_of(bytes, p, end);
    if (path_end < end) {
        head->has_query = true;
        head->query = wh_slice_of(bytes, path_end + 1, end);
    }
    if (*p != '/' || head->method == WH_CONNECT)
        return wh_split_other_form(head, bytes, p, path_end, end);
    head->form = WH_ORIGIN_FORM;
    head->path = wh_slice_of(bytes, p, path_end);
    return 1;
}

/* Parses the target and the rest of the line. */
static int parse_target(struct wh_head *head, const char *bytes, const char *p, const char *end)
{
    struct wh_path_marks marks = {false, false};
    const char *path_end = wh_path_end(p, end, &marks), *target_end = path_end, *next = NULL;
    if (path_end == end)
        return stop_in_run(head, bytes, end, WH_PATH_BYTE);
    if (*path_end == '?') {
        target_end = wh_query_end(path_end + 1, end);
        if (target_end == end)
            return stop_in_run(head, bytes, end, WH_QUERY_BYTE);
    }
    if (target_end == p)
        return BAD;
    int rc = parse_version(head, target_end, end, &next);
    if (rc <= 0)
        return rc;
    head->has_percent = marks.has_percent;
    head->has_dot = marks.has_dot;
    rc = split_target(head, bytes, p, path_end, target_end);
    if (rc <= 0)
        return rc;
    head->line = (uint32_t)(next - bytes);
    head->saw |= SAW_REQUEST_LINE;
    return 1;
}

/* Returns 1, MORE or minus a status. It skips one empty line before the request line (RFC 9112, 2.2). */
static int parse_request_line(struct wh_head *head, const char *bytes, const char *end)
{
    const char *p = bytes + head->line;
    if (head->line == 0 && p < end && *p == '\r') {
        if (end - p < 2)
            return MORE;
        if (p[1] != '\n')
            return BAD;
        head->line = 2;
        p += 2;
    }
    if (end - p >= 4 && wh_load4(p) == wh_load4("GET ")) {
        head->method = WH_GET;
        head->method_text = wh_slice_of(bytes, p, p + 3);
        p += 4;
    } else {
        int rc = parse_method(head, bytes, p, end, &p);
        if (rc <= 0)
            return rc;
    }
    return parse_target(head, bytes, p, end);
}

/* ---- fields with a meaning ---------------------------------------------------------------------------------- */

#ifdef __SSE2__
/* True for the usual host of at most 16 bytes: a name or IPv4 address, perhaps with a port of 1 to 5 digits. False for
 * any other host, valid or not. The bytes from p to `room` can be read. */
static inline bool is_usual_host(const char *p, const char *end, const char *room)
{
    size_t size = (size_t)(end - p);
    if (size > 16 || room - p < 16)
        return false;
    __m128i bytes = wh_load16(p);
    size_t name = (size_t)__builtin_ctz(wh_host_stops(bytes) | 0x10000);
    if (name >= size)
        return size > 0;
    if (name == 0 || p[name] != ':' || size - name < 2 || size - name > 6)
        return false;
    unsigned digits = wh_digits(bytes) >> (name + 1), all = (1u << (size - name - 1)) - 1;
    return (digits & all) == all && (size - name < 6 || p[name + 1] < '6' || wh_is_host(p, end, &(int){0}));
}
#else
static inline bool is_usual_host(const char *p, const char *end, const char *room)
{
    (void)p, (void)end, (void)room;
    return false;
}
#endif

/* Host: only one, and valid. It may be empty. */
__attribute__((noinline)) static int note_host(struct wh_head *head, const char *bytes, const char *p, const char *end,
                                               const char *room)
{
    int port;
    if (head->saw & SAW_HOST || (p < end && !is_usual_host(p, end, room) && !wh_is_host(p, end, &port)))
        return BAD;
    head->saw |= SAW_HOST;
    if (head->form == WH_ORIGIN_FORM || head->form == WH_ASTERISK_FORM)
        head->host = wh_slice_of(bytes, p, end);
    return 1;
}

/* Content-Length: only one, digits, at most INT64_MAX, and no Transfer-Encoding beside it. */
__attribute__((noinline)) static int note_length(struct wh_head *head, const char *p, const char *end)
{
    uint64_t length = 0;
    if (head->saw & (SAW_LENGTH | SAW_CODING) || p == end)
        return BAD;
    for (; p < end; p++) {
        if (!wh_is(*p, WH_DIGIT))
            return BAD;
        unsigned digit = (unsigned)(*p - '0');
        if (length > ((uint64_t)INT64_MAX - digit) / 10)
            return BAD;
        length = length * 10 + digit;
    }
    head->saw |= SAW_LENGTH;
    head->has_length = true;
    head->length = length;
    return 1;
}

/* Takes the next element of a list with commas, without white space around it. False: the list has ended. */
static bool next_element(const char **p, const char *end, const char **from, const char **to)
{
    if (*p > end)
        return false;
    const char *comma = memchr(*p, ',', (size_t)(end - *p));
    *from = *p;
    *to = comma ? comma : end;
    *p = *to + 1;
    while (*from < *to && (**from == ' ' || **from == '\t'))
        ++*from;
    while (*from < *to && ((*to)[-1] == ' ' || (*to)[-1] == '\t'))
        --*to;
    return true;
}

/* Transfer-Encoding: only "chunked" is accepted. If other codings stand before one "chunked" at the end, the status is
 * 501. Everything else is 400, because the length of the body is not known, or servers may disagree about it. */
__attribute__((noinline)) static int note_coding(struct wh_head *head, const char *p, const char *end)
{
    if (head->minor == 0 || head->saw & (SAW_LENGTH | SAW_CODING))
        return BAD;
    head->saw |= SAW_CODING;
    head->is_chunked = true;
    if (WH_IS_WORD(p, (size_t)(end - p), "chunked"))
        return 1;
    const char *from, *to;
    bool was_chunked = false;
    while (next_element(&p, end, &from, &to)) {
        const char *name_end = wh_skip(from, to, WH_TOKEN);
        if (was_chunked || name_end == from || (name_end < to && *name_end != ';'))
            return BAD;
        if (WH_IS_WORD(from, (size_t)(name_end - from), "chunked")) {
            was_chunked = true;
            if (name_end < to)
                return BAD; /* chunked has no parameters */
        }
    }
    return was_chunked ? -501 : BAD;
}

static int note_option(struct wh_head *head, const char *text, size_t size)
{
    if (WH_IS_WORD(text, size, "keep-alive"))
        head->says_keep_alive = true;
    else if (WH_IS_WORD(text, size, "close"))
        head->saw |= SAW_CLOSE;
    else if (WH_IS_WORD(text, size, "upgrade"))
        head->saw |= SAW_UPGRADE_OPTION;
    else if (size && !wh_is_token(text, size))
        return BAD;
    return 1;
}

/* Connection: a list of tokens; elements may be empty. Nearly always it is "keep-alive". */
__attribute__((noinline)) static int note_connection(struct wh_head *head, const char *p, const char *end)
{
    const char *from, *to;
    if (WH_IS_WORD(p, (size_t)(end - p), "keep-alive")) {
        head->says_keep_alive = true;
        return 1;
    }
    while (next_element(&p, end, &from, &to)) {
        if (note_option(head, from, (size_t)(to - from)) < 0)
            return BAD;
    }
    return 1;
}

/* Expect: a list; elements may be empty. */
static int note_expect(struct wh_head *head, const char *p, const char *end)
{
    const char *from, *to;
    while (next_element(&p, end, &from, &to)) {
        if (from == to)
            continue;
        if (!WH_IS_WORD(from, (size_t)(to - from), "100-continue"))
            return -417;
        head->expects_continue = head->minor == 1;
    }
    return 1;
}

/* Reads a field if the parser understands it. Its value is from p to `end`. The bytes that have come end at `room`. */
__attribute__((always_inline)) static inline int note_field(struct wh_head *head, const char *bytes, const char *name,
                                                            size_t size, const char *p, const char *end,
                                                            const char *room)
{
    switch (size) {
    case 4:
        return WH_IS_WORD(name, size, "host") ? note_host(head, bytes, p, end, room) : 1;
    case 6:
        return WH_IS_WORD(name, size, "expect") ? note_expect(head, p, end) : 1;
    case 7:
        if (WH_IS_WORD(name, size, "upgrade"))
            head->saw |= SAW_UPGRADE;
        return 1;
    case 10:
        return WH_IS_WORD(name, size, "connection") ? note_connection(head, p, end) : 1;
    case 14:
        return WH_IS_WORD(name, size, "content-length") ? note_length(head, p, end) : 1;
    case 17:
        return WH_IS_WORD(name, size, "transfer-encoding") ? note_coding(head, p, end) : 1;
    default:
        return 1;
    }
}

/* ---- field lines -------------------------------------------------------------------------------------------- */

__attribute__((always_inline)) static inline int note_line(struct wh_head *head, const char *bytes, const char *name,
                                                           const char *colon, const char *value, const char *value_end,
                                                           const char *end)
{
    struct wh_field *f = &head->fields[head->count++];
    f->name = wh_slice_of(bytes, name, colon);
    f->value = wh_slice_of(bytes, value, value_end);
    return note_field(head, bytes, name, (size_t)(colon - name), value, value_end, end);
}

/* Parses any line that is not empty, and sets *to behind it. Returns 1, MORE or minus a status. */
__attribute__((noinline)) static int parse_any_line(struct wh_head *head, const char *bytes, const char *p,
                                                    const char *end, const char **to)
{
    const char *colon = wh_name_end(p, end);
    if (colon == end)
        return stop_in_run(head, bytes, end, WH_TOKEN);
    if (*colon != ':' || colon == p)
        return BAD;
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    const char *cr = wh_value_end(value, end);
    if (cr == end)
        return stop_in_run(head, bytes, end, WH_VALUE);
    if (*cr != '\r')
        return BAD;
    if (end - cr < 2)
        return MORE;
    if (cr[1] != '\n')
        return BAD;
    const char *value_end = cr;
    while (value_end > value && (value_end[-1] == ' ' || value_end[-1] == '\t'))
        value_end--;
    *to = cr + 2;
    return note_line(head, bytes, p, colon, value, value_end, end);
}

#ifdef __SSE2__
/*
 * Parses the usual line in a third of the instructions: a name of 1 to 15 letters, digits and '-', then ": ", a value
 * without white space around it, and CR LF. The line must not begin within 18 bytes of the end of what has come.
 * Returns 0 for any other line, right or wrong, and changes nothing; else 1 or minus a status, and sets *to behind the
 * line.
 */
__attribute__((always_inline)) static inline int parse_usual_line(struct wh_head *head, const char *bytes,
                                                                  const char *p, const char *end, const char **to)
{
    if (end - p < 18)
        return 0;
    size_t size = (size_t)__builtin_ctz(wh_name_stops(wh_load16(p)) | 0x10000);
    if (size == 0 || size == 16 || wh_load2(p + size) != wh_load2(": "))
        return 0;
    const char *value = p + size + 2, *cr = value;
    unsigned stops;
    for (;; cr += 16) {
        if (end - cr < 18)
            return 0;
        stops = wh_value_stops(wh_load16(cr));
        if (stops)
            break;
    }
    cr += __builtin_ctz(stops);
    if (cr == value || (uint8_t)*value <= ' ' || (uint8_t)cr[-1] <= ' ' || wh_load2(cr) != wh_load2("\r\n"))
        return 0;
    *to = cr + 2;
    return note_line(head, bytes, p, p + size, value, cr, end);
}
#else
__attribute__((always_inline)) static inline int parse_usual_line(struct wh_head *head, const char *bytes,
                                                                  const char *p, const char *end, const char **to)
{
    (void)head, (void)bytes, (void)p, (void)end, (void)to;
    return 0;
}
#endif

static inline int parse_field_line(struct wh_head *head, const char *bytes, const char *p, const char *end,
                                   const char **to)
{
    if (head->count == head->most_fields)
        return -431;
    int rc = parse_usual_line(head, bytes, p, end, to);
    return rc != 0 ? rc : parse_any_line(head, bytes, p, end, to);
}

/* The head is complete: does the checks that need all lines. */
static int finish(struct wh_head *head, const char *bytes, const char *end)
{
    if (head->minor == 1 && !(head->saw & SAW_HOST))
        return BAD;
    head->keeps_alive = (head->minor == 1 || head->says_keep_alive) && !(head->saw & SAW_CLOSE);
    head->has_upgrade = head->minor == 1 && head->saw & SAW_UPGRADE && head->saw & SAW_UPGRADE_OPTION;
    return (int)(end - bytes);
}

/* Parses the field lines, up to the empty line. Returns the bytes of the head, MORE or minus a status. */
static int parse_fields(struct wh_head *head, const char *bytes, const char *end)
{
    for (const char *p = bytes + head->line;;) {
        if (end - p < 2 && (p == end || *p == '\r'))
            return MORE;
        if (*p == '\r')
            return p[1] == '\n' ? finish(head, bytes, p + 2) : BAD;
        int rc = parse_field_line(head, bytes, p, end, &p);
        if (rc <= 0)
            return rc;
        head->line = (uint32_t)(p - bytes);
    }
}

/* ---- the fields of the previous head ------------------------------------------------------------------------ */

/* True if both are equal and have no zero byte. */
static inline bool equal_without_zero(const char *a, const char *b, size_t size)
{
#ifdef __SSE2__
    if (size >= 16) {
        const char *last = a + size - 16;
        __m128i bytes = wh_load16(last), least = bytes; /* of each lane */
        __m128i differs = _mm_xor_si128(bytes, wh_load16(b + size - 16));
        for (; a < last; a += 16, b += 16) {
            bytes = wh_load16(a);
            least = _mm_min_epu8(least, bytes);
            differs = _mm_or_si128(differs, _mm_xor_si128(bytes, wh_load16(b)));
        }
        __m128i zero = _mm_setzero_si128();
        return _mm_movemask_epi8(_mm_andnot_si128(_mm_cmpeq_epi8(least, zero), _mm_cmpeq_epi8(differs, zero))) ==
               0xffff;
    }
#endif
    return memcmp(a, b, size) == 0 && !memchr(a, 0, size);
}

/* Moves the slices of the fields by so many bytes. Slices count from the beginning of their head, and the new request
 * line has another length than the previous one. */
static void move_fields(struct wh_head *head, uint32_t by)
{
    for (uint32_t i = 0; i < head->count; i++) {
        head->fields[i].name.at += by;
        head->fields[i].value.at += by;
    }
    head->host.at += by;
}

/* Forgets what the previous fields have said, but keeps a host that the target has set. */
static void forget_fields(struct wh_head *head, bool has_target)
{
    head->count = 0;
    head->is_chunked = head->has_length = false;
    head->says_keep_alive = head->expects_continue = head->has_upgrade = false;
    head->length = 0;
    if (!has_target || head->form == WH_ORIGIN_FORM || head->form == WH_ASTERISK_FORM)
        head->host.size = 0;
}

/*
 * Whether the fields at p, behind a parsed request line, equal those of the previous head. Then the results of the
 * previous fields stay, and the head is complete.
 *
 * The previous fields had no zero byte when they were accepted, but some of their bytes may have become zero since. If
 * the new fields equal them and have no zero byte, none of the bytes has changed.
 */
static inline bool repeat_fields(struct wh_head *head, const char *bytes, const char *p, const char *end)
{
    size_t size = head->before.fields_size;
    if (head->minor != head->before.minor || head->form != WH_ORIGIN_FORM || (size_t)(end - p) < size ||
        !equal_without_zero(p, bytes - head->before.distance + head->before.fields_at, size))
        return false;
    if (head->fields_at != head->before.fields_at)
        move_fields(head, head->fields_at - head->before.fields_at);
    head->line = head->fields_at + (uint32_t)size - 2;
    return true;
}

/* ---- the head ------------------------------------------------------------------------------------------------ */

static int parse_lines(struct wh_head *head, const char *bytes, const char *end)
{
    if (head->run && run_goes_on(head, bytes, end))
        return MORE;
    head->run = 0;
    if (!(head->saw & SAW_REQUEST_LINE)) {
        int rc = parse_request_line(head, bytes, end);
        if (rc <= 0)
            return rc;
        head->fields_at = head->line;
    }
    return parse_fields(head, bytes, end);
}

/* The first call for a head that follows another one. */
static int parse_next(struct wh_head *head, const char *bytes, const char *end)
{
    int rc = parse_request_line(head, bytes, end);
    if (rc == 1) {
        head->fields_at = head->line;
        if (repeat_fields(head, bytes, bytes + head->line, end))
            return (int)head->line + 2;
    }
    forget_fields(head, rc == 1);
    return rc == 1 ? parse_fields(head, bytes, end) : rc;
}

int wh_parse_head(struct wh_head *head, const char *bytes, size_t size)
{
    size_t most = size < head->most_bytes ? size : head->most_bytes;
    int rc;
    if (head->before.distance) {
        rc = parse_next(head, bytes, bytes + most);
        head->before.distance = 0; /* before the next call the caller may move the bytes */
    } else {
        rc = parse_lines(head, bytes, bytes + most);
    }
    if (rc == MORE && size >= head->most_bytes)
        return head->saw & SAW_REQUEST_LINE ? -431 : -414;
    return rc;
}
