/*
 * base/ring.h: a queue of pointers that grows. Its owner, one thread, pushes and pops; the owner of any other ring may
 * steal from it.
 *
 *      items   . . . [head, tail) are there, oldest first . . .         index i lies in items[i % size] of the buffer
 *      push    the owner, at tail: a store to the buffer, then a release store to tail; no locked instruction
 *      pop     the owner, at head: one compare-and-swap
 *      grow    the owner, when push finds the ring full: copies the items into a buffer four times as large
 *      shrink  the owner, when the ring is empty: back to the first buffer
 *      steal   any thread that owns another ring, at head: half of the items, by one compare-and-swap
 *
 * Items leave in the order in which they were pushed, by pop or by steal. NULL is no item. Beside each item is a note,
 * a number for the owner alone. Only the owner writes tail, the buffers, and which buffer is in use. Head changes only
 * by compare-and-swap, from h to h + n. The thread that makes this change has taken the items [h, h + n).
 *
 * Why this is correct:
 *
 * 1. A thief sees the items that tail promises. The owner's release store of tail comes after the stores to the buffer
 *    (and to what the items point to); the thief's acquire load of tail pairs with it.
 *
 * 2. An item is taken once. Every thread reads the items BEFORE its compare-and-swap, and trusts what it has read only
 *    if the compare-and-swap succeeds. A read after it might find a newer item: once head has moved, the owner may
 *    fill the place again. A read before it cannot. The owner fills the place of index h again (as index h + size) only
 *    after its acquire load has shown it a head beyond h. Head leaves h once. So if our compare-and-swap succeeded, it
 *    made head leave h, and the head that the owner saw was ours or made from ours. The release side of our
 *    compare-and-swap pairs with that acquire load: our read of the place happens before the owner's store to it, and
 *    cannot have seen that store. If our compare-and-swap failed, we may have read anything, and we discard it. The
 *    items are atomic, though relaxed, because such a read may race with the store.
 *
 * 3. tail - head never looks negative to a thread that loads head first, with acquire. The thread that moved head to h
 *    had seen a tail of h or more. The release side of its compare-and-swap hands that tail on, so the later load of
 *    tail sees that tail or a newer one. The difference may look too large, if many items were taken and pushed between
 *    the two loads: then a thief's compare-and-swap fails.
 *
 * 4. The owner may see an old head. Then push finds the ring fuller than it is (push says that it is full), and the
 *    compare-and-swap of pop fails and loads the new head. All changes of head are read-modify-writes, so an acquire of
 *    any of them pairs with all before it.
 *
 * 5. A thief reads a buffer that has its items. It loads head, then tail, then the buffer, each with acquire. That
 *    buffer was in use when that tail was stored, or came into use later. The owner writes all items to a buffer before
 *    the buffer comes into use (by a release store), and it writes there all items that it pushes while the buffer is
 *    in use. So the buffer has [h, tail), unless head was beyond h when the buffer came into use: then the
 *    compare-and-swap fails.
 *
 * 6. A buffer that is out of use stays as it is while a thief may still trust what it reads there. The owner writes to
 *    it again, or gives its memory back, only after it has seen the ring empty since then. By then head has left every
 *    h that a thief may have read with that buffer, and the rest is as in 2. No buffer is unmapped before the ring is
 *    freed, so the owner never waits for thieves; shrink gives back only the pages.
 *
 * 7. The counters wrap at 2^32. Every size divides 2^32, so i % size has no gap where the counter wraps. All other uses
 *    are differences of two counters that are at most 2^30 apart. One fault remains possible: head leaves h and comes
 *    back to h between a thief's load and its compare-and-swap. For that, exactly 2^32 items, or a multiple, would have
 *    to go through one ring while that thread stands between two instructions: some 40 s at 100 million items a second.
 *    And the thread would have to go on at exactly that one item of 2^32. We accept that risk.
 */
#ifndef WF_BASE_RING_H
#define WF_BASE_RING_H

#include "base/atomic.h"
#include "base/compiler.h"

/* Items of the first buffer, a power of two. Tests that use the explorer make it small. */
#ifndef WF_RING_SIZE
#define WF_RING_SIZE 256u
#endif
_Static_assert((WF_RING_SIZE & (WF_RING_SIZE - 1)) == 0, "the counters wrap");

enum { WF_RING_BUFFERS = 12 }; /* each four times as large as the one before: 2^30 items in the last */
_Static_assert(WF_RING_SIZE <= UINT32_C(1) << (30 - 2 * (WF_RING_BUFFERS - 1)), "differences of counters");

/* A buffer: const once it has been in use, except for the contents of the arrays. */
struct wf_ring_buffer {
    void **items;    /* owner: the ring's. atomic: relaxed, see 2. NULL: not made yet */
    uint32_t *notes; /* owner: the ring's */
    uint32_t mask;   /* the size - 1 */
};

/*
 * A ring must not be moved after wf_ring_init. Both counters are on one cache line: when another thread has looked or
 * stolen, the owner has to fetch back only this line.
 */
struct wf_ring {
    uint32_t head; /* atomic: released by pop and steal, pairs with the acquire in push, shrink, steal and count */
    uint32_t tail; /* owner: the ring's. atomic: released by push and steal, pairs with the acquire in steal */

    struct wf_ring_buffer *buffer
        __attribute__((aligned(64)));               /* in use. owner: the ring's. atomic: released by grow and
                                                                 * shrink, pairs with the acquire in steal */
    struct wf_ring_buffer buffers[WF_RING_BUFFERS]; /* owner: the ring's; any thread may read those in use so far */
    void *first_items[WF_RING_SIZE];
    uint32_t first_notes[WF_RING_SIZE];
} __attribute__((aligned(64)));

/* Makes the ring empty. */
void wf_ring_init(struct wf_ring *r);

/* Gives back the memory of the larger buffers. The caller makes sure that no thread uses the ring any more. */
void wf_ring_free(struct wf_ring *r);

/* For the owner, when push has found the ring full: makes room. False: no memory, and nothing has changed. */
WF_COLD bool wf_ring_grow(struct wf_ring *r);

/* For the owner: if the ring is empty, gives back the memory of the larger buffers. */
void wf_ring_shrink(struct wf_ring *r);

/* In the child of a fork, where the caller is the only thread: forgets all items. */
void wf_ring_forget(struct wf_ring *r);

/* For the owner: whether wf_ring_shrink would have memory to give back once the ring is empty. */
static inline bool wf_ring_has_grown(const struct wf_ring *r)
{
    return wf_load(&r->buffer) != r->buffers;
}

static inline void **wf_ring_item(const struct wf_ring_buffer *b, uint32_t index)
{
    return &b->items[index & b->mask];
}

/* For the owner: the note of an item that is in the ring. */
static inline uint32_t wf_ring_note(const struct wf_ring *r, uint32_t index)
{
    const struct wf_ring_buffer *b = wf_load(&r->buffer);
    return b->notes[index & b->mask];
}

/* How many items there are. Any thread may call it; other threads than the owner get the count of a moment ago. */
static inline uint32_t wf_ring_count(const struct wf_ring *r)
{
    uint32_t head = wf_load_acquire(&r->head); /* pairs with the last pop or steal; before tail, see 3 */
    return wf_load(&r->tail) - head;
}

/* For the owner: appends an item. False: the ring is full. */
static inline bool wf_ring_push(struct wf_ring *r, void *item, uint32_t note)
{
    const struct wf_ring_buffer *b = wf_load(&r->buffer);
    uint32_t tail = wf_load(&r->tail);
    if (wf_unlikely(tail - wf_load_acquire(&r->head) >
                    b->mask)) /* pairs with the thread that took the last item there, see 2 */
        return false;
    wf_store(wf_ring_item(b, tail), item);
    b->notes[tail & b->mask] = note;
    wf_store_release(&r->tail, tail + 1); /* pairs with wf_ring_steal's load of tail */
    return true;
}

/* For the owner: takes the item of index `head`, which is below tail, if it is the oldest. NULL: a thief took it. */
static inline void *wf_ring_pop_at(struct wf_ring *r, uint32_t head)
{
    const struct wf_ring_buffer *b = wf_load(&r->buffer);
    void *item = wf_load(wf_ring_item(b, head));
    return wf_cas(&r->head, &head, head + 1) ? item
                                             : NULL; /* release: pairs with wf_ring_push and wf_ring_steal's loads */
}

/*
 * For the owner: takes the oldest item; NULL: there is none. Relaxed loads are enough: the buffer is the owner's, and
 * with an old head the compare-and-swap fails.
 */
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
 * For the owner of `into`: takes half of the items of another ring, at least one and no more than fit. It takes no more
 * than half of the first buffer's size: if a copy lasts longer than the time between two pops, the compare-and-swap
 * always fails. Returns the oldest item, and leaves the rest in `into`, with `note` and the numbers after it as their
 * notes; NULL if there is nothing to steal. If `into` was empty before, the items keep their order.
 *
 * The function writes the rest to `into` before the compare-and-swap, beyond the tail of `into`: if the
 * compare-and-swap fails, no thread has seen them.
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
