/*
 * tests/hook/terminal.c: how long a read of a terminal waits: for VMIN and VTIME (termios(3)), and not at all for who is in the
 * background. And what memory is written to one.
 */
#include "hook/peer.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>

struct terminal {
    int fd;    /* the program's end */
    int other; /* the terminal */
};

static struct terminal make(void)
{
    char name[64];
    struct terminal t = {posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), -1};
    if (t.fd < 0)
        return t;
    CHECK(grantpt(t.fd) == 0 && unlockpt(t.fd) == 0 && ptsname_r(t.fd, name, sizeof name) == 0);
    t.other = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK_INT(t.other, >=, 0);
    return t;
}

#define SKIP_WITHOUT(t)                                                                                                \
    do {                                                                                                               \
        if ((t).fd < 0)                                                                                                \
            SKIP("there are no terminals here");                                                                       \
    } while (0)

/* Without lines: a read waits for `least` bytes, or for this long. */
static void set(struct terminal t, unsigned least, unsigned tenths)
{
    struct termios how;
    CHECK_INT(tcgetattr(t.other, &how), ==, 0);
    cfmakeraw(&how);
    how.c_cc[VMIN] = (cc_t)least;
    how.c_cc[VTIME] = (cc_t)tenths;
    CHECK_INT(tcsetattr(t.other, TCSANOW, &how), ==, 0);
}

static void close_both(struct terminal t)
{
    close(t.other);
    close(t.fd);
}

STATEMENT(a_read_of_a_terminal_without_vmin_and_vtime_does_not_wait)
{
    struct terminal t = make();
    char text[8];
    SKIP_WITHOUT(t);
    set(t, 0, 0);
    double start = now_ms();
    errno = 4321;
    CHECK_INT(read(t.other, text, sizeof text), ==, 0);
    CHECK_INT(readv(t.other, &(struct iovec){text, sizeof text}, 1), ==, 0);
    CHECK_INT(errno, ==, 4321);
    CHECK_AT_ONCE(start);
    close_both(t);
}

STATEMENT(a_read_of_a_terminal_with_vtime_alone_waits_so_long_for_a_byte)
{
    struct terminal t = make();
    char text[8];
    SKIP_WITHOUT(t);
    set(t, 0, 1);
    double start = now_ms();
    errno = 4321;
    CHECK_INT(read(t.other, text, sizeof text), ==, 0);
    CHECK_INT(errno, ==, 4321);
    CHECK_AFTER(start, 100);
    set(t, 0, 20);
    struct writer w = {t.fd, 60, "abc", 3};
    start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(read(t.other, text, sizeof text), ==, 3);
    CHECK_AFTER(start, 60);
    end(writes);
    close_both(t);
}

STATEMENT(a_read_of_a_terminal_with_vmin_and_vtime_ends_when_no_more_bytes_come)
{
    struct terminal t = make();
    char text[8];
    SKIP_WITHOUT(t);
    set(t, 5, 2);
    struct writer w = {t.fd, 60, "a", 1};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(read(t.other, text, sizeof text), ==, 1);
    CHECK_AFTER(start, 260);
    end(writes);
    w = (struct writer){t.fd, 60, "abcdef", 6};
    start = now_ms();
    writes = begin(write_later, &w);
    CHECK_INT(read(t.other, text, sizeof text), ==, 6);
    CHECK_AFTER(start, 60);
    end(writes);
    close_both(t);
}

STATEMENT(a_read_of_a_terminal_with_vmin_alone_waits_for_so_many_bytes_or_for_all_it_has_room_for)
{
    struct terminal t = make();
    char text[8];
    SKIP_WITHOUT(t);
    set(t, 3, 0);
    struct writer w = {t.fd, 60, "c", 1};
    CHECK_INT(write(t.fd, "ab", 2), ==, 2);
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(read(t.other, text, sizeof text), ==, 3);
    CHECK_AFTER(start, 60);
    end(writes);
    CHECK_INT(write(t.fd, "a", 1), ==, 1);
    start = now_ms();
    writes = begin(write_later, &w);
    CHECK_INT(read(t.other, text, 2), ==, 2);
    CHECK_AFTER(start, 60);
    end(writes);
    close_both(t);
}

STATEMENT(how_a_terminal_is_set_is_nothing_to_who_reads_its_other_end)
{
    struct terminal t = make();
    char text[8];
    SKIP_WITHOUT(t);
    set(t, 0, 0);
    struct writer w = {t.other, 60, "abc", 3};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(read(t.fd, text, sizeof text), ==, 3);
    CHECK_AFTER(start, 60);
    end(writes);
    close_both(t);
}

STATEMENT(a_read_of_a_terminal_whose_other_end_is_closed_meanwhile_is_eio_and_the_next_finds_the_end)
{
    for (int lines = 0; lines < 2; lines++) {
        struct terminal t = make();
        char text[8];
        SKIP_WITHOUT(t);
        if (!lines)
            set(t, 1, 0);
        struct later closes = {.fd = t.fd, .after = 60, .what = just_close};
        struct flow *leaves = begin(do_later, &closes);
        CHECK_ERRNO(read(t.other, text, sizeof text), EIO);
        CHECK_JUST_AFTER(&closes);
        end(leaves);
        CHECK_INT(read(t.other, text, sizeof text), ==, 0);
        close(t.other);
    }
}

/*
 * In a session of its own, of which `t` is the terminal, somebody in the background reads it. What became of that: what
 * waitpid(2) says, first without and then with it in the foreground.
 */
static void read_in_background(struct terminal t, sighandler_t how, int state[2])
{
    char text[4];
    if (setsid() < 0 || ioctl(t.other, TIOCSCTTY, 0) != 0)
        _exit(101);
    pid_t reads = fork();
    if (reads == 0) {
        setpgid(0, 0);
        signal(SIGTTIN, how);
        alarm(10);
        _exit(read(t.other, text, sizeof text) < 0 ? errno : text[0]);
    }
    setpgid(reads, reads);
    waitpid(reads, &state[0], WUNTRACED);
    if (!WIFSTOPPED(state[0]))
        return;
    signal(SIGTTOU, SIG_IGN);
    tcsetpgrp(t.other, reads);
    kill(reads, SIGCONT);
    usleep(50000);
    if (write(t.fd, "q\n", 2) == 2)
        waitpid(reads, &state[1], 0);
}

STATEMENT(a_read_of_a_terminal_by_who_is_in_the_background_is_refused_or_stops_him)
{
    for (int i = 0; i < 2; i++) {
        struct terminal t = make();
        SKIP_WITHOUT(t);
        int pipefd[2], state[2] = {0, 0}, ended = -1;
        CHECK_INT(pipe2(pipefd, O_CLOEXEC), ==, 0);
        pid_t session = fork();
        if (session == 0) {
            read_in_background(t, i ? SIG_DFL : SIG_IGN, state);
            _exit(write(pipefd[1], state, sizeof state) != sizeof state);
        }
        close(pipefd[1]);
        CHECK_INT(read(pipefd[0], state, sizeof state), ==, sizeof state);
        CHECK_INT(waitpid(session, &ended, 0), ==, session);
        CHECK_INT(ended, ==, 0);
        if (i == 0) {
            CHECK(WIFEXITED(state[0]));
            CHECK_INT(WEXITSTATUS(state[0]), ==, EIO);
        } else {
            CHECK(WIFSTOPPED(state[0]) && WSTOPSIG(state[0]) == SIGTTIN);
            CHECK(WIFEXITED(state[1]));
            CHECK_INT(WEXITSTATUS(state[1]), ==, 'q');
        }
        close(pipefd[0]);
        close_both(t);
    }
}

static void *volatile nowhere = (void *)(uintptr_t)8; /* the compiler must not know */

STATEMENT(no_memory_to_write_to_a_terminal_is_efault)
{
    if (STATEMENT_ASAN)
        SKIP("a sanitizer looks at the memory before the kernel does");
    struct terminal t = make();
    SKIP_WITHOUT(t);
    static char text[300];
    struct iovec parts[2] = {{nowhere, 300}, {text, 300}};
    double start = now_ms();
    CHECK_ERRNO(write(t.other, nowhere, 3000), EFAULT);
    CHECK_ERRNO(writev(t.other, parts, 2), EFAULT);
    CHECK_ERRNO(writev(t.other, nowhere, 2), EFAULT);
    CHECK_AT_ONCE(start);
    close_both(t);
}

STATEMENTS(terminal, a_read_of_a_terminal_without_vmin_and_vtime_does_not_wait,
           a_read_of_a_terminal_with_vtime_alone_waits_so_long_for_a_byte,
           a_read_of_a_terminal_with_vmin_and_vtime_ends_when_no_more_bytes_come,
           a_read_of_a_terminal_with_vmin_alone_waits_for_so_many_bytes_or_for_all_it_has_room_for,
           how_a_terminal_is_set_is_nothing_to_who_reads_its_other_end,
           a_read_of_a_terminal_whose_other_end_is_closed_meanwhile_is_eio_and_the_next_finds_the_end,
           a_read_of_a_terminal_by_who_is_in_the_background_is_refused_or_stops_him,
           no_memory_to_write_to_a_terminal_is_efault)
