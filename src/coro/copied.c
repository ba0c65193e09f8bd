/*
 * coro/copied.c: copying coroutines out of and into their shared stacks; see copied.h.
 *
 * Why nothing can fail after wf_copied_prepare: whoever is on the stack gets room for what it has live before it is
 * replaced. And one that is placed while others of the stack are RUNNING (they wait below it) must give way to them
 * again in a yield, which cannot report anything: so it gets room for the whole stack first.
 */
#include "coro/copied.h"

#include <errno.h>
#include <string.h>

#include "base/panic.h"
#include "base/sys.h"
#include "coro/packed.h"

#define SMALL_SPARE 32       /* a power of two */
#define ROUND_THE_SWITCH 512 /* stack that the way from wf_copied_prepare into the switch may use */

#if WF_ASAN
/* What is saved of the shadow, with the bytes: the redzones of live frames. */
static size_t shadow_scale, shadow_offset;

static size_t with_shadow(size_t bytes)
{
    if (shadow_offset == 0)
        __asan_get_shadow_mapping(&shadow_scale, &shadow_offset);
    return bytes + WF_ROUND_UP((bytes >> shadow_scale) + 1, (size_t)16);
}

static char *shadow_of(const void *p)
{
    return (char *)(((uintptr_t)p >> shadow_scale) + shadow_offset);
}
#else
static inline size_t with_shadow(size_t bytes)
{
    return bytes;
}
#endif

/* Where the live bytes of one that does not run begin. */
static char *live_low(const weft_coro *c)
{
    bool waits = (wf_mode(c) & WF_STATE) == WEFT_CORO_RUNNING;
    return wf_live_low(waits ? c->waits_for->sp : c->sp);
}

/* Room for `bytes`; what one that is not on its stack has saved is kept. */
static int make_room(weft_coro *c, size_t bytes, bool may_shrink)
{
    size_t need = with_shadow(bytes);
    if (wf_likely(!wf_packed(c) && wf_room_fits(c, need, may_shrink)))
        return 0;
    void *room = wf_sys_malloc(need);
    if (!room)
        return (c->room & ~WF_ROOM_PACKED) >= need ? 0 : -ENOMEM;
    if (c->shared->occupant != c && !wf_fresh(c))
        memcpy(room, c->saved, wf_packed(c) ? wf_packed_size(c) : with_shadow(c->saved_bytes));
    wf_sys_free(c->saved);
    c->saved = room;
    c->room = (uint32_t)need | (c->room & WF_ROOM_PACKED);
    return 0;
}

/* For a coroutine that is on its stack and will be packed: the room is hardly larger than needed, to save memory. With the
 * allocator's own word it is one of few sizes. So a copy that grows a little stays where it is, or finds the room of another. */
static int make_small_room(weft_coro *c, size_t bytes)
{
    if (wf_likely(c->room >= bytes && c->room - bytes <= SMALL_SPARE))
        return 0;
    size_t need = (bytes + sizeof(size_t) + SMALL_SPARE - 1) / SMALL_SPARE * SMALL_SPARE - sizeof(size_t);
    void *room = wf_sys_malloc(need);
    if (!room)
        return c->room >= bytes ? 0 : -ENOMEM;
    wf_sys_free(c->saved);
    c->saved = room;
    c->room = (uint32_t)need;
    return 0;
}

WF_RAW_MEMORY static void save(weft_coro *c)
{
    struct wf_shared *s = c->shared;
    char *low = live_low(c);
    size_t bytes = (size_t)(s->high - low);
    size_t packed = wf_packed_bytes(c, low, bytes);
#if WF_DEBUG
    if ((packed > 0 ? packed : with_shadow(bytes)) > c->room)
        wf_panic("a switch", "no room was made to copy a coroutine off its stack: please report this");
#endif
    if (packed > 0)
        wf_pack(c, low, bytes);
    else
        wf_copy_live(c->saved, low, bytes);
    c->saved_bytes = (uint32_t)bytes;
    if (c->deepest < bytes)
        c->deepest = (uint32_t)bytes;
#if WF_ASAN
    char *from = shadow_of(low), *to = (char *)c->saved + bytes;
    for (size_t i = 0; i < (bytes >> shadow_scale) + 1; i++)
        to[i] = from[i];
    wf_asan_unpoison(s->low, (size_t)(s->high - s->low));
#endif
#if WF_DEBUG
    for (char *p = low; p < s->high; p += 8)
        *(uint64_t *)p = 0xdbdbdbdbdbdbdbdb; /* a pointer to a local of one that waits shows at once */
#endif
}

WF_RAW_MEMORY static void put_back(weft_coro *c)
{
    char *low = c->shared->high - c->saved_bytes;
    wf_valgrind_writable(low, c->saved_bytes);
    if (wf_packed(c))
        wf_unpack(c, low);
    else
        wf_copy_live(low, c->saved, c->saved_bytes);
#if WF_ASAN
    char *to = shadow_of(low), *from = (char *)c->saved + c->saved_bytes;
    for (size_t i = 0; i < (c->saved_bytes >> shadow_scale) + 1; i++)
        to[i] = from[i];
#endif
}

/* Room for whoever is on the stack of `c`, and for `c` if others wait below it. */
static int make_all_room(struct wf_thread *t, weft_coro *c, size_t waiting, bool may_shrink)
{
    struct wf_shared *s = c->shared;
    weft_coro *there = s->occupant, *here = t->current;
    if (there && there != c) {
        char *low = there == here ? (char *)__builtin_frame_address(0) - ROUND_THE_SWITCH - 2 * WF_FRAME_BYTES
                                  : live_low(there);
        size_t bytes = (size_t)(s->high - low), packed = may_shrink ? wf_packed_prepare(there, low, bytes) : 0;
        int rc = packed > 0 ? make_small_room(there, packed) : make_room(there, bytes, may_shrink);
        if (rc != 0)
            return rc;
    }
    return wf_unlikely(waiting > 0) ? make_room(c, (size_t)(s->high - s->low), false) : 0;
}

int wf_copied_prepare(struct wf_thread *t, weft_coro *c, bool leaves)
{
    struct wf_shared *s = c->shared;
    if (!wf_copied_claim(t, s))
        return -EBUSY;
    size_t waiting = s->running - (leaves && wf_copied(t->current) && t->current->shared == s);
    int rc = make_all_room(t, c, waiting, waiting == 0);
    if (rc != 0) {
        wf_copied_unclaim(s);
        return rc;
    }
    if (wf_fresh(c)) { /* the record's fields for it are about to be used for something else */
        s->start_fn = c->start.fn;
        s->start_arg = c->start.arg;
    }
    return 0;
}

int wf_copied_prepare_return(struct wf_thread *t, weft_coro *c)
{
    /* Whoever is on the stack may be one that runs before, and got room for all it may come to need: that stays. */
    return make_all_room(t, c, c->shared->running - 1, false);
}

void *wf_copied_place(weft_coro *c, void *sp)
{
    struct wf_shared *s = c->shared;
    if (s->occupant != c) {
        if (s->occupant)
            save(s->occupant);
        else
            wf_asan_unpoison(s->low, (size_t)(s->high - s->low)); /* the frames of one that has ended */
        s->occupant = c;
        if (sp)
            put_back(c);
    }
    return wf_likely(sp) ? sp : wf_coro_frame(c, s->high, s->start_fn, s->start_arg);
}

/* Runs on the passage: the stack that was left is complete now, its registers on it, and can be replaced. */
WF_RAW_MEMORY struct wf_landing wf_copied_land(void *shared)
{
    struct wf_trip *trip = &((struct wf_shared *)shared)->trip;
    *trip->save = trip->left_sp;
    void *sp = wf_copied_place(trip->place, trip->to_sp);
    if (trip->slot)
        *trip->slot = trip->in;
    return (struct wf_landing){sp, trip->pass};
}

size_t wf_copied_used(const weft_coro *c)
{
    bool rests_there = c->shared->occupant == c && (wf_mode(c) & WF_STATE) == WEFT_CORO_READY;
    size_t live = rests_there ? (size_t)(c->shared->high - live_low(c)) : 0;
    return live > c->deepest ? live : c->deepest;
}

void wf_copied_trim(weft_coro *c)
{
    if (c->shared->running > 1)
        return;
    wf_sys_free(c->saved);
    c->saved = NULL;
    c->room = 0;
}

void wf_copied_start(weft_coro *c, weft_fn *fn, void *arg)
{
    c->sp = NULL;
    c->start.fn = fn;
    c->start.arg = arg;
}

void wf_copied_free(weft_coro *c)
{
    struct wf_shared *s = c->shared;
    if (s->occupant == c) {
        s->occupant = NULL;
        wf_asan_unpoison(s->low, (size_t)(s->high - s->low));
    }
    wf_packed_drop(c);
    wf_sys_free(c->saved);
}
