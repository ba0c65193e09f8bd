/*
 * scheduler.c: a scheduler by hand, for programs that have a loop of their own. With use_caller the thread that makes it
 * is worker 0, which works only when it is told to: inside weft_sched_run and weft_sched_stop. Worker 1 has a thread.
 *
 * Prints: worker 1 squared 7: 49
 *         the guest waits for: unpark
 *         worker 0 ran the guest to its end
 */
#include <stdint.h>
#include <stdio.h>

#include <weft/weft.h>

static void *square(void *arg)
{
    intptr_t n = (intptr_t)arg;
    return (void *)(n * n);
}

/* Parks, until it is submitted again. Returns its worker's number. */
static void *guest(void *arg)
{
    (void)arg;
    weft_park(WEFT_FOREVER);
    return (void *)(intptr_t)weft_fiber_worker(weft_fiber_current());
}

int main(void)
{
    weft_sched_opts opts = {.size = sizeof opts, .name = "mine", .threads = 2, .use_caller = true};
    weft_attr on_1 = {.size = sizeof on_1, .worker = WEFT_WORKER(1)};
    weft_sched *s;
    weft_fiber *squarer, *visitor;
    void *value;
    if (weft_sched_new(&s, &opts) < 0)
        return 1;

    /* What a scheduler gets before its start waits for that. Started by go, or made first and submitted. */
    if (weft_sched_go(s, &squarer, &on_1, square, (void *)7) < 0 || weft_fiber_new(&visitor, NULL, guest, NULL) < 0 ||
        weft_sched_submit(s, visitor, WEFT_WORKER(0)) < 0 || weft_sched_start(s) < 0)
        return 1;
    weft_join(squarer, &value, WEFT_FOREVER); /* a thread may join: worker 1 needs nobody's help */
    printf("worker 1 squared 7: %d\n", (int)(intptr_t)value);

    weft_sched_run(s, WEFT_NOW); /* what is ready on worker 0 runs, once, on this thread; then we go on */
    printf("the guest waits for: %s\n", weft_fiber_waits_for(visitor, NULL));
    weft_sched_submit(s, visitor, 0); /* it is parked: it may go on */
    weft_sched_run(s, WEFT_FOREVER);  /* works until no fiber is left */
    weft_join(visitor, &value, WEFT_NOW);
    printf("worker %d ran the guest to its end\n", (int)(intptr_t)value);

    weft_sched_stop(s, WEFT_FOREVER);
    weft_sched_free(s);
    return 0;
}
