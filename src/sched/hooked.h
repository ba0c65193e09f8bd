/*
 * sched/hooked.h: whether the system's blocking calls are to let a fiber wait. Each fiber has a flag, and inherits it.
 */
#ifndef WF_SCHED_HOOKED_H
#define WF_SCHED_HOOKED_H

#include <weft/fiber.h>

#include "base/thread.h"
#include "fiber/fiber.h"

/* What a fiber that is started here begins with: WEFT_NO_HOOK or 0. */
static inline uint16_t wf_hook_flag(const struct wf_thread *t)
{
    return t->fiber ? t->fiber->flags & WEFT_NO_HOOK : t->hook_flag;
}

#endif
