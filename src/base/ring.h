/*
 * base/ring.h: a bounded queue of pointers with one owner that pushes and pops, from which anybody may steal.
 *
 *      slots   . . . [head, tail) are the items, oldest first . . .     index i lies in slots[i % WF_RING_SIZE]
 *      push    the owner, at tail: a store to the slot, then a release store to tail; no locked instruction
 *      pop     the owner, at head: one compare-and-swap
 *      spill   the owner, at head: half of a full ring, by one compare-and-swap
 *      steal   any thread that owns a ring of its own, at head: half of what is there, by one compare-and-swap
 *
 * First in, first out, whoever takes. NULL is no item. Only the owner writes tail and slots; head is only ever changed
 * by compare-and-swap, from h to h + n, and whoever does that has taken the items [h, h + n).
 *
 * Why it is right.
 *
 * 1. A thief sees the slots that tail promises. The owner's release store of tail comes after the stores to the slots
 *    (and to what the items point to); the thief's acquire load of tail pairs with it.
 *
 * 2. An item is taken once. Everybody reads the slots BEFORE the compare-and-swap, and believes what was read only if
 *    it succeeds. Read after it, a slot might hold a newer item: once head has moved, the owner may fill the slot
 *    again. Read before it, that cannot be: the owner fills the slot of index h again (as index h + WF_RING_SIZE) only
 *    when its acquire load has shown it a head beyond h. Head leaves h once, so if our compare-and-swap succeeded then
 *    it was ours that made it leave, and the head that the owner saw was ours or made from ours. Its release side pairs
 *    with that acquire load: our read of the slot happens before the owner's store to it, and cannot have seen it. If
 *    it failed, what we read may be anything, and is forgotten. The slots are atomic, though relaxed, because such a
 *    read may meet the store.
 *
 * 3. tail - head never looks negative to those who load head first, acquiring. Whoever moved head to h had seen a tail
 *    of h or more; it is handed on by the release side of that compare-and-swap, so the later load of tail sees that
 *    one or a newer one. For wf_ring_count that is the difference between none and full; it only saves a thief a second
 *    look. The difference may look too large, if many were taken and pushed between the two loads: a thief that finds
 *    more than WF_RING_SIZE starts again, and on a smaller lie its compare-and-swap fails.
 *
 * 4. The owner may see an old head. Then the ring looks fuller than it is to push (it says full) and the
 *    compare-and-swap of pop fails and brings the new one. All of head's changes are read-modify-writes, so one acquire
 *    of any of them pairs with all before it.
 *
 * 5. The counters wrap at 2^32, of which WF_RING_SIZE is a divisor: i % WF_RING_SIZE goes on evenly, and all else are
 *    differences of two counters that are at most WF_RING_SIZE apart. What wrapping could cost is that head leaves h
 *    and comes back to it between a thief's load and its compare-and-swap: exactly 2^32 items, or a multiple, would
 *    have to go through one ring while that thread stands between two instructions, some 40 s at 100 million a second,
 *    and then the thread would have to go on at the one item of 2^32. We take that.
 */
#ifndef WF_BASE_RING_H
#define WF_BASE_RING_H

#include "base/atomic.h"

/* A power of two. Tests that explore make it small. */
#ifndef WF_RING_SIZE
#define WF_RING_SIZE 256u
#endif
_Static_assert((WF_RING_SIZE & (WF_RING_SIZE - 1)) == 0, "the counters wrap");

/*
 * Zeroed memory, aligned to a cache line, is an empty ring. Both counters are on one line: it is all that the owner has
 * to fetch back when somebody has looked or stolen.
 */
struct wf_ring {
    uint32_t head; /* atomic: released by all who take, pairs with the acquire in push, steal and count */
    uint32_t tail; /* owner: the ring's. atomic: released by push and steal, pairs with the acquire in steal */
    void *slots[WF_RING_SIZE]; /* owner: the ring's. atomic: relaxed, see 2 */
} __attribute__((aligned(64)));

static inline void **wf_ring_slot(struct wf_ring *r, uint32_t index)
{
    return &r->slots[index % WF_RING_SIZE];
}

/* How many items there are. Anybody may ask; to others than the owner it is what was true a moment ago. */
static inline uint32_t wf_ring_count(const struct wf_ring *r)
{
    uint32_t head = wf_load_acquire(&r->head); /* pairs with whoever took last; before tail, see 3 */
    uint32_t count = wf_load(&r->tail) - head;
    return count < WF_RING_SIZE ? count : WF_RING_SIZE;
}

/* The owner's: false if the ring is full. */
static inline bool wf_ring_push(struct wf_ring *r, void *item)
{
    uint32_t tail = wf_load(&r->tail);
    if (tail - wf_load_acquire(&r->head) == WF_RING_SIZE) /* pairs with whoever took the slot's last item, see 2 */
        return false;
    wf_store(wf_ring_slot(r, tail), item);
    wf_store_release(&r->tail, tail + 1); /* pairs with wf_ring_steal's load of tail */
    return true;
}

/* The owner's: the oldest item, or NULL. Relaxed loads do: the slots are its own, and an old head fails the CAS. */
static inline void *wf_ring_pop(struct wf_ring *r)
{
    uint32_t head = wf_load(&r->head), tail = wf_load(&r->tail);
    while (head != tail) {
        void *item = wf_load(wf_ring_slot(r, head));
        if (wf_cas(&r->head, &head, head + 1)) /* release: pairs with wf_ring_push and wf_ring_steal's loads of head */
            return item;
    }
    return NULL;
}

/*
 * The owner's, when push found the ring full: moves the older half into out[WF_RING_SIZE / 2], oldest first, and
 * returns how many that were; 0 if thieves have made room meanwhile. Either way there is room for a push then.
 */
static inline uint32_t wf_ring_spill(struct wf_ring *r, void **out)
{
    const uint32_t half = WF_RING_SIZE / 2;
    uint32_t head = wf_load(&r->head); /* relaxed, as in wf_ring_pop */
    if (wf_load(&r->tail) - head != WF_RING_SIZE)
        return 0;
    for (uint32_t i = 0; i < half; i++)
        out[i] = wf_load(wf_ring_slot(r, head + i));
    return wf_cas(&r->head, &head, head + half) ? half : 0; /* release: as in wf_ring_pop */
}

/*
 * For the owner of `into`: takes half of the items of another ring, one at least and no more than fit. Returns the
 * oldest and leaves the rest in `into`; NULL if there is nothing to steal. An `into` that is empty before keeps the
 * order.
 *
 * The rest is written to `into` before the compare-and-swap, beyond its tail: if that fails, nobody has seen it.
 */
static inline void *wf_ring_steal(struct wf_ring *from, struct wf_ring *into)
{
    uint32_t tail = wf_load(&into->tail);
    uint32_t room = WF_RING_SIZE - (tail - wf_load_acquire(&into->head)); /* as in wf_ring_push */
    uint32_t head = wf_load_acquire(&from->head);                         /* pairs with whoever took last; see 3 */
    for (;;) {
        uint32_t there = wf_load_acquire(&from->tail) - head; /* pairs with wf_ring_push */
        if (there == 0)
            return NULL;
        if (there > WF_RING_SIZE) {
            head = wf_load_acquire(&from->head);
            continue;
        }
        uint32_t take = there - there / 2;
        if (take > room + 1)
            take = room + 1;
        void *first = wf_load(wf_ring_slot(from, head));
        for (uint32_t i = 1; i < take; i++)
            wf_store(wf_ring_slot(into, tail + i - 1), wf_load(wf_ring_slot(from, head + i)));
        if (!wf_cas(&from->head, &head, head + take)) /* release: pairs with the owner's load of head in wf_ring_push */
            continue;
        if (take > 1)
            wf_store_release(&into->tail, tail + take - 1); /* as in wf_ring_push */
        return first;
    }
}

#endif
