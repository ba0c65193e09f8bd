/*
 * hook/names.h: every name that the hooks stand in for. hook.map has the same ones.
 */
#ifndef WF_HOOK_NAMES_H
#define WF_HOOK_NAMES_H

#include <stdbool.h>

#define HOOK_NAMES(X)                                                                                                  \
    X(read)                                                                                                            \
    X(__read_chk)                                                                                                      \
    X(readv)                                                                                                           \
    X(write)                                                                                                           \
    X(writev)                                                                                                          \
    X(recv)                                                                                                            \
    X(__recv_chk)                                                                                                      \
    X(recvfrom)                                                                                                        \
    X(__recvfrom_chk)                                                                                                  \
    X(recvmsg)                                                                                                         \
    X(send)                                                                                                            \
    X(sendto)                                                                                                          \
    X(sendmsg)                                                                                                         \
    X(recvmmsg)                                                                                                        \
    X(sendmmsg) X(preadv2) X(preadv64v2) X(pwritev2) X(pwritev64v2) X(eventfd_read) X(eventfd_write) X(sendfile)       \
        X(sendfile64) X(splice) X(connect) X(accept) X(accept4) X(close) X(dup2) X(dup3) X(close_range) X(setsockopt)  \
            X(poll) X(__poll_chk) X(ppoll) X(__ppoll_chk) X(select) X(pselect) X(epoll_wait) X(epoll_pwait)            \
                X(epoll_pwait2) X(sleep) X(usleep) X(nanosleep) X(clock_nanosleep) X(getaddrinfo) X(getnameinfo)       \
                    X(gethostbyname) X(gethostbyname2) X(gethostbyaddr) X(gethostbyname_r) X(gethostbyname2_r)         \
                        X(gethostbyaddr_r) X(waitpid) X(wait) X(wait3) X(wait4) X(waitid) X(system) X(pclose)          \
                            X(sigaction) X(signal) X(sysv_signal) X(__sysv_signal) X(bsd_signal) X(ssignal) X(sigset)  \
                                X(res_query) X(res_search) X(res_querydomain) X(res_send) X(res_nquery) X(res_nsearch) \
                                    X(res_nquerydomain) X(res_nsend) X(__res_query) X(__res_search)                    \
                                        X(__res_querydomain) X(__res_send) X(__res_nquery) X(__res_nsearch)            \
                                            X(__res_nquerydomain) X(__res_nsend) X(thrd_sleep)

/* Whether there is a hook of this name. */
bool wf_hook_has(const char *name);

#endif
