/*
 * time/wheel.h: the entries that wait for a time, by the million. A pure data structure: no clock, no lock, no memory
 * of its own; times are ns of CLOCK_MONOTONIC and come from the caller. One thread at a time may use a wheel.
 *
 * Adding and deleting are O(1). An entry is never handed out before its time, to the ns, and never later than the first
 * look at or after its time. wf_wheel_next() says when to look: at the earliest entry, to the ns, so that an idle owner
 * sleeps through. Only a deleted entry may leave its time behind (see there).
 */
#ifndef WF_TIME_WHEEL_H
#define WF_TIME_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Part of whatever waits. Zeroed, it is not armed. Only the wheel touches it while it is armed. */
struct wf_timer {
    struct wf_timer *next;  /* in its slot, or in a batch of wf_wheel_expire; NULL: it is the last */
    struct wf_timer **link; /* what points to it: the slot's `first` or another's `next`; NULL: not armed */
    int64_t when;           /* const while armed */
    uint16_t slot;          /* armed: where it is */
    uint16_t kind;          /* its owner's; there is room for it */
    uint32_t mark;          /* its owner's */
};

enum {
    WF_WHEEL_TICK_BITS = 16, /* a slot of the lowest level is 2^16 ns, 65 us, wide */
    WF_WHEEL_DIGIT_BITS = 6,
    WF_WHEEL_SLOTS = 1 << WF_WHEEL_DIGIT_BITS, /* of a level */
    WF_WHEEL_LEVELS = 8,                       /* the 47 bits that a tick has */
    WF_WHEEL_TOP_SLOTS = 32,                   /* the highest digit has 5 bits left */
};

struct wf_wheel_slot {
    struct wf_timer *first; /* in the order of adding; NULL: empty */
    struct wf_timer **end;  /* the last one's `next`; NULL: empty */
    int64_t earliest;       /* no entry of this slot is before it; some time ago one was at it */
};

/* 11,608 bytes. All fields: owner: whoever may use the wheel. */
struct wf_wheel {
    uint64_t reached;                   /* the tick of the last look */
    size_t count;                       /* entries */
    uint32_t levels;                    /* bit: this level has an entry */
    uint64_t occupied[WF_WHEEL_LEVELS]; /* bit: this slot has an entry */
    struct wf_wheel_slot slots[(WF_WHEEL_LEVELS - 1) * WF_WHEEL_SLOTS + WF_WHEEL_TOP_SLOTS];
};

void wf_wheel_init(struct wf_wheel *w, int64_t now);

/* Arms `t`, which is not armed. A time in the past is due at the next look. */
void wf_wheel_add(struct wf_wheel *w, struct wf_timer *t, int64_t when);

/* Takes `t` out of the wheel that it is in. False: it was not armed. */
bool wf_wheel_del(struct wf_wheel *w, struct wf_timer *t);

/*
 * Takes out every entry with when <= now: a list by `next`, NULL if there is none. They are no longer armed, so that
 * wf_wheel_del() of one is false and leaves it in the list: to drop it from there is the caller's affair. One that is
 * added again gets another `next`: walk past it first.
 *
 * The list is in the order of their ticks (65 us; a time before the last look counts as that look's tick). Those of one
 * tick, and so those with an equal `when`, are in the order in which they were added. On its way from the level that it
 * was added to, an entry is moved once a level at most; the look that opens a slot of a high level moves all that is in
 * it. A `now` that goes back is no progress, but what is due by it is found.
 */
struct wf_timer *wf_wheel_expire(struct wf_wheel *w, int64_t now);

/*
 * When to look again: INT64_MAX if the wheel is empty, else the time of the earliest entry; later than the `now` of the
 * last look if nothing was added since. It is too early only when the earliest entry of a slot was deleted and others
 * stayed, and the look at that time puts it right: one look in vain, never more than one a level on an entry's way down
 * (three or four for a sleep of 10 s), and none if nothing is deleted.
 */
static inline int64_t wf_wheel_next(const struct wf_wheel *w);

static inline bool wf_timer_armed(const struct wf_timer *t)
{
    return t->link != NULL;
}

/* The slot that the earliest entry is in; the wheel is not empty. */
static inline unsigned wf_wheel_first_slot(const struct wf_wheel *w)
{
    unsigned level = (unsigned)__builtin_ctz(w->levels);
    return level * WF_WHEEL_SLOTS + (unsigned)__builtin_ctzll(w->occupied[level]);
}

static inline int64_t wf_wheel_next(const struct wf_wheel *w)
{
    return w->levels == 0 ? INT64_MAX : w->slots[wf_wheel_first_slot(w)].earliest;
}

static inline size_t wf_wheel_count(const struct wf_wheel *w)
{
    return w->count;
}

#endif
