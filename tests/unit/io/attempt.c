/*
 * accept(2) and connect(2) on blocking descriptors, without a wait, whoever else accepts or does not; and where there is no
 * ring to make them with.
 */
#include <pthread.h>
#include <sys/wait.h>

#include <weft/process.h>

#include "base/sys.h"
#include "io/attempt.h"
#include "unit/io/ground.h"

static int begin_to(const struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_INT(weft_connect(fd, (const struct sockaddr *)at, sizeof *at, weft_in(20 * WEFT_SEC)), ==, 0);
    return fd;
}

static void *accepts_one(void *arg)
{
    return ptr(weft_accept(*(int *)arg, NULL, NULL, SOCK_CLOEXEC, weft_in(20 * WEFT_SEC)));
}

static void *connects_and_accepts(void *arg)
{
    struct sockaddr_in at;
    int l = listener(&at);
    weft_fiber *f = go(accepts_one, &l);
    AWAIT(is_parked(f));
    int fd = begin_to(&at), other = (int)(intptr_t)ended(f);
    CHECK(other >= 0);
    CHECK_INT(fcntl(fd, F_GETFL) & O_NONBLOCK, ==, 0);
    CHECK_INT(fcntl(l, F_GETFL) & O_NONBLOCK, ==, 0);
    weft_close(fd);
    weft_close(other);
    weft_close(l);
    return arg;
}

/* The first of them: the ring is made once. */
TEST(without_a_ring_it_is_done_otherwise)
{
#ifndef WF_SEAM
    SKIP("nothing can be made to fail here");
#else
    struct sockaddr_in at;
    int l = listener(&at);
    wf_sys_fail_with(ENOMEM);
    wf_sys_fail(1u << WF_SYS_URING, 1, 1000);
    CHECK_INT(wf_attempt_accept(l, NULL, NULL, 0), ==, -ENOSYS);
    CHECK_INT(wf_attempt_connect(l, (struct sockaddr *)&at, sizeof at), ==, -ENOSYS);
    in_a_fiber(1, connects_and_accepts, NULL);
    in_a_fiber(2, connects_and_accepts, NULL);
    wf_sys_fail(0, 0, 0);
    wf_sys_fail_with(0);
    close(l);
#endif
}

TEST(with_one_nothing_waits)
{
    struct sockaddr_in at, from = {0};
    socklen_t size = sizeof from;
    int l = listener(&at), kept = errno = 77;
    int rc = wf_attempt_accept(l, NULL, NULL, 0);
    if (rc == -ENOSYS) {
        close(l);
        SKIP("there is no io_uring here");
    }
    CHECK_INT(rc, ==, -EAGAIN);
    CHECK_INT(listen(l, 0), ==, 0);
    int fds[4], begun = 0;
    for (int i = 0; i < 4; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        rc = wf_attempt_connect(fds[i], (struct sockaddr *)&at, sizeof at);
        CHECK(rc == 0 || rc == -EINPROGRESS);
        begun += rc == -EINPROGRESS;
        CHECK_INT(fcntl(fds[i], F_GETFL) & O_NONBLOCK, ==, 0);
    }
    CHECK_INT(begun, >, 0); /* there is no room for all of them */
    CHECK_INT(wf_attempt_connect(fds[3], (struct sockaddr *)&at, sizeof at), ==, -EALREADY);
    int made = wf_attempt_accept(l, (struct sockaddr *)&from, &size, SOCK_CLOEXEC);
    CHECK(made >= 0);
    CHECK_INT(size, ==, sizeof from);
    CHECK_INT(from.sin_addr.s_addr, ==, htonl(INADDR_LOOPBACK));
    CHECK_INT(fcntl(made, F_GETFD), ==, FD_CLOEXEC);
    close(made);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    close(l);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(wf_attempt_connect(fd, (struct sockaddr *)&at, sizeof at), ==, -ECONNREFUSED);
    CHECK_INT(wf_attempt_accept(fd, NULL, NULL, 0), ==, -EINVAL);
    close(fd);
    CHECK_INT(wf_attempt_accept(-1, NULL, NULL, 0), ==, -EBADF);
    CHECK_INT(errno, ==, kept);
}

IN_FIBER(connections_are_made_and_taken)
{
    return connects_and_accepts(arg);
}

TEST(nothing_is_left_of_it_when_the_scheduler_is_freed)
{
    in_a_fiber(2, connects_and_accepts, NULL);
    int before = count_descriptors();
    in_a_fiber(2, connects_and_accepts, NULL);
    CHECK_INT(count_descriptors(), ==, before);
    struct sockaddr_in at;
    int l = listener(&at);
    if (wf_attempt_accept(l, NULL, NULL, 0) != -ENOSYS) {
        CHECK_INT(count_descriptors(), ==, before + 2); /* the listener, and the ring */
        in_a_fiber(2, connects_and_accepts, NULL);
        CHECK_INT(count_descriptors(), ==, before + 1);
    }
    close(l);
}

static void *takes(void *arg)
{
    const int *l = arg;
    for (;;) {
        int fd = accept(*l, NULL, NULL); /* the system's own: this is a plain thread */
        if (fd < 0)
            return NULL;
        close(fd);
    }
}

static void *takes_too(void *arg)
{
    for (;;) {
        int fd = weft_accept(*(int *)arg, NULL, NULL, 0, WEFT_FOREVER);
        if (fd < 0)
            return ptr(fd);
        weft_close(fd);
    }
}

#ifdef WF_SEAM
/* Somebody else who accepts, and gets what poll has seen. */
static void takes_before(void *arg)
{
    int *l = arg, fd = *l >= 0 ? accept(*l, NULL, NULL) : -1;
    if (fd >= 0) {
        close(fd);
        *l = -1; /* once */
    }
}
#endif

IN_FIBER(who_finds_it_taken_waits_for_the_next_and_the_worker_does_not)
{
#ifdef WF_SEAM
    struct sockaddr_in at;
    int l = listener(&at), other = l;
    if (wf_attempt_accept(l, NULL, NULL, 0) == -ENOSYS) {
        close(l);
        return arg; /* then it may be */
    }
    weft_fiber *f = go(accepts_one, &l);
    AWAIT(is_parked(f));
    wf_sys_before(1u << WF_SYS_ACCEPT, takes_before, &other);
    int first = begin_to(&at), second = -1;
    char byte;
    if (weft_recv(first, &byte, 1, 0, weft_in(100 * WEFT_MS)) == 0) /* the other has taken it: not in a ring */
        second = begin_to(&at);
    int made = (int)(intptr_t)ended(f);
    wf_sys_before(0, NULL, NULL);
    CHECK(made >= 0);
    weft_close(made);
    weft_close(first);
    if (second >= 0)
        weft_close(second);
    weft_close(l);
#endif
    return arg;
}

/* What poll has seen a thread takes: the worker must not be left waiting for the next. */
IN_FIBER(a_thread_that_accepts_too_does_not_block_a_worker)
{
    struct sockaddr_in at;
    int l = listener(&at);
    if (wf_attempt_accept(l, NULL, NULL, 0) == -ENOSYS) {
        close(l);
        return arg; /* then it may be */
    }
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, takes, &l), ==, 0);
    weft_fiber *f[3];
    for (int i = 0; i < 3; i++)
        f[i] = go(takes_too, &l);
    for (int i = 0; i < 500; i++) {
        int fd = begin_to(&at);
        char byte;
        CHECK_INT(weft_recv(fd, &byte, 1, 0, weft_in(20 * WEFT_SEC)), ==, 0); /* somebody has taken it, and closed it */
        weft_close(fd);
    }
    CHECK_INT(shutdown(l, SHUT_RDWR), ==, 0);
    for (int i = 0; i < 3; i++)
        CHECK_PTR(ended(f[i]), ==, ptr(-EINVAL));
    CHECK_INT(pthread_join(thread, NULL), ==, 0);
    weft_close(l);
    return arg;
}

IN_FIBER(a_child_has_a_ring_of_its_own)
{
    struct sockaddr_in at;
    int l = listener(&at), state = 0;
    int fd = begin_to(&at);
    pid_t child = fork();
    if (child == 0)
        _exit((int)(intptr_t)accepts_one(&l) >= 0 && begin_to(&at) >= 0 ? 3 : 4);
    CHECK_INT(weft_wait_child(child, &state, weft_in(20 * WEFT_SEC)), ==, 0);
    CHECK_INT(WEXITSTATUS(state), ==, 3);
    weft_close(fd);
    fd = (int)(intptr_t)accepts_one(&l);
    CHECK(fd >= 0);
    weft_close(fd);
    weft_close(l);
    return arg;
}

TESTS(io_attempt, without_a_ring_it_is_done_otherwise, with_one_nothing_waits, connections_are_made_and_taken,
      nothing_is_left_of_it_when_the_scheduler_is_freed, who_finds_it_taken_waits_for_the_next_and_the_worker_does_not,
      a_thread_that_accepts_too_does_not_block_a_worker, a_child_has_a_ring_of_its_own)
