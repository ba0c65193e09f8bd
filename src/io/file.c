/*
 * io/file.c: the calls of weft/file.h, and what weft/io.h does with files. By the ring where the fiber may use one, else by
 * a try that does not wait, and then by a helper.
 *
 * What a helper uses is the caller's memory: the fiber does not go on before the call has ended. If any of it lies on a
 * shared stack, which others use meanwhile, the helper works on a copy. The helper, not the fiber, enters the descriptor's
 * record (wf_fd_enter): closing one waits for calls that are made, not for those that are queued.
 */
#include "io/file.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/file.h>

#include "base/errno.h"
#include "base/clock.h"
#include "base/raw.h"
#include "base/sys.h"
#include "base/thread.h"
#include "io/call.h"
#include "io/quiet.h"
#include "io/set.h"
#include "io/uring.h"
#include "offload/offload.h"
#include "sched/budget.h"
#include "sched/slice.h"
#include "sched/wait.h"

#define MOST_BYTES ((size_t)0x7ffff000) /* that the kernel moves in one call */

static ptrdiff_t system_call(const struct wf_file_call *c, int flags)
{
    int kept = errno, count = (int)c->count;
    switch (c->op) {
    case WF_FILE_READ:
        return wf_negative_errno(wf_raw_preadv2(c->of.fd, c->parts, count, c->offset, flags), kept);
    case WF_FILE_WRITE:
        return wf_quiet_pwritev2(c->of.fd, c->parts, count, c->offset, flags);
    default:
        return wf_negative_errno(fsync(c->of.fd), kept);
    }
}

/*
 * On whatever thread this is. A call at the file's own place first looks whether the number still is a file's: a read of a pipe
 * that has got the number would wait for ever, and weft_close with it. (A number that dup2(2) gives to a pipe between the two
 * system calls is not noticed. A second descriptor would hold the file, but closing it would drop the locks of fcntl(2).)
 */
static ptrdiff_t make(const struct wf_file_call *c, int flags)
{
    ptrdiff_t n;
    if (!wf_fd_enter(&c->of, 0))
        return -EBADF;
    if (c->offset == -1 && c->op != WF_FILE_SYNC && !wf_fd_is_file(c->of.fd)) {
        wf_fd_leave(&c->of);
        return -EAGAIN;
    }
    do
        n = system_call(c, flags);
    while (n == -EINTR);
    wf_fd_leave(&c->of);
    return n;
}

static void *on_helper(void *arg)
{
    struct wf_file_call *c = arg;
    c->result = make(c, 0);
    return NULL;
}

/* On a helper, if there is one to be had. Nothing that it uses is on a shared stack. */
static ptrdiff_t call_helper(struct wf_file_call *c, weft_time deadline)
{
    struct wf_errand errand = {.fn = on_helper, .arg = c, .kind = WEFT_OFFLOAD_FILE, .stays = true};
    int rc = wf_offload(&errand, NULL, deadline);
    if (rc == -EAGAIN || rc == -ENOMEM)
        return make(c, 0);
    return rc == 0 ? c->result : rc;
}

static bool is_on_copied_stack(const struct wf_file_call *c)
{
    bool is = wf_on_copied_stack(c) || wf_on_copied_stack(c->parts);
    for (size_t i = 0; !is && i < c->count; i++)
        is = wf_on_copied_stack(c->parts[i].iov_base);
    return is;
}

/* Between the parts and one piece of memory: so many bytes at most. */
static void copy(const struct wf_file_call *c, char *bytes, size_t most, bool to_parts)
{
    for (size_t i = 0; i < c->count && most > 0; i++) {
        size_t n = c->parts[i].iov_len < most ? c->parts[i].iov_len : most;
        if (to_parts)
            memcpy(c->parts[i].iov_base, bytes, n);
        else
            memcpy(bytes, c->parts[i].iov_base, n);
        bytes += n;
        most -= n;
    }
}

WF_NOINLINE static ptrdiff_t call_helper_with_copy(const struct wf_file_call *c, weft_time deadline)
{
    size_t bytes = 0;
    for (size_t i = 0; i < c->count; i++)
        bytes += c->parts[i].iov_len < MOST_BYTES - bytes ? c->parts[i].iov_len : MOST_BYTES - bytes;
    struct {
        struct wf_file_call call;
        struct iovec part;
        char bytes[];
    } *away = wf_sys_malloc(sizeof *away + bytes);
    if (!away)
        return make(c, 0);
    away->call = *c;
    away->call.parts = &away->part;
    away->call.count = c->op == WF_FILE_SYNC ? 0 : 1;
    away->part = (struct iovec){away->bytes, bytes};
    if (c->op == WF_FILE_WRITE)
        copy(c, away->bytes, bytes, false);
    ptrdiff_t n = call_helper(&away->call, deadline);
    if (c->op == WF_FILE_READ && n > 0)
        copy(c, away->bytes, (size_t)n, true);
    wf_sys_free(away);
    return n;
}

ptrdiff_t wf_file_call(struct wf_file_call *c, weft_time deadline)
{
    if (!wf_thread_now()->fiber || (deadline.ns != INT64_MAX && wf_clock_now() >= deadline.ns))
        return make(c, 0);
    return is_on_copied_stack(c) ? call_helper_with_copy(c, deadline) : call_helper(c, deadline);
}

#if WF_URING_BUILT
/* By the ring, if the fiber may use one. -ENOSYS: it may not. */
static ptrdiff_t call_in_ring(const struct wf_fd_ref *of, const struct wf_request *r, weft_time deadline)
{
    struct wf_set *ring = wf_time_is_now(deadline) ? NULL : wf_set_for_calls(of ? r->fd : -1);
    ptrdiff_t n;
    do
        n = ring ? wf_uring_call(ring, of, r, deadline) : -ENOSYS;
    while (n == -EINTR);
    return n == -EAGAIN ? -ENOSYS : n;
}
#else
static ptrdiff_t call_in_ring(const struct wf_fd_ref *of, const struct wf_request *r, weft_time deadline)
{
    (void)of, (void)r, (void)deadline;
    return -ENOSYS;
}
#endif

/* What is in memory, or room that is, is moved at once; the rest by a helper. */
static ptrdiff_t move(struct wf_file_call *c, struct iovec *part, weft_time deadline)
{
    uint64_t unable = c->op == WF_FILE_READ ? WF_FD_NO_NOWAIT : WF_FD_NO_NOWAIT_OUT;
    ptrdiff_t n = wf_load(&c->of.e->word) & unable ? -EOPNOTSUPP : make(c, RWF_NOWAIT);
    if (n == -EOPNOTSUPP)
        wf_fd_learn(&c->of, 0, unable);
    bool some = n > 0 && (size_t)n < part->iov_len;
    if (!some && n != -EAGAIN && n != -EOPNOTSUPP) {
        wf_budget_spend(wf_cost_io(n), !wf_time_is_now(deadline));
        return n;
    }
    size_t done = some ? (size_t)n : 0;
    part->iov_base = (char *)part->iov_base + done;
    part->iov_len -= done;
    c->offset += (off_t)done;
    n = wf_file_call(c, deadline);
    if (n < 0)
        return done > 0 ? (ptrdiff_t)done : n;
    return n + (ptrdiff_t)done;
}

static ptrdiff_t move_at(enum wf_file_op op, const struct wf_fd_ref *f, void *buffer, size_t bytes, off_t offset,
                         weft_time deadline)
{
    if (offset < 0)
        return -EINVAL;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    bytes = bytes < MOST_BYTES ? bytes : MOST_BYTES;
    struct wf_request r = {.call = op == WF_FILE_READ ? WF_CALL_READ_AT : WF_CALL_WRITE_AT,
                           .fd = f->fd,
                           .memory = buffer,
                           .size = bytes,
                           .offset = offset};
    bool in_ring = wf_fd_is_file(f->fd); /* it would read a pipe */
    ptrdiff_t n = in_ring ? call_in_ring(f, &r, deadline) : -ENOSYS;
    if (n != -ENOSYS)
        return n;
    struct iovec part = {buffer, bytes};
    struct wf_file_call c = {.op = op, .of = *f, .parts = &part, .count = 1, .offset = offset};
    return move(&c, &part, deadline);
}

ptrdiff_t wf_file_pread(const struct wf_fd_ref *from, void *buffer, size_t bytes, off_t offset, weft_time deadline)
{
    return move_at(WF_FILE_READ, from, buffer, bytes, offset, deadline);
}

ptrdiff_t weft_pread(int fd, void *buffer, size_t bytes, off_t offset, weft_time deadline)
{
    wf_slice_enter();
    struct wf_fd_ref f;
    int rc = wf_fd_refer(&f, fd);
    return rc != 0 ? rc : move_at(WF_FILE_READ, &f, buffer, bytes, offset, deadline);
}

ptrdiff_t weft_pwrite(int fd, const void *buffer, size_t bytes, off_t offset, weft_time deadline)
{
    wf_slice_enter();
    struct wf_fd_ref f;
    int rc = wf_fd_refer(&f, fd);
    return rc != 0 ? rc : move_at(WF_FILE_WRITE, &f, (void *)(uintptr_t)buffer, bytes, offset, deadline);
}

int weft_fsync(int fd, weft_time deadline)
{
    wf_slice_enter();
    struct wf_fd_ref f;
    int rc = wf_fd_refer(&f, fd);
    if (rc != 0)
        return rc;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    struct wf_request r = {.call = WF_CALL_FSYNC, .fd = fd};
    ptrdiff_t n = call_in_ring(&f, &r, deadline);
    if (n != -ENOSYS)
        return (int)n;
    struct wf_file_call c = {.op = WF_FILE_SYNC, .of = f};
    return (int)wf_file_call(&c, deadline);
}

/* On the heap: who opens may leave it to the helper. */
struct opening {
    int flags;
    mode_t mode;
    int result;
    char path[];
};

static int open_here(const char *path, int flags, mode_t mode)
{
    int kept = errno, fd;
    do
        fd = (int)wf_negative_errno(open(path, flags, mode), kept);
    while (fd == -EINTR);
    return fd;
}

/* Whether open(2) may wait for somebody at the other end (a FIFO, a modem), and not only for a disk. */
static bool may_wait_to_open(const char *path, int flags)
{
    struct stat st;
    int kept = errno;
    bool may = !(flags & (O_NONBLOCK | O_PATH)) && stat(path, &st) == 0 &&
               (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode));
    errno = kept;
    return may;
}

/* There is no helper to be had: `why`. On the caller's thread, if that ends by itself. */
static int open_without_helper(const char *path, int flags, mode_t mode, weft_time deadline, int why)
{
    if (wf_time_is_now(deadline))
        return -EAGAIN;
    if (deadline.ns != INT64_MAX && wf_clock_now() >= deadline.ns)
        return -ETIMEDOUT;
    return may_wait_to_open(path, flags) ? why : open_here(path, flags, mode);
}

static void *open_on_helper(void *arg)
{
    struct opening *o = arg;
    o->result = open_here(o->path, o->flags, o->mode);
    return o;
}

static void drop_opening(void *arg, void *value)
{
    struct opening *o = arg;
    if (value && o->result >= 0)
        wf_raw_close(o->result);
    wf_sys_free(o);
}

int weft_open(const char *path, int flags, mode_t mode, weft_time deadline)
{
    wf_slice_enter();
    if (!path)
        return -EFAULT;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    struct wf_request r = {.call = WF_CALL_OPEN, .flags = flags, .memory = path, .size = mode};
    ptrdiff_t n = call_in_ring(NULL, &r, deadline);
    if (n != -ENOSYS)
        return (int)n;
    if (deadline.ns == INT64_MAX && !wf_thread_now()->fiber)
        return open_here(path, flags, mode);
    size_t size = strlen(path) + 1;
    struct opening *o = wf_sys_malloc(sizeof *o + size);
    if (!o)
        return open_without_helper(path, flags, mode, deadline, -ENOMEM);
    *o = (struct opening){.flags = flags, .mode = mode};
    memcpy(o->path, path, size);
    struct wf_errand errand = {.fn = open_on_helper, .arg = o, .drop = drop_opening, .kind = WEFT_OFFLOAD_FILE};
    int rc = wf_offload(&errand, NULL, deadline);
    if (rc == -ETIMEDOUT || rc == -ECANCELED)
        return rc;
    int fd = o->result;
    wf_sys_free(o);
    return rc == 0 ? fd : open_without_helper(path, flags, mode, deadline, rc);
}
