/*
 * Waiting for children and for signals.
 */
#include <signal.h>
#include <sys/wait.h>

#include <weft/process.h>

#include "unit/io/ground.h"

/* A child that ends with `status` when the pipe's other end, *end, is closed. */
static pid_t new_child(int *end, int status)
{
    struct pair p = pipe_pair(0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(p.b);
        _exit(read(p.a, &byte, 1) == 0 ? status : 99);
    }
    CHECK_INT(pid, >, 0);
    close(p.a);
    *end = p.b;
    return pid;
}

struct waiting {
    pid_t pid;
    int status;
};

static void *waits(void *arg)
{
    struct waiting *w = arg;
    return ptr(weft_wait_child(w->pid, &w->status, WEFT_FOREVER));
}

IN_FIBER(a_child_is_waited_for)
{
    int end;
    struct waiting w = {.pid = new_child(&end, 42), .status = -1};
    CHECK_INT(weft_wait_child(w.pid, &w.status, WEFT_NOW), ==, -EAGAIN);
    weft_time until = weft_in(2 * WEFT_MS);
    CHECK_INT(weft_wait_child(w.pid, &w.status, until), ==, -ETIMEDOUT);
    CHECK_INT(real_now(), >=, until.ns);
    CHECK_INT(w.status, ==, -1);
    weft_fiber *f = go(waits, &w);
    AWAIT(is_parked(f));
    close(end);
    CHECK_PTR(ended(f), ==, ptr(0));
    CHECK(WIFEXITED(w.status) && WEXITSTATUS(w.status) == 42);
    CHECK_INT(weft_wait_child(w.pid, NULL, WEFT_FOREVER), ==, -ECHILD);
    CHECK_INT(weft_wait_child(getpid(), NULL, WEFT_FOREVER), ==, -ECHILD);
    CHECK_INT(weft_wait_child(0, NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_wait_child(-1, NULL, WEFT_FOREVER), ==, -EINVAL);
    return arg;
}

IN_FIBER(a_child_that_was_killed_says_so)
{
    int end, status = 0;
    pid_t pid = new_child(&end, 0);
    CHECK_INT(kill(pid, SIGKILL), ==, 0);
    CHECK_INT(weft_wait_child(pid, &status, weft_in(100 * WEFT_SEC)), ==, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(end);
    return arg;
}

IN_FIBER(one_of_several_gets_the_child)
{
    int end;
    struct waiting a = {.pid = new_child(&end, 3)}, b = a, c = a;
    weft_fiber *f = go(waits, &a), *g = go(waits, &b), *h = go(waits, &c);
    AWAIT(is_parked(f) && is_parked(g) && is_parked(h));
    CHECK_INT(weft_cancel(h), ==, 0);
    CHECK_PTR(ended(h), ==, ptr(-ECANCELED));
    close(end);
    intptr_t first = (intptr_t)ended(f), second = (intptr_t)ended(g);
    CHECK((first == 0 && second == -ECHILD) || (first == -ECHILD && second == 0));
    CHECK_INT(WEXITSTATUS(first == 0 ? a.status : b.status), ==, 3);
    return arg;
}

TEST(a_plain_thread_waits_for_a_child)
{
    int end, status = 0;
    pid_t pid = new_child(&end, 7);
    CHECK_INT(weft_wait_child(pid, &status, weft_in(2 * WEFT_MS)), ==, -ETIMEDOUT);
    close(end);
    CHECK_INT(weft_wait_child(pid, &status, WEFT_FOREVER), ==, 0);
    CHECK_INT(WEXITSTATUS(status), ==, 7);
}

static sigset_t two_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    return set;
}

static void *waits_for_a_signal(void *arg)
{
    sigset_t set = two_signals();
    return ptr(weft_wait_signal(&set, arg, WEFT_FOREVER));
}

static void *takes_signals(void *arg)
{
    sigset_t set = two_signals();
    struct signalfd_siginfo info = {0};
    CHECK_INT(weft_wait_signal(&set, NULL, WEFT_NOW), ==, -EAGAIN);
    weft_time until = weft_in(2 * WEFT_MS);
    CHECK_INT(weft_wait_signal(&set, NULL, until), ==, -ETIMEDOUT);
    CHECK_INT(real_now(), >=, until.ns);
    weft_fiber *f = go(waits_for_a_signal, &info);
    AWAIT(is_parked(f));
    CHECK_INT(kill(getpid(), SIGUSR2), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(SIGUSR2));
    CHECK_INT(info.ssi_signo, ==, SIGUSR2);
    CHECK_INT(info.ssi_pid, ==, getpid());
    CHECK_INT(kill(getpid(), SIGUSR1), ==, 0); /* it stays pending until somebody comes for it */
    CHECK_INT(weft_wait_signal(&set, &info, weft_in(-1)), ==, SIGUSR1);
    CHECK_INT(weft_wait_signal(&set, &info, WEFT_NOW), ==, -EAGAIN);
    f = go(waits_for_a_signal, NULL);
    AWAIT(is_parked(f));
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_PTR(ended(f), ==, ptr(-ECANCELED));
    return arg;
}

TEST(signals_that_are_blocked_are_waited_for)
{
    sigset_t set = two_signals(), kept;
    CHECK_INT(pthread_sigmask(SIG_BLOCK, &set, &kept), ==, 0);
    in_a_fiber(1, takes_signals, NULL);
    in_a_fiber(2, takes_signals, NULL);
    CHECK_INT(kill(getpid(), SIGUSR1), ==, 0);
    CHECK_INT(weft_wait_signal(&set, NULL, WEFT_FOREVER), ==, SIGUSR1); /* a plain thread */
    CHECK_INT(pthread_sigmask(SIG_SETMASK, &kept, NULL), ==, 0);
}

IN_FIBER(a_signal_that_is_not_blocked_is_refused)
{
    sigset_t set = two_signals();
    CHECK_INT(weft_wait_signal(&set, NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_wait_signal(NULL, NULL, WEFT_FOREVER), ==, -EINVAL);
    return arg;
}

TESTS(io_process, a_child_is_waited_for, a_child_that_was_killed_says_so, one_of_several_gets_the_child,
      a_plain_thread_waits_for_a_child, signals_that_are_blocked_are_waited_for,
      a_signal_that_is_not_blocked_is_refused)
