/*
 * io/uring.c: see uring.h.
 */
#include "io/uring.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/raw.h"
#include "base/sys.h"
#include "io/attempt.h"
#include "io/fd.h"
#include "io/set.h"
#include "sched/worker.h"

enum {
    AHEAD = 4,
    ENTRIES = 256,
    CANCEL_AT_ONCE = 128,
    ERESTARTSYS = 512, /* the first of those by which the kernel tells itself to make a call again */
};

/* What a completion is for, in the lowest bits of its user_data. */
enum { CALL = 0, POLLED = 1, WOKEN = 2, NOBODY = 3, MEANING = 3 };

#define MOST_BYTES 0x7ffff000 /* of one read or write, as everywhere */

/*
 * If there is no room the caller polls for it. The kernel's own poll also ends, again and again, when the other side has
 * closed its half, and then it lets a thread of the ring's wait: one for each such call.
 */
#define SENDING (MSG_NOSIGNAL | MSG_DONTWAIT)

/* A call in the kernel's hands; on the stack of the fiber that waits for it. owner: the worker */
struct call {
    struct call *next, *prev; /* of the ring's */
    struct wf_fd *e;
    uint32_t generation;
    struct wf_sleeper *who;
    ptrdiff_t result;
    bool done;
    bool cancelled; /* the kernel was asked to */
};

/*
 * A place for a poll. Its ticket is its number and, above that, how often it was used: an old one fits nothing.
 *
 * The kernel reports the end of the other side (POLLRDHUP), and at once, also to who did not ask for it. Who waits for room
 * to write would be told of nothing else. Such a poll is made anew as one that stays, and reports only what happens
 * from then on; when what was asked for has come it is cancelled.
 */
struct poll {
    struct wf_fd *e; /* NULL: it is free */
    int fd;
    uint32_t generation;
    uint32_t events; /* what was asked for, and what is reported in any case */
    uint32_t ticket;
    uint32_t next_free;
    bool stays;
    bool cancelled; /* the kernel was asked to */
};

enum { PLACE_BITS = 20, PLACE = (1 << PLACE_BITS) - 1, NO_PLACE = PLACE };

/* owner: the worker, but for what `wake` uses */
struct uring {
    struct wf_set set;
    struct io_uring ring;
    int wake;                      /* const: an eventfd */
    bool wake_armed;               /* it is being polled */
    struct call *calls;            /* in the kernel's hands */
    struct poll *polls;            /* places */
    uint32_t poll_room, free_poll; /* of polls; the first that is free, or NO_PLACE */
    uint32_t armed;                /* polls that have not reported */
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
    p->wake_armed = false;
    wf_tsan_acquire(&rings_memory);
    return rc;
}

int wf_uring_make(struct wf_set *set)
{
    return make_ring((struct uring *)set);
}

static void arm_wake(struct uring *p)
{
    struct io_uring_sqe *sqe = p->wake_armed ? NULL : next_sqe(p);
    if (!sqe)
        return;
    io_uring_prep_poll_add(sqe, p->wake, POLLIN);
    io_uring_sqe_set_data64(sqe, WOKEN);
    p->wake_armed = true;
}

static void prepare(struct io_uring_sqe *sqe, const struct wf_request *r)
{
    void *memory = (void *)(uintptr_t)r->memory;
    switch (r->call) {
    case WF_CALL_READV:
        io_uring_prep_readv(sqe, r->fd, memory, (unsigned)r->size, (uint64_t)-1);
        break;
    case WF_CALL_WRITEV:
        io_uring_prep_writev(sqe, r->fd, memory, (unsigned)r->size, (uint64_t)-1);
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

/* False: it is not, and completes by itself or when the descriptor is closed. */
static bool cancel(struct uring *p, struct call *c)
{
    struct io_uring_sqe *sqe = next_sqe(p);
    if (!sqe)
        return false;
    io_uring_prep_cancel(sqe, c, 0);
    io_uring_sqe_set_data64(sqe, NOBODY);
    c->cancelled = true;
    return true;
}

/* Until the kernel is done with it, whatever may come. */
static void wait_deaf(struct call *c)
{
    weft_fiber *f = c->who->fiber;
    bool was = f->deaf;
    f->deaf = true;
    while (!c->done)
        wf_wait(c->who, "io_uring", nothing_to_do, NULL, WEFT_FOREVER);
    f->deaf = was;
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

ptrdiff_t wf_uring_call(struct wf_set *set, struct wf_fd *e, uint32_t generation, const struct wf_request *r,
                        weft_time deadline)
{
    struct uring *p = (struct uring *)set;
    struct wf_sleeper own, *me = wf_sleeper(&own);
    struct call c = {.who = me, .e = e, .generation = generation};
    if (wf_likely(e)) {
        if (!wf_fd_enter(e, generation, 0)) /* until its completion */
            return -EBADF;
        wf_fd_in_ring(e, set->id);
        if (wf_unlikely(wf_fd_generation(e) !=
                        generation)) { /* who closes it has looked before, and cancels nothing here */
            wf_fd_exit(e, 0, 0);
            return -EBADF;
        }
    }
    struct io_uring_sqe *sqe = next_sqe(p);
    if (wf_unlikely(!sqe)) {
        if (e)
            wf_fd_exit(e, 0, 0);
        return -EAGAIN;
    }
    prepare(sqe, r);
    io_uring_sqe_set_data64(sqe, (uint64_t)(uintptr_t)&c | CALL);
    list_call(p, &c);
    wf_store(&set->worker->counts.watches, set->worker->counts.watches + 1);
    int rc = wf_wait(me, what(r), nothing_to_do, NULL, deadline);
    if (wf_unlikely(!c.done)) {
        cancel(p, &c);
        wait_deaf(&c);
    }
    wf_store(&set->worker->counts.watches, set->worker->counts.watches - 1);
    if (rc < 0 && c.result == -EINTR) /* that is how one that waits in the kernel is cancelled */
        return rc;
    if (wf_likely(c.result != -ECANCELED))
        return c.result;
    return rc < 0 ? rc : e ? -EBADF : -ECANCELED; /* nobody else cancels calls but who closes */
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
    if (p->poll_room > 0)
        memcpy(polls, p->polls, p->poll_room * sizeof *polls);
    for (uint32_t i = p->poll_room; i < room; i++)
        polls[i] = (struct poll){.ticket = i, .next_free = i + 1 < room ? i + 1 : NO_PLACE};
    p->free_poll = p->poll_room;
    wf_sys_free(p->polls);
    p->polls = polls;
    p->poll_room = room;
    return true;
}

/*
 * What the kernel is asked for. A ring's poll for urgent data alone is not woken when that comes: it looks at wakes for all
 * but POLLPRI. Their masks have POLLRDBAND, which no state of a socket has.
 */
static uint32_t asked_for(const struct poll *q)
{
    return q->events & POLLPRI ? q->events | POLLRDBAND : q->events;
}

int wf_uring_arm(struct wf_set *set, struct wf_fd *e, int fd, uint32_t generation, uint32_t events, uint32_t *ticket)
{
    struct uring *p = (struct uring *)set;
    if (wf_unlikely(!(wf_load(&e->word) & WF_FD_POLLS))) {
        if (wf_fd_is_file(fd))
            return -EPERM; /* as epoll says */
        wf_or(&e->word, WF_FD_POLLS);
    }
    if (p->free_poll == NO_PLACE && !make_places(p))
        return -ENOMEM;
    struct io_uring_sqe *sqe = next_sqe(p);
    if (!sqe)
        return -EAGAIN;
    struct poll *q = &p->polls[p->free_poll];
    p->free_poll = q->next_free;
    q->e = e;
    q->fd = fd;
    q->generation = generation;
    q->events = (events & ~WF_FD_ANY) | POLLERR | POLLHUP | POLLNVAL;
    q->ticket += 1 << PLACE_BITS;
    q->stays = q->cancelled = false;
    p->armed++;
    *ticket = q->ticket;
    io_uring_prep_poll_add(sqe, fd, asked_for(q));
    io_uring_sqe_set_data64(sqe, poll_tag(q));
    return 0;
}

/* It has reported what nobody asked for. False: it is not made anew. */
static bool arm_to_stay(struct uring *p, struct poll *q)
{
    bool over = q->cancelled || wf_fd_generation(q->e) != q->generation; /* who cancels it has looked, or is going to */
    struct io_uring_sqe *sqe = over ? NULL : next_sqe(p);
    if (!sqe)
        return false;
    io_uring_prep_poll_multishot(sqe, q->fd, asked_for(q));
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
    struct poll *q = set->there && (ticket & PLACE) < p->poll_room ? &p->polls[ticket & PLACE] : NULL;
    if (q && q->e && q->ticket == ticket)
        cancel_poll(p, q);
}

static void complete_call(struct uring *p, struct call *c, int32_t result)
{
    c->result = result <= -ERESTARTSYS ? -EINTR : result; /* some calls forget to say it so (open of a FIFO) */
    c->done = true;
    unlist_call(p, c);
    if (wf_likely(c->e))
        wf_fd_exit(c->e, 0, 0);
    if (wf_settle(c->who, 0))
        wf_ready(c->who);
}

static void free_poll(struct uring *p, struct poll *q)
{
    struct wf_fd *e = q->e;
    q->e = NULL;
    q->next_free = p->free_poll;
    p->free_poll = q->ticket & PLACE;
    p->armed--;
    wf_fd_exit(e, 0, 0); /* entered by wf_set_arm */
}

/* One that was cancelled is nobody's: who cancelled it knows. `more`: it is still there. */
static void complete_poll(struct uring *p, uint32_t ticket, int32_t result, bool more)
{
    struct poll *q = &p->polls[ticket & PLACE];
    bool wanted = result < 0 || (uint32_t)result & q->events;
    if (!more && !wanted && arm_to_stay(p, q))
        more = true;
    else if (result == -EINVAL && q->stays)
        result = (int32_t)q->events; /* an old kernel has none that stay: who waits has to try again and again */
    if (result >= 0)
        wf_fd_event(q->fd, q->generation, (uint32_t)result);
    else if (result != -ECANCELED)
        wf_fd_fail(q->fd, q->generation, result == -EINVAL ? -EPERM : result); /* a kind that has nothing to wait for */
    if (!more)
        free_poll(p, q);
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
        p->wake_armed = false;
        wf_raw_eventfd_read(p->wake, &count);
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
        __builtin_prefetch(c->e, 1);
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
        if (c->e != e || c->generation != generation || c->cancelled)
            continue;
        if (!cancel(p, c))
            return true; /* there was no place for it in the ring: again, when the kernel has taken some */
        n++;
    }
    for (; p->armed > 0 && *place > 0 && n < CANCEL_AT_ONCE; --*place) {
        struct poll *q = &p->polls[*place - 1];
        if (q->e == e && q->generation == generation)
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
    uint32_t place = p->poll_room;
    while (set->there && cancel_some(p, e, generation, &place))
        complete_now(p);
}

static void poll_ring(struct wf_io *io, int64_t ns)
{
    struct uring *p = (struct uring *)io;
    int kept = errno;
    if (wf_unlikely(!p->set.there && make_ring(p) != 0)) {
        eventfd_t count;
        int64_t until = ns < 0 ? INT64_MAX : ns == 0 ? INT64_MIN : wf_clock_now() + ns;
        wf_poll_until(&(struct pollfd){.fd = p->wake, .events = POLLIN}, 1, until); /* of a worker that came back */
        wf_raw_eventfd_read(p->wake, &count);
        wf_set_do_asked(&p->set);
        errno = kept;
        return;
    }
    arm_wake(p);
    if (ns == 0) {
        if (has_work(p))
            io_uring_submit_and_get_events(&p->ring);
    } else if (io_uring_cq_ready(&p->ring) > 0) {
        io_uring_submit(&p->ring);
    } else {
        struct __kernel_timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
        struct io_uring_cqe *first;
        io_uring_submit_and_wait_timeout(&p->ring, &first, 1, ns < 0 ? NULL : &t, NULL);
    }
    complete_all(p);
    wf_set_do_asked(&p->set);
    errno = kept;
}

static void wake(struct wf_io *io)
{
    int kept = errno;
    wf_raw_eventfd_write(((struct uring *)io)->wake, 1);
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
        end_polls(p);
        p->set.there = false; /* before its descriptor is gone: a child that is forked now has no use for it */
        wf_tsan_release(&rings_memory);
        io_uring_queue_exit(&p->ring);
    }
    wf_set_do_asked(&p->set);
    errno = kept;
}

static void drop(struct wf_io *io)
{
    struct uring *p = (struct uring *)io;
    int kept = errno;
    wf_set_unlist(&p->set);
    leave(io);
    wf_raw_close(p->wake);
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
        io_uring_queue_exit(&p->ring);
    p->set.there = false;
    wf_raw_close(p->wake);
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
        wf_raw_close(p->wake);
    wf_sys_free(p);
    return rc;
}
