/*
 * base/lock.c: the contended way of base/lock.h.
 */
#include "base/lock.h"

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS 100        /* about as long as a critical section takes */
#define YIELDS 16        /* the holder may be waiting for this CPU */
#define LONGEST 1000000L /* ns of sleep: it may have a lower priority than we, and never get the CPU from a yield */

void wf_lock_slowly(struct wf_lock *l)
{
    int kept = errno;
    long pause = 20000;
    for (int i = 0;; i++) {
        if (wf_load(&l->word) == 0 && wf_lock_try(l))
            break;
        if (i < SPINS) {
            wf_cpu_relax();
        } else if (i < SPINS + YIELDS) {
            sched_yield();
        } else {
            syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = pause}, NULL); /* not nanosleep(): see base/raw.h */
            pause = pause < LONGEST / 2 ? pause * 2 : LONGEST;
        }
    }
    errno = kept;
}
