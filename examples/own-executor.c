/*
 * own-executor.c: an executor in 20 lines: functions wait in a channel until main calls them, as the loop of a window
 * system would. A task on it awaits tasks in a pool, and all that it does itself it does in main.
 * Prints: 1 + 4 + ... + 100 = 385 in 11 turns of the main loop
 */
#include <stdint.h>
#include <stdio.h>
#include <weft/weft.h>

struct call {
    void (*fn)(void *);
    void *arg;
};
static int execute(void *self, void (*fn)(void *), void *arg)
{
    return weft_chan_send(self, &(struct call){fn, arg}, WEFT_NOW); /* must not block: -EAGAIN if it is full */
}

static void end_loop(void *self)
{
    weft_chan_close(self); /* nothing is left to call */
}

static const weft_executor_ops main_loop = {.size = sizeof main_loop, .execute = execute, .close = end_loop};

static int square(void *arg, void **value)
{
    *value = (void *)((intptr_t)arg * (intptr_t)arg);
    return weft_sleep(WEFT_MS);
}

static int add_up(void *pool, void **sum)
{
    int rc = 0;
    for (intptr_t i = 1; i <= 10 && rc == 0; i++) {
        weft_task *t = NULL;
        void *value = NULL;
        weft_task_start(&t, square, (void *)i, &(weft_task_opts){.on = pool});
        rc = weft_task_await(t, &value, WEFT_FOREVER); /* main calls other functions meanwhile */
        *sum = (char *)*sum + (intptr_t)value;
        weft_task_free(t);
    }
    return rc;
}

int main(void)
{
    weft_chan *calls;
    weft_executor *loop, *pool;
    weft_task *t = NULL;
    struct call next;
    int turns = 0;
    void *sum = NULL;
    if (weft_chan_new(&calls, sizeof next, 100) < 0 || weft_executor_new(&loop, &main_loop, calls) < 0 ||
        weft_executor_async(&pool, 2) < 0 || weft_task_start(&t, add_up, pool, &(weft_task_opts){.on = loop}) < 0)
        return 1;
    weft_executor_close(loop, true); /* it takes no more, and ends with its task */
    for (; weft_chan_recv(calls, &next, WEFT_FOREVER) == 0; turns++)
        next.fn(next.arg);
    weft_task_await(t, &sum, WEFT_FOREVER);
    printf("1 + 4 + ... + 100 = %d in %d turns of the main loop\n", (int)(intptr_t)sum, turns);
    weft_task_free(t);
    return weft_executor_free(loop) < 0 || weft_executor_free(pool) < 0 || weft_chan_free(calls) < 0;
}
