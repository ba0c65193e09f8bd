/*
 * What goes wrong around descriptors: memory and descriptors that are not to be had, signals, resets, time that is up, a
 * worker that sleeps while another closes what it waits for. Each has a clear result, and all goes on after it.
 */
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "unit/io/ground.h"

/* ---- system calls that fail ---- */

static void fail(unsigned kind, int error, unsigned more_of_them)
{
    wf_sys_fail_with(error);
    wf_sys_fail(1u << kind, 1, more_of_them);
}

static void fail_no_more(void)
{
    wf_sys_fail(0, 0, 0);
    wf_sys_fail_with(0);
}

static void with_driver(int io, unsigned workers, weft_fn *fn, void *arg)
{
    CHECK_INT(weft_run(fn, arg, NULL, &(weft_sched_opts){.threads = workers, .io = io}), ==, 0);
}

static const int errors[] = {ENOMEM, EAGAIN, ENOSPC};

enum { ERRORS = sizeof errors / sizeof errors[0] };

static void notes_a_watch(int fd, unsigned events, void *arg)
{
    (void)fd, (void)events;
    more(arg);
}

static void *cannot_register(void *arg)
{
    struct pair known = tcp_pair();
    char byte;
    CHECK_INT(weft_read(known.a, &byte, 1, weft_in(WEFT_MS)), ==, -ETIMEDOUT); /* there is a set */
    for (int i = 0; i < ERRORS; i++) {
        struct pair p = tcp_pair();
        struct sockaddr_in at;
        int l = listener(&at), error = errors[i], fired = 0;
        struct pollfd fds[] = {{.fd = p.a, .events = POLLIN}, {.fd = p.b, .events = POLLIN}};
        fail(WF_SYS_EPOLL_CTL, error, 0);
        CHECK_INT(weft_read(p.a, &byte, 1, WEFT_FOREVER), ==, -error);
        fail(WF_SYS_EPOLL_CTL, error, 0);
        CHECK_INT(weft_wait_fd(p.a, POLLIN, WEFT_FOREVER), ==, -error);
        fail(WF_SYS_EPOLL_CTL, error, 0);
        CHECK_INT(weft_poll(fds, 2, WEFT_FOREVER), ==, -error);
        fail(WF_SYS_EPOLL_CTL, error, 0);
        CHECK_INT(weft_accept(l, NULL, NULL, 0, WEFT_FOREVER), ==, -error);
        fail(WF_SYS_EPOLL_CTL, error, 0);
        CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes_a_watch, &fired), ==, -error);
        fail_no_more();
        CHECK_INT(weft_watch_del(p.a, WEFT_READ), ==, -ENOENT);
        CHECK_INT(weft_read(p.a, &byte, 1, weft_in(WEFT_MS)), ==, -ETIMEDOUT); /* and now it works */
        CHECK_INT(write(p.b, "x", 1), ==, 1);
        CHECK_INT(weft_wait_fd(p.a, POLLIN, WEFT_FOREVER), ==, POLLIN);
        CHECK_INT(weft_poll(fds, 2, WEFT_FOREVER), ==, 1);
        CHECK_INT(weft_read(p.a, &byte, 1, WEFT_FOREVER), ==, 1);
        CHECK_INT(fired, ==, 0);
        CHECK_INT(weft_accept(l, NULL, NULL, 0, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
        CHECK_INT(weft_close(l), ==, 0);
        close_pair(p);
    }
    close_pair(known);
    return arg;
}

TEST(what_epoll_cannot_register_is_said)
{
    with_driver(WEFT_IO_EPOLL, 1, cannot_register, NULL);
}

struct failing {
    unsigned kind;
    int error;
};

static void *cannot_make_a_set(void *arg)
{
    const struct failing *f = arg;
    struct pair p = tcp_pair();
    char byte;
    fail(f->kind, f->error, 1000);
    CHECK_INT(weft_read(p.a, &byte, 1, WEFT_FOREVER), ==, -f->error);
    CHECK_INT(weft_wait_fd(p.a, POLLIN, WEFT_FOREVER), ==, -f->error);
    CHECK_INT(weft_read(p.a, &byte, 1, WEFT_NOW), ==, -EAGAIN); /* for what does not wait none is needed */
    fail_no_more();
    CHECK_INT(weft_read(p.a, &byte, 1, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_INT(weft_read(p.a, &byte, 1, WEFT_FOREVER), ==, 1);
    close_pair(p);
    return NULL;
}

TEST(what_a_worker_waits_with_cannot_be_made)
{
    const struct failing all[] = {{WF_SYS_EPOLL, EMFILE},    {WF_SYS_EPOLL, ENOMEM},   {WF_SYS_EPOLL, EAGAIN},
                                  {WF_SYS_EVENTFD, EMFILE},  {WF_SYS_EVENTFD, ENOMEM}, {WF_SYS_EPOLL_CTL, ENOMEM},
                                  {WF_SYS_EPOLL_CTL, EAGAIN}};
    size_t held = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        with_driver(WEFT_IO_EPOLL, 1, cannot_make_a_set, (void *)(uintptr_t)&all[i]);
        if (i == 0)
            held = wf_sys_held().n;
        CHECK_INT(wf_sys_held().n, ==, held); /* nothing is left behind */
    }
}

static void *reads_by_epoll(void *arg)
{
    struct pair p = tcp_pair();
    char byte;
    CHECK_INT(weft_read(p.a, &byte, 1, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_STR(weft_io_backend(), "epoll");
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_INT(weft_read(p.a, &byte, 1, WEFT_FOREVER), ==, 1);
    close_pair(p);
    return arg;
}

static void *reads_on_both_workers(void *arg)
{
    for (int i = 0; i < 2; i++) {
        weft_fiber *f = NULL;
        CHECK_INT(weft_go_with(&f, &(weft_attr){.worker = WEFT_WORKER(i)}, reads_by_epoll, NULL), ==, 0);
        ended(f);
    }
    return arg;
}

static void *names_its_driver(void *arg)
{
    *(const char **)arg = weft_io_backend();
    return NULL;
}

/* Whatever the environment says. */
static bool has_rings(void)
{
    const char *name = "";
    with_driver(WEFT_IO_URING, 1, names_its_driver, &name);
    return strcmp(name, "io_uring") == 0;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

/* In a child, whose standard error it reads: the line is said once in a process. */
static void has_no_ring(void *arg)
{
    char said[4096] = "", expected[256];
    int error = *(const int *)arg, out = memfd_create("said", MFD_CLOEXEC), kept = dup(STDERR_FILENO);
    dup2(out, STDERR_FILENO);
    fail(WF_SYS_URING, error, 1000);
    with_driver(WEFT_IO_URING, 2, reads_on_both_workers, NULL);
    fail_no_more();
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    CHECK_INT(pread(out, said, sizeof said - 1, 0), >, 0);
    snprintf(expected, sizeof expected, "weft: io_uring cannot be had (%s): epoll is used\n", strerror(error));
    CHECK_INT(count(said, expected), ==, 1);
    CHECK_INT(count(said, "weft:"), ==, 1);
}

TEST(without_a_ring_there_is_epoll_and_one_line)
{
    static const int reasons[] = {ENOMEM, EAGAIN, ENOSYS, EPERM};
#if WF_TSAN
    SKIP("ThreadSanitizer makes no threads in a child of many");
#endif
    if (!has_rings())
        SKIP("there is no io_uring here");
    for (int i = 0; i < 4; i++)
        CHECK_CHILD(has_no_ring, (void *)(uintptr_t)&reasons[i], 0, NULL);
}

static void *reads_one(void *arg)
{
    char byte;
    return ptr(weft_read(*(int *)arg, &byte, 1, WEFT_FOREVER));
}

/* A scheduler that is started again needs a new ring. */
TEST(a_ring_that_cannot_be_made_again_is_said)
{
    struct pair p = tcp_pair();
    weft_sched *s = NULL;
    if (!has_rings())
        SKIP("there is no io_uring here");
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .io = WEFT_IO_URING}), ==, 0);
    for (int round = 0; round < 3; round++) {
        if (round == 1)
            fail(WF_SYS_URING, ENOMEM, 1000); /* before the worker makes one to sleep in */
        CHECK_INT(weft_sched_start(s), ==, 0);
        if (round == 1) {
            CHECK_PTR(ended(go_on(s, reads_one, &p.a)), ==, ptr(-ENOMEM));
            fail_no_more();
        }
        weft_fiber *f = go_on(s, reads_one, &p.a);
        AWAIT(is_parked(f));
        CHECK_INT(write(p.b, "x", 1), ==, 1);
        CHECK_PTR(ended(f), ==, ptr(1));
        CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    }
    CHECK_INT(weft_sched_free(s), ==, 0);
    close_pair(p);
}

/* ---- signals ---- */

static int signals; /* atomic: handled */

static void handles(int signal)
{
    (void)signal;
    __atomic_add_fetch(&signals, 1, __ATOMIC_RELAXED);
}

/* Sends signals to some threads as fast as they come. */
struct storm {
    pthread_t targets[4];
    int count;
    int over; /* atomic */
};

static void *storms(void *arg)
{
    struct storm *s = arg;
    struct timespec pause = {.tv_nsec = 30000};
    for (int i = 0; !seen(&s->over); i++) {
        CHECK_INT(pthread_kill(s->targets[i % s->count], SIGUSR1), ==, 0);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void *tells_its_thread(void *arg)
{
    *(pthread_t *)arg = pthread_self();
    return NULL;
}

static void *writes_soon(void *arg)
{
    CHECK_INT(weft_sleep(500 * WEFT_US), ==, 0);
    CHECK_INT(weft_write(*(int *)arg, "x", 1, WEFT_FOREVER), ==, 1);
    return NULL;
}

static void *writes_much(void *arg)
{
    static char much[1 << 20];
    CHECK_INT(weft_write_all(*(int *)arg, much, sizeof much, NULL, WEFT_FOREVER), ==, sizeof much);
    return NULL;
}

static void *takes_a_while(void *arg)
{
    struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
    return arg;
}

/* Made without the library, whose calls are not disturbed by signals. */
static struct pair quiet_tcp_pair(void)
{
    sigset_t all, kept;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &kept);
    struct pair p = tcp_pair();
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    return p;
}

/* Everything that waits, on a fiber or on a plain thread. */
static void waits_for_everything(bool in_fiber)
{
    struct pair p = quiet_tcp_pair(), q = pipe_pair(0);
    struct pollfd fds[] = {{.fd = p.a, .events = POLLIN}, {.fd = q.a, .events = POLLIN}};
    char byte;
    void *value = NULL;
    weft_time until = weft_in(2 * WEFT_MS);
    CHECK_INT(weft_sleep_until(until), ==, 0);
    CHECK_INT(weft_now().ns, >=, until.ns);
    until = weft_in(2 * WEFT_MS);
    CHECK_INT(weft_read(p.a, &byte, 1, until), ==, -ETIMEDOUT);
    CHECK_INT(weft_now().ns, >=, until.ns);
    until = weft_in(2 * WEFT_MS);
    CHECK_INT(weft_wait_fd(q.a, POLLIN, until), ==, -ETIMEDOUT);
    CHECK_INT(weft_now().ns, >=, until.ns);
    until = weft_in(2 * WEFT_MS);
    CHECK_INT(weft_poll(fds, 2, until), ==, 0);
    CHECK_INT(weft_now().ns, >=, until.ns);
    weft_fiber *f = go(writes_soon, &p.b);
    CHECK_INT(weft_read(p.a, &byte, 1, WEFT_FOREVER), ==, 1);
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
    f = go(writes_soon, &q.b);
    CHECK_INT(weft_poll(fds, 2, WEFT_FOREVER), ==, 1);
    CHECK_INT(weft_read(q.a, &byte, 1, WEFT_FOREVER), ==, 1);
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_offload(takes_a_while, ptr(3), &value, in_fiber ? WEFT_FOREVER : weft_in(100 * WEFT_SEC)), ==, 0);
    CHECK_PTR(value, ==, ptr(3));
    close_pair(p);
    close_pair(q);
}

static void passes_a_megabyte(void)
{
    struct pair p = quiet_tcp_pair();
    static char in[1 << 20];
    weft_fiber *f = go(writes_much, &p.b);
    CHECK_INT(weft_read_full(p.a, in, sizeof in, NULL, WEFT_FOREVER), ==, sizeof in);
    ended(f);
    close_pair(p);
}

static void connects_and_accepts(void)
{
    struct sockaddr_in at;
    int l = listener(&at), c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK_INT(weft_accept(l, NULL, NULL, 0, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_connect(c, (struct sockaddr *)&at, sizeof at, WEFT_FOREVER), ==, 0);
    int a = weft_accept(l, NULL, NULL, SOCK_CLOEXEC, WEFT_FOREVER);
    CHECK_INT(a, >=, 0);
    CHECK_INT(weft_close(a), ==, 0);
    CHECK_INT(weft_close(c), ==, 0);
    CHECK_INT(weft_close(l), ==, 0);
}

static void waits_for_a_child(void)
{
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        usleep(2000);
        _exit(5);
    }
    CHECK_INT(weft_wait_child(pid, &status, WEFT_FOREVER), ==, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

static void *waits_on_a_thread(void *arg)
{
    for (int i = 0; i < 10; i++)
        waits_for_everything(false);
    put(arg, 1);
    return NULL;
}

static void *waits_in_a_storm(void *arg)
{
    unsigned workers = (unsigned)figures(weft_sched_current()).workers;
    struct storm s = {.count = (int)workers + 1};
    int done = 0, before = seen(&signals);
    for (unsigned i = 0; i < workers; i++) {
        weft_fiber *f = NULL;
        CHECK_INT(weft_go_with(&f, &(weft_attr){.worker = WEFT_WORKER(i)}, tells_its_thread, &s.targets[i]), ==, 0);
        ended(f);
    }
    pthread_t plain = new_thread(waits_on_a_thread, &done);
    s.targets[workers] = plain;
    pthread_t sender = new_thread(storms, &s);
    for (int i = 0; i < 10; i++) {
        waits_for_everything(true);
        passes_a_megabyte();
        connects_and_accepts();
        if (!WF_TSAN)
            waits_for_a_child();
    }
    while (!seen(&done)) /* it needs this worker */
        CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    put(&s.over, 1);
    pthread_join(sender, NULL);
    pthread_join(plain, NULL);
    CHECK_INT(seen(&signals), >, before + 10);
    return arg;
}

TEST(signals_end_no_wait)
{
    struct sigaction sa = {.sa_handler = handles}, kept; /* without SA_RESTART */
    CHECK_INT(sigaction(SIGUSR1, &sa, &kept), ==, 0);
    in_a_fiber(1, waits_in_a_storm, NULL);
    in_a_fiber(3, waits_in_a_storm, NULL);
    CHECK_INT(sigaction(SIGUSR1, &kept, NULL), ==, 0);
}

/* ---- a worker sleeps while another closes ---- */

static void *waits_for(void *arg)
{
    return ptr(weft_wait_fd(*(int *)arg, POLLIN, WEFT_FOREVER));
}

static void *accepts(void *arg)
{
    return ptr(weft_accept(*(int *)arg, NULL, NULL, 0, WEFT_FOREVER));
}

static void *closes(void *arg)
{
    CHECK_INT(weft_close(*(int *)arg), ==, 0);
    return NULL;
}

static void *closes_while_it_sleeps(void *arg)
{
    weft_fn *ways[] = {reads_one, waits_for, accepts};
    weft_sched *s = weft_sched_current();
    for (int i = 0; i < 12; i++) {
        struct sockaddr_in at;
        struct pair p = {-1, -1};
        weft_fiber *f = NULL;
        if (i % 3 == 2)
            p.a = listener(&at);
        else
            p = i % 2 ? tcp_pair() : pipe_pair(0);
        CHECK_INT(weft_go_with(&f, &(weft_attr){.worker = WEFT_WORKER(1)}, ways[i % 3], &p.a), ==, 0);
        AWAIT(is_parked(f) && figures(s).idle == 1);
        if (i < 6) {
            closes(&p.a);
        } else { /* a thread that is no worker */
            pthread_t t = new_thread(closes, &p.a);
            pthread_join(t, NULL);
        }
        CHECK_PTR(ended(f), ==, ptr(-EBADF));
        if (p.b >= 0)
            CHECK_INT(weft_close(p.b), ==, 0);
    }
    return arg;
}

static void *closes_on_worker_0(void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_go_with(&f, &(weft_attr){.worker = WEFT_WORKER(0)}, closes_while_it_sleeps, NULL), ==, 0);
    ended(f);
    return arg;
}

TEST(a_worker_that_sleeps_is_told_of_a_close)
{
    in_a_fiber(2, closes_on_worker_0, NULL);
}

/* ---- time that is up ---- */

IN_FIBER(a_deadline_that_has_passed_tries_once)
{
    weft_time past = weft_in(-WEFT_SEC);
    struct sockaddr_in at;
    int l = listener(&at), c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pair p = unix_pair(SOCK_DGRAM), q = pipe_pair(0), r = pipe_pair(0);
    struct pollfd fds[] = {{.fd = p.a, .events = POLLIN}};
    char buffer[8];
    struct iovec part = {buffer, sizeof buffer};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    for (int round = 0; round < 3; round++) {
        CHECK_INT(weft_accept(l, NULL, NULL, 0, past), ==, -ETIMEDOUT);
        CHECK_INT(weft_recvmsg(p.a, &m, 0, past), ==, -ETIMEDOUT);
        CHECK_INT(weft_readv(q.a, &part, 1, past), ==, -ETIMEDOUT);
        CHECK_INT(weft_wait_fd(p.a, POLLIN, past), ==, -ETIMEDOUT);
        CHECK_INT(weft_poll(fds, 1, past), ==, 0);
        CHECK_INT(weft_splice(q.a, NULL, r.b, NULL, 4, 0, past), ==, -ETIMEDOUT);
        CHECK_INT(connect(c, (struct sockaddr *)&at, sizeof at), ==, 0);
        CHECK_INT(write(p.b, "abc", 3), ==, 3);
        CHECK_INT(write(q.b, "defg", 4), ==, 4);
        CHECK_INT(weft_poll(fds, 1, past), ==, 1);
        CHECK_INT(weft_wait_fd(p.a, POLLIN, past), ==, POLLIN);
        CHECK_INT(weft_recvmsg(p.a, &m, 0, past), ==, 3);
        CHECK_INT(weft_splice(q.a, NULL, r.b, NULL, 2, 0, past), ==, 2);
        CHECK_INT(weft_readv(q.a, &part, 1, past), ==, 2);
        CHECK_INT(weft_read(r.a, buffer, sizeof buffer, past), ==, 2);
        CHECK_INT(weft_write(q.b, "h", 1, past), ==, 1);
        CHECK_INT(weft_read(q.a, buffer, 1, past), ==, 1);
        int a = weft_accept(l, NULL, NULL, SOCK_CLOEXEC, past);
        CHECK_INT(a, >=, 0);
        CHECK_INT(weft_close(a), ==, 0);
        CHECK_INT(weft_close(c), ==, 0);
        c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    CHECK_INT(weft_close(l), ==, 0);
    CHECK_INT(weft_close(c), ==, 0);
    close_pair(p);
    close_pair(q);
    close_pair(r);
    return arg;
}

/* ---- files ---- */

IN_FIBER(a_regular_file_is_ready_whatever_else_is_polled)
{
    struct pair p = pipe_pair(0);
    struct pollfd fds[] = {{.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), .events = POLLIN},
                           {.fd = p.a, .events = POLLIN},
                           {.fd = memfd_create("file", MFD_CLOEXEC), .events = POLLIN | POLLOUT}};
    CHECK_INT(weft_poll(fds, 1, WEFT_FOREVER), ==, 1);
    CHECK_INT(fds[0].revents, ==, POLLIN);
    CHECK_INT(weft_poll(fds, 3, WEFT_FOREVER), ==, 2);
    CHECK_INT(fds[1].revents, ==, 0);
    CHECK_INT(fds[2].revents, ==, POLLIN | POLLOUT);
    CHECK_INT(weft_poll(fds, 3, WEFT_NOW), ==, 2);
    CHECK_INT(weft_wait_fd(fds[2].fd, POLLIN, WEFT_FOREVER), ==, -EPERM);
    CHECK_INT(weft_wait_fd(fds[2].fd, POLLIN, WEFT_NOW), ==, POLLIN); /* poll(2) says so */
    CHECK_INT(weft_close(fds[0].fd), ==, 0);
    CHECK_INT(weft_close(fds[2].fd), ==, 0);
    close_pair(p);
    return arg;
}

/* ---- resets ---- */

static void reset(int fd)
{
    struct linger now = {.l_onoff = 1};
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), ==, 0);
    CHECK_INT(weft_close(fd), ==, 0);
}

struct transfer {
    int fd;
    size_t done;
    ptrdiff_t result;
};

static void *writes_until_it_fails(void *arg)
{
    static char much[1 << 16];
    struct transfer *t = arg;
    size_t done;
    do {
        t->result = weft_write_all(t->fd, much, sizeof much, &done, weft_in(100 * WEFT_SEC));
        t->done += done;
    } while (t->result > 0);
    return NULL;
}

IN_FIBER(a_reset_in_the_middle_of_a_transfer_is_told)
{
    static char buffer[100000];
    for (int round = 0; round < 5; round++) {
        struct pair p = tcp_pair();
        struct transfer t = {.fd = p.b};
        weft_fiber *f = go(writes_until_it_fails, &t);
        CHECK_INT(weft_read_full(p.a, buffer, sizeof buffer, NULL, WEFT_FOREVER), ==, sizeof buffer);
        AWAIT(is_parked(f)); /* there is no room */
        reset(p.a);
        ended(f);
        CHECK(t.result == -ECONNRESET || t.result == -EPIPE);
        CHECK_INT(t.done, >=, sizeof buffer);
        CHECK_INT(weft_read(p.b, buffer, 1, WEFT_FOREVER), <=, 0);
        CHECK_INT(weft_write(p.b, buffer, 1, WEFT_FOREVER), ==, -EPIPE);
        CHECK_INT(weft_close(p.b), ==, 0);
    }
    return arg;
}

static void *reads_a_record(void *arg)
{
    struct transfer *t = arg;
    char buffer[100];
    t->result = weft_read_full(t->fd, buffer, sizeof buffer, &t->done, WEFT_FOREVER);
    return NULL;
}

IN_FIBER(a_reset_in_the_middle_of_a_record_is_told)
{
    struct pair p = tcp_pair();
    struct transfer t = {.fd = p.a};
    weft_fiber *f = go(reads_a_record, &t);
    CHECK_INT(weft_write(p.b, "half", 4, WEFT_FOREVER), ==, 4);
    int queued = -1;
    AWAIT(ioctl(p.a, FIONREAD, &queued) == 0 && queued == 0 && is_parked(f)); /* it has that half */
    reset(p.b);
    ended(f);
    CHECK_INT(t.result, ==, -ECONNRESET);
    CHECK_INT(t.done, ==, 4);
    CHECK_INT(weft_close(p.a), ==, 0);
    return arg;
}

/* ---- shared stacks ---- */

struct post {
    int listener;
    struct sockaddr_in at;
    struct pair p;
};

/* Everything that the calls are given is on the stack, which others use meanwhile. */
static void *has_it_all_on_its_stack(void *arg)
{
    struct post post = *(struct post *)arg;
    char in[40], two[40];
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    struct pollfd fds[] = {{.fd = post.p.a, .events = POLLIN}, {.fd = post.listener, .events = POLLIN}};
    struct iovec parts[] = {{in, 3}, {two, sizeof two}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    memset(two, 7, sizeof two);
    int c = weft_accept(post.listener, (struct sockaddr *)&from, &size, SOCK_CLOEXEC, WEFT_FOREVER);
    CHECK_INT(c, >=, 0);
    CHECK_INT(size, ==, sizeof from);
    CHECK_INT(from.sin_addr.s_addr, ==, htonl(INADDR_LOOPBACK));
    CHECK_INT(weft_poll(fds, 2, WEFT_FOREVER), ==, 1);
    CHECK_INT(fds[0].revents, ==, POLLIN);
    CHECK_INT(weft_recvmsg(post.p.a, &m, 0, WEFT_FOREVER), ==, 6);
    CHECK(memcmp(in, "abc", 3) == 0 && memcmp(two, "def", 3) == 0 && two[3] == 7);
    CHECK_INT(weft_recvmsg(c, &m, 0, WEFT_FOREVER), ==, 5);
    CHECK(memcmp(in, "ghi", 3) == 0 && memcmp(two, "jk", 2) == 0 && two[3] == 7);
    CHECK_INT(weft_close(c), ==, 0);
    return NULL;
}

static void *spoils_the_stack(void *arg)
{
    volatile char all[4096];
    while (!seen(arg)) {
        memset((char *)(uintptr_t)all, 0xaa, sizeof all);
        weft_yield();
    }
    return NULL;
}

IN_FIBER(what_calls_are_given_may_be_on_a_shared_stack)
{
    enum { FIBERS = 4 };
    struct post posts[FIBERS];
    weft_fiber *f[FIBERS] = {NULL}, *spoiler = NULL;
    weft_stacks *pool = NULL;
    int stop = 0;
    CHECK_INT(weft_stacks_new(&pool, 1, 0), ==, 0);
    for (int i = 0; i < FIBERS; i++) {
        posts[i] = (struct post){.listener = listener(&posts[i].at), .p = i % 2 ? unix_pair(SOCK_STREAM) : tcp_pair()};
        socklen_t size = sizeof posts[i].at;
        CHECK_INT(getsockname(posts[i].listener, (struct sockaddr *)&posts[i].at, &size), ==, 0);
        CHECK_INT(weft_go_with(&f[i], &(weft_attr){.shared = pool}, has_it_all_on_its_stack, &posts[i]), ==, 0);
    }
    CHECK_INT(weft_go_with(&spoiler, &(weft_attr){.shared = pool}, spoils_the_stack, &stop), ==, 0);
    for (int i = 0; i < FIBERS; i++) {
        AWAIT(is_parked(f[i]));
        int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_INT(connect(c, (struct sockaddr *)&posts[i].at, sizeof posts[i].at), ==, 0);
        for (int n = 0; n < 20; n++)
            weft_sleep(50 * WEFT_US);
        CHECK_INT(write(posts[i].p.b, "abcdef", 6), ==, 6);
        for (int n = 0; n < 20; n++)
            weft_sleep(50 * WEFT_US);
        CHECK_INT(write(c, "ghijk", 5), ==, 5);
        ended(f[i]);
        close(c);
        CHECK_INT(weft_close(posts[i].listener), ==, 0);
        close_pair(posts[i].p);
    }
    put(&stop, 1);
    ended(spoiler);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
    return arg;
}

TESTS(io_fault, without_a_ring_there_is_epoll_and_one_line, what_epoll_cannot_register_is_said,
      what_a_worker_waits_with_cannot_be_made, a_ring_that_cannot_be_made_again_is_said, signals_end_no_wait,
      a_worker_that_sleeps_is_told_of_a_close, a_deadline_that_has_passed_tries_once,
      a_regular_file_is_ready_whatever_else_is_polled, a_reset_in_the_middle_of_a_transfer_is_told,
      a_reset_in_the_middle_of_a_record_is_told, what_calls_are_given_may_be_on_a_shared_stack)
