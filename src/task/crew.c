/*
 * task/crew.c: see crew.h. Any thread.
 */
#include "task/crew.h"

#include <signal.h>
#include <unistd.h>

#include <weft/fiber.h>

#include "base/errno.h"
#include "base/fork.h"
#include "base/plain.h"
#include "base/sys.h"
#include "base/thread.h"

void wf_crew_init(struct wf_crew *crew, void (*release)(struct wf_crew *))
{
    *crew = (struct wf_crew){.release = release, .forks = wf_forks};
}

void wf_crew_reserve(struct wf_crew *crew)
{
    wf_lock(&crew->lock);
    crew->threads++;
    wf_unlock(&crew->lock);
}

/* The thread that ended last is gone when it returns. Any number of callers at a time. */
static void join_last(struct wf_crew *crew)
{
    wf_lock(&crew->lock);
    while (wf_unlikely(crew->telling)) {
        wf_unlock(&crew->lock);
        weft_yield();
        wf_lock(&crew->lock);
    }
    wf_unlock(&crew->lock);
    wf_plain_lock(&crew->joining); /* a caller that finds nothing to join waits for the caller that joins */
    wf_lock(&crew->lock);
    bool has_ended = crew->has_ended;
    crew->has_ended = false;
    wf_unlock(&crew->lock);
    if (has_ended)
        wf_plain_join(crew->ended);
    wf_plain_unlock(&crew->joining);
}

void wf_crew_unreserve(struct wf_crew *crew)
{
    wf_lock(&crew->lock);
    crew->threads--;
    bool last = crew->closed && crew->threads == 0, releases = last && crew->abandoned;
    crew->telling = last && !releases;
    wf_unlock(&crew->lock);
    if (releases) {
        join_last(crew);
        crew->release(crew);
    } else if (last) {
        weft_event_set(&crew->over);
        wf_lock(&crew->lock);
        crew->telling = false; /* nobody joins this thread: so a join waits for the mark */
        wf_unlock(&crew->lock);
    }
}

int wf_crew_thread(pthread_t *id, void *(*fn)(void *), void *arg)
{
    sigset_t all, kept;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    int rc = wf_sys_thread(id, fn, arg);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    return rc;
}

int wf_crew_start(struct wf_crew *crew, void *(*fn)(void *), void *arg)
{
    pthread_t id;
    bool detached = crew->detached; /* the thread may have ended, and the crew be gone, when it is made */
    int rc = wf_crew_thread(&id, fn, arg);
    if (rc == 0 && detached)
        pthread_detach(id);
    return rc;
}

void wf_crew_enter(const struct wf_crew *crew)
{
    wf_thread_now()->crew = crew;
}

void wf_crew_leave(struct wf_crew *crew)
{
    wf_thread_now()->crew = NULL;
    wf_lock(&crew->lock);
    crew->threads--;
    if (crew->detached) {
        wf_unlock(&crew->lock);
        return;
    }
    bool last = crew->closed && crew->threads == 0, releases = last && crew->abandoned;
    bool has_other = crew->has_ended;
    pthread_t other = crew->ended;
    crew->has_ended = !releases;
    crew->ended = pthread_self();
    wf_unlock(&crew->lock);
    if (has_other)
        wf_plain_join(other);
    if (releases) {
        pthread_detach(pthread_self());
        crew->release(crew);
    } else if (last) {
        weft_event_set(&crew->over);
    }
}

void wf_crew_check_fork(uint32_t forks)
{
    if (wf_unlikely(forks != wf_forks))
        _exit(0); /* the executor is closed here, and its thread has nothing to go on with */
}

void wf_crew_close(struct wf_crew *crew)
{
    wf_lock(&crew->lock);
    crew->closed = true;
    bool none = crew->threads == 0;
    wf_unlock(&crew->lock);
    if (none)
        weft_event_set(&crew->over);
}

int wf_crew_join(struct wf_crew *crew, weft_time deadline)
{
    int rc = weft_event_wait(&crew->over, deadline);
    if (rc == 0)
        join_last(crew);
    return rc;
}

void wf_crew_free(struct wf_crew *crew)
{
    if (crew->forks == wf_forks) {
        wf_lock(&crew->lock);
        bool waits = crew->threads > 0;
        crew->abandoned = waits;
        wf_unlock(&crew->lock);
        if (waits)
            return; /* its last thread releases it */
        join_last(crew);
    }
    crew->release(crew);
}
