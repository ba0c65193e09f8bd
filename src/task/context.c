/*
 * task/context.c: context values; see weft/context.h. A fiber's values are an array that its children share: setting a
 * value copies the array if it has another holder.
 */
#include <string.h>

#include <weft/context.h>

#include "base/errno.h"
#include "base/sys.h"
#include "base/thread.h"
#include "coro/coro.h"
#include "fiber/extra.h"
#include "task/task.h"

static unsigned keys; /* atomic: how many there are */

int weft_context_new(weft_context_key *out)
{
    if (!out)
        return -EINVAL;
    unsigned index = wf_load(&keys);
    do {
        if (index >= WF_CONTEXT_KEYS)
            return -EAGAIN;
    } while (!wf_cas(&keys, &index, index + 1));
    out->index = index + 1;
    return 0;
}

static bool is_key(weft_context_key key)
{
    return key.index >= 1 && key.index <= wf_load(&keys);
}

/* Where the caller's context is kept; NULL: the caller has no such place. `make`: makes the place if there is none. */
static struct wf_context **place(bool make, int *rc)
{
    weft_fiber *f = wf_thread_now()->fiber;
    const struct wf_flow *flow = wf_flow_task();
    if (flow && flow->suspends) {
        *rc = 0;
        return &flow->task->context;
    }
    if (!f) {
        *rc = -ENXIO;
        return NULL;
    }
    struct wf_extra *x = make ? wf_extra(f) : wf_load_acquire(&f->extra); /* pairs with wf_extra */
    *rc = x ? 0 : -ENOMEM;
    return x ? &x->context : NULL;
}

/* A copy of the context, with one holder; NULL: no memory. */
static struct wf_context *copy(const struct wf_context *from)
{
    struct wf_context *c = wf_sys_malloc(sizeof *c + WF_CONTEXT_KEYS * sizeof c->value[0]);
    if (!c)
        return NULL;
    c->holders = 1;
    if (from)
        memcpy(c->value, from->value, WF_CONTEXT_KEYS * sizeof c->value[0]);
    else
        memset(c->value, 0, WF_CONTEXT_KEYS * sizeof c->value[0]);
    return c;
}

int weft_context_set(weft_context_key key, void *value)
{
    int rc = 0;
    if (!is_key(key))
        return -EINVAL;
    struct wf_context **at = place(true, &rc);
    if (!at)
        return rc;
    struct wf_context *c = *at;
    if (!c || wf_load_acquire(&c->holders) != 1) { /* pairs with wf_context_let_go: others read it no more */
        struct wf_context *mine = copy(c);
        if (!mine)
            return -ENOMEM;
        wf_context_let_go(c);
        *at = c = mine;
    }
    c->value[key.index - 1] = value;
    return 0;
}

void *weft_context_get(weft_context_key key)
{
    int rc;
    struct wf_context **at = place(false, &rc);
    return at && *at && is_key(key) ? (*at)->value[key.index - 1] : NULL;
}

struct wf_context *wf_task_context(void)
{
    int rc;
    const struct wf_thread *t = wf_thread_now();
    bool has_none = t->fiber && t->current == t->fiber->coro && !wf_load(&t->fiber->extra); /* most callers */
    struct wf_context **at = has_none ? NULL : place(false, &rc);
    return at ? wf_context_hold(*at) : NULL;
}
