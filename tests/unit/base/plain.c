/*
 * The mutex and the once that block threads.
 */
#include "base/plain.h"

#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

enum { THREADS = 4, ROUNDS = 20000 };

static struct wf_plain_mutex mutex;
static int counter; /* guarded by: mutex */

static void *count(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        wf_plain_lock(&mutex);
        counter++;
        wf_plain_unlock(&mutex);
    }
    return NULL;
}

TEST(one_at_a_time_has_the_mutex)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, count, NULL), ==, 0);
    for (int i = 0; i < THREADS; i++)
        wf_plain_join(threads[i]);
    CHECK_INT(counter, ==, THREADS * ROUNDS);
    CHECK_INT(mutex.word, ==, 0);
}

static struct wf_plain_once once;
static int calls; /* written by the call alone */

static void call_slowly(void)
{
    usleep(20000);
    calls++;
}

static void *call_once_and_look(void *arg)
{
    wf_plain_once(&once, call_slowly);
    CHECK_INT(calls, ==, 1);
    return arg;
}

TEST(who_comes_while_a_once_is_called_waits_for_it)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, call_once_and_look, NULL), ==, 0);
    for (int i = 0; i < THREADS; i++)
        wf_plain_join(threads[i]);
    CHECK_INT(calls, ==, 1);
}

static struct wf_plain_once cut_off;
static int runs; /* in the child: how often it was called there and before */

static void fork_in_the_middle(void)
{
    runs++;
    if (runs > 1)
        return;
    pid_t child = fork();
    if (child == 0) {
        alarm(20); /* should it wait for the parent's call */
        wf_plain_once(&cut_off, fork_in_the_middle);
        _exit(runs == 2 ? 0 : 1);
    }
    int state = -1;
    CHECK_INT(waitpid(child, &state, 0), ==, child);
    CHECK_INT(state, ==, 0);
}

TEST(a_once_that_a_fork_has_cut_off_is_called_again_in_the_child)
{
    wf_plain_once(&cut_off, fork_in_the_middle);
    CHECK_INT(runs, ==, 1);
}

TESTS(plain, one_at_a_time_has_the_mutex, who_comes_while_a_once_is_called_waits_for_it,
      a_once_that_a_fork_has_cut_off_is_called_again_in_the_child)
