/*
 * Every hooked call that can wait is a cancellation point: in a cancelled fiber it fails with ECANCELED, also where it
 * would not have to wait, and has then done nothing. This is about fibers alone: the kernel has no such cancel.
 */
#include "hook/ends.h"

#include <netdb.h>
#include <pthread.h>
#include <resolv.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>

#include <weft/fiber.h>
#include <weft/hook.h>
#include <weft/scope.h>

static struct {
    struct ends tcp;  /* a has a byte to read */
    struct ends pipe; /* so has a */
    int event, set, file, listener, client, child;
    struct sockaddr_in at;
    FILE *command; /* of popen; it exits with 4 */
    char buffer[16];
} on;

static int bytes_in(int fd)
{
    int n = -1;
    CHECK_INT(ioctl(fd, FIONREAD, &n), ==, 0);
    return n;
}

/* Before the cancel. */
static void make_ready(void)
{
    on.tcp = tcp_ends();
    on.pipe = pipe_ends();
    CHECK_INT(write(on.tcp.b, "x", 1), ==, 1);
    CHECK_INT(write(on.pipe.b, "x", 1), ==, 1);
    CHECK_INT(poll(&(struct pollfd){on.tcp.a, POLLIN, 0}, 1, -1), ==, 1); /* it has arrived */
    on.event = eventfd(1, EFD_CLOEXEC);
    on.set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN};
    CHECK_INT(epoll_ctl(on.set, EPOLL_CTL_ADD, on.tcp.a, &e), ==, 0);
    on.file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    on.listener = listener(4, &on.at);
    connect_briefly(on.listener);
    on.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    on.child = fork();
    if (on.child == 0)
        _exit(3);
    siginfo_t info;
    CHECK_INT(waitid(P_PID, (id_t)on.child, &info, WEXITED | WNOWAIT), ==, 0);
    on.command = popen("exit 4", "re");
    CHECK_PTR(on.command, !=, NULL);
}

/* Nothing has happened to any of them. The fiber is in a shield. */
static void check_untouched(void)
{
    uint64_t count = 0;
    struct sockaddr_in peer;
    socklen_t size = sizeof peer;
    CHECK_INT(bytes_in(on.tcp.a), ==, 1);
    CHECK_INT(bytes_in(on.tcp.b), ==, 0);
    CHECK_INT(bytes_in(on.pipe.a), ==, 1);
    CHECK_INT(read(on.event, &count, sizeof count), ==, sizeof count);
    CHECK_INT(count, ==, 1);
    CHECK_INT(lseek(on.file, 0, SEEK_CUR), ==, 0);
    CHECK_ERRNO(getpeername(on.client, (struct sockaddr *)&peer, &size), ENOTCONN);
    int state = 0, fd = accept(on.listener, NULL, NULL);
    CHECK_INT(fd, >=, 0);
    CHECK_INT(waitpid(on.child, &state, 0), ==, on.child);
    CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 3);
    close(fd);
    state = pclose(on.command);
    CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 4);
}

static void close_all(void)
{
    int fds[] = {on.tcp.a, on.tcp.b, on.pipe.a, on.pipe.b, on.event, on.set, on.file, on.listener, on.client};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        CHECK_INT(close(fds[i]), ==, 0);
}

static void try_transfers(void)
{
    struct iovec part = {on.buffer, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct mmsghdr messages[2] = {{.msg_hdr = message}, {.msg_hdr = message}};
    uint64_t one = 1;
    off_t at = 0;
    CHECK_ERRNO(read(on.tcp.a, on.buffer, 1), ECANCELED);
    CHECK_ERRNO(read(on.pipe.a, on.buffer, 1), ECANCELED);
    CHECK_ERRNO(readv(on.tcp.a, &part, 1), ECANCELED);
    CHECK_ERRNO(preadv2(on.pipe.a, &part, 1, -1, 0), ECANCELED);
    CHECK_ERRNO(preadv64v2(on.pipe.a, &part, 1, -1, 0), ECANCELED);
    CHECK_ERRNO(recv(on.tcp.a, on.buffer, 1, 0), ECANCELED);
    CHECK_ERRNO(recvfrom(on.tcp.a, on.buffer, 1, 0, NULL, NULL), ECANCELED);
    CHECK_ERRNO(recvmsg(on.tcp.a, &message, 0), ECANCELED);
    CHECK_ERRNO(recvmmsg(on.tcp.a, messages, 2, 0, NULL), ECANCELED);
    CHECK_ERRNO(eventfd_read(on.event, &one), ECANCELED);
    CHECK_ERRNO(write(on.tcp.a, "y", 1), ECANCELED);
    CHECK_ERRNO(write(on.pipe.b, "y", 1), ECANCELED);
    CHECK_ERRNO(writev(on.tcp.a, &part, 1), ECANCELED);
    CHECK_ERRNO(pwritev2(on.pipe.b, &part, 1, -1, 0), ECANCELED);
    CHECK_ERRNO(pwritev64v2(on.pipe.b, &part, 1, -1, 0), ECANCELED);
    CHECK_ERRNO(send(on.tcp.a, "y", 1, 0), ECANCELED);
    CHECK_ERRNO(sendto(on.tcp.a, "y", 1, 0, NULL, 0), ECANCELED);
    CHECK_ERRNO(sendmsg(on.tcp.a, &message, 0), ECANCELED);
    CHECK_ERRNO(sendmmsg(on.tcp.a, messages, 2, 0), ECANCELED);
    CHECK_ERRNO(eventfd_write(on.event, 1), ECANCELED);
    CHECK_ERRNO(sendfile(on.tcp.a, on.file, &at, 8), ECANCELED);
    CHECK_ERRNO(sendfile(on.tcp.a, on.file, NULL, 8), ECANCELED);
    CHECK_INT(at, ==, 0);
    CHECK_ERRNO(splice(on.pipe.a, NULL, on.tcp.a, NULL, 1, 0), ECANCELED);
    CHECK_INT(fcntl(on.tcp.a, F_SETFL, O_NONBLOCK), ==, 0);
    CHECK_ERRNO(read(on.tcp.a, on.buffer, 1), ECANCELED); /* O_NONBLOCK is not asked for */
    CHECK_INT(fcntl(on.tcp.a, F_SETFL, 0), ==, 0);
}

static void try_waits(void)
{
    struct pollfd p = {on.tcp.a, POLLIN, 0};
    struct epoll_event e;
    struct timespec second = {1, 0};
    struct timeval limit = {1, 0};
    fd_set set;
    siginfo_t info;
    int state = 99;
    FD_ZERO(&set);
    FD_SET(on.tcp.a, &set);
    CHECK_ERRNO(poll(&p, 1, -1), ECANCELED);
    CHECK_ERRNO(ppoll(&p, 1, &second, NULL), ECANCELED);
    CHECK_ERRNO(select(on.tcp.a + 1, &set, NULL, NULL, &limit), ECANCELED);
    CHECK(limit.tv_sec == 1 && limit.tv_usec == 0);
    CHECK_ERRNO(pselect(on.tcp.a + 1, &set, NULL, NULL, &second, NULL), ECANCELED);
    CHECK_INT(FD_ISSET(on.tcp.a, &set), !=, 0);
    CHECK_ERRNO(epoll_wait(on.set, &e, 1, -1), ECANCELED);
    CHECK_ERRNO(epoll_pwait(on.set, &e, 1, 1000, NULL), ECANCELED);
    CHECK_ERRNO(epoll_pwait2(on.set, &e, 1, &second, NULL), ECANCELED);
    CHECK_ERRNO(accept(on.listener, NULL, NULL), ECANCELED);
    CHECK_ERRNO(accept4(on.listener, NULL, NULL, SOCK_CLOEXEC), ECANCELED);
    CHECK_ERRNO(connect(on.client, (struct sockaddr *)&on.at, sizeof on.at), ECANCELED);
    CHECK_ERRNO(waitpid(on.child, &state, 0), ECANCELED);
    CHECK_ERRNO(wait(&state), ECANCELED);
    CHECK_ERRNO(wait3(&state, 0, NULL), ECANCELED);
    CHECK_ERRNO(wait4(on.child, &state, 0, NULL), ECANCELED);
    CHECK_ERRNO(waitid(P_PID, (id_t)on.child, &info, WEXITED), ECANCELED);
    CHECK_INT(state, ==, 99);
    CHECK_ERRNO(system("exit 0"), ECANCELED);
    CHECK_ERRNO(pclose(on.command), ECANCELED); /* the stream is still open: check_untouched closes it */
}

static void try_names(void)
{
    struct addrinfo *found = NULL;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char host[64];
    errno = 0;
    CHECK_INT(getaddrinfo("127.0.0.1", "80", NULL, &found), ==, EAI_SYSTEM);
    CHECK_INT(errno, ==, ECANCELED);
    CHECK_PTR(found, ==, NULL);
    errno = 0;
    CHECK_INT(getnameinfo((struct sockaddr *)&at, sizeof at, host, sizeof host, NULL, 0, NI_NUMERICHOST), ==,
              EAI_SYSTEM);
    CHECK_INT(errno, ==, ECANCELED);
}

/* A lookup that answers in memory of the C library's has failed for the cancel. */
#define CHECK_HOST(call)                                                                                               \
    do {                                                                                                               \
        errno = h_errno = 0;                                                                                           \
        CHECK_PTR(call, ==, NULL);                                                                                     \
        CHECK_INT(errno, ==, ECANCELED);                                                                               \
        CHECK_INT(h_errno, ==, NETDB_INTERNAL);                                                                        \
    } while (0)

/* The same of a lookup that answers in the caller's memory, and returns the errno. */
#define CHECK_HOST_R(call)                                                                                             \
    do {                                                                                                               \
        found = &entry;                                                                                                \
        error = 0;                                                                                                     \
        CHECK_INT(call, ==, ECANCELED);                                                                                \
        CHECK_PTR(found, ==, NULL);                                                                                    \
        CHECK_INT(error, ==, NETDB_INTERNAL);                                                                          \
    } while (0)

static void try_hosts(void)
{
    struct in_addr at = {htonl(INADDR_LOOPBACK)};
    struct hostent entry, *found;
    char memory[1024];
    unsigned char answer[512];
    int error;
    CHECK_HOST(gethostbyname("127.0.0.1"));
    CHECK_HOST(gethostbyname2("127.0.0.1", AF_INET));
    CHECK_HOST(gethostbyaddr(&at, sizeof at, AF_INET));
    CHECK_HOST_R(gethostbyname_r("127.0.0.1", &entry, memory, sizeof memory, &found, &error));
    CHECK_HOST_R(gethostbyname2_r("127.0.0.1", AF_INET, &entry, memory, sizeof memory, &found, &error));
    CHECK_HOST_R(gethostbyaddr_r(&at, sizeof at, AF_INET, &entry, memory, sizeof memory, &found, &error));
    h_errno = 0;
    CHECK_ERRNO(res_query("localhost", ns_c_in, ns_t_a, answer, sizeof answer), ECANCELED);
    CHECK_INT(h_errno, ==, NETDB_INTERNAL);
}

/* Runs fn in a fiber of its own. */
static void in_another(void (*fn)(void *arg))
{
    if (!is_kernel())
        end(begin(fn, NULL));
}

static void cancel_oneself(void)
{
    CHECK_INT(weft_cancel(weft_fiber_current()), ==, 0);
}

static void try_all(void *arg)
{
    (void)arg;
    make_ready();
    cancel_oneself();
    try_transfers();
    try_waits();
    try_names();
    try_hosts();
    CHECK_INT(weft_shield_begin(weft_in(20 * WEFT_SEC)), ==, 0);
    check_untouched();
    weft_shield_end();
    close_all(); /* which is no cancellation point */
}

STATEMENT(a_cancelled_fiber_is_refused_what_it_could_have_at_once)
{
    in_another(try_all);
}

static void only_look(void *arg)
{
    (void)arg;
    make_ready();
    cancel_oneself();
    struct pollfd p = {on.tcp.a, POLLIN, 0};
    struct epoll_event e;
    struct timespec none = {0, 0};
    struct timeval no_time = {0, 0};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(on.tcp.a, &set);
    CHECK_INT(poll(&p, 1, 0), ==, 1);
    CHECK_INT(ppoll(&p, 1, &none, NULL), ==, 1);
    CHECK_INT(select(on.tcp.a + 1, &set, NULL, NULL, &no_time), ==, 1);
    CHECK_INT(pselect(on.tcp.a + 1, &set, NULL, NULL, &none, NULL), ==, 1);
    CHECK_INT(epoll_wait(on.set, &e, 1, 0), ==, 1);
    CHECK_INT(epoll_pwait(on.set, &e, 1, 0, NULL), ==, 1);
    CHECK_INT(epoll_pwait2(on.set, &e, 1, &none, NULL), ==, 1);
    CHECK_INT(recv(on.tcp.a, on.buffer, 1, MSG_DONTWAIT), ==, 1);
    CHECK_INT(send(on.tcp.a, "y", 1, MSG_DONTWAIT), ==, 1);
    CHECK_INT(splice(on.pipe.a, NULL, on.tcp.a, NULL, 1, SPLICE_F_NONBLOCK), ==, 1);
    CHECK_INT(waitpid(on.child, NULL, WNOHANG), ==, on.child);
    CHECK_INT(weft_shield_begin(weft_in(20 * WEFT_SEC)), ==, 0);
    CHECK_INT(pclose(on.command), !=, -1);
    weft_shield_end();
    close_all();
}

STATEMENT(a_call_that_is_told_not_to_wait_is_no_point)
{
    in_another(only_look);
}

static void release_all(void *arg)
{
    (void)arg;
    struct ends e = tcp_ends();
    int number = dup(e.b);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    sem_t sem;
    CHECK_INT(sem_init(&sem, 0, 1), ==, 0);
    cancel_oneself();
    CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
    CHECK_INT(sem_wait(&sem), ==, 0); /* there is a permit */
    CHECK_INT(sem_post(&sem), ==, 0);
    CHECK_INT(shutdown(e.a, SHUT_WR), ==, 0);
    CHECK_INT(dup2(e.a, number), ==, number);
    CHECK_INT(dup3(e.a, number, O_CLOEXEC), ==, number);
    CHECK_INT(close_range((unsigned)number, (unsigned)number, 0), ==, 0);
    CHECK_ERRNO(close(number), EBADF); /* it was closed */
    close_ends(e);
    sem_destroy(&sem);
}

STATEMENT(a_cancelled_fiber_may_release_what_it_has)
{
    in_another(release_all);
}

static void sleep_cancelled(void *arg)
{
    (void)arg;
    struct timespec minute = {60, 0}, left = {0}, at;
    cancel_oneself();
    double start = now_ms();
    errno = 0;
    CHECK_INT(sleep(60), ==, 60);
    CHECK_INT(errno, ==, ECANCELED);
    CHECK_ERRNO(usleep(60000000), ECANCELED);
    CHECK_ERRNO(nanosleep(&minute, &left), ECANCELED);
    CHECK(left.tv_sec >= 50 && left.tv_sec <= 60);
    left.tv_sec = 0;
    CHECK_INT(clock_nanosleep(CLOCK_MONOTONIC, 0, &minute, &left), ==, ECANCELED);
    CHECK(left.tv_sec >= 50 && left.tv_sec <= 60);
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 60;
    left.tv_sec = 7;
    CHECK_INT(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, &left), ==, ECANCELED);
    CHECK_INT(left.tv_sec, ==, 7);
    CHECK_INT(clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &minute, NULL), ==, ECANCELED);
    left.tv_sec = 0;
    CHECK_INT(thrd_sleep(&minute, &left), ==, -2); /* -1 is a signal */
    CHECK(left.tv_sec >= 50 && left.tv_sec <= 60);
    CHECK_AT_ONCE(start);
}

STATEMENT(a_cancelled_fiber_does_not_sleep)
{
    in_another(sleep_cancelled);
}

static volatile sig_atomic_t handled;

static void write_in_handler(int number)
{
    (void)number;
    handled = (sig_atomic_t)write(on.pipe.b, "h", 1);
}

static void interrupt_oneself(void *arg)
{
    (void)arg;
    struct sigaction act = {.sa_handler = write_in_handler}, before;
    on.pipe = pipe_ends();
    CHECK_INT(sigaction(SIGUSR2, &act, &before), ==, 0);
    cancel_oneself();
    handled = -1;
    CHECK_INT(raise(SIGUSR2), ==, 0);
    CHECK_INT(handled, ==, 1);
    CHECK_INT(bytes_in(on.pipe.a), ==, 1);
    CHECK_INT(sigaction(SIGUSR2, &before, NULL), ==, 0);
    close_ends(on.pipe);
}

STATEMENT(a_signal_handler_in_a_cancelled_fiber_may_write)
{
    in_another(interrupt_oneself);
}

static bool stop; /* atomic */

static void ignore_the_cancel(void *arg)
{
    (void)arg;
    char byte;
    cancel_oneself();
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
        CHECK_ERRNO(read(on.pipe.a, &byte, 1), ECANCELED);
}

static void let_it_stop(void *arg)
{
    (void)arg;
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
}

STATEMENT(a_fiber_that_ignores_its_cancel_lets_others_run)
{
    if (is_kernel())
        return;
    on.pipe = pipe_ends();
    __atomic_store_n(&stop, false, __ATOMIC_RELEASE);
    struct flow *a = begin(ignore_the_cancel, NULL), *b = begin(let_it_stop, NULL);
    end(a);
    end(b);
    close_ends(on.pipe);
}

/* Calls that take no deadline, several functions deep, as in a client library. */
static int receives_for_ever(void)
{
    char byte;
    CHECK_ERRNO(recv(on.tcp.a, &byte, 1, 0), ECANCELED);
    CHECK_ERRNO(poll(&(struct pollfd){on.tcp.a, POLLIN, 0}, 1, -1), ECANCELED);
    return -1;
}

static int calls_a_library(void *arg)
{
    (void)arg;
    receives_for_ever();
    weft_cause why = {.size = sizeof why};
    CHECK_INT(weft_cancel_cause(&why), ==, 0);
    CHECK_INT(why.kind, ==, WEFT_CAUSE_DEADLINE);
    return -ECANCELED;
}

STATEMENT(the_deadline_of_a_scope_ends_hooked_calls)
{
    if (is_kernel())
        return;
    on.tcp = tcp_ends();
    weft_scope s;
    CHECK_INT(weft_scope_open(&s, &(weft_scope_opts){.deadline = weft_in(20 * WEFT_MS)}), ==, 0);
    CHECK_INT(weft_scope_go(&s, calls_a_library, NULL), ==, 0);
    receives_for_ever();
    CHECK_INT(weft_scope_close(&s), ==, -ETIMEDOUT);
    close_ends(on.tcp);
}

STATEMENTS(cancel_points, a_cancelled_fiber_is_refused_what_it_could_have_at_once,
           a_call_that_is_told_not_to_wait_is_no_point, a_cancelled_fiber_may_release_what_it_has,
           a_cancelled_fiber_does_not_sleep, a_signal_handler_in_a_cancelled_fiber_may_write,
           a_fiber_that_ignores_its_cancel_lets_others_run, the_deadline_of_a_scope_ends_hooked_calls)
