/*
 * fork and vfork in a flow: the child can use the hooked calls, and who waits in the parent is not disturbed.
 */
#include "hook/ends.h"

#include <linux/close_range.h>
#include <spawn.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* In a child: its status says which step went wrong. */
#define STEP(number, condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            _exit(number);                                                                                             \
    } while (0)

static void check_exit(pid_t pid, int status)
{
    int state = -1;
    CHECK_INT(waitpid(pid, &state, 0), ==, pid);
    CHECK(WIFEXITED(state));
    CHECK_INT(WEXITSTATUS(state), ==, status);
}

/* Waits for a byte. */
struct waiter {
    int fd;
    bool polls;
    bool begun, over; /* atomic */
};

static void wait_for_byte(void *arg)
{
    struct waiter *w = arg;
    char byte;
    __atomic_store_n(&w->begun, true, __ATOMIC_RELEASE);
    if (w->polls) {
        struct pollfd p = {w->fd, POLLIN, 0};
        CHECK_INT(poll(&p, 1, -1), ==, 1);
        CHECK_INT(p.revents, ==, POLLIN);
    } else {
        CHECK_INT(recv(w->fd, &byte, 1, 0), ==, 1);
        CHECK_INT(byte, ==, 'x');
    }
    __atomic_store_n(&w->over, true, __ATOMIC_RELEASE);
}

static struct flow *begin_waiter(struct waiter *w, int i)
{
    struct flow *f = i % 2 ? begin_elsewhere(wait_for_byte, w) : begin(wait_for_byte, w);
    while (!__atomic_load_n(&w->begun, __ATOMIC_ACQUIRE))
        usleep(1000);
    usleep(10000);
    return f;
}

/* What the child has to do: waits of every kind, for itself and for its parent. */
static void use_all(struct ends e)
{
    char byte = 0;
    struct pollfd p = {e.a, POLLIN, 0};
    double start = now_ms();
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    STEP(1, usleep(20000) == 0 && now_ms() - start >= 20);
    STEP(2, poll(&p, 1, 20) == 0 && now_ms() - start >= 40);
    STEP(3, write(e.a, "r", 1) == 1); /* we are ready for more */
    STEP(4, recv(e.a, &byte, 1, 0) == 1 && byte == '1');
    STEP(5, write(e.a, "r", 1) == 1);
    STEP(6, poll(&p, 1, -1) == 1 && p.revents == POLLIN && read(e.a, &byte, 1) == 1 && byte == '2');
    STEP(7, epoll_ctl(set, EPOLL_CTL_ADD, e.a, &event) == 0 && epoll_wait(set, &event, 1, 10) == 0);
    STEP(8, write(e.a, "r", 1) == 1);
    STEP(9, epoll_wait(set, &event, 1, -1) == 1 && read(e.a, &byte, 1) == 1 && byte == '3');
    pid_t pid = fork(); /* a child of its own */
    if (pid == 0) {
        STEP(10, usleep(20000) == 0);
        _exit(33);
    }
    int state = 0;
    STEP(11, pid > 0 && waitpid(pid, &state, 0) == pid && WIFEXITED(state) && WEXITSTATUS(state) == 33);
    _exit(44);
}

static void fork_and_feed(void *arg)
{
    struct ends e = unix_ends(SOCK_STREAM);
    char byte;
    pid_t pid = fork();
    if (pid == 0) {
        close(e.b);
        use_all(e);
    }
    CHECK_INT(pid, >, 0);
    close(e.a);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(read(e.b, &byte, 1), ==, 1);
        usleep(10000);
        CHECK_INT(write(e.b, &"123"[i], 1), ==, 1);
    }
    CHECK_INT(read(e.b, &byte, 1), ==, 0);
    check_exit(pid, 44);
    close(e.b);
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELAXED);
}

STATEMENT(a_child_uses_the_same_calls)
{
    int done = 0;
    fork_and_feed(&done);
    CHECK_INT(done, ==, 1);
}

STATEMENT(several_flows_fork)
{
    enum { MANY = 6 };
    struct flow *flows[MANY];
    int done = 0;
    for (int i = 0; i < MANY; i++)
        flows[i] = i % 2 ? begin(fork_and_feed, &done) : begin_elsewhere(fork_and_feed, &done);
    for (int i = 0; i < MANY; i++)
        end(flows[i]);
    CHECK_INT(done, ==, MANY);
}

enum { WAITERS = 4 };

/* Flows that wait in recv and in poll, on this worker and on another, before `disturb`, and get theirs after it. */
static void check_undisturbed(void (*disturb)(struct ends *))
{
    struct ends e[WAITERS];
    struct waiter w[WAITERS];
    struct flow *flows[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        e[i] = i < 2 ? tcp_ends() : unix_ends(SOCK_STREAM);
        w[i] = (struct waiter){.fd = e[i].a, .polls = i == 1 || i == 2};
        flows[i] = begin_waiter(&w[i], i);
    }
    disturb(e);
    usleep(10000);
    for (int i = 0; i < WAITERS; i++) {
        CHECK(!__atomic_load_n(&w[i].over, __ATOMIC_ACQUIRE));
        double start = now_ms();
        CHECK_INT(write(e[i].b, "x", 1), ==, 1);
        end(flows[i]);
        CHECK_AT_ONCE(start);
        close_ends(e[i]);
    }
}

/* The child waits for the same descriptors as flows of its parent, and closes them. */
static void wait_and_close_in_child(struct ends *e)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct pollfd fds[WAITERS];
        for (int i = 0; i < WAITERS; i++)
            fds[i] = (struct pollfd){e[i].a, POLLIN, 0};
        STEP(1, poll(fds, WAITERS, 30) == 0);
        struct timeval t = {0, 30000};
        STEP(2, setsockopt(e[0].a, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) == 0);
        char byte;
        STEP(3, recv(e[0].a, &byte, 1, 0) == -1 && errno == EAGAIN);
        t = (struct timeval){0, 0};
        STEP(4, setsockopt(e[0].a, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) == 0);
        for (int i = 0; i < WAITERS; i++)
            STEP(5, close(e[i].a) == 0 && close(e[i].b) == 0);
        STEP(6, usleep(10000) == 0);
        _exit(55);
    }
    check_exit(pid, 55);
}

STATEMENT(a_child_does_not_disturb_who_waits_in_its_parent)
{
    check_undisturbed(wait_and_close_in_child);
}

/* What a child of vfork may do: it has its parent's memory, and descriptors of its own. */
static __attribute__((noinline)) void close_all_in_guest(struct ends *e)
{
    pid_t pid = vfork();
    if (pid == 0) {
        for (int i = 0; i < WAITERS; i++) {
            close(e[i].a);
            close(e[i].b);
        }
        execl("/bin/true", "true", (char *)NULL);
        _exit(66);
    }
    CHECK_INT(pid, >, 0);
    check_exit(pid, 0);
}

static __attribute__((noinline)) void replace_all_in_guest(struct ends *e)
{
    struct ends p = pipe_ends();
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(p.b, STDOUT_FILENO);
        dup2(p.b, e[0].a);
        dup3(p.a, e[1].a, O_CLOEXEC);
        dup2(p.a, e[2].a);
        close_range(3, ~0U, 0);
        execl("/bin/echo", "echo", "hello", (char *)NULL);
        _exit(66);
    }
    CHECK_INT(pid, >, 0);
    char text[8] = "";
    close(p.b);
    CHECK_INT(read(p.a, text, sizeof text - 1), ==, 6);
    CHECK_STR(text, "hello\n");
    CHECK_INT(read(p.a, text, 1), ==, 0);
    check_exit(pid, 0);
    close(p.a);
}

/* It may also fail to become another program, and wait a little before it does. */
static __attribute__((noinline)) void fail_in_guest(struct ends *e)
{
    pid_t pid = vfork();
    if (pid == 0) {
        struct pollfd p = {e[0].a, POLLIN, 0};
        if (poll(&p, 1, 10) != 0)
            _exit(67);
        close(e[0].a);
        if (usleep(5000) != 0)
            _exit(68);
        execl("/nonexistent/program", "program", (char *)NULL);
        _exit(69);
    }
    CHECK_INT(pid, >, 0);
    check_exit(pid, 69);
}

/* Where the flows of this process run. */
struct watch {
    bool over;
    int strangers; /* times that this was another process */
};

static void watch_process(void *arg)
{
    struct watch *w = arg;
    pid_t home = (pid_t)syscall(SYS_getpid);
    while (!__atomic_load_n(&w->over, __ATOMIC_RELAXED)) {
        usleep(500);
        if ((pid_t)syscall(SYS_getpid) != home)
            __atomic_add_fetch(&w->strangers, 1, __ATOMIC_RELAXED);
    }
}

STATEMENT(a_guest_that_waits_lets_nobody_else_run)
{
    struct ends e = unix_ends(SOCK_STREAM);
    struct watch w = {0};
    struct flow *f = begin(watch_process, &w);
    usleep(2000);
    fail_in_guest(&e);
    __atomic_store_n(&w.over, true, __ATOMIC_RELAXED);
    end(f);
    CHECK_INT(w.strangers, ==, 0);
    CHECK_INT(fcntl(e.a, F_GETFD), !=, -1);
    close_ends(e);
}

static void spawn(struct ends *e)
{
    pid_t pid = 0;
    posix_spawn_file_actions_t actions;
    char *const argv[] = {"true", NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclose(&actions, e[0].a);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, e[1].a);
    CHECK_INT(posix_spawn(&pid, "/bin/true", &actions, NULL, argv, environ), ==, 0);
    posix_spawn_file_actions_destroy(&actions);
    check_exit(pid, 0);
}

STATEMENT(a_guest_that_closes_what_flows_wait_for_leaves_them_alone)
{
    check_undisturbed(close_all_in_guest);
}

STATEMENT(a_guest_that_replaces_what_flows_wait_for_leaves_them_alone)
{
    check_undisturbed(replace_all_in_guest);
}

STATEMENT(a_guest_that_waits_blocks_nobody_for_good)
{
    check_undisturbed(fail_in_guest);
}

STATEMENT(a_program_that_is_spawned_leaves_them_alone)
{
    check_undisturbed(spawn);
}

STATEMENTS(fork, a_child_uses_the_same_calls, several_flows_fork, a_child_does_not_disturb_who_waits_in_its_parent,
           a_guest_that_closes_what_flows_wait_for_leaves_them_alone,
           a_guest_that_replaces_what_flows_wait_for_leaves_them_alone, a_guest_that_waits_blocks_nobody_for_good,
           a_guest_that_waits_lets_nobody_else_run, a_program_that_is_spawned_leaves_them_alone)
