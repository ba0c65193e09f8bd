/*
 * base/ring.h: a queue of pointers that grows. Its one owner pushes and pops; any owner of another ring may steal.
 *
 *      items   . . . [head, tail) are there, oldest first . . .         index i lies in items[i % size] of the buffer
 *      push    the owner, at tail: a store to the buffer, then a release store to tail; no locked instruction
 *      pop     the owner, at head: one compare-and-swap
 *      grow    the owner, when push found the ring full: copies the items into a buffer four times as large
 *      shrink  the owner, when the ring is empty: back to the first buffer
 *      steal   any thread that owns a ring of its own, at head: half of what is there, by one compare-and-swap
 *
 * First in, first out, whoever takes. NULL is no item. Beside each item is a note, a number for the owner alone. Only
 * the owner writes tail, the buffers and which of them is in use; head is only ever changed by compare-and-swap, from h
 * to h + n, and whoever does that has taken the items [h, h + n).
 *
 * Why it is right.
 *
 * 1. A thief sees the items that tail promises. The owner's release store of tail comes after the stores to the buffer
 *    (and to what the items point to); the thief's acquire load of tail pairs with it.
 *
 * 2. An item is taken once. Everybody reads the items BEFORE the compare-and-swap, and believes what was read only if
 *    it succeeds. Read after it, a place might hold a newer item: once head has moved, the owner may fill the place
 *    again. Read before it, that cannot be: the owner fills the place of index h again (as index h + size) only
 *    when its acquire load has shown it a head beyond h. Head leaves h once, so if our compare-and-swap succeeded then
 *    it was ours that made it leave, and the head that the owner saw was ours or made from ours. Its release side pairs
 *    with that acquire load: our read of the place happens before the owner's store to it, and cannot have seen it. If
 *    it failed, what we read may be anything, and is forgotten. The items are atomic, though relaxed, because such a
 *    read may meet the store.
 *
 * 3. tail - head never looks negative to those who load head first, acquiring. Whoever moved head to h had seen a tail
 *    of h or more; it is handed on by the release side of that compare-and-swap, so the later load of tail sees that
 *    one or a newer one. The difference may look too large, if many were taken and pushed between the two loads: then
 *    a thief's compare-and-swap fails.
 *
 * 4. The owner may see an old head. Then the ring looks fuller than it is to push (it says full) and the
 *    compare-and-swap of pop fails and brings the new one. All of head's changes are read-modify-writes, so one acquire
 *    of any of them pairs with all before it.
 *
 * 5. A thief reads the buffer that has its items. It loads head, then tail, then the buffer, each acquiring. That
 *    buffer was in use when that tail was stored, or came into use later. The owner writes all items to a buffer before
 *    the buffer comes into use (a release store), and it writes there whatever it pushes while the buffer is in use. So
 *    the buffer has [h, tail), unless head was beyond h when the buffer came into use: then the compare-and-swap fails.
 *
 * 6. A buffer that is out of use stays as it is while a thief may still believe it. The owner writes to it again, or
 *    gives its memory back, only after it has seen the ring empty since: head has left every h that a thief may have
 *    read with that buffer, and the rest is as in 2. No buffer is unmapped before the ring is freed, so the owner never
 *    waits for thieves; shrink gives back only the pages.
 *
 * 7. The counters wrap at 2^32, of which every size is a divisor: i % size goes on evenly, and all else are
 *    differences of two counters that are at most 2^30 apart. What wrapping could cost is that head leaves h
 *    and comes back to it between a thief's load and its compare-and-swap: exactly 2^32 items, or a multiple, would
 *    have to go through one ring while that thread stands between two instructions, some 40 s at 100 million a second,
 *    and then the thread would have to go on at the one item of 2^32. We take that.
 */
#ifndef WF_BASE_RING_H
#define WF_BASE_RING_H

#include "base/atomic.h"
#include "base/compiler.h"

/* Items of the first buffer, a power of two. Tests that explore make it small. */
#ifndef WF_RING_SIZE
#define WF_RING_SIZE 256u
#endif
_Static_assert((WF_RING_SIZE & (WF_RING_SIZE - 1)) == 0, "the counters wrap");

enum { WF_RING_BUFFERS = 12 }; /* each four times as large as the one before: 2^30 items in the last */
_Static_assert(WF_RING_SIZE <= UINT32_C(1) << (30 - 2 * (WF_RING_BUFFERS - 1)), "differences of counters");

/* const once it has been in use, except for the contents of the arrays. */
struct wf_ring_buffer {
    void **items;    /* owner: the ring's. atomic: relaxed, see 2. NULL: not made yet */
    uint32_t *notes; /* owner: the ring's */
    uint32_t mask;   /* the size - 1 */
};

/*
 * A ring must not be moved after wf_ring_init. Both counters are on one cache line: this line is all that the owner has
 * to fetch back when another thread has looked or stolen.
 */
struct wf_ring {
    uint32_t head; /* atomic: released by all who take, pairs with the acquire in push, shrink, steal and count */
    uint32_t tail; /* owner: the ring's. atomic: released by push and steal, pairs with the acquire in steal */

    struct wf_ring_buffer *buffer
        __attribute__((aligned(64)));               /* in use. owner: the ring's. atomic: released by grow and
                                                                 * shrink, pairs with the acquire in steal */
    struct wf_ring_buffer buffers[WF_RING_BUFFERS]; /* owner: the ring's; those in use so far: anybody's */
    void *first_items[WF_RING_SIZE];
    uint32_t first_notes[WF_RING_SIZE];
} __attribute__((aligned(64)));

/* An empty ring. */
void wf_ring_init(struct wf_ring *r);

/* Gives back the memory of its larger buffers. The caller knows that no thread uses the ring any more. */
void wf_ring_free(struct wf_ring *r);

/* The owner's, when push found the ring full: makes room. False: no memory, and nothing has changed. */
WF_COLD bool wf_ring_grow(struct wf_ring *r);

/* The owner's: if the ring is empty, gives back the memory of its larger buffers. */
void wf_ring_shrink(struct wf_ring *r);

/* In the child of a fork, where the caller is alone: forgets all items. */
void wf_ring_forget(struct wf_ring *r);

/* The owner's: whether wf_ring_shrink would have something to give back once the ring is empty. */
static inline bool wf_ring_has_grown(const struct wf_ring *r)
{
    return wf_load(&r->buffer) != r->buffers;
}

static inline void **wf_ring_item(const struct wf_ring_buffer *b, uint32_t index)
{
    return &b->items[index & b->mask];
}

/* The owner's: the note of an item that is there. */
static inline uint32_t wf_ring_note(const struct wf_ring *r, uint32_t index)
{
    const struct wf_ring_buffer *b = wf_load(&r->buffer);
    return b->notes[index & b->mask];
}

/* How many items there are. Anybody may ask; to others than the owner it is what was true a moment ago. */
static inline uint32_t wf_ring_count(const struct wf_ring *r)
{
    uint32_t head = wf_load_acquire(&r->head); /* pairs with whoever took last; before tail, see 3 */
    return wf_load(&r->tail) - head;
}

/* The owner's: false if the ring is full. */
static inline bool wf_ring_push(struct wf_ring *r, void *item, uint32_t note)
{
    const struct wf_ring_buffer *b = wf_load(&r->buffer);
    uint32_t tail = wf_load(&r->tail);
    if (wf_unlikely(tail - wf_load_acquire(&r->head) >
                    b->mask)) /* pairs with whoever took the last item there, see 2 */
        return false;
    wf_store(wf_ring_item(b, tail), item);
    b->notes[tail & b->mask] = note;
    wf_store_release(&r->tail, tail + 1); /* pairs with wf_ring_steal's load of tail */
    return true;
}

/* The owner's: the item of index `head`, which is below tail, if that is the oldest; NULL: others have taken it. */
static inline void *wf_ring_pop_at(struct wf_ring *r, uint32_t head)
{
    const struct wf_ring_buffer *b = wf_load(&r->buffer);
    void *item = wf_load(wf_ring_item(b, head));
    return wf_cas(&r->head, &head, head + 1) ? item
                                             : NULL; /* release: pairs with wf_ring_push and wf_ring_steal's loads */
}

/* The owner's: the oldest item, or NULL. Relaxed loads do: the buffer is its own, and an old head fails the CAS. */
static inline void *wf_ring_pop(struct wf_ring *r)
{
    uint32_t head, tail = wf_load(&r->tail);
    while ((head = wf_load(&r->head)) != tail) {
        void *item = wf_ring_pop_at(r, head);
        if (item)
            return item;
    }
    return NULL;
}

/*
 * For the owner of `into`: takes half of the items of another ring, one at least and no more than fit. It takes no more
 * than half of the first buffer's size: if a copy lasts longer than the time between two pops, the compare-and-swap
 * always fails. Returns the oldest item, and leaves the rest in `into`, with `note` and the numbers after it as their
 * notes; NULL if there is nothing to steal. If `into` is empty before, it keeps the order.
 *
 * The rest is written to `into` before the compare-and-swap, beyond its tail: if that fails, nobody has seen it.
 */
static inline void *wf_ring_steal(struct wf_ring *from, struct wf_ring *into, uint32_t note)
{
    const struct wf_ring_buffer *mine = wf_load(&into->buffer);
    uint32_t tail = wf_load(&into->tail);
    uint32_t most = mine->mask + 1 - (tail - wf_load_acquire(&into->head)) + 1; /* as in wf_ring_push */
    if (most > WF_RING_SIZE / 2)
        most = WF_RING_SIZE / 2;
    uint32_t head = wf_load_acquire(&from->head); /* pairs with whoever took last; see 3 */
    for (;;) {
        uint32_t there = wf_load_acquire(&from->tail) - head; /* pairs with wf_ring_push */
        if (there == 0)
            return NULL;
        const struct wf_ring_buffer *b = wf_load_acquire(&from->buffer); /* pairs with wf_ring_grow; see 5 */
        uint32_t take = there - there / 2;
        if (take > most)
            take = most;
        void *first = wf_load(wf_ring_item(b, head));
        for (uint32_t i = 1; i < take; i++) {
            wf_store(wf_ring_item(mine, tail + i - 1), wf_load(wf_ring_item(b, head + i)));
            mine->notes[(tail + i - 1) & mine->mask] = note + i - 1;
        }
        if (!wf_cas(&from->head, &head, head + take)) /* release: pairs with the owner's load of head in wf_ring_push */
            continue;
        if (take > 1)
            wf_store_release(&into->tail, tail + take - 1); /* as in wf_ring_push */
        return first;
    }
}

#endif
