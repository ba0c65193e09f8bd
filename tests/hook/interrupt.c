/*
 * Signals that interrupt a call. The first fiber of weft_run stands for the main thread: when a handler has run on its
 * thread, its call returns EINTR, or goes on, just as the kernel's call does. Other fibers go on (signal.c).
 *
 * Each statement runs on a thread without the hooks, and as the first fiber of weft_run beside a ticker on its worker.
 */
#include "hook/peer.h"
#include "hook/signals.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>

#include <weft/weft.h>

/* --- how a statement runs --- */

static int ticks;     /* atomic: the ticker's */
static bool has_over; /* atomic: the ticker is to end */
static bool is_alone; /* in the child of a fork: there is no ticker */

static void *tick(void *arg)
{
    while (!__atomic_load_n(&has_over, __ATOMIC_ACQUIRE)) {
        __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED);
        weft_sleep(WEFT_MS);
    }
    return arg;
}

static void *as_first_fiber(void *arg)
{
    void (**body)(void) = arg;
    weft_attr attr = {.size = sizeof attr, .name = "ticker", .worker = WEFT_WORKER(0), .flags = WEFT_NO_HOOK};
    weft_fiber *ticker;
    has_over = false;
    CHECK_INT(weft_go_with(&ticker, &attr, tick, NULL), ==, 0);
    (*body)();
    __atomic_store_n(&has_over, true, __ATOMIC_RELEASE);
    CHECK_INT(weft_join(ticker, NULL, WEFT_FOREVER), ==, 0);
    return NULL;
}

static void run_first(void (*body)(void))
{
    weft_sched_opts opts = {.size = sizeof opts, .threads = 2};
    if (is_kernel())
        body();
    else
        CHECK_INT(weft_run(as_first_fiber, &body, NULL, &opts), ==, 0);
}

#define INTERRUPTION(name)                                                                                             \
    static void name##_body(void);                                                                                     \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        run_first(name##_body);                                                                                        \
    }                                                                                                                  \
    static void name##_body(void)

/* --- signals --- */

/*
 * A thread that sends signals to the one that begins it: again and again until it is ended, or one, which is followed
 * by something that is done to a descriptor. The ticker is seen to run before each: while the first fiber waits.
 */
struct shots {
    int fd;            /* -1: signals again and again */
    void (*what)(int); /* NULL: writes a byte */
    bool unseen;       /* the handler does not run until that is done */
    pthread_t at, thread;
    bool over; /* atomic */
};

enum { AFTER = 60 }; /* ms */

static void *shoot(void *arg)
{
    struct shots *s = arg;
    do {
        int before = __atomic_load_n(&ticks, __ATOMIC_RELAXED), sent = count();
        usleep(AFTER * 1000);
        while (!is_kernel() && !is_alone && __atomic_load_n(&ticks, __ATOMIC_RELAXED) == before)
            usleep(1000);
        pthread_kill(s->at, SIGUSR1);
        if (s->fd < 0)
            continue;
        while (!s->unseen && count() == sent)
            usleep(1000);
        usleep(AFTER * 1000);
        (s->what ? s->what : write_one)(s->fd);
    } while (s->fd < 0 && !__atomic_load_n(&s->over, __ATOMIC_ACQUIRE));
    return NULL;
}

static void begin_shots(struct shots *s)
{
    sigset_t all, before;
    s->at = pthread_self();
    s->over = false;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* they are ours to get */
    CHECK_INT(pthread_create(&s->thread, NULL, shoot, s), ==, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* pthread_join blocks the worker, and the ticker with it, which the thread may be waiting for. */
static void end_shots(struct shots *s)
{
    __atomic_store_n(&s->over, true, __ATOMIC_RELEASE);
    while (pthread_tryjoin_np(s->thread, NULL) == EBUSY)
        usleep(1000);
}

/* --- calls. Each is given the end that something comes to --- */

static long in_readv(int fd)
{
    char byte;
    return readv(fd, &(struct iovec){&byte, 1}, 1);
}

static long in_recvmsg(int fd)
{
    char byte;
    return recvmsg(fd, &(struct msghdr){.msg_iov = &(struct iovec){&byte, 1}, .msg_iovlen = 1}, 0);
}

static long in_recvmmsg(int fd)
{
    char byte;
    return recvmmsg(fd, &(struct mmsghdr){.msg_hdr = {.msg_iov = &(struct iovec){&byte, 1}, .msg_iovlen = 1}}, 1, 0,
                    NULL);
}

static long in_peek(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK);
}

static long in_ppoll(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    return ppoll(&p, 1, &(struct timespec){20, 0}, NULL);
}

static long in_splice(int fd)
{
    struct ends p = pipe_ends();
    long n = splice(fd, NULL, p.b, NULL, 1, 0);
    int error = errno;
    close_ends(p);
    errno = error;
    return n;
}

struct call {
    const char *name;
    long (*fn)(int);
    bool always; /* SA_RESTART or not, a handler ends it */
};

/* A signal comes, and later a byte: the call returns EINTR at the signal, or the byte. */
static void check_call(struct call c, struct ends e, int flags)
{
    bool interrupted = c.always || !(flags & SA_RESTART);
    struct shots s = {.fd = interrupted ? -1 : e.b};
    struct sigaction before = handle(flags);
    double start = now_ms();
    begin_shots(&s);
    errno = 0;
    long rc = c.fn(e.a);
    int error = errno;
    double took = now_ms() - start;
    CHECK(took >= (interrupted ? AFTER : 2 * AFTER));
    if (interrupted ? rc != -1 || error != EINTR : rc != 1)
        test_failed(__FILE__, __LINE__, "%s: %ld with errno %s", c.name, rc, strerrorname_np(error));
    CHECK_INT(count(), >=, 1);
    end_shots(&s);
    restore(before);
    close_ends(e);
}

static const struct call calls[] = {
    {"recv", in_recv, false},         {"read", in_read, false},
    {"readv", in_readv, false},       {"recvmsg", in_recvmsg, false},
    {"recvmmsg", in_recvmmsg, false}, {"recv of MSG_PEEK", in_peek, false},
    {"splice", in_splice, false},     {"recv with a limit", in_limited_recv, true},
    {"poll", in_poll, true},          {"ppoll", in_ppoll, true},
    {"select", in_select, true},      {"epoll_wait", in_epoll_wait, true},
};

enum { CALLS = sizeof calls / sizeof calls[0] };

INTERRUPTION(a_handler_without_sa_restart_interrupts_the_first_fibers_call)
{
    for (int i = 0; i < CALLS; i++)
        check_call(calls[i], tcp_ends(), 0);
    for (int i = 1; i < 3; i++)
        check_call(calls[i], pipe_ends(), 0);
}

INTERRUPTION(a_handler_with_sa_restart_interrupts_only_what_is_not_restarted)
{
    for (int i = 0; i < CALLS; i++)
        check_call(calls[i], tcp_ends(), SA_RESTART);
    check_call(calls[1], pipe_ends(), SA_RESTART);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* it is called all the same */

INTERRUPTION(siginterrupt_and_signal_say_whether_a_call_is_restarted)
{
    struct ends e = tcp_ends();
    struct shots s = {.fd = -1};
    struct sigaction before = handle(SA_RESTART);
    CHECK(signal(SIGUSR1, count_it) == count_it); /* which restarts */
    CHECK_INT(siginterrupt(SIGUSR1, 1), ==, 0);
    begin_shots(&s);
    CHECK_ERRNO(in_recv(e.a), EINTR);
    end_shots(&s);
    s.fd = e.b;
    CHECK_INT(siginterrupt(SIGUSR1, 0), ==, 0);
    begin_shots(&s);
    CHECK_INT(in_recv(e.a), ==, 1);
    end_shots(&s);
    CHECK_INT(count(), >=, 2);
    restore(before);
    close_ends(e);
}

#pragma GCC diagnostic pop

INTERRUPTION(a_handler_interrupts_accept)
{
    struct sockaddr_in at;
    for (int restarts = 0; restarts < 2; restarts++) {
        int l = listener(8, &at);
        struct shots s = {.fd = restarts ? l : -1, .what = connect_briefly};
        struct sigaction before = handle(restarts ? SA_RESTART : 0);
        begin_shots(&s);
        if (restarts)
            CHECK_INT(close(accept(l, NULL, NULL)), ==, 0);
        else
            CHECK_ERRNO(accept(l, NULL, NULL), EINTR);
        CHECK_INT(count(), >=, 1);
        end_shots(&s);
        if (!restarts) { /* what comes later is there for the next call */
            connect_briefly(l);
            CHECK_INT(close(accept4(l, NULL, NULL, SOCK_CLOEXEC)), ==, 0);
        }
        restore(before);
        close(l);
    }
}

/* A connection to a listener that takes none. */
INTERRUPTION(a_handler_interrupts_connect_which_goes_on_by_itself)
{
    struct sockaddr_in at;
    int l = listener(0, &at), full[4], s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 4; i++) {
        full[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(full[i], (struct sockaddr *)&at, sizeof at); /* in progress, or it waits for room */
    }
    usleep(20000);
    struct shots shots = {.fd = -1};
    struct sigaction before = handle(0);
    begin_shots(&shots);
    CHECK_ERRNO(connect(s, (struct sockaddr *)&at, sizeof at), EINTR);
    end_shots(&shots);
    CHECK_INT(fcntl(s, F_SETFL, O_NONBLOCK), ==, 0);
    CHECK_ERRNO(connect(s, (struct sockaddr *)&at, sizeof at), EALREADY);
    restore(before);
    for (int i = 0; i < 4; i++)
        close(full[i]);
    close(s);
    close(l);
}

INTERRUPTION(a_handler_ends_a_sleep_and_what_is_left_is_told)
{
    for (int flags = 0; flags < 2; flags++) {
        struct shots s = {.fd = -1};
        struct timespec rem = {7, 7}, at;
        struct sigaction before = handle(flags ? SA_RESTART : 0);
        double start = now_ms();
        begin_shots(&s);
        CHECK_ERRNO(nanosleep(&(struct timespec){20, 0}, &rem), EINTR);
        CHECK(now_ms() - start >= AFTER);
        CHECK(rem.tv_sec == 19 || (rem.tv_sec < 19 && rem.tv_sec >= 15));
        end_shots(&s);
        begin_shots(&s);
        CHECK_INT(sleep(20) > 14, ==, true);
        end_shots(&s);
        begin_shots(&s);
        CHECK_ERRNO(usleep(20000000), EINTR);
        end_shots(&s);
        clock_gettime(CLOCK_REALTIME, &at);
        at.tv_sec += 20;
        begin_shots(&s);
        CHECK_INT(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL), ==, EINTR);
        end_shots(&s);
        CHECK_INT(count(), >=, 4);
        restore(before);
    }
}

INTERRUPTION(a_handler_interrupts_a_wait_for_a_child)
{
    for (int any = 0; any < 2; any++) {
        struct shots s = {.fd = -1};
        int state;
        struct ends e = pipe_ends();
        pid_t child = fork();
        if (child == 0) {
            char byte;
            close(e.b);
            syscall(SYS_read, e.a, &byte, 1);
            _exit(3);
        }
        struct sigaction before = handle(0);
        begin_shots(&s);
        CHECK_ERRNO(waitpid(any ? -1 : child, &state, 0), EINTR);
        end_shots(&s);
        restore(before);
        before = handle(SA_RESTART);
        s.fd = e.b;
        begin_shots(&s);
        CHECK_INT(waitpid(any ? -1 : child, &state, 0), ==, child);
        CHECK_INT(WEXITSTATUS(state), ==, 3);
        CHECK_INT(count(), ==, 1);
        end_shots(&s);
        restore(before);
        close_ends(e);
    }
}

/* What was sent in part is told, whether or not the call would be restarted. */
INTERRUPTION(a_handler_ends_a_send_after_the_part_that_went_out)
{
    enum { MUCH = 16 << 20 };
    static const char much[MUCH];
    static char some[65536];
    for (int i = 0; i < 4; i++) {
        struct ends e = i < 2 ? tcp_ends() : pipe_ends();
        struct shots s = {.fd = -1};
        struct sigaction before = handle(i % 2 ? SA_RESTART : 0);
        begin_shots(&s);
        ssize_t n = write(e.b, much, MUCH), got = 0;
        CHECK_INT(count(), >=, 1);
        CHECK(n > 0 && n < MUCH);
        end_shots(&s);
        close(e.b);
        for (ssize_t k; (k = read(e.a, some, sizeof some)) > 0;)
            got += k;
        CHECK_INT(got, ==, n);
        close(e.a);
        restore(before);
    }
}

INTERRUPTION(a_handler_ends_a_recv_of_msg_waitall_with_what_came)
{
    struct ends e = tcp_ends();
    char text[8];
    struct shots s = {.fd = -1};
    struct sigaction before = handle(SA_RESTART);
    CHECK_INT(send(e.b, "abc", 3, 0), ==, 3);
    begin_shots(&s);
    CHECK_INT(recv(e.a, text, sizeof text, MSG_WAITALL), ==, 3);
    CHECK_INT(count(), >=, 1);
    end_shots(&s);
    restore(before);
    close_ends(e);
}

/* A signal that comes while the fiber computes interrupts nothing: neither a call before it nor the next. */
INTERRUPTION(a_handler_that_ran_before_the_call_does_not_interrupt_it)
{
    struct ends e = tcp_ends();
    struct sigaction before = handle(0);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(pthread_kill(pthread_self(), SIGUSR1), ==, 0);
        CHECK_INT(count(), ==, i + 1);
        double start = now_ms();
        CHECK_INT(poll(&(struct pollfd){e.a, POLLIN, 0}, 1, 20), ==, 0);
        CHECK(now_ms() - start >= 20);
    }
    restore(before);
    close_ends(e);
}

/* One wait after another is interrupted, and the last one is not. */
INTERRUPTION(every_wait_is_interrupted_until_no_more_signals_come)
{
    struct ends e = tcp_ends();
    struct shots s = {.fd = -1};
    struct sigaction before = handle(0);
    begin_shots(&s);
    for (int i = 0; i < 4; i++)
        CHECK_ERRNO(i % 2 ? in_recv(e.a) : in_poll(e.a), EINTR);
    CHECK_INT(count(), >=, 4);
    end_shots(&s);
    CHECK_INT(poll(&(struct pollfd){e.a, POLLIN, 0}, 1, 20), ==, 0);
    write_one(e.b);
    CHECK_INT(in_recv(e.a), ==, 1);
    restore(before);
    close_ends(e);
}

/* What is ignored, or has no handler that runs, interrupts nothing. */
INTERRUPTION(a_signal_without_a_handler_interrupts_nothing)
{
    struct ends e = tcp_ends();
    struct shots s = {.fd = e.b, .unseen = true};
    struct sigaction before = handle(0), ignore = {.sa_handler = SIG_IGN};
    CHECK_INT(sigaction(SIGUSR1, &ignore, NULL), ==, 0);
    begin_shots(&s);
    CHECK_INT(in_recv(e.a), ==, 1);
    CHECK_INT(count(), ==, 0);
    end_shots(&s);
    restore(before);
    close_ends(e);
}

/* A mask that blocks it for the call: the call goes on. */
INTERRUPTION(a_signal_that_the_calls_mask_blocks_does_not_interrupt_it)
{
    struct ends e = tcp_ends();
    struct shots s = {.fd = e.b, .unseen = true};
    struct sigaction before = handle(0);
    sigset_t blocks;
    sigemptyset(&blocks);
    sigaddset(&blocks, SIGUSR1);
    begin_shots(&s);
    CHECK_INT(ppoll(&(struct pollfd){e.a, POLLIN, 0}, 1, NULL, &blocks), ==, 1);
    end_shots(&s);
    CHECK_INT(count(), ==, 1);
    restore(before);
    close_ends(e);
}

/* The child has an event descriptor of its own. */
INTERRUPTION(in_the_child_of_a_fork_a_handler_interrupts_the_child_alone)
{
    struct ends e = tcp_ends();
    struct sigaction before = handle(0);
    struct shots s = {.fd = -1};
    begin_shots(&s);
    CHECK_ERRNO(in_recv(e.a), EINTR);
    end_shots(&s);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        is_alone = true;
        s = (struct shots){.fd = -1};
        begin_shots(&s);
        bool ok = in_recv(e.a) == -1 && errno == EINTR;
        _exit(ok ? 0 : 1);
    }
    int state = -1;
    CHECK_INT(waitpid(child, &state, 0), ==, child);
    CHECK_INT(state, ==, 0);
    restore(before);
    close_ends(e);
}

/* Not the first fiber: it goes on. */
struct other {
    int fd;
    long rc;
    int error;
};

static void *other_waits(void *arg)
{
    struct other *o = arg;
    o->rc = in_recv(o->fd);
    o->error = errno;
    return NULL;
}

INTERRUPTION(other_fibers_go_on)
{
    if (is_kernel())
        return;
    struct ends e = tcp_ends();
    struct other o = {.fd = e.a};
    struct shots s = {.fd = -1};
    struct sigaction before = handle(0);
    weft_attr attr = {.size = sizeof attr, .worker = WEFT_WORKER(0)};
    weft_fiber *f;
    CHECK_INT(weft_go_with(&f, &attr, other_waits, &o), ==, 0);
    begin_shots(&s);
    CHECK_ERRNO(nanosleep(&(struct timespec){20, 0}, NULL), EINTR);
    end_shots(&s);
    write_one(e.b);
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
    CHECK_INT(o.rc, ==, 1);
    restore(before);
    close_ends(e);
}

static char *barred; /* a page that must not be written to until the handler of the fault has run */

static void unbar(int number)
{
    count_it(number);
    CHECK_INT(mprotect(barred, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE), ==, 0);
}

static void *write_to_the_barred(void *arg)
{
    weft_sleep(10 * WEFT_MS);
    *(volatile char *)barred = 1;
    return arg;
}

/* A fault is of the code that ran: to the kernel it is no signal for a thread that waits. */
INTERRUPTION(a_fault_that_another_fiber_handles_does_not_interrupt_the_first)
{
    if (is_kernel())
        return;
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    struct sigaction act = {.sa_handler = unbar}, before;
    weft_attr attr = {.size = sizeof attr, .worker = WEFT_WORKER(0)};
    weft_fiber *f;
    barred = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    __atomic_store_n(&handled, 0, __ATOMIC_RELAXED);
    CHECK_INT(sigaction(SIGSEGV, &act, &before), ==, 0);
    CHECK_INT(weft_go_with(&f, &attr, write_to_the_barred, NULL), ==, 0);
    CHECK_INT(usleep(100000), ==, 0);
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
    CHECK_INT(count(), ==, 1);
    CHECK_INT(sigaction(SIGSEGV, &before, NULL), ==, 0);
    munmap(barred, bytes);
}

/* --- the event descriptor --- */

enum { HIGH = 1000 }; /* this program has no descriptor above */

/* Calls `what` for every event descriptor of the library's, the one of the first fiber's waits among them. */
static int for_event_descriptors(void (*what)(int))
{
    int found = 0;
    DIR *all = opendir("/proc/self/fd");
    for (struct dirent *e; all && (e = readdir(all)) != NULL;) {
        char to[64] = "";
        int fd = (int)strtol(e->d_name, NULL, 10);
        if (fd > HIGH && readlinkat(dirfd(all), e->d_name, to, sizeof to - 1) > 0 && strstr(to, "[eventfd]")) {
            what(fd);
            found++;
        }
    }
    if (all)
        closedir(all);
    return found;
}

/* Every kind of wait of the first fiber lasts as long as it should. */
static void check_waits(void)
{
    struct ends e = tcp_ends();
    struct later l = {.fd = e.b, .after = 30};
    double start = now_ms();
    CHECK_INT(usleep(20000), ==, 0);
    CHECK(now_ms() - start >= 20);
    start = now_ms();
    CHECK_INT(poll(&(struct pollfd){e.a, POLLIN, 0}, 1, 20), ==, 0);
    CHECK(now_ms() - start >= 20);
    for (int i = 0; i < 2; i++) {
        struct flow *f = begin_thread(do_later, &l);
        CHECK_INT(i == 0 ? in_recv(e.a) : in_readv(e.a), ==, 1);
        end(f);
    }
    close_ends(e);
}

/* A handler that leaves a wait by siglongjmp leaves it so. */
static void make_readable(int fd)
{
    static const uint64_t one = 1;
    CHECK_INT(syscall(SYS_write, fd, &one, sizeof one), ==, sizeof one);
}

INTERRUPTION(waits_go_on_though_the_event_descriptor_is_readable)
{
    struct sigaction before = handle(0);
    check_waits();
    CHECK_INT(for_event_descriptors(make_readable), >=, is_kernel() ? 0 : 1);
    check_waits();
    restore(before);
}

static void close_past_the_hooks(int fd)
{
    CHECK_INT(syscall(SYS_close, fd), ==, 0);
}

INTERRUPTION(waits_go_on_though_the_program_has_closed_the_event_descriptor)
{
    struct sigaction before = handle(0);
    struct ends e = tcp_ends();
    struct shots s = {.fd = -1};
    check_waits();
    CHECK_INT(for_event_descriptors(close_past_the_hooks), >=, is_kernel() ? 0 : 1);
    check_waits();
    begin_shots(&s); /* and a handler interrupts them again */
    CHECK_ERRNO(in_recv(e.a), EINTR);
    end_shots(&s);
    restore(before);
    close_ends(e);
}

/* --- which thread --- */

static int slept; /* atomic: what the sleep on the other thread has returned; -2: it sleeps yet */

static void wait_a_little(void)
{
    CHECK_INT(usleep(1000), ==, 0);
}

static void sleep_on_the_other_thread(void)
{
    int rc = usleep(300000);
    __atomic_store_n(&slept, rc, __ATOMIC_RELEASE);
}

static void run_on_another_thread(void *arg)
{
    sigset_t all;
    (void)arg;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    run_first(sleep_on_the_other_thread);
}

/* The first fiber of an earlier weft_run waited on this thread. */
TEST(a_handler_on_another_thread_does_not_interrupt_the_first_fiber)
{
    struct sigaction before = handle(0);
    run_first(wait_a_little);
    slept = -2;
    struct flow *f = begin_thread(run_on_another_thread, NULL);
    while (__atomic_load_n(&slept, __ATOMIC_ACQUIRE) == -2) {
        CHECK_INT(pthread_kill(pthread_self(), SIGUSR1), ==, 0);
        usleep(1000);
    }
    end(f);
    CHECK_INT(slept, ==, 0);
    CHECK_INT(count(), >=, 1);
    restore(before);
}

/* --- a handler that runs while the call looks again, between two waits --- */

/* A UNIX socket that others send to; its queue is full, and a send to it waits and looks again every few milliseconds. */
struct full {
    int receiver, sender;
    struct sockaddr_un at;
    socklen_t size;
};

static struct full full_receiver(void)
{
    struct full f = {.receiver = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0),
                     .sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0),
                     .at.sun_family = AF_UNIX,
                     .size = sizeof f.at};
    CHECK_INT(bind(f.receiver, (struct sockaddr *)&f.at, sizeof(sa_family_t)), ==, 0); /* the kernel gives it a name */
    CHECK_INT(getsockname(f.receiver, (struct sockaddr *)&f.at, &f.size), ==, 0);
    while (sendto(f.sender, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&f.at, f.size) == 1)
        ;
    CHECK_INT(errno, ==, EAGAIN);
    return f;
}

static long send_to(struct full *f)
{
    return sendto(f->sender, "y", 1, 0, (struct sockaddr *)&f->at, f->size);
}

static void receive_one(int fd)
{
    char byte;
    CHECK_INT(recv(fd, &byte, 1, MSG_DONTWAIT), ==, 1);
}

/* The hooks ask for the state of the descriptor between two waits: there the handler runs. */
static int signals_at = -1; /* the descriptor */
static int asked;           /* how often it was asked for */

int fstat(int fd, struct stat *st) /* NOLINT(readability-inconsistent-declaration-parameter-name) */
{
    enum { SECOND = 2 };
    if (fd == signals_at && ++asked == SECOND)
        raise(SIGUSR1);
    return fstatat(fd, "", st, AT_EMPTY_PATH);
}

INTERRUPTION(a_handler_between_two_waits_of_one_call_interrupts_it)
{
    struct full f = full_receiver();
    struct shots s = {.fd = -1};
    struct later l = {.fd = f.receiver, .after = 2000, .what = receive_one}; /* so that a call that goes on ends */
    struct flow *rescue = NULL;
    struct sigaction before = handle(0);
    asked = 0;
    if (is_kernel()) {
        begin_shots(&s);
    } else {
        signals_at = f.sender;
        rescue = begin_thread(do_later, &l);
    }
    CHECK_ERRNO(send_to(&f), EINTR);
    CHECK_INT(count(), >=, 1);
    signals_at = -1;
    if (is_kernel())
        end_shots(&s);
    else
        end(rescue);
    restore(before);
    close(f.sender);
    close(f.receiver);
}

/* --- calls that the kernel begins anew, and calls with a part done --- */

INTERRUPTION(a_send_to_a_full_unix_socket_is_restarted)
{
    struct full f = full_receiver();
    struct shots s = {.fd = f.receiver, .what = receive_one};
    struct sigaction before = handle(SA_RESTART);
    begin_shots(&s);
    CHECK_INT(send_to(&f), ==, 1);
    CHECK_INT(count(), ==, 1);
    end_shots(&s);
    restore(before);
    close(f.sender);
    close(f.receiver);
}

static void type_hello(int fd)
{
    CHECK_INT(write(fd, "hello", 5), ==, 5);
}

/* a is the terminal, b is where what is typed comes from. */
static struct ends terminal_ends(unsigned char least, unsigned char tenths)
{
    struct termios how;
    struct ends e = {.b = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
    CHECK(e.b >= 0 && grantpt(e.b) == 0 && unlockpt(e.b) == 0);
    e.a = open(ptsname(e.b), O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK_INT(tcgetattr(e.a, &how), ==, 0);
    cfmakeraw(&how);
    how.c_cc[VMIN] = least;
    how.c_cc[VTIME] = tenths;
    CHECK_INT(tcsetattr(e.a, TCSANOW, &how), ==, 0);
    return e;
}

INTERRUPTION(a_read_of_a_terminal_is_restarted)
{
    for (int i = 0; i < 2; i++) {
        struct ends e = i == 0 ? terminal_ends(0, 100) : terminal_ends(10, 0);
        struct shots s = {.fd = e.b, .what = type_hello};
        struct sigaction before = handle(SA_RESTART);
        char text[4];
        begin_shots(&s);
        CHECK_INT(read(e.a, text, sizeof text), ==, sizeof text);
        CHECK_INT(count(), ==, 1);
        end_shots(&s);
        restore(before);
        close_ends(e);
    }
}

enum { MESSAGES = 5 };

static void point_at(struct mmsghdr *messages, struct iovec *part)
{
    for (int i = 0; i < MESSAGES; i++)
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = part, .msg_iovlen = 1}};
}

/* Whether or not the call would be restarted. */
INTERRUPTION(a_handler_ends_a_batch_after_the_messages_that_are_done)
{
    char byte = 'x';
    struct iovec part = {&byte, 1};
    struct mmsghdr messages[MESSAGES];
    for (int i = 0; i < 4; i++) {
        struct ends e = unix_ends(SOCK_DGRAM);
        struct shots s = {.fd = -1};
        struct sigaction before = handle(i % 2 ? SA_RESTART : 0);
        point_at(messages, &part);
        if (i < 2) {
            for (int k = 0; k < 2; k++)
                CHECK_INT(send(e.b, "x", 1, 0), ==, 1);
        } else {
            while (send(e.b, "x", 1, MSG_DONTWAIT) == 1)
                ;
            for (int k = 0; k < 2; k++)
                receive_one(e.a);
        }
        begin_shots(&s);
        CHECK_INT(i < 2 ? recvmmsg(e.a, messages, MESSAGES, 0, NULL) : sendmmsg(e.b, messages, MESSAGES, 0), ==, 2);
        CHECK_INT(count(), >=, 1);
        end_shots(&s);
        restore(before);
        close_ends(e);
    }
}

/* --- a handler that jumps --- */

static sigjmp_buf out_of_the_call;

static void jump(int number)
{
    (void)number;
    siglongjmp(out_of_the_call, 1);
}

static void *is_left_by_a_jump(void *arg)
{
    long ms = *(const long *)arg;
    struct sigaction act = {.sa_handler = jump};
    struct itimerval soon = {.it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}};
    struct ends e = pipe_ends();
    CHECK_INT(sigaction(SIGALRM, &act, NULL), ==, 0);
    if (sigsetjmp(out_of_the_call, 1) == 0) {
        setitimer(ITIMER_REAL, &soon, NULL);
        in_read(e.a);
    }
    _exit(0);
    return arg;
}

/* How a process ends in which a handler jumps after so many milliseconds; `line` is what it says. */
static int end_of_a_jump(long ms, char *line, size_t size)
{
    struct ends e = pipe_ends();
    pid_t child = fork();
    if (child == 0) {
        weft_sched_opts opts = {.size = sizeof opts, .threads = 1};
        dup2(e.b, STDERR_FILENO);
        if (is_kernel())
            is_left_by_a_jump(&ms);
        else
            weft_run(is_left_by_a_jump, &ms, NULL, &opts);
        _exit(1);
    }
    close(e.b);
    ssize_t bytes = read(e.a, line, size - 1);
    line[bytes > 0 ? bytes : 0] = '\0';
    close(e.a);
    int state = -1;
    CHECK_INT(waitpid(child, &state, 0), ==, child);
    return state;
}

/* The kernel lets a handler leave a call so. Of the hooks this is a difference, and the program is told. */
TEST(a_jump_out_of_a_call_in_which_the_first_fiber_waits_is_told)
{
#ifndef __x86_64__
    SKIP("where a jump goes to is not known here");
#endif
    char line[512];
    int state = -1;
    for (long ms = 50; ms < 20000; ms *= 4) { /* on a busy machine the signal may come before the call waits: again */
        state = end_of_a_jump(ms, line, sizeof line);
        if (is_kernel() || state != 0)
            break;
    }
    CHECK_INT(state & 0x7f, ==, is_kernel() ? 0 : SIGABRT);
    CHECK(is_kernel() ? line[0] == '\0' : strstr(line, "weft-hook: siglongjmp: ") != NULL);
}

STATEMENTS(interrupt, a_handler_without_sa_restart_interrupts_the_first_fibers_call,
           a_handler_with_sa_restart_interrupts_only_what_is_not_restarted,
           siginterrupt_and_signal_say_whether_a_call_is_restarted, a_handler_interrupts_accept,
           a_handler_interrupts_connect_which_goes_on_by_itself, a_handler_ends_a_sleep_and_what_is_left_is_told,
           a_handler_interrupts_a_wait_for_a_child, a_handler_ends_a_send_after_the_part_that_went_out,
           a_handler_ends_a_recv_of_msg_waitall_with_what_came,
           a_handler_that_ran_before_the_call_does_not_interrupt_it,
           every_wait_is_interrupted_until_no_more_signals_come, a_signal_without_a_handler_interrupts_nothing,
           a_signal_that_the_calls_mask_blocks_does_not_interrupt_it,
           in_the_child_of_a_fork_a_handler_interrupts_the_child_alone, other_fibers_go_on,
           a_fault_that_another_fiber_handles_does_not_interrupt_the_first,
           waits_go_on_though_the_event_descriptor_is_readable,
           waits_go_on_though_the_program_has_closed_the_event_descriptor,
           a_handler_on_another_thread_does_not_interrupt_the_first_fiber,
           a_handler_between_two_waits_of_one_call_interrupts_it, a_send_to_a_full_unix_socket_is_restarted,
           a_read_of_a_terminal_is_restarted, a_handler_ends_a_batch_after_the_messages_that_are_done,
           a_jump_out_of_a_call_in_which_the_first_fiber_waits_is_told)
