/*
 * pipeline.c: a plain thread sends numbers, a fiber for each worker sorts them into primes and others, and one more
 * collects both kinds as they come: channels between a thread and fibers, a select, a waitgroup. The fibers run on all
 * cores.
 *
 * Prints: 2262 primes, the last of them 19997, and 17738 others
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include <weft/weft.h>

enum { LIMIT = 20000 };

static weft_chan *numbers, *primes, *others;
static weft_waitgroup sorters; /* all zero is a valid one */

/* The thread. It knows nothing of fibers: where one of them would park, it blocks. */
static void *count(void *arg)
{
    (void)arg;
    for (int n = 1; n <= LIMIT; n++)
        weft_chan_send(numbers, &n, WEFT_FOREVER);
    weft_chan_close(numbers); /* receivers get what is there, then -EPIPE */
    return NULL;
}

static bool is_prime(int n)
{
    for (int divisor = 2; divisor * divisor <= n; divisor++) {
        if (n % divisor == 0)
            return false;
    }
    return n > 1;
}

static void *sort(void *arg)
{
    (void)arg;
    for (int n; weft_chan_recv(numbers, &n, WEFT_FOREVER) == 0;)
        weft_chan_send(is_prime(n) ? primes : others, &n, WEFT_FOREVER);
    weft_waitgroup_done(&sorters);
    return NULL;
}

static void *close_when_sorted(void *arg)
{
    (void)arg;
    weft_waitgroup_wait(&sorters, WEFT_FOREVER);
    weft_chan_close(primes);
    weft_chan_close(others);
    return NULL;
}

/* Takes from whichever has something, until both are closed. */
static void collect(void)
{
    int n = 0, last = 0, prime_count = 0, other_count = 0;
    weft_case cases[] = {{.op = WEFT_RECV, .chan = primes, .value = &n},
                         {.op = WEFT_RECV, .chan = others, .value = &n}};
    for (size_t open = 2; open > 0;) {
        int i = weft_select(cases, open, WEFT_FOREVER);
        if (i < 0)
            return;
        if (cases[i].result < 0) { /* -EPIPE: this one is closed and empty */
            cases[i] = cases[--open];
        } else if (cases[i].chan == primes) {
            prime_count++;
            last = n > last ? n : last; /* several sorters: they do not come in order */
        } else {
            other_count++;
        }
    }
    printf("%d primes, the last of them %d, and %d others\n", prime_count, last, other_count);
}

static void *first(void *arg)
{
    weft_sched_figures figures = {.size = sizeof figures};
    (void)arg;
    weft_sched_stats(weft_sched_current(), &figures);
    for (size_t i = 0; i < figures.workers; i++) {
        weft_attr attr = {.size = sizeof attr, .name = "sorter", .worker = WEFT_WORKER(i)};
        weft_waitgroup_add(&sorters, 1);
        if (weft_go_with(NULL, &attr, sort, NULL) < 0)
            weft_waitgroup_done(&sorters);
    }
    if (weft_go(close_when_sorted, NULL) == 0)
        collect();
    return NULL;
}

int main(void)
{
    pthread_t counter;
    if (weft_chan_new(&numbers, sizeof(int), 64) < 0 || weft_chan_new(&primes, sizeof(int), 16) < 0 ||
        weft_chan_new(&others, sizeof(int), 16) < 0 || pthread_create(&counter, NULL, count, NULL) != 0)
        return 1;
    int rc = weft_run(first, NULL, NULL, NULL);
    if (rc < 0)
        return 1;
    pthread_join(counter, NULL);
    weft_chan_free(numbers);
    weft_chan_free(primes);
    weft_chan_free(others);
    return 0;
}
