/*
 * coro/copied.h: coroutines on shared stacks: copied out when another one needs the stack, and only then; copied back
 * before they run. Everything that can fail happens in wf_copied_prepare, before a switch changes anything.
 */
#ifndef WF_CORO_COPIED_H
#define WF_CORO_COPIED_H

#include "coro/coro.h"

/*
 * Makes sure that switching to `c` (on a shared stack, READY) cannot fail: memory to save whoever is on its stack, and
 * to save `c` itself when it gives way to one that waits below it. `leaves`: the calling coroutine is transferring.
 * 0, -EBUSY (another thread uses the stack), -ENOMEM.
 */
int wf_copied_prepare(struct wf_thread *t, weft_coro *c, bool leaves);

/* The same for one that waits, RUNNING, below a coroutine that is switched to: for the way back. 0, -ENOMEM. */
int wf_copied_prepare_return(struct wf_thread *t, weft_coro *c);

/* Room may be larger than needed by so much; more is given back. */
#define WF_ROOM_SPARE 4096u

static inline bool wf_room_fits(const weft_coro *c, size_t bytes, bool may_shrink)
{
    return may_shrink ? c->room - (uint32_t)bytes <= WF_ROOM_SPARE : c->room >= bytes; /* too small wraps round */
}

/*
 * A plain copy of a multiple of 16 bytes between addresses that are aligned to 16, for memory that no sanitizer should
 * look at. Short: inline beats a call. Aligned, so that whoever then reads a local finds it in one store of this.
 */
WF_RAW_MEMORY static inline void wf_copy_live(char *to, const char *from, size_t bytes)
{
    typedef uint64_t pair __attribute__((vector_size(16), may_alias));
    const char *end = from + bytes;
    for (; (size_t)(end - from) >= 64; from += 64, to += 64) {
        pair a = *(const pair *)from, b = *(const pair *)(from + 16);
        pair c = *(const pair *)(from + 32), d = *(const pair *)(from + 48);
        *(pair *)to = a;
        *(pair *)(to + 16) = b;
        *(pair *)(to + 32) = c;
        *(pair *)(to + 48) = d;
        __asm__ volatile("" : : : "memory"); /* stays a loop, never a call of memcpy */
    }
    for (; from != end; from += 16, to += 16) {
        *(pair *)to = *(const pair *)from;
        __asm__ volatile("" : : : "memory");
    }
}

/*
 * The common case of prepare and place in one: nobody of its stack is RUNNING, it was resumed before, and there is room
 * to save whoever is on the stack. False: nothing was done, take the general way. Builds without notes only.
 */
static inline bool wf_copied_place_quickly(weft_coro *c)
{
    struct wf_shared *s = c->shared;
    weft_coro *there = s->occupant;
    if (s->running > 0 || !c->sp)
        return false;
    if (there == c)
        return true;
    if (there) {
        char *low = wf_live_low(there->sp);
        size_t bytes = (size_t)(s->high - low);
        if (wf_unlikely(!wf_room_fits(there, bytes, true)))
            return false;
        wf_copy_live(there->saved, low, bytes);
        there->saved_bytes = (uint32_t)bytes;
        if (there->deepest < bytes)
            there->deepest = (uint32_t)bytes;
    }
    s->occupant = c;
    wf_valgrind_writable(s->high - c->saved_bytes, c->saved_bytes);
    wf_copy_live(s->high - c->saved_bytes, c->saved, c->saved_bytes);
    return true;
}

/*
 * One thread at a time uses a shared stack. Builds with notes take it by a compare-and-swap, and give it up on arrival,
 * off the stack; plain ones look. False: another thread has it.
 */
static inline bool wf_copied_claim(struct wf_thread *t, struct wf_shared *s)
{
#if WF_NOTED
    struct wf_thread *has = NULL;
    return __atomic_compare_exchange_n(&s->thread, &has, t, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED) || has == t;
#else
    return s->running == 0 || __atomic_load_n(&s->thread, __ATOMIC_RELAXED) == t;
#endif
}

/* Nobody of the stack runs: gives it up. Pairs with wf_copied_claim. */
static inline void wf_copied_unclaim(struct wf_shared *s)
{
    if (s->running == 0)
        __atomic_store_n(&s->thread, NULL, __ATOMIC_RELEASE);
}

/* `c` becomes RUNNING. */
static inline void wf_copied_runs(struct wf_thread *t, weft_coro *c)
{
    struct wf_shared *s = c->shared;
    s->running++;
    __atomic_store_n(&s->thread, t, __ATOMIC_RELAXED);
}

/* `c` is no longer RUNNING. */
static inline void wf_copied_rests(weft_coro *c, bool done)
{
    struct wf_shared *s = c->shared;
    s->running--;
    if (!WF_NOTED)
        wf_copied_unclaim(s); /* else on arrival: see wf_note_arrive */
    if (done)
        s->occupant = NULL;
}

/* Puts `c` on its stack if it is not there; the caller stands elsewhere. Returns where it goes on: sp, or its start. */
void *wf_copied_place(weft_coro *c, void *sp);

/* The same from the very stack that is replaced: for wf_switch_through, with the struct wf_shared whose trip says how. */
struct wf_landing wf_copied_land(void *shared);

/* The most bytes that were live when it was copied out, or are live on its stack now. */
size_t wf_copied_used(const weft_coro *c);

/* c runs. Frees the room of its copy, unless c must be able to give way to a coroutine that waits below it. */
void wf_copied_trim(weft_coro *c);

/* Made or reset: what to begin with. */
void wf_copied_start(weft_coro *c, weft_fn *fn, void *arg);

/* Freed while suspended: leaves its stack. The caller has claimed that. */
void wf_copied_free(weft_coro *c);

#endif
