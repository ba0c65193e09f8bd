/*
 * hook/real.h: the system's own functions, which the hooks stand in for.
 *
 * Until the constructor has run (another library's may be earlier, or an allocator that reads its settings) a call is the
 * bare system call: nothing is looked up there, as whoever calls may hold the allocator's lock.
 */
#ifndef WF_HOOK_REAL_H
#define WF_HOOK_REAL_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdbool.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>

#include <weft/hook.h>

/* A definition that takes the place of the C library's. */
#define HOOK __attribute__((visibility("default")))

/*
 * Asked for anew each time: a fiber with WEFT_MIGRATE may go on on another thread after a wait, and compilers take errno to be
 * in one place for all of a function.
 */
#undef errno
#define errno (*wf_errno())
int *wf_errno(void) __attribute__((visibility("hidden")));

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

struct __res_state; /* of resolv.h, which has macros for common words */
struct __jmp_buf_tag;

/* What the C library's headers declare only where it is asked for. */
void __chk_fail(void) __attribute__((noreturn)); /* the C library's: a buffer is too small */
HOOK sighandler_t bsd_signal(int number, sighandler_t fn);
HOOK ssize_t __read_chk(int fd, void *memory, size_t bytes, size_t room);
HOOK ssize_t __recv_chk(int fd, void *memory, size_t bytes, size_t room, int flags);
HOOK ssize_t __recvfrom_chk(int fd, void *memory, size_t bytes, size_t room, int flags, struct sockaddr *from,
                            socklen_t *size);
HOOK void __longjmp_chk(struct __jmp_buf_tag *to, int value) __attribute__((noreturn));
HOOK int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t room);
HOOK int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask, size_t room);

/*
 * X(type, name, parameters, arguments): those that are system calls, and so have a bare form too (real.c).
 */
#define SYSTEM_CALLS(X)                                                                                                \
    X(ssize_t, read, (int fd, void *memory, size_t bytes), (fd, memory, bytes))                                        \
    X(ssize_t, write, (int fd, const void *memory, size_t bytes), (fd, memory, bytes))                                 \
    X(ssize_t, readv, (int fd, const struct iovec *parts, int count), (fd, parts, count))                              \
    X(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))                             \
    X(ssize_t, preadv2, (int fd, const struct iovec *parts, int count, off_t at, int flags),                           \
      (fd, parts, count, at, flags))                                                                                   \
    X(ssize_t, pwritev2, (int fd, const struct iovec *parts, int count, off_t at, int flags),                          \
      (fd, parts, count, at, flags))                                                                                   \
    X(ssize_t, recv, (int fd, void *memory, size_t bytes, int flags), (fd, memory, bytes, flags))                      \
    X(ssize_t, recvfrom, (int fd, void *memory, size_t bytes, int flags, struct sockaddr *from, socklen_t *size),      \
      (fd, memory, bytes, flags, from, size))                                                                          \
    X(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))                             \
    X(int, recvmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *limit),            \
      (fd, messages, count, flags, limit))                                                                             \
    X(ssize_t, send, (int fd, const void *memory, size_t bytes, int flags), (fd, memory, bytes, flags))                \
    X(ssize_t, sendto,                                                                                                 \
      (int fd, const void *memory, size_t bytes, int flags, const struct sockaddr *to, socklen_t size),                \
      (fd, memory, bytes, flags, to, size))                                                                            \
    X(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))                       \
    X(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags), (fd, messages, count, flags))      \
    X(ssize_t, sendfile, (int to, int from, off_t *offset, size_t bytes), (to, from, offset, bytes))                   \
    X(ssize_t, splice, (int from, off64_t *from_at, int to, off64_t *to_at, size_t bytes, unsigned flags),             \
      (from, from_at, to, to_at, bytes, flags))                                                                        \
    X(int, connect, (int fd, const struct sockaddr *to, socklen_t size), (fd, to, size))                               \
    X(int, accept, (int fd, struct sockaddr *from, socklen_t *size), (fd, from, size))                                 \
    X(int, accept4, (int fd, struct sockaddr *from, socklen_t *size, int flags), (fd, from, size, flags))              \
    X(int, close, (int fd), (fd))                                                                                      \
    X(int, dup2, (int from, int to), (from, to))                                                                       \
    X(int, dup3, (int from, int to, int flags), (from, to, flags))                                                     \
    X(int, close_range, (unsigned first, unsigned last, int flags), (first, last, flags))                              \
    X(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t size),                               \
      (fd, level, name, value, size))                                                                                  \
    X(int, poll, (struct pollfd * fds, nfds_t count, int ms), (fds, count, ms))                                        \
    X(int, ppoll, (struct pollfd * fds, nfds_t count, const struct timespec *limit, const sigset_t *mask),             \
      (fds, count, limit, mask))                                                                                       \
    X(int, select, (int count, fd_set *reads, fd_set *writes, fd_set *others, struct timeval *limit),                  \
      (count, reads, writes, others, limit))                                                                           \
    X(int, pselect,                                                                                                    \
      (int count, fd_set *reads, fd_set *writes, fd_set *others, const struct timespec *limit, const sigset_t *mask),  \
      (count, reads, writes, others, limit, mask))                                                                     \
    X(int, epoll_wait, (int set, struct epoll_event *events, int room, int ms), (set, events, room, ms))               \
    X(int, epoll_pwait, (int set, struct epoll_event *events, int room, int ms, const sigset_t *mask),                 \
      (set, events, room, ms, mask))                                                                                   \
    X(int, epoll_pwait2,                                                                                               \
      (int set, struct epoll_event *events, int room, const struct timespec *limit, const sigset_t *mask),             \
      (set, events, room, limit, mask))                                                                                \
    X(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))                              \
    X(int, clock_nanosleep, (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),          \
      (clock, flags, time, left))                                                                                      \
    X(pid_t, wait4, (pid_t pid, int *state, int flags, struct rusage *usage), (pid, state, flags, usage))              \
    X(int, waitid, (idtype_t type, id_t id, siginfo_t * info, int flags), (type, id, info, flags))

/* The others: the C library's alone, looked up when they are first called if that is before the constructor. */
#define LIBRARY_CALLS(X)                                                                                               \
    X(unsigned, sleep, (unsigned seconds), (seconds))                                                                  \
    X(int, usleep, (useconds_t us), (us))                                                                              \
    X(void, closefrom, (int low), (low))                                                                               \
    X(int, getaddrinfo, (const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out),  \
      (host, service, hints, out))                                                                                     \
    X(int, getnameinfo,                                                                                                \
      (const struct sockaddr *at, socklen_t size, char *host, socklen_t host_room, char *service,                      \
       socklen_t service_room, int flags),                                                                             \
      (at, size, host, host_room, service, service_room, flags))                                                       \
    X(struct hostent *, gethostbyname, (const char *name), (name))                                                     \
    X(struct hostent *, gethostbyname2, (const char *name, int family), (name, family))                                \
    X(struct hostent *, gethostbyaddr, (const void *at, socklen_t size, int family), (at, size, family))               \
    X(int, gethostbyname_r,                                                                                            \
      (const char *name, struct hostent *entry, char *memory, size_t room, struct hostent **out, int *error),          \
      (name, entry, memory, room, out, error))                                                                         \
    X(int, gethostbyname2_r,                                                                                           \
      (const char *name, int family, struct hostent *entry, char *memory, size_t room, struct hostent **out,           \
       int *error),                                                                                                    \
      (name, family, entry, memory, room, out, error))                                                                 \
    X(int, gethostbyaddr_r,                                                                                            \
      (const void *at, socklen_t size, int family, struct hostent *entry, char *memory, size_t room,                   \
       struct hostent **out, int *error),                                                                              \
      (at, size, family, entry, memory, room, out, error))                                                             \
    X(sighandler_t, signal, (int number, sighandler_t fn), (number, fn))                                               \
    X(sighandler_t, ssignal, (int number, sighandler_t fn), (number, fn))                                              \
    X(sighandler_t, sysv_signal, (int number, sighandler_t fn), (number, fn))                                          \
    X(sighandler_t, sigset, (int number, sighandler_t fn), (number, fn))                                               \
    X(void, longjmp, (struct __jmp_buf_tag * to, int value), (to, value))                                              \
    X(void, _longjmp, (struct __jmp_buf_tag * to, int value), (to, value))                                             \
    X(void, siglongjmp, (struct __jmp_buf_tag * to, int value), (to, value))                                           \
    X(void, __longjmp_chk, (struct __jmp_buf_tag * to, int value), (to, value))                                        \
    X(int, res_query, (const char *name, int class, int type, unsigned char *answer, int room),                        \
      (name, class, type, answer, room))                                                                               \
    X(int, res_search, (const char *name, int class, int type, unsigned char *answer, int room),                       \
      (name, class, type, answer, room))                                                                               \
    X(int, res_querydomain,                                                                                            \
      (const char *name, const char *domain, int class, int type, unsigned char *answer, int room),                    \
      (name, domain, class, type, answer, room))                                                                       \
    X(int, res_send, (const unsigned char *message, int bytes, unsigned char *answer, int room),                       \
      (message, bytes, answer, room))                                                                                  \
    X(int, res_nquery,                                                                                                 \
      (struct __res_state * state, const char *name, int class, int type, unsigned char *answer, int room),            \
      (state, name, class, type, answer, room))                                                                        \
    X(int, res_nsearch,                                                                                                \
      (struct __res_state * state, const char *name, int class, int type, unsigned char *answer, int room),            \
      (state, name, class, type, answer, room))                                                                        \
    X(int, res_nquerydomain,                                                                                           \
      (struct __res_state * state, const char *name, const char *domain, int class, int type, unsigned char *answer,   \
       int room),                                                                                                      \
      (state, name, domain, class, type, answer, room))                                                                \
    X(int, res_nsend,                                                                                                  \
      (struct __res_state * state, const unsigned char *message, int bytes, unsigned char *answer, int room),          \
      (state, message, bytes, answer, room))                                                                           \
    X(int, thrd_sleep, (const struct timespec *time, struct timespec *left), (time, left))                             \
    X(int, system, (const char *command), (command))                                                                   \
    X(int, pclose, (FILE * stream), (stream))                                                                          \
    EXIT_CALLS(X)                                                                                                      \
    LOCK_CALLS(X)

/* ... of the ends of threads (exit.c). */
#define EXIT_CALLS(X)                                                                                                  \
    X(void, pthread_exit, (void *value), (value))                                                                      \
    X(void, __pthread_register_cancel, (__pthread_unwind_buf_t * buffer), (buffer))                                    \
    X(void, __pthread_unregister_cancel, (__pthread_unwind_buf_t * buffer), (buffer))                                  \
    X(void, __pthread_register_cancel_defer, (__pthread_unwind_buf_t * buffer), (buffer))                              \
    X(void, __pthread_unregister_cancel_restore, (__pthread_unwind_buf_t * buffer), (buffer))                          \
    X(void, __pthread_unwind_next, (__pthread_unwind_buf_t * buffer), (buffer))

/* ... of the locks (lock.h). */
#define LOCK_CALLS(X)                                                                                                  \
    X(int, pthread_mutex_lock, (pthread_mutex_t * m), (m))                                                             \
    X(int, pthread_mutex_trylock, (pthread_mutex_t * m), (m))                                                          \
    X(int, pthread_mutex_timedlock, (pthread_mutex_t * m, const struct timespec *at), (m, at))                         \
    X(int, pthread_mutex_clocklock, (pthread_mutex_t * m, clockid_t clock, const struct timespec *at), (m, clock, at)) \
    X(int, pthread_mutex_unlock, (pthread_mutex_t * m), (m))                                                           \
    X(int, pthread_mutex_consistent, (pthread_mutex_t * m), (m))                                                       \
    X(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t * m), (c, m))                                       \
    X(int, pthread_cond_timedwait, (pthread_cond_t * c, pthread_mutex_t * m, const struct timespec *at), (c, m, at))   \
    X(int, pthread_cond_clockwait,                                                                                     \
      (pthread_cond_t * c, pthread_mutex_t * m, clockid_t clock, const struct timespec *at), (c, m, clock, at))        \
    X(int, pthread_cond_signal, (pthread_cond_t * c), (c))                                                             \
    X(int, pthread_cond_broadcast, (pthread_cond_t * c), (c))                                                          \
    X(int, pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))                                                         \
    X(int, pthread_rwlock_tryrdlock, (pthread_rwlock_t * l), (l))                                                      \
    X(int, pthread_rwlock_timedrdlock, (pthread_rwlock_t * l, const struct timespec *at), (l, at))                     \
    X(int, pthread_rwlock_clockrdlock, (pthread_rwlock_t * l, clockid_t clock, const struct timespec *at),             \
      (l, clock, at))                                                                                                  \
    X(int, pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))                                                         \
    X(int, pthread_rwlock_trywrlock, (pthread_rwlock_t * l), (l))                                                      \
    X(int, pthread_rwlock_timedwrlock, (pthread_rwlock_t * l, const struct timespec *at), (l, at))                     \
    X(int, pthread_rwlock_clockwrlock, (pthread_rwlock_t * l, clockid_t clock, const struct timespec *at),             \
      (l, clock, at))                                                                                                  \
    X(int, pthread_rwlock_unlock, (pthread_rwlock_t * l), (l))                                                         \
    X(int, sem_wait, (sem_t * s), (s))                                                                                 \
    X(int, sem_trywait, (sem_t * s), (s))                                                                              \
    X(int, sem_timedwait, (sem_t * s, const struct timespec *at), (s, at))                                             \
    X(int, sem_clockwait, (sem_t * s, clockid_t clock, const struct timespec *at), (s, clock, at))                     \
    X(int, sem_post, (sem_t * s), (s))                                                                                 \
    X(int, pthread_once, (pthread_once_t * once, void (*fn)(void)), (once, fn))                                        \
    X(int, pthread_join, (pthread_t thread, void **value), (thread, value))

#define MEMBER(type, name, parameters, arguments) type(*name) parameters;
struct wf_real {
    SYSTEM_CALLS(MEMBER)
    LIBRARY_CALLS(MEMBER)
};
#undef MEMBER

extern bool wf_hooks_on __attribute__((visibility("hidden"))); /* const after the constructor: WEFT_HOOK is not "off" */
extern bool wf_is_verbose __attribute__((visibility("hidden")));     /* ... it is "verbose" */
extern struct wf_real wf_real __attribute__((visibility("hidden"))); /* const once the constructor has run */

/* What an environment variable says. */
enum wf_word {
    WF_DEFAULT, /* nothing, or what is not known */
    WF_OFF,     /* off, 0, no or false, in any case */
    WF_ON,      /* on, 1, yes or true */
    WF_EXTRA,   /* a word that this variable has besides */
};

/* For constructors: nothing is allocated. Of a value that is not known one line on stderr says what is. */
enum wf_word wf_environment(const char *name, const char *extra, const char *known);

/* Whether a call made here is to let a fiber wait. */
static inline bool wf_hooked_here(void)
{
    return unlikely(weft_hooked()) && wf_hooks_on;
}

#endif
