/*
 * The calls that wait for a time: how long they take, what they return, and what they leave in errno.
 */
#include <errno.h>
#include <poll.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <weft/fiber.h>

#include "hook/statement.h"

static struct timespec of_ms(double ms)
{
    int64_t ns = (int64_t)(ms * 1e6);
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

static struct timespec ahead(clockid_t clock, double ms)
{
    struct timespec t, d = of_ms(ms);
    CHECK_INT(clock_gettime(clock, &t), ==, 0);
    int64_t ns = t.tv_nsec + d.tv_nsec;
    return (struct timespec){t.tv_sec + d.tv_sec + ns / 1000000000, ns % 1000000000};
}

STATEMENT(none_of_them_is_early)
{
    for (int i = 0; i < 8; i++) {
        double ms = 0.1 + i * 1.3, start = now_ms();
        struct timespec t = of_ms(ms), rem = {7, 7};
        errno = 99;
        CHECK_INT(usleep((useconds_t)(ms * 1000)), ==, 0);
        CHECK_AFTER(start, ms);
        start = now_ms();
        CHECK_INT(nanosleep(&t, &rem), ==, 0);
        CHECK_AFTER(start, ms);
        start = now_ms();
        CHECK_INT(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &rem), ==, 0);
        CHECK_AFTER(start, ms);
        start = now_ms();
        CHECK_INT(clock_nanosleep(CLOCK_REALTIME, 0, &t, &rem), ==, 0);
        CHECK_AFTER(start, ms);
        CHECK_INT(errno, ==, 99);
        CHECK(rem.tv_sec == 7 && rem.tv_nsec == 7);
    }
}

STATEMENT(seconds_are_slept)
{
    double start = now_ms();
    errno = 99;
    CHECK_INT(sleep(1), ==, 0);
    CHECK_AFTER(start, 1000);
    start = now_ms();
    CHECK_INT(sleep(0), ==, 0);
    CHECK_INT(usleep(0), ==, 0);
    CHECK_INT(nanosleep(&(struct timespec){0, 0}, NULL), ==, 0);
    CHECK_AT_ONCE(start);
    CHECK_INT(errno, ==, 99);
}

/* There is an old rule that a million is too many. */
STATEMENT(usleep_takes_more_than_a_second)
{
    double start = now_ms();
    CHECK_INT(usleep(1500000), ==, 0);
    CHECK_AFTER(start, 1500);
}

STATEMENT(times_that_are_none_are_refused)
{
    static const struct timespec wrong[] = {{0, 1000000000}, {0, -1}, {-1, 0}};
    double start = now_ms();
    for (int i = 0; i < 3; i++) {
        CHECK_ERRNO(nanosleep(&wrong[i], NULL), EINVAL);
        errno = 99;
        CHECK_INT(clock_nanosleep(CLOCK_MONOTONIC, 0, &wrong[i], NULL), ==, EINVAL);
        CHECK_INT(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &wrong[i], NULL), ==, EINVAL);
        CHECK_INT(errno, ==, 99);
    }
    CHECK_AT_ONCE(start);
}

STATEMENT(clock_nanosleep_returns_its_error_and_leaves_errno_alone)
{
    struct timespec t = of_ms(1);
    errno = 99;
    CHECK_INT(clock_nanosleep(1234, 0, &t, NULL), ==, EINVAL);
    CHECK_INT(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &t, NULL), ==, EINVAL);
    CHECK_INT(clock_nanosleep(CLOCK_MONOTONIC_RAW, 0, &t, NULL), ==, ENOTSUP);
    CHECK_INT(clock_nanosleep(CLOCK_REALTIME_COARSE, 0, &t, NULL), ==, ENOTSUP);
    CHECK_INT(errno, ==, 99);
}

static void check_absolute(clockid_t clock)
{
    struct timespec at = ahead(clock, 30), rem = {7, 7};
    double start = now_ms();
    errno = 99;
    CHECK_INT(clock_nanosleep(clock, TIMER_ABSTIME, &at, &rem), ==, 0);
    struct timespec now;
    clock_gettime(clock, &now);
    CHECK(now.tv_sec > at.tv_sec || (now.tv_sec == at.tv_sec && now.tv_nsec >= at.tv_nsec));
    CHECK_WITHIN(start, 800);
    start = now_ms();
    CHECK_INT(clock_nanosleep(clock, TIMER_ABSTIME, &at, &rem), ==, 0); /* it is past */
    CHECK_INT(clock_nanosleep(clock, TIMER_ABSTIME, &(struct timespec){0, 0}, &rem), ==, 0);
    CHECK_INT(clock_nanosleep(clock, TIMER_ABSTIME, &(struct timespec){1, 0}, &rem), ==, 0);
    CHECK_AT_ONCE(start);
    CHECK(rem.tv_sec == 7 && rem.tv_nsec == 7);
    CHECK_INT(errno, ==, 99);
}

STATEMENT(points_in_time_are_waited_for)
{
    check_absolute(CLOCK_MONOTONIC);
    check_absolute(CLOCK_REALTIME);
    check_absolute(CLOCK_BOOTTIME);
}

STATEMENT(other_clocks_are_slept_by)
{
    struct timespec t = of_ms(20);
    double start = now_ms();
    CHECK_INT(clock_nanosleep(CLOCK_BOOTTIME, 0, &t, NULL), ==, 0);
    CHECK_AFTER(start, 20);
    start = now_ms();
    CHECK_INT(clock_nanosleep(CLOCK_TAI, 0, &t, NULL), ==, 0);
    CHECK_AFTER(start, 20);
}

/* --- sleeps that nobody lives to see the end of --- */

struct endless {
    void (*sleep)(void);
    bool begun, over; /* atomic */
};

static void sleep_for_ever(void *arg)
{
    struct endless *s = arg;
    __atomic_store_n(&s->begun, true, __ATOMIC_RELEASE);
    s->sleep();
    __atomic_store_n(&s->over, true, __ATOMIC_RELEASE);
}

static void most_seconds(void)
{
    sleep(UINT_MAX);
}

static void most_microseconds(void)
{
    usleep(UINT_MAX);
}

static void most_nanoseconds(void)
{
    nanosleep(&(struct timespec){INT64_MAX, 999999999}, NULL);
}

static void most_on_a_clock(void)
{
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){INT64_MAX, 999999999}, NULL);
}

static void the_end_of_time(void)
{
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){INT64_MAX, 999999999}, NULL);
}

static void the_end_of_the_calendar(void)
{
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &(struct timespec){INT64_MAX, 999999999}, NULL);
}

static void (*const endless[])(void) = {most_seconds,    most_microseconds, most_nanoseconds,
                                        most_on_a_clock, the_end_of_time,   the_end_of_the_calendar};
enum { ENDLESS = sizeof endless / sizeof endless[0] };

static void nothing(int number)
{
    (void)number;
}

/* What wakes who has slept long enough: a signal of a thread's, a cancelled fiber. */
static void wake(pthread_t thread, weft_fiber *fiber)
{
    if (is_kernel())
        pthread_kill(thread, SIGUSR1);
    else
        weft_cancel(fiber);
}

struct named {
    struct endless *what;
    pthread_t thread;
    weft_fiber *fiber;
};

static void sleep_as(void *arg)
{
    struct named *n = arg;
    n->thread = pthread_self();
    n->fiber = weft_fiber_current();
    sleep_for_ever(n->what);
}

STATEMENT(the_longest_sleeps_do_not_wrap)
{
    struct endless sleeps[ENDLESS];
    struct named named[ENDLESS];
    struct flow *flows[ENDLESS];
    struct sigaction act = {.sa_handler = nothing}, before;
    CHECK_INT(sigaction(SIGUSR1, &act, &before), ==, 0);
    for (int i = 0; i < ENDLESS; i++) {
        sleeps[i] = (struct endless){.sleep = endless[i]};
        named[i] = (struct named){.what = &sleeps[i]};
        flows[i] = begin(sleep_as, &named[i]);
    }
    usleep(100000);
    for (int i = 0; i < ENDLESS; i++) {
        if (!__atomic_load_n(&sleeps[i].begun, __ATOMIC_ACQUIRE) || __atomic_load_n(&sleeps[i].over, __ATOMIC_ACQUIRE))
            test_failed(__FILE__, __LINE__, "sleep %d does not last", i);
        else
            wake(named[i].thread, named[i].fiber);
        end(flows[i]);
    }
    CHECK_INT(sigaction(SIGUSR1, &before, NULL), ==, 0);
}

struct interrupted {
    pthread_t thread;
    weft_fiber *fiber;
    unsigned left;
    int nano, error;
    struct timespec rem;
    int clock;
    struct timespec clock_rem;
};

static void sleep_three_seconds(void *arg)
{
    struct interrupted *s = arg;
    s->thread = pthread_self();
    s->fiber = weft_fiber_current();
    s->left = sleep(3);
}

static void nanosleep_three_seconds(void *arg)
{
    struct interrupted *s = arg;
    s->thread = pthread_self();
    s->fiber = weft_fiber_current();
    errno = 0;
    s->nano = nanosleep(&(struct timespec){3, 0}, &s->rem);
    s->error = errno;
}

static void clock_three_seconds(void *arg)
{
    struct interrupted *s = arg;
    s->thread = pthread_self();
    s->fiber = weft_fiber_current();
    errno = 99;
    s->clock = clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){3, 0}, &s->clock_rem);
    s->error = errno;
}

static void clock_until(void *arg)
{
    struct interrupted *s = arg;
    struct timespec at = ahead(CLOCK_REALTIME, 3000);
    s->thread = pthread_self();
    s->fiber = weft_fiber_current();
    s->clock_rem = (struct timespec){7, 7};
    errno = 99;
    s->clock = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, &s->clock_rem);
    s->error = errno;
}

static struct interrupted interrupt_at_200(void (*sleeper)(void *))
{
    struct interrupted s = {.left = 99};
    struct flow *f = begin(sleeper, &s);
    usleep(200000);
    wake(s.thread, s.fiber);
    end(f);
    return s;
}

static bool is_what_is_left(struct timespec t)
{
    return (t.tv_sec == 2 && t.tv_nsec < 850000000) || t.tv_sec < 2;
}

STATEMENT(what_was_interrupted_says_what_is_left)
{
    int woken = is_kernel() ? EINTR : ECANCELED;
    struct sigaction act = {.sa_handler = nothing, .sa_flags = SA_RESTART}, before;
    CHECK_INT(sigaction(SIGUSR1, &act, &before), ==, 0);
    struct interrupted s = interrupt_at_200(sleep_three_seconds);
    CHECK_INT(s.left, ==, 2); /* whole seconds, not rounded */
    s = interrupt_at_200(nanosleep_three_seconds);
    CHECK_INT(s.nano, ==, -1);
    CHECK_INT(s.error, ==, woken);
    CHECK(is_what_is_left(s.rem) && s.rem.tv_sec == 2);
    s = interrupt_at_200(clock_three_seconds);
    CHECK_INT(s.clock, ==, woken);
    CHECK_INT(s.error, ==, 99);
    CHECK(is_what_is_left(s.clock_rem) && s.clock_rem.tv_sec == 2);
    s = interrupt_at_200(clock_until);
    CHECK_INT(s.clock, ==, woken);
    CHECK_INT(s.error, ==, 99);
    CHECK(s.clock_rem.tv_sec == 7 && s.clock_rem.tv_nsec == 7);
    CHECK_INT(sigaction(SIGUSR1, &before, NULL), ==, 0);
}

static void sleep_a_while(void *arg)
{
    double start = now_ms();
    CHECK_INT(usleep(50000), ==, 0);
    CHECK_AFTER(start, 50);
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELAXED);
}

STATEMENT(a_thousand_sleep_at_once)
{
    enum { CROWD = 1000 };
    static struct flow *flows[CROWD];
    int slept = 0;
    for (int i = 0; i < CROWD; i++)
        flows[i] = i % 2 ? begin(sleep_a_while, &slept) : begin_elsewhere(sleep_a_while, &slept);
    for (int i = 0; i < CROWD; i++)
        end(flows[i]);
    CHECK_INT(slept, ==, CROWD);
}

/* ---- a shield ---- */

static void be_shielded(void *arg)
{
    int *fds = arg;
    char byte = 0;
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
    CHECK_ERRNO(read(fds[0], &byte, 1), ECANCELED);
    CHECK_INT(weft_shield_begin(weft_in(20 * WEFT_SEC)), ==, 0);
    double start = now_ms();
    CHECK_INT(usleep(20000), ==, 0);
    CHECK_INT(poll(&(struct pollfd){.fd = fds[0], .events = POLLIN}, 1, 20), ==, 0);
    CHECK(now_ms() - start >= 40);
    CHECK_INT(weft_shield_begin(weft_in(20 * WEFT_MS)), ==, 0);
    start = now_ms();
    CHECK_ERRNO(read(fds[0], &byte, 1), ECANCELED); /* at its end */
    CHECK(now_ms() - start >= 19);
    weft_shield_end();
    CHECK_INT(write(fds[1], "x", 1), ==, 1);
    CHECK_INT(read(fds[0], &byte, 1), ==, 1);
    weft_shield_end();
    CHECK_ERRNO(read(fds[0], &byte, 1), ECANCELED);
}

STATEMENT(a_shield_covers_hooked_calls)
{
    int fds[2];
    if (is_kernel())
        return;
    CHECK_INT(pipe(fds), ==, 0);
    end(begin(be_shielded, fds));
    close(fds[0]);
    close(fds[1]);
}

STATEMENTS(sleep, none_of_them_is_early, seconds_are_slept, usleep_takes_more_than_a_second,
           times_that_are_none_are_refused, clock_nanosleep_returns_its_error_and_leaves_errno_alone,
           points_in_time_are_waited_for, other_clocks_are_slept_by, the_longest_sleeps_do_not_wrap,
           what_was_interrupted_says_what_is_left, a_thousand_sleep_at_once, a_shield_covers_hooked_calls)
