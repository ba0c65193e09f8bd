/*
 * base/fork.c: see fork.h.
 */
#include "base/fork.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/barrier.h"

uint32_t wf_forks;

static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER; /* held around a fork: no part joins meanwhile */
static const struct wf_fork_steps *parts[WF_FORK_PARTS];    /* guarded by: joining */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pid_t home; /* the process; set when the first part joins, and by a fork */

bool wf_fork_is_guest(void)
{
    return (pid_t)syscall(SYS_getpid) != home;
}

static void before(void)
{
    pthread_mutex_lock(&joining);
    for (int i = WF_FORK_PARTS - 1; i >= 0; i--) {
        if (parts[i] && parts[i]->before)
            parts[i]->before();
    }
}

static void after(void)
{
    for (int i = 0; i < WF_FORK_PARTS; i++) {
        if (parts[i] && parts[i]->after)
            parts[i]->after();
    }
    pthread_mutex_unlock(&joining);
}

static void in_child(void)
{
    wf_forks++;
    home = (pid_t)syscall(SYS_getpid);
    wf_barrier_in_child();
    for (int i = 0; i < WF_FORK_PARTS; i++) {
        if (parts[i] && parts[i]->in_child)
            parts[i]->in_child();
    }
    pthread_mutex_unlock(&joining);
}

static void set_up(void)
{
    home = (pid_t)syscall(SYS_getpid);
    pthread_atfork(before, after, in_child);
}

void wf_fork_join(enum wf_fork_part part, const struct wf_fork_steps *steps)
{
    pthread_once(&once, set_up);
    pthread_mutex_lock(&joining);
    parts[part] = steps;
    pthread_mutex_unlock(&joining);
}
