/*
 * io/fd.h: the table of descriptors: for each number who waits on it, and what is known about it.
 *
 * Records are for life: there is one for each number ever used, and it says nothing at first (all zero). What it knows
 * belongs to a generation, which weft_close ends. Every operation carries a reference (struct wf_fd_ref): the record and the
 * generation that the number had when the operation began. An operation whose generation is over leaves the number alone, and
 * sets no bit: the bits of a generation die with it.
 *
 * close(2) and dup2(2) begin no generation. After them a bit may be wrong, so a bit only chooses what is tried first. No bit
 * decides whether a write may raise SIGPIPE (io/quiet.h), and no bit hides data for longer than io.h states.
 *
 *      word:  | generation (24) | users (24) | bits (16) |
 *
 * users: system calls on this number that are under way, those in a ring included. weft_close waits for them, so that none
 * of them reaches whatever gets the number next. None stays: a call either does not wait, or is cancelled; and while
 * CLOSING none begins. When there are none CLOSING becomes SHUT, until close(2) has returned: who comes then may be about the
 * old descriptor or about the next one of that number, and waits until it is clear which. Nobody gives way under SHUT, so that
 * is short.
 *
 * DRAINED_IN, DRAINED_OUT: a call would say EAGAIN, and an event is going to say when it would not. Set before a call is
 * made (whatever comes during it is not lost), and taken back if the call shows that there may be more. An event clears
 * it, under the lock; who is about to wait looks at it, under the lock.
 */
#ifndef WF_IO_FD_H
#define WF_IO_FD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/errno.h"
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "sched/wait.h"

enum {
    WF_FD_DRAINED_IN = 1 << 0,
    WF_FD_DRAINED_OUT = 1 << 1,
    WF_FD_ENDING = 1 << 2,         /* RDHUP, HUP, ERR or PRI was reported: a short read says nothing any more */
    WF_FD_KNOWN = 1 << 3,          /* it was looked at, and STREAM is right */
    WF_FD_STREAM = 1 << 4,         /* plain TCP: a short read has taken all there was, a short write has filled it */
    WF_FD_NO_SOCKET = 1 << 5,      /* calls of sockets fail: others are tried first */
    WF_FD_NO_NOWAIT = 1 << 6,      /* RWF_NOWAIT fails for reading */
    WF_FD_FILE = 1 << 7,           /* cannot be waited for: it is always ready */
    WF_FD_POLLS = 1 << 8,          /* it can */
    WF_FD_TERMINAL = 1 << 9,       /* a character device: calls may wait whatever they are told */
    WF_FD_CLOSING = 1 << 10,       /* weft_close waits for the users */
    WF_FD_NO_NOWAIT_OUT = 1 << 11, /* RWF_NOWAIT fails for writing */
    WF_FD_SHUT = 1 << 12,          /* close(2) is being called: who comes waits until it has returned */
    WF_FD_HUNG = 1 << 13,          /* HUP or ERR was reported */
    WF_FD_KIND = WF_FD_NO_SOCKET | WF_FD_NO_NOWAIT | WF_FD_FILE | WF_FD_TERMINAL | WF_FD_NO_NOWAIT_OUT,
    WF_FD_BITS = (1 << 16) - 1,
    WF_FD_USER = 1 << 16,
    WF_FD_PLACES = 3,
};

#define WF_FD_USERS ((uint64_t)0xffffff << 16)
#define WF_FD_GENERATION 40 /* where it begins */

/* A plain thread in poll(2): close writes to `wake`. */
struct wf_fd_thread {
    struct wf_fd_thread *next;
    int wake; /* an eventfd */
};

struct wf_set;
struct wf_watch;

struct wf_fd {
    uint64_t word;                /* atomic: see above */
    struct wf_lock lock;          /* of what follows, except `telling` */
    struct wf_lock telling;       /* held by whoever is about to cancel a fiber for the hangup: see io/hangup.h */
    struct wf_waiters waiters;    /* each with the events that it wants as its `data`, and a stamp as its `index` */
    struct wf_fd_thread *threads; /* the same for plain threads */
    struct wf_watch *watch;       /* callbacks, or NULL */
    uint32_t at[WF_FD_PLACES];    /* the sets that it is registered with, 0: none */
    uint8_t patience;             /* a wait is verified for the first time after 50 ms << patience */
    bool hangup;                  /* its hangup cancels a fiber: see io/hangup.h. atomic: others look */
};

_Static_assert(sizeof(struct wf_fd) == 64, "a record is a cache line");

/*
 * A waiter's stamp: the time in ms at which its wait began or was last verified, and in the low bits 1 + the number of
 * verifications. A waiter with stamp 0 verifies its own wait.
 */
enum { WF_FD_STAMP_BITS = 4, WF_FD_STAMP_COUNT = (1 << WF_FD_STAMP_BITS) - 1 };

static inline uint32_t wf_fd_stamp(int64_t now, uint32_t verified)
{
    return (uint32_t)(now / 1000000) << WF_FD_STAMP_BITS | (verified + 1);
}

/* By who is about to keep anything that the child of a fork must forget. Any number of times. */
void wf_fd_join_fork(void);

/* The record of a number; NULL: it is no descriptor's (negative, or too large), or there is no memory. */
struct wf_fd *wf_fd_of(int fd);

#define WF_FD_NUMBERS (1 << 26) /* that may be a descriptor's */

/* Why there is none: -EBADF or -ENOMEM. */
static inline int wf_fd_none(int fd)
{
    return fd < 0 || fd >= WF_FD_NUMBERS ? -EBADF : -ENOMEM;
}

/* The same, if somebody has asked for it before. */
struct wf_fd *wf_fd_look(int fd);

static inline uint32_t wf_fd_generation(const struct wf_fd *e)
{
    return (uint32_t)(wf_load(&e->word) >> WF_FD_GENERATION);
}

/* A descriptor as it was when an operation began: whatever gets its number later is another one. */
struct wf_fd_ref {
    int fd;
    uint32_t generation;
    struct wf_fd *e;
};

/* 0, or -EBADF (it is no number of a descriptor), -ENOMEM. */
static inline int wf_fd_refer(struct wf_fd_ref *out, int fd)
{
    struct wf_fd *e = wf_fd_of(fd);
    if (wf_unlikely(!e))
        return wf_fd_none(fd);
    *out = (struct wf_fd_ref){fd, wf_fd_generation(e), e};
    return 0;
}

/* Whether it is of a kind that is always ready, and may yet wait for a disk. Asks the kernel. */
bool wf_fd_is_file(int fd);

/* The rest of wf_fd_enter where something is special; *was becomes what is so now. */
WF_COLD bool wf_fd_enter_slowly(const struct wf_fd_ref *r, uint64_t *was);

/* Whether a record's word is of the generation of a reference. */
static inline bool wf_fd_is_of(const struct wf_fd_ref *r, uint64_t word)
{
    return (uint32_t)(word >> WF_FD_GENERATION) == r->generation;
}

/* Before a system call on it, with bits to set. False: it is another generation, and the number not ours to touch. */
static inline bool wf_fd_enter(const struct wf_fd_ref *r, uint64_t set)
{
    uint64_t was = wf_load(&r->e->word);
    do {
        if (wf_unlikely(!wf_fd_is_of(r, was) || was & (WF_FD_CLOSING | WF_FD_SHUT)) && !wf_fd_enter_slowly(r, &was))
            return false;
    } while (!wf_cas(&r->e->word, &was, (was + WF_FD_USER) | set)); /* pairs with wf_fd_close */
    return true;
}

/* After it, with bits to clear and to set. If the generation has ended meanwhile, the bits of the next one are left alone. */
static inline void wf_fd_exit(const struct wf_fd_ref *r, uint64_t clear, uint64_t set)
{
    uint64_t was = wf_load(&r->e->word), next;
    do
        next = wf_likely(wf_fd_is_of(r, was)) ? (was & ~clear) | set : was;
    while (!wf_cas(&r->e->word, &was, next - WF_FD_USER)); /* pairs with wf_fd_close */
}

/* The same, and nothing was learnt. */
static inline void wf_fd_leave(const struct wf_fd_ref *r)
{
    wf_fd_exit(r, 0, 0);
}

/* Clears and sets bits, unless the generation has ended. The caller learnt this between wf_fd_enter and wf_fd_exit. */
static inline void wf_fd_learn(const struct wf_fd_ref *r, uint64_t clear, uint64_t set)
{
    uint64_t was = wf_load(&r->e->word);
    while (wf_fd_is_of(r, was) && !wf_cas(&r->e->word, &was, (was & ~clear) | set))
        ;
}

/*
 * In an event, and in the result of the wait that it ends: what the event says may be over. It was fetched before the wait
 * began, or another waiter may take it first.
 */
#define WF_FD_UNSURE ((uint32_t)1 << 29)

/*
 * Tells whoever waits for any of `events` (as of poll(2)), and that it may try again. Any thread. `generation` is that of
 * the registration: an event of an earlier one is nobody's. A waiter of another worker than the calling one gets WF_FD_UNSURE
 * with it: its wait may have begun after this worker's set was asked.
 */
void wf_fd_event(int fd, uint32_t generation, uint32_t events);

/* An event for it is about to be told: gets its record, and a little later who waits, which nobody touched for long. */
void wf_fd_fetch(int fd);
void wf_fd_fetch_waiter(int fd);

/*
 * Returns the pause before the next request to a ring to cancel the same call; `pause` was the last one. The pauses grow, as
 * the call may be one that the kernel cannot cancel (a read from a disk).
 */
static inline weft_span wf_cancel_again(weft_span pause)
{
    return pause < 64 * WEFT_MS ? 2 * pause : pause;
}

/* Tells whoever waits that it cannot be waited for: they get `error`. */
void wf_fd_fail(int fd, uint32_t generation, int error);

/*
 * Waits for any of `events`: the ones that came (> 0, with WF_FD_UNSURE), 0 if `drained` (a bit, or 0) is no longer set, or -EBADF (closed),
 * -ETIMEDOUT, -ECANCELED, -EPERM (cannot be waited for), or what registering it says. On a plain thread it polls.
 */
int wf_fd_wait(const struct wf_fd_ref *r, uint32_t events, uint64_t drained, weft_time deadline);

/*
 * Call these before and after a plain thread polls the descriptor. False: weft_close has closed it or is closing it, and
 * would not wake the thread.
 */
bool wf_fd_join_threads(const struct wf_fd_ref *r, struct wf_fd_thread *me);
void wf_fd_leave_threads(struct wf_fd *e, struct wf_fd_thread *me);

/* A waiter that wants any event at all to wake it: what else it wants is its result, and may be 0. */
#define WF_FD_ANY ((uint32_t)1 << 31)

/*
 * The fiber's part of wf_fd_wait: the events that came (with WF_FD_UNSURE), -EBADF, -ETIMEDOUT or -ECANCELED. It is registered or armed, and
 * `me` was asked for before that, as wf_sleeper may give way.
 */
int wf_fd_sleep(const struct wf_fd_ref *r, struct wf_sleeper *me, uint32_t events, weft_time deadline);

/* The event of a poll in a ring that waits for the hangup alone: see io/hangup.h. */
#define WF_FD_HANGUP ((uint32_t)1 << 28)

/* An event that the kernel knows nothing of: what somebody else waits for on a descriptor, or until it is closed. */
#define WF_FD_TOLD ((uint32_t)1 << 30)

/*
 * In a fiber: waits until holds(arg). Whoever makes it so reports WF_FD_TOLD by wf_fd_event. 0, or -EBADF (closed),
 * -EAGAIN (WEFT_NOW), -ETIMEDOUT, -ECANCELED.
 */
int wf_fd_wait_until(const struct wf_fd_ref *r, bool (*holds)(const void *arg), const void *arg, weft_time deadline);

struct pollfd;
/* poll(2) until a time (INT64_MIN: look only), whatever signals come: the count, or a negative errno. */
int wf_poll_until(struct pollfd *fds, size_t count, int64_t deadline);

/* A waiter of one who also waits for something else; `node->data` is what it wants. False: it was closed. */
bool wf_fd_link(const struct wf_fd_ref *r, struct wf_waiter *node, struct wf_sleeper *me);
void wf_fd_unlink(struct wf_fd *e, struct wf_waiter *node);

/* A call on it is in the ring of this set. False: its generation has ended, and nobody cancels the call. */
bool wf_fd_in_ring(const struct wf_fd_ref *r, uint32_t set);

/*
 * *events becomes the events that all waiters want, without WF_FD_ANY. True: a waiter or a watch relies on a permanent
 * registration with a set. The record may have forgotten that set.
 */
bool wf_fd_wanted(struct wf_fd *e, uint32_t *events);

/* Has an epoll set report everything that happens to it from now on, and what is so by now. 0, or a negative errno. */
int wf_fd_register(const struct wf_fd_ref *r, struct wf_set *set);

/* Whether it is registered with this set. */
bool wf_fd_is_at(struct wf_fd *e, uint32_t set);

/* The number is a new descriptor's: nothing that was known about it holds. */
void wf_fd_fresh(int fd);

/* The first of the numbers *fd to `last` that has a record; *fd becomes its number. NULL: there is none. */
struct wf_fd *wf_fd_next(unsigned *fd, unsigned last);

/*
 * Ends the generation: all who wait get -EBADF, and nobody is in a call on it when this returns. close(2) follows, and then
 * wf_fd_closed: until that it is SHUT.
 */
void wf_fd_close(struct wf_fd *e);
void wf_fd_closed(struct wf_fd *e);

/* wf_fd_close if it is still this generation. False: it was closed, and the number is not the caller's to close. */
bool wf_fd_close_if(const struct wf_fd_ref *r);

/*
 * The same for one that nobody uses, as far as is known. False: somebody does; try wf_fd_close. `ends`: the generation ends
 * too, for those whom an event has woken and who have not had their turn yet.
 */
bool wf_fd_shut(struct wf_fd *e, bool ends);

#endif
