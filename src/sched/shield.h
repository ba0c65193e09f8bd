/*
 * sched/shield.h: why a fiber ignores a cancel ("is deaf"), and until when. There are two independent reasons:
 *
 *  - a section: a wait of the library, or of a hook, that cannot fail. A section has no deadline.
 *  - shields (weft_shield_begin), which the program opens. A shield has a deadline.
 *
 * Both have the same effect: a deaf fiber waits in the phase WF_DEAF or WF_DEAF_PARKED, which a cancel leaves alone
 * (fiber/sleeper.h). If the shield's deadline is before the wait's deadline, the fiber's timer in the wheel is set to
 * the shield's deadline. At that time the worker turns the phase into WF_WAITING or WF_PARKED, and then checks whether
 * the fiber was cancelled (wf_sleeper_listens).
 *
 * A single shield is in the fiber's record, so that it needs no memory. Several shields are in an array, each with the
 * earlier of its own deadline and the deadline of the next outer shield.
 *
 * Only the fiber changes these fields; its worker reads them while the fiber waits.
 */
#ifndef WF_SCHED_SHIELD_H
#define WF_SCHED_SHIELD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fiber/fiber.h"

/* The deadlines of the open shields, outermost first. */
struct wf_shields {
    uint32_t count, room;
    int64_t until[];
};

/* Begins a section, and ends it. `was`: what wf_section_begin returned, whether the fiber was in a section before. */
static inline bool wf_section_begin(weft_fiber *f)
{
    bool was = f->deaf & WF_DEAF_SECTION;
    f->deaf |= WF_DEAF_SECTION;
    return was;
}

static inline void wf_section_end(weft_fiber *f, bool was)
{
    if (!was)
        f->deaf &= (uint8_t)~WF_DEAF_SECTION;
}

/* Call only if f->deaf is not 0. The time until which f is deaf; INT64_MAX: as long as its section lasts. */
WF_COLD int64_t wf_deaf_until(const weft_fiber *f);

/* Call only if f->deaf is not 0. Whether f is deaf now. */
WF_COLD bool wf_is_deaf(const weft_fiber *f);

/* How many shields cover f now; at most UINT8_MAX. */
uint8_t wf_shield_depth(const weft_fiber *f);

/* The innermost shield as it was: its number, from 1 on (0: there was none), and its deadline. */
struct wf_shield_time {
    uint32_t number;
    int64_t until;
};

/*
 * From here on f is shielded for at least `time`: by its innermost shield, which then lasts longer, or by a shield of
 * this call. Needs no memory. Restore undoes that. If there was no shield before, restore also ends shields that were
 * left open meanwhile.
 */
struct wf_shield_time wf_shield_at_least(weft_fiber *f, weft_span time);
void wf_shield_restore(weft_fiber *f, struct wf_shield_time was);

/* The fiber f ends: drops the sections and shields that f has left open. */
WF_COLD void wf_shield_drop(weft_fiber *f);

#endif
