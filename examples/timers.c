/*
 * timers.c: callbacks at their time. A recurring timer beats every 20 ms, for as long as its owner is there: the fifth beat
 * drops it, no sixth begins, and what the beats use is released when the last of them has returned.
 *
 * Prints: 5 beats, then the heart was released; the bell rang once
 */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

struct heart {
    weft_alive *alive;
    weft_fiber *owner;
    int beats;
};

static int beats, rang;

static void beat(void *arg)
{
    struct heart *h = arg; /* it is there: the timer holds it while this runs */
    weft_sleep(WEFT_MS);   /* a callback is a fiber and may wait; the next beat is on time all the same */
    if (++h->beats == 5)
        weft_alive_drop(h->alive);
}

static void release(void *arg)
{
    struct heart *h = arg;
    beats = h->beats;
    weft_unpark(h->owner);
    free(h);
}

static void ring(void *arg)
{
    ++*(int *)arg;
}

static void *first(void *arg)
{
    struct heart *h = calloc(1, sizeof *h);
    (void)arg;
    if (!h || weft_alive_new(&h->alive, h, release) < 0)
        exit(1);
    h->owner = weft_fiber_current();
    if (weft_timer_new(NULL, 20 * WEFT_MS, true, h->alive, beat, h) < 0 ||
        weft_timer_new(NULL, 150 * WEFT_MS, false, NULL, ring, &rang) < 0) /* the runtime stays up for this one */
        exit(1);
    weft_park(WEFT_FOREVER); /* until the heart is released */
    return NULL;
}

int main(void)
{
    int rc = weft_run(first, NULL, NULL, NULL);
    printf("%d beats, then the heart was released; the bell rang %s\n", beats, rang == 1 ? "once" : "not once");
    return rc < 0;
}
