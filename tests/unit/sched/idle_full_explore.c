/*
 * idle_explore.c once more, with rings that have room for two at first: they grow while others steal from them, and what
 * does not fit because there is no memory goes where others see it.
 */
#define WF_RING_SIZE 2u

#include "unit/sched/idle_explore.c" // NOLINT(bugprone-suspicious-include): the same tests
