/*
 * io/attempt.c: see attempt.h. One small ring for all threads, behind a lock, made when it is first needed: it is held for one
 * system call, which does not wait.
 */
#include "io/attempt.h"

#include "base/errno.h"

#if WF_URING_BUILT

#include <liburing.h>
#include <stdbool.h>

#include "base/fork.h"
#include "base/lock.h"
#include "base/plain.h"
#include "base/sanitizer.h"
#include "base/sys.h"

enum { ENTRIES = 4, CALL = 1, CANCEL = 2 }; /* the latter two: whose completion it is */

static struct wf_lock lock;   /* of what follows */
static struct io_uring ring;  /* if it is made */
static bool is_made, is_none; /* is_none: there is none to be had */

static void lock_ring(void)
{
    wf_lock(&lock);
}

static void unlock_ring(void)
{
    wf_unlock(&lock);
}

static void drop(void)
{
    if (is_made)
        wf_sys_uring_end(&ring);
    is_made = false;
}

/* The ring is the parent's. What there is of it here is the mapping, and a descriptor. */
static void drop_in_child(void)
{
    drop();
    wf_unlock(&lock);
}

static void join_fork(void)
{
    static const struct wf_fork_steps steps = {lock_ring, unlock_ring, drop_in_child};
    wf_fork_join(WF_FORK_ATTEMPT, &steps);
}

/* With the lock. */
static bool is_there(void)
{
    struct io_uring_params params = {0};
    if (is_made || is_none)
        return is_made;
    int rc = wf_sys_uring(ENTRIES, &ring, &params);
    is_made = rc == 0;
    is_none = rc == -ENOSYS || rc == -EPERM;
    return is_made;
}

static void queue_cancel(void)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring); /* there is room: at most two are under way */
    io_uring_prep_cancel64(sqe, CALL, 0);
    sqe->user_data = CANCEL;
}

/*
 * Submits the call that was queued, with its cancel, and waits for both. Each has one completion. A call that was just about to
 * be tried again when it was to be cancelled has none yet: then once more.
 */
static int run(void)
{
    int result = 0;
    bool made = false, cancels = true;
    queue_cancel();
    while (!made || cancels) {
        int rc = io_uring_submit_and_wait(&ring, 1);
        if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY) {
            drop(); /* somebody has closed it: next time there is another */
            return -ENOSYS;
        }
        for (struct io_uring_cqe *cqe; io_uring_peek_cqe(&ring, &cqe) == 0; io_uring_cqe_seen(&ring, cqe)) {
            if (cqe->user_data == CALL) {
                made = true;
                result = cqe->res;
            } else {
                cancels = false;
            }
        }
        if (!made && !cancels) {
            cancels = true;
            queue_cancel();
        }
    }
    return result;
}

/* Begins a call: where to say what it is, with the lock; NULL, without it: there is no ring. */
static struct io_uring_sqe *begin(void)
{
    static struct wf_plain_once once;
    wf_plain_once(&once, join_fork);
    wf_lock(&lock);
    if (is_there())
        return io_uring_get_sqe(&ring);
    wf_unlock(&lock);
    return NULL;
}

/* And makes it; `none` is the result of one that would have to wait. */
static int end(struct io_uring_sqe *sqe, int none)
{
    sqe->user_data = CALL;
    int rc = run();
    wf_unlock(&lock);
    return rc == -ECANCELED || rc == -EINTR ? none : rc;
}

void wf_attempt_drop(void)
{
    wf_lock(&lock);
    drop();
    wf_unlock(&lock);
}

int wf_attempt_accept(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
    wf_sys_point(WF_SYS_ACCEPT);
    struct io_uring_sqe *sqe = begin();
    if (!sqe)
        return -ENOSYS;
    io_uring_prep_accept(sqe, fd, from, size, flags);
    int made = end(sqe, -EAGAIN);
    if (WF_VALGRIND && made >= 0 && from)
        wf_valgrind_defined(from, *size); /* it has not seen who wrote that */
    return made;
}

int wf_attempt_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    struct io_uring_sqe *sqe = begin();
    if (!sqe)
        return -ENOSYS;
    io_uring_prep_connect(sqe, fd, to, size);
    return end(sqe, -EINPROGRESS);
}

#else

void wf_attempt_drop(void)
{
}

int wf_attempt_accept(int fd, struct sockaddr *from, socklen_t *size, int flags)
{
    (void)fd, (void)from, (void)size, (void)flags;
    return -ENOSYS;
}

int wf_attempt_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    (void)fd, (void)to, (void)size;
    return -ENOSYS;
}

#endif
