/*
 * coro/packed.h: packs the copies of fibers on shared stacks. Fibers that wait at the same place have nearly equal
 * copies: the same return addresses, saved registers, addresses on the same stack. So a shared stack keeps an *image*
 * of one copy, and the other copies hold only the differences from the image.
 *
 * The copy of a connection that waits for its next request takes 90 bytes instead of 350 (docs/decisions/0029). Only
 * base coroutines are packed, if nothing runs on top of them and little is live. Raw coroutines are not packed: the
 * time of their switches matters more than the memory of their copies.
 *
 * Only the thread that has the stack calls these functions. An image counts its references: one from the stack, and one
 * from each copy that was packed against it.
 */
#ifndef WF_CORO_PACKED_H
#define WF_CORO_PACKED_H

#include "coro/coro.h"

/* Not with ASan, whose shadow is copied with the bytes, nor with valgrind, which knows which bytes were written. */
#define WF_PACKS (!WF_ASAN && !WF_VALGRIND)

#define WF_ROOM_PACKED ((uint32_t)1 << 31) /* in weft_coro.room; no stack is that large */

/* Whether c's copy is packed. */
static inline bool wf_packed(const weft_coro *c)
{
    return wf_unlikely(c->room & WF_ROOM_PACKED);
}

/*
 * The packed size of c's live bytes; 0: do not pack them. Changes nothing, and returns the same result until a
 * coroutine runs on the stack.
 */
size_t wf_packed_bytes(const weft_coro *c, const char *low, size_t bytes);

/* The same. Call it before c is copied: the stack may take c's bytes as its next image. */
size_t wf_packed_prepare(weft_coro *c, const char *low, size_t bytes);

/* Packs c's live bytes into c->saved, which is large enough. */
void wf_pack(weft_coro *c, const char *low, size_t bytes);

/* Puts c's live bytes back on the stack, at `low`. */
void wf_unpack(weft_coro *c, char *low);

/* The size of c's packed copy. */
size_t wf_packed_size(const weft_coro *c);

/* Drops c's packed copy, if it has one. Call it when the copy is no longer needed. */
void wf_packed_drop(weft_coro *c);

#endif
