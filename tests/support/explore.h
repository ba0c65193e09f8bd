/*
 * tests/support/explore.h: runs a lock-free protocol through many orders of its steps, on a memory weaker than any
 * machine of ours has. The protocol is compiled with WF_EXPLORE (see base/atomic.h), in the test's own source:
 *
 *      #define WF_EXPLORE 1
 *      #include "base/inbox.h"
 *      #include "support/explore.h"
 *
 *      static void producer(int self) { ... wf_inbox_push(&inbox, &nodes[self]); ... }
 *      TEST(nothing_is_lost)
 *      {
 *          explore(&(struct explore){.set_up = empty_it, .threads = {producer, producer, taker}, .check = all_there});
 *      }
 *
 * Its threads are coroutines of one thread. Before each atomic operation a random number says who goes on; everything
 * between two operations is one step. A schedule is a function of its seed alone, if set_up puts everything back. CHECK
 * works in all three kinds of functions; the first failure ends the schedule and is followed by the seed and the last
 * steps.
 *
 * The memory. Each location has a history of values, and each thread a view: the oldest value of each location that it
 * may still read. On top of that each thread has a buffer of stores that nobody else sees yet.
 *
 *   load              its own buffered store, else any value of the history that is not older than its view. A thread
 *                     never goes back in one location's history.
 *   load_acquire      also raises the view to what the value carries
 *   store             goes to the buffer and leaves it at a random moment; stores to different locations in any order
 *   store_release     leaves the buffer after everything stored before it, and carries the view
 *   exchange, add ... empty the buffer, read the newest value, acquire, and carry the view. So does a cas that
 *                     succeeds; one that fails only acquires
 *   fence             empties the buffer; orders all fences among each other: what was visible to one is to the next.
 *                     Loads before it have then acquired, and stores after it carry its view
 *   heavy             a fence of the caller, then one of every other thread, then one of the caller again: membarrier
 *
 * Every result is one that C11 allows (with C++20's release sequences: read-modify-writes alone go on with them), so a
 * failure is a mistake of the protocol. Not all that C11 allows is tried: no load sees what is stored later in the
 * schedule, so no store moves up past an earlier load; and a read-modify-write orders earlier stores for everybody,
 * not only for those who acquire it. Plain variables are not modelled: that contents are published is checked by
 * writing and reading them with wf_store and wf_load.
 *
 * Outside of the threads, in set_up and check, the operations are plain reads and writes of memory.
 */
#ifndef TESTS_SUPPORT_EXPLORE_H
#define TESTS_SUPPORT_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXPLORE_THREADS = 4 };

struct explore {
    void (*set_up)(void);                         /* before each schedule; may be NULL */
    void (*threads[EXPLORE_THREADS])(int number); /* up to the first NULL; each gets its own number, from 0 */
    void (*check)(void);                          /* after each schedule, when all is visible; may be NULL */
    unsigned schedules;                           /* 0: 20,000 */
    bool plain_stacks;                            /* what is on a thread's stack is its own, as by explore_plain */
};

/*
 * Runs schedules until one fails, all are done, or 2 s have passed. WEFT_SEED is the first seed, else 1, and the others
 * follow it; WEFT_SCHEDULES is another number of schedules, and then there is no limit of time.
 */
void explore(const struct explore *what);

/* Runs one schedule; false if it failed, and has said so. */
bool explore_one(const struct explore *what, uint64_t seed);

/* A random number below n, for the threads and set_up: part of the schedule. */
unsigned explore_random(unsigned n);

/* The number of the thread that runs; -1 in set_up and check. */
int explore_self(void);

/* wf_barrier_heavy where that is asymmetric (base/barrier.h): for the test to put in its place. */
void wf_explore_heavy(void);

/*
 * Memory of which its one writer reads without wf_load what it has stored: stores there leave the buffer at once. Others
 * may still read what was there before. 16 places at most; for all schedules of the program.
 */
void explore_plain(const void *p, size_t bytes);

/* Names memory, for the steps that are printed: "name+offset". 16 names at most; for all schedules of the program. */
void explore_name(const void *p, size_t bytes, const char *name);

#endif
