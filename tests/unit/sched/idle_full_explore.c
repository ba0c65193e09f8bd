/*
 * idle_explore.c once more, with rings that have room for two: what does not fit waits with its worker, and is not
 * forgotten when thieves empty the ring in the moment in which the worker takes from it.
 */
#define WF_RING_SIZE 2u

#include "unit/sched/idle_explore.c" // NOLINT(bugprone-suspicious-include): the same tests
