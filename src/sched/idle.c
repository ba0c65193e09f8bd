/*
 * sched/idle.c: see idle.h.
 *
 * Why no work is forgotten. Who brings work writes it, passes wf_barrier_light (a worker of the scheduler) or wf_fence
 * (anybody else), and then looks: at `asleep` of the worker that it is for, or, for anybody's work, at idle_count and
 * searching. A worker that goes to sleep writes `asleep`,
 * idle_count and (if it searched) searching, passes wf_barrier_heavy, and then looks for work everywhere. One of the two
 * sees what the other wrote. Who sees a searcher and therefore wakes nobody relies on that searcher's look: it either
 * finds the work, or is about to sleep and looks after the barrier, and searches again if it sees some. One that finds
 * other work stops searching, and if it was the last it looks on behalf of those who relied on it, after a heavy barrier
 * of its own. So nobody searches while it runs a fiber.
 *
 * An offer (lookout.h) is no work for other workers before it is ripe. A worker that makes an offer writes it, passes
 * wf_barrier_light, and then looks at `lookout`; if there is no lookout, it wakes a worker as for other work. A worker
 * that goes to sleep looks for news of offers after the barrier too, and becomes the lookout if there is news and no
 * lookout. The lookout sleeps only in naps. A lookout that gives up says so, passes wf_barrier_heavy and looks for news
 * again. A lookout that finds something to run gives up and then stops searching. The last searcher looks for offers
 * that have no lookout, as it looks for other work.
 *
 * A timer that another thread adds is work for one worker, and its `next` is looked at after the barrier in the same way. Who
 * adds it need not wake a worker that sleeps no longer than to its time: `sleeps_until` is INT64_MAX before the barrier
 * and gets its value after that look, so that a value which is seen is one of this sleep, and takes this timer in or is
 * earlier.
 */
#include "sched/idle.h"

#include "base/barrier.h"
#include "base/clock.h"
#include "sched/lookout.h"
#include "sched/pick.h"
#include "sched/sched.h"
#include "sched/starved.h"
#include "sched/stuck.h"
#include "sched/timers.h"
#include "stack/cache.h"

#define GIVE_BACK_EVERY (260 * WEFT_MS)
#define GIVE_BACK_PAUSE WEFT_MS
#define MANY_TIMERS 64
#define TIMER_PAUSE (100 * WEFT_US)
#define LOOKOUT_NAP (100 * WEFT_US) /* the first nap; each next one is twice as long */
#define LOOKOUT_LONGEST WEFT_MS
/* After so many looks without news the lookout gives up. Tests that explore make it small. */
#ifndef LOOKOUT_LOOKS
#define LOOKOUT_LOOKS 16
#endif

static void list(struct wf_worker *w)
{
    weft_sched *s = w->sched;
    wf_lock(&s->idle_lock);
    w->listed = true;
    w->idle_prev = NULL;
    w->idle_next = s->idle;
    if (s->idle)
        s->idle->idle_prev = w;
    s->idle = w;
    wf_store(&s->idle_count, s->idle_count + 1);
    wf_unlock(&s->idle_lock);
}

/* guarded by: idle_lock */
static void take_out(weft_sched *s, struct wf_worker *w)
{
    w->listed = false;
    if (w->idle_prev)
        w->idle_prev->idle_next = w->idle_next;
    else
        s->idle = w->idle_next;
    if (w->idle_next)
        w->idle_next->idle_prev = w->idle_prev;
    wf_store(&s->idle_count, s->idle_count - 1);
}

/* If it is not there any more, wf_sched_wake_one chose it: it is counted as a searcher. */
static void unlist(struct wf_worker *w)
{
    weft_sched *s = w->sched;
    wf_lock(&s->idle_lock);
    if (w->listed)
        take_out(s, w);
    else
        w->searching = true;
    wf_unlock(&s->idle_lock);
}

void wf_sched_wake_one(weft_sched *s)
{
    if (wf_load(&s->idle_count) == 0 || wf_load(&s->searching) != 0)
        return;
    wf_lock(&s->idle_lock);
    struct wf_worker *w = wf_load(&s->searching) == 0 ? s->idle : NULL;
    if (w) {
        take_out(s, w);
        wf_add(&s->searching, 1);
    }
    wf_unlock(&s->idle_lock);
    if (w)
        wf_driver_wake(&w->driver);
}

/* Whether there is an offer and no lookout. */
static bool needs_lookout(const struct wf_worker *w)
{
    return !wf_load(&w->sched->lookout) && (wf_load(&w->offered) != NULL || wf_lookout_sees_offer(w));
}

void wf_idle_found(struct wf_worker *w)
{
    weft_sched *s = w->sched;
    w->searching = false;
    if (w->lookout)
        wf_lookout_end(w);
    if (wf_add(&s->searching, (uint32_t)-1) != 1)
        return;
    wf_fence(); /* pairs with wf_idle's: who lists itself after our look has others see that we do not search */
    if (wf_load(&s->idle_count) == 0)
        return;
    wf_barrier_heavy(); /* pairs with wf_barrier_light of those who saw us search */
    if (wf_pick_elsewhere(w) || wf_ring_count(&w->ring) > 0 || needs_lookout(w))
        wf_sched_wake_one(s);
}

static struct wf_sleeper *win_one_who_waits(weft_sched *s)
{
    wf_lock(&s->empty_lock);
    struct wf_waiter *w = wf_waiters_win_first(&s->empty_waiters, 0);
    struct wf_sleeper *who = w ? w->who : NULL;
    wf_unlock(&s->empty_lock);
    return who;
}

/* The last fiber may have ended: tells who waits for that. */
void wf_idle_tell_if_empty(weft_sched *s)
{
    if (!wf_load(&s->empty_wanted) || !wf_sched_is_empty(s))
        return;
    for (struct wf_sleeper *who; (who = win_one_who_waits(s)) != NULL;)
        wf_ready(who);
    if (s->use_caller)
        wf_driver_wake(&s->worker[0]->driver);
    if (wf_unlikely(s->orphan))
        wf_store(&s->over, 1);
}

/* Memory that a burst left behind goes back while there is nothing else to do. */
static int64_t give_back(struct wf_worker *w)
{
    int64_t again = wf_stack_look(w->thread, w->now);
    if (w->now - w->settled > GIVE_BACK_EVERY) {
        w->settled = w->now;
        wf_worker_drop_spare(w);
        wf_records_settle(&w->records);
        wf_extras_settle(&w->extras);
        wf_pool_settle();
        wf_ring_shrink(&w->ring);
    }
    if (again == 0)
        return w->now + GIVE_BACK_PAUSE;
    bool more = w->records.unneeded > WF_RECORDS_AT_ONCE || wf_pool_has_empty() || wf_ring_has_grown(&w->ring);
    return more && w->now + GIVE_BACK_EVERY < again ? w->now + GIVE_BACK_EVERY : again;
}

static int64_t wake_time(struct wf_worker *w, int64_t deadline)
{
    int64_t next = w->first_due, again = give_back(w);
    if (wf_wheel_count(&w->wheel) > MANY_TIMERS && next < w->woken_at + TIMER_PAUSE)
        next = w->woken_at + TIMER_PAUSE; /* several at once: a wake-up costs more than they do */
    int64_t timer = wf_load(&w->timers->next);
    next = next < timer ? next : timer;
    next = next < deadline ? next : deadline;
    next = next < again ? next : again;
    if (wf_unlikely(wf_starves(w)) && w->starved.again_at < next)
        next = w->starved.again_at;
    if (wf_stuck_is_wanted(w))
        next = wf_stuck_look_idle(w, next);
    wf_store(&w->sleeps_until, next);
    return next;
}

/* Pairs with who brings work, stops or cancels. The only worker has to do with outsiders alone, and they have fences. */
static void say_before_looking(const struct wf_worker *w)
{
    if (w->solo)
        wf_fence();
    else
        wf_barrier_heavy();
}

/* What drivers want to be told; the look that the loop has just made is good enough. */
static int64_t time_for_driver(struct wf_worker *w)
{
    if (w->looked != w->tick)
        w->now = wf_clock_now();
    return w->now;
}

static void sleep_until(struct wf_worker *w, int64_t deadline)
{
    bool ends = deadline != INT64_MAX && deadline != INT64_MIN;
    int64_t now = ends && w->driver.io ? time_for_driver(w) : 0;
#ifdef WF_SEAM
    if (wf_clock_is_set() && deadline != INT64_MIN) { /* that clock moves when a test says so: look often */
        now = wf_clock_real();
        deadline = ends ? now + 200 * WEFT_US : deadline;
    }
#endif
    w->polls = true;
    wf_driver_poll(&w->driver, deadline, now);
    w->polls = false;
}

/* Whether there is something to do after a nap: a wake came, or an event made a fiber ready or set a timer. */
static bool has_to_do(const struct wf_worker *w, int64_t until)
{
    return wf_load(&w->driver.asleep) == WF_UP || wf_pick_here(w) > 0 || !wf_inbox_is_empty(&w->inbox) ||
           w->first_due < until || wf_load(&w->timers->next) < until;
}

/* The lookout sleeps in naps. A ripe offer ends this sleep too. The worker stays announced and listed all the time. */
WF_COLD static void keep_lookout(struct wf_worker *w, int64_t until)
{
    int64_t nap = LOOKOUT_NAP;
    for (int looks = 0; looks < LOOKOUT_LOOKS; looks++) {
        enum wf_sight sight = wf_lookout_look(w);
        if (sight == WF_SIGHT_RIPE)
            return;
        if (sight == WF_SIGHT_NEWS)
            looks = 0;
        w->now = wf_clock_now();
        if (w->now >= until)
            return;
        sleep_until(w, until - w->now < nap ? until : w->now + nap);
        if (has_to_do(w, until))
            return;
        nap = 2 * nap < LOOKOUT_LONGEST ? 2 * nap : LOOKOUT_LONGEST;
    }
    wf_lookout_end(w);
    say_before_looking(w); /* pairs with offer_next of those who saw the lookout */
    if (!wf_lookout_begin(w))
        sleep_until(w, until);
}

/* A worker that serves descriptors finds some ready more often than not, and that costs no more than to say it sleeps. */
static bool finds_events(struct wf_worker *w)
{
    if (w->solo || !w->driver.io)
        return false;
    sleep_until(w, INT64_MIN);
    return wf_pick_here(w) > 0;
}

static void sleep_idle(struct wf_worker *w, int64_t until)
{
    if (wf_unlikely(w->lookout))
        keep_lookout(w, until);
    else
        sleep_until(w, until);
}

void wf_idle(struct wf_worker *w, int64_t deadline)
{
    weft_sched *s = w->sched;
    if (finds_events(w)) {
        w->now = wf_clock_now();
        return;
    }
    if (w->searching) {
        w->searching = false;
        wf_add(&s->searching, (uint32_t)-1);
    }
    wf_store(&w->sleeps_until, INT64_MAX); /* until it is known: a timer is not to rely on the last sleep's */
    wf_driver_announce(&w->driver);
    list(w);
    say_before_looking(w);
    wf_idle_tell_if_empty(s);
    bool work_elsewhere = wf_pick_elsewhere(w);
    if (!w->solo)
        wf_lookout_begin(w); /* also if it does not sleep: others may have relied on its search */
    if (!work_elsewhere && wf_inbox_is_empty(&w->inbox) && !wf_load(&s->over) &&
        wf_load(&s->cancels) == w->cancelled_to)
        sleep_idle(w, wake_time(w, deadline));
    wf_driver_awake(&w->driver);
    unlist(w);
    /* Others rely on us to see it, and we may have other things to do first. */
    if ((work_elsewhere || w->lookout) && !w->searching) {
        w->searching = true;
        wf_add(&s->searching, 1);
    }
    w->now = wf_clock_now();
    w->woken_at = w->now;
}
