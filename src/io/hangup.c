/*
 * io/hangup.c: see hangup.h and weft_cancel_on_hangup in weft/io.h.
 */
#include "io/hangup.h"

#include <poll.h>
#include <string.h>

#include <weft/io.h>

#include "base/barrier.h"
#include "base/errno.h"
#include "base/sys.h"
#include "base/thread.h"
#include "io/fd.h"
#include "io/set.h"
#include "sched/slice.h"
#include "sched/wait.h"

enum { CHUNK = 1024, CHUNKS = WF_FD_NUMBERS / CHUNK };

/* guarded by: the lock of the number's record */
struct entry {
    struct wf_hangup_fiber who; /* while the record's `hangup` is set: the fiber to cancel */
    uint32_t ring;              /* the set whose ring has a poll for it; 0: none */
    uint32_t ticket;            /* of that poll */
    uint32_t generation;        /* of the descriptor that the poll is for */
};

static struct entry *chunks[CHUNKS]; /* atomic: each is made once, and never freed */

static struct entry *look(int fd)
{
    struct entry *chunk = wf_load_acquire(&chunks[fd / CHUNK]); /* pairs with find */
    return chunk ? &chunk[fd % CHUNK] : NULL;
}

/* The entry of a number that has a record; NULL: no memory. */
static struct entry *find(int fd)
{
    struct entry *there = NULL, *made;
    if (look(fd))
        return look(fd);
    made = wf_sys_malloc(CHUNK * sizeof *made);
    if (!made)
        return NULL;
    memset(made, 0, CHUNK * sizeof *made);
    if (!wf_cas(&chunks[fd / CHUNK], &there, made))
        wf_sys_free(made);
    return look(fd);
}

/* What the kernel reports now: POLLERR, POLLHUP, POLLNVAL or none of them. */
static uint32_t ask(int fd)
{
    struct pollfd now = {.fd = fd};
    return wf_poll_until(&now, 1, INT64_MIN) > 0 ? (uint32_t)now.revents : 0;
}

/* `now`: what the kernel reports. guarded by: e->lock */
static bool take_if_hung(int fd, struct wf_fd *e, uint32_t now, struct wf_hangup_fiber *out)
{
    if (!(now & (POLLERR | POLLHUP)))
        return false;
    wf_or(&e->word, WF_FD_HUNG); /* the event may be still to come */
    *out = look(fd)->who;
    wf_store(&e->hangup, false);
    wf_lock(&e->telling);
    return true;
}

bool wf_hangup_take(int fd, struct wf_fd *e, struct wf_hangup_fiber *out)
{
    return take_if_hung(fd, e, ask(fd), out);
}

void wf_hangup_tell(struct wf_fd *e, const struct wf_hangup_fiber *who)
{
    wf_sys_point(WF_SYS_HANGUP);
    struct wf_later later = {0};
    wf_cancel_if_alive(who->fiber, who->id, WEFT_CAUSE_HANGUP, &later);
    wf_unlock(&e->telling);
    wf_later_apart(&later); /* this may be a worker's stack */
}

void wf_hangup_await_told(struct wf_fd *e)
{
    if (wf_likely(wf_load_acquire(&e->telling.word) == 0)) /* pairs with wf_hangup_tell */
        return;
    wf_lock(&e->telling);
    wf_unlock(&e->telling);
}

/* Takes the record's lock while no thread is about to cancel a fiber. */
static void lock_untold(struct wf_fd *e)
{
    wf_lock(&e->lock);
    while (wf_unlikely(wf_load_acquire(&e->telling.word) != 0)) { /* pairs with wf_hangup_tell */
        wf_unlock(&e->lock);
        wf_hangup_await_told(e);
        wf_lock(&e->lock);
    }
}

/* Makes this worker learn of the descriptor's end. *fresh: it did not before, so the end may have come already. */
static int arm(const struct wf_fd_ref *of, struct wf_set *set, const struct entry *entry, bool *fresh, uint32_t *ticket)
{
    if (set->backend == WF_EPOLL) {
        *fresh = !wf_fd_is_at(of->e, set->id);
        return *fresh ? wf_fd_register(of, set) : 0;
    }
    wf_lock(&of->e->lock);
    *fresh = entry->ring != set->id || entry->generation != of->generation;
    wf_unlock(&of->e->lock);
    return *fresh ? wf_set_arm(set, of, WF_FD_HANGUP, ticket) : 0;
}

/* Notes which ring has the poll for this descriptor. The ring that had it before; 0: none. guarded by: of->e->lock */
static uint32_t note(struct entry *entry, const struct wf_fd_ref *of, uint32_t ring, uint32_t ticket)
{
    uint32_t before = entry->generation == of->generation && entry->ring != ring ? entry->ring : 0;
    entry->ring = ring;
    entry->ticket = ticket;
    entry->generation = of->generation;
    return before;
}

/*
 * Subscribes the fiber: the record has it from now on. `ring`: the ring that has a new poll, with this ticket; 0: there is
 * no new one. One poll is enough: if another ring had one, that ring drops it. 0, or -EBADF.
 */
static int publish(const struct wf_fd_ref *of, struct entry *entry, weft_fiber *f, uint32_t ring, uint32_t ticket)
{
    lock_untold(of->e);
    uint32_t before = 0, old = entry->ticket;
    uint64_t word = wf_load(&of->e->word);
    bool there = wf_fd_is_of(of, word) && !(word & (WF_FD_CLOSING | WF_FD_SHUT));
    if (there) {
        entry->who = (struct wf_hangup_fiber){f, wf_load(&f->id)};
        if (ring != 0)
            before = note(entry, of, ring, ticket);
        wf_store(&of->e->hangup, true);
    }
    wf_unlock(&of->e->lock);
    if (before != 0)
        wf_set_disarm_in(before, old);
    return there ? 0 : -EBADF;
}

/* The descriptor may have hung up before its record had the fiber. 0, or -EBADF. */
static int catch_up(const struct wf_fd_ref *of)
{
    struct wf_hangup_fiber who;
    wf_lock(&of->e->lock);
    bool ours = wf_fd_is_of(of, wf_load(&of->e->word)) && wf_load(&of->e->hangup);
    uint32_t now = ours ? ask(of->fd) : 0;
    bool is_closed = now & POLLNVAL, hung = take_if_hung(of->fd, of->e, now, &who);
    if (is_closed)
        wf_store(&of->e->hangup, false);
    wf_unlock(&of->e->lock);
    if (hung)
        wf_hangup_tell(of->e, &who);
    return is_closed ? -EBADF : 0;
}

static int take_back(int fd)
{
    struct wf_fd *e = wf_fd_look(fd);
    if (!e)
        return fd < 0 ? -EBADF : 0;
    wf_lock(&e->lock);
    wf_store(&e->hangup, false);
    wf_unlock(&e->lock);
    wf_hangup_await_told(e);
    return 0;
}

int weft_cancel_on_hangup(int fd, weft_fiber *f)
{
    wf_slice_here();
    if (!f)
        return take_back(fd);
    if (!wf_thread_now()->fiber)
        return -ENXIO;
    wf_debug_handle(__func__, f);
    struct wf_fd_ref of;
    struct wf_set *set;
    int rc = wf_fd_refer(&of, fd);
    if (rc != 0)
        return rc;
    struct entry *entry = find(fd);
    if (!entry)
        return -ENOMEM;
    if (!wf_be_known(f))
        return -ESRCH;
    bool fresh = false;
    uint32_t ticket = 0;
    rc = wf_set_here(fd, &set);
    if (rc == 0)
        rc = arm(&of, set, entry, &fresh, &ticket);
    if (rc == 0)
        rc = publish(&of, entry, f, fresh && set->backend != WF_EPOLL ? set->id : 0, ticket);
    if (rc == 0 && (fresh || wf_load(&of.e->word) & WF_FD_HUNG))
        rc = catch_up(&of);
    return rc;
}

void wf_hangup_leave(const struct wf_fd_ref *of, const weft_fiber *f)
{
    struct entry *entry = look(of->fd);
    if (!entry)
        return;
    wf_lock(&of->e->lock);
    uint32_t ring = 0, ticket = entry->ticket;
    if (wf_fd_is_of(of, wf_load(&of->e->word)) && entry->who.fiber == f && entry->who.id == wf_load(&f->id)) {
        wf_store(&of->e->hangup, false);
        if (entry->generation == of->generation) {
            ring = entry->ring;
            entry->ring = 0;
        }
    }
    wf_unlock(&of->e->lock);
    if (ring != 0)
        wf_set_disarm_in(ring, ticket);
}

void wf_hangup_poll_ended(const struct wf_fd_ref *of, struct wf_set *set, uint32_t ticket, bool again)
{
    struct entry *entry = look(of->fd);
    wf_lock(&of->e->lock);
    bool ours = wf_fd_is_of(of, wf_load(&of->e->word)) && entry->ring == set->id && entry->ticket == ticket &&
                entry->generation == of->generation;
    if (ours)
        entry->ring = 0;
    again &= ours && wf_load(&of->e->hangup);
    wf_unlock(&of->e->lock);
    if (!again || wf_set_arm(set, of, WF_FD_HANGUP, &ticket) != 0)
        return;
    wf_lock(&of->e->lock);
    bool spare = entry->ring != 0 && entry->generation == of->generation; /* another ring has one meanwhile */
    if (!spare && wf_fd_is_of(of, wf_load(&of->e->word)))
        note(entry, of, set->id, ticket);
    wf_unlock(&of->e->lock);
    if (spare)
        wf_set_disarm(set, ticket);
}
