/*
 * shared-stack.c: many coroutines on one stack. What is live on it is copied out when another one runs, so an idle
 * coroutine costs a few hundred bytes instead of a page. The rule: a pointer to a local is valid only while its coroutine
 * runs, so what others touch (the total, here) lives elsewhere.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

enum { COUNT = 10000 };

static long total; /* touched by all of them, so not on the shared stack */

/* Waits for two numbers and adds their product. */
static void *multiply(void *arg)
{
    int number[2];
    (void)arg;
    number[0] = *(int *)weft_coro_yield(NULL); /* lives on the shared stack, and is copied out and in */
    number[1] = *(int *)weft_coro_yield(NULL);
    total += (long)number[0] * number[1];
    return NULL;
}

int main(void)
{
    weft_coro **all = calloc(COUNT, sizeof(weft_coro *));
    weft_stacks *stacks;
    if (!all || weft_stacks_new(&stacks, 1, 0) < 0)
        return 1;
    for (int i = 0; i < COUNT; i++) {
        weft_coro_opts opts = {.size = sizeof opts, .shared = stacks};
        if (weft_coro_new(&all[i], multiply, NULL, &opts) < 0)
            return 1;
        weft_coro_resume(all[i], NULL, NULL); /* to its first yield */
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            int n = i + round;
            weft_coro_resume(all[i], &n, NULL);
        }
    }
    printf("%d coroutines on one stack: the sum of i * (i + 1) is %ld\n", COUNT, total);
    for (int i = 0; i < COUNT; i++)
        weft_coro_free(all[i]);
    weft_stacks_free(stacks);
    free(all);
    return 0;
}
