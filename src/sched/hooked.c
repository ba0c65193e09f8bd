/*
 * sched/hooked.c: see hooked.h. What stands in for the system's calls is another library, libweft-hook; this is what it,
 * and anybody's own wrapper, asks first.
 */
#include "sched/hooked.h"

#include <weft/hook.h>

bool weft_hooked(void)
{
    const weft_fiber *f = wf_thread_self.fiber;
    return f && !(f->flags & WEFT_NO_HOOK);
}

bool weft_hook_enable(bool on)
{
    struct wf_thread *t = wf_thread_now();
    uint16_t *flags = t->fiber ? &t->fiber->flags : &t->hook_flag;
    bool was = !(*flags & WEFT_NO_HOOK);
    *flags = (uint16_t)(on ? *flags & ~WEFT_NO_HOOK : *flags | WEFT_NO_HOOK);
    return was;
}

bool weft_hook_deaf(bool on)
{
    weft_fiber *f = wf_thread_now()->fiber;
    bool was = f && f->deaf;
    if (f)
        f->deaf = on;
    return was;
}

uint64_t weft_hook_self(void)
{
    const weft_fiber *f = wf_thread_self.fiber;
    return f ? f->id : 0;
}

unsigned weft_hook_held(int change)
{
    weft_fiber *f = wf_thread_self.fiber;
    if (!f)
        return 0;
    int held = (f->flags >> WF_HELD_SHIFT) + change;
    held = held < 0 ? 0 : held > WF_HELD_MOST ? WF_HELD_MOST : held;
    f->flags = (uint16_t)((f->flags & ((1u << WF_HELD_SHIFT) - 1)) | (unsigned)held << WF_HELD_SHIFT);
    return (unsigned)held;
}

static weft_hook_wait_fn *on_wait; /* atomic */

weft_hook_wait_fn *weft_hook_on_wait(weft_hook_wait_fn *fn)
{
    return __atomic_exchange_n(&on_wait, fn, __ATOMIC_ACQ_REL);
}

void wf_hook_waits(const weft_fiber *f)
{
    weft_hook_wait_fn *fn = wf_load_acquire(&on_wait);
    if (fn)
        fn(&(weft_hook_wait){f->id, f->name, wf_load(&f->site), wf_load(&f->what), f->flags >> WF_HELD_SHIFT});
}
