/*
 * hook/lock_join.c: the end of a thread, which a fiber asks for every so often: it cannot be told.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <threads.h>

#include <weft/fiber.h>

#include "hook/lock.h"
#include "hook/wait.h"

#define LONGEST (5 * WEFT_MS)

/* As the C library's: with all that it finds wrong. */
static int attempt(pthread_t thread, void **value)
{
    static const struct timespec long_ago = {0, 0};
    return pthread_timedjoin_np(thread, value, &long_ago);
}

static int join(pthread_t thread, void **value)
{
    int kept = errno, rc;
    for (weft_span pause = WEFT_MS / 10; (rc = attempt(thread, value)) == ETIMEDOUT;
         pause = pause < LONGEST / 2 ? pause * 2 : LONGEST) {
        if (weft_sleep(pause) != 0) {
            rc = ECANCELED;
            break;
        }
    }
    errno = kept;
    return rc;
}

HOOK int pthread_join(pthread_t thread, void **value)
{
    if (wf_locks_here() && wf_lock_may_wait(WF_CALLER))
        return join(thread, value);
    return wf_real.pthread_join(thread, value);
}

HOOK int thrd_join(thrd_t thread, int *result)
{
    void *value = NULL;
    int rc = pthread_join(thread, &value);
    if (rc == 0 && result)
        *result = (int)(uintptr_t)value;
    return rc == 0 ? thrd_success : rc == EBUSY ? thrd_busy : rc == ENOMEM ? thrd_nomem : thrd_error;
}
