/*
 * sleepers.h: what the sleepers of every library share: how long each sleeps, the clock, and the answer.
 *
 * sleepers_begin(), then 100,000 flows that each call sleeper_start, sleep for sleeper_us(i), call sleeper_woke; when all
 * have ended, sleepers_answer. One system thread runs them all, and the flow that makes them gives way after each one, so
 * that it starts to sleep as it is made. Made all at once they would keep the first ones from waking in time, and lateness
 * would be how long 100,000 starts take. case_go/main.go has the same in Go.
 */
#ifndef BENCH_SLEEPERS_H
#define BENCH_SLEEPERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLEEPERS 100000

/** Which figure is the bench's; the others are among the parameters. */
enum sleepers_figure { SLEEPERS_P99, SLEEPERS_CPU };

/** Starts the clocks: of the wall and of the CPU. */
void sleepers_begin(void);

/** How long sleeper i is to sleep, from 1000 us to 1,000,000 us; the same in every run and every language. */
uint64_t sleeper_us(size_t i);

/** Sleeper i is about to sleep. */
void sleeper_start(size_t i);

/** Sleeper i is awake again. */
void sleeper_woke(size_t i);

/**
 * Stops the clocks, checks that each has slept once, and answers: p99 lateness in us or CPU time, user and system, in
 * ms. Fails if one woke early and `early_is_error`.
 */
void sleepers_answer(enum sleepers_figure figure, bool early_is_error);

#ifdef __cplusplus
}
#endif

#endif
