/*
 * task/callbacks.c: then, catching and finally. wf_task_finish (task.c) calls those that were added before the end.
 */
#include "base/errno.h"
#include "base/sys.h"
#include "sched/fork.h"
#include "sched/slice.h"
#include "task/task.h"

void wf_callback_call(weft_task *t, const struct wf_callback *c)
{
    switch (c->when) {
    case WF_CALL_THEN:
        if (t->code == 0)
            c->fn.then(wf_load(&t->value), c->arg); /* NULL once it was taken */
        break;
    case WF_CALL_CATCHING:
        if (t->code != 0) {
            weft_error error = {0};
            weft_task_error(t, &error);
            c->fn.catching(&error, c->arg);
        }
        break;
    case WF_CALL_FINALLY:
        c->fn.finally(c->arg);
        break;
    }
}

static bool has_room(const weft_task *t)
{
    return t->own_used < WF_OWN_CALLBACKS;
}

/* Adds a callback, in memory of the task or in `more`. guarded by: lock */
static void append(weft_task *t, const struct wf_callback *c, struct wf_callback *more)
{
    struct wf_callback *place = more ? more : &t->own[t->own_used++];
    *place = *c;
    place->next = NULL;
    *t->end = place;
    t->end = &place->next;
}

static weft_task *add(weft_task *t, const struct wf_callback *c)
{
    struct wf_callback *more = NULL;
    wf_slice_here();
    struct wf_lock *lock = wf_fork_lock(&t->lock, t->forks);
    if (wf_unlikely(lock != &t->lock) && !wf_task_has_ended(t))
        return NULL; /* it never ends here */
    for (;;) {
        wf_lock(lock);
        bool has_ended = wf_load(&t->state) == WF_TASK_ENDED, fits = more || has_room(t);
        if (!has_ended && fits) {
            append(t, c, more);
            wf_unlock(lock);
            return t;
        }
        wf_unlock(lock);
        if (has_ended)
            break;
        more = wf_sys_malloc(sizeof *more);
        if (!more)
            return NULL;
    }
    wf_sys_free(more);
    wf_task_hold(t); /* the callback may free it */
    wf_callback_call(t, c);
    wf_task_let_go(t);
    return t;
}

weft_task *weft_task_then(weft_task *t, void (*fn)(void *value, void *arg), void *arg)
{
    return t && fn ? add(t, &(struct wf_callback){.when = WF_CALL_THEN, .fn.then = fn, .arg = arg}) : NULL;
}

weft_task *weft_task_catching(weft_task *t, void (*fn)(const weft_error *error, void *arg), void *arg)
{
    return t && fn ? add(t, &(struct wf_callback){.when = WF_CALL_CATCHING, .fn.catching = fn, .arg = arg}) : NULL;
}

weft_task *weft_task_finally(weft_task *t, void (*fn)(void *arg), void *arg)
{
    return t && fn ? add(t, &(struct wf_callback){.when = WF_CALL_FINALLY, .fn.finally = fn, .arg = arg}) : NULL;
}
