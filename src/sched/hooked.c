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
