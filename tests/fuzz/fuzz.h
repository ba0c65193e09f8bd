/*
 * fuzz/fuzz.h: what all harnesses share. A harness is LLVMFuzzerTestOneInput. libFuzzer calls it in the build `fuzz`, and
 * fuzz/replay.c calls it for each file of the corpus in all other builds. A statement that does not hold aborts the process.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size);
/* Optional; once, before the first input. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Part of a buffer. */
struct text {
    const char *at;
    size_t size;
};

/* Says what does not hold, and aborts; printf-like. */
void fuzz_fail(const char *file, int line, const char *fmt, ...) __attribute__((noreturn, format(printf, 3, 4)));

#define FUZZ_CHECK(cond)                                                                                               \
    do {                                                                                                               \
        if (!(cond))                                                                                                   \
            fuzz_fail(__FILE__, __LINE__, "%s", #cond);                                                                \
    } while (0)

#define FUZZ_CHECK_INT(a, b)                                                                                           \
    do {                                                                                                               \
        long long check_a = (long long)(a), check_b = (long long)(b);                                                  \
        if (check_a != check_b)                                                                                        \
            fuzz_fail(__FILE__, __LINE__, "%s is %lld, and %s is %lld", #a, check_a, #b, check_b);                     \
    } while (0)

/* A copy in heap memory of its exact size, so that a sanitizer sees a byte read behind it. The caller frees it. */
char *fuzz_copy(const void *bytes, size_t size);

/* Numbers that follow from a seed: how an input is cut into pieces. */
struct dice {
    uint64_t state;
};

static inline unsigned dice_throw(struct dice *d, unsigned below)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(d->state >> 33) % below;
}

static inline struct text text_between(const char *from, const char *to)
{
    return (struct text){from, (size_t)(to - from)};
}

static inline bool text_is(struct text t, const char *literal)
{
    return t.size == strlen(literal) && memcmp(t.at, literal, t.size) == 0;
}

static inline bool texts_equal(struct text a, struct text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

#endif
