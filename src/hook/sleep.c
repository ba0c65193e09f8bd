/*
 * hook/sleep.c: the names that wait for a time. A cancelled fiber's call fails with ECANCELED, and not with EINTR:
 * after EINTR programs sleep again.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <threads.h>

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/offload.h>

#include "hook/away.h"
#include "hook/interrupt.h"
#include "hook/real.h"
#include "hook/wait.h"

static bool is_wrong(const struct timespec *time)
{
    return !time || time->tv_sec < 0 || time->tv_nsec < 0 || time->tv_nsec >= WEFT_SEC;
}

/* 0, EINTR or ECANCELED, with what is left. */
static int sleep_until(weft_time until, struct timespec *left)
{
    int rc = wf_sleep_until(&(struct wf_section){0}, WF_ENDS_ALWAYS, until);
    if (rc == 0)
        return 0;
    int64_t ns = until.ns - weft_now().ns;
    if (left)
        *left = ns > 0 ? (struct timespec){ns / WEFT_SEC, ns % WEFT_SEC} : (struct timespec){0};
    return -rc;
}

HOOK int nanosleep(const struct timespec *time, struct timespec *left)
{
    if (likely(!wf_hooked_here()) || is_wrong(time) || !wf_may_wait())
        return wf_real.nanosleep(time, left);
    int kept = errno, error = sleep_until(wf_ahead(time->tv_sec, time->tv_nsec), left);
    errno = error ? error : kept;
    return error ? -1 : 0;
}

/* Any other clock: that of a process or thread. */
struct clock_sleep {
    struct wf_away away;
    clockid_t clock;
    int flags;
    struct timespec time, left;
    int error;
};

static void sleep_there(struct wf_away *call)
{
    struct clock_sleep *s = (struct clock_sleep *)call;
    s->error = wf_real.clock_nanosleep(s->clock, s->flags, &s->time, &s->left);
}

static int sleep_away(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    struct clock_sleep *s = malloc(sizeof *s);
    if (!s)
        return ENOMEM;
    *s = (struct clock_sleep){.away.make = sleep_there, .clock = clock, .flags = flags, .time = *time};
    if (!wf_away(&s->away, WEFT_OFFLOAD_CALL))
        return errno;
    int error = s->error;
    if (error == EINTR && left)
        *left = s->left;
    free(s);
    return error;
}

/* A point on a clock that may be set, or that goes on while the machine sleeps: the kernel's timer knows. */
static int sleep_by_timer(clockid_t clock, const struct timespec *time)
{
    int fd = weft_own_take(timerfd_create(clock, TFD_NONBLOCK | TFD_CLOEXEC));
    if (fd < 0) /* no descriptor is to be had */
        return sleep_away(clock, TIMER_ABSTIME, time, NULL);
    struct itimerspec at = {.it_value = *time};
    if (at.it_value.tv_sec == 0 && at.it_value.tv_nsec == 0)
        at.it_value.tv_nsec = 1; /* 0 would be never */
    int rc = timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL) == 0
                 ? wf_wait_fd(&(struct wf_section){0}, fd, POLLIN, WF_ENDS_ALWAYS, WEFT_FOREVER)
                 : -errno;
    weft_own_close(fd);
    return rc >= 0 ? 0 : -rc;
}

HOOK int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    if (likely(!wf_hooked_here()) || is_wrong(time) || !wf_may_wait())
        return wf_real.clock_nanosleep(clock, flags, time, left);
    int kept = errno, error;
    bool absolute = flags & TIMER_ABSTIME;
    if (clock == CLOCK_MONOTONIC && absolute)
        error = sleep_until(
            (weft_time){time->tv_sec > INT64_MAX / WEFT_SEC / 4 ? INT64_MAX : time->tv_sec * WEFT_SEC + time->tv_nsec},
            NULL);
    else if (clock == CLOCK_MONOTONIC || (clock == CLOCK_REALTIME && !absolute))
        error = sleep_until(wf_ahead(time->tv_sec, time->tv_nsec), left);
    else if (absolute && (clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME))
        error = sleep_by_timer(clock, time);
    else
        error = sleep_away(clock, flags, time, left);
    errno = kept;
    return error;
}

HOOK unsigned sleep(unsigned seconds)
{
    if (likely(!wf_hooked_here()) || !wf_may_wait())
        return wf_real.sleep(seconds);
    if (wf_cancelled())
        return seconds; /* all of it is left: not a second less, as whole seconds are reported */
    struct timespec left = {0};
    int kept = errno, error = sleep_until(wf_ahead(seconds, 0), &left);
    if (error == 0) {
        errno = kept;
        return 0;
    }
    errno = error;
    return (unsigned)left.tv_sec;
}

HOOK int usleep(useconds_t us)
{
    if (likely(!wf_hooked_here()) || !wf_may_wait())
        return wf_real.usleep(us);
    struct timespec time = {us / 1000000, us % 1000000 * 1000L};
    return nanosleep(&time, NULL);
}

/* C11's: -1 for a signal, less for what is wrong: of a cancelled fiber -2, as the C library says for other errors. */
HOOK int thrd_sleep(const struct timespec *time, struct timespec *left)
{
    if (likely(!wf_hooked_here()) || is_wrong(time) || !wf_may_wait())
        return wf_real.thrd_sleep(time, left);
    int kept = errno, error = sleep_until(wf_ahead(time->tv_sec, time->tv_nsec), left);
    errno = error == ECANCELED ? error : kept;
    return error == ECANCELED ? -2 : error ? -1 : 0;
}
