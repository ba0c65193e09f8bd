/*
 * The names that calls have where a compiler knows how much room there is (-D_FORTIFY_SOURCE), called as it would; and
 * errno, in code that is optimised.
 */
#undef _FORTIFY_SOURCE
#include "hook/ends.h"

#include <signal.h>
#include <string.h>

ssize_t __read_chk(int fd, void *memory, size_t bytes, size_t room);
ssize_t __recv_chk(int fd, void *memory, size_t bytes, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *memory, size_t bytes, size_t room, int flags, struct sockaddr *from,
                       socklen_t *size);
int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *mask, size_t room);

static long by_read(int fd)
{
    char text[8];
    return __read_chk(fd, text, 8, 8);
}

static long by_recv(int fd)
{
    char text[8];
    return __recv_chk(fd, text, 8, 8, 0);
}

static long by_recvfrom(int fd)
{
    char text[8];
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    return __recvfrom_chk(fd, text, 7, 8, 0, (struct sockaddr *)&from, &size);
}

static long by_poll(int fd)
{
    char byte;
    struct pollfd p = {fd, POLLIN, 0};
    CHECK_INT(__poll_chk(&p, 1, 5000, sizeof p), ==, 1);
    CHECK_INT(p.revents, ==, POLLIN);
    return recv(fd, &byte, 1, MSG_DONTWAIT);
}

static long by_ppoll(int fd)
{
    char byte;
    struct pollfd p = {fd, POLLIN, 0};
    CHECK_INT(__ppoll_chk(&p, 1, NULL, NULL, sizeof p), ==, 1);
    CHECK_INT(p.revents, ==, POLLIN);
    return recv(fd, &byte, 1, MSG_DONTWAIT);
}

STATEMENT(the_checked_names_wait_as_the_others_do)
{
    static long (*const calls[])(int) = {by_read, by_recv, by_recvfrom, by_poll, by_ppoll};
    struct ends e = tcp_ends();
    for (int i = 0; i < 5; i++) {
        struct later l = {.fd = e.b, .after = 70};
        struct flow *f = begin(do_later, &l);
        CHECK_INT(calls[i](e.a), ==, 1);
        CHECK_JUST_AFTER(&l);
        end(f);
    }
    char text[8];
    CHECK_ERRNO(__recv_chk(e.a, text, 8, 8, MSG_DONTWAIT), EAGAIN);
    CHECK_ERRNO(__read_chk(-1, text, 8, 8), EBADF);
    CHECK_INT(__poll_chk(NULL, 0, 10, 0), ==, 0);
    close_ends(e);
}

static volatile size_t too_much = 9; /* the compiler is not to know */

static void read_too_much(void *arg)
{
    char text[8];
    __read_chk(((struct ends *)arg)->a, text, too_much, 8);
}

static void recv_too_much(void *arg)
{
    char text[8];
    __recv_chk(((struct ends *)arg)->a, text, too_much, 8, 0);
}

static void recvfrom_too_much(void *arg)
{
    char text[8];
    __recvfrom_chk(((struct ends *)arg)->a, text, too_much, 8, 0, NULL, NULL);
}

static void poll_too_many(void *arg)
{
    struct pollfd p[2] = {{((struct ends *)arg)->a, POLLIN, 0}, {-1, 0, 0}};
    __poll_chk(p, too_much - 7, 0, sizeof p[0]);
}

static void ppoll_too_many(void *arg)
{
    struct pollfd p[2] = {{((struct ends *)arg)->a, POLLIN, 0}, {-1, 0, 0}};
    __ppoll_chk(p, too_much - 7, &(struct timespec){0, 0}, NULL, sizeof p[0]);
}

STATEMENT(too_much_for_the_room_there_is_ends_the_program)
{
    struct ends e = tcp_ends();
    CHECK_INT(write(e.b, "hello", 5), ==, 5);
    CHECK_CHILD(read_too_much, &e, SIGABRT, "buffer overflow detected");
    CHECK_CHILD(recv_too_much, &e, SIGABRT, "buffer overflow detected");
    CHECK_CHILD(recvfrom_too_much, &e, SIGABRT, "buffer overflow detected");
    CHECK_CHILD(poll_too_many, &e, SIGABRT, "buffer overflow detected");
    CHECK_CHILD(ppoll_too_many, &e, SIGABRT, "buffer overflow detected");
    close_ends(e);
}

/* --- errno --- */

static void spoil_errno(void *arg)
{
    bool *stop = arg;
    while (!__atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
        close(-1);
        errno = 55;
        usleep(1000);
        CHECK_INT(errno, ==, 55);
    }
}

static long by_usleep(int fd)
{
    (void)fd;
    usleep(20000);
    return 1;
}

__attribute__((optimize("O2"))) static void check_errno_around(long (*call)(int), struct ends e)
{
    struct later l = {.fd = e.b, .after = 70};
    struct flow *f = begin(do_later, &l);
    errno = 77;
    long rc = call(e.a);
    int after = errno;
    CHECK_INT(rc, ==, 1);
    CHECK_INT(after, ==, 77); /* what succeeds says nothing */
    end(f);
}

__attribute__((optimize("O2"))) static int errno_of_a_wait(int fd)
{
    char byte;
    errno = 0;
    int before = errno;
    ssize_t n = recv(fd, &byte, 1, 0);
    return n == -1 && before == 0 ? errno : -1;
}

STATEMENT(errno_is_the_flow_s_own)
{
    static long (*const calls[])(int) = {by_read, by_recv, by_recvfrom};
    bool stop = false;
    struct ends e = tcp_ends();
    struct timeval t = {0, 20000};
    struct flow *f = begin(spoil_errno, &stop), *g = begin_elsewhere(spoil_errno, &stop);
    for (int i = 0; i < 3; i++)
        check_errno_around(calls[i], e);
    check_errno_around(by_usleep, e);
    CHECK_INT(by_read(e.a), ==, 1);
    CHECK_INT(setsockopt(e.a, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t), ==, 0);
    CHECK_INT(errno_of_a_wait(e.a), ==, EAGAIN);
    CHECK_INT(errno_of_a_wait(-1), ==, EBADF);
    CHECK_INT(errno_of_a_wait(e.a), ==, EAGAIN);
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    end(f);
    end(g);
    close_ends(e);
}

STATEMENTS(fortified, the_checked_names_wait_as_the_others_do, too_much_for_the_room_there_is_ends_the_program,
           errno_is_the_flow_s_own)
