/*
 * hello.c: the first program. A fiber is a flow of plain code. It may wait, and then only it does: the threads below run
 * others meanwhile. weft_run runs the first fiber, weft_go starts another.
 *
 * Prints: hello from fiber 1
 *         hello from fiber 2
 *         hello from fiber 3
 */
#include <stdio.h>

#include <weft/weft.h>

static void *greet(void *arg)
{
    int number = *(int *)arg;
    weft_sleep(number * 100 * WEFT_MS);
    printf("hello from fiber %d\n", number);
    return NULL;
}

static void *first(void *arg)
{
    static int numbers[] = {3, 1, 2}; /* static: the fibers that read it may end after this one */
    (void)arg;
    for (int i = 0; i < 3; i++)
        weft_go(greet, &numbers[i]); /* returns at once: they sleep all at the same time */
    return NULL;
}

int main(void)
{
    return weft_run(first, NULL, NULL, NULL) < 0; /* returns when every fiber has ended */
}
