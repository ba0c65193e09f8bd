/*
 * io/uring.c: see uring.h.
 */
#include "io/uring.h"

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/errno.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/own.h"
#include "base/panic.h"
#include "base/raw.h"
#include "base/sys.h"
#include "io/attempt.h"
#include "io/fd.h"
#include "io/hangup.h"
#include "io/set.h"
#include "sched/worker.h"

enum {
    AHEAD = 4,
    ENTRIES = 256,
    SOON_NS = 10000000,
    CANCEL_AT_ONCE = 128,
    ERESTARTSYS = 512, /* the first of those by which the kernel tells itself to make a call again */
};

/* What a completion is for, in the lowest bits of its user_data. */
enum { CALL = 0, POLLED = 1, WOKEN = 2, NOBODY = 3, MEANING = 3 };

#define TICK ((uint64_t)1 << 2 | WOKEN) /* a second is over */

#define MOST_BYTES 0x7ffff000 /* of one read or write, as everywhere */

/*
 * If there is no room the caller polls for it. The kernel's own poll also ends, again and again, when the other side has
 * closed its half, and then it lets a thread of the ring's wait: one for each such call.
 */
#define SENDING (MSG_NOSIGNAL | MSG_DONTWAIT)

/* A call in the kernel's hands; on the stack of the fiber that waits for it. owner: the worker */
struct call {
    struct call *next, *prev; /* of the ring's */
    struct wf_fd_ref of;      /* of.e NULL: of no descriptor */
    struct wf_sleeper *who;
    ptrdiff_t result;
    bool done;
    uint32_t asked; /* the last of the ring's `asks` in which the kernel was asked to cancel it; 0: none */
};

/*
 * A place for a poll. Its ticket is its number and, above that, how often it was used: an old one fits nothing.
 *
 * The kernel reports the end of the other side (POLLRDHUP), and at once, also to who did not ask for it. Who waits for room
 * to write would be told of nothing else. Such a poll is made anew as one that stays, and reports only what happens
 * from then on; when what was asked for has come it is cancelled.
 */
struct poll {
    struct wf_fd_ref of; /* of.e NULL: it is free */
    uint32_t ticket;
    union {
        struct {
            uint32_t events : 28;    /* what was asked for, and what is reported in any case */
            uint32_t stays : 1;      /* as above */
            uint32_t cancelled : 1;  /* the kernel was asked to */
            uint32_t for_hangup : 1; /* nobody waits for it: see io/hangup.h */
            uint32_t is_left : 1;    /* its ring has gone, and the next one gets it (leave). It is no user of `of` */
        };
        uint32_t next_free; /* of a free one */
    };
};

_Static_assert(sizeof(struct poll) == 24, "there is one for each that waits");

enum { EVENTS = 0xffff }; /* all that poll(2) has */

enum { PLACE_BITS = 20, PLACE = (1 << PLACE_BITS) - 1, NO_PLACE = PLACE };

/* owner: the worker, but for what `wake` uses */
struct uring {
    struct wf_set set;
    struct io_uring ring;
    int wake;                      /* an eventfd. atomic: who wakes looks. set under `fix` */
    struct wf_lock fix;            /* of who gives it another `wake` */
    uint32_t wake_fixed;           /* atomic: it has another one, which the worker has to poll */
    bool wake_armed;               /* it is being polled */
    bool ticks;                    /* the ring has a TICK */
    bool direct;                   /* the worker's thread enters the ring without its descriptor */
    struct call *calls;            /* in the kernel's hands */
    uint32_t asks;                 /* how often calls of a descriptor were to be cancelled */
    struct poll *polls;            /* places */
    uint32_t poll_room, poll_used; /* the number of places; how many of them were ever used: the rest is untouched */
    uint32_t free_poll;            /* the first used one that is free, or NO_PLACE */
    uint32_t armed;                /* polls that have not reported */
    uint32_t left;                 /* polls with is_left: not among the armed ones */
    bool leaves;                   /* the ring is about to go */
};

static struct io_uring_sqe *next_sqe(struct uring *p)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&p->ring);
    if (wf_likely(sqe))
        return sqe;
    io_uring_submit(&p->ring); /* it takes all: the kernel has copied them when it returns */
    return io_uring_get_sqe(&p->ring);
}

static char
    rings_memory; /* stands for it: where one ring was the next may be, and TSan does not see them come and go */

static void arm_again(struct uring *p);
static void arm_left(struct uring *p);
static void free_poll(struct uring *p, struct poll *q);

static int make_ring(struct uring *p)
{
    static const unsigned wishes[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
        0,
    };
    int rc = -EINVAL;
    for (size_t i = 0; rc == -EINVAL && i < sizeof wishes / sizeof wishes[0]; i++) {
        struct io_uring_params params = {.flags = wishes[i] | IORING_SETUP_CLAMP};
        rc = wf_sys_uring(ENTRIES, &p->ring, &params);
    }
    p->set.there = rc == 0;
    p->direct = rc == 0 && wf_sys_uring_enter_directly(&p->ring);
    p->wake_armed = p->ticks = false;
    wf_tsan_acquire(&rings_memory);
    if (wf_unlikely(rc == 0 && p->armed > 0)) /* they were in a ring that is gone */
        arm_again(p);
    if (wf_unlikely(rc == 0 && p->left > 0))
        arm_left(p);
    return rc;
}

static void end_ring(struct uring *p)
{
    p->set.there = false; /* before its descriptor is gone: a child that is forked now has no use for it */
    wf_tsan_release(&rings_memory);
    wf_sys_uring_end(&p->ring);
}

int wf_uring_make(struct wf_set *set)
{
    return make_ring((struct uring *)set);
}

static void arm_wake(struct uring *p)
{
    if (wf_unlikely(wf_load_acquire(&p->wake_fixed)) && wf_exchange(&p->wake_fixed, 0)) /* pairs with fix_wake */
        p->wake_armed = false; /* the poll of the one before never ends */
    struct io_uring_sqe *sqe = p->wake_armed ? NULL : next_sqe(p);
    if (!sqe)
        return;
    io_uring_prep_poll_add(sqe, wf_load(&p->wake), POLLIN);
    io_uring_sqe_set_data64(sqe, WOKEN);
    p->wake_armed = true;
}

/*
 * Has the ring wake up once in a second. If the program closes the eventfd and the ring's number while the worker sleeps, no other
 * thread can reach the ring any more: a waker makes another eventfd (fix_wake), and the worker finds that when it wakes up.
 */
static void arm_tick(struct uring *p)
{
    static struct __kernel_timespec second = {.tv_sec = 1};
    struct io_uring_sqe *sqe = p->ticks ? NULL : next_sqe(p);
    if (!sqe)
        return;
    io_uring_prep_timeout(sqe, &second, 0, 0);
    io_uring_sqe_set_data64(sqe, TICK);
    p->ticks = true;
}

static void prepare(struct io_uring_sqe *sqe, const struct wf_request *r)
{
    void *memory = (void *)(uintptr_t)r->memory;
    switch (r->call) {
    case WF_CALL_READV:
        io_uring_prep_readv(sqe, r->fd, memory, (unsigned)r->size, (uint64_t)-1);
        break;
    case WF_CALL_WRITEV:
        io_uring_prep_writev2(sqe, r->fd, memory, (unsigned)r->size, (uint64_t)-1, r->flags);
        break;
    case WF_CALL_RECV:
        io_uring_prep_recv(sqe, r->fd, memory, r->size < MOST_BYTES ? r->size : MOST_BYTES, r->flags);
        break;
    case WF_CALL_SEND:
        io_uring_prep_send(sqe, r->fd, memory, r->size < MOST_BYTES ? r->size : MOST_BYTES, r->flags | SENDING);
        break;
    case WF_CALL_RECVMSG:
        io_uring_prep_recvmsg(sqe, r->fd, memory, (unsigned)r->flags);
        break;
    case WF_CALL_SENDMSG:
        io_uring_prep_sendmsg(sqe, r->fd, memory, (unsigned)r->flags | SENDING);
        break;
    case WF_CALL_ACCEPT:
        io_uring_prep_accept(sqe, r->fd, memory, r->accepted, r->flags);
        break;
    case WF_CALL_CONNECT:
        io_uring_prep_connect(sqe, r->fd, memory, (socklen_t)r->size);
        break;
    case WF_CALL_READ_AT:
        io_uring_prep_read(sqe, r->fd, memory, (unsigned)r->size, (uint64_t)r->offset);
        break;
    case WF_CALL_WRITE_AT:
        io_uring_prep_write(sqe, r->fd, memory, (unsigned)r->size, (uint64_t)r->offset);
        break;
    case WF_CALL_FSYNC:
        io_uring_prep_fsync(sqe, r->fd, 0);
        break;
    case WF_CALL_OPEN:
        io_uring_prep_openat(sqe, AT_FDCWD, memory, r->flags, (mode_t)r->size);
        io_uring_sqe_set_flags(sqe, IOSQE_ASYNC); /* else it opens a FIFO as with O_NONBLOCK */
        break;
    }
}

static bool nothing_to_do(struct wf_sleeper *me, void *arg)
{
    (void)me, (void)arg;
    return true;
}

/*
 * Asks the kernel to cancel a call. False: there was no place for the request. A request may be lost: while the kernel is about to
 * try a call again it does not find the call (ENOENT), and the call goes on to wait. So whoever needs the call to end asks
 * again until it has ended.
 */
static bool cancel(struct uring *p, struct call *c)
{
    struct io_uring_sqe *sqe = next_sqe(p);
    if (!sqe)
        return false;
    if (wf_likely(wf_sys_may(WF_SYS_RING_CANCEL)))
        io_uring_prep_cancel(sqe, c, 0);
    else
        io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, NOBODY);
    c->asked = p->asks;
    return true;
}

/* Cancels a call, and waits until the kernel is done with it, whatever may come. */
static void cancel_and_wait(struct uring *p, struct call *c)
{
    weft_fiber *f = c->who->fiber;
    bool was = wf_section_begin(f);
    for (weft_span pause = WEFT_MS; !c->done; pause = wf_cancel_again(pause)) {
        cancel(p, c);
        wf_wait(c->who, "io_uring", nothing_to_do, NULL, weft_in(pause));
    }
    wf_section_end(f, was);
}

static const char *what(const struct wf_request *r)
{
    switch (r->call) {
    case WF_CALL_WRITEV:
    case WF_CALL_SEND:
    case WF_CALL_SENDMSG:
    case WF_CALL_WRITE_AT:
        return "write";
    case WF_CALL_CONNECT:
        return "connect";
    case WF_CALL_FSYNC:
        return "fsync";
    case WF_CALL_OPEN:
        return "open";
    default:
        return "read";
    }
}

static void list_call(struct uring *p, struct call *c)
{
    c->prev = NULL;
    c->next = p->calls;
    if (c->next)
        c->next->prev = c;
    p->calls = c;
}

static void unlist_call(struct uring *p, struct call *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        p->calls = c->next;
    if (c->next)
        c->next->prev = c->prev;
}

ptrdiff_t wf_uring_call(struct wf_set *set, const struct wf_fd_ref *of, const struct wf_request *r, weft_time deadline)
{
    struct uring *p = (struct uring *)set;
    struct wf_sleeper own, *me = wf_sleeper(&own);
    struct call c = {.who = me};
    if (wf_likely(of)) {
        c.of = *of;
        if (!wf_fd_enter(of, 0)) /* until its completion */
            return -EBADF;
        if (wf_unlikely(!wf_fd_in_ring(of, set->id))) {
            wf_fd_leave(of);
            return -EBADF;
        }
    }
    struct io_uring_sqe *sqe = next_sqe(p);
    if (wf_unlikely(!sqe)) {
        if (of)
            wf_fd_leave(of);
        return -EAGAIN;
    }
    prepare(sqe, r);
    io_uring_sqe_set_data64(sqe, (uint64_t)(uintptr_t)&c | CALL);
    list_call(p, &c);
    wf_store(&set->worker->counts.watches, set->worker->counts.watches + 1);
    int rc = wf_wait(me, what(r), nothing_to_do, NULL, deadline);
    if (wf_unlikely(!c.done))
        cancel_and_wait(p, &c);
    wf_store(&set->worker->counts.watches, set->worker->counts.watches - 1);
    if (rc < 0 && c.result == -EINTR) /* that is how one that waits in the kernel is cancelled */
        return rc;
    if (wf_likely(c.result != -ECANCELED))
        return c.result;
    return rc < 0 ? rc : of ? -EBADF : -ECANCELED; /* nobody else cancels calls but who closes */
}

static uint64_t poll_tag(const struct poll *q)
{
    return (uint64_t)q->ticket << 2 | POLLED;
}

static bool make_places(struct uring *p)
{
    uint32_t room = p->poll_room ? 2 * p->poll_room : 32;
    struct poll *polls = room < NO_PLACE ? wf_sys_malloc(room * sizeof *polls) : NULL;
    if (!polls)
        return false;
    if (p->poll_used > 0)
        memcpy(polls, p->polls, p->poll_used * sizeof *polls);
    wf_sys_free(p->polls);
    p->polls = polls;
    p->poll_room = room;
    return true;
}

static bool has_place(const struct uring *p)
{
    return p->free_poll != NO_PLACE || p->poll_used < p->poll_room;
}

/* The caller knows that there is a place (has_place). */
static struct poll *take_place(struct uring *p)
{
    uint32_t at = p->free_poll;
    if (at != NO_PLACE) {
        p->free_poll = p->polls[at].next_free;
        return &p->polls[at];
    }
    at = p->poll_used++;
    p->polls[at] = (struct poll){.ticket = at};
    return &p->polls[at];
}

/*
 * What the kernel is asked for. A ring's poll for urgent data alone is not woken when that comes: it looks at wakes for all
 * but POLLPRI. Their masks have POLLRDBAND, which no state of a socket has.
 */
static uint32_t asked_for(const struct poll *q)
{
    return q->events & POLLPRI ? q->events | POLLRDBAND : q->events;
}

/* The ticket of a place that is used once more. Never 0: elsewhere that stands for no poll. */
static uint32_t next_ticket(uint32_t ticket)
{
    ticket += 1 << PLACE_BITS;
    return ticket != 0 ? ticket : 1 << PLACE_BITS;
}

int wf_uring_arm(struct wf_set *set, const struct wf_fd_ref *r, uint32_t events, uint32_t *ticket)
{
    struct uring *p = (struct uring *)set;
    if (wf_unlikely(!(wf_load(&r->e->word) & WF_FD_POLLS))) {
        if (wf_fd_is_file(r->fd))
            return -EPERM; /* as epoll says */
        wf_fd_learn(r, 0, WF_FD_POLLS);
    }
    if (!has_place(p) && !make_places(p))
        return -ENOMEM;
    struct io_uring_sqe *sqe = next_sqe(p);
    if (!sqe)
        return -EAGAIN;
    struct poll *q = take_place(p);
    q->of = *r;
    q->events = (events & EVENTS) | POLLERR | POLLHUP | POLLNVAL;
    q->for_hangup = (events & WF_FD_HANGUP) != 0;
    q->ticket = next_ticket(q->ticket);
    q->stays = q->cancelled = q->is_left = false;
    p->armed++;
    *ticket = q->ticket;
    io_uring_prep_poll_add(sqe, r->fd, asked_for(q));
    io_uring_sqe_set_data64(sqe, poll_tag(q));
    return 0;
}

/* In a ring that has none of them. */
WF_COLD static void arm_again(struct uring *p)
{
    for (uint32_t i = 0; i < p->poll_used; i++) {
        struct poll *q = &p->polls[i];
        if (q->of.e && q->is_left)
            continue;
        if (q->of.e && (q->cancelled || wf_fd_generation(q->of.e) != q->of.generation)) {
            free_poll(p, q); /* a close waits for it, and has asked for its end already */
            continue;
        }
        struct io_uring_sqe *sqe = q->of.e ? next_sqe(p) : NULL;
        if (!sqe)
            continue;
        q->stays = false;
        io_uring_prep_poll_add(sqe, q->of.fd, asked_for(q));
        io_uring_sqe_set_data64(sqe, poll_tag(q));
    }
}

/* It has reported what nobody asked for. False: it is not made anew. */
static bool arm_to_stay(struct uring *p, struct poll *q)
{
    bool over = q->cancelled ||
                wf_fd_generation(q->of.e) != q->of.generation; /* who cancels it has looked, or is going to */
    struct io_uring_sqe *sqe = over ? NULL : next_sqe(p);
    if (!sqe)
        return false;
    io_uring_prep_poll_multishot(sqe, q->of.fd, asked_for(q));
    io_uring_sqe_set_data64(sqe, poll_tag(q));
    q->stays = true;
    return true;
}

static bool cancel_poll(struct uring *p, struct poll *q)
{
    struct io_uring_sqe *sqe = q->cancelled ? NULL : next_sqe(p);
    if (!sqe)
        return false;
    io_uring_prep_cancel64(sqe, poll_tag(q), 0);
    io_uring_sqe_set_data64(sqe, NOBODY);
    q->cancelled = true;
    return true;
}

void wf_uring_disarm(struct wf_set *set, uint32_t ticket)
{
    struct uring *p = (struct uring *)set;
    struct poll *q = set->there && (ticket & PLACE) < p->poll_used ? &p->polls[ticket & PLACE] : NULL;
    if (q && q->of.e && q->ticket == ticket)
        cancel_poll(p, q);
}

static void complete_call(struct uring *p, struct call *c, int32_t result)
{
    c->result = result <= -ERESTARTSYS ? -EINTR : result; /* some calls forget to say it so (open of a FIFO) */
    c->done = true;
    unlist_call(p, c);
    if (wf_likely(c->of.e))
        wf_fd_leave(&c->of);
    if (wf_settle(c->who, 0))
        wf_ready(c->who);
}

static void free_place(struct uring *p, struct poll *q)
{
    q->of.e = NULL;
    q->next_free = p->free_poll;
    p->free_poll = q->ticket & PLACE;
}

static void free_poll(struct uring *p, struct poll *q)
{
    struct wf_fd_ref of = q->of;
    free_place(p, q);
    p->armed--;
    wf_fd_leave(&of); /* entered by wf_set_arm */
}

/*
 * The ring goes with its thread, and the worker's next ring is to have the poll: the subscribed fiber may be another
 * scheduler's, and wait on. Meanwhile the descriptor may be closed, so the poll is no user of it.
 */
WF_COLD static void leave_poll(struct uring *p, struct poll *q)
{
    q->is_left = true;
    p->left++;
    p->armed--;
    wf_fd_leave(&q->of); /* as above */
}

/* In the next ring. */
WF_COLD static void arm_left(struct uring *p)
{
    for (uint32_t i = 0; p->left > 0 && i < p->poll_used; i++) {
        struct poll *q = &p->polls[i];
        if (!q->of.e || !q->is_left)
            continue;
        struct wf_fd_ref of = q->of;
        uint32_t ticket = q->ticket;
        free_place(p, q);
        p->left--;
        wf_hangup_poll_ended(&of, &p->set, ticket, true);
    }
}

/* A poll for a hangup that ends without one is armed again, unless its descriptor goes away. */
static void end_poll(struct uring *p, struct poll *q, int32_t result, bool for_hangup)
{
    struct wf_fd_ref of = q->of;
    uint32_t ticket = q->ticket;
    bool again = result >= 0 || (result == -ECANCELED && q->cancelled);
    if (wf_unlikely(for_hangup && p->leaves)) {
        leave_poll(p, q);
        return;
    }
    free_poll(p, q);
    if (wf_unlikely(for_hangup))
        wf_hangup_poll_ended(&of, &p->set, ticket, again);
}

/* One that was cancelled is nobody's: who cancelled it knows. `more`: it is still there. */
static void complete_poll(struct uring *p, uint32_t ticket, int32_t result, bool more)
{
    struct poll *q = &p->polls[ticket & PLACE];
    bool wanted = result < 0 || (uint32_t)result & q->events, for_hangup = q->for_hangup;
    if (!more && !wanted && arm_to_stay(p, q))
        more = true;
    else if (result == -EINVAL && q->stays && !for_hangup)
        result = (int32_t)q->events; /* an old kernel has none that stay: who waits has to try again and again */
    if (result >= 0)
        wf_fd_event(q->of.fd, q->of.generation, (uint32_t)result | WF_FD_UNSURE); /* it waited in the ring */
    else if (result != -ECANCELED && !for_hangup)                                 /* nobody waits for that one */
        wf_fd_fail(q->of.fd, q->of.generation,
                   result == -EINVAL ? -EPERM : result); /* a kind that has nothing to wait for */
    q = &p->polls[ticket & PLACE]; /* a watch may have been armed again: there may be more places */
    if (!more)
        end_poll(p, q, result, for_hangup);
    else if (wanted)
        cancel_poll(p, q);
}

static void complete(struct uring *p, const struct io_uring_cqe *cqe)
{
    uint64_t data = cqe->user_data;
    switch (data & MEANING) {
    case CALL:
        complete_call(p, (struct call *)(uintptr_t)data, cqe->res);
        break;
    case POLLED:
        complete_poll(p, (uint32_t)(data >> 2), cqe->res, cqe->flags & IORING_CQE_F_MORE);
        break;
    case WOKEN: {
        eventfd_t count;
        if (wf_unlikely(data == TICK)) {
            p->ticks = false;
            break;
        }
        p->wake_armed = false;
        wf_raw_eventfd_read(wf_load(&p->wake), &count);
        break;
    }
    default:
        break;
    }
}

/* The call that a completion is of, or NULL. It is there until that is seen to. */
static inline __attribute__((always_inline)) const struct call *call_of(const struct uring *p, unsigned at)
{
    uint64_t data = p->ring.cq.cqes[at & p->ring.cq.ring_mask].user_data;
    return (data & MEANING) == CALL ? (const struct call *)(uintptr_t)data : NULL;
}

/* Of completions a few steps ahead: the call, then who made it; nobody has touched either for long. */
static inline __attribute__((always_inline)) void fetch_ahead(const struct uring *p, unsigned head, unsigned left)
{
    if (left > 2 * AHEAD)
        __builtin_prefetch(call_of(p, head + 2 * AHEAD), 1);
    const struct call *c = left > AHEAD ? call_of(p, head + AHEAD) : NULL;
    if (c) {
        __builtin_prefetch(c->who, 1);
        __builtin_prefetch((const char *)c->who - 64, 1); /* it is in its fiber's record */
        __builtin_prefetch((const char *)c->who - 128, 1);
        __builtin_prefetch(c->of.e, 1);
    }
}

static unsigned complete_all(struct uring *p)
{
    unsigned head, n = 0, ready = io_uring_cq_ready(&p->ring);
    struct io_uring_cqe *cqe;
    io_uring_for_each_cqe(&p->ring, head, cqe)
    {
        fetch_ahead(p, head, n < ready ? ready - n : 0);
        complete(p, cqe);
        n++;
    }
    io_uring_cq_advance(&p->ring, n);
    return n;
}

/* Whether there are completions that the kernel has yet to hand over. */
static bool has_more(struct uring *p)
{
    return __atomic_load_n(p->ring.sq.kflags, __ATOMIC_RELAXED) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
}

static bool has_work(struct uring *p)
{
    return io_uring_sq_ready(&p->ring) > 0 || has_more(p);
}

/* All that has come to its end: the kernel hands over some 20 at a time. */
static void complete_now(struct uring *p)
{
    do {
        io_uring_submit_and_get_events(&p->ring);
        complete_all(p);
    } while (has_more(p));
}

/* Cancels some calls and polls of a descriptor's generation, polls from `*place` downwards. True: there may be more. */
static bool cancel_some(struct uring *p, const struct wf_fd *e, uint32_t generation, uint32_t *place)
{
    unsigned n = 0;
    for (struct call *c = p->calls; c && n < CANCEL_AT_ONCE; c = c->next) {
        if (c->of.e != e || c->of.generation != generation || c->asked == p->asks)
            continue;
        if (!cancel(p, c))
            return true; /* there was no place for it in the ring: again, when the kernel has taken some */
        n++;
    }
    for (; p->armed > 0 && *place > 0 && n < CANCEL_AT_ONCE; --*place) {
        struct poll *q = &p->polls[*place - 1];
        if (q->of.e == e && q->of.generation == generation)
            n += cancel_poll(p, q);
    }
    return n == CANCEL_AT_ONCE;
}

/*
 * The kernel looks for what is to be cancelled in a few lists (16), the newest first, in which it stays until its
 * completion is handed over: many at once would take time that grows with the square of their number. (All calls on one
 * descriptor by one request, IORING_ASYNC_CANCEL_FD, is ten times worse: it begins anew for each that it finds.)
 */
void wf_uring_cancel(struct wf_set *set, const struct wf_fd *e, uint32_t generation)
{
    struct uring *p = (struct uring *)set;
    uint32_t place = p->poll_used;
    p->asks++;
    while (set->there && cancel_some(p, e, generation, &place))
        complete_now(p);
}

/* ---- what the program has closed ---- */

/*
 * Makes another ring, with the polls of the one that is gone. Only where a ring cannot be entered directly does it come to
 * that. What was closed is a number: the kernel goes on with the calls that it has been given, and writes to their memory, and
 * there is no way left to learn when they are over.
 */
WF_COLD static void make_anew(struct uring *p)
{
    if (p->calls)
        wf_panic("io_uring",
                 "the program has closed the ring of worker %u, number %d, while calls are in it: close no "
                 "descriptor that is not yours, or leave out those that weft_own_next tells",
                 p->set.worker->index, p->ring.ring_fd);
    wf_set_tell_loss(&p->set, "ring", p->ring.ring_fd);
    end_ring(p);
    make_ring(p); /* if that fails, the next look tries again */
}

/* Has the worker's ring complete a wake, by another ring. False: its number is gone too. */
WF_COLD static bool nudge(struct uring *p)
{
    struct io_uring ring;
    struct io_uring_params params = {0};
    if (wf_sys_uring(1, &ring, &params) != 0)
        return false;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    struct io_uring_cqe *cqe = NULL;
    io_uring_prep_msg_ring(sqe, p->ring.ring_fd, 0, WOKEN, 0);
    bool done = io_uring_submit_and_wait(&ring, 1) == 1 && io_uring_peek_cqe(&ring, &cqe) == 0 && cqe->res == 0;
    wf_sys_uring_end(&ring);
    return done;
}

/* Its eventfd does not take a wake. Any thread. */
WF_COLD static void fix_wake(struct uring *p)
{
    wf_lock(&p->fix);
    if (!wf_own_is(p->wake, "[eventfd]")) {
        int wake = wf_sys_eventfd();
        if (wake >= 0) {
            wf_set_tell_loss(&p->set, "eventfd", p->wake);
            wf_own_forget(p->wake);
            wf_store(&p->wake, wake);
            wf_store_release(&p->wake_fixed, 1); /* pairs with arm_wake */
        }
        nudge(p);
    }
    wf_unlock(&p->fix);
}

/* ---- */

/* Waits for events, or looks; 0 or more, or a negative errno. */
static int enter(struct uring *p, int64_t ns)
{
    if (ns == 0)
        return has_work(p) ? io_uring_submit_and_get_events(&p->ring) : 0;
    if (io_uring_cq_ready(&p->ring) > 0)
        return io_uring_submit(&p->ring);
    struct __kernel_timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    struct io_uring_cqe *first;
    return io_uring_submit_and_wait_timeout(&p->ring, &first, 1, ns < 0 ? NULL : &t, NULL);
}

static void poll_ring(struct wf_io *io, int64_t ns)
{
    struct uring *p = (struct uring *)io;
    int kept = errno;
    if (wf_unlikely(!p->set.there && make_ring(p) != 0)) {
        eventfd_t count;
        if ((p->armed > 0 || p->left > 0) && (ns < 0 || ns > SOON_NS))
            ns = SOON_NS; /* what was in a ring that is gone waits for the next one */
        int64_t until = ns < 0 ? INT64_MAX : ns == 0 ? INT64_MIN : wf_clock_now() + ns;
        wf_poll_until(&(struct pollfd){.fd = wf_load(&p->wake), .events = POLLIN}, 1,
                      until); /* of a worker that came back */
        wf_raw_eventfd_read(wf_load(&p->wake), &count);
        wf_set_do_asked(&p->set);
        errno = kept;
        return;
    }
    arm_wake(p);
    if (ns < 0 || ns > WEFT_SEC)
        arm_tick(p);
    int rc = enter(p, ns);
    complete_all(p);
    if (wf_unlikely(rc == -EBADF || rc == -EOPNOTSUPP) && !p->direct) /* closed, or another file by now */
        make_anew(p);
    wf_set_do_asked(&p->set);
    errno = kept;
}

static void wake(struct wf_io *io)
{
    struct uring *p = (struct uring *)io;
    int kept = errno;
    if (wf_unlikely(wf_raw_eventfd_write(wf_load(&p->wake), 1) != 0) && errno != EAGAIN)
        fix_wake(p);
    errno = kept;
}

/* Polls that nobody waits for any more hold their descriptors: they report before the ring goes. */
static void end_polls(struct uring *p)
{
    for (int round = 0; p->armed > 0 && round < 1000; round++) {
        struct io_uring_sqe *sqe = next_sqe(p);
        struct io_uring_cqe *first;
        struct __kernel_timespec t = {.tv_nsec = 1000000};
        if (sqe) {
            io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
            io_uring_sqe_set_data64(sqe, NOBODY);
        }
        io_uring_submit_and_wait_timeout(&p->ring, &first, 1, &t, NULL);
        complete_all(p);
    }
}

static void leave(struct wf_io *io)
{
    struct uring *p = (struct uring *)io;
    int kept = errno;
    if (p->set.there) {
        wf_set_do_asked(&p->set);
        io_uring_submit_and_get_events(&p->ring);
        complete_all(p);
        p->leaves = true;
        end_polls(p);
        p->leaves = false;
        end_ring(p);
    }
    wf_set_do_asked(&p->set);
    errno = kept;
}

/* The number may be the program's by now. */
static void give_up_wake(const struct uring *p)
{
    if (wf_own_is(p->wake, "[eventfd]"))
        wf_own_close(p->wake);
    else
        wf_own_forget(p->wake);
}

static void drop(struct wf_io *io)
{
    struct uring *p = (struct uring *)io;
    int kept = errno;
    wf_set_unlist(&p->set);
    leave(io);
    give_up_wake(p);
    errno = kept;
    wf_sys_free(p->set.asked);
    wf_sys_free(p->polls);
    wf_sys_free(p);
    wf_attempt_drop();
}

/* Gives up the memory that the kernel shares with the parent, without a call on the ring. */
static void forget(struct wf_io *io)
{
    struct uring *p = (struct uring *)io;
    int kept = errno;
    if (p->set.there)
        wf_sys_uring_end(&p->ring);
    p->set.there = false;
    give_up_wake(p);
    errno = kept;
    wf_set_forget(&p->set);
}

static const struct wf_io_ops ops = {.poll = poll_ring, .wake = wake, .leave = leave, .drop = drop, .forget = forget};

int wf_uring_new(struct wf_set **out, struct wf_worker *w)
{
    struct uring *p = wf_sys_malloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    memset(p, 0, sizeof *p);
    p->set = (struct wf_set){.io.ops = &ops, .backend = WF_URING, .worker = w, .verify_at = INT64_MAX};
    p->free_poll = NO_PLACE;
    p->wake = wf_sys_eventfd();
    int rc = p->wake < 0 ? p->wake : make_ring(p);
    if (rc == 0) {
        *out = &p->set;
        return 0;
    }
    if (p->wake >= 0)
        wf_own_close(p->wake);
    wf_sys_free(p);
    return rc;
}
