/*
 * tests/support/locals.h: locals with contents that can be checked, for coroutines whose stacks are copied.
 */
#ifndef TESTS_SUPPORT_LOCALS_H
#define TESTS_SUPPORT_LOCALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 8 KiB. */
struct locals {
    uint64_t words[1024];
};

/* The compiler must not know what is in them, or that nobody else writes to them. */
static inline void locals_escape(struct locals *l)
{
    __asm__ volatile("" : : "r"(l) : "memory");
}

static inline uint64_t locals_word(uint64_t seed, size_t i)
{
    return (seed + i + 1) * 0x9e3779b97f4a7c15u;
}

static inline void locals_fill(struct locals *l, uint64_t seed)
{
    for (size_t i = 0; i < sizeof l->words / sizeof l->words[0]; i++)
        l->words[i] = locals_word(seed, i);
    locals_escape(l);
}

static inline bool locals_intact(struct locals *l, uint64_t seed)
{
    bool intact = true;
    locals_escape(l);
    for (size_t i = 0; i < sizeof l->words / sizeof l->words[0]; i++)
        intact = intact && l->words[i] == locals_word(seed, i);
    return intact;
}

#endif
