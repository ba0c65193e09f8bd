/*
 * sched/shield.c: see shield.h. Only the fiber itself calls these functions, or its worker while the fiber waits.
 */
#include "sched/shield.h"

#include <string.h>

#include "base/clock.h"
#include "base/errno.h"
#include "base/panic.h"
#include "base/sanitizer.h"
#include "base/sys.h"
#include "base/thread.h"
#include "sched/flow.h"
#include "sched/slice.h"

enum { FIRST_ROOM = 8 };

int64_t wf_deaf_until(const weft_fiber *f)
{
    if (f->deaf & WF_DEAF_SECTION)
        return INT64_MAX;
    return f->deaf & WF_DEAF_SHIELDS ? f->shields->until[f->shields->count - 1] : f->shield;
}

bool wf_is_deaf(const weft_fiber *f)
{
    int64_t until = wf_deaf_until(f);
    return until == INT64_MAX || wf_clock_now() < until;
}

uint8_t wf_shield_depth(const weft_fiber *f)
{
    if (!(f->deaf & (WF_DEAF_SHIELD | WF_DEAF_SHIELDS)) || !wf_is_deaf(f))
        return 0;
    uint32_t count = f->deaf & WF_DEAF_SHIELDS ? f->shields->count : 1;
    return (uint8_t)(count < UINT8_MAX ? count : UINT8_MAX);
}

void wf_shield_drop(weft_fiber *f)
{
    if (f->deaf & WF_DEAF_SHIELDS)
        wf_sys_free(f->shields);
    f->deaf = 0;
}

/* The deadline of the shield with this number, from 1 on; NULL: f has no such shield. */
static int64_t *deadline_of(weft_fiber *f, uint32_t number)
{
    if (f->deaf & WF_DEAF_SHIELDS)
        return number <= f->shields->count ? &f->shields->until[number - 1] : NULL;
    return f->deaf & WF_DEAF_SHIELD && number == 1 ? &f->shield : NULL;
}

struct wf_shield_time wf_shield_at_least(weft_fiber *f, weft_span time)
{
    uint32_t number = f->deaf & WF_DEAF_SHIELDS ? f->shields->count : f->deaf & WF_DEAF_SHIELD ? 1 : 0;
    int64_t until = weft_in(time).ns, *at = deadline_of(f, number);
    struct wf_shield_time was = {number, at ? *at : 0};
    if (!at) {
        f->shield = until;
        f->deaf |= WF_DEAF_SHIELD;
    } else if (*at < until) {
        *at = until;
    }
    return was;
}

void wf_shield_restore(weft_fiber *f, struct wf_shield_time was)
{
    int64_t *at = deadline_of(f, was.number);
    uint8_t section = f->deaf & WF_DEAF_SECTION;
    if (at) {
        *at = was.until;
    } else if (was.number == 0) {
        wf_shield_drop(f);
        f->deaf = section;
    }
}

/* An array that holds the `count` open shields and has room for at least one more; NULL: no memory. */
static struct wf_shields *make_room(const int64_t *until, uint32_t count)
{
    uint32_t room = count < FIRST_ROOM ? FIRST_ROOM : 2 * count;
    struct wf_shields *made = wf_sys_malloc(sizeof *made + room * sizeof made->until[0]);
    if (!made)
        return NULL;
    made->room = room;
    made->count = count;
    memcpy(made->until, until, count * sizeof *until);
    return made;
}

static int begin_inner(weft_fiber *f, int64_t until)
{
    bool several = f->deaf & WF_DEAF_SHIELDS;
    struct wf_shields *s = several ? f->shields : make_room(&f->shield, 1);
    if (several && s->count == s->room) {
        s = make_room(s->until, s->count);
        if (s)
            wf_sys_free(f->shields);
    }
    if (!s)
        return -ENOMEM;
    int64_t outer = s->until[s->count - 1];
    s->until[s->count++] = until < outer ? until : outer;
    f->shields = s;
    f->deaf = (uint8_t)((f->deaf & ~WF_DEAF_SHIELD) | WF_DEAF_SHIELDS);
    return 0;
}

int weft_shield_begin(weft_time deadline)
{
    wf_slice_here();
    weft_fiber *f = wf_flow_fiber();
    if (!f)
        return -ENXIO;
    if (deadline.ns == INT64_MAX)
        return -EINVAL;
    if (f->deaf & (WF_DEAF_SHIELD | WF_DEAF_SHIELDS))
        return begin_inner(f, deadline.ns);
    f->shield = deadline.ns;
    f->deaf |= WF_DEAF_SHIELD;
    return 0;
}

static void end_inner(weft_fiber *f)
{
    struct wf_shields *s = f->shields;
    if (--s->count > 1)
        return;
    f->shield = s->until[0];
    f->deaf = (uint8_t)((f->deaf & ~WF_DEAF_SHIELDS) | WF_DEAF_SHIELD);
    wf_sys_free(s);
}

void weft_shield_end(void)
{
    wf_slice_here();
    weft_fiber *f = wf_flow_fiber();
    if (f && f->deaf & WF_DEAF_SHIELDS)
        end_inner(f);
    else if (f && f->deaf & WF_DEAF_SHIELD)
        f->deaf &= (uint8_t)~WF_DEAF_SHIELD;
    else if (WF_DEBUG)
        wf_say(
            "weft: weft_shield_end: no shield is open here; call it once for each weft_shield_begin that returned 0\n");
}
