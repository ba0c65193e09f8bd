/*
 * generator.c: a function that hands out one value at a time. The caller asks for the next one; the loop that makes them
 * reads as if nobody ever interrupted it.
 */
#include <stdint.h>
#include <stdio.h>

#include <weft/weft.h>

/* Yields every prime number up to *limit, and ends. */
static void *primes(void *arg)
{
    const int limit = *(const int *)arg;
    for (int n = 2; n <= limit; n++) {
        int divisor = 2;
        while (divisor * divisor <= n && n % divisor != 0)
            divisor++;
        if (divisor * divisor > n)
            weft_coro_yield((void *)(intptr_t)n);
    }
    return NULL;
}

int main(void)
{
    int limit = 50, count = 0;
    weft_coro *generator;
    void *value;
    int rc = weft_coro_new(&generator, primes, &limit, NULL);
    if (rc < 0) {
        fprintf(stderr, "weft_coro_new: error %d\n", -rc);
        return 1;
    }
    while (weft_coro_resume(generator, NULL, &value) == 1) { /* 1: it yielded; 0: it ended */
        printf("%s%d", count++ == 0 ? "" : " ", (int)(intptr_t)value);
    }
    printf("\n%d primes up to %d\n", count, limit);
    weft_coro_free(generator);
    return 0;
}
