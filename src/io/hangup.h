/*
 * io/hangup.h: which fiber a descriptor's hangup cancels (weft_cancel_on_hangup).
 *
 * The record of a descriptor has no room for the fiber. So there is a table beside the records, of the same shape, with
 * an entry for each number. The first call for a number makes its entry. The record says whether the entry has a fiber
 * (`hangup`), and the record's lock guards the entry. The entry names the fiber by the fiber's record and id: if that
 * fiber has ended, no fiber is cancelled (wf_cancel_if_alive).
 *
 * On epoll the descriptor only has to be registered: every event of a registered descriptor passes through its record.
 * A ring has one poll for each descriptor, which waits only for the hangup. The poll stays in the ring while subscribed
 * fibers come and go.
 *
 * An event is only a reason to ask the kernel: the state that the event reports may be over, or the library may have
 * made the event up.
 */
#ifndef WF_IO_HANGUP_H
#define WF_IO_HANGUP_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/fiber.h>

struct wf_fd;
struct wf_fd_ref;
struct wf_set;

/* How an entry names a fiber: by the address of its record, and its id. */
struct wf_hangup_fiber {
    weft_fiber *fiber;
    uint64_t id;
};

/*
 * Call only if e->hangup is set. If the descriptor has hung up, takes the fiber out of the entry; else returns false.
 * guarded by: e->lock
 */
bool wf_hangup_take(int fd, struct wf_fd *e, struct wf_hangup_fiber *out);

/*
 * The hangup's poll with this ticket has left the ring of the set. `again`: arm another poll, if the entry has a fiber.
 * Called on the set's worker.
 */
void wf_hangup_poll_ended(const struct wf_fd_ref *of, struct wf_set *set, uint32_t ticket, bool again);

#endif
