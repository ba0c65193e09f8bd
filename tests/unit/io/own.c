/*
 * The descriptors that the library itself keeps: they are out of the numbers that a program gets, a program's mistakes do
 * not reach them, and a worker whose set is gone all the same says so and goes on.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "sched/sched.h"
#include "sched/worker.h"
#include "unit/io/ground.h"

enum { MOST = 64, REACH = 512 /* numbers that no program here gets to */ };

static const char *const kinds[] = {"[eventpoll]", "[io_uring]", "[eventfd]", "[timerfd]", "[signalfd]", "[pidfd]"};

static bool is_own_kind(const char *link)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strstr(link, kinds[i]))
            return true;
    }
    return strncmp(link, "pidfd:", 6) == 0;
}

/* The numbers of the descriptors of such kinds. These tests make none themselves: they are the library's. */
static int own_numbers(int *out)
{
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    for (struct dirent *e; all && count < MOST && (e = readdir(all)) != NULL;) {
        char to[64] = "";
        if (readlinkat(dirfd(all), e->d_name, to, sizeof to - 1) > 0 && is_own_kind(to))
            out[count++] = (int)strtol(e->d_name, NULL, 10);
    }
    if (all)
        closedir(all);
    return count;
}

static void *writes_soon(void *arg)
{
    weft_sleep(3 * WEFT_MS);
    CHECK_INT(write(*(int *)arg, "x", 1), ==, 1);
    return NULL;
}

/* A fiber of this worker waits for a byte, and gets it. */
static void waits_and_reads(void)
{
    struct pair p = pipe_pair(0);
    char byte = 0;
    weft_fiber *f = go(writes_soon, &p.b);
    CHECK_INT(weft_read(p.a, &byte, 1, weft_in(20 * WEFT_SEC)), ==, 1);
    ended(f);
    close_pair(p);
}

/* A number that was a descriptor's, and is the next that anybody gets. */
static int closed_number(void)
{
    int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
    CHECK_INT(fd, >=, 0);
    CHECK_INT(close(fd), ==, 0);
    return fd;
}

/* ---- a number that is no descriptor's ---- */

enum { CALLS = 10 };

static ptrdiff_t call_on(int fd, int which)
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    weft_time until = weft_in(20 * WEFT_SEC);
    switch (which) {
    case 0:
        return weft_read(fd, &byte, 1, until);
    case 1:
        return weft_write(fd, &byte, 1, until);
    case 2:
        return weft_readv(fd, &part, 1, until);
    case 3:
        return weft_writev(fd, &part, 1, until);
    case 4:
        return weft_recv(fd, &byte, 1, 0, until);
    case 5:
        return weft_recvmsg(fd, &message, 0, until);
    case 6:
        return weft_accept(fd, NULL, NULL, 0, until);
    case 7:
        return weft_wait_fd(fd, POLLIN, until);
    case 8:
        return weft_pread(fd, &byte, 1, 0, until);
    default: {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        return weft_poll(&p, 1, until) == 1 && p.revents == POLLNVAL ? -EBADF : 1;
    }
    }
}

static void *calls_first(void *arg)
{
    CHECK_INT(call_on(closed_number(), (int)(intptr_t)arg), ==, -EBADF);
    waits_and_reads();
    return NULL;
}

TEST(a_closed_number_is_ebadf_though_the_worker_has_no_set_yet)
{
    for (int which = 0; which < CALLS; which++) {
        in_a_fiber(1, calls_first, ptr(which));
        in_a_fiber(2, calls_first, ptr(which));
    }
}

TEST(a_closed_number_is_ebadf_on_a_plain_thread)
{
    for (int which = 0; which < CALLS; which++)
        CHECK_INT(call_on(closed_number(), which), ==, -EBADF);
}

/* ---- where they are ---- */

IN_FIBER(own_descriptors_leave_the_low_numbers_to_the_program)
{
    int lowest = closed_number(), own[MOST];
    waits_and_reads();
    CHECK_INT(closed_number(), ==, lowest);
    int count = own_numbers(own);
    CHECK_INT(count, >=, 2);
    for (int i = 0; i < count; i++)
        CHECK_INT(own[i], >, REACH);
    return arg;
}

static void beeps(void *arg)
{
    more(arg);
}

static void *waits_for_a_signal(void *arg)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return ptr(weft_wait_signal(&set, NULL, *(weft_time *)arg));
}

static void *waits_for_a_child(void *arg)
{
    return ptr(weft_wait_child(*(pid_t *)arg, NULL, WEFT_FOREVER));
}

/* Alarms, children and signals are waited for with descriptors too. */
IN_FIBER(what_calls_wait_with_is_out_of_the_programs_range)
{
    int lowest = closed_number(), own[MOST], rung = 0;
    struct pair p = pipe_pair(0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(p.b);
        _exit(read(p.a, &byte, 1) == 0 ? 0 : 1); /* until the parent closes its end */
    }
    weft_time until = weft_in(100 * WEFT_SEC);
    weft_alarm *alarm = NULL;
    weft_wall later = {weft_wall_now().ns + 100 * WEFT_SEC};
    CHECK_INT(weft_alarm_new(&alarm, later, NULL, beeps, &rung), ==, 0);
    weft_fiber *child = go(waits_for_a_child, &pid), *signals = go(waits_for_a_signal, &until);
    AWAIT(is_parked(child) && is_parked(signals));
    int count = own_numbers(own);
    CHECK_INT(count, >=, 3);
    for (int i = 0; i < count; i++) {
        CHECK_INT(own[i], >, REACH);
        CHECK_INT(weft_close(own[i]), ==, -EBADF);
        CHECK(fcntl(own[i], F_GETFD) == FD_CLOEXEC);
    }
    CHECK_INT(weft_close(p.b), ==, 0);
    CHECK_PTR(ended(child), ==, ptr(0));
    weft_cancel(signals);
    CHECK_PTR(ended(signals), ==, ptr(-ECANCELED));
    CHECK_INT(weft_alarm_free(alarm), ==, 1);
    CHECK_INT(weft_close(p.a), ==, 0);
    CHECK_INT(closed_number(), ==, lowest);
    return arg;
}

/* ---- closing them ---- */

static void *closes_twice(void *arg)
{
    int fd[8];
    for (int i = 0; i < 8; i++)
        fd[i] = fcntl(0, F_DUPFD_CLOEXEC, 0);
    for (int i = 0; i < 8; i++)
        CHECK_INT(weft_close(fd[i]), ==, 0);
    waits_and_reads();
    for (int i = 0; i < 8; i++)
        CHECK_INT(weft_close(fd[i]), ==, -EBADF);
    waits_and_reads();
    return arg;
}

TEST(a_second_close_is_ebadf_and_the_worker_goes_on)
{
    in_a_fiber(1, closes_twice, NULL);
    in_a_fiber(2, closes_twice, NULL);
}

IN_FIBER(weft_close_of_an_own_descriptor_is_ebadf_and_leaves_it)
{
    int own[MOST];
    waits_and_reads();
    struct pair p = pipe_pair(0);
    char byte;
    CHECK_INT(weft_read(p.a, &byte, 1, weft_in(60 * WEFT_MS)), ==, -ETIMEDOUT); /* long enough for the set's timer */
    int count = own_numbers(own);
    CHECK_INT(count, >=, 2);
    for (int i = 0; i < count; i++) {
        CHECK_INT(weft_close(own[i]), ==, -EBADF);
        CHECK(!weft_closing((unsigned)own[i], (unsigned)own[i]));
        CHECK_INT(fcntl(own[i], F_GETFD), ==, FD_CLOEXEC);
    }
    waits_and_reads();
    close_pair(p);
    return arg;
}

/* ---- limits ---- */

static void limit_to(rlim_t numbers)
{
    struct rlimit limit;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    limit.rlim_cur = numbers;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
}

static void *stays_below(void *arg)
{
    int own[MOST], limit = *(int *)arg, lowest = closed_number(), count = 0;
    AWAIT((waits_and_reads(), count = own_numbers(own)) >= 2); /* on a slow machine the byte may be there at once */
    for (int i = 0; i < count; i++)
        CHECK(own[i] > lowest && own[i] < limit);
    CHECK_INT(closed_number(), ==, lowest);
    return NULL;
}

static void runs_with_limits(void *arg)
{
    (void)arg;
    for (int limit = 2048; limit >= 32; limit /= 2) {
        limit_to((rlim_t)limit);
        in_a_fiber(1, stays_below, &limit);
        in_a_fiber(2, stays_below, &limit);
    }
}

TEST(own_descriptors_stay_below_the_limit)
{
    CHECK_CHILD(runs_with_limits, NULL, 0, NULL);
}

static void *lowers_the_limit(void *arg)
{
    waits_and_reads();
    limit_to(32);
    waits_and_reads();
    weft_fiber *f[4]; /* on other workers, which make sets now */
    struct pair p[4];
    for (int i = 0; i < 4; i++) {
        p[i] = pipe_pair(0);
        f[i] = go(writes_soon, &p[i].b);
    }
    for (int i = 0; i < 4; i++) {
        char byte;
        CHECK_INT(weft_read(p[i].a, &byte, 1, weft_in(20 * WEFT_SEC)), ==, 1);
        ended(f[i]);
        close_pair(p[i]);
    }
    return arg;
}

static void runs_while_the_limit_is_lowered(void *arg)
{
    (void)arg;
    in_a_fiber(2, lowers_the_limit, NULL);
    in_a_fiber(2, lowers_the_limit, NULL);
}

TEST(the_limit_may_be_lowered_later)
{
    CHECK_CHILD(runs_while_the_limit_is_lowered, NULL, 0, NULL);
}

/* A few numbers are free, and they are low ones. */
static void runs_without_high_numbers(void *arg)
{
    int fds[256], count = 0, low = closed_number();
    (void)arg;
    limit_to(64);
    while (count < 256 && (fds[count] = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0)
        count++;
    for (int i = 0; i < 16; i++)
        close(low + i);
    in_a_fiber(1, calls_first, ptr(0));
    in_a_fiber(1, calls_first, ptr(7));
    in_a_fiber(1, closes_twice, NULL);
}

TEST(where_no_high_number_is_free_a_low_one_does)
{
    CHECK_CHILD(runs_without_high_numbers, NULL, 0, NULL);
}

/* ---- they are gone all the same ---- */

static void *reads_one(void *arg)
{
    char byte = 0;
    return ptr(weft_read(*(int *)arg, &byte, 1, weft_in(20 * WEFT_SEC)));
}

static void *waits_for_one(void *arg)
{
    return ptr(weft_wait_fd(*(int *)arg, POLLIN, weft_in(20 * WEFT_SEC)));
}

static void *polls_one(void *arg)
{
    struct pollfd p = {.fd = *(int *)arg, .events = POLLIN};
    return ptr(weft_poll(&p, 1, weft_in(20 * WEFT_SEC)));
}

static void notes_a_watch(int fd, unsigned events, void *arg)
{
    (void)fd;
    CHECK_INT(events, ==, WEFT_READ);
    more(arg);
}

static weft_fiber *go_here(weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    int here = WEFT_WORKER(weft_fiber_worker(weft_fiber_current()));
    CHECK_INT(weft_go_with(&f, (&(weft_attr){.worker = here}), fn, arg), ==, 0);
    return f;
}

/* How many there were. */
static int close_all_own(bool replace)
{
    int own[MOST], count = own_numbers(own), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < count; i++) {
        if (replace)
            CHECK_INT(dup3(null, own[i], O_CLOEXEC), ==, own[i]);
        else
            CHECK_INT(close(own[i]), ==, 0);
    }
    close(null);
    return count;
}

enum { WAITS = 4 };

/* On the worker that they wait on, so that it does not sleep in its set meanwhile. */
static void *closes_what_they_wait_with(void *arg)
{
    static weft_fn *const how[] = {reads_one, waits_for_one, polls_one};
    static const int wanted[] = {1, POLLIN, 1};
    bool replace = arg != NULL;
    for (int round = 0; round < 3; round++) {
        struct pair p[WAITS];
        weft_fiber *f[WAITS] = {NULL};
        int fired = 0;
        for (int i = 0; i < WAITS; i++) {
            p[i] = round == 1 ? unix_pair(SOCK_STREAM) : pipe_pair(round == 2 ? O_NONBLOCK : 0);
            if (i < 3)
                f[i] = go_here(how[i], &p[i].a);
            else
                CHECK_INT(weft_watch_add(p[i].a, WEFT_READ, notes_a_watch, &fired), ==, 0);
        }
        weft_sleep(100 * WEFT_MS); /* past the first verification of a wait: the next is not so soon */
        CHECK_INT(close_all_own(replace), >=, round == 0 ? 2 : 0); /* a ring goes on without any */
        waits_and_reads();
        for (int i = 0; i < WAITS; i++)
            CHECK_INT(write(p[i].b, "x", 1), ==, 1);
        for (int i = 0; i < 3; i++)
            CHECK_PTR(ended(f[i]), ==, ptr(wanted[i]));
        AWAIT(seen(&fired) == 1);
        for (int i = 0; i < WAITS; i++)
            close_pair(p[i]);
    }
    return NULL;
}

static int64_t cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * (int64_t)WEFT_SEC + t.tv_nsec;
}

static void loses_its_set(void *arg)
{
    in_a_fiber(1, closes_what_they_wait_with, arg);
    in_a_fiber(1, closes_what_they_wait_with, arg);
    fprintf(stderr, "and went on\n");
}

TEST(a_worker_whose_descriptors_were_closed_goes_on)
{
    CHECK_CHILD(loses_its_set, NULL, 0, "and went on");
}

TEST(a_worker_whose_descriptors_were_replaced_goes_on)
{
    CHECK_CHILD(loses_its_set, ptr(1), 0, "and went on");
}

static void close_kind(const char *kind)
{
    int own[MOST], count = own_numbers(own);
    for (int i = 0; i < count; i++) {
        char path[32], to[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", own[i]);
        if (readlink(path, to, sizeof to - 1) > 0 && strstr(to, kind))
            CHECK_INT(close(own[i]), ==, 0);
    }
}

static void *loses_and_sleeps(void *arg)
{
    waits_and_reads();
    CHECK_INT(close_all_own(false), >=, 2);
    int64_t before = cpu_time();
    weft_sleep(300 * WEFT_MS);
    CHECK_INT(cpu_time() - before, <, 100 * WEFT_MS);
    waits_and_reads();
    return arg;
}

static void says_it_once(void *arg)
{
    in_a_fiber(1, loses_and_sleeps, arg);
    in_a_fiber(1, loses_and_sleeps, arg);
}

TEST(a_worker_without_its_set_does_not_spin)
{
    CHECK_CHILD(says_it_once, NULL, 0, NULL);
}

/* No other set can be made: there is no number for it, and what would wake the worker is gone too. */
static void *loses_and_sleeps_in_want(void *arg)
{
    struct rlimit before;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
    for (int what = 0; what < 2; what++) {
        waits_and_reads();
        if (what == 0)
            CHECK_INT(close_all_own(false), >=, 2);
        else
            close_kind("[eventpoll]"); /* the eventfd stays, and has been written to */
        limit_to(0);
        wf_sys_fail(1u << WF_SYS_EPOLL, 0, 0); /* counts, and lets none fail */
        weft_sleep(300 * WEFT_MS);
        CHECK_INT(wf_sys_calls(), >, 0);
        CHECK_INT(wf_sys_calls(), <, 300); /* once in 10 ms */
        wf_sys_fail(0, 0, 0);
        limit_to(before.rlim_cur);
        waits_and_reads();
    }
    return arg;
}

static void is_in_want(void *arg)
{
    CHECK_INT(weft_run(loses_and_sleeps_in_want, arg, NULL, &(weft_sched_opts){.threads = 1, .io = WEFT_IO_EPOLL}), ==,
              0);
}

TEST(a_worker_that_gets_no_other_set_does_not_spin)
{
    CHECK_CHILD(is_in_want, NULL, 0, NULL);
}

static void loses_an_epoll_set(void *arg)
{
    CHECK_INT(weft_run(loses_and_sleeps, arg, NULL, &(weft_sched_opts){.threads = 1, .io = WEFT_IO_EPOLL}), ==, 0);
    CHECK_INT(weft_run(loses_and_sleeps, arg, NULL, &(weft_sched_opts){.threads = 1, .io = WEFT_IO_EPOLL}), ==, 0);
}

TEST(a_worker_says_that_its_set_is_gone)
{
    CHECK_CHILD(loses_an_epoll_set, NULL, 0, "closed by the program");
}

/* Another worker, which is asleep, is woken all the same: its set is there, only what wakes it is gone. */
static weft_fiber *go_there(weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    int there = WEFT_WORKER(1 - weft_fiber_worker(weft_fiber_current()));
    CHECK_INT(weft_go_with(&f, (&(weft_attr){.worker = there}), fn, arg), ==, 0);
    return f;
}

static void *closes_what_wakes_the_other(void *arg)
{
    struct pair p = pipe_pair(0);
    waits_and_reads();
    weft_fiber *reader = go_there(reads_one, &p.a);
    AWAIT(is_parked(reader));
    weft_sleep(100 * WEFT_MS);
    close_kind("[eventfd]");
    for (int i = 0; i < 3; i++)
        CHECK_PTR(ended(go_there(returns_at_once, ptr(i))), ==, ptr(i));
    CHECK_INT(write(p.b, "x", 1), ==, 1);
    CHECK_PTR(ended(reader), ==, ptr(1));
    close_pair(p);
    return arg;
}

static void loses_what_wakes(void *arg)
{
    in_a_fiber(2, closes_what_wakes_the_other, arg);
    fprintf(stderr, "and went on\n");
}

TEST(a_worker_is_woken_though_what_wakes_it_was_closed)
{
    CHECK_CHILD(loses_what_wakes, NULL, 0, "and went on");
}

static bool sleeps_on_io(const weft_sched *s)
{
    return wf_load(&s->worker[0]->driver.asleep) == WF_DOWN_ON_IO;
}

static void *uses_the_driver(void *arg)
{
    waits_and_reads();
    return arg;
}

/* All that it has are gone while it sleeps in its ring: nothing is left by which another thread could reach it. */
static void loses_all_in_its_sleep(void *arg)
{
    weft_sched *s = NULL;
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .io = WEFT_IO_URING}), ==, 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    for (int round = 0; round < 2; round++) {
        ended(go_on(s, uses_the_driver, NULL));
        AWAIT(sleeps_on_io(s));
        CHECK_INT(close_all_own(arg != NULL), >=, 1);
        weft_fiber *f = go_on(s, returns_at_once, NULL);
        AWAIT(weft_fiber_state(f) == WEFT_FIBER_DONE); /* within a second or so */
        if (test_has_failed())
            _exit(1); /* it never will */
        ended(f);
    }
    end_sched(s);
}

TEST(a_ring_that_lost_all_in_its_sleep_goes_on)
{
    if (strcmp(weft_io_backend(), "io_uring") != 0)
        SKIP("of rings");
    CHECK_CHILD(loses_all_in_its_sleep, NULL, 0, "closed by the program");
    CHECK_CHILD(loses_all_in_its_sleep, ptr(1), 0, "closed by the program");
}

/* ---- rings that their threads cannot enter without a descriptor, as on old kernels ---- */

static void *closes_what_polls_wait_with(void *arg)
{
    struct pair p[2] = {pipe_pair(0), unix_pair(SOCK_STREAM)};
    weft_fiber *f[2] = {go_here(waits_for_one, &p[0].a), go_here(polls_one, &p[1].a)};
    AWAIT(is_parked(f[0]) && is_parked(f[1]));
    weft_sleep(100 * WEFT_MS);
    CHECK_INT(close_all_own(arg != NULL), >=, 2);
    weft_sleep(10 * WEFT_MS);
    CHECK_INT(write(p[0].b, "x", 1), ==, 1);
    CHECK_INT(write(p[1].b, "x", 1), ==, 1);
    CHECK_PTR(ended(f[0]), ==, ptr(POLLIN));
    CHECK_PTR(ended(f[1]), ==, ptr(1));
    waits_and_reads();
    close_pair(p[0]);
    close_pair(p[1]);
    return NULL;
}

static void run_with_rings(weft_fn *fn, void *arg)
{
    wf_sys_fail(1u << WF_SYS_URING_ENTRY, 1, 1000);
    CHECK_INT(weft_run(fn, arg, NULL, &(weft_sched_opts){.threads = 1, .io = WEFT_IO_URING}), ==, 0);
    wf_sys_fail(0, 0, 0);
}

static void loses_rings_with_polls(void *arg)
{
    (void)arg;
    run_with_rings(closes_what_polls_wait_with, NULL);
    run_with_rings(closes_what_polls_wait_with, ptr(1));
}

static void *closes_what_calls_are_in(void *arg)
{
    struct pair p = pipe_pair(0);
    weft_fiber *f = go_here(reads_one, &p.a);
    AWAIT(is_parked(f));
    weft_sleep(5 * WEFT_MS);
    close_all_own(false);
    weft_sleep(5 * WEFT_MS);
    return arg;
}

static void loses_rings_with_calls(void *arg)
{
    run_with_rings(closes_what_calls_are_in, arg);
}

static void *asks_for_the_driver(void *arg)
{
    *(const char **)arg = weft_io_backend();
    return NULL;
}

static bool has_rings(void)
{
    const char *driver = "";
    CHECK_INT(weft_run(asks_for_the_driver, &driver, NULL, &(weft_sched_opts){.threads = 1, .io = WEFT_IO_URING}), ==,
              0);
    return strcmp(driver, "io_uring") == 0;
}

TEST(a_ring_that_is_gone_is_made_anew_with_its_polls)
{
    if (!has_rings())
        SKIP("there is no io_uring");
    CHECK_CHILD(loses_rings_with_polls, NULL, 0, "the ring of worker 0");
}

TEST(a_ring_that_is_gone_with_calls_in_it_ends_the_program)
{
    if (!has_rings())
        SKIP("there is no io_uring");
    CHECK_CHILD(loses_rings_with_calls, NULL, SIGABRT, "while calls are in it");
}

/* ---- none is left ---- */

static void *uses_all(void *arg)
{
    int rung = 0;
    waits_and_reads();
    CHECK_INT(weft_alarm_new(NULL, (weft_wall){weft_wall_now().ns + WEFT_MS}, NULL, beeps, &rung), ==, 0);
    AWAIT(seen(&rung) == 1);
    weft_time soon = weft_in(WEFT_MS);
    CHECK_PTR(waits_for_a_signal(&soon), ==, ptr(-ETIMEDOUT));
    struct sockaddr_in at;
    int l = listener(&at);
    CHECK_INT(weft_accept(l, NULL, NULL, 0, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_close(l), ==, 0);
    return arg;
}

TEST(many_schedulers_leave_no_descriptor)
{
    in_a_fiber(2, uses_all, NULL);
    int before = count_descriptors(), own[MOST];
    for (int i = 0; i < 40; i++)
        in_a_fiber(i % 2 ? 1 : 3, uses_all, NULL);
    CHECK_INT(count_descriptors(), ==, before);
    CHECK_INT(own_numbers(own), ==, 0);
}

/* ---- fork ---- */

static void *forks_one(void *arg)
{
    waits_and_reads();
    int lowest = closed_number();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int own[MOST];
        CHECK_INT(own_numbers(own), ==, 0);
        waits_and_reads();
        CHECK_INT(closed_number(), ==, lowest);
        int count = own_numbers(own);
        CHECK_INT(count, >=, 2);
        for (int i = 0; i < count; i++) {
            CHECK_INT(own[i], >, REACH);
            CHECK_INT(weft_close(own[i]), ==, -EBADF);
        }
        _exit(0);
    }
    int status = -1;
    CHECK_INT(weft_wait_child(pid, &status, weft_in(100 * WEFT_SEC)), ==, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    waits_and_reads();
    return arg;
}

TEST(a_child_has_own_descriptors_out_of_reach)
{
    if (WF_TSAN)
        SKIP("after a fork TSan takes every fiber but the current one for ended");
    in_a_fiber(1, forks_one, NULL);
}

TESTS(io_own, a_closed_number_is_ebadf_though_the_worker_has_no_set_yet, a_closed_number_is_ebadf_on_a_plain_thread,
      own_descriptors_leave_the_low_numbers_to_the_program, what_calls_wait_with_is_out_of_the_programs_range,
      a_second_close_is_ebadf_and_the_worker_goes_on, weft_close_of_an_own_descriptor_is_ebadf_and_leaves_it,
      own_descriptors_stay_below_the_limit, the_limit_may_be_lowered_later, where_no_high_number_is_free_a_low_one_does,
      a_worker_whose_descriptors_were_closed_goes_on, a_worker_whose_descriptors_were_replaced_goes_on,
      a_worker_without_its_set_does_not_spin, a_worker_that_gets_no_other_set_does_not_spin,
      a_worker_says_that_its_set_is_gone, a_worker_is_woken_though_what_wakes_it_was_closed,
      a_ring_that_lost_all_in_its_sleep_goes_on, a_ring_that_is_gone_is_made_anew_with_its_polls,
      a_ring_that_is_gone_with_calls_in_it_ends_the_program, many_schedulers_leave_no_descriptor,
      a_child_has_own_descriptors_out_of_reach)
