/*
 * Cancellation points: every call that can wait returns -ECANCELED in a cancelled fiber, also where it would not have
 * to wait, and has then done nothing. These are the calls of fibers, schedulers, synchronisation, channels and helpers;
 * unit/io/cancel_points has those on descriptors.
 */
#include <weft/chan.h>
#include <weft/offload.h>
#include <weft/sync.h>

#include "base/atomic.h"
#include "fiber/fiber.h"
#include "unit/sched/points.h"

static struct {
    weft_chan *chan;
    weft_mutex mutex;
    weft_rmutex rmutex;
    weft_rwlock rwlock;
    weft_cond cond;
    weft_sem sem;
    weft_waitgroup group;
    weft_event event;
    weft_barrier barrier;
    weft_once once;
    weft_fiber *child;
    weft_sched *sched;
    int value, ran, dropped;
} on;

/* ---- channels ---- */

static void empty_channel(void)
{
    CHECK_INT(weft_chan_new(&on.chan, sizeof on.value, 1), ==, 0);
}

static void full_channel(void)
{
    empty_channel();
    CHECK_INT(weft_chan_send(on.chan, &on.value, WEFT_NOW), ==, 0);
}

static void free_channel(void)
{
    CHECK_INT(weft_chan_free(on.chan), ==, 0);
}

static bool is_empty(void)
{
    return weft_chan_count(on.chan) == 0;
}

static bool is_full(void)
{
    return weft_chan_count(on.chan) == 1;
}

static long sends(weft_time deadline)
{
    return weft_chan_send(on.chan, &on.value, deadline);
}

static long receives(weft_time deadline)
{
    return weft_chan_recv(on.chan, &on.value, deadline);
}

static long selects(weft_time deadline)
{
    return weft_select(&(weft_case){.op = WEFT_RECV, .chan = on.chan, .value = &on.value}, 1, deadline);
}

static long selects_in_order(weft_time deadline)
{
    return weft_select_ordered(&(weft_case){.op = WEFT_SEND, .chan = on.chan, .value = &on.value}, 1, deadline);
}

/* More than fit on the stack. */
static long selects_among_many(weft_time deadline)
{
    weft_case cases[12] = {[11] = {.op = WEFT_RECV, .chan = on.chan, .value = &on.value}};
    return weft_select(cases, 12, deadline);
}

/* ---- locks ---- */

static long locks(weft_time deadline)
{
    return weft_mutex_lock(&on.mutex, deadline);
}

static void unlocks(void)
{
    CHECK_INT(weft_mutex_unlock(&on.mutex), ==, 0);
}

static bool is_unlocked(void)
{
    return weft_mutex_unlock(&on.mutex) == -EPERM;
}

static long locks_recursively(weft_time deadline)
{
    return weft_rmutex_lock(&on.rmutex, deadline);
}

static void unlocks_recursively(void)
{
    CHECK_INT(weft_rmutex_unlock(&on.rmutex), ==, 0);
}

static bool is_recursively_unlocked(void)
{
    return weft_rmutex_unlock(&on.rmutex) == -EPERM;
}

static long locks_to_read(weft_time deadline)
{
    return weft_rwlock_read_lock(&on.rwlock, deadline);
}

static long locks_to_write(weft_time deadline)
{
    return weft_rwlock_write_lock(&on.rwlock, deadline);
}

static void unlocks_rwlock(void)
{
    CHECK_INT(weft_rwlock_unlock(&on.rwlock), ==, 0);
}

static bool is_rwlock_free(void)
{
    return weft_rwlock_unlock(&on.rwlock) == -EPERM;
}

static void locks_now(void)
{
    CHECK_INT(weft_mutex_lock(&on.mutex, WEFT_NOW), ==, 0);
}

static long waits_for_a_signal(weft_time deadline)
{
    return weft_cond_wait(&on.cond, &on.mutex, deadline);
}

static bool is_mutex_ours(void)
{
    return weft_mutex_lock(&on.mutex, WEFT_NOW) == -EDEADLK;
}

/* ---- counts and events ---- */

static void one_permit(void)
{
    on.sem = (weft_sem)WEFT_SEM(1);
}

static long takes_a_permit(weft_time deadline)
{
    return weft_sem_wait(&on.sem, deadline);
}

static long waits_for_the_group(weft_time deadline)
{
    return weft_waitgroup_wait(&on.group, deadline);
}

static void sets_the_event(void)
{
    CHECK_INT(weft_event_set(&on.event), ==, 0);
}

static long waits_for_the_event(weft_time deadline)
{
    return weft_event_wait(&on.event, deadline);
}

static void barrier_for_one(void)
{
    CHECK_INT(weft_barrier_init(&on.barrier, 1), ==, 0);
}

static long meets(weft_time deadline)
{
    return weft_barrier_wait(&on.barrier, deadline);
}

static void runs(void *arg)
{
    ++*(int *)arg;
}

static void new_once(void)
{
    on.once = (weft_once){0};
    on.ran = 0;
}

static long does_once(weft_time deadline)
{
    return weft_once_do(&on.once, runs, &on.ran, deadline);
}

static bool has_not_run(void)
{
    return seen(&on.ran) == 0;
}

static void has_run(void)
{
    CHECK_INT(seen(&on.ran), ==, 1);
}

/* ---- fibers ---- */

static void ended_child(void)
{
    on.child = go(returns_at_once, NULL);
    AWAIT(wf_load_acquire(&on.child->join) == WF_JOIN_DONE); /* pairs with wf_join_ended */
}

static long joins(weft_time deadline)
{
    return weft_join(on.child, NULL, deadline);
}

static void token(void)
{
    weft_unpark(weft_fiber_current());
}

static long parks_with_token(weft_time deadline)
{
    return weft_park(deadline);
}

static long sleeps(weft_time deadline)
{
    (void)deadline;
    return weft_sleep(1);
}

static long sleeps_until(weft_time deadline)
{
    return weft_sleep_until(deadline);
}

/* ---- schedulers ---- */

static void another_scheduler(void)
{
    on.sched = running_sched(1);
}

static long runs_scheduler(weft_time deadline)
{
    return weft_sched_run(on.sched, deadline);
}

static long stops_scheduler(weft_time deadline)
{
    return weft_sched_stop(on.sched, deadline);
}

static bool takes_work(void)
{
    return weft_sched_go(on.sched, NULL, NULL, returns_at_once, NULL) == 0;
}

static void ends_scheduler(void)
{
    CHECK_INT(weft_shield_begin(weft_in(AWAIT_SECONDS * WEFT_SEC)), ==, 0);
    CHECK_INT(weft_sched_stop(on.sched, WEFT_FOREVER), ==, 0);
    weft_shield_end();
    CHECK_INT(weft_sched_free(on.sched), ==, 0);
}

/* ---- helpers ---- */

static void *runs_there(void *arg)
{
    more(arg);
    return arg;
}

static void not_run(void)
{
    put(&on.ran, 0);
}

static long offloads(weft_time deadline)
{
    return weft_offload(runs_there, &on.ran, NULL, deadline);
}

static const struct point points[] = {
    {.name = "weft_chan_send", empty_channel, sends, is_empty, free_channel},
    {.name = "weft_chan_recv", full_channel, receives, is_full, free_channel},
    {.name = "weft_select", full_channel, selects, is_full, free_channel},
    {.name = "weft_select_ordered", empty_channel, selects_in_order, is_empty, free_channel},
    {.name = "weft_select among many", full_channel, selects_among_many, is_full, free_channel, 11, 11},
    {.name = "weft_mutex_lock", NULL, locks, is_unlocked, unlocks},
    {.name = "weft_rmutex_lock", NULL, locks_recursively, is_recursively_unlocked, unlocks_recursively},
    {.name = "weft_rwlock_read_lock", NULL, locks_to_read, is_rwlock_free, unlocks_rwlock},
    {.name = "weft_rwlock_write_lock", NULL, locks_to_write, is_rwlock_free, unlocks_rwlock},
    {.name = "weft_cond_wait",
     locks_now,
     waits_for_a_signal,
     is_mutex_ours,
     unlocks,
     -EAGAIN,
     -ETIMEDOUT,
     .waits = true},
    {.name = "weft_sem_wait", one_permit, takes_a_permit},
    {.name = "weft_waitgroup_wait", NULL, waits_for_the_group},
    {.name = "weft_event_wait", sets_the_event, waits_for_the_event},
    {.name = "weft_barrier_wait", barrier_for_one, meets, .now = 1, .shielded = 1},
    {.name = "weft_once_do", new_once, does_once, has_not_run, has_run},
    {.name = "weft_join", ended_child, joins},
    {.name = "weft_park", token, parks_with_token},
    {.name = "weft_sleep", NULL, sleeps, .has_no_deadline = true},
    {.name = "weft_sleep_until", NULL, sleeps_until, .waits = true},
    {.name = "weft_sched_run", another_scheduler, runs_scheduler, NULL, ends_scheduler, POINT_ANY, 0},
    {.name = "weft_sched_stop",
     another_scheduler,
     stops_scheduler,
     takes_work,
     ends_scheduler,
     .has_no_deadline = true},
    {.name = "weft_offload", not_run, offloads, has_not_run, NULL, -EAGAIN},
};

static void *tries_all(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        check_point(&points[i]);
    return NULL;
}

TEST(a_cancelled_fiber_is_refused_what_it_could_have_at_once)
{
    in_a_fiber(1, tries_all, NULL);
    in_a_fiber(2, tries_all, NULL);
}

/* ---- what comes before the point ---- */

static void *makes_mistakes(void *arg)
{
    (void)arg;
    AWAIT(weft_cancelled());
    CHECK_INT(weft_chan_send(NULL, NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_select(&(weft_case){.op = 99}, 1, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_mutex_lock(NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_cond_wait(&on.cond, &on.mutex, WEFT_FOREVER), ==, -EPERM);
    CHECK_INT(weft_barrier_wait(&(weft_barrier){0}, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_once_do(&on.once, NULL, NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_join(NULL, NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_join(weft_fiber_current(), NULL, WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_sched_run(weft_sched_current(), WEFT_FOREVER), ==, -EDEADLK);
    CHECK_INT(weft_offload(NULL, NULL, NULL, WEFT_FOREVER), ==, -EINVAL);
    return NULL;
}

static void *cancels_it(void *fn)
{
    weft_fiber *f = go((weft_fn *)(uintptr_t)fn, NULL);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
    return NULL;
}

/* Runs fn as a fiber that is cancelled at its beginning. */
static void in_a_cancelled_fiber(weft_fn *fn)
{
    in_a_fiber(1, cancels_it, (void *)(uintptr_t)fn);
}

TEST(a_wrong_argument_is_reported_before_the_cancel)
{
    in_a_cancelled_fiber(makes_mistakes);
}

/* ---- what is no point ---- */

static void *releases_all(void *arg)
{
    (void)arg;
    AWAIT(weft_cancelled());
    empty_channel();
    CHECK_INT(weft_chan_close(on.chan), ==, 0);
    free_channel();
    locks_now();
    unlocks();
    CHECK_INT(weft_rmutex_lock(&on.rmutex, WEFT_NOW), ==, 0);
    unlocks_recursively();
    CHECK_INT(weft_rwlock_write_lock(&on.rwlock, WEFT_NOW), ==, 0);
    unlocks_rwlock();
    CHECK_INT(weft_sem_post(&on.sem), ==, 0);
    CHECK_INT(weft_cond_signal(&on.cond), ==, 0);
    CHECK_INT(weft_cond_broadcast(&on.cond), ==, 0);
    CHECK_INT(weft_waitgroup_add(&on.group, 1), ==, 0);
    CHECK_INT(weft_waitgroup_done(&on.group), ==, 0);
    CHECK_INT(weft_event_set(&on.event), ==, 0);
    CHECK_INT(weft_event_reset(&on.event), ==, 0);
    weft_fiber *child = go(returns_at_once, NULL);
    CHECK_INT(weft_detach(child), ==, 0);
    weft_yield();
    return NULL;
}

TEST(a_cancelled_fiber_may_release_what_it_has)
{
    in_a_cancelled_fiber(releases_all);
}

static void *asks_a_once_again(void *arg)
{
    (void)arg;
    new_once();
    CHECK_INT(does_once(WEFT_NOW), ==, 0);
    CHECK_INT(does_once(WEFT_FOREVER), ==, 0);
    return NULL;
}

TEST(a_once_that_is_done_lets_a_cancelled_fiber_pass)
{
    in_a_cancelled_fiber(asks_a_once_again);
}

/* ---- an offloaded call that is never made ---- */

static void drops(void *arg, void *value)
{
    (void)value;
    more(arg);
}

static void *gives_its_argument_away(void *arg)
{
    (void)arg;
    AWAIT(weft_cancelled());
    put(&on.dropped, 0);
    weft_offload_opts opts = {.size = sizeof opts, .drop = drops};
    CHECK_INT(weft_offload_with(&opts, runs_there, &on.dropped, NULL, WEFT_FOREVER), ==, -ECANCELED);
    CHECK_INT(seen(&on.dropped), ==, 1);
    return NULL;
}

TEST(a_refused_offload_drops_its_argument)
{
    in_a_cancelled_fiber(gives_its_argument_away);
}

/* ---- a pipeline ---- */

static weft_chan *there, *back;

/* Neither ever has to wait for long: the other side always has room or an element. */
static void *passes_on(void *arg)
{
    weft_chan *from = arg ? there : back, *to = arg ? back : there;
    int value = 0, rc = 0;
    while (rc == 0) {
        rc = weft_chan_recv(from, &value, WEFT_FOREVER);
        if (rc == 0)
            rc = weft_chan_send(to, &value, WEFT_FOREVER);
    }
    return ptr(rc);
}

static void *cancels_a_pipeline(void *arg)
{
    (void)arg;
    int value = 1;
    CHECK_INT(weft_chan_new(&there, sizeof value, 64), ==, 0);
    CHECK_INT(weft_chan_new(&back, sizeof value, 64), ==, 0);
    for (int i = 0; i < 32; i++) {
        CHECK_INT(weft_chan_send(there, &value, WEFT_NOW), ==, 0);
        CHECK_INT(weft_chan_send(back, &value, WEFT_NOW), ==, 0);
    }
    weft_fiber *a = go(passes_on, &value), *b = go(passes_on, NULL);
    weft_yield();
    CHECK_INT(weft_cancel(a), ==, 0);
    CHECK_INT(weft_cancel(b), ==, 0);
    CHECK_PTR(ended(a), ==, ptr(-ECANCELED));
    CHECK_PTR(ended(b), ==, ptr(-ECANCELED));
    CHECK_INT(weft_chan_free(there), ==, 0);
    CHECK_INT(weft_chan_free(back), ==, 0);
    return NULL;
}

TEST(a_cancelled_pipeline_ends)
{
    in_a_fiber(1, cancels_a_pipeline, NULL);
    in_a_fiber(2, cancels_a_pipeline, NULL);
}

/* ---- fibers that ignore it ---- */

static int stop_ignoring;

static void *ignores(void *arg)
{
    long (*call)(weft_time) = (long (*)(weft_time))(uintptr_t)arg;
    while (!seen(&stop_ignoring))
        call(WEFT_FOREVER);
    return NULL;
}

static void *runs_beside_it(void *arg)
{
    (void)arg;
    put(&stop_ignoring, 1);
    return NULL;
}

/* With one worker, where the other fiber runs only if this one lets it. */
static void *lets_it_ignore(void *call)
{
    put(&stop_ignoring, 0);
    weft_fiber *f = go(ignores, call), *other = go(runs_beside_it, NULL);
    CHECK_INT(weft_cancel(f), ==, 0);
    ended(f);
    ended(other);
    return NULL;
}

TEST(a_fiber_that_ignores_its_cancel_lets_others_run)
{
    in_a_fiber(1, lets_it_ignore, (void *)(uintptr_t)takes_a_permit);
    in_a_fiber(1, lets_it_ignore, (void *)(uintptr_t)sleeps);
    in_a_fiber(1, lets_it_ignore, (void *)(uintptr_t)waits_for_the_event);
}

TESTS(sched_cancel_points, a_cancelled_fiber_is_refused_what_it_could_have_at_once,
      a_wrong_argument_is_reported_before_the_cancel, a_cancelled_fiber_may_release_what_it_has,
      a_once_that_is_done_lets_a_cancelled_fiber_pass, a_refused_offload_drops_its_argument, a_cancelled_pipeline_ends,
      a_fiber_that_ignores_its_cancel_lets_others_run)
