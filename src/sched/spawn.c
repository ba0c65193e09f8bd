/*
 * sched/spawn.c: making fibers and giving them to a scheduler. Any thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/errno.h"
#include "base/barrier.h"
#include "base/options.h"
#include "base/clock.h"
#include "base/panic.h"
#include "sched/family.h"
#include "sched/hooked.h"
#include "sched/queue.h"
#include "sched/pending.h"
#include "sched/sched.h"
#include "sched/slice.h"
#include "sched/wait.h"
#include "stack/shared.h"
#include "stack/slab.h"

/* What a size of 0 means, for ever; and what no later version will exceed: beyond it is garbage. */
#define FIRST_SIZE (offsetof(weft_attr, flags) + sizeof(unsigned))
#define KNOWN_FLAGS (WEFT_FPENV | WEFT_CXX | WEFT_MEASURE | WEFT_MIGRATE | WEFT_NO_HOOK)
#define PRIORITIES 8

weft_sched *wf_sched_default;
static struct wf_lock default_lock; /* held while a plain thread brings work to it, so that it is there */

void wf_sched_set_default(weft_sched *s)
{
    wf_lock(&default_lock);
    wf_store(&wf_sched_default, s);
    wf_unlock(&default_lock);
}

weft_sched *wf_sched_hold_default(void)
{
    wf_lock(&default_lock);
    return wf_load(&wf_sched_default);
}

void wf_sched_keep_default(weft_sched *s)
{
    default_lock = (struct wf_lock){0};
    if (wf_load(&wf_sched_default) != s)
        wf_store(&wf_sched_default, NULL);
}

void wf_sched_let_default_go(void)
{
    wf_unlock(&default_lock);
}

static int read_attr(weft_attr *mine, const weft_attr *theirs)
{
    int rc = wf_options_read(mine, sizeof *mine, theirs, FIRST_SIZE);
    if (rc != 0)
        return rc;
    if (mine->flags & ~(unsigned)KNOWN_FLAGS || mine->priority < 0 || mine->priority >= PRIORITIES || mine->cost < 0 ||
        mine->worker < 0 || (mine->stack != 0 && (mine->stack < WEFT_STACK_MIN || mine->shared)))
        return -EINVAL;
    return 0;
}

/* What every fiber begins with. The rest of a free record is as wf_record_clean left it. */
static inline void begin(weft_fiber *f, uint64_t id, int64_t born, const char *site, weft_fn *fn, void *arg,
                         bool joinable)
{
    wf_store(&f->home, NULL);
    f->kept_errno = 0;
    f->deaf = 0; /* the fiber that had the record may have ended in such a section */
    f->class = 0;
    f->flags = wf_hook_flag(&wf_thread_self);
    wf_store(&f->sleeper.phase, WF_AWAKE);
    wf_store(&f->sleeper.bits, 0);
    f->fn = fn;
    f->arg = arg;
    wf_store(&f->id, id);
    wf_store(&f->site, site);
    wf_store(&f->born, born);
    wf_store(&f->join, joinable ? WF_JOIN_OPEN : WF_JOIN_DETACHED);
    wf_debug_ready(f);
}

/* Byte by byte: weft_dump may look. */
static void copy_name(char *to, const char *name)
{
    size_t n = strnlen(name, WF_NAME_BYTES - 1);
    for (size_t i = 0; i < n; i++)
        wf_store(&to[i], name[i]);
    wf_store(&to[n], '\0');
}

/* The attributes that do not depend on a scheduler. */
static int take_attr(weft_fiber *f, const weft_attr *a)
{
    int class = a->stack != 0 ? wf_stack_class(a->stack) : 0;
    if (class < 0)
        return -ENOMEM;
    f->class = (uint16_t) class;
    f->special = true;
    f->flags |= (uint16_t)a->flags;
    f->priority = (uint8_t)a->priority;
    if (a->cost > 0)
        f->cost = a->cost;
    f->due = a->due;
    if (a->name)
        copy_name(f->name, a->name);
    return 0;
}

/*
 * Which worker it must start on, if any: that of the attributes or of the submit, that of its shared stack, or under a policy
 * some one. It stays there for good, unless a submit names a worker: that is for one turn.
 */
static int bind(weft_sched *s, weft_fiber *f, weft_stacks *shared, int worker, bool for_good)
{
    struct wf_thread *t = wf_thread_now();
    if (wf_unlikely(s->workers == 0)) /* they were in the parent of a fork */
        return -ESHUTDOWN;
    if (worker < 0 || worker > (int)s->workers)
        return -EINVAL;
    struct wf_worker *home = worker > 0 ? s->worker[worker - 1] : NULL;
    if (shared) {
        struct wf_worker *likely = home ? home : s->worker[wf_add(&s->next_worker, 1) % s->workers];
        f->shared = wf_shared_bind(shared, likely, s, !home);
        if (!f->shared)
            return -EBUSY;
        home = (struct wf_worker *)(uintptr_t)f->shared->owner;
    } else if (!home && s->policy != &weft_fifo) {
        home = t->fiber && t->worker->sched == s ? t->worker : s->worker[wf_add(&s->next_worker, 1) % s->workers];
    }
    if (home) {
        f->special = true;
        f->bound = for_good || shared || s->policy != &weft_fifo;
        f->named = f->bound ? 0 : (uint16_t)(home->index + 1);
        wf_store_release(&f->home, home); /* pairs with weft_join's look at `bound` */
    }
    if (f->class == 0)
        f->class = s->class;
    return 0;
}

struct wf_worker *wf_sched_next_worker(weft_sched *s)
{
    unsigned first = s->use_caller && s->workers > 1;
    return s->worker[first + wf_add(&s->next_worker, 1) % (s->workers - first)];
}

bool wf_sched_takes_work(const weft_sched *s)
{
    return s->life != WF_DRAINING && s->life != WF_STOPPED;
}

/* The caller's own fibers may bring work while the scheduler drains; nobody else. */
static inline bool is_inside(const struct wf_thread *t, const weft_sched *s)
{
    return t->fiber && t->worker->sched == s;
}

static void hand_over(struct wf_thread *t, weft_fiber *f)
{
    struct wf_worker *w = t->worker, *home = wf_load(&f->home);
    wf_store(&w->counts.spawned, w->counts.spawned + 1);
    wf_store(&f->state, WEFT_FIBER_READY);
    if (home && home != w)
        wf_worker_send(home, f);
    else if (f->named)
        wf_worker_keep(w, f);
    else
        wf_worker_push(w, f, WEFT_WHY_NEW);
}

static int bring_from_outside(weft_sched *s, weft_fiber *f)
{
    wf_lock(&s->lock);
    if (!wf_sched_takes_work(s)) {
        wf_unlock(&s->lock);
        return -ESHUTDOWN;
    }
    struct wf_worker *to = wf_load(&f->home);
    if (!to && s->workers == 1)
        to = s->worker[0]; /* the same door for all that it gets: one order */
    wf_store(&s->spawned_outside, s->spawned_outside + 1);
    wf_store(&f->state, WEFT_FIBER_READY);
    if (!to) {
        wf_fifo_push(&s->injected, f);
        wf_add(&s->senders, 1); /* the fiber may end, and with it the scheduler, before we have told of it */
    }
    wf_unlock(&s->lock);
    if (to) {
        wf_worker_send(to, f);
        return 0;
    }
    wf_fence(); /* pairs with wf_idle's and take_nudge's */
    wf_sched_nudge(s);
    wf_sched_wake_one(s);
    wf_add(&s->senders, (uint32_t)-1); /* pairs with weft_sched_free */
    return 0;
}

static int give(weft_sched *s, weft_fiber *f)
{
    struct wf_thread *t = wf_thread_now();
    wf_store(&f->sched, s);
    if (is_inside(t, s)) {
        hand_over(t, f);
        return 0;
    }
    return bring_from_outside(s, f);
}

void wf_fiber_drop(weft_fiber *f)
{
    if (f->shared)
        wf_shared_unbind(f->shared);
    if (wf_load(&f->sleeper.bits) & WF_KNOWN)
        wf_pool_forget(f);
    wf_fiber_release(NULL, f);
}

static weft_fiber *new_record(const char *site, weft_fn *fn, void *arg, bool joinable)
{
    struct wf_thread *t = wf_thread_now();
    weft_fiber *f = t->fiber ? wf_records_take(&t->worker->records) : wf_pool_take();
    if (f)
        begin(f, wf_thread_id(t), t->fiber ? t->worker->now : wf_clock_coarse(), site, fn, arg, joinable);
    return f;
}

static int spawn(weft_sched *s, weft_fiber **out, const weft_attr *attr, const char *site, weft_fn *fn, void *arg)
{
    weft_attr a = {0};
    int rc = !fn ? -EINVAL : attr ? read_attr(&a, attr) : 0;
    if (rc != 0)
        return rc;
    weft_fiber *f = new_record(site, fn, arg, out != NULL);
    if (!f)
        return -ENOMEM;
    rc = attr ? take_attr(f, &a) : 0;
    if (rc == 0)
        rc = bind(s, f, a.shared, a.worker, true);
    if (rc == 0) {
        weft_fiber *made = f;
        rc = give(s, f);
        if (rc == 0 && out)
            *out = made;
    }
    if (rc != 0)
        wf_fiber_drop(f);
    return rc;
}

const struct wf_pending_ops *wf_pending_ops;

int wf_pending_new(weft_fiber **out, const char *site, weft_fn *fn, void *arg)
{
    weft_fiber *f = new_record(site, fn, arg, false);
    if (!f)
        return -ENOMEM;
    f->special = true;
    *out = f;
    return 0;
}

void wf_pending_discard(weft_fiber *f)
{
    wf_fiber_release(NULL, f);
}

static void bind_pending(weft_fiber *f, struct wf_worker *w)
{
    f->class = w->sched->class;
    f->bound = true;
    wf_store(&f->sched, w->sched);
    wf_store(&f->home, w);
    wf_store_release(&f->state, WEFT_FIBER_NEW); /* pairs with cancel_if_ours and cancel_if_of: what it is */
}

void wf_pending_bind(weft_fiber *f, struct wf_worker *w)
{
    bind_pending(f, w);
    wf_store(&w->counts.spawned, w->counts.spawned + 1);
}

void wf_pending_bring(weft_fiber *f, struct wf_worker *w)
{
    bind_pending(f, w);
    wf_store(&w->sched->spawned_outside, w->sched->spawned_outside + 1);
}

void wf_pending_start(weft_fiber *f)
{
    const struct wf_thread *t = wf_thread_now();
    struct wf_worker *home = wf_load(&f->home);
    if (t->worker == home && (t->fiber || home->works)) {
        wf_worker_push(home, f, WEFT_WHY_NEW);
    } else { /* worker 0 of use_caller too, while it is away: what is given to one that never ran is in its inboxes */
        wf_store(&f->state, WEFT_FIBER_READY);
        wf_worker_send(home, f);
    }
}

static void cancel_if_of(weft_fiber *f, void *arg)
{
    bool pending = wf_load_acquire(&f->state) == WEFT_FIBER_NEW; /* pairs with bind_pending */
    if (pending && wf_load(&f->sched) == arg)
        wf_load(&wf_pending_ops)->cancel(f);
}

void wf_pending_cancel_all(weft_sched *s)
{
    if (wf_load(&wf_pending_ops))
        wf_pool_walk(cancel_if_of, s);
}

/* Prints a line, once in a process, for programs that ignore the result of weft_go. */
static WF_COLD int no_runtime(const char *site)
{
    static uint32_t told; /* atomic */
    char line[512];
    if (wf_exchange(&told, 1u) != 0)
        return -ENXIO;
    snprintf(
        line, sizeof line,
        "weft: weft_go at %.200s: there is no runtime, so nothing runs: call weft_run first, or weft_sched_go with a "
        "scheduler of your own (said once)\n",
        site ? site : "?");
    wf_say(line);
    return -ENXIO;
}

/* On the current scheduler, or that of weft_run. */
static int spawn_here(weft_fiber **out, const weft_attr *attr, const char *site, weft_fn *fn, void *arg)
{
    struct wf_thread *t = wf_thread_now();
    if (t->fiber)
        wf_slice_spend(t);
    t = wf_thread_now();
    if (t->worker)
        return spawn(t->worker->sched, out, attr, site, fn, arg);
    weft_sched *s = wf_sched_hold_default();
    int rc = s ? spawn(s, out, attr, site, fn, arg) : -EINVAL;
    wf_sched_let_default_go();
    return s || !fn ? rc : no_runtime(site);
}

/* The common way calls little: in a fiber, with a record and an id at hand, nothing special about the scheduler. */
static inline weft_fiber *spawn_quickly(const char *site, weft_fn *fn, void *arg, bool joinable)
{
    struct wf_thread *t = &wf_thread_self;
    struct wf_worker *w = t->worker;
    if (wf_unlikely(!t->fiber || !fn || w->set || !w->records.first || !wf_thread_id_at_hand(t)))
        return NULL;
    weft_fiber *f = wf_records_take(&w->records);
    begin(f, wf_thread_id(t), w->now, site, fn, arg, joinable);
    f->class = w->sched->class;
    wf_store(&f->sched, w->sched);
    wf_store(&w->counts.spawned, w->counts.spawned + 1);
    wf_worker_push(w, f, WEFT_WHY_NEW);
    return f;
}

weft_fiber *wf_child_new(const char *site, weft_fn *fn)
{
    struct wf_thread *t = wf_thread_now();
    struct wf_worker *w = t->worker;
    weft_fiber *f = wf_records_take(&w->records);
    if (wf_unlikely(!f))
        return NULL;
    begin(f, wf_thread_id(t), w->now, site, fn, NULL, false);
    if (wf_unlikely(!wf_extra_begin(&w->extras, f))) {
        wf_fiber_release(w, f);
        return NULL;
    }
    f->arg = wf_extra_of(f);
    wf_extra_of(f)->child.fiber = f;
    f->class = w->sched->class;
    if (wf_unlikely(w->set)) { /* as bind() does */
        f->special = f->bound = true;
        wf_store(&f->home, w);
    }
    wf_store(&f->sched, w->sched);
    return f;
}

void wf_child_start(weft_fiber *f)
{
    struct wf_worker *w = wf_thread_now()->worker;
    wf_store(&w->counts.spawned, w->counts.spawned + 1);
    wf_worker_push(w, f, WEFT_WHY_NEW);
}

void wf_child_discard(weft_fiber *f)
{
    wf_fiber_release(wf_thread_now()->worker, f);
}

bool wf_spawn_on(struct wf_worker *w, const char *site, weft_fn *fn, void *arg)
{
    weft_fiber *f = wf_records_take(&w->records);
    if (wf_unlikely(!f))
        return false;
    begin(f, wf_thread_id(w->thread), w->now, site, fn, arg, false);
    f->class = w->sched->class;
    if (w->set) { /* as bind() does */
        f->special = f->bound = true;
        wf_store(&f->home, w);
    }
    wf_store(&f->sched, w->sched);
    wf_store(&w->counts.spawned, w->counts.spawned + 1);
    wf_worker_push(w, f, WEFT_WHY_NEW);
    return true;
}

WF_ENTRY int weft_go_at(const char *site, weft_fn *fn, void *arg)
{
    return wf_likely(spawn_quickly(site, fn, arg, false)) ? 0 : spawn_here(NULL, NULL, site, fn, arg);
}

WF_ENTRY int weft_go_with_at(const char *site, weft_fiber **out, const weft_attr *attr, weft_fn *fn, void *arg)
{
    weft_fiber *f = out && !attr ? spawn_quickly(site, fn, arg, true) : NULL;
    if (wf_unlikely(!f))
        return spawn_here(out, attr, site, fn, arg);
    *out = f;
    return 0;
}

int weft_sched_go_at(const char *site, weft_sched *s, weft_fiber **out, const weft_attr *attr, weft_fn *fn, void *arg)
{
    wf_slice_here();
    return s ? spawn(s, out, attr, site, fn, arg) : -EINVAL;
}

int weft_fiber_new_at(const char *site, weft_fiber **out, const weft_attr *attr, weft_fn *fn, void *arg)
{
    weft_attr a = {0};
    wf_slice_here();
    int rc = !fn || !out ? -EINVAL : attr ? read_attr(&a, attr) : 0;
    if (rc != 0)
        return rc;
    weft_fiber *f = new_record(site, fn, arg, true);
    if (!f)
        return -ENOMEM;
    rc = take_attr(f, &a);
    if (rc != 0) {
        wf_fiber_drop(f);
        return rc;
    }
    f->special = true;
    f->pool = a.shared;
    wf_store(&f->sched, NULL);
    wf_store(&f->state, WEFT_FIBER_NEW);
    *out = f;
    return 0;
}

static int submit_new(weft_sched *s, weft_fiber *f, int worker)
{
    uint32_t fresh = WEFT_FIBER_NEW;
    if (!wf_cas(&f->state, &fresh, WEFT_FIBER_READY))
        return -EBUSY; /* somebody else submits it */
    int rc = bind(s, f, f->pool, worker, false);
    if (rc == 0) {
        rc = give(s, f);
        if (rc != 0 && f->shared)
            wf_shared_unbind(f->shared);
    }
    if (rc != 0) {
        f->shared = NULL;
        f->bound = false;
        f->named = 0;
        wf_store(&f->home, NULL);
        wf_store(&f->state, WEFT_FIBER_NEW);
    }
    return rc;
}

static int submit_parked(weft_sched *s, weft_fiber *f, int worker)
{
    struct wf_worker *on = worker > 0 ? s->worker[worker - 1] : NULL;
    bool moves = s->workers > 1 && !f->bound && f->flags & WEFT_MIGRATE; /* else nobody can steal it */
    if (wf_load(&f->sched) != s || (on && on != wf_load(&f->home) && !moves))
        return -EPERM;
    if (!wf_is_parked(wf_load(&f->sleeper.phase)))
        return -EBUSY;
    return wf_unpark_on(f, moves ? on : NULL) ? 0 : -EBUSY;
}

int weft_sched_submit(weft_sched *s, weft_fiber *f, int worker)
{
    wf_slice_here();
    if (!s || !f || worker < 0 || worker > (int)s->workers)
        return -EINVAL;
    wf_debug_handle(__func__, f);
    wf_fork_look();
    switch (wf_load(&f->state)) {
    case WEFT_FIBER_NEW:
        return submit_new(s, f, worker);
    case WEFT_FIBER_PARKED:
        return submit_parked(s, f, worker);
    case WEFT_FIBER_DONE:
        return -ESRCH;
    default:
        return -EBUSY;
    }
}
