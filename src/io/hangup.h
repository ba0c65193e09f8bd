/*
 * io/hangup.h: which fiber a descriptor's hangup cancels (weft_cancel_on_hangup).
 *
 * The record of a descriptor has no room for this. So there is a table beside the records, of the same shape: an entry
 * for each number, made by the first call for that number. The record says whether the entry has a fiber (`hangup`),
 * and its lock guards the entry. The entry names the fiber by its record and its id: if the fiber has ended, no fiber
 * is cancelled (wf_cancel_if_alive).
 *
 * On epoll a descriptor is only registered: every event of a registered descriptor passes through its record. A ring
 * has one poll for each descriptor, which waits for nothing but the end. It stays there while fibers come and go.
 *
 * An event is only a reason to ask the kernel: the state that it reports may be over, or the event may be made up.
 */
#ifndef WF_IO_HANGUP_H
#define WF_IO_HANGUP_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/fiber.h>

struct wf_fd;
struct wf_fd_ref;
struct wf_set;

/* A fiber as others know it: the place of its record, and its id. */
struct wf_hangup_fiber {
    weft_fiber *fiber;
    uint64_t id;
};

/* With e->hangup set: takes the fiber out if the descriptor has hung up; else returns false. guarded by: e->lock */
bool wf_hangup_take(int fd, struct wf_fd *e, struct wf_hangup_fiber *out);

/* The hangup's poll with this ticket has left the ring of the set. `again`: arm another, if there is a fiber. On the set's
 * worker. */
void wf_hangup_poll_ended(const struct wf_fd_ref *of, struct wf_set *set, uint32_t ticket, bool again);

#endif
