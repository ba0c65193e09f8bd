/*
 * coro/notes.h: what a switch tells the sanitizers and the debug checks before it leaves and after it arrives. Empty in
 * plain builds, whose switches leave by a tail jump and run nothing on arrival.
 *
 *      leave ── switch ──▶ arrive (or, the first time, wf_noted_begin)
 */
#ifndef WF_CORO_NOTES_H
#define WF_CORO_NOTES_H

#include "coro/copied.h"
#include "coro/coro.h"

#if WF_NOTED
/* The calling stack is about to be left for that of `to` (NULL: the thread's own); `done`: for good. */
static inline void wf_note_leave(struct wf_thread *t, weft_coro *from, weft_coro *to, bool done, void **fake_stack)
{
    (void)from, (void)to, (void)done, (void)fake_stack;
#if WF_ASAN
    t->left_own_stack = from == NULL;
    const void *low = to ? wf_coro_low(to) : t->own_stack;
    size_t bytes = to ? (size_t)(wf_coro_high(to) - wf_coro_low(to)) : t->own_stack_bytes;
    __sanitizer_start_switch_fiber(done ? NULL : fake_stack, low, bytes);
#endif
#if WF_TSAN
    if (!from)
        t->own_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to ? to->fiber : t->own_fiber, 0);
#endif
    (void)t;
}

/* `c` gives up control: whoever arrives next releases it. */
static inline void wf_note_left(struct wf_thread *t, weft_coro *c)
{
    t->left = c;
}

/* The calling stack runs again. */
static inline void wf_note_arrive(void *fake_stack)
{
    struct wf_thread *t = wf_thread_now();
    (void)fake_stack;
#if WF_ASAN
    const void *low;
    size_t bytes;
    __sanitizer_finish_switch_fiber(fake_stack, &low, &bytes);
    if (t->left_own_stack) {
        t->own_stack = low;
        t->own_stack_bytes = bytes;
    }
#endif
    if (t->left) { /* only now may another thread have it: we are off its stack */
        if (t->left->shared)
            wf_copied_unclaim(t->left->shared);
        __atomic_store_n(&t->left->runner, NULL, __ATOMIC_RELEASE); /* pairs with wf_claim */
        t->left = NULL;
    }
}

/* Exactly one thread may run a coroutine: takes it, or says that somebody has it. */
static inline bool wf_claim(struct wf_thread *t, weft_coro *c)
{
    struct wf_thread *nobody = NULL;
    return __atomic_compare_exchange_n(&c->runner, &nobody, t, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void wf_unclaim(weft_coro *c)
{
    __atomic_store_n(&c->runner, NULL, __ATOMIC_RELEASE); /* pairs with wf_claim */
}

static inline void wf_note_new(weft_coro *c)
{
    c->runner = NULL;
#if WF_TSAN
    c->fiber = __tsan_create_fiber(0);
#endif
}

static inline void wf_note_free(weft_coro *c)
{
#if WF_TSAN
    __tsan_destroy_fiber(c->fiber);
#endif
    (void)c;
}
#else
static inline void wf_note_left(struct wf_thread *t, weft_coro *c)
{
    (void)t, (void)c;
}

static inline bool wf_claim(struct wf_thread *t, weft_coro *c)
{
    (void)t, (void)c;
    return true;
}

static inline void wf_unclaim(weft_coro *c)
{
    (void)c;
}

static inline void wf_note_new(weft_coro *c)
{
    (void)c;
}

static inline void wf_note_free(weft_coro *c)
{
    (void)c;
}
#endif

#endif
