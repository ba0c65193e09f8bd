/*
 * pthread_exit in a program that has taken every key for values of fibers. The program is one of its own: a key that an
 * earlier statement made the hooks take would hide what is stated.
 */
#include "hook/ends.h"

#include <pthread.h>

#include <weft/fiber.h>

static bool was_cleaned; /* atomic */

static void clean(void *arg)
{
    (void)arg;
    __atomic_store_n(&was_cleaned, true, __ATOMIC_RELEASE);
}

static void leave(void *arg)
{
    pthread_cleanup_push(clean, NULL);
    pthread_exit(arg);
    pthread_cleanup_pop(0);
}

STATEMENT(pthread_exit_ends_the_flow_though_the_program_has_taken_all_keys)
{
    weft_local key;
    int taken = 0;
    while (weft_local_new(&key, NULL) == 0)
        taken++;
    CHECK_INT(taken, >=, 126);
    end(begin(leave, NULL));
    CHECK(__atomic_load_n(&was_cleaned, __ATOMIC_ACQUIRE));
}

STATEMENTS(exit_keys, pthread_exit_ends_the_flow_though_the_program_has_taken_all_keys)
