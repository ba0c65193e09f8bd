/*
 * Cancellation points on descriptors, files, processes and the network: a cancelled fiber gets -ECANCELED also where
 * the call would not have to wait, and the call has then done nothing. unit/sched/cancel_points has all other calls.
 */
#include <netdb.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <weft/file.h>
#include <weft/net.h>
#include <weft/process.h>

#include "unit/io/ground.h"
#include "unit/sched/points.h"

static struct {
    struct pair ends; /* a reads, b writes */
    struct pair pipe;
    int listener, client, made;
    struct sockaddr_un at;
    int file;
    char path[32];
    off_t offset;
    size_t done;
    char buffer[64];
    pid_t child;
    int handled; /* atomic */
    struct addrinfo *found;
    char address[32];
} on;

static int bytes_in(int fd)
{
    int bytes = -1;
    CHECK_INT(ioctl(fd, FIONREAD, &bytes), ==, 0);
    return bytes;
}

/* ---- reading ---- */

static void no_byte(void)
{
    on.ends = unix_pair(SOCK_STREAM);
    on.done = 99;
}

static void one_byte(void)
{
    no_byte();
    CHECK_INT(write(on.ends.b, "x", 1), ==, 1);
}

static void close_ends(void)
{
    close_pair(on.ends);
}

static bool has_the_byte(void)
{
    return bytes_in(on.ends.a) == 1;
}

static bool has_no_byte(void)
{
    return bytes_in(on.ends.a) == 0;
}

static struct iovec *part(void)
{
    static struct iovec one;
    one = (struct iovec){on.buffer, 1};
    return &one;
}

static struct msghdr *message(void)
{
    static struct msghdr m;
    m = (struct msghdr){.msg_iov = part(), .msg_iovlen = 1};
    return &m;
}

static long reads(weft_time deadline)
{
    return weft_read(on.ends.a, on.buffer, 1, deadline);
}

static long reads_nothing(weft_time deadline)
{
    return weft_read(on.ends.a, on.buffer, 0, deadline);
}

static long readvs(weft_time deadline)
{
    return weft_readv(on.ends.a, part(), 1, deadline);
}

static long readvs_nothing(weft_time deadline)
{
    return weft_readv(on.ends.a, part(), 0, deadline);
}

static long recvs(weft_time deadline)
{
    return weft_recv(on.ends.a, on.buffer, 1, 0, deadline);
}

static long recvs_all(weft_time deadline)
{
    return weft_recv(on.ends.a, on.buffer, 1, MSG_WAITALL, deadline);
}

static long recvfroms(weft_time deadline)
{
    return weft_recvfrom(on.ends.a, on.buffer, 1, 0, NULL, NULL, deadline);
}

static long recvmsgs(weft_time deadline)
{
    return weft_recvmsg(on.ends.a, message(), 0, deadline);
}

static long reads_fully(weft_time deadline)
{
    return weft_read_full(on.ends.a, on.buffer, 1, &on.done, deadline);
}

static bool none_done_and_the_byte_there(void)
{
    return on.done == 0 && has_the_byte();
}

/* ---- writing ---- */

static long writes(weft_time deadline)
{
    return weft_write(on.ends.b, "x", 1, deadline);
}

static long writes_nothing(weft_time deadline)
{
    return weft_write(on.ends.b, "x", 0, deadline);
}

static long writevs(weft_time deadline)
{
    return weft_writev(on.ends.b, part(), 1, deadline);
}

static long sends(weft_time deadline)
{
    return weft_send(on.ends.b, "x", 1, 0, deadline);
}

static long sendtos(weft_time deadline)
{
    return weft_sendto(on.ends.b, "x", 1, 0, NULL, 0, deadline);
}

static long sendmsgs(weft_time deadline)
{
    return weft_sendmsg(on.ends.b, message(), 0, deadline);
}

static long writes_all(weft_time deadline)
{
    return weft_write_all(on.ends.b, "x", 1, &on.done, deadline);
}

static bool none_done(void)
{
    return on.done == 0 && has_no_byte();
}

/* ---- connections ---- */

static void listen_here(void)
{
    on.at = (struct sockaddr_un){.sun_family = AF_UNIX};
    on.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    on.client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = sizeof(sa_family_t); /* the kernel chooses a name without a file */
    CHECK_INT(bind(on.listener, (struct sockaddr *)&on.at, size), ==, 0);
    CHECK_INT(listen(on.listener, 8), ==, 0);
    size = sizeof on.at;
    CHECK_INT(getsockname(on.listener, (struct sockaddr *)&on.at, &size), ==, 0);
    on.made = -1;
}

static socklen_t at_size(void)
{
    return (socklen_t)(sizeof(sa_family_t) + 6); /* of a name that the kernel has chosen: five digits behind a zero */
}

static void one_connection(void)
{
    listen_here();
    CHECK_INT(connect(on.client, (struct sockaddr *)&on.at, at_size()), ==, 0);
}

static void close_connection(void)
{
    CHECK_INT(weft_close(on.listener), ==, 0);
    CHECK_INT(weft_close(on.client), ==, 0);
    if (on.made >= 0)
        CHECK_INT(weft_close(on.made), ==, 0);
}

static long accepts(weft_time deadline)
{
    int fd = weft_accept(on.listener, NULL, NULL, 0, deadline);
    on.made = fd >= 0 ? fd : on.made;
    return fd;
}

static long connects(weft_time deadline)
{
    return weft_connect(on.client, (struct sockaddr *)&on.at, at_size(), deadline);
}

static bool is_not_connected(void)
{
    struct sockaddr_un peer;
    return getpeername(on.client, (struct sockaddr *)&peer, &(socklen_t){sizeof peer}) != 0 && errno == ENOTCONN;
}

static void handles(int fd, void *arg)
{
    (void)fd;
    more(arg);
}

static void not_handled(void)
{
    one_connection();
    put(&on.handled, 0);
}

static long serves(weft_time deadline)
{
    return weft_serve(on.listener, handles, &on.handled, NULL, deadline);
}

static bool has_not_handled(void)
{
    return seen(&on.handled) == 0;
}

static void has_handled(void)
{
    CHECK_INT(seen(&on.handled), ==, 1);
    close_connection();
}

static long dials(weft_time deadline)
{
    char address[sizeof on.at.sun_path + 8];
    snprintf(address, sizeof address, "unix:@%.5s", on.at.sun_path + 1);
    int fd = weft_dial(address, deadline);
    on.made = fd >= 0 ? fd : on.made;
    return fd;
}

static bool has_no_connection(void)
{
    return weft_wait_fd(on.listener, POLLIN, WEFT_NOW) == -EAGAIN;
}

static void not_made(void)
{
    on.made = -1;
}

static long listens(weft_time deadline)
{
    (void)deadline;
    return on.made = weft_listen("127.0.0.1:0");
}

static void close_made(void)
{
    CHECK_INT(weft_close(on.made), ==, 0);
}

static long resolves(weft_time deadline)
{
    return weft_resolve("127.0.0.1", "80", NULL, &on.found, deadline);
}

static void free_found(void)
{
    freeaddrinfo(on.found);
}

/* ---- waiting ---- */

static long polls(weft_time deadline)
{
    struct pollfd p = {.fd = on.ends.a, .events = POLLIN};
    return weft_poll(&p, 1, deadline);
}

static long waits_for_fd(weft_time deadline)
{
    return weft_wait_fd(on.ends.a, POLLIN, deadline);
}

/* ---- files ---- */

static void a_file(void)
{
    no_byte();
    on.pipe = pipe_pair(0);
    on.offset = 0;
    snprintf(on.path, sizeof on.path, "/tmp/weft-points-XXXXXX");
    on.file = mkstemp(on.path);
    CHECK(on.file >= 0 && write(on.file, "0123456789", 10) == 10 && lseek(on.file, 0, SEEK_SET) == 0);
}

static void nonblocking_and_a_file(void)
{
    a_file();
    CHECK_INT(fcntl(on.ends.b, F_SETFL, O_NONBLOCK), ==, 0);
}

static void bytes_in_the_pipe(void)
{
    a_file();
    CHECK_INT(write(on.pipe.b, "x", 1), ==, 1);
}

static void close_file(void)
{
    close_pair(on.ends);
    close_pair(on.pipe);
    CHECK_INT(weft_close(on.file), ==, 0);
    CHECK_INT(unlink(on.path), ==, 0);
}

static long sends_file(weft_time deadline)
{
    return weft_sendfile(on.ends.b, on.file, &on.offset, 10, deadline);
}

static bool has_sent_no_file(void)
{
    return on.offset == 0 && has_no_byte();
}

static long splices(weft_time deadline)
{
    return weft_splice(on.pipe.a, NULL, on.ends.b, NULL, 1, 0, deadline);
}

static bool has_spliced_nothing(void)
{
    return has_no_byte() && bytes_in(on.pipe.a) == 1;
}

static long preads(weft_time deadline)
{
    return weft_pread(on.file, on.buffer, 4, 0, deadline);
}

static long pwrites(weft_time deadline)
{
    return weft_pwrite(on.file, "abcd", 4, 10, deadline);
}

static bool has_ten_bytes(void)
{
    struct stat st;
    return fstat(on.file, &st) == 0 && st.st_size == 10;
}

static long syncs(weft_time deadline)
{
    return weft_fsync(on.file, deadline);
}

static void a_new_path(void)
{
    a_file();
    CHECK_INT(unlink(on.path), ==, 0);
    on.made = -1;
}

static long opens(weft_time deadline)
{
    int fd = weft_open(on.path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600, deadline);
    on.made = fd >= 0 ? fd : on.made;
    return fd;
}

static bool has_no_file(void)
{
    struct stat st;
    return stat(on.path, &st) != 0 && errno == ENOENT;
}

static void close_opened(void)
{
    if (on.made >= 0)
        close_made();
    else
        CHECK_INT(close(open(on.path, O_CREAT | O_CLOEXEC, 0600)), ==, 0);
    close_file();
}

/* ---- processes ---- */

static void ended_child(void)
{
    siginfo_t info;
    on.child = fork();
    if (on.child == 0)
        _exit(7);
    CHECK_INT(waitid(P_PID, (id_t)on.child, &info, WEXITED | WNOWAIT), ==, 0);
}

static long waits_for_child(weft_time deadline)
{
    return weft_wait_child(on.child, NULL, deadline);
}

static void pending_signal(void)
{
    CHECK_INT(raise(SIGUSR1), ==, 0);
}

static sigset_t *the_signal(void)
{
    static sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return &set;
}

static long waits_for_signal(weft_time deadline)
{
    return weft_wait_signal(the_signal(), NULL, deadline);
}

static bool is_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1;
}

static const struct point points[] = {
    {.name = "weft_read", one_byte, reads, has_the_byte, close_ends, 1, 1},
    {.name = "weft_read of nothing", one_byte, reads_nothing, NULL, close_ends},
    {.name = "weft_readv", one_byte, readvs, has_the_byte, close_ends, 1, 1},
    {.name = "weft_readv of nothing", one_byte, readvs_nothing, NULL, close_ends},
    {.name = "weft_recv", one_byte, recvs, has_the_byte, close_ends, 1, 1},
    {.name = "weft_recv with MSG_WAITALL", one_byte, recvs_all, has_the_byte, close_ends, 1, 1},
    {.name = "weft_recvfrom", one_byte, recvfroms, has_the_byte, close_ends, 1, 1},
    {.name = "weft_recvmsg", one_byte, recvmsgs, has_the_byte, close_ends, 1, 1},
    {.name = "weft_read_full", one_byte, reads_fully, none_done_and_the_byte_there, close_ends, 1, 1},
    {.name = "weft_write", no_byte, writes, has_no_byte, close_ends, 1, 1},
    {.name = "weft_write of nothing", no_byte, writes_nothing, has_no_byte, close_ends},
    {.name = "weft_writev", no_byte, writevs, has_no_byte, close_ends, 1, 1},
    {.name = "weft_send", no_byte, sends, has_no_byte, close_ends, 1, 1},
    {.name = "weft_sendto", no_byte, sendtos, has_no_byte, close_ends, 1, 1},
    {.name = "weft_sendmsg", no_byte, sendmsgs, has_no_byte, close_ends, 1, 1},
    {.name = "weft_write_all", no_byte, writes_all, none_done, close_ends, 1, 1},
    {.name = "weft_accept", one_connection, accepts, NULL, close_connection, POINT_ANY, POINT_ANY},
    {.name = "weft_connect", listen_here, connects, is_not_connected, close_connection},
    {.name = "weft_serve", not_handled, serves, has_not_handled, has_handled, -EAGAIN, .waits = true},
    {.name = "weft_dial", listen_here, dials, has_no_connection, close_connection, POINT_ANY, POINT_ANY},
    {.name = "weft_listen", not_made, listens, NULL, close_made, .shielded = POINT_ANY, .has_no_deadline = true},
    {.name = "weft_resolve", NULL, resolves, NULL, free_found},
    {.name = "weft_poll", one_byte, polls, has_the_byte, close_ends, 1, 1},
    {.name = "weft_wait_fd", one_byte, waits_for_fd, has_the_byte, close_ends, POLLIN, POLLIN},
    {.name = "weft_sendfile", a_file, sends_file, has_sent_no_file, close_file, 10, 10},
    {.name = "weft_sendfile without blocking",
     nonblocking_and_a_file,
     sends_file,
     has_sent_no_file,
     close_file,
     10,
     10},
    {.name = "weft_splice", bytes_in_the_pipe, splices, has_spliced_nothing, close_file, 1, 1},
    {.name = "weft_pread", a_file, preads, NULL, close_file, 4, 4},
    {.name = "weft_pwrite", a_file, pwrites, has_ten_bytes, close_file, 4, 4},
    {.name = "weft_fsync", a_file, syncs, NULL, close_file},
    {.name = "weft_open", a_new_path, opens, has_no_file, close_opened, -EAGAIN, POINT_ANY},
    {.name = "weft_wait_child", ended_child, waits_for_child},
    {.name = "weft_wait_signal", pending_signal, waits_for_signal, is_pending, NULL, SIGUSR1, SIGUSR1},
};

static void *tries_all(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        check_point(&points[i]);
    return NULL;
}

TEST(a_cancelled_fiber_is_refused_what_it_could_have_at_once)
{
    CHECK_INT(pthread_sigmask(SIG_BLOCK, the_signal(), NULL), ==, 0);
    in_a_fiber(1, tries_all, NULL);
}

/* ---- flags that say not to wait ---- */

static void *does_not_wait(void *arg)
{
    (void)arg;
    AWAIT(weft_cancelled());
    one_byte();
    CHECK_INT(weft_recv(on.ends.a, on.buffer, 1, MSG_DONTWAIT, WEFT_FOREVER), ==, 1);
    CHECK_INT(weft_recv(on.ends.a, on.buffer, 1, MSG_DONTWAIT, WEFT_FOREVER), ==, -EAGAIN);
    CHECK_INT(weft_send(on.ends.b, "x", 1, MSG_DONTWAIT, WEFT_FOREVER), ==, 1);
    close_ends();
    bytes_in_the_pipe();
    CHECK_INT(weft_splice(on.pipe.a, NULL, on.ends.b, NULL, 1, SPLICE_F_NONBLOCK, WEFT_FOREVER), ==, 1);
    CHECK_INT(weft_shutdown(on.ends.b, SHUT_WR), ==, 0);
    close_file();
    return NULL;
}

static void *cancels_it(void *fn)
{
    weft_fiber *f = go((weft_fn *)(uintptr_t)fn, NULL);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
    return NULL;
}

TEST(a_call_that_is_told_not_to_wait_is_no_point)
{
    in_a_fiber(1, cancels_it, (void *)(uintptr_t)does_not_wait);
}

static void *makes_mistakes(void *arg)
{
    (void)arg;
    AWAIT(weft_cancelled());
    CHECK_INT(weft_readv(0, NULL, -1, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_recvmsg(0, NULL, 0, WEFT_FOREVER), ==, -EFAULT);
    CHECK_INT(weft_poll(NULL, 1, WEFT_FOREVER), ==, -EFAULT);
    CHECK_INT(weft_wait_fd(0, 0, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_open(NULL, O_RDONLY, 0, WEFT_FOREVER), ==, -EFAULT);
    CHECK_INT(weft_pread(0, on.buffer, 1, -1, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_wait_child(0, NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_wait_signal(NULL, NULL, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_dial("nonsense", WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_listen("nonsense"), ==, -EINVAL);
    CHECK_INT(weft_resolve(NULL, NULL, NULL, &on.found, WEFT_FOREVER), ==, -EINVAL);
    CHECK_INT(weft_serve(0, NULL, NULL, NULL, WEFT_FOREVER), ==, -EINVAL);
    return NULL;
}

TEST(a_wrong_argument_is_reported_before_the_cancel)
{
    in_a_fiber(1, cancels_it, (void *)(uintptr_t)makes_mistakes);
}

TESTS(io_cancel_points, a_cancelled_fiber_is_refused_what_it_could_have_at_once,
      a_call_that_is_told_not_to_wait_is_no_point, a_wrong_argument_is_reported_before_the_cancel)
