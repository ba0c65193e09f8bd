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
 * Whoever takes the fiber out of the entry cancels it after the record's lock is released: to cancel takes the lock of
 * the pool of fibers, and under that lock others take the records' locks (watches that a scheduler cancels). So the
 * thread that tells holds a second lock of the record, `telling`, from before it releases the first one until it has
 * cancelled the fiber. A call that ends a subscription waits for that (wf_hangup_await_told), so the former fiber is not
 * cancelled after that call. This wait cannot deadlock:
 *  - The thread that tells does not give way to fibers, takes no record's lock and waits for no fiber until it has
 *    released `telling`. So it is never the thread that waits for it, and it gets on whatever that thread does.
 *  - Whoever waits for it holds no lock: neither that of a record, nor that of the pool.
 *  - Whoever takes a fiber out holds the record's lock when it takes `telling`. At that time no other thread tells: a
 *    fiber gets into the entry only while `telling` is free (lock_untold). At most a call that waited holds `telling`,
 *    for an instant, and that call needs nothing else.
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
 * Call only if e->hangup is set. If the descriptor has hung up, takes the fiber out of the entry, and takes e->telling;
 * else returns false. After true the caller releases e->lock, and calls wf_hangup_tell. guarded by: e->lock
 */
bool wf_hangup_take(int fd, struct wf_fd *e, struct wf_hangup_fiber *out);

/* Cancels the fiber that wf_hangup_take has taken out, and releases e->telling. */
void wf_hangup_tell(struct wf_fd *e, const struct wf_hangup_fiber *who);

/* Waits until a fiber that was taken out before has been cancelled. The caller holds no lock. Any thread. */
void wf_hangup_await_told(struct wf_fd *e);

/*
 * The descriptor was closed by other means than weft_close, by fiber `f` or for it. If f was the last fiber that was
 * subscribed to its hangup, ends the subscription and has the ring drop its poll: the poll holds the connection open.
 * The number may be another descriptor's by now, so the subscription of another fiber is left alone. Any thread.
 */
void wf_hangup_leave(const struct wf_fd_ref *of, const weft_fiber *f);

/*
 * The hangup's poll with this ticket has left the ring of the set. `again`: arm another poll, if the entry has a fiber.
 * Called on the set's worker.
 */
void wf_hangup_poll_ended(const struct wf_fd_ref *of, struct wf_set *set, uint32_t ticket, bool again);

#endif
