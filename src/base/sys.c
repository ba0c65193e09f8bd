/*
 * base/sys.c: system calls and allocations that can fail; see sys.h.
 */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#if WF_URING_BUILT
#include <liburing.h>
#endif
#include <netdb.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "base/raw.h"
#include "base/sanitizer.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum verdict { GO_ON, FAIL, LIE };

#ifdef WF_SEAM
static struct {
    unsigned fail_kinds, lie_kinds; /* atomic: set by the test, read by all */
    int countdown;                  /* atomic: calls until the one that fails */
    int more;                       /* atomic: failures left after that one */
    int error;                      /* atomic: what they say; 0: what is likely */
    unsigned calls;                 /* atomic */
    size_t held_n, held_bytes;      /* atomic */
    unsigned before_kinds;          /* atomic: released with the two below, pairs with ask */
    void (*before)(void *);         /* const while before_kinds is not 0 */
    void *before_arg;               /* const while before_kinds is not 0 */
    wf_sys_resolver_fn *resolver;   /* atomic */
} seam;

void wf_sys_fail(unsigned kinds, unsigned n, unsigned more)
{
    __atomic_store_n(&seam.fail_kinds, 0u, __ATOMIC_SEQ_CST);
    __atomic_store_n(&seam.countdown, n == 0 ? -1 : (int)n, __ATOMIC_SEQ_CST);
    __atomic_store_n(&seam.more, (int)more, __ATOMIC_SEQ_CST);
    __atomic_store_n(&seam.calls, 0u, __ATOMIC_SEQ_CST);
    __atomic_store_n(&seam.fail_kinds, kinds, __ATOMIC_SEQ_CST);
}

void wf_sys_fail_with(int error)
{
    __atomic_store_n(&seam.error, error, __ATOMIC_SEQ_CST);
}

unsigned wf_sys_calls(void)
{
    return __atomic_load_n(&seam.calls, __ATOMIC_SEQ_CST);
}

void wf_sys_lie(unsigned kinds)
{
    __atomic_store_n(&seam.lie_kinds, kinds, __ATOMIC_SEQ_CST);
}

void wf_sys_before(unsigned kinds, void (*fn)(void *), void *arg)
{
    __atomic_store_n(&seam.before_kinds, 0u, __ATOMIC_SEQ_CST);
    seam.before = fn;
    seam.before_arg = arg;
    __atomic_store_n(&seam.before_kinds, kinds, __ATOMIC_RELEASE); /* pairs with ask */
}

void wf_sys_resolver(wf_sys_resolver_fn *fn)
{
    __atomic_store_n(&seam.resolver, fn, __ATOMIC_SEQ_CST);
}

struct wf_sys_held wf_sys_held(void)
{
    return (struct wf_sys_held){__atomic_load_n(&seam.held_n, __ATOMIC_SEQ_CST),
                                __atomic_load_n(&seam.held_bytes, __ATOMIC_SEQ_CST)};
}

static enum verdict ask(enum wf_sys kind)
{
    if (__atomic_load_n(&seam.before_kinds, __ATOMIC_ACQUIRE) & 1u << kind) /* pairs with wf_sys_before */
        seam.before(seam.before_arg);
    if (__atomic_load_n(&seam.lie_kinds, __ATOMIC_RELAXED) & 1u << kind)
        return LIE;
    if (!(__atomic_load_n(&seam.fail_kinds, __ATOMIC_RELAXED) & 1u << kind))
        return GO_ON;
    __atomic_add_fetch(&seam.calls, 1u, __ATOMIC_RELAXED);
    int left = __atomic_sub_fetch(&seam.countdown, 1, __ATOMIC_RELAXED);
    if (left == 0)
        return FAIL;
    if (left < 0 && __atomic_load_n(&seam.more, __ATOMIC_RELAXED) > 0 && left >= -seam.more)
        return FAIL;
    return GO_ON;
}

void wf_sys_point(enum wf_sys kind)
{
    ask(kind);
}

bool wf_sys_may(enum wf_sys kind)
{
    return ask(kind) == GO_ON;
}

static int error_or(int likely)
{
    int error = __atomic_load_n(&seam.error, __ATOMIC_SEQ_CST);
    return error != 0 ? error : likely;
}

static void held(ssize_t n, ssize_t bytes)
{
    __atomic_add_fetch(&seam.held_n, (size_t)n, __ATOMIC_RELAXED);
    __atomic_add_fetch(&seam.held_bytes, (size_t)bytes, __ATOMIC_RELAXED);
}
#else
static inline enum verdict ask(enum wf_sys kind)
{
    (void)kind;
    return GO_ON;
}

static inline int error_or(int likely)
{
    return likely;
}

static inline void held(ssize_t n, ssize_t bytes)
{
    (void)n, (void)bytes;
}
#endif

void *wf_sys_malloc(size_t bytes)
{
    int kept = errno;
    void *p = ask(WF_SYS_MALLOC) == GO_ON ? malloc(bytes) : NULL;
    if (p)
        held(1, 0);
    errno = kept;
    return p;
}

void *wf_sys_malloc_aligned(size_t bytes, size_t align)
{
    int kept = errno;
    void *p = NULL;
    if (ask(WF_SYS_MALLOC) != GO_ON || posix_memalign(&p, align, bytes) != 0)
        p = NULL;
    if (p)
        held(1, 0);
    errno = kept;
    return p;
}

int wf_sys_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
    errno = 0;
#ifdef WF_SEAM
    wf_sys_resolver_fn *resolver = __atomic_load_n(&seam.resolver, __ATOMIC_SEQ_CST);
    if (resolver)
        return resolver(host, port, hints, out);
#endif
    return getaddrinfo(host, port, hints, out);
}

int wf_sys_thread(pthread_t *out, void *(*fn)(void *), void *arg)
{
    int kept = errno;
    int rc = ask(WF_SYS_THREAD) == GO_ON ? pthread_create(out, NULL, fn, arg) : EAGAIN;
    errno = kept;
    return rc == 0 ? 0 : -EAGAIN;
}

int wf_sys_epoll_create(void)
{
    int kept = errno;
    int fd = ask(WF_SYS_EPOLL) == GO_ON ? epoll_create1(EPOLL_CLOEXEC) : (errno = error_or(EMFILE), -1);
    int result = fd < 0 ? -errno : fd;
    errno = kept;
    return wf_own_take(result);
}

int wf_sys_eventfd(void)
{
    int kept = errno;
    int fd = ask(WF_SYS_EVENTFD) == GO_ON ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : (errno = error_or(EMFILE), -1);
    int result = fd < 0 ? -errno : fd;
    errno = kept;
    return wf_own_take(result);
}

int wf_sys_timerfd(clockid_t clock)
{
    int kept = errno;
    enum wf_sys call = clock == CLOCK_REALTIME ? WF_SYS_TIMERFD : WF_SYS_TIMERFD_MONOTONIC;
    int fd = ask(call) == GO_ON ? timerfd_create(clock, TFD_CLOEXEC | TFD_NONBLOCK) : (errno = EMFILE, -1);
    int result = fd < 0 ? -errno : fd;
    errno = kept;
    return wf_own_take(result);
}

int wf_sys_timerfd_set(int fd, const struct itimerspec *when)
{
    int kept = errno;
    int result = timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, when, NULL) < 0 ? -errno : 0;
    errno = kept;
    return result;
}

int wf_sys_timerfd_read(int fd)
{
    int kept = errno;
    uint64_t times;
    ssize_t n = ask(WF_SYS_TIMERFD_READ) == GO_ON ? wf_raw_read(fd, &times, sizeof times) : (errno = ECANCELED, -1);
    int result = n < 0 ? -errno : 1;
    errno = kept;
    return result;
}

#if WF_URING_BUILT
int wf_sys_uring(unsigned entries, struct io_uring *ring, struct io_uring_params *params)
{
    int kept = errno;
    int rc = ask(WF_SYS_URING) == GO_ON ? io_uring_queue_init_params(entries, ring, params) : -error_or(ENOMEM);
    if (rc == 0)
        ring->ring_fd = ring->enter_ring_fd = wf_own_take(ring->ring_fd); /* what is mapped is the same file's */
    errno = kept;
    return rc;
}

bool wf_sys_uring_enter_directly(struct io_uring *ring)
{
    int kept = errno;
    bool does = ask(WF_SYS_URING_ENTRY) == GO_ON && io_uring_register_ring_fd(ring) == 1;
    errno = kept;
    return does;
}

enum {
    UNREGISTER_RING_FDS = 21,
    USE_REGISTERED_RING = INT32_MIN, /* the highest bit, from Linux 6.3 on: the ring is named by its place */
};

void wf_sys_uring_end(struct io_uring *ring)
{
    int kept = errno;
    if (!wf_own_is(ring->ring_fd, "[io_uring]")) {
        struct io_uring_rsrc_update place = {.offset = (uint32_t)ring->enter_ring_fd};
        if (ring->enter_ring_fd != ring->ring_fd) /* else the thread has no place for it */
            syscall(SYS_io_uring_register, ring->enter_ring_fd, UNREGISTER_RING_FDS | USE_REGISTERED_RING, &place, 1);
        wf_own_forget(ring->ring_fd);
        ring->ring_fd = -1;
    }
    wf_own_forget(ring->ring_fd);
    io_uring_queue_exit(ring);
    errno = kept;
}
#endif

int wf_sys_epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
    int kept = errno;
    int rc = ask(WF_SYS_EPOLL_CTL) == GO_ON ? epoll_ctl(set, op, fd, event) : (errno = error_or(ENOMEM), -1);
    int result = rc < 0 ? -errno : 0;
    errno = kept;
    return result;
}

void wf_sys_free(void *p)
{
    if (p)
        held(-1, 0);
    free(p);
}

void *wf_sys_map(size_t bytes)
{
    int kept = errno;
    if (ask(WF_SYS_MMAP) != GO_ON)
        return NULL;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (p != MAP_FAILED) {
        madvise(p, bytes, MADV_NOHUGEPAGE); /* a kernel without huge pages says EINVAL, and needs no advice */
        held(0, (ssize_t)bytes);
    }
    errno = kept;
    return p == MAP_FAILED ? NULL : p;
}

void wf_sys_huge(void *base, size_t bytes)
{
    int kept = errno;
    madvise(base, bytes, MADV_HUGEPAGE);
    errno = kept;
}

void wf_sys_unmap(void *base, size_t bytes)
{
    int kept = errno;
    munmap(base, bytes);
    held(0, -(ssize_t)bytes);
    errno = kept;
}

/* What a call that sets errno answered, with errno as it was before. */
static int result(int rc, int kept)
{
    int answer = rc == 0 ? 0 : -errno;
    errno = kept;
    return answer;
}

int wf_sys_forbid(void *base, size_t bytes)
{
    int kept = errno;
    enum verdict v = ask(WF_SYS_MPROTECT);
    if (v != GO_ON)
        return v == FAIL ? -ENOMEM : 0;
    return result(mprotect(base, bytes, PROT_NONE), kept);
}

int wf_sys_discard(void *base, size_t bytes)
{
    int kept = errno;
    return result(madvise(base, bytes, MADV_DONTNEED), kept);
}

int wf_sys_guard(void *base, size_t bytes)
{
    int kept = errno;
    enum verdict v = ask(WF_SYS_GUARD);
    if (v != GO_ON)
        return v == FAIL ? -EINVAL : 0;
    return result(madvise(base, bytes, MADV_GUARD_INSTALL), kept);
}

/*
 * All ranges in one call. The pidfd lives only for that call: kept, it would name the parent after a fork. How many of
 * the ranges were done is returned.
 */
static size_t guard_by_vector(const struct iovec *ranges, size_t count)
{
    size_t done = 0;
#if defined(SYS_process_madvise) && defined(SYS_pidfd_open) && !WF_VALGRIND /* which knows neither call */
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (self >= 0) {
        ssize_t advised = syscall(SYS_process_madvise, self, ranges, count, MADV_GUARD_INSTALL, 0);
        syscall(SYS_close, self); /* not close(): a cancellation point, and the caller holds a lock */
        while (advised > 0 && done < count && (size_t)advised >= ranges[done].iov_len)
            advised -= (ssize_t)ranges[done++].iov_len;
    }
#endif
    (void)ranges, (void)count;
    return done;
}

int wf_sys_guard_many(const struct iovec *ranges, size_t count)
{
    int kept = errno, rc = 0;
    enum verdict v = ask(WF_SYS_GUARD);
    if (v != GO_ON)
        return v == FAIL ? -EINVAL : 0;
    for (size_t i = guard_by_vector(ranges, count); i < count && rc == 0; i++)
        rc = madvise(ranges[i].iov_base, ranges[i].iov_len, MADV_GUARD_INSTALL);
    return result(rc, kept);
}

/* Not by access() or the like: tools that stand in for the kernel (valgrind, qemu-user) read the bytes themselves. */
bool wf_sys_forbidden(void *page)
{
    int kept = errno;
    return result(madvise(page, wf_sys_page(), MADV_POPULATE_READ), kept) == -EFAULT;
}

/* By bare system calls, as in guard_by_vector. */
size_t wf_sys_mapping_limit(void)
{
    int kept = errno;
    size_t limit = 0;
    char text[24] = "";
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (syscall(SYS_read, fd, text, sizeof text - 1) > 0)
            limit = strtoul(text, NULL, 10);
        syscall(SYS_close, fd);
    }
    errno = kept;
    return limit > 0 ? limit : 65530;
}

size_t wf_sys_page(void)
{
    static size_t page; /* atomic: every writer writes the same */
    size_t known = __atomic_load_n(&page, __ATOMIC_RELAXED);
    if (known == 0) {
        known = (size_t)sysconf(_SC_PAGESIZE);
        __atomic_store_n(&page, known, __ATOMIC_RELAXED);
    }
    return known;
}
