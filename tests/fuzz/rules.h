/*
 * fuzz/rules.h: the rules of a request's head, each as a small predicate on whole lines. It is written for fuzzing, and
 * shares no code and no table with the parser of src/http, so the two do not have the same faults. It may read a head
 * many times. (Both check IPv6 addresses by inet_pton.)
 *
 * The rules are item 2 of docs/decisions/0034, and the limits.
 */
#ifndef TESTS_FUZZ_RULES_H
#define TESTS_FUZZ_RULES_H

#include "fuzz/fuzz.h"

enum rule {
    RULE_EMPTY_LINES,  /* more than one before the request line */
    RULE_LINE_ENDS,    /* a CR or LF that is not CR LF */
    RULE_REQUEST_LINE, /* it is not: method, space, target, space, HTTP/digit.digit */
    RULE_METHOD_SIZE,  /* more than 32 bytes */
    RULE_VERSION,      /* neither 1.0 nor 1.1 */
    RULE_TARGET,       /* malformed, or not for this method */
    RULE_SCHEME,       /* a target in absolute form with https */
    RULE_FOLDED,       /* a line begins with white space */
    RULE_NAME,         /* of a field: empty, with another byte than those of a token, or without a colon */
    RULE_CONTROL,      /* a control character in a value */
    RULE_HOST,         /* missing in 1.1, double or malformed */
    RULE_LENGTH,       /* Content-Length: malformed, repeated, too large, or beside Transfer-Encoding */
    RULE_CODING,       /* Transfer-Encoding: in 1.0, repeated, malformed, or without "chunked" at its end alone */
    RULE_OTHER_CODING, /* another coding before "chunked" */
    RULE_EXPECT,       /* not 100-continue */
    RULE_CONNECTION,   /* a malformed list */
    RULE_FIELDS,       /* too many */
    RULE_HEAD_BYTES,   /* too many */
    RULE_LINE_BYTES,   /* too many, and the request line alone has them */
    RULES,
};

enum { RULES_FIELDS = 64 }; /* the most fields that are kept */

struct rules_field {
    struct text name, value; /* the value without white space around it */
};

/* What a head means, if it breaks no rule. */
struct rules_head {
    size_t size;     /* with its empty line */
    uint32_t broken; /* rules; one bit each */
    struct text method, target, path, query, host;
    int major, minor;
    bool has_query, is_chunked, has_length, keeps_alive, says_keep_alive, says_close, expects_continue, has_upgrade;
    uint64_t length;
    unsigned count;
    struct rules_field fields[RULES_FIELDS];
};

/* Where the head ends: behind the first empty line that follows a line that is not empty. 0: it is not complete. */
size_t rules_head_size(const char *bytes, size_t size);

/* Reads a head of this size against the rules. */
void rules_read(struct rules_head *h, const char *bytes, size_t size, size_t most_bytes, unsigned most_fields);

/* The status of the answer to a head that breaks this rule. */
int rules_status(enum rule rule);

/* Whether one of the broken rules has the status. */
bool rules_have_status(uint32_t broken, int status);

/* The value of the first field of a name in lower case; at: NULL, there is none. */
struct text rules_field(const struct rules_head *h, const char *lower);

#endif
