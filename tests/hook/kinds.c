/*
 * tests/hook/kinds.c: descriptors that are neither sockets nor pipes, and calls that move data between two of them.
 */
#include "hook/peer.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>

static void *volatile nowhere = (void *)(uintptr_t)8; /* the compiler must not know */

static int make_terminal(int *other)
{
    struct termios raw;
    char name[64];
    int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    CHECK(grantpt(fd) == 0 && unlockpt(fd) == 0 && ptsname_r(fd, name, sizeof name) == 0);
    *other = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK_INT(tcgetattr(*other, &raw), ==, 0);
    cfmakeraw(&raw);
    CHECK_INT(tcsetattr(*other, TCSANOW, &raw), ==, 0);
    return fd;
}

STATEMENT(a_read_of_a_terminal_waits)
{
    int other, fd = make_terminal(&other);
    char text[8];
    if (fd < 0)
        SKIP("there are no terminals here");
    for (int i = 0; i < 2; i++) {
        struct writer w = {i ? fd : other, 50, "abc", 3};
        double start = now_ms();
        struct flow *writes = begin(write_later, &w);
        CHECK_INT(read(i ? other : fd, text, sizeof text), ==, 3);
        CHECK_AFTER(start, 50);
        end(writes);
    }
    CHECK_INT(fcntl(other, F_SETFL, O_RDWR | O_NONBLOCK), ==, 0);
    CHECK_ERRNO(read(other, text, sizeof text), EAGAIN);
    close(other);
    CHECK_ERRNO(read(fd, text, sizeof text), EIO);
    close(fd);
}

static void take_terminals_output(void *arg)
{
    char text[4096];
    size_t bytes = 0;
    usleep(60000);
    while (bytes < 65536) {
        ssize_t n = read(*(int *)arg, text, sizeof text);
        CHECK_INT(n, >, 0);
        if (n <= 0)
            break;
        bytes += (size_t)n;
    }
    CHECK_INT(bytes, ==, 65536);
}

STATEMENT(a_write_to_a_terminal_that_nobody_reads_waits)
{
    static char much[65536];
    int other, fd = make_terminal(&other);
    if (fd < 0)
        SKIP("there are no terminals here");
    memset(much, 'x', sizeof much);
    double start = now_ms();
    struct flow *takes = begin_thread(take_terminals_output, &fd); /* who reads waits for a thread of the kernel's */
    CHECK_INT(write(other, much, sizeof much), ==, sizeof much);
    CHECK_AFTER(start, 60);
    end(takes);
    close(other);
    close(fd);
}

static void make_file(void *arg)
{
    char name[96];
    snprintf(name, sizeof name, "%s/file", (char *)arg);
    usleep(50000);
    int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK_INT(fd, >=, 0);
    close(fd);
    CHECK_INT(unlink(name), ==, 0);
}

STATEMENT(a_read_of_what_happens_to_files_waits)
{
    char path[] = "/dev/shm/weft-hook-XXXXXX";
    _Alignas(struct inotify_event) char events[1024];
    CHECK(mkdtemp(path) != NULL);
    int fd = inotify_init1(IN_CLOEXEC);
    CHECK_INT(inotify_add_watch(fd, path, IN_CREATE), >=, 0);
    double start = now_ms();
    struct flow *makes = begin(make_file, path);
    CHECK_INT(read(fd, events, sizeof events), >=, sizeof(struct inotify_event));
    CHECK_AFTER(start, 50);
    end(makes);
    CHECK_INT(((struct inotify_event *)events)->mask, ==, IN_CREATE);
    CHECK_INT(fcntl(fd, F_SETFL, O_RDONLY | O_NONBLOCK), ==, 0);
    CHECK_ERRNO(read(fd, events, sizeof events), EAGAIN);
    struct later closes = {.fd = fd, .after = 0, .what = just_close};
    end(begin_thread(do_later, &closes)); /* this takes the kernel a while */
    rmdir(path);
}

static void send_signal(void *arg)
{
    usleep(50000);
    CHECK_INT(pthread_kill(*(pthread_t *)arg, SIGUSR2), ==, 0);
}

STATEMENT(a_read_of_signals_waits)
{
    sigset_t set;
    struct signalfd_siginfo info;
    pthread_t self = pthread_self();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK_INT(pthread_sigmask(SIG_BLOCK, &set, NULL), ==, 0);
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    double start = now_ms();
    struct flow *sends = begin_thread(send_signal, &self);
    CHECK_INT(read(fd, &info, sizeof info), ==, sizeof info);
    CHECK_AFTER(start, 50);
    CHECK_INT(info.ssi_signo, ==, SIGUSR2);
    end(sends);
    CHECK_INT(pthread_sigmask(SIG_UNBLOCK, &set, NULL), ==, 0);
    close(fd);
}

STATEMENT(files_and_devices_are_read_and_written_at_once)
{
    char text[8];
    int file = memfd_create("file", MFD_CLOEXEC), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC), random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    double start = now_ms();
    CHECK_INT(write(file, "abcdef", 6), ==, 6);
    CHECK_INT(read(file, text, 8), ==, 0);
    CHECK_INT(lseek(file, 2, SEEK_SET), ==, 2);
    CHECK_INT(read(file, text, 8), ==, 4);
    CHECK_INT(memcmp(text, "cdef", 4), ==, 0);
    CHECK_INT(preadv2(file, &(struct iovec){text, 8}, 1, 1, 0), ==, 5);
    CHECK_INT(lseek(file, 0, SEEK_CUR), ==, 6);
    CHECK_INT(read(null, text, 8), ==, 0);
    CHECK_INT(write(null, text, 8), ==, 8);
    CHECK_INT(read(zero, text, 8), ==, 8);
    CHECK_INT(read(random, text, 8), ==, 8);
    CHECK_INT(readv(random, &(struct iovec){text, 8}, 1), ==, 8);
    CHECK_AT_ONCE(start);
    close(file);
    close(null);
    close(zero);
    close(random);
}

static void signal_event(void *arg)
{
    usleep(50000);
    CHECK_INT(eventfd_write(*(int *)arg, 5), ==, 0);
}

STATEMENT(an_event_is_waited_for)
{
    eventfd_t value = 0;
    int fd = eventfd(0, EFD_CLOEXEC);
    double start = now_ms();
    struct flow *signals = begin(signal_event, &fd);
    CHECK_INT(eventfd_read(fd, &value), ==, 0);
    CHECK_AFTER(start, 50);
    CHECK_INT(value, ==, 5);
    end(signals);
    close(fd);
    fd = eventfd(3, EFD_CLOEXEC | EFD_SEMAPHORE | EFD_NONBLOCK);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(eventfd_read(fd, &value), ==, 0);
        CHECK_INT(value, ==, 1);
    }
    CHECK_ERRNO(eventfd_read(fd, &value), EAGAIN);
    close(fd);
}

static void take_event(void *arg)
{
    eventfd_t value = 0;
    usleep(60000);
    CHECK_INT(eventfd_read(*(int *)arg, &value), ==, 0);
}

STATEMENT(an_event_waits_until_there_is_room_for_all_of_it)
{
    eventfd_t value = 0;
    int fd = eventfd(0, EFD_CLOEXEC);
    CHECK_INT(eventfd_write(fd, UINT64_MAX - 1 - 3), ==, 0);
    CHECK_INT(eventfd_write(fd, 2), ==, 0);
    double start = now_ms();
    struct flow *takes = begin(take_event, &fd);
    CHECK_INT(eventfd_write(fd, 5), ==, 0);
    CHECK_AFTER(start, 60);
    end(takes);
    CHECK_INT(eventfd_read(fd, &value), ==, 0);
    CHECK_INT(value, ==, 5);
    close(fd);
}

STATEMENT(an_event_that_can_be_none_is_refused_at_once)
{
    uint64_t most = UINT64_MAX, none = 0;
    int fd = eventfd(0, EFD_CLOEXEC);
    CHECK_INT(eventfd_write(fd, UINT64_MAX - 1), ==, 0);
    double start = now_ms();
    CHECK_ERRNO(write(fd, &most, sizeof most), EINVAL);
    CHECK_ERRNO(write(fd, &most, 4), EINVAL);
    CHECK_INT(write(fd, &none, sizeof none), ==, sizeof none);
    if (!STATEMENT_ASAN) /* which looks at the memory itself */
        CHECK_ERRNO(write(fd, nowhere, sizeof most), EFAULT);
    CHECK_AT_ONCE(start);
    close(fd);
}

STATEMENT(splice_waits_for_data_and_for_room)
{
    int in[2], pipefd[2], out[2];
    char text[8];
    tcp_pair(in);
    unix_pair(out, SOCK_STREAM);
    CHECK_INT(pipe2(pipefd, O_CLOEXEC), ==, 0);
    struct writer w = {in[1], 50, "abcd", 4};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(splice(in[0], NULL, pipefd[1], NULL, 100, 0), ==, 4);
    CHECK_AFTER(start, 50);
    end(writes);
    CHECK_INT(splice(pipefd[0], NULL, out[1], NULL, 100, 0), ==, 4);
    CHECK_INT(read(out[0], text, 8), ==, 4);
    start = now_ms();
    writes = begin(write_later, &(struct writer){pipefd[1], 50, "ef", 2});
    CHECK_INT(splice(pipefd[0], NULL, out[1], NULL, 100, 0), ==, 2);
    CHECK_AFTER(start, 50);
    end(writes);
    CHECK_INT(read(out[0], text, 8), ==, 2);
    CHECK_ERRNO(splice(out[0], NULL, pipefd[1], NULL, 100, SPLICE_F_NONBLOCK), EAGAIN);
    close(in[1]);
    CHECK_INT(splice(in[0], NULL, pipefd[1], NULL, 100, 0), ==, 0);
    close(in[0]);
    size_t bytes = fill(pipefd[1]);
    tcp_pair(in);
    CHECK_INT(write(in[1], "x", 1), ==, 1);
    struct reader r = {.fd = pipefd[0], .after_ms = 50, .chunk = 65536, .most = bytes, .keep = true};
    start = now_ms();
    struct flow *reads = begin(read_slowly, &r);
    CHECK_INT(splice(in[0], NULL, pipefd[1], NULL, 100, 0), ==, 1);
    CHECK_AFTER(start, 50);
    end(reads);
    close_pair(in);
    close_pair(out);
    close_pair(pipefd);
}

STATEMENT(a_splice_that_cannot_be_fails_at_once)
{
    int one[2], two[2], pipefd[2];
    off64_t at = 0;
    unix_pair(one, SOCK_STREAM);
    unix_pair(two, SOCK_STREAM);
    CHECK_INT(pipe2(pipefd, O_CLOEXEC), ==, 0);
    double start = now_ms();
    CHECK_ERRNO(splice(one[0], NULL, two[1], NULL, 100, 0), EINVAL);
    CHECK_ERRNO(splice(pipefd[0], NULL, pipefd[1], NULL, 100, 0), EINVAL);
    CHECK_ERRNO(splice(pipefd[0], &at, one[0], NULL, 100, 0), ESPIPE);
    CHECK_ERRNO(splice(one[0], &at, pipefd[1], NULL, 100, 0), EINVAL);
    CHECK_ERRNO(splice(pipefd[0], NULL, one[0], &at, 100, 0), EINVAL);
    CHECK_ERRNO(splice(-1, NULL, pipefd[1], NULL, 100, 0), EBADF);
    CHECK_ERRNO(splice(pipefd[1], NULL, one[1], NULL, 100, 0), EBADF);
    CHECK_INT(splice(one[0], NULL, pipefd[1], NULL, 0, 0), ==, 0);
    CHECK_AT_ONCE(start);
    close_pair(one);
    close_pair(two);
    close_pair(pipefd);
}

STATEMENT(splice_from_tcp_waits_for_data_also_if_it_may_not_wait_for_the_pipe)
{
    int in[2], pipefd[2];
    tcp_pair(in);
    CHECK_INT(pipe2(pipefd, O_CLOEXEC), ==, 0);
    struct writer w = {in[1], 50, "abcd", 4};
    double start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(splice(in[0], NULL, pipefd[1], NULL, 100, SPLICE_F_NONBLOCK), ==, 4);
    CHECK_AFTER(start, 50);
    end(writes);
    fill(pipefd[1]);
    CHECK_INT(write(in[1], "x", 1), ==, 1);
    CHECK_ERRNO(splice(in[0], NULL, pipefd[1], NULL, 100, SPLICE_F_NONBLOCK), EAGAIN);
    close_pair(in);
    close_pair(pipefd);
}

STATEMENT(a_large_write_to_a_fifo_is_made_in_full)
{
    static unsigned char much[1 << 20];
    char path[] = "/dev/shm/weft-hook-XXXXXX", name[64];
    CHECK(mkdtemp(path) != NULL);
    snprintf(name, sizeof name, "%s/fifo", path);
    CHECK_INT(mkfifo(name, 0600), ==, 0);
    fill_pattern(much, sizeof much);
    for (int way = 0; way < 2; way++) {
        int in = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC), out = open(name, O_WRONLY | O_CLOEXEC);
        CHECK_INT(fcntl(in, F_SETFL, O_RDONLY), ==, 0);
        struct iovec parts[2] = {{much, 12345}, {much + 12345, sizeof much - 12345}};
        struct reader r = {.fd = in, .after_ms = 20, .chunk = 30001};
        struct flow *reads = begin(read_slowly, &r);
        CHECK_INT(way ? writev(out, parts, 2) : write(out, much, sizeof much), ==, sizeof much);
        close(out);
        end(reads);
        CHECK_INT(r.bytes, ==, sizeof much);
        CHECK(!r.wrong);
    }
    unlink(name);
    rmdir(path);
}

STATEMENT(a_fifo_that_nobody_writes_to_has_ended_and_one_that_somebody_may_is_waited_for)
{
    char path[] = "/dev/shm/weft-hook-XXXXXX", name[64], text[8];
    CHECK(mkdtemp(path) != NULL);
    snprintf(name, sizeof name, "%s/fifo", path);
    CHECK_INT(mkfifo(name, 0600), ==, 0);
    int in = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK_INT(fcntl(in, F_SETFL, O_RDONLY), ==, 0);
    double start = now_ms();
    errno = 4321;
    CHECK_INT(read(in, text, sizeof text), ==, 0);
    CHECK_INT(readv(in, &(struct iovec){text, sizeof text}, 1), ==, 0);
    CHECK_INT(errno, ==, 4321);
    CHECK_AT_ONCE(start);
    int out = open(name, O_WRONLY | O_CLOEXEC);
    struct writer w = {out, 60, "abc", 3};
    start = now_ms();
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(read(in, text, sizeof text), ==, 3);
    CHECK_AFTER(start, 60);
    end(writes);
    close(out);
    CHECK_INT(read(in, text, sizeof text), ==, 0);
    close(in);
    w.fd = open(name, O_RDWR | O_CLOEXEC);
    start = now_ms();
    writes = begin(write_later, &w);
    CHECK_INT(read(w.fd, text, sizeof text), ==, 3);
    CHECK_AFTER(start, 60);
    CHECK(memcmp(text, "abc", 3) == 0);
    end(writes);
    close(w.fd);
    unlink(name);
    rmdir(path);
}

STATEMENT(sendfile_keeps_to_the_timeout_and_refuses_what_cannot_be)
{
    int pair[2], file = memfd_create("file", MFD_CLOEXEC), pipefd[2];
    off_t at = 0;
    CHECK_INT(ftruncate(file, 4 << 20), ==, 0);
    unix_pair(pair, SOCK_STREAM);
    CHECK_INT(pipe(pipefd), ==, 0);
    set_timeout(pair[1], SO_SNDTIMEO, 100);
    double start = now_ms();
    ssize_t n = sendfile(pair[1], file, &at, 4 << 20);
    CHECK_AFTER(start, 100);
    CHECK(n > 0 && n < 4 << 20);
    CHECK_INT(at, ==, n);
    CHECK_ERRNO(sendfile(pair[1], file, &at, 4 << 20), EAGAIN);
    CHECK_INT(at, ==, n);
    CHECK_INT(lseek(file, 0, SEEK_CUR), ==, 0);
    CHECK_ERRNO(sendfile(pair[1], pipefd[0], NULL, 1), EINVAL);
    CHECK_ERRNO(sendfile(pair[1], -1, NULL, 1), EBADF);
    CHECK_ERRNO(sendfile(-1, file, NULL, 1), EBADF);
    at = -1;
    CHECK_ERRNO(sendfile(pair[1], file, &at, 1), EINVAL);
    at = 4 << 20;
    CHECK_INT(sendfile(pair[1], file, &at, 1), ==, 0);
    CHECK_INT(sendfile(pair[1], file, NULL, 0), ==, 0);
    CHECK_INT(fcntl(pair[1], F_SETFL, O_RDWR | O_NONBLOCK), ==, 0);
    at = 0;
    CHECK_ERRNO(sendfile(pair[1], file, &at, 1), EAGAIN);
    close_pair(pair);
    close_pair(pipefd);
    close(file);
}

STATEMENT(splice_moves_all_that_the_pipe_has)
{
    static char much[65536], there[65536];
    int pair[2], pipefd[2], file = memfd_create("file", MFD_CLOEXEC);
    memset(much, 'x', sizeof much);
    tcp_pair(pair);
    CHECK_INT(pipe2(pipefd, O_CLOEXEC), ==, 0);
    CHECK_INT(write(pipefd[1], much, sizeof much), ==, (ssize_t)sizeof much);
    CHECK_INT(splice(pipefd[0], NULL, pair[0], NULL, 50000, 0), ==, 50000);
    CHECK_INT(recv(pair[1], there, 50000, MSG_WAITALL), ==, 50000);
    CHECK(memcmp(much, there, 50000) == 0);
    CHECK_INT(splice(pipefd[0], NULL, file, NULL, 65536, 0), ==, 15536);
    close_pair(pair);
    close_pair(pipefd);
    close(file);
}

STATEMENT(sendfile_refuses_directories_and_sizes_that_are_none)
{
    int pair[2], directory = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), file = memfd_create("file", MFD_CLOEXEC);
    unix_pair(pair, SOCK_STREAM);
    CHECK_ERRNO(sendfile(pair[0], directory, NULL, 10), EINVAL);
    CHECK_ERRNO(sendfile(pair[0], file, NULL, (size_t)-1), EINVAL);
    close_pair(pair);
    close(directory);
    close(file);
}

STATEMENT(sendfile_refuses_what_has_no_places_and_what_is_no_memory)
{
    int pair[2], pipefd[2], file = memfd_create("file", MFD_CLOEXEC);
    off_t at = 0;
    CHECK_INT(write(file, "abc", 3), ==, 3);
    unix_pair(pair, SOCK_STREAM);
    CHECK_INT(pipe2(pipefd, O_CLOEXEC), ==, 0);
    CHECK_INT(write(pipefd[1], "abc", 3), ==, 3);
    CHECK_ERRNO(sendfile(pair[0], -1, NULL, 0), EBADF);
    CHECK_ERRNO(sendfile(pair[0], pipefd[0], NULL, 0), EINVAL);
    CHECK_ERRNO(sendfile(pair[0], pipefd[0], NULL, 3), EINVAL);
    CHECK_ERRNO(sendfile(pair[0], pipefd[0], &at, 3), ESPIPE);
    CHECK_ERRNO(sendfile(pair[0], pair[1], &at, 3), ESPIPE);
    if (!STATEMENT_ASAN) /* which looks at the memory itself */
        CHECK_ERRNO(sendfile(pair[0], file, nowhere, 3), EFAULT);
    CHECK_ERRNO(recv(pair[1], (char[1]){0}, 1, MSG_DONTWAIT), EAGAIN);
    CHECK_INT(sendfile(pair[0], file, &at, 10), ==, 3);
    CHECK_INT(at, ==, 3);
    close_pair(pair);
    close_pair(pipefd);
    close(file);
}

STATEMENTS(kinds, sendfile_refuses_what_has_no_places_and_what_is_no_memory, a_read_of_a_terminal_waits,
           a_read_of_what_happens_to_files_waits, a_read_of_signals_waits,
           files_and_devices_are_read_and_written_at_once, an_event_is_waited_for,
           an_event_waits_until_there_is_room_for_all_of_it, an_event_that_can_be_none_is_refused_at_once,
           a_fifo_that_nobody_writes_to_has_ended_and_one_that_somebody_may_is_waited_for,
           splice_waits_for_data_and_for_room, a_splice_that_cannot_be_fails_at_once,
           splice_from_tcp_waits_for_data_also_if_it_may_not_wait_for_the_pipe, a_large_write_to_a_fifo_is_made_in_full,
           sendfile_keeps_to_the_timeout_and_refuses_what_cannot_be, a_write_to_a_terminal_that_nobody_reads_waits,
           splice_moves_all_that_the_pipe_has, sendfile_refuses_directories_and_sizes_that_are_none)
