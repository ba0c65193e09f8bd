/*
 * http/parse.h: the strict parser of a request's head (RFC 9112, sections 2 to 6).
 *
 * It passes over the bytes once, and once more over the values of the fields that it understands (Host, Content-Length,
 * Transfer-Encoding, Connection, Expect). It allocates nothing, does not change the bytes, and returns places in the
 * buffer. What it accepts has one meaning for every server. Only this parser decides the framing (how long the body
 * is). docs/decisions/0034 says what it accepts and why.
 *
 * A head may come in parts. The caller appends bytes to its buffer and calls again. The struct wh_head, which is all
 * the state, keeps where the parser was, so a client that sends one byte at a time costs one byte at a time. The result
 * is the same as for all bytes at once.
 */
#ifndef WH_HTTP_PARSE_H
#define WH_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of the buffer that the head was read into. */
struct wh_slice {
    uint32_t at;
    uint32_t size;
};

/* A field: its name as the client sent it, and its value without white space around it. The byte behind each of them
 * may be overwritten: it is the colon, white space or CR. */
struct wh_field {
    struct wh_slice name, value;
};

/* The order is that of the numbers in methods.h, which begin with 0 for GET. */
enum wh_method {
    WH_OTHER_METHOD,
    WH_GET,
    WH_HEAD,
    WH_OPTIONS,
    WH_POST,
    WH_PUT,
    WH_PATCH,
    WH_DELETE,
    WH_CONNECT,
    WH_TRACE,
};

enum wh_form {
    WH_ORIGIN_FORM,    /* /path?query */
    WH_ABSOLUTE_FORM,  /* http://authority/path?query */
    WH_AUTHORITY_FORM, /* host:port, of CONNECT */
    WH_ASTERISK_FORM,  /* *, of OPTIONS */
};

struct wh_head {
    /* In: the caller's limits. */
    struct wh_field *fields; /* room for the fields */
    uint32_t most_fields;    /* how many fields there is room for */
    uint32_t most_bytes;     /* the most bytes of the whole head */

    /* Between calls; private to parse.c. */
    uint32_t line;      /* where the line begins that is parsed next */
    uint32_t count;     /* fields so far; out: fields */
    uint32_t passed;    /* where the last call stopped, if it stopped in a run of bytes of one class */
    uint32_t fields_at; /* where the first field line begins */
    uint8_t run;        /* the class of that run; 0: the line is parsed from its beginning */
    uint8_t saw;        /* what the lines so far have said */
    struct {            /* the previous head: see wh_head_go_on */
        uint32_t distance, fields_at, fields_size;
        uint8_t minor;
    } before;

    /* Out. Valid once wh_parse_head has returned a positive number. */
    uint8_t method; /* enum wh_method */
    uint8_t form;   /* enum wh_form */
    uint8_t minor;  /* HTTP/1.minor: 0 or 1 */
    bool has_query;
    bool has_percent; /* the path has a '%' */
    bool has_dot;     /* the path has "/." somewhere, so it may have dot segments */
    bool is_chunked;
    bool has_length;       /* Content-Length was sent: `length` */
    bool keeps_alive;      /* the connection is kept, as version and Connection say */
    bool says_keep_alive;  /* Connection: keep-alive was sent */
    bool expects_continue; /* Expect: 100-continue, of an HTTP/1.1 request */
    bool has_upgrade;      /* Connection: upgrade and an Upgrade field, of an HTTP/1.1 request */
    struct wh_slice method_text, target;
    struct wh_slice path;  /* size 0: an absolute form without a path (taken as "/"), or an authority form */
    struct wh_slice query; /* without '?' */
    struct wh_slice host;  /* the authority of the target, or else the value of Host; size 0: none */
    uint64_t length;
};

/* Makes a head ready for the first bytes; the limits stay as they are. */
static inline void wh_head_begin(struct wh_head *head)
{
    head->line = head->count = 0;
    head->run = head->saw = 0;
    head->has_query = head->has_percent = head->has_dot = head->is_chunked = head->has_length = false;
    head->says_keep_alive = head->expects_continue = head->has_upgrade = false;
    head->host.size = 0;
    head->length = 0;
    head->before.distance = 0;
}

/*
 * Makes a head ready for one that follows another one in the same buffer, `distance` bytes behind the beginning of the
 * previous one. This struct wh_head has parsed and accepted the previous head, and since then no byte of that head has
 * changed, except that some have become zero. If the new fields equal the previous ones byte for byte, which is usual
 * in a batch of requests, they are not parsed again.
 */
static inline void wh_head_go_on(struct wh_head *head, uint32_t distance)
{
    if (head->form != WH_ORIGIN_FORM) {
        wh_head_begin(head);
        return;
    }
    head->before.distance = distance;
    head->before.fields_at = head->fields_at;
    head->before.fields_size = head->line + 2 - head->fields_at; /* `line` is that of the empty line */
    head->before.minor = head->minor;
    head->line = 0;
    head->run = head->saw = 0;
    head->has_query = head->has_percent = head->has_dot = false; /* the results of the fields stay for now */
}

/*
 * Parses the head at the beginning of `bytes`. The buffer's bytes before `size` must not change between calls with the
 * same head.
 *
 * Returns the bytes of the head, its empty line included; 0: more bytes are needed; or minus the status of the answer:
 * -400 malformed, -414 the request line alone is beyond most_bytes, -417 an Expect that is not 100-continue, -421 an
 * absolute form of the scheme https, -431 too many bytes or fields, -501 a method of more than 32 bytes or another
 * transfer coding before "chunked", -505 another version than 1.0 or 1.1. After a negative number the head must not be
 * parsed further.
 */
int wh_parse_head(struct wh_head *head, const char *bytes, size_t size);

#endif
