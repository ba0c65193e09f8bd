/*
 * hook/names.h: every name that the hooks stand in for. hook.map has the same ones.
 */
#ifndef WF_HOOK_NAMES_H
#define WF_HOOK_NAMES_H

#include <stdbool.h>

/* clang-format off */
#define HOOK_NAMES(X) \
    X(read) X(__read_chk) X(readv) X(write) X(writev) X(recv) X(__recv_chk) X(recvfrom) X(__recvfrom_chk) X(recvmsg) \
    X(send) X(sendto) X(sendmsg) X(recvmmsg) X(sendmmsg) X(preadv2) X(preadv64v2) X(pwritev2) X(pwritev64v2) \
    X(eventfd_read) X(eventfd_write) X(sendfile) X(sendfile64) X(splice) X(connect) X(accept) X(accept4) X(close) \
    X(dup2) X(dup3) X(close_range) X(closefrom) X(setsockopt) X(poll) X(__poll_chk) X(ppoll) X(__ppoll_chk) X(select) X(pselect) \
    X(epoll_wait) X(epoll_pwait) X(epoll_pwait2) X(sleep) X(usleep) X(nanosleep) X(clock_nanosleep) X(getaddrinfo) \
    X(getnameinfo) X(gethostbyname) X(gethostbyname2) X(gethostbyaddr) X(gethostbyname_r) X(gethostbyname2_r) \
    X(gethostbyaddr_r) X(waitpid) X(wait) X(wait3) X(wait4) X(waitid) X(system) X(pclose) X(sigaction) X(signal) \
    X(sysv_signal) X(__sysv_signal) X(bsd_signal) X(ssignal) X(sigset) X(res_query) X(res_search) X(res_querydomain) \
    X(res_send) X(res_nquery) X(res_nsearch) X(res_nquerydomain) X(res_nsend) X(__res_query) X(__res_search) \
    X(__res_querydomain) X(__res_send) X(__res_nquery) X(__res_nsearch) X(__res_nquerydomain) X(__res_nsend) \
    X(thrd_sleep) X(longjmp) X(_longjmp) X(siglongjmp) X(__longjmp_chk) X(pthread_exit) X(thrd_exit) \
    X(__pthread_register_cancel) X(__pthread_unregister_cancel) X(__pthread_register_cancel_defer) \
    X(__pthread_unregister_cancel_restore) X(__pthread_unwind_next)
/* clang-format on */

/* Those of the locks (lock.h). */
/* clang-format off */
#define LOCK_NAMES(X) \
    X(pthread_mutex_lock) X(pthread_mutex_trylock) X(pthread_mutex_timedlock) X(pthread_mutex_clocklock) \
    X(pthread_mutex_unlock) X(pthread_cond_wait) X(pthread_cond_timedwait) X(pthread_cond_clockwait) \
    X(pthread_cond_signal) X(pthread_cond_broadcast) X(pthread_rwlock_rdlock) X(pthread_rwlock_tryrdlock) \
    X(pthread_rwlock_timedrdlock) X(pthread_rwlock_clockrdlock) X(pthread_rwlock_wrlock) X(pthread_rwlock_trywrlock) \
    X(pthread_rwlock_timedwrlock) X(pthread_rwlock_clockwrlock) X(pthread_rwlock_unlock) X(sem_wait) X(sem_trywait) \
    X(sem_timedwait) X(sem_clockwait) X(sem_post) X(pthread_once) X(pthread_join) X(mtx_lock) X(mtx_trylock) \
    X(mtx_timedlock) X(mtx_unlock) X(cnd_wait) X(cnd_timedwait) X(cnd_signal) X(cnd_broadcast) X(call_once) \
    X(thrd_join) X(pthread_mutex_consistent) X(__cxa_guard_acquire) X(__cxa_guard_release) X(__cxa_guard_abort)
/* clang-format on */

/* Whether there is a hook of this name. */
bool wf_hook_has(const char *name);

#endif
