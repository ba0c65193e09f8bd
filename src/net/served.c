/*
 * net/served.c: see served.h. A connection's record belongs to its fiber, except for its links in the server's list.
 */
#include "net/served.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/io.h>

#include "base/errno.h"
#include "base/atomic.h"
#include "base/fork.h"
#include "base/sys.h"
#include "base/thread.h"
#include "io/call.h"
#include "io/hangup.h"
#include "io/socket.h"
#include "sched/finish.h"
#include "sched/slice.h"
#include "sync/mutex.h"

/* As the kernel keeps it: 12 bits and 20. */
static uint32_t device(uint32_t major, uint32_t minor)
{
    return major << 20 | minor;
}

/*
 * Not by fstat(3): ThreadSanitizer takes it for a use, though the number may be another's, which this finds out. A
 * sandbox that does not know statx(2) refuses it: then the older call is asked.
 */
static struct identity identity_of(int fd)
{
    struct statx st;
    struct stat old;
    int kept = errno;
    struct identity is = {.device = WF_NO_DEVICE};
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_INO, &st) == 0)
        is = (struct identity){st.stx_ino, device(st.stx_dev_major, st.stx_dev_minor)};
    else if (errno != EBADF && syscall(SYS_fstat, fd, &old) == 0)
        is = (struct identity){old.st_ino, device(major(old.st_dev), minor(old.st_dev))};
    errno = kept;
    return is;
}

/* False also if nobody can tell: a descriptor that stays open is better than one that is closed under its owner. */
static bool is_still(const struct served *c)
{
    struct identity now = identity_of(c->fd);
    return now.device != WF_NO_DEVICE && now.inode == c->inode && now.device == c->device;
}

/* Whether this is the child of a fork: it has records of descriptors of its own, and no server. */
static bool has_forked(const struct served *c)
{
    return c->server->forks != wf_forks;
}

/* The descriptor that the handler was given; not in the child of a fork. */
static struct wf_fd_ref ref_of(const struct served *c)
{
    return (struct wf_fd_ref){c->fd, c->generation, wf_fd_look(c->fd)};
}

struct served *wf_served_new(struct server *s, const struct accepted *a, unsigned worker, bool is_refused)
{
    struct wf_fd_ref ref;
    if (wf_fd_refer(&ref, a->fd) != 0)
        return NULL;
    size_t peer = a->size < sizeof a->peer ? a->size : sizeof a->peer;
    struct served *c = wf_sys_malloc(sizeof *c + peer);
    if (!c)
        return NULL;
    struct identity is = identity_of(a->fd);
    *c = (struct served){.server = s,
                         .inode = is.inode,
                         .device = is.device,
                         .fd = a->fd,
                         .generation = ref.generation,
                         .worker = (uint16_t)worker,
                         .is_refused = is_refused,
                         .peer_size = (uint8_t)peer};
    memcpy(c->peer, &a->peer, peer);
    return c;
}

void wf_served_count(const struct served *c, int change)
{
    struct server *s = c->server;
    if (c->is_refused) {
        wf_add(&s->refusals, (unsigned)change);
        return;
    }
    wf_add(&s->conns[c->worker], (unsigned)change);
    wf_add(&s->count, (unsigned)change);
    if (change < 0 && s->max > 0)
        wf_fd_event(s->listener.fd, s->listener.generation, WF_FD_TOLD); /* after the count: it may be waited for */
}

/*
 * After the handler, which may have closed it: whatever has the number now is left alone. The generation tells of a
 * close by weft_close or under the hooks; it also settles a race with a fiber that closes at this moment. What the
 * number is now tells of close(2), which fclose(3) and many libraries call. (Two statx per connection: 0.7 us of 30.)
 */
static void close_own(const struct served *c)
{
    if (has_forked(c)) {
        if (is_still(c))
            weft_close(c->fd);
        return;
    }
    struct wf_fd_ref ref = ref_of(c);
    if (wf_fd_generation(ref.e) == ref.generation && is_still(c))
        wf_close_ref(&ref);
}

/*
 * After close_own. A handler that has closed the descriptor by close(2) may leave a poll for its own subscription in a
 * ring, which holds the connection open. After any other close the generation has ended, and this does nothing.
 */
static void end_subscription(const struct served *c)
{
    struct wf_fd_ref ref = ref_of(c);
    if (wf_fd_generation(ref.e) == ref.generation)
        wf_hangup_leave(&ref, wf_thread_now()->fiber);
}

/* The handler has returned, or ended its fiber. */
static void is_over(void *arg)
{
    struct served *c = arg;
    struct server *s = c->server;
    if (has_forked(c)) { /* in the child there is no server to tell */
        close_own(c);
        wf_sys_free(c);
        return;
    }
    wf_mutex_take(&s->lock);
    if (c->prev)
        c->prev->next = c->next;
    else
        s->first = c->next;
    if (c->next)
        c->next->prev = c->prev;
    weft_mutex_unlock(&s->lock);
    if (s->refuse)
        wf_served_count(c, -1); /* before the close: the peer may come again at once, and must not be refused */
    close_own(c);
    end_subscription(c);
    if (!s->refuse)
        wf_served_count(c, -1); /* after the close: the next connection may need the descriptor */
    wf_sys_free(c);
    weft_waitgroup_done(&s->live); /* the last touch */
}

void *wf_serve_one(void *arg)
{
    struct served *c = arg;
    struct server *s = c->server;
    struct wf_finish step;
    wf_mutex_take(&s->lock);
    c->fiber = weft_fiber_current();
    bool cancelled = s->cancelled;
    weft_mutex_unlock(&s->lock);
    wf_finish_begin(&step, is_over, c);
    if (!cancelled)
        (c->is_refused ? s->refuse : s->handler)(c->fd, s->arg);
    wf_finish_end(&step);
    return NULL;
}

/* The connection that the calling fiber serves; NULL: it is no handler. */
static const struct served *served_here(void)
{
    const weft_fiber *f = wf_thread_now()->fiber;
    for (const struct wf_finish *step = f ? wf_finish_first(f) : NULL; step; step = step->outer) {
        if (step->fn == is_over)
            return step->arg;
    }
    return NULL;
}

static int ask_for_peer(const struct served *c, struct sockaddr *to, socklen_t *size)
{
    int kept = errno;
    if (has_forked(c)) /* nobody else closes it */
        return (int)wf_negative_errno(getpeername(c->fd, to, size), kept);
    struct wf_fd_ref ref = ref_of(c);
    if (!wf_fd_enter(&ref, 0))
        return -EBADF;
    int rc = (int)wf_negative_errno(getpeername(c->fd, to, size), kept);
    wf_fd_leave(&ref);
    return rc;
}

int weft_peer(struct sockaddr *to, socklen_t *size)
{
    wf_slice_here();
    const struct served *c = served_here();
    if (!to || !size)
        return -EINVAL;
    if (!c)
        return -ENXIO;
    if (c->peer_size == 0)
        return ask_for_peer(c, to, size);
    memcpy(to, c->peer, *size < c->peer_size ? *size : c->peer_size);
    *size = c->peer_size;
    return 0;
}
