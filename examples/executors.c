/* executors.c: a task on its own looper awaits a task in a pool, then a task on a new thread, and adds up. After each
 * await it continues on its looper. Each line begins with its thread's letter. An argument: ms in a second (1000). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

static weft_executor *place[4]; /* of the tasks 1, 2 and 3 */
static weft_span second = WEFT_SEC;

static void say(void *number, void *text)
{
    char name[16] = "", digits[24] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    char who = strstr(name, "loop") ? 'L' : strstr(name, "async") ? 'A' : strstr(name, "thread") ? 'T' : 'M';
    snprintf(digits, sizeof digits, "  %d", (int)(intptr_t)number);
    printf("%c %s%s\n", who, (char *)text, number ? digits : "");
}

static void exits(void *text)
{
    say(NULL, text);
}

static int sleeper(void *number, void **value)
{
    *value = number;
    say(NULL, number == (void *)2 ? "task 2 start ..." : "in task 3 start ...");
    weft_sleep(((intptr_t)number - 1) * second);
    say(NULL, number == (void *)2 ? "task 2 returns after 1s." : "task 3 returns after 2s.");
    return 0;
}

static int simple(void *text, void **sum)
{
    *sum = (void *)1;
    say(NULL, text);
    for (intptr_t i = 2; i <= 3; i++) {
        weft_task *t = NULL;
        void *number = NULL;
        weft_task_start(&t, sleeper, (void *)i, &(weft_task_opts){.on = place[i]});
        weft_task_await(t, &number, WEFT_FOREVER);
        say(number, i == 2 ? "returns from task2:" : "returns from task3:");
        *sum = (char *)*sum + (intptr_t)number;
        weft_task_free(t);
    }
    return 0;
}

int main(int argc, char **argv)
{
    weft_task *t = NULL;
    void *sum = NULL;
    second = argc > 1 ? atoi(argv[1]) * WEFT_MS : second;
    if (weft_executor_looper(&place[1], "my loop", exits, "run_loop exit.") < 0 ||
        weft_executor_async(&place[2], 2) < 0 || weft_executor_thread(&place[3]) < 0)
        return 1;
    weft_task_start(&t, simple, "task start ...", &(weft_task_opts){.on = place[1], .owns_executor = true});
    weft_task_then(t, say, "simple task end:");
    weft_task_await(t, &sum, WEFT_FOREVER);
    say(sum, "simple task end from get:");
    weft_task_free(t); /* and its looper */
    return weft_executor_free(place[2]) < 0 || weft_executor_free(place[3]) < 0;
}
