/*
 * time/wheel.c: a hierarchy of slots; see wheel.h.
 *
 * A tick is a number of digits to the base 64, and level L has a slot for each value of digit L. An entry is in the
 * level of the highest digit in which its tick and `reached` differ, in the slot of that digit of its own; in level 0
 * if they are equal:
 *
 *      reached         .. 5 17 40
 *      when's tick     .. 5 17 52      level 0, slot 52
 *      when's tick     .. 5 23 ..      level 1, slot 23
 *      when's tick     .. 9 .. ..      level 2, slot 9
 *
 * So every entry of a level is before every entry of the levels above it, none is in a slot before that of `reached`,
 * and the first slot of the lowest level that has one is where the earliest entry is: two bit scans. Entries with an
 * equal `when` are always in the same slot, in the order of adding. When `reached` comes to the beginning of a slot of
 * a higher level, all levels below are empty, and its entries are filed again, each further down.
 */
#include "time/wheel.h"

_Static_assert(sizeof(struct wf_timer) <= 32, "two to a cache line");
_Static_assert(sizeof(struct wf_wheel) <= 12288, "a part of every worker");
_Static_assert(offsetof(struct wf_timer, next) == 0, "see before()");
_Static_assert(WF_WHEEL_TOP_SLOTS == 1 << (63 - WF_WHEEL_TICK_BITS - (WF_WHEEL_LEVELS - 1) * WF_WHEEL_DIGIT_BITS),
               "the levels reach to INT64_MAX");

static uint64_t tick_of(int64_t ns)
{
    return ns > 0 ? (uint64_t)ns >> WF_WHEEL_TICK_BITS : 0;
}

static unsigned level_of_slot(unsigned slot)
{
    return slot / WF_WHEEL_SLOTS;
}

/* The beginning of a slot that is not before `reached`. */
static uint64_t slot_tick(const struct wf_wheel *w, unsigned slot)
{
    unsigned digits_below = level_of_slot(slot) * WF_WHEEL_DIGIT_BITS;
    uint64_t above = w->reached >> digits_below >> WF_WHEEL_DIGIT_BITS;
    return (above * WF_WHEEL_SLOTS + slot % WF_WHEEL_SLOTS) << digits_below;
}

static void set_occupied(struct wf_wheel *w, unsigned slot)
{
    unsigned level = level_of_slot(slot);
    w->occupied[level] |= (uint64_t)1 << slot % WF_WHEEL_SLOTS;
    w->levels |= 1u << level;
}

static void set_empty(struct wf_wheel *w, unsigned slot)
{
    unsigned level = level_of_slot(slot);
    w->slots[slot].first = NULL;
    w->slots[slot].end = NULL;
    w->occupied[level] &= ~((uint64_t)1 << slot % WF_WHEEL_SLOTS);
    if (w->occupied[level] == 0)
        w->levels &= ~(1u << level);
}

/* Nothing is read but the slot: of many entries the last one is cold, and a store to it holds nobody up. */
static inline void append(struct wf_wheel *w, unsigned slot, struct wf_timer *t)
{
    struct wf_wheel_slot *s = &w->slots[slot];
    struct wf_timer **end = s->end;
    int64_t earliest = s->earliest;
    t->slot = (uint16_t)slot;
    if (!end) {
        end = &s->first;
        earliest = t->when;
        set_occupied(w, slot);
    }
    t->next = NULL;
    t->link = end;
    *end = t;
    s->end = &t->next;
    s->earliest = t->when < earliest ? t->when : earliest; /* an unpredictable branch otherwise */
}

/* Puts an entry where its time and `reached` want it. */
static inline __attribute__((always_inline)) void file(struct wf_wheel *w, struct wf_timer *t)
{
    uint64_t tick = tick_of(t->when);
    if (tick < w->reached)
        tick = w->reached;
    unsigned highest_bit = 63 - (unsigned)__builtin_clzll((tick ^ w->reached) | 1);
    unsigned level = highest_bit / WF_WHEEL_DIGIT_BITS;
    unsigned digit = (unsigned)(tick >> level * WF_WHEEL_DIGIT_BITS) % WF_WHEEL_SLOTS;
    append(w, level * WF_WHEEL_SLOTS + digit, t);
}

void wf_wheel_init(struct wf_wheel *w, int64_t now)
{
    *w = (struct wf_wheel){.reached = tick_of(now)};
}

void wf_wheel_add(struct wf_wheel *w, struct wf_timer *t, int64_t when)
{
    t->when = when;
    file(w, t);
    w->count++;
}

bool wf_wheel_del(struct wf_wheel *w, struct wf_timer *t)
{
    if (!wf_timer_armed(t))
        return false;
    struct wf_timer *next = t->next, **link = t->link;
    w->count--;
    *link = next;
    if (next)
        next->link = link;
    else if (link == &w->slots[t->slot].first)
        set_empty(w, t->slot);
    else
        w->slots[t->slot].end = link;
    t->link = NULL;
    return true;
}

/* Empties a slot: its entries as a list that ends in NULL. */
static struct wf_timer *take_slot(struct wf_wheel *w, unsigned slot)
{
    struct wf_timer *first = w->slots[slot].first;
    set_empty(w, slot);
    return first;
}

/* The entry before one that is not the first of its slot, or the last of a slot: `next` is what begins an entry. */
static struct wf_timer *before(struct wf_timer **link)
{
    return (struct wf_timer *)(void *)link;
}

/* `reached` comes to the beginning of this slot: its entries go further down. */
static void cascade(struct wf_wheel *w, unsigned slot)
{
    w->reached = slot_tick(w, slot);
    struct wf_timer *far = before(w->slots[slot].end);
    for (struct wf_timer *t = take_slot(w, slot), *next; t; t = next) {
        next = t->next;
        /* Every entry is a cache miss that the next one waits for. A second walk, from the far end until the two meet,
         * brings its half into the cache meanwhile. */
        far = far && far != t && far != next ? before(far->link) : NULL;
        __builtin_prefetch(far);
        file(w, t);
    }
}

/* The tick of this slot of level 0 has passed: all of it goes to the end of the batch. Returns the new end. */
static struct wf_timer **take_all(struct wf_wheel *w, unsigned slot, struct wf_timer **end)
{
    for (*end = take_slot(w, slot); *end; end = &(*end)->next) {
        (*end)->link = NULL;
        w->count--;
    }
    return end;
}

/* The tick of this slot of level 0 is under way: what is due goes to the end of the batch. Returns the new end. */
static struct wf_timer **take_due(struct wf_wheel *w, unsigned slot, int64_t now, struct wf_timer **end)
{
    int64_t earliest = INT64_MAX;
    if (w->slots[slot].earliest > now)
        return end;
    for (struct wf_timer *t = w->slots[slot].first, *next; t; t = next) {
        next = t->next;
        if (t->when <= now) {
            wf_wheel_del(w, t);
            *end = t;
            end = &t->next;
        } else if (t->when < earliest) {
            earliest = t->when;
        }
    }
    w->slots[slot].earliest = earliest;
    return end;
}

struct wf_timer *wf_wheel_expire(struct wf_wheel *w, int64_t now)
{
    struct wf_timer *batch = NULL, **end = &batch;
    uint64_t tick = tick_of(now);
    if (tick < w->reached)
        tick = w->reached; /* the clock went back; what was added late is in this tick */
    while (w->levels != 0) {
        unsigned slot = wf_wheel_first_slot(w);
        uint64_t begins = slot_tick(w, slot);
        if (begins > tick)
            break;
        if (level_of_slot(slot) > 0) {
            cascade(w, slot);
            continue;
        }
        if (begins == tick) {
            end = take_due(w, slot, now, end);
            break;
        }
        end = take_all(w, slot, end);
    }
    *end = NULL;
    w->reached = tick;
    return batch;
}
