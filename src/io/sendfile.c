/*
 * io/sendfile.c: weft_sendfile. sendfile(2) cannot be told not to wait, neither for room in a socket nor for the disk. To a
 * descriptor with O_NONBLOCK it waits for no room, and what is in memory already it need not wait for: that is sent by the
 * system call, without a copy. The rest goes through a buffer, by calls that let only the fiber wait: what is read from a
 * disk, and all that goes to a blocking descriptor. (To poll that, and then send as much as fits, would cost half the CPU;
 * but how much fits no socket says for sure: TCP_NOTSENT_LOWAT, a ULP or others who write may make the call wait.)
 */
#include <sys/uio.h>
#include <unistd.h>

#include <weft/io.h>

#include "base/errno.h"
#include "base/raw.h"
#include "base/sys.h"
#include "base/thread.h"
#include "io/call.h"
#include "io/fd.h"
#include "io/file.h"
#include "io/ops.h"
#include "sched/budget.h"
#include "sched/slice.h"
#include "sched/wait.h"

enum { PIECE = 128 << 10, BUFFER = 64 << 10 };

struct sending {
    struct wf_fd_ref to, from;
    off_t at;     /* of the file */
    char *buffer; /* NULL: none so far */
};

/* Whether the byte at an offset can be had at once; also if there is none. */
static bool is_byte_here(int fd, off_t at)
{
    char byte;
    int kept = errno;
    return wf_negative_errno(wf_raw_preadv2(fd, &(struct iovec){&byte, 1}, 1, at, RWF_NOWAIT), kept) >= 0;
}

/* Whether a piece of the file is in memory, as its two ends tell. */
static bool is_in_memory(const struct sending *s, size_t bytes)
{
    if (wf_load(&s->from.e->word) & WF_FD_NO_NOWAIT || !wf_fd_enter(&s->from, 0))
        return false;
    bool is = is_byte_here(s->from.fd, s->at) && is_byte_here(s->from.fd, s->at + (off_t)bytes - 1);
    wf_fd_leave(&s->from);
    return is;
}

/* Sends a piece through the buffer, all of it: what is read is not thrown away. *sent bytes have gone, also on failure. */
static ptrdiff_t copy_piece(struct sending *s, size_t bytes, size_t *sent, weft_time deadline)
{
    if (!s->buffer && !(s->buffer = wf_sys_malloc(BUFFER)))
        return -ENOMEM;
    ptrdiff_t n = wf_file_pread(&s->from, s->buffer, bytes < BUFFER ? bytes : BUFFER, s->at, deadline);
    if (n > 0)
        n = wf_ops_write_all(&s->to, s->buffer, (size_t)n, sent, deadline);
    s->at += (off_t)*sent;
    return n == -ESPIPE ? -EINVAL : n;
}

/* One piece. 0: the file has no more. */
static ptrdiff_t send_piece(struct sending *s, size_t bytes, bool blocking, bool first, size_t *sent,
                            weft_time deadline)
{
    size_t piece = bytes < PIECE ? bytes : PIECE;
    if (blocking || !is_in_memory(s, piece))
        return copy_piece(s, bytes, sent, deadline);
    ptrdiff_t n = wf_ops_sendfile(&s->to, &s->from, &s->at, piece, first ? deadline : WEFT_NOW);
    *sent = n > 0 ? (size_t)n : 0;
    return n;
}

/* As much as there is room for, and with a blocking descriptor all of it. */
static ptrdiff_t send_all(struct sending *s, size_t bytes, weft_time deadline)
{
    bool blocking = wf_is_blocking(s->to.fd);
    size_t done = 0;
    while (done < bytes) {
        size_t sent = 0;
        if (done > 0 && wf_cancel_point(wf_thread_now()->fiber, deadline))
            break; /* the pieces after the first do not wait for room */
        ptrdiff_t n = send_piece(s, bytes - done, blocking, done == 0, &sent, deadline);
        done += sent;
        if (n <= 0)
            return done > 0 ? (ptrdiff_t)done : n;
        wf_budget_spend_anywhere(wf_cost_io(n), !wf_time_is_now(deadline)); /* both are known by their records */
    }
    return (ptrdiff_t)done;
}

ptrdiff_t weft_sendfile(int to, int from, off_t *offset, size_t bytes, weft_time deadline)
{
    wf_slice_enter();
    struct sending s = {.at = 0};
    int kept = errno, rc = wf_fd_refer(&s.to, to);
    if (rc == 0)
        rc = wf_fd_refer(&s.from, from);
    if (rc != 0)
        return rc;
    if (wf_cancel_point(wf_thread_now()->fiber, deadline))
        return -ECANCELED;
    if (!wf_fd_enter(&s.from, 0))
        return -EBADF;
    off_t at = offset ? *offset : (off_t)wf_negative_errno(lseek(from, 0, SEEK_CUR), kept);
    wf_fd_leave(&s.from);
    if (at < 0)
        return at == -EBADF ? at : -EINVAL;
    s.at = at;
    ptrdiff_t n = send_all(&s, bytes, deadline);
    if (offset)
        *offset = s.at;
    else if (n > 0 && wf_fd_enter(&s.from, 0)) {
        wf_negative_errno(lseek(from, s.at, SEEK_SET), kept);
        wf_fd_leave(&s.from);
    }
    wf_sys_free(s.buffer);
    return n;
}
