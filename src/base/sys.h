/*
 * base/sys.h: every system call and allocation that can fail, and the seam through which tests make them fail.
 *
 * Failure is a negative errno, or NULL for pointers; errno itself is left as it was, as it belongs to the user's code.
 * In builds with WF_SEAM a test can let the nth call fail, let a call claim success and do nothing, or hold up whoever
 * makes one.
 */
#ifndef WF_BASE_SYS_H
#define WF_BASE_SYS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The kinds of calls that the seam tells apart. */
enum wf_sys {
    WF_SYS_MALLOC,
    WF_SYS_MMAP,
    WF_SYS_MPROTECT,
    WF_SYS_GUARD, /* MADV_GUARD_INSTALL, one range or many */
    WF_SYS_THREAD,
    WF_SYS_EPOLL,     /* epoll_create1 */
    WF_SYS_EPOLL_CTL, /* epoll_ctl */
    WF_SYS_EVENTFD,
    WF_SYS_URING,   /* io_uring_setup */
    WF_SYS_TIMERFD, /* on CLOCK_REALTIME */
    WF_SYS_TIMERFD_MONOTONIC,
    WF_SYS_TIMERFD_READ, /* fails as if the clock was set */
    WF_SYS_ACCEPT,       /* accept4, and an accept in a ring: only to be held up */
    WF_SYS_RING_POLL,    /* a poll that is about to go into a ring: only to be held up */
    WF_SYS_HANGUP,       /* a fiber that a hangup is about to cancel: only to be held up */
    WF_SYS_CANCEL,       /* a cancel or a stop of a scope that has woken its owner: only to be held up */
    WF_SYS_AWAIT,        /* a thread or a task that is about to wait for a task: only to be held up */
    WF_SYS_RING_CANCEL,  /* a cancel of a call in a ring: one that fails does not find the call */
    WF_SYS_URING_ENTRY,  /* a ring's place with its thread */
    WF_SYS_GROW,         /* a larger buffer for a ring (base/ring.h) */
    WF_SYS_NOSIGNAL,     /* RWF_NOSIGNAL: fails as on a kernel that does not know it. The kernel is asked once */
};

void *wf_sys_malloc(size_t bytes);
void wf_sys_free(void *p);
/* Aligned to a power of two; wf_sys_free frees it. */
void *wf_sys_malloc_aligned(size_t bytes, size_t align);

/* A thread that runs fn(arg); 0 or -EAGAIN. */
int wf_sys_thread(pthread_t *out, void *(*fn)(void *), void *arg);

/* A new descriptor that is closed by exec and is the library's own (own.h: close it by that), or a negative errno. */
int wf_sys_epoll_create(void);
int wf_sys_eventfd(void); /* never blocks */

struct itimerspec;
/* On CLOCK_REALTIME, and never blocks; when it is to be readable; 1 it was, or a negative errno, -ECANCELED: the clock was
 * set. */
int wf_sys_timerfd(clockid_t clock);
int wf_sys_timerfd_set(int fd, const struct itimerspec *when);
int wf_sys_timerfd_read(int fd);

struct io_uring;
struct io_uring_params;
/* 0, or a negative errno. Its descriptor is the library's own. */
int wf_sys_uring(unsigned entries, struct io_uring *ring, struct io_uring_params *params);
/*
 * From now on the calling thread, and no other, enters the ring without its descriptor: it may be closed. False: that is
 * not to be had.
 */
bool wf_sys_uring_enter_directly(struct io_uring *ring);
/* Gives up the ring. If its number is another's by now, that is left alone. */
void wf_sys_uring_end(struct io_uring *ring);

struct addrinfo;
/* getaddrinfo(3): 0 or EAI_.... Unlike the others it leaves errno changed: the call's, or 0 if the call has set none. */
int wf_sys_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out);

struct epoll_event;
/* 0, or a negative errno. */
int wf_sys_epoll_ctl(int set, int op, int fd, struct epoll_event *event);

/* Anonymous private memory that reserves nothing and takes no huge pages; NULL on failure. */
void *wf_sys_map(size_t bytes);
void wf_sys_unmap(void *base, size_t bytes);
/* Such memory may be on huge pages after all, if the system likes. */
void wf_sys_huge(void *base, size_t bytes);

/* 0 or a negative errno. */
int wf_sys_forbid(void *base, size_t bytes);
int wf_sys_discard(void *base, size_t bytes);
int wf_sys_guard(void *base, size_t bytes);
int wf_sys_guard_many(const struct iovec *ranges, size_t count);

/* Whether the kernel says that the page may not be touched. False also when the kernel cannot tell. */
bool wf_sys_forbidden(void *page);

/* The most mappings this process may have. */
size_t wf_sys_mapping_limit(void);

size_t wf_sys_page(void);

#ifdef WF_SEAM
/* Where a call of this kind is made by others: for wf_sys_before. */
void wf_sys_point(enum wf_sys kind);
/* The same for wf_sys_fail. False: the caller acts as if the call had failed. */
bool wf_sys_may(enum wf_sys kind);
/* Lets the nth call from now on (1 is the next) of any kind in `kinds` (bits) fail, and `more` after it; n 0: none. */
void wf_sys_fail(unsigned kinds, unsigned n, unsigned more);
/* What a failing call on descriptors (epoll, eventfd, rings) says; 0: what is likely. */
void wf_sys_fail_with(int error);
/* How many calls of the kinds given to wf_sys_fail were made since. */
unsigned wf_sys_calls(void);
/* Lets the calls of these kinds (bits) claim success and do nothing. */
void wf_sys_lie(unsigned kinds);
/* Lets every thread call fn(arg) before it makes a call of these kinds (bits). Set while nobody makes one; 0: none. */
void wf_sys_before(unsigned kinds, void (*fn)(void *), void *arg);
/* Lets this function, on whatever thread, stand in for getaddrinfo(3); NULL: none. What it returns freeaddrinfo frees. */
typedef int wf_sys_resolver_fn(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out);
void wf_sys_resolver(wf_sys_resolver_fn *fn);
/* Memory and mappings taken through this file and not yet given back: allocations in .n, mapped bytes in .bytes. */
struct wf_sys_held {
    size_t n, bytes;
};
struct wf_sys_held wf_sys_held(void);
#else
static inline void wf_sys_point(enum wf_sys kind)
{
    (void)kind;
}

static inline bool wf_sys_may(enum wf_sys kind)
{
    (void)kind;
    return true;
}
#endif

#endif
