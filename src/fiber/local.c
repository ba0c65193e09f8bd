/*
 * fiber/local.c: fiber-local values. Keys are for the whole process and for life; values belong to their fiber.
 */
#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "base/thread.h"
#include "fiber/fiber.h"

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
    if (!f->locals) {
        if (!value)
            return 0;
        f->locals = wf_sys_malloc(WF_LOCALS * sizeof f->locals[0]);
        if (!f->locals)
            return -ENOMEM;
        memset(f->locals, 0, WF_LOCALS * sizeof f->locals[0]);
    }
    f->locals[key.index - 1] = value;
    return 0;
}

void *weft_local_get(weft_local key)
{
    weft_fiber *f = wf_thread_now()->fiber;
    return f && f->locals && is_key(key) ? f->locals[key.index - 1] : NULL;
}

static bool destroy_all(weft_fiber *f)
{
    bool any = false;
    for (unsigned i = 0; i < WF_LOCALS; i++) {
        void *value = f->locals[i];
        void (*destroy)(void *) = wf_load_acquire(&destroys[i]);
        f->locals[i] = NULL;
        if (value && destroy) {
            destroy(value);
            any = true;
        }
    }
    return any;
}

void wf_locals_destroy(weft_fiber *f)
{
    for (int i = 0; i < ROUNDS && destroy_all(f); i++)
        ;
    wf_sys_free(f->locals);
    f->locals = NULL;
}
