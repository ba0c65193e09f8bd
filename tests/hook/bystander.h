/*
 * tests/hook/bystander.h: a fiber that is ready at all times on the worker of the statement, and counts its turns. A call
 * that lets others run, however short, gives it one. In the kernel's run there is none.
 */
#ifndef TESTS_HOOK_BYSTANDER_H
#define TESTS_HOOK_BYSTANDER_H

#include <unistd.h>

#include <weft/fiber.h>

#include "hook/statement.h"

static int turns;       /* atomic: that it had */
static bool is_watched; /* atomic: it is to go on */

static inline int turns_now(void)
{
    return __atomic_load_n(&turns, __ATOMIC_RELAXED);
}

static inline void stand_by(void *arg)
{
    (void)arg;
    while (__atomic_load_n(&is_watched, __ATOMIC_RELAXED)) {
        __atomic_add_fetch(&turns, 1, __ATOMIC_RELAXED);
        weft_yield();
    }
}

static struct flow *bystander;

static inline void watch(void)
{
    if (is_kernel())
        return;
    turns = 0;
    is_watched = true;
    bystander = begin(stand_by, NULL);
    while (turns_now() < 3) /* it runs when we do not */
        weft_yield();
}

static inline void unwatch(void)
{
    if (is_kernel())
        return;
    int before = turns_now();
    usleep(1000);
    CHECK_INT(turns_now(), >, before); /* it would have been seen */
    __atomic_store_n(&is_watched, false, __ATOMIC_RELAXED);
    end(bystander);
}

#endif
