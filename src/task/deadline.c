/*
 * task/deadline.c: deadlines of tasks that are coroutines and await. Their threads do other work meanwhile, so one
 * thread of the library keeps their timers. The thread is made when the first timer is set. It ends when it has kept no
 * timer for a second.
 *
 * One lock guards all timers. The thread holds this lock also while it settles the tasks whose timers are due. So once
 * a task has deleted its timer, the thread does not touch the task any more.
 */
#include <pthread.h>

#include "base/errno.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/sys.h"
#include "task/crew.h"
#include "task/task.h"

#define IDLE_FOR WEFT_SEC

static struct {
    struct wf_lock lock;
    struct wf_wheel wheel; /* guarded by: lock */
    bool made;             /* the wheel is made. guarded by: lock */
    bool running;          /* there is a thread. guarded by: lock */
    uint32_t news;         /* atomic: a futex; changes under the lock when the earliest deadline may be earlier */
} deadlines;

/* Settles the tasks that are due, and returns those that it won. guarded by: lock */
static weft_task *settle_due(int64_t now)
{
    weft_task *won = NULL, **end = &won;
    struct wf_timer *next;
    for (struct wf_timer *timer = wf_wheel_expire(&deadlines.wheel, now); timer; timer = next) {
        weft_task *t = (weft_task *)((char *)timer - offsetof(weft_task, coro.timer));
        next = timer->next;
        if (wf_task_settle(t, -ETIMEDOUT)) {
            *end = t;
            end = &t->coro.next;
        }
    }
    *end = NULL;
    return won;
}

static void resume_all(weft_task *won)
{
    struct wf_later later = {0};
    while (won) {
        weft_task *next = won->coro.next; /* read now: `won` may be gone after its resume */
        wf_task_resume(won, &later, false);
        won = next;
    }
    wf_later_apart(&later); /* this thread serves other deadlines */
}

static void *keep_deadlines(void *arg)
{
    pthread_setname_np(pthread_self(), "weft_deadlines");
    int64_t idle_until = INT64_MAX;
    uint32_t forks = wf_forks;
    wf_lock(&deadlines.lock);
    for (;;) {
        int64_t now = wf_clock_now(), next;
        weft_task *won = settle_due(now);
        if (won) {
            wf_unlock(&deadlines.lock);
            resume_all(won);
            if (forks != wf_forks)
                return arg; /* a task on noop has forked: in the child this thread keeps no deadlines */
            wf_lock(&deadlines.lock);
            continue;
        }
        next = wf_wheel_next(&deadlines.wheel);
        if (next != INT64_MAX)
            idle_until = INT64_MAX;
        else if (idle_until == INT64_MAX)
            idle_until = now + IDLE_FOR;
        else if (now >= idle_until)
            break;
        uint32_t news = wf_load(&deadlines.news);
        wf_unlock(&deadlines.lock);
        wf_futex_wait(&deadlines.news, news, next < idle_until ? next : idle_until);
        wf_lock(&deadlines.lock);
    }
    deadlines.running = false;
    wf_unlock(&deadlines.lock);
    return arg;
}

/* Called with the lock, because a caller that finds `running` set relies on the thread. */
static int make_thread(void)
{
    pthread_t id;
    int rc = wf_crew_thread(&id, keep_deadlines, NULL);
    if (rc == 0)
        pthread_detach(id);
    return rc;
}

int wf_task_deadline_add(weft_task *t, int64_t when)
{
    int rc = 0;
    wf_lock(&deadlines.lock);
    if (!deadlines.made)
        wf_wheel_init(&deadlines.wheel, wf_clock_now());
    deadlines.made = true;
    if (!deadlines.running)
        rc = make_thread();
    deadlines.running = rc == 0;
    bool earlier = false;
    if (rc == 0) {
        earlier = when < wf_wheel_next(&deadlines.wheel);
        wf_wheel_add(&deadlines.wheel, &t->coro.timer, when);
        if (earlier)
            wf_store(&deadlines.news, wf_load(&deadlines.news) + 1);
    }
    wf_unlock(&deadlines.lock);
    if (earlier)
        wf_futex_wake(&deadlines.news, 1);
    return rc;
}

void wf_task_deadline_del(weft_task *t)
{
    wf_lock(&deadlines.lock);
    wf_wheel_del(&deadlines.wheel, &t->coro.timer);
    wf_unlock(&deadlines.lock);
}

/* The thread, and the tasks that wait, are in the parent. */
void wf_task_deadline_in_child(void)
{
    deadlines.lock = (struct wf_lock){0};
    deadlines.made = deadlines.running = false;
}
