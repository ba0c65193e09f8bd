/*
 * request.h: HTTP/1.1 by hand, for the servers that have no library: the requests that the bench makes, and the answers.
 *
 * The parser finds the end of a head, and reads the request line and the fields that decide where the next request begins
 * and whether the connection is kept. Answers are made once a second, with their Date, and then copied.
 */
#ifndef BENCH_HTTP_REQUEST_H
#define BENCH_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** What is asked for. */
enum request_target { REQUEST_HELLO, REQUEST_FILE, REQUEST_OTHER, REQUEST_TARGETS };

/** What becomes of the connection, and what the answer says about that. */
enum request_end {
    REQUEST_KEEP,    /* it is kept, as HTTP/1.1 does unless it is told otherwise */
    REQUEST_KEEP_10, /* it is kept because an HTTP/1.0 client has asked for that */
    REQUEST_CLOSE,
    REQUEST_ENDS
};

struct request {
    enum request_target target;
    enum request_end end;
    uint64_t body_bytes; /* that follow the head, and are thrown away */
};

/**
 * Reads the head that begins here. Returns its length, 0 if not all of it is here, or -1 if it is malformed, or has a
 * body in chunks.
 */
ssize_t request_parse(const char *bytes, size_t count, struct request *request);

struct answer_text {
    char bytes[320]; /* the head; of REQUEST_HELLO and REQUEST_OTHER the body too */
    size_t count;
};

/** The answers to all requests, as they are at this second. One thread at a time may use it. */
struct answer_texts {
    int64_t second; /* 0: not made yet */
    struct answer_text texts[REQUEST_TARGETS][REQUEST_ENDS];
};

/** Makes the answers anew if the second of their Date has passed. */
void answers_refresh(struct answer_texts *answers);

static inline const struct answer_text *answer_to(const struct answer_texts *answers, const struct request *request)
{
    return &answers->texts[request->target][request->end];
}

#endif
