/*
 * coro/packed.h: fibers that wait at the same place have nearly equal copies: the same return addresses, saved
 * registers, addresses on the same stack. So a shared stack keeps an *image* of one copy, and the other copies hold
 * only what differs from it.
 *
 * The copy of a connection that waits for its next request takes 90 bytes instead of 350 (docs/decisions/0029). Only
 * base coroutines are packed, if nothing runs on top of them and little is live. Raw coroutines are not packed: the
 * time of their switches matters more than the memory of their copies.
 *
 * Only the thread that has the stack calls these functions. An image counts its references: one of the stack, and one
 * of each copy that was packed by it.
 */
#ifndef WF_CORO_PACKED_H
#define WF_CORO_PACKED_H

#include "coro/coro.h"

/* Not with ASan, whose shadow is copied with the bytes, nor with valgrind, which knows the bytes never written. */
#define WF_PACKS (!WF_ASAN && !WF_VALGRIND)

#define WF_ROOM_PACKED ((uint32_t)1 << 31) /* in weft_coro.room; no stack is that large */

/* Whether its copy is packed. */
static inline bool wf_packed(const weft_coro *c)
{
    return wf_unlikely(c->room & WF_ROOM_PACKED);
}

/*
 * How many bytes c's live bytes take when packed; 0: do not pack them. Changes nothing, and gives the same answer until
 * a coroutine runs on the stack.
 */
size_t wf_packed_bytes(const weft_coro *c, const char *low, size_t bytes);

/* The same, to be called before c is copied: the stack may take c's bytes as its next image. */
size_t wf_packed_prepare(weft_coro *c, const char *low, size_t bytes);

/* Packs c's live bytes into c->saved, which has the room. */
void wf_pack(weft_coro *c, const char *low, size_t bytes);

/* Puts them back to the stack, at `low`. */
void wf_unpack(weft_coro *c, char *low);

/* How many bytes its packed copy takes. */
size_t wf_packed_size(const weft_coro *c);

/* Drops its packed copy, if it has one, which nobody needs any more. */
void wf_packed_drop(weft_coro *c);

#endif
