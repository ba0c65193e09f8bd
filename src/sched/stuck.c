/*
 * sched/stuck.c: see stuck.h. The thread that looks runs no fiber of the scheduler. It is worker 0, another worker that
 * has announced its sleep, or a thread that is no worker.
 *
 * If the process has no other thread, only its workers touch a scheduler. If all of them sleep, nothing is queued and
 * no fiber has a deadline, then what was seen stays so. Only a signal handler could still change it.
 */
#include "sched/stuck.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/errno.h"
#include "sched/circle.h"
#include "sched/fork.h"
#include "sched/pick.h"
#include "sched/timers.h"

enum verdict {
    MOVES,   /* something in the scheduler, or a descriptor, may wake a fiber */
    THREADS, /* only threads that are no workers of it may wake a fiber */
    CIRCLE,  /* the same, but some of the fibers wait for each other */
    STUCK,
};

/* ---- what may wake somebody ---- */

static bool awaits_descriptors(const weft_sched *s)
{
    size_t watches = 0;
    for (unsigned i = 0; i < s->workers; i++)
        watches += wf_load(&s->worker[i]->counts.watches);
    return watches != 0;
}

/* `recurring`: recurring timers count too. (A stop ends them.) */
static bool has_work(const weft_sched *s, const struct wf_worker *w, bool recurring)
{
    bool caller = w->index == 0 && s->use_caller && !recurring; /* it is the one that looks */
    return (!caller && !wf_load(&w->driver.asleep)) || !wf_inbox_is_empty(&w->inbox) || wf_pick_here(w) > 0 ||
           wf_load(&w->timers->awaited) != wf_load(&w->timers->settled) || wf_load(&w->timers->scopes) > 0 ||
           (recurring && wf_load(&w->timers->pending) > 0);
}

struct waits {
    const weft_sched *of;
    bool any, go_on;
};

/*
 * It was cancelled, and wakes up when its shield ends. This also counts a fiber in a section, which has no end: only
 * the fiber and its worker may look at `deaf`, and any thread may look at the phase.
 */
static bool awaits_its_shield(const weft_fiber *f)
{
    uint32_t phase = wf_load(&f->sleeper.phase);
    return wf_load(&f->sleeper.bits) & WF_CANCEL && (phase == WF_DEAF || phase == WF_DEAF_PARKED);
}

/* Others know it by its id, so a hangup may cancel it. This also counts a fiber whose subscription has ended. */
static bool may_be_hung_up_on(const weft_fiber *f)
{
    return wf_load(&f->sleeper.bits) & WF_KNOWN;
}

static void note(weft_fiber *f, void *arg)
{
    struct waits *waits = arg;
    uint32_t state = wf_load_acquire(&f->state); /* pairs with wf_worker_commit: no earlier wait's phase */
    if (wf_load(&f->sched) != waits->of || (state != WEFT_FIBER_READY && state < WEFT_FIBER_RUNNING) ||
        state == WEFT_FIBER_DONE)
        return;
    waits->any = true;
    waits->go_on |= state != WEFT_FIBER_PARKED || !wf_waits(wf_load(&f->sleeper.phase)) ||
                    wf_load(&f->until) != INT64_MAX || awaits_its_shield(f) || may_be_hung_up_on(f);
}

/* Whether only parked fibers are left, and nothing in the scheduler can wake them. */
static bool is_stuck_inside(weft_sched *s, bool recurring)
{
    for (unsigned i = 0; i < s->workers; i++) {
        if (has_work(s, s->worker[i], recurring))
            return false;
    }
    if (awaits_descriptors(s) || wf_load(&s->injected.count) != 0)
        return false;
    struct waits waits = {.of = s};
    wf_fork_look();
    wf_pool_walk(note, &waits);
    return waits.any && !waits.go_on;
}

/*
 * The number of threads of this process; 0: it is not known. Each thread is a link of the folder, beside "." and "..".
 */
static size_t count_threads(void)
{
    struct stat task;
    int kept = errno;
    size_t count = stat("/proc/self/task", &task) == 0 && task.st_nlink > 2 ? task.st_nlink - 2 : 0;
    errno = kept;
    return count;
}

static enum verdict judge(weft_sched *s)
{
    size_t known = s->use_caller ? s->workers : s->workers + wf_load(&s->endless);
    if (!is_stuck_inside(s, true))
        return MOVES;
    if (count_threads() == known)
        return STUCK;
    return wf_has_circle(s) ? CIRCLE : THREADS;
}

/* ---- the list ---- */

static void tell(weft_sched *s, const char *who, const char *why)
{
    if (wf_exchange(&s->told, 1u) != 0)
        return;
    fprintf(stderr, "weft: %s of \"%s\" waits for fibers that %s:\n", who, s->name, why);
    wf_dump(stderr, s, true);
    fputs(
        "weft: wake them, give their waits a deadline, or cancel them. The wait goes on, and this is not said again.\n",
        stderr);
}

void wf_stuck_look_stopping(weft_sched *s)
{
    if (!wf_load(&s->told) && is_stuck_inside(s, false))
        tell(s, "weft_sched_stop", "nothing in it can wake");
}

/* ---- while somebody waits without a deadline ---- */

void wf_stuck_wait_begin(weft_sched *s)
{
    wf_add(&s->endless, 1);
    wf_add(&s->endless_ever, 1);
    if (s->use_caller)
        return;                            /* worker 0 begins to look by itself */
    wf_fence();                            /* pairs with wf_idle's */
    wf_driver_wake(&s->worker[0]->driver); /* it may sleep since long before anybody wanted to know */
}

void wf_stuck_wait_end(weft_sched *s)
{
    wf_add(&s->endless, (uint32_t)-1);
}

/* Grows whenever a fiber of the scheduler has run, or another thread has begun to wait. Never 0. */
static uint64_t phase_of(const weft_sched *s)
{
    uint64_t phase = wf_load(&s->endless_ever) + 1;
    for (unsigned i = 0; i < s->workers; i++)
        phase += wf_load(&s->worker[i]->counts.switches);
    return phase;
}

int64_t wf_stuck_look_idle(struct wf_worker *w, int64_t next)
{
    weft_sched *s = w->sched;
    if (next <= w->now + WF_STUCK_AFTER || awaits_descriptors(s))
        return next;
    int64_t now = wf_clock_now();
    uint64_t phase = phase_of(s);
    if (phase != w->idle_phase) {
        w->idle_phase = phase;
        w->look_after = WF_STUCK_AFTER;
        w->look_at = now + w->look_after;
    } else if (now >= w->look_at) {
        enum verdict verdict = judge(s);
        const char *who = s == wf_load(&wf_sched_default) ? "weft_run" : "weft_sched_run";
        if (verdict == STUCK)
            tell(s, who, "nothing in the process can wake");
        else if (verdict == CIRCLE)
            tell(s, who, "wait for each other in a circle, or for another thread");
        w->look_after *= 2; /* threads may end without a word */
        w->look_at = verdict == THREADS ? now + w->look_after : INT64_MAX;
    }
    return w->look_at < next ? w->look_at : next;
}
