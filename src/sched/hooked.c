/*
 * sched/hooked.c: see hooked.h. What stands in for the system's calls is another library, libweft-hook; this is what it,
 * and anybody's own wrapper, asks first.
 */
#include "sched/hooked.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include <weft/hook.h>

#include "base/panic.h"
#include "sched/budget.h"
#include "sched/sched.h"
#include "sched/shield.h"
#include "sched/wait.h"
#include "sched/worker.h"

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
    bool was = f && wf_section_begin(f);
    if (f)
        wf_section_end(f, on);
    return was;
}

void weft_hook_end(void *value)
{
    struct wf_thread *t = wf_thread_now();
    weft_fiber *f = t->fiber;
    if (!f)
        wf_panic(__func__, "the caller is not a fiber; call it in one");
    if (t->current != f->coro)
        wf_panic(__func__, "fiber %llu runs a raw coroutine; call it outside of that", (unsigned long long)f->id);
    wf_fiber_end(f, value);
}

bool weft_hook_cancelled(void)
{
    const weft_fiber *f = wf_thread_self.fiber;
    wf_seam_point(f, WEFT_FOREVER);
    return wf_cancel_is_heeded(f);
}

uint64_t weft_hook_self(void)
{
    const weft_fiber *f = wf_thread_self.fiber;
    return f ? f->id : 0;
}

static uint64_t first; /* atomic: an id, or 0 */

uint64_t weft_hook_first(void)
{
    return wf_load(&first);
}

void wf_hook_set_first(uint64_t id)
{
    wf_store(&first, id);
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

bool weft_hook_spend(size_t bytes)
{
    return wf_budget_take(&wf_thread_self, wf_cost_io((ptrdiff_t)bytes)) && wf_budget_ends();
}

static weft_hook_wait_fn *on_wait; /* atomic */
static bool has_hooks;             /* atomic: somebody has asked for it, or said that nobody does */

weft_hook_wait_fn *weft_hook_on_wait(weft_hook_wait_fn *fn)
{
    wf_store(&has_hooks, true);
    return __atomic_exchange_n(&on_wait, fn, __ATOMIC_ACQ_REL);
}

void wf_hook_waits(const weft_fiber *f, const char *what)
{
    weft_hook_wait_fn *fn = wf_load_acquire(&on_wait);
    if (fn)
        fn(&(weft_hook_wait){.id = f->id,
                             .name = f->name,
                             .site = wf_load(&f->site),
                             .what = what,
                             .held = f->flags >> WF_HELD_SHIFT,
                             .alone = wf_sched_has_one(wf_load(&f->sched))});
}

void wf_hook_look(void)
{
    static uint32_t told; /* atomic: a word, which every processor can exchange */
    const char *asked = getenv("WEFT_HOOK");
    if (!asked || strcasecmp(asked, "verbose") != 0 || wf_load(&has_hooks) || wf_exchange(&told, 1u))
        return;
    fprintf(stderr, "weft: WEFT_HOOK=verbose, but no libweft-hook is bound to this libweft: the linker has left it out "
                    "(-Wl,--no-as-needed before -lweft-hook), or there are two libwefts\n");
}
