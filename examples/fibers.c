/*
 * fibers.c: a first program with fibers. A thousand of them sleep for a tenth of a second and send their numbers through
 * a channel; the first fiber adds them up. Each is plain blocking code; a few threads run them all.
 *
 * Prints: 1000 fibers slept 100 ms each, and their numbers add up to 500500. All of it took ... ms
 */
#include <stdint.h>
#include <stdio.h>

#include <weft/weft.h>

enum { COUNT = 1000 };

static weft_chan *numbers;

static void *sleeper(void *arg)
{
    int n = (int)(intptr_t)arg;
    weft_sleep(100 * WEFT_MS); /* the fiber waits, its thread does not */
    weft_chan_send(numbers, &n, WEFT_FOREVER);
    return NULL;
}

static void *first(void *arg)
{
    weft_time begin = weft_now();
    int started = 0;
    long sum = 0;
    (void)arg;
    while (started < COUNT && weft_go(sleeper, (void *)(intptr_t)(started + 1)) == 0)
        started++;
    for (int i = 0, n = 0; i < started; i++) {
        weft_chan_recv(numbers, &n, WEFT_FOREVER);
        sum += n;
    }
    printf("%d fibers slept 100 ms each, and their numbers add up to %ld. ", started, sum);
    printf("All of it took %d ms\n", (int)((weft_now().ns - begin.ns) / WEFT_MS));
    return NULL;
}

int main(void)
{
    if (weft_chan_new(&numbers, sizeof(int), 0) < 0)
        return 1;
    int rc = weft_run(first, NULL, NULL, NULL); /* a worker for each CPU; returns when every fiber has ended */
    weft_chan_free(numbers);
    return rc < 0;
}
