/*
 * Waiting for children, in all forms, and commands that are run.
 */
#include "hook/ends.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <weft/fiber.h>

/* A child that ends with `status` after some ms. It makes system calls alone: other threads may have held locks. */
static pid_t child_for(int ms, int status)
{
    pid_t pid = fork();
    if (pid == 0) {
        syscall(SYS_nanosleep, &(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
        _exit(status);
    }
    CHECK_INT(pid, >, 0);
    return pid;
}

/* A child that stops itself, goes on when it is told to, and then ends. */
static pid_t child_that_stops(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        syscall(SYS_nanosleep, &(struct timespec){0, 30000000}, NULL);
        kill(getpid(), SIGSTOP);
        syscall(SYS_nanosleep, &(struct timespec){0, 60000000}, NULL);
        _exit(5);
    }
    CHECK_INT(pid, >, 0);
    return pid;
}

static void check_exit(int state, int status)
{
    CHECK(WIFEXITED(state));
    CHECK_INT(WEXITSTATUS(state), ==, status);
}

/* One that lets itself be traced, a while after it has begun, and stops. */
static pid_t child_that_is_traced(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        syscall(SYS_nanosleep, &(struct timespec){0, 50000000}, NULL);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        kill(getpid(), SIGSTOP);
        _exit(7);
    }
    CHECK_INT(pid, >, 0);
    return pid;
}

STATEMENT(the_stop_of_a_traced_child_is_told)
{
    int state = -1;
    double start = now_ms();
    pid_t pid = child_that_is_traced();
    CHECK_INT(waitpid(pid, &state, 0), ==, pid);
    CHECK_AFTER(start, 50);
    CHECK(WIFSTOPPED(state));
    CHECK_INT(kill(pid, SIGKILL), ==, 0);
    CHECK_INT(waitpid(pid, &state, 0), ==, pid);
    CHECK(WIFSIGNALED(state));
    siginfo_t info = {0};
    pid = child_that_is_traced();
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED), ==, 0);
    CHECK_INT(info.si_code, ==, CLD_TRAPPED);
    CHECK_INT(kill(pid, SIGKILL), ==, 0);
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED), ==, 0);
    CHECK_INT(info.si_code, ==, CLD_KILLED);
    info.si_pid = 77;
    CHECK_ERRNO(waitid(P_PID, (id_t)pid, &info, WEXITED), ECHILD);
    CHECK_INT(info.si_pid, ==, 0);
}

STATEMENT(a_child_is_waited_for)
{
    double start = now_ms();
    int state = -1;
    pid_t pid = child_for(100, 42);
    errno = 99;
    CHECK_INT(waitpid(pid, &state, 0), ==, pid);
    CHECK_AFTER(start, 100);
    CHECK_INT(errno, ==, 99);
    check_exit(state, 42);
    CHECK_ERRNO(waitpid(pid, &state, 0), ECHILD);
    start = now_ms();
    pid = child_for(50, 0);
    CHECK_INT(waitpid(pid, NULL, 0), ==, pid);
    CHECK_AFTER(start, 50);
}

STATEMENT(any_child_is_waited_for)
{
    double start = now_ms();
    int state = -1;
    pid_t slow = child_for(900, 1), fast = child_for(40, 2); /* so far apart that a busy machine ends them in order */
    CHECK_INT(wait(&state), ==, fast);
    CHECK_AFTER(start, 40);
    check_exit(state, 2);
    CHECK_INT(waitpid(-1, &state, 0), ==, slow);
    CHECK_AFTER(start, 900);
    check_exit(state, 1);
    CHECK_ERRNO(waitpid(-1, &state, 0), ECHILD);
    CHECK_ERRNO(wait(NULL), ECHILD);
}

STATEMENT(a_group_is_waited_for)
{
    double start = now_ms();
    int state = -1;
    pid_t pid = child_for(40, 3);
    CHECK_INT(waitpid(0, &state, 0), ==, pid); /* our own group */
    CHECK_AFTER(start, 40);
    check_exit(state, 3);
    start = now_ms();
    pid = child_for(60, 4);
    CHECK_INT(setpgid(pid, pid), ==, 0);
    CHECK_ERRNO(waitpid(0, &state, 0), ECHILD);
    CHECK_INT(waitpid(-pid, &state, 0), ==, pid);
    CHECK_AFTER(start, 60);
    check_exit(state, 4);
    CHECK_ERRNO(waitpid(-pid, &state, 0), ECHILD);
}

STATEMENT(with_wnohang_nobody_waits)
{
    double start = now_ms();
    int state = -1;
    siginfo_t info = {.si_pid = 7};
    pid_t pid = child_for(300, 6);
    CHECK_INT(waitpid(pid, &state, WNOHANG), ==, 0);
    CHECK_INT(waitpid(-1, &state, WNOHANG), ==, 0);
    CHECK_INT(waitpid(0, &state, WNOHANG), ==, 0);
    CHECK_INT(wait3(&state, WNOHANG, NULL), ==, 0);
    CHECK_INT(wait4(pid, &state, WNOHANG, NULL), ==, 0);
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG), ==, 0);
    CHECK_INT(info.si_pid, ==, 0);
    CHECK_AT_ONCE(start);
    CHECK_INT(state, ==, -1);
    kill(pid, SIGKILL);
    CHECK_INT(waitpid(pid, &state, 0), ==, pid);
    CHECK(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
    CHECK_ERRNO(waitpid(pid, &state, WNOHANG), ECHILD);
    CHECK_ERRNO(waitpid(getpid(), &state, 0), ECHILD);
    CHECK_ERRNO(waitpid(1, &state, 0), ECHILD);
    CHECK_ERRNO(waitpid(-1, &state, 1 << 20), EINVAL);
}

STATEMENT(stops_and_continuations_are_told)
{
    double start = now_ms();
    int state = 0;
    pid_t pid = child_that_stops();
    CHECK_INT(waitpid(pid, &state, WUNTRACED), ==, pid);
    CHECK_AFTER(start, 30);
    CHECK(WIFSTOPPED(state) && WSTOPSIG(state) == SIGSTOP);
    CHECK_INT(waitpid(pid, &state, WUNTRACED | WNOHANG), ==, 0); /* told once */
    kill(pid, SIGCONT);
    CHECK_INT(waitpid(-1, &state, WCONTINUED), ==, pid);
    CHECK(WIFCONTINUED(state));
    CHECK_INT(waitpid(pid, &state, WUNTRACED), ==, pid);
    check_exit(state, 5);
}

STATEMENT(a_stop_is_not_told_to_who_waits_for_the_end)
{
    int state = 0;
    pid_t pid = child_that_stops();
    double start = now_ms();
    while (waitpid(pid, &state, WNOHANG | WUNTRACED) == 0)
        usleep(2000);
    CHECK(WIFSTOPPED(state));
    CHECK_INT(waitpid(pid, &state, WNOHANG), ==, 0);
    kill(pid, SIGCONT);
    CHECK_INT(waitpid(pid, &state, 0), ==, pid);
    CHECK_AFTER(start, 60);
    check_exit(state, 5);
}

STATEMENT(what_a_child_has_used_is_told)
{
    struct rusage used;
    int state = -1;
    pid_t pid = fork();
    if (pid == 0) {
        struct timespec t;
        do {
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        } while (t.tv_nsec < 60000000 && t.tv_sec == 0);
        _exit(9);
    }
    memset(&used, 0, sizeof used);
    CHECK_INT(wait4(pid, &state, 0, &used), ==, pid);
    check_exit(state, 9);
    CHECK(used.ru_maxrss > 0);
    CHECK(used.ru_utime.tv_sec * 1000000 + used.ru_utime.tv_usec + used.ru_stime.tv_usec >= 50000);
    memset(&used, 0, sizeof used);
    pid = child_for(20, 8);
    CHECK_INT(wait3(&state, 0, &used), ==, pid);
    check_exit(state, 8);
    CHECK(used.ru_maxrss > 0);
}

static void check_info(const siginfo_t *info, pid_t pid, int code, int status)
{
    CHECK_INT(info->si_signo, ==, SIGCHLD);
    CHECK_INT(info->si_pid, ==, pid);
    CHECK_INT(info->si_uid, ==, getuid());
    CHECK_INT(info->si_code, ==, code);
    CHECK_INT(info->si_status, ==, status);
}

STATEMENT(waitid_tells_all)
{
    siginfo_t info;
    double start = now_ms();
    pid_t pid = child_for(40, 11);
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), ==, 0);
    CHECK_AFTER(start, 40);
    check_info(&info, pid, CLD_EXITED, 11);
    memset(&info, 0, sizeof info);
    CHECK_INT(waitid(P_ALL, 0, &info, WEXITED), ==, 0); /* it was left there */
    check_info(&info, pid, CLD_EXITED, 11);
    CHECK_ERRNO(waitid(P_PID, (id_t)pid, &info, WEXITED), ECHILD);
    CHECK_ERRNO(waitid(P_ALL, 0, &info, 0), EINVAL);
    start = now_ms();
    pid = child_for(40, 12);
    CHECK_INT(waitid(P_ALL, 0, &info, WEXITED), ==, 0);
    CHECK_AFTER(start, 40);
    check_info(&info, pid, CLD_EXITED, 12);
    start = now_ms();
    child_for(40, 13);
    CHECK_INT(waitid(P_PGID, 0, NULL, WEXITED), ==, 0);
    CHECK_AFTER(start, 40);
    pid = child_that_stops();
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WSTOPPED), ==, 0);
    check_info(&info, pid, CLD_STOPPED, SIGSTOP);
    kill(pid, SIGKILL);
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED), ==, 0);
    check_info(&info, pid, CLD_KILLED, SIGKILL);
}

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

STATEMENT(a_pidfd_is_waited_for)
{
    siginfo_t info;
    double start = now_ms();
    pid_t pid = child_for(50, 21);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    CHECK_INT(fd, >=, 0);
    CHECK_INT(waitid((idtype_t)P_PIDFD, (id_t)fd, &info, WEXITED), ==, 0);
    CHECK_AFTER(start, 50);
    check_info(&info, pid, CLD_EXITED, 21);
    close(fd);
    CHECK_ERRNO(waitid((idtype_t)P_PIDFD, (id_t)fd, &info, WEXITED), EBADF);
}

STATEMENT(who_waits_for_a_child_of_its_thread_does_not_spin)
{
    int state = -1;
    pid_t pid = child_for(200, 14);
    double computed = cpu_ms();
    CHECK_INT(waitpid(pid, &state, __WNOTHREAD), ==, pid);
    CHECK(cpu_ms() - computed < 100);
    check_exit(state, 14);
}

struct waiting {
    pid_t pid, got;
    int state, error;
};

static void wait_for(void *arg)
{
    struct waiting *w = arg;
    errno = 0;
    w->got = waitpid(w->pid, &w->state, 0);
    w->error = errno;
}

STATEMENT(of_two_who_wait_for_a_child_one_gets_it)
{
    for (int any = 0; any < 2; any++) {
        pid_t pid = child_for(50, 17);
        struct waiting a = {.pid = any ? -1 : pid}, b = a;
        struct flow *f = begin(wait_for, &a), *g = begin_elsewhere(wait_for, &b);
        end(f);
        end(g);
        struct waiting *one = a.got == pid ? &a : &b, *other = a.got == pid ? &b : &a;
        CHECK_INT(one->got, ==, pid);
        check_exit(one->state, 17);
        CHECK_INT(other->got, ==, -1);
        CHECK_INT(other->error, ==, ECHILD);
    }
}

STATEMENT(many_children_are_waited_for_at_once)
{
    enum { MANY = 20 };
    struct waiting w[MANY];
    struct flow *flows[MANY];
    double start = now_ms();
    for (int i = 0; i < MANY; i++) {
        w[i] = (struct waiting){.pid = child_for(100 + 5 * i, i)};
        flows[i] = i % 2 ? begin(wait_for, &w[i]) : begin_elsewhere(wait_for, &w[i]);
    }
    for (int i = 0; i < MANY; i++) {
        end(flows[i]);
        CHECK_INT(w[i].got, ==, w[i].pid);
        check_exit(w[i].state, i);
    }
    CHECK_AFTER(start, 195);
}

/* --- commands --- */

STATEMENT(a_command_is_run)
{
    double start = now_ms();
    int state = system("exec sleep 0.1");
    CHECK_AFTER(start, 100);
    check_exit(state, 0);
    check_exit(system("exit 7"), 7);
    check_exit(system("/nonexistent/command 2>/dev/null"), 127);
    CHECK(system(NULL) != 0);
    state = system("kill -9 $$");
    CHECK(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL);
}

static void run_command(void *arg)
{
    check_exit(system("exec sleep 0.3"), 0);
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELAXED);
}

STATEMENT(commands_run_at_the_same_time)
{
    int ran = 0;
    double start = now_ms();
    struct flow *f[3] = {begin(run_command, &ran), begin(run_command, &ran), begin(run_command, &ran)};
    for (int i = 0; i < 3; i++)
        end(f[i]);
    CHECK_INT(ran, ==, 3);
    CHECK_WITHIN(start, 850); /* not one after another */
}

STATEMENT(a_stream_s_command_is_waited_for)
{
    double start = now_ms();
    FILE *p = popen("exec sleep 0.15", "r");
    CHECK(p != NULL);
    check_exit(pclose(p), 0);
    CHECK_AFTER(start, 150);
    p = popen("exit 3", "w");
    check_exit(pclose(p), 3);
    char text[16] = "";
    p = popen("echo hello", "re");
    CHECK(fgets(text, sizeof text, p) != NULL);
    CHECK_STR(text, "hello\n");
    check_exit(pclose(p), 0);
    CHECK_ERRNO(popen("true", "x") ? 0 : -1, EINVAL);
}

STATEMENT(a_command_begins_with_the_signals_blocked_that_its_caller_has)
{
    sigset_t one, before;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    int state = system("kill -TERM $$; exit 3");
    CHECK(WIFSIGNALED(state) && WTERMSIG(state) == SIGTERM);
    CHECK_INT(pthread_sigmask(SIG_BLOCK, &one, &before), ==, 0);
    check_exit(system("kill -USR2 $$; exit 3"), 3);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    state = system("kill -USR2 $$; exit 3");
    CHECK(WIFSIGNALED(state) && WTERMSIG(state) == SIGUSR2);
}

struct cancelled {
    const char *text;
    int rc, error;
};

static void *run_until_cancelled(void *arg)
{
    struct cancelled *c = arg;
    c->rc = system(c->text);
    c->error = errno;
    return arg;
}

/* A difference, as threads are not cancelled so. */
STATEMENT(a_command_goes_on_when_its_caller_is_cancelled)
{
    int fds[2];
    char text[80], c;
    weft_fiber *f = NULL;
    if (is_kernel())
        return;
    CHECK_INT(pipe(fds), ==, 0); /* the command has it too */
    snprintf(text, sizeof text, "echo a >&%d; sleep 0.2; echo b >&%d", fds[1], fds[1]);
    struct cancelled who = {.text = text};
    CHECK_INT(weft_go_with(&f, NULL, run_until_cancelled, &who), ==, 0);
    CHECK_INT(read(fds[0], &c, 1), ==, 1);
    weft_cancel(f);
    CHECK_INT(weft_join(f, NULL, weft_in(20 * WEFT_SEC)), ==, 0);
    CHECK_INT(who.rc, ==, -1);
    CHECK_INT(who.error, ==, ECANCELED);
    for (int i = 0; i < 2; i++) /* the end of the first line, and the second */
        CHECK_INT(read(fds[0], &c, 1), ==, 1);
    CHECK_INT(c, ==, 'b');
    close(fds[0]);
    close(fds[1]);
}

STATEMENTS(process, a_child_is_waited_for, the_stop_of_a_traced_child_is_told, any_child_is_waited_for,
           a_group_is_waited_for, with_wnohang_nobody_waits, stops_and_continuations_are_told,
           a_stop_is_not_told_to_who_waits_for_the_end, what_a_child_has_used_is_told, waitid_tells_all,
           a_pidfd_is_waited_for, who_waits_for_a_child_of_its_thread_does_not_spin,
           of_two_who_wait_for_a_child_one_gets_it, many_children_are_waited_for_at_once, a_command_is_run,
           commands_run_at_the_same_time, a_stream_s_command_is_waited_for,
           a_command_begins_with_the_signals_blocked_that_its_caller_has,
           a_command_goes_on_when_its_caller_is_cancelled)
