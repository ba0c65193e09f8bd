/*
 * pipeline.c: channels in a row. A plain thread sends numbers, four fibers let the primes pass, and one more adds them up.
 *
 * Prints: 2262 primes, and their sum is 21171191
 */
#include <pthread.h>
#include <stdio.h>

#include <weft/weft.h>

static weft_chan *numbers, *primes;

static void *send_numbers(void *arg)
{
    for (int n = 2; n <= 20000; n++)
        weft_chan_send(numbers, &n, WEFT_FOREVER); /* where a fiber would park, a thread blocks */
    weft_chan_close(numbers);                      /* receivers get what is there, then -EPIPE */
    return arg;
}

static void *sieve(void *arg)
{
    for (int n, divisor = 2; weft_chan_recv(numbers, &n, WEFT_FOREVER) == 0; divisor = 2) {
        while (divisor * divisor <= n && n % divisor != 0)
            divisor++;
        if (divisor * divisor > n)
            weft_chan_send(primes, &n, WEFT_FOREVER);
    }
    return arg;
}

static void *add_up(void *arg)
{
    int count = 0, sum = 0;
    for (int n; weft_chan_recv(primes, &n, WEFT_FOREVER) == 0; count++)
        sum += n;
    printf("%d primes, and their sum is %d\n", count, sum);
    return arg;
}

static void *first(void *arg)
{
    weft_fiber *sieves[4];
    for (int i = 0; i < 4; i++)
        weft_go_with(&sieves[i], NULL, sieve, NULL);
    weft_go(add_up, NULL);
    for (int i = 0; i < 4; i++)
        weft_join(sieves[i], NULL, WEFT_FOREVER);
    weft_chan_close(primes);
    return arg;
}

int main(void)
{
    pthread_t thread;
    if (weft_chan_new(&numbers, sizeof(int), 64) < 0 || weft_chan_new(&primes, sizeof(int), 16) < 0 ||
        pthread_create(&thread, NULL, send_numbers, NULL) != 0 || weft_run(first, NULL, NULL, NULL) < 0)
        return 1;
    return pthread_join(thread, NULL) != 0 || weft_chan_free(numbers) < 0 || weft_chan_free(primes) < 0;
}
