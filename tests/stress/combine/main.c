/*
 * Tests all of the public API at once. Each seed makes a round (combine.h says how), and rounds follow each other until
 * the time is over.
 *
 * WEFT_COMBINE_SECONDS   how long the test runs
 * WEFT_COMBINE_SEED      runs the round of this seed again and again; by default the seeds are WEFT_SEED,
 *                        WEFT_SEED + 1, and so on
 * WEFT_COMBINE_SCENES    the scenes that may run: "swap,ready", or "-swap,-ready" for all others
 * WEFT_IO                the driver of all schedulers; by default the plan chooses one for each scheduler
 *
 * A seed repeats the plan and every random choice, but not the order in which the threads run.
 */
#include "stress/combine/combine.h"

#include <stdio.h>

enum { SECONDS = 4 };

/* The first half of a round's line: it names the seed of a round that crashes. */
static void tell_seed(uint64_t seed)
{
    printf("combine: seed %llu,", (unsigned long long)seed);
    fflush(stdout);
}

static void tell_round(uint64_t operations)
{
    static const char *const drivers[] = {"auto", "epoll", "io_uring"};
    for (unsigned i = 0; i < world.scheds; i++)
        printf("%s %u workers, driver %s, %s", i ? ";" : "", world.homes[i].workers, drivers[world.homes[i].io],
               world.homes[i].policy->name);
    printf(": %llu operations, scenes", (unsigned long long)operations);
    for (unsigned i = 0; i < world.count; i++)
        printf(" %s", world.scenes[i].act->name);
    printf("\n");
    fflush(stdout);
}

TEST(everything_at_once_keeps_its_promises)
{
    const char *given = getenv("WEFT_COMBINE_SECONDS"), *replay = getenv("WEFT_COMBINE_SEED");
    weft_time end = weft_in((weft_span)((given ? strtod(given, NULL) : SECONDS) * 1e9));
    uint64_t first = replay ? strtoull(replay, NULL, 0) : test_seed(), seed = first, rounds = 0, operations = 0;
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN + 1); /* for weft_wait_signal: no thread may have it open */
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    watchdog_start();
    do {
        tell_seed(seed);
        uint64_t n = play_round(seed);
        tell_round(n);
        operations += n;
        rounds++;
        seed += replay ? 0 : 1;
    } while (weft_now().ns < end.ns && !test_has_failed());
    watchdog_end();
    if (test_has_failed())
        fprintf(stderr, "combine: WEFT_COMBINE_SEED=%llu repeats the last round\n", (unsigned long long)seed - !replay);
    printf("combine: seeds from %llu: %llu rounds, %llu operations\n", (unsigned long long)first,
           (unsigned long long)rounds, (unsigned long long)operations);
}

TESTS(stress_combine, everything_at_once_keeps_its_promises)
