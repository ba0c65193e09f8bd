/*
 * task/scope.c: opens scopes, starts children, waits and closes; see weft/scope.h. sched/family.h says how a cancel
 * walks through scopes. Only fibers call these functions; scope_control.c has the calls that any thread may make.
 */
#include "task/scope.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/errno.h"
#include "base/options.h"
#include "base/panic.h"
#include "base/sys.h"
#include "base/thread.h"
#include "sched/cancel.h"
#include "sched/defer.h"
#include "sched/failures.h"
#include "sched/flow.h"
#include "sched/shield.h"
#include "sched/slice.h"
#include "sched/wait.h"

#define FIRST_SIZE sizeof(weft_scope_opts)
#define NAME_AFTER WEFT_SEC /* children that ignore their cancel for so long are named */

/* ---- open ---- */

static int read_opts(weft_scope_opts *mine, const weft_scope_opts *theirs)
{
    *mine = (weft_scope_opts){.size = sizeof *mine};
    int rc = theirs ? wf_options_read(mine, sizeof *mine, theirs, FIRST_SIZE) : 0;
    if (rc != 0)
        return rc;
    if (!mine->policy)
        mine->policy = &weft_until_failure;
    if (mine->deadline.ns == 0)
        mine->deadline = WEFT_FOREVER;
    return mine->policy->enough && mine->policy->result ? 0 : -EINVAL;
}

static bool is_open(const struct wf_extra *x, const struct wf_scope *s)
{
    for (const struct wf_scope *o = x->open; o; o = o->outer) {
        if (o == s)
            return true;
    }
    return false;
}

static int open_scope(const char *site, struct wf_scope *s, const weft_scope_opts *opts)
{
    weft_scope_opts o;
    weft_fiber *f = wf_thread_now()->fiber;
    int rc = read_opts(&o, opts);
    if (rc != 0)
        return rc;
    struct wf_extra *x = wf_extra(f);
    if (!x)
        return -ENOMEM;
    if (is_open(x, s))
        return -EBUSY;
    *s = (struct wf_scope){.owner = f,
                           .policy = o.policy,
                           .name = o.name ? o.name : "",
                           .site = site,
                           .at_once = o.at_once == 0 ? UINT32_MAX : o.at_once,
                           .depth = wf_shield_depth(f),
                           .wake_at = WF_SCOPE_NOBODY,
                           .due = o.deadline.ns};
    bool past = s->due != INT64_MAX && s->due <= wf_clock_now();
    if (past)
        s->due = INT64_MAX;
    wf_scope_add(x, f, s);
    if (!(wf_load(&f->sleeper.bits) & WF_OPENED))
        wf_or(&f->sleeper.bits, WF_OPENED); /* release: pairs with wf_dump_look_at_scopes */
    struct wf_later none = {0};             /* it has no children */
    if (past)
        wf_scope_cancel(s, &(struct wf_cause){.kind = WEFT_CAUSE_DEADLINE, .code = -ETIMEDOUT}, &none);
    return 0;
}

int weft_scope_open_at(const char *site, weft_scope *s, const weft_scope_opts *opts)
{
    wf_slice_here();
    if (!s || wf_on_copied_stack(s))
        return -EINVAL;
    return wf_flow_fiber() ? open_scope(site, wf_scope_of(s), opts) : -ENXIO;
}

int weft_scope_new_at(const char *site, weft_scope **out, const weft_scope_opts *opts)
{
    wf_slice_here();
    if (!out)
        return -EINVAL;
    if (!wf_flow_fiber())
        return -ENXIO;
    weft_scope *s = wf_sys_malloc(sizeof *s);
    int rc = s ? open_scope(site, wf_scope_of(s), opts) : -ENOMEM;
    if (rc != 0) {
        wf_sys_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

weft_scope *weft_scope_enter_at(const char *site, weft_scope *s, const weft_scope_opts *opts)
{
    int rc = weft_scope_open_at(site, s, opts);
    if (rc != 0)
        wf_panic("WEFT_SCOPE", "the scope at %s cannot be opened: %s%s; call weft_scope_open to see the error instead",
                 site, weft_strerror(rc), wf_on_copied_stack(s) ? " (on a shared stack use weft_scope_new)" : "");
    return s;
}

/* ---- children ---- */

static void *child_main(void *arg)
{
    struct wf_extra *x = arg;
    int code = x->job(x->arg);
    return (void *)(intptr_t)(code < 0 ? code : 0);
}

int wf_scope_may_go(const struct wf_scope *s, const weft_fiber *caller)
{
    const struct wf_extra *x = caller ? wf_load_acquire(&caller->extra) : NULL; /* pairs with wf_extra */
    if (wf_likely(caller && (wf_load(&s->owner) == caller || (x && x->child.scope == s))))
        return 0;
    return wf_task_is_child_of(s) ? 0 : -EPERM;
}

/*
 * The owner waits until at most `live` children are left. Called with the family's lock, and releases it. Returns what
 * wf_wait returns. A cancel of the scope itself ends the wait too.
 */
static int wait_for_children(struct wf_scope *s, uint32_t live, weft_time deadline)
{
    struct wf_sleeper *me = &s->owner->sleeper; /* not wf_sleeper(): a time slice lets others run, and we hold a lock */
    struct wf_lock *lock = &wf_extra_of(s->owner)->lock;
    s->wake_at = live;
    int rc = wf_wait(me, "scope", wf_commit_unlock, lock, deadline); /* debug builds: the lock is on no fiber's stack */
    if (rc < 0) {                                                    /* else the child that woke us has done so */
        wf_lock(lock);
        s->wake_at = WF_SCOPE_NOBODY;
        wf_unlock(lock);
    }
    return rc;
}

/* Links a child if there is a place for it. Otherwise returns -EAGAIN with the family's lock held. */
static int link_child(struct wf_scope *s, weft_fiber *f)
{
    struct wf_extra *x = wf_extra_of(s->owner);
    wf_lock(&x->lock);
    if (wf_unlikely(!wf_scope_takes_children(s))) {
        wf_unlock(&x->lock);
        return -ECANCELED;
    }
    if (wf_unlikely(s->live >= s->at_once))
        return -EAGAIN;
    wf_child_link(s, &wf_extra_of(f)->child);
    if (wf_unlikely(s->stopping || wf_load(&s->owner->sleeper.bits) & WF_STOPPING))
        wf_or(&f->sleeper.bits, WF_STOPPING);
    wf_unlock(&x->lock);
    return 0;
}

/* Links a child, and waits for a place if `waits` is set and the caller is the owner. */
static int find_place(struct wf_scope *s, weft_fiber *f, bool waits)
{
    for (;;) {
        int rc = link_child(s, f);
        if (wf_likely(rc != -EAGAIN))
            return rc;
        bool owner = s->owner == wf_thread_now()->fiber;
        if (!waits || !owner) {
            wf_unlock(&wf_extra_of(s->owner)->lock);
            return waits ? -EDEADLK : -EAGAIN;
        }
        rc = wait_for_children(s, s->at_once - 1, WEFT_FOREVER);
        if (rc < 0)
            return rc;
    }
}

static int go(const char *site, weft_scope *scope, weft_job *fn, void *arg, bool waits)
{
    struct wf_scope *s = wf_scope_of(scope);
    wf_slice_here();
    if (!s || !fn)
        return -EINVAL;
    const weft_fiber *caller = wf_thread_now()->fiber;
    int rc = caller ? wf_scope_may_go(s, caller) : -EPERM;
    if (wf_unlikely(rc != 0))
        return rc;
    if (wf_cancel_point(caller, WEFT_FOREVER))
        return -ECANCELED;
    weft_fiber *f = wf_child_new(site, child_main);
    if (wf_unlikely(!f))
        return -ENOMEM;
    wf_extra_of(f)->job = fn;
    wf_extra_of(f)->arg = arg;
    rc = find_place(s, f, waits);
    if (wf_unlikely(rc != 0)) {
        wf_child_discard(f);
        return rc;
    }
    wf_extra_of(f)->context = wf_task_context();
    wf_child_start(f);
    return 0;
}

int weft_scope_go_at(const char *site, weft_scope *s, weft_job *fn, void *arg)
{
    return go(site, s, fn, arg, true);
}

int weft_scope_try_go_at(const char *site, weft_scope *s, weft_job *fn, void *arg)
{
    return go(site, s, fn, arg, false);
}

/* ---- wait and close ---- */

int wf_scope_result(const struct wf_scope *s)
{
    int kind = wf_scope_kind(s);
    if (wf_scope_is_overruled(s) || kind == WEFT_CAUSE_CALL || kind == WEFT_CAUSE_SHUTDOWN || kind == WEFT_CAUSE_HANGUP)
        return -ECANCELED;
    if (kind == WEFT_CAUSE_DEADLINE)
        return -ETIMEDOUT;
    weft_scope_tally tally = wf_scope_tally(s, 0);
    return s->policy->result(s->policy, &tally);
}

/* The calling fiber owns the open scope s: 0, or why not. */
static int check_owner(struct wf_scope *s)
{
    const weft_fiber *owner = s ? wf_load(&s->owner) : NULL;
    if (!owner)
        return -EINVAL;
    return owner == wf_thread_now()->fiber ? 0 : -EPERM;
}

/*
 * One wait of wait_for_all, until `until`. A cancel from outside the scope ends it if s->heeds says so. The family's
 * lock is held before and after.
 */
static void wait_in_section(struct wf_scope *s, int64_t until)
{
    weft_fiber *f = s->owner;
    bool was = wf_section_begin(f);
    wait_for_children(s, 0, (weft_time){until});
    wf_section_end(f, was);
    wf_lock(&wf_extra_of(f)->lock);
}

/*
 * Waits until no child is left. No cancel ends this wait; with `heeds` a cancel from outside the scope does, once no
 * shield covers the owner. After NAME_AFTER it names the children that have not ended. The family's lock is held before
 * and after.
 */
static void wait_for_all(struct wf_scope *s, bool heeds)
{
    weft_fiber *f = s->owner;
    int64_t name_at = wf_clock_now() + NAME_AFTER;
    while (s->live > 0) {
        bool covered = heeds && wf_shield_depth(f) > 0;
        s->heeds = heeds && !covered;
        if (s->heeds && wf_scope_is_overruled(s))
            break;
        int64_t shield = covered ? wf_deaf_until(f) : INT64_MAX;
        wait_in_section(s, shield < name_at ? shield : name_at);
        if (s->live > 0 && wf_clock_now() >= name_at) {
            name_at = INT64_MAX;
            wf_unlock(&wf_extra_of(f)->lock);
            wf_scope_name_children(s, NAME_AFTER);
            wf_lock(&wf_extra_of(f)->lock);
        }
    }
    s->heeds = false;
}

/* Whether a wait that a cancel can end goes on: no cancel has come to s, or a shield keeps the cancel away. */
static bool is_unheard(const struct wf_scope *s)
{
    return wf_scope_kind(s) == 0 || (wf_scope_is_overruled(s) && wf_shield_depth(s->owner) > 0);
}

int weft_scope_wait(weft_scope *scope)
{
    struct wf_scope *s = wf_scope_of(scope);
    wf_slice_here();
    int rc = check_owner(s);
    if (rc != 0)
        return rc;
    struct wf_lock *lock = &wf_extra_of(s->owner)->lock;
    wf_lock(lock);
    while (s->live > 0 && is_unheard(s)) {
        rc = wait_for_children(s, 0, WEFT_FOREVER);
        wf_lock(lock);
        if (rc == -ECANCELED && wf_scope_kind(s) == 0) /* a scope inside s is cancelled, or a shield around s is over */
            break;
        rc = 0;
    }
    if (rc == 0)
        wait_for_all(s, true);
    if (rc == 0)
        rc = wf_scope_result(s);
    s->waited = true;
    wf_unlock(lock);
    return rc;
}

static void cancel_rest(struct wf_scope *s)
{
    struct wf_lock *lock = &wf_extra_of(s->owner)->lock;
    wf_lock(lock);
    s->closes = true;
    bool rest = s->live > 0;
    wf_unlock(lock);
    if (rest) { /* the first cause stays */
        struct wf_cause why = wf_cause_here(WEFT_CAUSE_ENOUGH, -ECANCELED, "the scope closes");
        struct wf_later later = {0};
        wf_scope_cancel(s, &why, &later);
        wf_later_here(&later);
    }
}

/* Runs the handlers of s. Panics if a handler leaves a scope open: the close would then remove that scope, not s. */
static void run_handlers(weft_fiber *f, struct wf_scope *s)
{
    const struct wf_extra *x = wf_extra_of(f);
    const char *site = s->site;
    while (wf_defers_has(x, s)) { /* one of them may have added others */
        wf_defers_run(f, s);
        if (wf_unlikely(x->open != s))
            wf_panic(
                "weft_scope_close",
                "a clean-up handler of the scope that was opened at %s has left a scope open that it opened itself: "
                "a handler closes what it opens",
                site);
    }
}

/* The scope's children are cancelled and joined, and its handlers have run. Its result. */
static int end_scope(struct wf_scope *s)
{
    weft_fiber *f = s->owner;
    struct wf_extra *x = wf_extra_of(f);
    cancel_rest(s);
    wf_lock(&x->lock);
    wait_for_all(s, false);
    wf_unlock(&x->lock);
    run_handlers(f, s);
    wf_lock(&x->lock);
    int rc = wf_scope_result(s);
    wf_unlock(&x->lock);
    return rc;
}

static void drop_scope(struct wf_scope *s)
{
    weft_fiber *f = s->owner;
    struct wf_extra *x = wf_extra_of(f);
    wf_scope_remove(x, f, s); /* waits for a stop that is under way */
    wf_sys_free(s->failures);
    if (s->stopping && x->stop_wanted && !weft_stopping()) {
        weft_event_reset(&x->stop);
        if (weft_stopping()) /* an outer scope was told to stop just now */
            weft_event_set(&x->stop);
    }
}

static int check_close(struct wf_scope *s)
{
    int rc = check_owner(s);
    if (rc != 0)
        return rc;
    if (s->closes) /* by one of its own clean-up handlers */
        return -EALREADY;
    return wf_extra_of(s->owner)->open == s ? 0 : -EBUSY;
}

int weft_scope_close(weft_scope *scope)
{
    struct wf_scope *s = wf_scope_of(scope);
    wf_slice_here();
    int rc = check_close(s);
    if (rc != 0)
        return rc;
    rc = end_scope(s);
    drop_scope(s);
    return rc;
}

int weft_scope_free(weft_scope *scope)
{
    if (!scope)
        return 0;
    int rc = weft_scope_close(scope);
    if (wf_scope_of(scope)->owner == NULL)
        wf_sys_free(scope);
    return rc;
}

/* Prints that a child has failed, and that the owner has not waited. */
static void report(const struct wf_scope *s)
{
    char line[640];
    const weft_failure *first = s->failures ? &s->failures->list[0] : NULL;
    snprintf(
        line, sizeof line,
        "weft: scope \"%.60s\" at %.140s: a child failed with %d (%.60s), started at %.140s, and nobody waited for "
        "the scope: call weft_scope_wait before the block ends\n",
        s->name, s->site, s->error, weft_strerror(s->error), first ? first->site : "?");
    wf_say(line);
}

void weft_scope_leave(weft_scope *scope)
{
    struct wf_scope *s = wf_scope_of(scope);
    if (!s || !s->owner) /* the block has closed the scope itself */
        return;
    int rc = check_close(s);
    if (rc != 0)
        wf_panic("WEFT_SCOPE", "the scope that was opened at %s cannot be closed here: %s", s->site,
                 rc == -EPERM      ? "this is not the fiber that opened it"
                 : rc == -EALREADY ? "one of its own clean-up handlers cannot close it"
                                   : "a scope that was opened inside it is still open");
    rc = end_scope(s);
    if (rc < 0 && s->failed > 0 && !s->waited)
        report(s);
    drop_scope(s);
}
