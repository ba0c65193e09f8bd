/*
 * io/fd.c: see fd.h.
 */
#include "io/fd.h"

#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <weft/watch.h>

#include "base/errno.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/own.h"
#include "base/plain.h"
#include "base/raw.h"
#include "base/sys.h"
#include "io/hangup.h"
#include "io/set.h"
#include "io/watch.h"
#include "sched/flow.h"
#include "sched/worker.h"

enum { CHUNK = 1024, CHUNKS = WF_FD_NUMBERS / CHUNK };

static struct wf_fd *chunks[CHUNKS]; /* atomic: each is made once, and for life */
static unsigned chunks_end;          /* atomic: none is there from this one on */
static struct wf_plain_once once;

/* The child of a fork knows nothing of its descriptors: who waits for them, and what they are registered with, is gone. */
static void forget_all(void)
{
    for (unsigned i = 0; i < chunks_end; i++) {
        wf_sys_free(chunks[i]);
        chunks[i] = NULL;
    }
    chunks_end = 0;
    wf_set_in_child();
}

static void set_up(void)
{
    static const struct wf_fork_steps steps = {.in_child = forget_all};
    wf_fork_join(WF_FORK_IO, &steps);
}

void wf_fd_join_fork(void)
{
    wf_plain_once(&once, set_up);
}

static struct wf_fd *make_chunk(unsigned index)
{
    struct wf_fd *made = wf_sys_malloc_aligned(CHUNK * sizeof *made, 64), *there = NULL;
    if (!made)
        return NULL;
    memset(made, 0, CHUNK * sizeof *made);
    wf_fd_join_fork();
    for (unsigned end = wf_load(&chunks_end); end <= index && !wf_cas(&chunks_end, &end, index + 1);)
        ;
    if (wf_cas(&chunks[index], &there, made)) /* pairs with wf_fd_look */
        return made;
    wf_sys_free(made);
    return there;
}

struct wf_fd *wf_fd_look(int fd)
{
    if (wf_unlikely(fd < 0 || fd >= CHUNK * CHUNKS))
        return NULL;
    struct wf_fd *chunk = wf_load_acquire(&chunks[fd / CHUNK]); /* pairs with make_chunk */
    return chunk ? &chunk[fd % CHUNK] : NULL;
}

struct wf_fd *wf_fd_of(int fd)
{
    struct wf_fd *e = wf_fd_look(fd);
    if (wf_unlikely(!e && fd >= 0 && fd < CHUNK * CHUNKS)) {
        struct wf_fd *chunk = make_chunk((unsigned)fd / CHUNK);
        e = chunk ? &chunk[fd % CHUNK] : NULL;
    }
    return e;
}

bool wf_fd_is_file(int fd)
{
    struct stat st;
    int kept = errno;
    bool is = fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode));
    errno = kept;
    return is;
}

/* Those who want any of it, taken out and won: for wf_ready, after the unlock. guarded by: e->lock */
static struct wf_waiter *win(struct wf_fd *e, uint32_t events, int result)
{
    struct wf_waiter *won = NULL, **end = &won;
    const struct wf_worker *here = wf_thread_now()->worker;
    for (struct wf_waiter *w = e->waiters.first, *next; w; w = next) {
        next = w->next;
        uint32_t wants = (uint32_t)(uintptr_t)w->data;
        if (!(events & wants) && !(wants & WF_FD_ANY))
            continue;
        const weft_fiber *f = w->who->fiber;
        bool sure = !(events & WF_FD_UNSURE) && f && wf_load(&f->home) == here && !won && !e->waiters.first->next;
        wf_waiters_remove(&e->waiters, w);
        if (wf_settle(w->who, result < 0 ? result : (int)((events & wants & ~WF_FD_ANY) | (sure ? 0 : WF_FD_UNSURE)))) {
            *end = w;
            end = &w->next;
        }
    }
    *end = NULL;
    return won;
}

static void ready(struct wf_waiter *won)
{
    while (won) {
        struct wf_waiter *next = won->next; /* `won` is gone when its owner goes on */
        wf_ready(won->who);
        won = next;
    }
}

static uint64_t no_longer_drained(uint32_t events)
{
    uint64_t bits = 0;
    if (events & (POLLIN | POLLRDHUP | POLLHUP | POLLERR | POLLPRI))
        bits |= WF_FD_DRAINED_IN;
    if (events & (POLLOUT | POLLHUP | POLLERR))
        bits |= WF_FD_DRAINED_OUT;
    return bits;
}

/* The descriptor, or a half of it, has ended. *gone: the fiber that this cancels. guarded by: e->lock */
WF_NOINLINE static void ends(int fd, struct wf_fd *e, uint32_t events, struct wf_hangup_fiber *gone)
{
    uint64_t bits = WF_FD_ENDING | (events & (POLLHUP | POLLERR) ? WF_FD_HUNG : 0);
    if ((wf_load(&e->word) & bits) != bits)
        wf_or(&e->word, bits);
    if (bits & WF_FD_HUNG && wf_load(&e->hangup))
        wf_hangup_take(fd, e, gone);
}

void wf_fd_event(int fd, uint32_t generation, uint32_t events)
{
    struct wf_fd *e = wf_fd_look(fd);
    if (!e)
        return;
    wf_lock(&e->lock);
    if (wf_fd_generation(e) != generation) {
        wf_unlock(&e->lock);
        return;
    }
    uint64_t clear = no_longer_drained(events) & wf_load(&e->word);
    if (clear)
        wf_and(&e->word, ~clear);
    struct wf_hangup_fiber gone = {0};
    if (wf_unlikely(events & (POLLRDHUP | POLLHUP | POLLERR | POLLPRI)))
        ends(fd, e, events, &gone);
    struct wf_waiter *won = win(e, events, 0);
    bool again = false;
    struct wf_watch *fired = wf_unlikely(e->watch) ? wf_watch_take(e, events, &again) : NULL;
    wf_unlock(&e->lock);
    if (wf_unlikely(gone.fiber)) /* first: others may wait for it */
        wf_hangup_tell(e, &gone);
    ready(won);
    wf_watch_fire(fired);
    if (wf_unlikely(again))
        wf_watch_arm_again(fd, e, generation);
}

void wf_fd_fetch(int fd)
{
    __builtin_prefetch(wf_fd_look(fd), 1);
}

/* Looks without the lock: whatever it sees is only a place to fetch. (No atomic load: that TSan would still look at.) */
__attribute__((no_sanitize("thread"))) void wf_fd_fetch_waiter(int fd)
{
    const struct wf_fd *e = wf_fd_look(fd);
    const char *node = e ? (const char *)*(struct wf_waiter *const volatile *)&e->waiters.first : NULL;
    if (node) { /* in a fiber's record: it, what is before it and after it */
        __builtin_prefetch(node, 1);
        __builtin_prefetch(node - 64, 1);
        __builtin_prefetch(node - 128, 1);
    }
}

void wf_fd_fail(int fd, uint32_t generation, int error)
{
    struct wf_fd *e = wf_fd_look(fd);
    wf_lock(&e->lock);
    bool ours = wf_fd_generation(e) == generation;
    struct wf_waiter *won = ours ? win(e, UINT32_MAX, error) : NULL;
    struct wf_watch *fired = ours ? wf_watch_take_for(e, UINT32_MAX, POLLERR) : NULL;
    wf_unlock(&e->lock);
    ready(won);
    wf_watch_fire(fired);
}

/* Whether waits of this generation may begin. guarded by: r->e->lock */
static bool may_begin(const struct wf_fd_ref *r)
{
    uint64_t word = wf_load(&r->e->word);
    return wf_fd_is_of(r, word) && !(word & (WF_FD_CLOSING | WF_FD_SHUT));
}

static bool is_at(const struct wf_fd *e, uint32_t id)
{
    for (int i = 0; i < WF_FD_PLACES; i++) {
        if (e->at[i] == id)
            return true;
    }
    return false;
}

/* The oldest is forgotten: a set that finds itself forgotten registers it again. guarded by: e->lock */
static void note_place(struct wf_fd *e, uint32_t id)
{
    if (is_at(e, id))
        return;
    for (int i = WF_FD_PLACES - 1; i > 0; i--)
        wf_store(&e->at[i], e->at[i - 1]);
    wf_store(&e->at[0], id);
}

bool wf_fd_in_ring(const struct wf_fd_ref *r, uint32_t set)
{
    for (int i = 0; i < WF_FD_PLACES; i++) {
        if (wf_load(&r->e->at[i]) == set)
            return wf_fd_is_of(r, wf_load(&r->e->word));
    }
    wf_lock(&r->e->lock);
    bool is = wf_fd_is_of(r, wf_load(&r->e->word));
    if (is)
        note_place(r->e, set);
    wf_unlock(&r->e->lock);
    return is;
}

bool wf_fd_is_at(struct wf_fd *e, uint32_t set)
{
    wf_lock(&e->lock);
    bool is = is_at(e, set);
    wf_unlock(&e->lock);
    return is;
}

bool wf_fd_wanted(struct wf_fd *e, uint32_t *events)
{
    wf_lock(&e->lock);
    bool for_good = e->watch != NULL || wf_load(&e->hangup);
    *events = 0;
    for (const struct wf_waiter *w = e->waiters.first; w; w = w->next) {
        uint32_t wants = (uint32_t)(uintptr_t)w->data;
        for_good |= !(wants & (WF_FD_ANY | WF_FD_TOLD));
        *events |= wants & ~WF_FD_ANY;
    }
    wf_unlock(&e->lock);
    return for_good;
}

int wf_fd_register(const struct wf_fd_ref *r, struct wf_set *set)
{
    uint32_t ticket;
    if (!wf_fd_enter(r, 0))
        return -EBADF;
    int rc = wf_fd_is_at(r->e, set->id) ? wf_set_arm(set, r, 0, &ticket) : wf_set_register(set, r, 0, &ticket);
    if (rc == 0) {
        wf_lock(&r->e->lock);
        if (wf_fd_is_of(r, wf_load(&r->e->word)))
            note_place(r->e, set->id);
        wf_unlock(&r->e->lock);
    }
    wf_fd_leave(r);
    return rc;
}

/* Takes the record's lock with it registered at `set`; 0, or a negative errno without the lock. */
static int lock_registered(const struct wf_fd_ref *r, struct wf_set *set, uint32_t events, uint32_t *ticket)
{
    struct wf_fd *e = r->e;
    wf_lock(&e->lock);
    if (wf_likely(set->backend == WF_EPOLL && is_at(e, set->id) && may_begin(r)))
        return 0;
    wf_unlock(&e->lock);
    if (!wf_fd_enter(r, 0))
        return -EBADF;
    int rc = wf_set_register(set, r, events, ticket);
    wf_fd_exit(r, 0, rc == -EPERM ? WF_FD_FILE : 0);
    if (rc != 0)
        return rc;
    wf_lock(&e->lock);
    if (!may_begin(r)) {
        wf_unlock(&e->lock);
        return -EBADF;
    }
    note_place(e, set->id);
    return 0;
}

/* With the lock held, which is released. */
static int sleep_on(struct wf_fd *e, struct wf_sleeper *me, uint32_t events, weft_time deadline)
{
    struct wf_worker *w = wf_thread_now()->worker;
    me->node.index = wf_fd_stamp(w->now, 0);
    me->node.data = (void *)(uintptr_t)events;
    wf_waiters_add(&e->waiters, &me->node, me);
    if (wf_likely(w->driver.io)) /* for what it is told by others a worker needs none */
        wf_set_waits((struct wf_set *)w->driver.io, w->now, e->patience);
    wf_store(&w->counts.watches, w->counts.watches + 1);
    const char *what = events & POLLIN ? "read" : events & WF_FD_TOLD ? "connection" : "write";
    int rc = wf_wait_unlocking(me, what, &e->lock, deadline);
    __builtin_prefetch(e, 1); /* the call that has waited enters the record next */
    w = wf_thread_now()->worker;
    wf_store(&w->counts.watches, w->counts.watches - 1);
    if (rc < 0) {
        wf_lock(&e->lock);
        wf_waiters_remove(&e->waiters, &me->node);
        wf_unlock(&e->lock);
    }
    return rc;
}

int wf_fd_sleep(const struct wf_fd_ref *r, struct wf_sleeper *me, uint32_t events, weft_time deadline)
{
    wf_lock(&r->e->lock);
    if (may_begin(r))
        return sleep_on(r->e, me, events, deadline);
    wf_unlock(&r->e->lock);
    return -EBADF;
}

bool wf_fd_link(const struct wf_fd_ref *r, struct wf_waiter *node, struct wf_sleeper *me)
{
    wf_lock(&r->e->lock);
    bool there = may_begin(r);
    node->index = 0; /* it has parts of its own, see poll.c */
    if (there)
        wf_waiters_add(&r->e->waiters, node, me);
    wf_unlock(&r->e->lock);
    return there;
}

void wf_fd_unlink(struct wf_fd *e, struct wf_waiter *node)
{
    wf_lock(&e->lock);
    wf_waiters_remove(&e->waiters, node);
    wf_unlock(&e->lock);
}

int wf_fd_wait_until(const struct wf_fd_ref *r, bool (*holds)(const void *arg), const void *arg, weft_time deadline)
{
    int rc = 0;
    while (rc >= 0) {
        struct wf_sleeper own, *me = wf_sleeper(&own);
        wf_lock(&r->e->lock);
        bool there = may_begin(r);
        bool over = !there || holds(arg);
        if (over || wf_time_is_now(deadline)) {
            wf_unlock(&r->e->lock);
            return !there ? -EBADF : over ? 0 : -EAGAIN;
        }
        rc = sleep_on(r->e, me, WF_FD_TOLD, deadline);
    }
    return rc;
}

static int wait_in_fiber(const struct wf_fd_ref *r, uint32_t events, uint64_t drained, weft_time deadline)
{
    struct wf_sleeper *me = wf_sleeper(NULL); /* a fiber's own; first, as it may give way */
    struct wf_set *set;
    uint32_t ticket = 0;
    int rc = wf_set_here(r->fd, &set);
    if (rc == 0)
        rc = lock_registered(r, set, events, &ticket);
    if (rc != 0)
        return rc;
    if (drained && !(wf_load(&r->e->word) & drained)) {
        wf_unlock(&r->e->lock);
        wf_set_disarm(set, ticket);
        return 0;
    }
    rc = sleep_on(r->e, me, events, deadline);
    if (rc < 0)
        wf_set_disarm(set, ticket);
    return rc;
}

bool wf_fd_join_threads(const struct wf_fd_ref *r, struct wf_fd_thread *me)
{
    if (!wf_fd_enter(r, 0)) /* waits while it is SHUT: then it is clear what the caller's number is */
        return false;
    wf_lock(&r->e->lock);
    bool joins = may_begin(r);
    if (joins) {
        me->next = r->e->threads;
        r->e->threads = me;
    }
    wf_unlock(&r->e->lock);
    wf_fd_leave(r);
    return joins;
}

void wf_fd_leave_threads(struct wf_fd *e, struct wf_fd_thread *me)
{
    wf_lock(&e->lock);
    for (struct wf_fd_thread **p = &e->threads; *p; p = &(*p)->next) {
        if (*p == me) {
            *p = me->next;
            break;
        }
    }
    wf_unlock(&e->lock);
}

int wf_poll_until(struct pollfd *fds, size_t count, int64_t deadline)
{
    int kept = errno;
    for (;;) {
        struct timespec left = {0};
        int64_t ns = 0;
        if (deadline != INT64_MAX) {
            ns = deadline == INT64_MIN ? 0 : deadline - wf_clock_now();
            ns = ns < 0 ? 0 : ns;
            left = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
        }
        int n = wf_raw_ppoll(fds, count, deadline == INT64_MAX ? NULL : &left);
        if (n > 0 || (n == 0 && (ns == 0 || wf_clock_now() >= deadline))) {
            errno = kept;
            return n;
        }
        if (n < 0 && errno != EINTR) {
            n = -errno;
            errno = kept;
            return n;
        }
    }
}

WF_COLD static int wait_on_thread(const struct wf_fd_ref *r, uint32_t events, uint64_t drained, weft_time deadline)
{
    struct wf_fd *e = r->e;
    struct wf_fd_thread me = {.wake = wf_sys_eventfd()};
    if (me.wake < 0)
        return me.wake;
    int rc = -EBADF;
    if (wf_fd_join_threads(r, &me)) {
        if (drained)
            wf_fd_learn(r, drained, 0); /* nobody registers it for us: poll says what is, and the others try */
        struct pollfd fds[] = {{.fd = r->fd, .events = (short)events}, {.fd = me.wake, .events = POLLIN}};
        struct wf_flow *flow = wf_flow_cancellable();
        if (flow && !wf_flow_poll_begin(flow, me.wake))
            wf_raw_eventfd_write(me.wake, 1);
        rc = wf_poll_until(fds, 2, deadline.ns);
        if (flow)
            wf_flow_poll_end(flow);
        if (flow && rc > 0 && fds[0].revents == 0 && wf_flow_is_cancelled(flow) && wf_fd_is_of(r, wf_load(&e->word)))
            rc = -ECANCELED; /* the eventfd is not weft_close's doing */
        else if (rc == 0)
            rc = -ETIMEDOUT;
        else if (rc > 0)
            rc = !wf_fd_is_of(r, wf_load(&e->word)) || fds[0].revents & POLLNVAL ? -EBADF : fds[0].revents;
        wf_fd_leave_threads(e, &me);
    }
    wf_own_close(me.wake);
    return rc;
}

int wf_fd_wait(const struct wf_fd_ref *r, uint32_t events, uint64_t drained, weft_time deadline)
{
    events |= POLLERR | POLLHUP;
    if (events & POLLIN)
        events |= POLLRDHUP;
    if (wf_unlikely(!wf_thread_now()->fiber))
        return wait_on_thread(r, events, drained, deadline);
    return wait_in_fiber(r, events, drained, deadline);
}

static bool has_users(const struct wf_fd *e)
{
    return wf_load_acquire(&e->word) & WF_FD_USERS; /* pairs with wf_fd_exit */
}

/* Lets others go on: they are to leave, or to see to what was asked of them. */
static void give_way(void)
{
    struct wf_thread *t = wf_thread_now();
    weft_fiber *f = t->fiber;
    if (f) {
        bool was = wf_section_begin(f); /* a close goes on in a fiber that was cancelled */
        weft_sleep(10 * WEFT_US);
        wf_section_end(f, was);
        return;
    }
    if (t->worker) /* outside of its loop: nobody else looks at its ring */
        wf_driver_look(&t->worker->driver);
    sched_yield();
}

static void cancel_in_rings(struct wf_fd *e, uint32_t generation, const uint32_t *rings)
{
    if (rings[WF_FD_PLACES - 1] != 0) {
        wf_set_cancel(0, e, generation); /* it may be in more rings than could be noted */
        return;
    }
    for (int i = 0; i < WF_FD_PLACES && rings[i] != 0; i++)
        wf_set_cancel(rings[i], e, generation);
}

/* Those who are in a call on it leave: at once if the call is one of a thread, else it is cancelled. */
static void wait_for_users(struct wf_fd *e, uint32_t generation, const uint32_t *rings)
{
    for (weft_span pause = WEFT_MS; has_users(e); pause = wf_cancel_again(pause)) {
        cancel_in_rings(e, generation, rings);
        for (int64_t again = wf_clock_now() + pause; has_users(e) && wf_clock_now() < again;)
            give_way();
    }
}

static void begin_generation(struct wf_fd *e, uint64_t bits)
{
    uint64_t was = wf_load(&e->word);
    while (!wf_cas(&e->word, &was, ((was >> WF_FD_GENERATION) + 1) << WF_FD_GENERATION | (was & WF_FD_USERS) | bits))
        ;
    for (int i = 0; i < WF_FD_PLACES; i++)
        wf_store(&e->at[i], 0);
    e->patience = 0;
    wf_store(&e->hangup, false);
}

void wf_fd_fresh(int fd)
{
    struct wf_fd *e = wf_fd_look(fd);
    if (!e || !(wf_load(&e->word) & WF_FD_BITS || wf_load(&e->at[0]) != 0))
        return;
    wf_lock(&e->lock);
    uint32_t old = wf_fd_generation(e);
    begin_generation(e, 0);
    struct wf_waiter *won = win(e, UINT32_MAX, -EBADF); /* who waits for what had the number before */
    struct wf_watch *fired = wf_watch_take_for(e, UINT32_MAX, WEFT_CLOSED);
    wf_unlock(&e->lock);
    ready(won);
    wf_watch_fire(fired);
    if (has_users(e)) /* a call in a ring goes on with the file that was closed, and weft_close would wait for it */
        wf_set_cancel(0, e, old);
}

struct wf_fd *wf_fd_next(unsigned *fd, unsigned last)
{
    unsigned end = wf_load(&chunks_end) * CHUNK; /* none is known from there on */
    for (; *fd <= last && *fd < end; ++*fd) {
        struct wf_fd *e = wf_fd_look((int)*fd);
        if (e)
            return e;
        *fd |= CHUNK - 1;
    }
    return NULL;
}

/* With the lock held, which is released. `user`: the caller has entered by that reference, and leaves here; or NULL. */
static void close_locked(struct wf_fd *e, const struct wf_fd_ref *user)
{
    uint32_t rings[WF_FD_PLACES], generation = wf_fd_generation(e);
    for (int i = 0; i < WF_FD_PLACES; i++)
        rings[i] = e->at[i];
    begin_generation(e, WF_FD_CLOSING);
    if (user)
        wf_fd_leave(user);
    struct wf_waiter *won = win(e, UINT32_MAX, -EBADF);
    struct wf_watch *fired = wf_watch_take_for(e, UINT32_MAX, WEFT_CLOSED);
    for (struct wf_fd_thread *t = e->threads; t; t = t->next)
        wf_raw_eventfd_write(t->wake, 1);
    wf_unlock(&e->lock);
    ready(won);
    wf_watch_fire(fired);
    wf_hangup_await_told(e);
    if (has_users(e))
        wait_for_users(e, generation, rings);
    uint64_t was = wf_load(&e->word);
    while (!wf_cas(&e->word, &was, (was & ~(uint64_t)WF_FD_BITS) | WF_FD_SHUT)) /* pairs with wf_fd_enter */
        ;
}

void wf_fd_close(struct wf_fd *e)
{
    wf_lock(&e->lock);
    close_locked(e, NULL);
}

bool wf_fd_close_if(const struct wf_fd_ref *r)
{
    if (!wf_fd_enter(r, 0)) /* while it has a user, wf_fd_shut does not end the generation without the lock */
        return false;
    wf_lock(&r->e->lock);
    bool is_ours = wf_fd_is_of(r, wf_load(&r->e->word));
    if (is_ours) {
        close_locked(r->e, r);
    } else {
        wf_unlock(&r->e->lock);
        wf_fd_leave(r);
    }
    return is_ours;
}

void wf_fd_closed(struct wf_fd *e)
{
    wf_and(&e->word, ~(uint64_t)WF_FD_SHUT);
}

bool wf_fd_shut(struct wf_fd *e, bool ends)
{
    uint64_t was = wf_load(&e->word);
    do {
        if (was & (WF_FD_BITS | WF_FD_USERS) || wf_load(&e->at[0]) != 0)
            return false;
    } while (!wf_cas(&e->word, &was, was | WF_FD_SHUT)); /* pairs with wf_fd_enter */
    wf_lock(&e->lock);                                   /* who adds itself after this sees SHUT (may_begin) */
    bool is_free = !e->waiters.first && !e->threads && !e->watch && !wf_load(&e->hangup);
    if (is_free && ends)
        wf_add(&e->word,
               (uint64_t)1 << WF_FD_GENERATION); /* under the lock: a waiter adds itself before it, or not at all */
    wf_unlock(&e->lock);
    if (!is_free)
        wf_fd_closed(e);
    return is_free;
}

/* Of SHUT: after that who has set it waits in close(2), or was a child of vfork(2) that died. */
#define LONGEST_NS ((int64_t)10000000)

bool wf_fd_enter_slowly(const struct wf_fd_ref *r, uint64_t *was)
{
    for (int64_t begun = 0;;) {
        *was = wf_load_acquire(&r->e->word); /* pairs with wf_fd_closed */
        if (!wf_fd_is_of(r, *was) || *was & WF_FD_CLOSING)
            return false;
        if (!(*was & WF_FD_SHUT))
            return true;
        int64_t now = wf_clock_now();
        if (begun == 0)
            begun = now;
        if (now - begun > LONGEST_NS)
            wf_fd_closed(r->e);
        sched_yield();
    }
}
