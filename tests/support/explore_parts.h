/*
 * tests/support/explore_parts.h: what the three parts of the explorer share: explore.c has the schedules,
 * explore_memory.c the weak memory, explore_trace.c the last steps. Threads are numbers, from 0.
 */
#ifndef TESTS_SUPPORT_EXPLORE_PARTS_H
#define TESTS_SUPPORT_EXPLORE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/explore.h"

/* The most steps of one schedule. */
enum { EXPLORE_STEPS = 32768 };

/* True once in 2^bits. */
bool explore_chance(unsigned bits);

/* --- explore_memory.c --- */

/* Each schedule has habits of its own, as some mistakes need haste and some need patience: chances of 1 in 2^n. */
struct memory_habits {
    unsigned publish;  /* that a buffered store leaves its buffer, at each step */
    unsigned old;      /* that a load looks for an old value */
    bool plain_stacks; /* as in struct explore */
};

enum modification { EXCHANGE, ADD, OR, AND };

void memory_begin(struct memory_habits now);
uintptr_t memory_load(int thread, const void *p, size_t size, bool acquire);
void memory_store(int thread, void *p, size_t size, uintptr_t v, bool release);
uintptr_t memory_modify(int thread, void *p, size_t size, enum modification how, uintptr_t v);
bool memory_cas(int thread, void *p, size_t size, uintptr_t *expected, uintptr_t v);
void memory_fence(int thread);

/* Lets some buffered stores become visible, or all of them. */
void memory_publish_some(void);
void memory_publish_all(void);

/* The same operations when no thread runs. */
uintptr_t memory_read(const void *p, size_t size);
void memory_write(void *p, size_t size, uintptr_t bits);
uintptr_t memory_modified(uintptr_t old, size_t size, enum modification how, uintptr_t v);

/* --- explore_trace.c --- */

void trace_begin(void);

/* One step, at p unless that is NULL. `result` is a format for one or two numbers. */
void trace_step(int thread, const char *what, const void *p, const char *result, uintptr_t bits, uintptr_t other);

void trace_print(uint64_t seed, unsigned steps);

#endif
