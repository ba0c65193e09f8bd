/*
 * sched/fork.c: schedulers and fibers in the child of a fork; see fork.h and docs/decisions/0016.
 *
 * If a fiber forked, its scheduler goes on with that fiber alone, on that thread as its only worker. Other schedulers that
 * ran are lost with their workers: they are STOPPED, have none, and can only be freed. One that did not run is as it was.
 * All drivers are forgotten, and made anew when a fiber first waits.
 *
 * Lost fibers. What they wait for is in objects of the user, in a channel, a mutex, a join, and nobody can take them out
 * from there. So it is wf_settle that passes them over, and their records and stacks stay where they are. To say in each
 * record that it is lost would make every child copy all of them, also one that goes on to exec. So it is done when
 * somebody first looks at one (wf_fork_bury): by its id a fiber is told from those that began here.
 *
 * A plain thread of the parent that waits in such an object has its sleeper on its stack, which says in its `bits` that it
 * is of before.
 *
 * Locks: the list's, then that of each scheduler in it. Nobody else takes both.
 */
#include "sched/fork.h"

#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/plain.h"
#include "base/thread.h"
#include "sched/family.h"
#include "sched/pick.h"
#include "sched/sched.h"
#include "sched/starved.h"
#include "sched/timer.h"
#include "stack/shared.h"

static struct wf_lock list_lock;
static weft_sched *list; /* guarded by: list_lock */
static struct wf_plain_once once;

enum { BURIED, UNBURIED, UNDER_WAY };

struct wf_lock wf_fork_shared_lock;
static uint32_t burial;            /* atomic: what has been done about lost fibers */
static const weft_fiber *survivor; /* const, but for a child that is alone: who forked, or NULL */

/* ---- lost fibers ---- */

/* Nobody had begun it, and it is where it was: the user's own, or queued in a scheduler that has never run. */
static bool stays(const weft_fiber *f, uint32_t state)
{
    const weft_sched *s = wf_load(&f->sched);
    if (state == WEFT_FIBER_NEW)
        return !s;
    return state == WEFT_FIBER_READY && !f->coro && s && wf_load(&s->life) == WF_NEW;
}

/* It has ended, and its value is there; who was about to be told is not. */
static void end_of_its_join(weft_fiber *f)
{
    uintptr_t join = wf_load(&f->join);
    if (join != WF_JOIN_DETACHED && join != WF_JOIN_GONE && join != WF_JOIN_LOST)
        wf_store(&f->join, WF_JOIN_DONE);
}

static void bury(weft_fiber *f, void *arg)
{
    (void)arg;
    uint32_t state = wf_load(&f->state);
    if (state == 0 || f == survivor || wf_load(&f->id) >= wf_thread_first_id || stays(f, state))
        return;
    if (state == WEFT_FIBER_DONE) {
        end_of_its_join(f);
        return;
    }
    wf_store(&f->sleeper.phase, WF_AWAKE);
    wf_store(&f->join, WF_JOIN_LOST);
    wf_store(&f->state, WEFT_FIBER_DONE);
}

void wf_fork_bury(void)
{
    uint32_t unburied = UNBURIED;
    if (wf_load_acquire(&burial) == BURIED) /* pairs with who did it */
        return;
    if (wf_cas(&burial, &unburied, UNDER_WAY)) {
        wf_pool_walk(bury, NULL);
        wf_store_release(&burial, BURIED);
    }
    while (wf_load_acquire(&burial) != BURIED)
        sched_yield();
}

bool wf_fork_lost(const struct wf_sleeper *who)
{
    if (!who->fiber)
        return (wf_load(&who->bits) & ~(uint32_t)WF_CANCEL) != wf_thread_bits();
    wf_fork_bury();
    return false; /* else its phase says that it waits for nothing */
}

bool wf_fork_has_lost(const weft_fiber *f)
{
    wf_fork_bury();
    return wf_load(&f->join) == WF_JOIN_LOST;
}

/* ---- schedulers ---- */

static void forget_drivers(weft_sched *s)
{
    for (unsigned i = 0; i < s->made; i++) {
        struct wf_driver *d = &s->worker[i]->driver;
        if (d->io)
            d->io->ops->forget(d->io);
        *d = (struct wf_driver){0};
    }
}

/* What others were about to do with it. */
static void forget_others(weft_sched *s)
{
    s->lock = s->idle_lock = s->empty_lock = (struct wf_lock){0};
    s->idle = NULL;
    s->idle_count = s->searching = s->lookout = s->senders = 0;
    s->empty_waiters = (struct wf_waiters){0};
    forget_drivers(s);
}

/* Nobody works it. What it has stays where it is: its thread may have been in the middle of it. */
static void lose_worker(struct wf_worker *w)
{
    w->set = NULL;
    w->thread = NULL;
    w->tid = 0;
    w->has_thread = false;
}

static void lose(weft_sched *s, struct wf_thread *t)
{
    struct wf_worker *here = t->worker && t->worker->sched == s ? t->worker : NULL;
    for (unsigned i = 0; i < s->made; i++)
        lose_worker(s->worker[i]);
    if (here && here->works) { /* in a signal's handler: its loop goes on, and finds that it is over */
        here->thread = t;
    } else if (here) {
        t->worker = NULL;
        t->stacks_kept = 0;
    }
    s->workers = 0;
    s->use_caller = false;
    s->injected = (struct wf_fifo){0};
    s->spawned_outside = 0;
    s->stopping = false;
    s->life = WF_STOPPED;
    s->over = 1;
}

/* What is in its queues: pending fibers are lost, and who was about to bring one is not here. */
static uint64_t count_queued(const weft_sched *s)
{
    uint64_t count = s->injected.count;
    for (unsigned i = 0; i < s->made; i++) {
        for (const struct wf_inbox_node *node = s->worker[i]->inbox.top; node; node = node->next)
            count += node != &s->worker[i]->nudge;
    }
    return count;
}

/* Another thread may have been about to nudge the worker: `nudged` says again whether the node is in the inbox. */
static void settle_nudge(struct wf_worker *w)
{
    w->nudged = 0;
    for (const struct wf_inbox_node *node = w->inbox.top; node; node = node->next)
        w->nudged |= node == &w->nudge;
}

/* It did not run. */
static void rest(weft_sched *s, const struct wf_thread *t)
{
    if (s->use_caller && s->worker[0]->thread != t) {
        s->use_caller = false;
        s->worker[0]->thread = NULL;
        s->worker[0]->tid = 0;
    }
    if (s->life == WF_NEW)
        s->spawned_outside = count_queued(s);
    for (unsigned i = 0; i < s->made; i++) {
        settle_nudge(s->worker[i]);
        wf_timers_renew(s->worker[i]->timers);
    }
}

/* The worker has nothing but the fiber that runs. */
static void empty_worker(struct wf_worker *w)
{
    int64_t now = wf_clock_now();
    for (; w->set_count > 0; w->set_count--)
        w->sched->policy->pop(w->set, (weft_time){now});
    w->slot = w->offered = NULL;
    w->queue = w->direct = (struct wf_fifo){0};
    wf_starved_forget(w);
    w->round &= (uint8_t)~WF_ROUND_SLEEPERS;
    w->pass_left = 0;
    wf_ring_forget(&w->ring);
    w->inbox = (struct wf_inbox){0};
    w->nudged = 0;
    w->searching = w->listed = w->lookout = false;
    w->ripe = NULL;
    w->idle_next = w->idle_prev = NULL;
    w->counts = (struct wf_counts){.spawned = 1};
    wf_wheel_init(&w->wheel, now);
    w->first_due = INT64_MAX;
    wf_timers_renew(w->timers);
}

/* It was started by a thread that is not here: it ends when its last fiber does. */
static void become_orphan(weft_sched *s, struct wf_worker *w)
{
    s->orphan = true;
    s->use_caller = false;
    s->stopping = false;
    s->life = WF_RUNNING;
    s->gate = 1;
    s->cancels = w->cancelled_to = 0;
    s->endless = s->told = 0;
    wf_timers_allow(w->timers, WF_TIMERS_OPEN);
}

static void go_on(weft_sched *s, struct wf_worker *w, weft_fiber *f)
{
    bool called = s->use_caller && w->index == 0; /* in weft_sched_run or weft_sched_stop, which return here too */
    for (unsigned i = 0; i < s->made; i++) {
        if (s->worker[i] != w)
            lose_worker(s->worker[i]);
    }
    s->worker[w->index] = s->worker[0];
    s->worker[0] = w;
    w->index = 0;
    w->has_thread = false;
    w->solo = true;
    s->workers = 1;
    s->injected = (struct wf_fifo){0};
    s->spawned_outside = 0;
    s->empty_wanted = 1;
    empty_worker(w);
    f->timed = false; /* an earlier wait's deadline may have been in the wheel */
    if (!called)
        become_orphan(s, w);
    wf_family_forked(f);
    if (f->shared)
        wf_shared_keep(f->shared, w, s);
    if (f->join > WF_JOIN_LOST) /* who waits for its end is not here */
        f->join = WF_JOIN_OPEN;
}

static void in_child(void)
{
    struct wf_thread *t = wf_thread_now();
    weft_sched *mine = t->fiber ? t->worker->sched : NULL;
    survivor = t->fiber;
    burial = UNBURIED;
    for (weft_sched *s = list; s; s = s->next_of_all) {
        bool runs = s->life == WF_RUNNING || s->life == WF_DRAINING || s->stopping;
        forget_others(s);
        if (s == mine)
            go_on(s, t->worker, t->fiber);
        else if (runs)
            lose(s, t);
        else
            rest(s, t);
    }
    if (t->worker)
        t->worker->tid = gettid();
    wf_sched_keep_default(mine);
    wf_unlock(&list_lock);
}

static void before(void)
{
    wf_lock(&list_lock);
    for (weft_sched *s = list; s; s = s->next_of_all)
        wf_lock(&s->lock);
}

static void after(void)
{
    for (weft_sched *s = list; s; s = s->next_of_all)
        wf_unlock(&s->lock);
    wf_unlock(&list_lock);
}

static void set_up(void)
{
    static const struct wf_fork_steps steps = {before, after, in_child};
    wf_fork_join(WF_FORK_SCHEDS, &steps);
}

void wf_fork_list(weft_sched *s)
{
    wf_plain_once(&once, set_up);
    wf_lock(&list_lock);
    s->next_of_all = list;
    s->link_of_all = &list;
    if (list)
        list->link_of_all = &s->next_of_all;
    list = s;
    wf_unlock(&list_lock);
}

void wf_fork_unlist(weft_sched *s)
{
    wf_lock(&list_lock);
    *s->link_of_all = s->next_of_all;
    if (s->next_of_all)
        s->next_of_all->link_of_all = s->link_of_all;
    wf_unlock(&list_lock);
}
