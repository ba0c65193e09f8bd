/*
 * base/fork.c: see fork.h.
 */
#include "base/fork.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/barrier.h"
#include "base/own.h"
#include "base/plain.h"

uint32_t wf_forks;

static struct wf_plain_mutex joining;                    /* held around a fork: no part joins meanwhile */
static const struct wf_fork_steps *parts[WF_FORK_PARTS]; /* guarded by: joining */
static struct wf_plain_once once;
static pid_t home; /* the process; set when the first part joins, and by a fork */

bool wf_fork_is_guest(void)
{
    return (pid_t)syscall(SYS_getpid) != home;
}

static void before(void)
{
    wf_plain_lock(&joining);
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
    wf_plain_unlock(&joining);
}

static void in_child(void)
{
    wf_forks++;
    home = (pid_t)syscall(SYS_getpid);
    wf_barrier_in_child();
    wf_own_in_child(); /* before the parts take new numbers */
    for (int i = 0; i < WF_FORK_PARTS; i++) {
        if (parts[i] && parts[i]->in_child)
            parts[i]->in_child();
    }
    wf_plain_unlock(&joining);
}

static void set_up(void)
{
    home = (pid_t)syscall(SYS_getpid);
    pthread_atfork(before, after, in_child);
}

/*
 * Before others, as far as can be: who was registered last is called first before a fork. So what a library does then, such as
 * taking a lock of its own that a fiber may have, is done before our locks are taken, and may let a fiber wait.
 */
__attribute__((constructor(101))) static void register_early(void)
{
    wf_plain_once(&once, set_up);
}

void wf_fork_join(enum wf_fork_part part, const struct wf_fork_steps *steps)
{
    wf_plain_once(&once, set_up);
    wf_plain_lock(&joining);
    parts[part] = steps;
    wf_plain_unlock(&joining);
}
