/*
 * base/ring.c: see ring.h. How a ring gets its buffers and gives them back.
 */
#include "base/ring.h"

#include <string.h>

#include "base/sys.h"

static size_t bytes_of(uint32_t mask)
{
    return ((size_t)mask + 1) * (sizeof(void *) + sizeof(uint32_t));
}

void wf_ring_init(struct wf_ring *r)
{
    memset(r, 0, sizeof *r);
    r->buffers[0] = (struct wf_ring_buffer){r->first_items, r->first_notes, WF_RING_SIZE - 1};
    r->buffer = r->buffers;
}

void wf_ring_free(struct wf_ring *r)
{
    for (int i = 1; i < WF_RING_BUFFERS; i++) {
        if (r->buffers[i].items)
            wf_sys_unmap(r->buffers[i].items, bytes_of(r->buffers[i].mask));
    }
}

/* Makes the arrays of a buffer, unless an earlier growth has made them. */
static bool make(struct wf_ring_buffer *b, uint32_t mask)
{
    if (b->items)
        return true;
    void **items = wf_sys_may(WF_SYS_GROW) ? wf_sys_map(bytes_of(mask)) : NULL;
    if (!items)
        return false;
    *b = (struct wf_ring_buffer){items, (uint32_t *)(items + mask + 1), mask};
    return true;
}

bool wf_ring_grow(struct wf_ring *r)
{
    struct wf_ring_buffer *old = wf_load(&r->buffer), *b = old + 1;
    if (b == r->buffers + WF_RING_BUFFERS || !make(b, old->mask * 4 + 3))
        return false;
    uint32_t tail = wf_load(&r->tail);
    for (uint32_t i = wf_load(&r->head); i != tail; i++) { /* an old head: some more, which no thread will read */
        wf_store(wf_ring_item(b, i), wf_load(wf_ring_item(old, i)));
        b->notes[i & b->mask] = old->notes[i & old->mask];
    }
    wf_store_release(&r->buffer, b); /* pairs with wf_ring_steal */
    return true;
}

void wf_ring_shrink(struct wf_ring *r)
{
    struct wf_ring_buffer *last = wf_load(&r->buffer);
    if (last == r->buffers || wf_load_acquire(&r->head) != wf_load(&r->tail)) /* pairs with whoever took last, see 6 */
        return;
    wf_store_release(&r->buffer, r->buffers); /* pairs with wf_ring_steal */
    for (struct wf_ring_buffer *b = last; b != r->buffers; b--)
        wf_sys_discard(b->items, bytes_of(b->mask)); /* if that fails the pages stay */
}

void wf_ring_forget(struct wf_ring *r)
{
    r->head = r->tail;
}
