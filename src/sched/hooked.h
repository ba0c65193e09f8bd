/*
 * sched/hooked.h: whether the system's blocking calls are to let a fiber wait. Each fiber has a flag, and inherits it.
 */
#ifndef WF_SCHED_HOOKED_H
#define WF_SCHED_HOOKED_H

#include <weft/fiber.h>

#include "base/thread.h"
#include "fiber/fiber.h"

/* The bits of a fiber's flags that weft_hook_held counts in: no flag of weft_attr has them. */
enum { WF_HELD_SHIFT = 10, WF_HELD_MOST = 63 };

_Static_assert(WEFT_NO_HOOK < 1u << WF_HELD_SHIFT, "they would be taken for flags");

/* What a fiber that is started here begins with: WEFT_NO_HOOK or 0. */
static inline uint16_t wf_hook_flag(const struct wf_thread *t)
{
    return t->fiber ? t->fiber->flags & WEFT_NO_HOOK : t->hook_flag;
}

/* The first fiber of weft_run has this id from now on; 0: there is none. */
void wf_hook_set_first(uint64_t id);

/* It has locks, and is about to wait for that, or to let others run: tells who asked for it (weft_hook_on_wait). */
WF_COLD void wf_hook_waits(const weft_fiber *f, const char *what);

/* Says so, once, if the environment asks for a report of the hooks and there are none. */
void wf_hook_look(void);

#endif
