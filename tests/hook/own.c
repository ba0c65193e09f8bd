/*
 * The library's own descriptors under the hooks: no call that ends descriptors reaches them, and a program that closes all
 * of its own goes on. On plain threads without the hooks there are none, and the statements are about the rest.
 */
#include "hook/ends.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <weft/io.h>

enum { MOST = 64, HIGH = 900 /* where this program has nothing but what it puts there */ };

/* The numbers of the descriptors of the kinds that the library keeps; this program has none of them. */
static int own_numbers(int *out)
{
    static const char *const kinds[] = {"[eventpoll]", "[io_uring]", "[eventfd]", "[timerfd]", "[signalfd]", "[pidfd]"};
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    for (struct dirent *e; all && count < MOST && (e = readdir(all)) != NULL;) {
        char to[64] = "";
        bool is = readlinkat(dirfd(all), e->d_name, to, sizeof to - 1) > 0 && strncmp(to, "pidfd:", 6) == 0;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            is |= strstr(to, kinds[i]) != NULL;
        if (is)
            out[count++] = (int)strtol(e->d_name, NULL, 10);
    }
    if (all)
        closedir(all);
    return count;
}

static void write_soon(void *arg)
{
    usleep(3000);
    CHECK_INT(write(*(int *)arg, "x", 1), ==, 1);
}

/* A call waits for a byte, and gets it. */
static void wait_and_read(void)
{
    struct ends p = pipe_ends();
    char byte = 0;
    struct flow *f = begin(write_soon, &p.b);
    CHECK_INT(read(p.a, &byte, 1), ==, 1);
    end(f);
    close_ends(p);
}

/* There are some, if there is a worker that waits. */
static int some_own(int *out)
{
    wait_and_read();
    int count = own_numbers(out);
    CHECK_INT(count, >=, is_kernel() ? 0 : 2);
    return count;
}

static void check_all_are_there(const int *own, int count)
{
    for (int i = 0; i < count; i++)
        CHECK_INT(fcntl(own[i], F_GETFD), ==, FD_CLOEXEC);
    wait_and_read();
}

STATEMENT(close_of_an_own_descriptor_is_ebadf_and_leaves_it)
{
    int own[MOST], count = some_own(own);
    for (int i = 0; i < count; i++)
        CHECK_ERRNO(close(own[i]), EBADF);
    check_all_are_there(own, count);
}

STATEMENT(dup2_and_dup3_onto_an_own_descriptor_are_ebadf_and_leave_it)
{
    int own[MOST], count = some_own(own);
    for (int i = 0; i < count; i++) {
        CHECK_ERRNO(dup2(0, own[i]), EBADF);
        CHECK_ERRNO(dup3(0, own[i], O_CLOEXEC), EBADF);
    }
    check_all_are_there(own, count);
}

/* Below, between and above those of the library. */
static int put_descriptors(int *out)
{
    int count = 0;
    out[count++] = fcntl(0, F_DUPFD_CLOEXEC, HIGH);
    out[count++] = fcntl(0, F_DUPFD_CLOEXEC, 1020);
    out[count++] = fcntl(0, F_DUPFD_CLOEXEC, 1024);
    out[count++] = fcntl(0, F_DUPFD_CLOEXEC, 1400);
    return count;
}

static void check_all_are_closed(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        CHECK_ERRNO(fcntl(fds[i], F_GETFD), EBADF);
}

STATEMENT(close_range_over_all_closes_the_programs_own_alone)
{
    int own[MOST], mine[MOST], count = some_own(own), put = put_descriptors(mine);
    CHECK_INT(close_range(HIGH, ~0u, 0), ==, 0);
    check_all_are_closed(mine, put);
    check_all_are_there(own, count);
    CHECK_ERRNO(close_range(HIGH + 1, HIGH, 0), EINVAL);
    CHECK_ERRNO(close_range(HIGH, ~0u, 1 << 20), EINVAL);
    for (int i = 0; i < count; i++)
        CHECK_INT(close_range((unsigned)own[i], (unsigned)own[i], 0), ==, 0);
    check_all_are_there(own, count);
}

STATEMENT(closefrom_closes_the_programs_own_alone)
{
    int own[MOST], mine[MOST], count = some_own(own), put = put_descriptors(mine);
    closefrom(HIGH);
    check_all_are_closed(mine, put);
    check_all_are_there(own, count);
}

STATEMENT(a_loop_that_closes_all_leaves_own_descriptors)
{
    int own[MOST], mine[MOST], count = some_own(own), put = put_descriptors(mine);
    for (int fd = HIGH; fd < 2048; fd++)
        close(fd);
    check_all_are_closed(mine, put);
    check_all_are_there(own, count);
}

static void sleep_by_the_wall(void *arg)
{
    struct timespec at;
    (void)arg;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += 300000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    CHECK_INT(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL), ==, 0);
}

static void wait_for_child(void *arg)
{
    int status = -1;
    CHECK_INT(waitpid(*(pid_t *)arg, &status, 0), ==, *(pid_t *)arg);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

STATEMENT(what_calls_wait_with_is_out_of_the_programs_range)
{
    struct ends p = pipe_ends();
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        syscall(SYS_close, p.b);
        _exit(syscall(SYS_read, p.a, &byte, 1) == 0 ? 0 : 1); /* until the parent closes its end */
    }
    struct flow *sleeper = begin(sleep_by_the_wall, NULL), *parent = begin(wait_for_child, &pid);
    usleep(30000);
    int own[MOST], count = own_numbers(own);
    for (int i = 0; i < count; i++) {
        CHECK_INT(own[i], >, 512);
        CHECK_ERRNO(close(own[i]), EBADF);
    }
    close_ends(p);
    end(sleeper);
    end(parent);
}

/*
 * An own descriptor whose number was given, past the hooks, to a file of the program's. Its owner does not know yet, and
 * the library has the number noted.
 */
static int lost_number(int file)
{
    int own = weft_own_take(eventfd(0, EFD_CLOEXEC));
    CHECK_INT(syscall(SYS_dup3, file, own, O_CLOEXEC), ==, own);
    return own;
}

STATEMENT(the_number_of_an_own_descriptor_that_was_closed_is_the_programs_to_close)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), lost[4];
    for (int i = 0; i < 4; i++)
        lost[i] = lost_number(null);
    CHECK_INT(dup2(0, lost[0]), ==, lost[0]);
    CHECK_INT(close(lost[0]), ==, 0);
    CHECK_INT(close(lost[1]), ==, 0);
    CHECK_INT(close_range((unsigned)lost[2], (unsigned)lost[2], 0), ==, 0);
    check_all_are_closed(lost, 3);
    CHECK_INT(weft_own_close(lost[3]), ==, 0); /* its owner leaves the program's file alone */
    CHECK_INT(close(lost[3]), ==, 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(weft_own_close(lost[i]), ==, 0);
    CHECK_INT(close(null), ==, 0);
}

/* How many sockets have numbers that this program has not given them. */
static int high_sockets(void)
{
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    for (struct dirent *e; all && (e = readdir(all)) != NULL;) {
        char to[64] = "";
        count += strtol(e->d_name, NULL, 10) >= HIGH && readlinkat(dirfd(all), e->d_name, to, sizeof to - 1) > 0 &&
                 strncmp(to, "socket:", 7) == 0;
    }
    if (all)
        closedir(all);
    return count;
}

struct dialing {
    int fd;
    struct sockaddr_un to;
    socklen_t size;
};

static void dial(void *arg)
{
    struct dialing *d = arg;
    CHECK_INT(connect(d->fd, (struct sockaddr *)&d->to, d->size), ==, 0);
}

/* A helper connects with a duplicate of the socket. */
STATEMENT(the_child_of_a_fork_has_no_descriptor_of_a_call_that_another_fiber_makes)
{
    int l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct dialing d = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), .to.sun_family = AF_UNIX};
    d.size = sizeof d.to;
    CHECK_INT(bind(l, (struct sockaddr *)&d.to, sizeof(sa_family_t)), ==, 0); /* the kernel gives it a name */
    CHECK_INT(getsockname(l, (struct sockaddr *)&d.to, &d.size), ==, 0);
    CHECK_INT(listen(l, 0), ==, 0);
    CHECK_INT(connect(first, (struct sockaddr *)&d.to, d.size), ==, 0); /* there is no room for another */
    struct flow *f = begin(dial, &d);
    while (!is_kernel() && high_sockets() == 0)
        usleep(1000);
    pid_t pid = fork();
    if (pid == 0)
        _exit(high_sockets());
    int status = -1;
    CHECK_INT(waitpid(pid, &status, 0), ==, pid);
    CHECK_INT(status, ==, 0);
    CHECK_INT(close(accept4(l, NULL, NULL, SOCK_CLOEXEC)), ==, 0);
    end(f);
    CHECK_INT(close(accept4(l, NULL, NULL, SOCK_CLOEXEC)), ==, 0);
    close(first);
    close(d.fd);
    close(l);
}

STATEMENTS(own, close_of_an_own_descriptor_is_ebadf_and_leaves_it,
           dup2_and_dup3_onto_an_own_descriptor_are_ebadf_and_leave_it,
           close_range_over_all_closes_the_programs_own_alone, closefrom_closes_the_programs_own_alone,
           a_loop_that_closes_all_leaves_own_descriptors, what_calls_wait_with_is_out_of_the_programs_range,
           the_number_of_an_own_descriptor_that_was_closed_is_the_programs_to_close,
           the_child_of_a_fork_has_no_descriptor_of_a_call_that_another_fiber_makes)
