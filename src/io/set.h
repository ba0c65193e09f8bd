/*
 * io/set.h: what a worker waits for descriptors with: an epoll set or a ring. One per worker, made when a fiber of it
 * first waits for one.
 */
#ifndef WF_IO_SET_H
#define WF_IO_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/driver.h"

struct wf_fd;
struct wf_fd_ref;
struct wf_worker;

enum wf_backend { WF_EPOLL = 1, WF_URING };

/* To cancel all calls on a descriptor, or one poll. */
struct wf_asked {
    const struct wf_fd *e; /* NULL: the poll */
    uint32_t generation;   /* or the poll's ticket */
};

struct wf_set {
    struct wf_io io;          /* first */
    enum wf_backend backend;  /* const */
    uint32_t id;              /* const: no other set of this process has or had it */
    struct wf_worker *worker; /* const */
    int64_t verify_at;        /* when to look after long waits; INT64_MAX: there are none. owner: the worker */
    struct wf_set *next;      /* of all rings, or of those that a fork left behind. guarded by: a lock in set.c */
    struct wf_asked *asked;   /* what other threads want of it. guarded by: the same */
    uint32_t asked_count;     /* guarded by: the same. atomic: the worker looks */
    uint32_t asked_room;      /* guarded by: the same */
    bool there;               /* it can be used: a ring goes with the thread that made it. owner: the worker */
};

/*
 * The calling fiber's worker's, made if need be; 0 or a negative errno. Not for plain threads. `fd`: what the call is about,
 * or -1. If that is no descriptor's, -EBADF and nothing is made: what is made might get that very number.
 */
int wf_set_here(int fd, struct wf_set **out);

/*
 * Has it report what happens to a descriptor: an epoll set everything from now on, a ring the next of `events`. 0, or a negative
 * errno. On the set's worker; the caller is in wf_fd_enter.
 */
int wf_set_register(struct wf_set *set, const struct wf_fd_ref *r, uint32_t events, uint32_t *ticket);

/* A wait has ended without an event: takes back what register or arm gave this ticket for. */
void wf_set_disarm(struct wf_set *set, uint32_t ticket);

/* The same for the set with this id, if it is there; without memory the poll stays until it reports. Any thread. */
void wf_set_disarm_in(uint32_t id, uint32_t ticket);

/* Has the calls on a descriptor, of one generation, that are in the ring of a set (0: of each) cancelled. Any thread. */
void wf_set_cancel(uint32_t id, const struct wf_fd *e, uint32_t generation);

/* What other threads have asked for by wf_set_cancel. On the set's worker. */
void wf_set_do_asked(struct wf_set *set);

/* The set goes away: nothing is asked of it from now on. */
void wf_set_unlist(struct wf_set *set);

/* In the child of a fork: it is nobody's, and its descriptors are closed. */
void wf_set_forget(struct wf_set *set);

/*
 * A descriptor of the set's own is gone, of this number: the program has closed it. Says so, once in the life of a process:
 * where one was closed others mostly are.
 */
void wf_set_tell_loss(const struct wf_set *set, const char *what, int number);

/* In the child of a fork: there are no rings. */
void wf_set_in_child(void);

/* The calling fiber's ring, if it may use that for calls on `fd`: it stays on its worker, and its stack where it is. */
struct wf_set *wf_set_for_calls(int fd);

/* Has it report once, at once if it is so: for who keeps nothing. As wf_set_register. */
int wf_set_arm(struct wf_set *set, const struct wf_fd_ref *r, uint32_t events, uint32_t *ticket);

/*
 * Waits are verified from time to time, as epoll.c says: after WF_VERIFY_MS << n. n is the patience for the descriptor at first, and
 * never more than WF_VERIFY_MOST. The parts of a wait in poll.c are the same.
 */
enum { WF_VERIFY_MS = 50, WF_VERIFY_MOST = 8 };

/* Somebody begins to wait, as of now. */
static inline void wf_set_waits(struct wf_set *set, int64_t now, unsigned patience)
{
    int64_t at = now + ((int64_t)WF_VERIFY_MS * 1000000 << patience);
    if (at < set->verify_at)
        set->verify_at = at;
}

/* epoll.c */
int wf_epoll_new(struct wf_set **out, struct wf_worker *w);
int wf_epoll_register(struct wf_set *set, int fd, uint32_t generation);
int wf_epoll_arm(struct wf_set *set, int fd, uint32_t generation, uint32_t events, bool registered);

#endif
