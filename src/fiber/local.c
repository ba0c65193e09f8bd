/*
 * fiber/local.c: fiber-local values. Keys are for the whole process and for life; values belong to their fiber.
 */
#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "base/thread.h"
#include "fiber/extra.h"

#define ROUNDS 4 /* destructors may set values again, so often */

static unsigned keys;                            /* atomic: how many there are, or more were asked for */
static void (*destroys[WF_LOCALS])(void *value); /* atomic: written once, before its key is given out */

int weft_local_new(weft_local *out, void (*destroy)(void *value))
{
    if (!out)
        return -EINVAL;
    unsigned index = wf_load(&keys);
    do {
        if (index >= WF_LOCALS)
            return -EAGAIN;
    } while (!wf_cas(&keys, &index, index + 1));
    wf_store_release(&destroys[index], destroy);
    out->index = index + 1;
    return 0;
}

static bool is_key(weft_local key)
{
    return key.index >= 1 && key.index <= wf_load(&keys) && key.index <= WF_LOCALS;
}

int weft_local_set(weft_local key, void *value)
{
    weft_fiber *f = wf_thread_now()->fiber;
    if (!is_key(key))
        return -EINVAL;
    if (!f)
        return -ENXIO;
    struct wf_extra *x = wf_load_acquire(&f->extra); /* pairs with wf_extra */
    if (!x || !x->locals) {
        if (!value)
            return 0;
        x = wf_extra(f);
        if (!x)
            return -ENOMEM;
        x->locals = wf_sys_malloc(WF_LOCALS * sizeof x->locals[0]);
        if (!x->locals)
            return -ENOMEM;
        memset(x->locals, 0, WF_LOCALS * sizeof x->locals[0]);
    }
    x->locals[key.index - 1] = value;
    return 0;
}

void *weft_local_get(weft_local key)
{
    weft_fiber *f = wf_thread_now()->fiber;
    const struct wf_extra *x = f ? wf_load_acquire(&f->extra) : NULL; /* pairs with wf_extra */
    return x && x->locals && is_key(key) ? x->locals[key.index - 1] : NULL;
}

static bool destroy_all(void **locals)
{
    bool any = false;
    for (unsigned i = 0; i < WF_LOCALS; i++) {
        void *value = locals[i];
        void (*destroy)(void *) = wf_load_acquire(&destroys[i]);
        locals[i] = NULL;
        if (value && destroy) {
            destroy(value);
            any = true;
        }
    }
    return any;
}

void wf_locals_destroy(struct wf_extra *x)
{
    for (int i = 0; i < ROUNDS && destroy_all(x->locals); i++)
        ;
    wf_sys_free(x->locals);
    x->locals = NULL;
}
