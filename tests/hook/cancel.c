/*
 * pthread_cancel of a plain thread that waits in a call which has a hook: it is still a point where that happens.
 */
#include "hook/ends.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>

static int fd_of_call; /* what the thread waits for */

static void by_read(void)
{
    char byte;
    read(fd_of_call, &byte, 1);
}

static void by_recv(void)
{
    char byte;
    recv(fd_of_call, &byte, 1, 0);
}

static void by_recvmsg(void)
{
    char byte;
    struct iovec part = {&byte, 1};
    (void)recvmsg(fd_of_call, &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1}, 0);
}

static void by_send(void)
{
    fill(fd_of_call);
    send(fd_of_call, "x", 1, MSG_NOSIGNAL);
}

static void by_poll(void)
{
    poll(&(struct pollfd){fd_of_call, POLLIN, 0}, 1, -1);
}

static void by_ppoll(void)
{
    ppoll(&(struct pollfd){fd_of_call, POLLIN, 0}, 1, NULL, NULL);
}

static void by_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd_of_call, &set);
    select(fd_of_call + 1, &set, NULL, NULL, NULL);
}

static void by_epoll_wait(void)
{
    struct epoll_event e;
    static int set = -1;
    if (set < 0)
        set = epoll_create1(EPOLL_CLOEXEC);
    epoll_wait(set, &e, 1, -1);
}

static void by_accept(void)
{
    struct sockaddr_in at;
    static int listening = -1;
    if (listening < 0)
        listening = listener(4, &at);
    accept(listening, NULL, NULL);
}

static void by_usleep(void)
{
    usleep(30000000);
}

static void by_sleep(void)
{
    sleep(30);
}

static void by_clock_nanosleep(void)
{
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){30, 0}, NULL);
}

static void by_waitpid(void)
{
    waitpid(-1, NULL, 0);
}

static void (*const calls[])(void) = {by_read,   by_recv,       by_recvmsg, by_send,   by_poll,  by_ppoll,
                                      by_select, by_epoll_wait, by_accept,  by_usleep, by_sleep, by_clock_nanosleep,
                                      by_waitpid};
enum { CALLS = sizeof calls / sizeof calls[0] };

struct victim {
    void (*call)(void);
    bool begun, cleaned, went_on; /* atomic */
};

static void clean_up(void *arg)
{
    __atomic_store_n((bool *)arg, true, __ATOMIC_RELEASE);
}

static void *be_victim(void *arg)
{
    struct victim *v = arg;
    pthread_cleanup_push(clean_up, &v->cleaned);
    __atomic_store_n(&v->begun, true, __ATOMIC_RELEASE);
    v->call();
    __atomic_store_n(&v->went_on, true, __ATOMIC_RELEASE);
    pthread_cleanup_pop(0);
    return NULL;
}

/* On a plain thread too: joining a thread is not what is stated here. */
static void cancel_all(void *arg)
{
    (void)arg;
    struct ends e = tcp_ends();
    fd_of_call = e.a;
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    for (int i = 0; i < CALLS; i++) {
        struct victim v = {.call = calls[i]};
        pthread_t thread;
        void *value = NULL;
        CHECK_INT(pthread_create(&thread, NULL, be_victim, &v), ==, 0);
        while (!__atomic_load_n(&v.begun, __ATOMIC_ACQUIRE))
            usleep(1000);
        usleep(i % 2 ? 10000 : 0); /* while it waits, or just before */
        double start = now_ms();
        CHECK_INT(pthread_cancel(thread), ==, 0);
        CHECK_INT(pthread_join(thread, &value), ==, 0);
        CHECK_AT_ONCE(start);
        if (value != PTHREAD_CANCELED || !v.cleaned || v.went_on)
            test_failed(__FILE__, __LINE__, "call %d is not cancelled", i);
    }
    kill(child, SIGKILL);
    CHECK_INT(waitpid(child, NULL, 0), ==, child);
    close_ends(e);
}

STATEMENT(a_plain_thread_is_cancelled_where_it_waits)
{
#ifdef __SANITIZE_ADDRESS__
    SKIP("the sanitizer stands before the hooks, and is not made for it");
#endif
    end(begin_thread(cancel_all, NULL));
}

static void *read_with_cancel_off(void *arg)
{
    char byte;
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    __atomic_store_n((bool *)arg, true, __ATOMIC_RELEASE);
    return read(fd_of_call, &byte, 1) == 1 ? arg : NULL;
}

static void do_not_cancel(void *arg)
{
    (void)arg;
    struct ends e = tcp_ends();
    bool begun = false;
    pthread_t thread;
    void *value = NULL;
    fd_of_call = e.a;
    CHECK_INT(pthread_create(&thread, NULL, read_with_cancel_off, &begun), ==, 0);
    while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE))
        usleep(1000);
    CHECK_INT(pthread_cancel(thread), ==, 0);
    usleep(10000);
    write_one(e.b);
    CHECK_INT(pthread_join(thread, &value), ==, 0);
    CHECK_PTR(value, ==, &begun);
    close_ends(e);
}

STATEMENT(who_does_not_want_to_be_cancelled_is_not)
{
    end(begin_thread(do_not_cancel, NULL));
}

STATEMENTS(cancel, a_plain_thread_is_cancelled_where_it_waits, who_does_not_want_to_be_cancelled_is_not)
