/*
 * holds.c: an outside program of which two fibers wait in a hooked call while they hold a mutex, several times. That is told
 * once for each place on stderr.
 */
#include <pthread.h>
#include <unistd.h>

#include <weft/weft.h>

static void *holds(void *arg)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(&mutex);
        usleep(1000);
        pthread_mutex_unlock(&mutex);
    }
    return arg;
}

static void *start(void *arg)
{
    for (int i = 0; i < 2; i++)
        weft_go(holds, NULL);
    return arg;
}

int main(void)
{
    weft_sched_opts opts = {.size = sizeof opts, .threads = 1};
    return weft_run(start, NULL, NULL, &opts) == 0 ? 0 : 1;
}
