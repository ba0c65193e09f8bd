/*
 * answer.h: checks every byte of the answers of a server, and counts them.
 *
 * An answer must be an HTTP/1.1 200 with exactly one Content-Length, which is that of the expected body, and with that
 * body. A wrong answer ends the process (case_fail). One stream of answers is checked piece by piece as it comes.
 */
#ifndef BENCH_HTTP_ANSWER_H
#define BENCH_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What all answers of this process must be. */
struct answer_rules {
    const char *body;
    size_t bytes;
    bool closes; /* the answer must say "Connection: close"; else it must not */
};

/** How far the answers of one connection have come. All zero: an answer is about to begin. */
struct answer_stream {
    char *head;        /* the part of a head that has come; NULL: none */
    uint32_t head_got; /* bytes of it */
    uint32_t body_got;
    bool in_body;
};

/** Sets the rules. */
void answer_expect(const struct answer_rules *rules);

/** Takes the next bytes of a stream. Returns how many answers they complete. */
unsigned answer_take(struct answer_stream *stream, const char *bytes, size_t count);

/** Whether the stream is between two answers. */
bool answer_is_whole(const struct answer_stream *stream);

#endif
