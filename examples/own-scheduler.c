/*
 * own-scheduler.c: ten coroutines, a list, a loop: a scheduler in a dozen lines. Each worker does its steps and yields
 * between them; the loop takes the first of the list, resumes it, and puts it back at the end until it is done.
 */
#include <stdio.h>

#include <weft/weft.h>

enum { WORKERS = 10 };

struct queue {
    weft_coro *items[WORKERS];
    int head, count;
};

static void push(struct queue *q, weft_coro *c)
{
    q->items[(q->head + q->count++) % WORKERS] = c;
}

static weft_coro *pop(struct queue *q)
{
    weft_coro *c = q->items[q->head++ % WORKERS];
    q->count--;
    return c;
}

/* Worker k takes k steps. */
static void *worker(void *arg)
{
    int *steps = arg;
    for (int i = 0; i < *steps; i++)
        weft_coro_yield(NULL);
    return arg;
}

int main(void)
{
    struct queue ready = {.count = 0};
    int steps[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        weft_coro *c;
        char name[24];
        snprintf(name, sizeof name, "worker %d", i);
        steps[i] = i;
        if (weft_coro_new(&c, worker, &steps[i], &(weft_coro_opts){.size = sizeof(weft_coro_opts), .name = name}) < 0)
            return 1;
        push(&ready, c);
    }
    for (int resumed = 1; ready.count > 0; resumed++) {
        weft_coro *c = pop(&ready);
        if (weft_coro_resume(c, NULL, NULL) == 1) {
            push(&ready, c);
        } else {
            printf("%s is done after %d resumes in all\n", weft_coro_name(c), resumed);
            weft_coro_free(c);
        }
    }
    return 0;
}
