/*
 * io/alarm.c: alarms by the wall clock; see weft/alarm.h. Any thread.
 *
 * A fiber waits for a timerfd on CLOCK_REALTIME. The kernel knows when that clock is set, and the read that tells of it
 * (ECANCELED) has the time set anew, so that it is the clock as it is now that counts.
 *
 *      PENDING ──its fiber, at the time──▶ OVER      one compare-and-swap decides between the two
 *         └──────cancel──▶ OVER
 */
#include <weft/alarm.h>

#include <poll.h>
#include <sys/timerfd.h>
#include <time.h>

#include <weft/fiber.h>
#include <weft/io.h>

#include "base/errno.h"
#include "base/atomic.h"
#include "base/sys.h"
#include "io/own.h"
#include "sched/alive.h"
#include "sched/finish.h"
#include "sched/slice.h"

enum { PENDING, OVER };

struct weft_alarm {
    uint32_t state;     /* atomic: see above */
    uint32_t holders;   /* atomic: its fiber, and whoever has the handle */
    weft_fiber *fiber;  /* owner: whoever has the handle; NULL: nobody has, it is detached */
    int fd;             /* owner: the fiber */
    weft_wall at;       /* const */
    weft_alive *cond;   /* const; or NULL */
    void (*fn)(void *); /* const */
    void *arg;          /* const */
};

weft_wall weft_wall_now(void)
{
    struct timespec ts;
    wf_slice_here();
    clock_gettime(CLOCK_REALTIME, &ts);
    return (weft_wall){(int64_t)ts.tv_sec * WEFT_SEC + ts.tv_nsec};
}

static void leave(weft_alarm *a)
{
    if (wf_add(&a->holders, (uint32_t)-1) != 1) /* acq_rel: what the other did is over */
        return;
    if (a->cond)
        wf_alive_forget(a->cond);
    wf_sys_free(a);
}

/* Whether the caller decides what becomes of it. */
static bool is_mine(weft_alarm *a)
{
    uint32_t pending = PENDING;
    return wf_cas(&a->state, &pending, OVER);
}

static int set_time(const weft_alarm *a)
{
    int64_t ns = a->at.ns > 0 ? a->at.ns : 1; /* 0 would switch it off */
    struct itimerspec when = {.it_value = {.tv_sec = ns / WEFT_SEC, .tv_nsec = ns % WEFT_SEC}};
    return wf_sys_timerfd_set(a->fd, &when);
}

/* 0 when its time has come. */
static int await_time(weft_alarm *a)
{
    int rc = set_time(a);
    while (rc == 0) {
        rc = weft_wait_fd(a->fd, POLLIN, WEFT_FOREVER);
        if (rc < 0)
            return rc; /* the fiber was cancelled */
        rc = wf_sys_timerfd_read(a->fd);
        if (rc > 0)
            return 0;
        rc = rc == -ECANCELED ? set_time(a) : rc == -EAGAIN ? 0 : rc; /* ECANCELED: the clock was set */
    }
    return rc;
}

/* The callback has returned, or ended its fiber. */
static void is_over(void *arg)
{
    weft_alarm *a = arg;
    if (a->cond)
        wf_alive_leave(a->cond);
    leave(a);
}

static void *alarm_fiber(void *arg)
{
    weft_alarm *a = arg;
    int rc = await_time(a);
    wf_close_own(a->fd);
    if (is_mine(a) && rc == 0 && (!a->cond || wf_alive_hold(a->cond))) {
        struct wf_finish step;
        wf_finish_begin(&step, is_over, a);
        a->fn(a->arg);
        wf_finish_end(&step);
    } else {
        leave(a);
    }
    return NULL;
}

int weft_alarm_new(weft_alarm **out, weft_wall at, weft_alive *cond, void (*fn)(void *arg), void *arg)
{
    wf_slice_here();
    if (!fn || at.ns < 0)
        return -EINVAL;
    if (cond && wf_alive_is_dropped(cond))
        return -ESRCH;
    weft_alarm *a = wf_sys_malloc(sizeof *a);
    if (!a)
        return -ENOMEM;
    *a = (weft_alarm){.holders = out ? 2 : 1, .at = at, .cond = cond, .fn = fn, .arg = arg};
    int rc = a->fd = wf_sys_timerfd(CLOCK_REALTIME);
    if (rc >= 0) {
        if (cond)
            wf_alive_know(cond);
        rc = weft_go_with(out ? &a->fiber : NULL, (&(weft_attr){.name = "alarm"}), alarm_fiber, a);
        if (rc == 0 && out)
            *out = a;
        if (rc == 0)
            return 0;
        wf_close_own(a->fd);
        if (cond)
            wf_alive_forget(cond);
    }
    wf_sys_free(a);
    return rc;
}

int weft_alarm_cancel(weft_alarm *a)
{
    wf_slice_here();
    if (!a)
        return -EINVAL;
    if (!is_mine(a))
        return 0;
    weft_cancel(a->fiber); /* it has nothing to wait for any more */
    return 1;
}

int weft_alarm_free(weft_alarm *a)
{
    if (!a)
        return 0;
    int in_time = weft_alarm_cancel(a);
    weft_detach(a->fiber);
    leave(a);
    return in_time;
}
