/*
 * task/group.c: waiting for several tasks: all, any, race.
 *
 * A group links one waiter into each of its tasks. A task that ends notes its end in the group. The note that decides
 * the group's result settles the waiter. The order of locks is task, then group. Once a member is unlinked under its
 * task's lock, the task does not touch it any more. So the group may be freed once all members are unlinked.
 */
#include "base/errno.h"
#include "base/sys.h"
#include "sched/fork.h"
#include "sched/slice.h"
#include "task/group.h"
#include "task/task.h"

/* Notes a member's end, which the group did not know of. True: this end decides the result. */
static bool note(struct wf_group *g, const struct wf_member *m, int code)
{
    wf_lock(&g->lock);
    bool was = g->decided;
    g->left--;
    bool is_last = g->left == 0, has_failed = code != 0;
    g->decided |= g->wanted == WF_WANTS_RACE || is_last || has_failed == (g->wanted == WF_WANTS_ALL);
    if (!was && g->decided) {
        bool fails = has_failed && g->wanted != WF_WANTS_RACE;
        g->failed = fails ? m : NULL;
        g->result = fails ? code : g->wanted == WF_WANTS_ALL ? 0 : (int)(m - g->members);
    }
    bool decides = !was && g->decided;
    wf_unlock(&g->lock);
    return decides;
}

bool wf_group_note(struct wf_waiter *member, const weft_task *ended)
{
    struct wf_member *m = (struct wf_member *)member;
    struct wf_group *g = m->group;
    if (!note(g, m, ended->code))
        return false;
    return g->sleeper ? wf_settle(g->sleeper, 0) : wf_task_settle(g->waiter, 0);
}

void wf_group_ready(struct wf_waiter *member, struct wf_later *later)
{
    const struct wf_group *g = ((struct wf_member *)member)->group;
    if (g->sleeper)
        wf_ready(g->sleeper);
    else
        wf_task_resume(g->waiter, later, false);
}

/* Links a member, or notes its end. False: its end has decided the result. */
static bool link_member(struct wf_group *g, struct wf_member *m, bool waits)
{
    weft_task *t = m->task;
    struct wf_lock *lock = wf_fork_lock(&t->lock, t->forks);
    wf_lock(lock);
    bool has_ended = m->is_readable || wf_load(&t->state) == WF_TASK_ENDED;
    if (!has_ended && waits) {
        m->node.index = WF_AWAITS_GROUP;
        wf_waiters_add(&t->waiters, &m->node, NULL);
    }
    wf_unlock(lock);
    return !has_ended || !note(g, m, t->code);
}

static bool link_all(struct wf_await *a, struct wf_sleeper *sleeper, weft_task *waiter)
{
    struct wf_group *g = (struct wf_group *)a;
    g->sleeper = sleeper;
    g->waiter = waiter;
    for (size_t i = 0; i < g->count; i++) {
        if (!link_member(g, &g->members[i], sleeper || waiter))
            return false;
    }
    return true;
}

static void unlink_all(struct wf_await *a)
{
    struct wf_group *g = (struct wf_group *)a;
    for (size_t i = 0; i < g->count; i++) {
        struct wf_member *m = &g->members[i];
        struct wf_lock *lock = wf_fork_lock(&m->task->lock, m->task->forks);
        wf_lock(lock);
        wf_waiters_remove(&m->task->waiters, &m->node);
        wf_unlock(lock);
    }
}

static bool publish(struct wf_sleeper *me, void *arg)
{
    struct wf_group *g = arg;
    bool waits = link_all(&g->await, me, NULL);
    if (waits)
        wf_commit_done(me);
    return waits;
}

static int wait_blocked(struct wf_group *g, weft_time deadline)
{
    struct wf_sleeper own, *me = wf_sleeper(&own);
    int rc = wf_wait(me, "tasks", publish, g, deadline);
    unlink_all(&g->await);
    return rc;
}

static int refused(struct wf_group *g, const struct wf_flow *flow)
{
    int rc = 0;
    for (size_t i = 0; i < g->count && rc == 0; i++) {
        struct wf_member *m = &g->members[i];
        m->is_readable = wf_task_is_readable(m->task); /* now: link_all may run on another stack */
        if (!m->is_readable)
            rc = wf_await_refused(flow, m->task);
    }
    return rc;
}

static int wait_for_members(struct wf_group *g, const struct wf_flow *flow, weft_time deadline)
{
    weft_task *me = weft_task_current();
    int rc = me ? wf_ring_enter(me, NULL, g) : 0;
    if (rc != 0)
        return rc;
    rc = wf_await_suspends(flow) ? wf_task_suspend(flow->task, &g->await, deadline) : wait_blocked(g, deadline);
    if (me)
        wf_ring_leave(me);
    return rc;
}

static int wait_for(struct wf_group *g, weft_time deadline)
{
    struct wf_flow *flow = wf_flow_task();
    if (wf_await_is_cancelled(flow, deadline))
        return -ECANCELED;
    int rc = refused(g, flow);
    if (rc != 0)
        return rc;
    if (wf_time_is_now(deadline))
        rc = link_all(&g->await, NULL, NULL) ? -EAGAIN : 0;
    else
        rc = wait_for_members(g, flow, deadline);
    if (rc == -ETIMEDOUT && g->decided) /* nobody notes anything any more */
        rc = 0;
    if (rc == 0 && g->failed)
        return wf_await_result(g->failed->task, NULL);
    return rc == 0 ? g->result : rc;
}

static int wait_for_group(weft_task **tasks, size_t n, enum wf_wanted wanted, weft_time deadline)
{
    wf_slice_here();
    if (n == 0 && wanted == WF_WANTS_ALL)
        return wf_await_is_cancelled(wf_flow_task(), deadline) ? -ECANCELED : 0;
    if (n == 0)
        return -EINVAL;
    if (!tasks || n > INT32_MAX)
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        if (!tasks[i])
            return -EINVAL;
    }
    struct wf_group *g = wf_sys_malloc(sizeof *g + n * sizeof *g->members);
    if (!g)
        return -ENOMEM;
    *g = (struct wf_group){.await = {link_all, unlink_all}, .wanted = wanted, .count = n, .left = n};
    for (size_t i = 0; i < n; i++) {
        g->members[i] = (struct wf_member){.group = g, .task = tasks[i]};
        g->members[i].node.prev = &g->members[i].node; /* not linked */
        wf_task_hold(tasks[i]);
    }
    int rc = wait_for(g, deadline);
    for (size_t i = 0; i < n; i++)
        wf_task_let_go(g->members[i].task);
    wf_sys_free(g);
    return rc;
}

int weft_task_all(weft_task **tasks, size_t n, weft_time deadline)
{
    return wait_for_group(tasks, n, WF_WANTS_ALL, deadline);
}

int weft_task_any(weft_task **tasks, size_t n, weft_time deadline)
{
    return wait_for_group(tasks, n, WF_WANTS_ANY, deadline);
}

int weft_task_race(weft_task **tasks, size_t n, weft_time deadline)
{
    return wait_for_group(tasks, n, WF_WANTS_RACE, deadline);
}
