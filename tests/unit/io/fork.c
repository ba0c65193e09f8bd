/*
 * fork in a fiber, with I/O in flight: the child goes on as the only fiber of a runtime with one worker and can do all that
 * a fiber may; the parent does not notice.
 */
#include <dirent.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "unit/io/ground.h"

/* A child goes on in body(arg), and ends by _exit; its failed checks are the test's. */
static pid_t forks(void (*body)(void *), void *arg)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        body(arg);
        _exit(0);
    }
    CHECK_INT(pid, >, 0);
    return pid;
}

static void ends_well(pid_t pid)
{
    int status = -1;
    CHECK_INT(weft_wait_child(pid, &status, weft_in(100 * WEFT_SEC)), ==, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The most workers of a parent whose child allocates memory: a sanitizer's own locks do not survive a fork beside threads. */
enum { SEVERAL = WF_ASAN ? 1 : 4 };

/* What children write, and their parent sees. */
struct board {
    int parent; /* const: its pid */
    int strays; /* atomic: fibers, timers and watches of the parent that ran in a child */
    int done;   /* atomic */
};

static struct board *new_board(void)
{
    struct board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    b->parent = getpid();
    return b;
}

/* ---- traffic ---- */

enum { PAIRS = 8, SIDES = 2 * PAIRS };

/* Pairs of fibers that send each other bytes until `stop` is set; and how often each has. */
struct traffic {
    struct board *board;
    int stop;          /* atomic */
    int rounds[SIDES]; /* atomic */
    int fds[SIDES];
    weft_fiber *fibers[SIDES];
};

struct side {
    struct traffic *of;
    int index, fd;
};

static void *sends_and_receives(void *arg)
{
    struct side s = *(struct side *)arg;
    bool begins = s.index % 2 == 0;
    free(arg);
    for (unsigned char n = 0;; n++) {
        unsigned char byte = n;
        if (getpid() != s.of->board->parent)
            more(&s.of->board->strays);
        if (begins && (seen(&s.of->stop) || weft_write(s.fd, &byte, 1, WEFT_FOREVER) != 1))
            break;
        if (weft_read(s.fd, &byte, 1, WEFT_FOREVER) != 1)
            break;
        CHECK_INT(byte, ==, n);
        if (!begins)
            CHECK_INT(weft_write(s.fd, &byte, 1, WEFT_FOREVER), ==, 1);
        more(&s.of->rounds[s.index]);
    }
    CHECK_INT(weft_close(s.fd), ==, 0);
    return NULL;
}

static void new_side(struct traffic *t, int index, int fd)
{
    struct side *s = malloc(sizeof *s);
    if (!s)
        abort();
    *s = (struct side){t, index, fd};
    t->fds[index] = fd;
    t->fibers[index] = go(sends_and_receives, s);
}

/* Every fiber of it goes on. */
static void await_rounds(struct traffic *t)
{
    int before[SIDES];
    for (int i = 0; i < SIDES; i++)
        before[i] = seen(&t->rounds[i]);
    for (int i = 0; i < SIDES; i++)
        AWAIT(seen(&t->rounds[i]) > before[i] + 5);
}

static void begin_traffic(struct traffic *t, struct board *b)
{
    *t = (struct traffic){.board = b};
    for (int i = 0; i < PAIRS; i++) {
        struct pair p = i % 2 ? tcp_pair() : unix_pair(SOCK_STREAM);
        new_side(t, 2 * i, p.a);
        new_side(t, 2 * i + 1, p.b);
    }
    await_rounds(t);
}

static void end_traffic(struct traffic *t)
{
    await_rounds(t);
    put(&t->stop, 1);
    for (int i = 0; i < SIDES; i++)
        ended(t->fibers[i]);
}

/* ---- what a child can do ---- */

struct inherited {
    const struct traffic *traffic;
    struct pair pipe;
    char address[32];
    weft_chan *chan;
};

static void *adds_one(void *arg)
{
    weft_yield();
    return ptr((intptr_t)arg + 1);
}

static void *writes_later(void *arg)
{
    weft_sleep(3 * WEFT_MS);
    CHECK_INT(weft_write(*(int *)arg, "hello", 5, WEFT_FOREVER), ==, 5);
    return NULL;
}

static void *sends_a_number(void *arg)
{
    int n = 42;
    CHECK_INT(weft_chan_send(arg, &n, WEFT_FOREVER), ==, 0);
    return NULL;
}

static void rings(void *arg)
{
    CHECK_INT(weft_event_set(arg), ==, 0);
}

static void *on_a_helper(void *arg)
{
    CHECK(weft_fiber_current() == NULL);
    return arg;
}

static void talks_to(const char *address)
{
    int fd = weft_dial(address, weft_in(100 * WEFT_SEC));
    char buffer[8];
    CHECK_INT(fd, >=, 0);
    CHECK_INT(weft_write_all(fd, "abcd", 4, NULL, WEFT_FOREVER), ==, 4);
    CHECK_INT(weft_read_full(fd, buffer, 4, NULL, weft_in(100 * WEFT_SEC)), ==, 4);
    CHECK(memcmp(buffer, "abcd", 4) == 0);
    CHECK_INT(weft_close(fd), ==, 0);
}

static void does_all(void *arg)
{
    struct inherited *in = arg;
    char buffer[16];
    weft_sched_figures figures = {.size = sizeof figures};
    CHECK_INT(weft_sched_stats(weft_sched_current(), &figures), ==, 0);
    CHECK_INT(figures.workers, ==, 1);
    CHECK_INT(figures.parked + figures.ready + figures.timers + figures.watches, ==, 0);
    CHECK_INT(figures.spawned - figures.ended, ==, 1);
    CHECK_INT(weft_fiber_worker(weft_fiber_current()), ==, 0);
    for (int round = 0; round < 3; round++) {
        weft_time until = weft_in(2 * WEFT_MS);
        CHECK_INT(weft_sleep_until(until), ==, 0);
        CHECK_INT(weft_now().ns, >=, until.ns);
        CHECK_PTR(ended(go(adds_one, ptr(round))), ==, ptr(round + 1));
        CHECK_INT(weft_read(in->pipe.a, buffer, sizeof buffer, weft_in(2 * WEFT_MS)), ==, -ETIMEDOUT);
        weft_fiber *f = go(writes_later, &in->pipe.b);
        CHECK_INT(weft_read(in->pipe.a, buffer, sizeof buffer, WEFT_FOREVER), ==, 5);
        ended(f);
        int n = 0;
        f = go(sends_a_number, in->chan);
        CHECK_INT(weft_chan_recv(in->chan, &n, WEFT_FOREVER), ==, 0);
        CHECK_INT(n, ==, 42);
        ended(f);
        weft_event rung = {0};
        CHECK_INT(weft_timer_new(NULL, WEFT_MS, false, NULL, rings, &rung), ==, 0);
        CHECK_INT(weft_event_wait(&rung, weft_in(100 * WEFT_SEC)), ==, 0);
        talks_to(in->address);
        void *value = NULL;
        CHECK_INT(weft_offload(on_a_helper, ptr(7), &value, WEFT_FOREVER), ==, 0);
        CHECK_PTR(value, ==, ptr(7));
    }
}

static void echoes(int fd, void *arg)
{
    char buffer[64];
    ptrdiff_t n;
    (void)arg;
    while ((n = weft_read(fd, buffer, sizeof buffer, WEFT_FOREVER)) > 0) {
        if (weft_write_all(fd, buffer, (size_t)n, NULL, WEFT_FOREVER) < 0)
            return;
    }
}

static void *serves(void *arg)
{
    return ptr(weft_serve(*(int *)arg, echoes, NULL, NULL, WEFT_FOREVER));
}

struct ground {
    struct traffic traffic;
    struct inherited in;
    struct board *board;
    int listener;
    weft_fiber *server;
};

static void begin_ground(struct ground *g)
{
    *g = (struct ground){.board = new_board(), .listener = weft_listen("127.0.0.1:0"), .in.pipe = pipe_pair(0)};
    g->in.traffic = &g->traffic;
    snprintf(g->in.address, sizeof g->in.address, "127.0.0.1:%d", weft_port(g->listener));
    CHECK_INT(weft_chan_new(&g->in.chan, sizeof(int), 0), ==, 0);
    g->server = go(serves, &g->listener);
    begin_traffic(&g->traffic, g->board);
}

static void end_ground(struct ground *g)
{
    talks_to(g->in.address); /* the server is as it was */
    end_traffic(&g->traffic);
    CHECK_INT(weft_close(g->listener), ==, 0);
    CHECK_PTR(ended(g->server), ==, ptr(0));
    close_pair(g->in.pipe);
    CHECK_INT(weft_chan_free(g->in.chan), ==, 0);
    CHECK_INT(seen(&g->board->strays), ==, 0);
    munmap(g->board, sizeof *g->board);
}

/* What others of the parent wait for is nobody's here, and can be closed. */
static void closes_all(void *arg)
{
    const struct inherited *in = arg;
    does_all(arg);
    for (int i = 0; i < SIDES; i++)
        CHECK_INT(weft_close(in->traffic->fds[i]), ==, 0);
}

static void *forks_a_child_that_does_all(void *arg)
{
    struct ground g;
    begin_ground(&g);
    for (int i = 0; i < 3; i++)
        ends_well(forks(i == 1 ? closes_all : does_all, &g.in));
    end_ground(&g);
    return arg;
}

#define SKIP_UNDER_TSAN()                                                                                              \
    do {                                                                                                               \
        if (WF_TSAN)                                                                                                   \
            SKIP("after a fork TSan takes every fiber but the current one for ended");                                 \
    } while (0)

TEST(a_child_does_all_that_a_fiber_may)
{
    SKIP_UNDER_TSAN();
    in_a_fiber(1, forks_a_child_that_does_all, NULL);
    in_a_fiber(SEVERAL, forks_a_child_that_does_all, NULL);
}

/* ---- many children, beside traffic ---- */

static void does_a_little(void *arg)
{
    const struct inherited *in = arg;
    char byte;
    CHECK_INT(weft_read(in->pipe.a, &byte, 1, weft_in(100 * WEFT_US)), ==, -ETIMEDOUT);
    CHECK_PTR(ended(go(adds_one, ptr(1))), ==, ptr(2));
}

static void does_nothing(void *arg)
{
    (void)arg;
}

struct forker {
    struct inherited *in;
    int children;
};

static void *forks_many(void *arg)
{
    const struct forker *f = arg;
    bool may = !WF_TSAN && figures(weft_sched_current()).workers <= SEVERAL;
    for (int i = 0; i < f->children; i++)
        ends_well(forks(may ? does_a_little : does_nothing, f->in));
    return NULL;
}

static void *forks_a_hundred(void *arg)
{
    enum { FORKERS = 4 };
    struct ground g;
    begin_ground(&g);
    struct forker f = {&g.in, 100 / FORKERS};
    weft_fiber *forkers[FORKERS];
    for (int i = 0; i < FORKERS; i++)
        forkers[i] = go(forks_many, &f);
    for (int i = 0; i < FORKERS; i++)
        ended(forkers[i]);
    end_ground(&g);
    return arg;
}

TEST(a_hundred_children_beside_traffic)
{
    in_a_fiber(1, forks_a_hundred, NULL);
    in_a_fiber(4, forks_a_hundred, NULL);
}

/* ---- descriptors ---- */

/* How many of this process's descriptors are of a kind: "eventpoll", "io_uring". */
static int count_kind(const char *kind)
{
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    for (struct dirent *e; all && (e = readdir(all)) != NULL;) {
        char to[64] = "";
        if (readlinkat(dirfd(all), e->d_name, to, sizeof to - 1) > 0)
            count += strstr(to, kind) != NULL;
    }
    if (all)
        closedir(all);
    return count;
}

static int count_sets(void)
{
    return count_kind("eventpoll") + count_kind("io_uring");
}

static void counts_its_descriptors(void *arg)
{
    const struct inherited *in = arg;
    char byte;
    CHECK_INT(count_sets(), ==, 0); /* not even its own, before it waits */
    CHECK_INT(count_kind("eventfd"), ==, 0);
    CHECK_INT(fcntl(in->pipe.a, F_GETFD), ==, FD_CLOEXEC);
    CHECK_INT(fcntl(in->pipe.b, F_GETFD), ==, FD_CLOEXEC);
    if (!WF_TSAN) {
        CHECK_INT(weft_read(in->pipe.a, &byte, 1, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
        CHECK_INT(count_sets(), ==, 1);
    }
}

static void *forks_one_that_counts(void *arg)
{
    struct ground g;
    begin_ground(&g);
    int sets = count_sets();
    CHECK_INT(sets, >, 0);
    ends_well(forks(counts_its_descriptors, &g.in));
    CHECK_INT(count_sets(), >=, sets);
    end_ground(&g);
    return arg;
}

TEST(what_the_parent_waits_with_is_closed_in_a_child)
{
    if (TEST_EMULATED)
        SKIP("the emulator has descriptors of its own");
    in_a_fiber(1, forks_one_that_counts, NULL);
    in_a_fiber(SEVERAL, forks_one_that_counts, NULL);
}

/* ---- nothing of the parent's runs in a child ---- */

static struct board *on_board;

static void notes_a_stray(void *arg)
{
    (void)arg;
    if (getpid() != on_board->parent)
        more(&on_board->strays);
}

static void notes_a_stray_watch(int fd, unsigned events, void *arg)
{
    (void)fd, (void)events;
    notes_a_stray(arg);
}

static void *sleeps_a_little(void *arg)
{
    weft_sleep(5 * WEFT_MS);
    notes_a_stray(NULL);
    return arg;
}

static void *yields_for_ever(void *arg)
{
    while (!seen(arg)) {
        weft_yield();
        notes_a_stray(NULL);
    }
    return NULL;
}

static void *helps_a_little(void *arg)
{
    struct timespec pause = {.tv_nsec = 5000000};
    nanosleep(&pause, NULL);
    return arg;
}

static void *waits_for_a_helper(void *arg)
{
    CHECK_INT(weft_offload(helps_a_little, NULL, NULL, WEFT_FOREVER), ==, 0);
    notes_a_stray(NULL);
    return arg;
}

static void sleeps_for_long(void *arg)
{
    const struct pair *p = arg;
    CHECK_INT(weft_write(p->b, "x", 1, WEFT_FOREVER), ==, 1); /* the parent's watch may see it */
    for (int i = 0; i < 30; i++) {
        weft_yield();
        CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    }
    CHECK_INT(weft_wait_fd(p->a, POLLIN, WEFT_FOREVER), ==, POLLIN);
}

static void *forks_beside_all_kinds(void *arg)
{
    struct pair p = pipe_pair(0), q = pipe_pair(0);
    weft_timer *timer;
    weft_fiber *f[12];
    int stop = 0;
    on_board = new_board();
    CHECK_INT(weft_watch_add(p.a, WEFT_READ, notes_a_stray_watch, NULL), ==, 0);
    CHECK_INT(weft_timer_new(&timer, 3 * WEFT_MS, true, NULL, notes_a_stray, NULL), ==, 0);
    CHECK_INT(weft_timer_new(NULL, 3 * WEFT_MS, false, NULL, notes_a_stray, NULL), ==, 0);
    for (int i = 0; i < 4; i++) {
        f[3 * i] = go(sleeps_a_little, NULL);
        f[3 * i + 1] = go(yields_for_ever, &stop);
        f[3 * i + 2] = go(waits_for_a_helper, NULL);
    }
    weft_yield();
    ends_well(forks(sleeps_for_long, &p));
    put(&stop, 1);
    for (int i = 0; i < 12; i++)
        ended(f[i]);
    CHECK_INT(weft_timer_free(timer), >=, 0);
    CHECK_INT(seen(&on_board->strays), ==, 0);
    munmap(on_board, sizeof *on_board);
    close_pair(p);
    close_pair(q);
    return arg;
}

TEST(nothing_of_the_parents_runs_in_a_child)
{
    SKIP_UNDER_TSAN();
    in_a_fiber(1, forks_beside_all_kinds, NULL);
    in_a_fiber(SEVERAL, forks_beside_all_kinds, NULL);
}

/* ---- how a child ends ---- */

static void *forks_and_returns(void *arg)
{
    pid_t *pid = arg;
    fflush(stdout);
    *pid = fork();
    CHECK_INT(weft_sleep(WEFT_MS), ==, 0); /* in both */
    return ptr(*pid == 0 ? 1 : 2);
}

/* On the thread that called weft_run, that returns in the child too. */
TEST(weft_run_returns_in_a_child_as_well)
{
    pid_t pid = -1;
    void *value = NULL;
    int status = -1;
    SKIP_UNDER_TSAN();
    CHECK_INT(weft_run(forks_and_returns, &pid, &value, &(weft_sched_opts){.threads = 1}), ==, 0);
    CHECK_PTR(value, ==, ptr(pid == 0 ? 1 : 2));
    if (pid == 0) {
        CHECK(weft_sched_current() == NULL);
        in_a_fiber(SEVERAL, forks_a_child_that_does_all, NULL); /* it may all begin anew */
        _exit(0);
    }
    CHECK_INT(weft_wait_child(pid, &status, WEFT_FOREVER), ==, 0);
    CHECK_INT(status, ==, 0);
}

static void *goes_on_for_a_while(void *arg)
{
    struct board *b = arg;
    for (int i = 0; i < 5; i++)
        CHECK_INT(weft_sleep(WEFT_MS), ==, 0);
    if (getpid() != b->parent)
        more(&b->done);
    return NULL;
}

static struct board *exits_on;

static void notes_its_exit(void)
{
    more(&exits_on->done);
    if (WF_ASAN)
        _exit(0); /* before leaks are looked for: what the lost threads have on their stacks nobody sees */
}

static void *forks_and_leaves_others(void *arg)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_INT(atexit(notes_its_exit), ==, 0);
        for (int i = 0; i < 3; i++)
            CHECK_INT(weft_go(goes_on_for_a_while, arg), ==, 0);
    }
    return ptr(pid);
}

/* Elsewhere there is nobody to return to: it exits when its last fiber has ended, with status 0. */
TEST(a_child_without_the_caller_ends_with_its_last_fiber)
{
    SKIP_UNDER_TSAN();
    weft_sched *s = running_sched(3);
    int status = -1;
    exits_on = new_board();
    for (int worker = 0; worker < 3; worker++) {
        weft_fiber *f = NULL;
        CHECK_INT(weft_sched_go(s, &f, &(weft_attr){.worker = WEFT_WORKER(worker)}, forks_and_leaves_others, exits_on),
                  ==, 0);
        pid_t pid = (pid_t)(intptr_t)ended(f);
        CHECK_INT(weft_wait_child(pid, &status, WEFT_FOREVER), ==, 0);
        CHECK_INT(status, ==, 0);
        CHECK_INT(seen(&exits_on->done), ==, 4 * (worker + 1));
    }
    munmap(exits_on, sizeof *exits_on);
    end_sched(s);
}

static void forks_again(void *arg)
{
    does_all(arg);
    ends_well(forks(does_all, arg));
    does_all(arg);
}

static void *forks_a_child_that_forks(void *arg)
{
    struct ground g;
    begin_ground(&g);
    ends_well(forks(forks_again, &g.in));
    end_ground(&g);
    return arg;
}

TEST(a_child_forks_again)
{
    SKIP_UNDER_TSAN();
    in_a_fiber(1, forks_a_child_that_forks, NULL);
    in_a_fiber(SEVERAL, forks_a_child_that_forks, NULL);
}

/* ---- plain threads ---- */

static void begins_anew(void *arg)
{
    CHECK(weft_fiber_current() == NULL);
    CHECK(weft_sched_current() == NULL);
    CHECK_INT(weft_go(adds_one, NULL), ==, -ENXIO);
    for (int i = 0; i < 2; i++) {
        in_a_fiber(1, forks_a_child_that_does_all, arg);
        in_a_fiber(4, forks_a_child_that_does_all, arg);
    }
}

static void *forks_on_a_thread(void *arg)
{
    for (int i = 0; i < 3; i++)
        ends_well(forks(WF_TSAN || WF_ASAN ? does_nothing : begins_anew, NULL)); /* see SEVERAL */
    put(arg, 1);
    return NULL;
}

static void *has_a_thread_that_forks(void *arg)
{
    struct ground g;
    int done = 0;
    begin_ground(&g);
    pthread_t t = new_thread(forks_on_a_thread, &done);
    while (!seen(&done))
        weft_sleep(WEFT_MS);
    pthread_join(t, NULL);
    end_ground(&g);
    return arg;
}

TEST(a_child_of_a_plain_thread_begins_anew)
{
    in_a_fiber(1, has_a_thread_that_forks, NULL);
    in_a_fiber(4, has_a_thread_that_forks, NULL);
}

/* ---- a handler that forks ---- */

static void forks_and_answers(int fd, void *arg)
{
    struct board *b = arg;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_INT(weft_write_all(fd, "child", 5, NULL, WEFT_FOREVER), ==, 5);
        return; /* and that is all: its runtime ends */
    }
    ends_well(pid);
    CHECK_INT(weft_write_all(fd, "and I", 5, NULL, WEFT_FOREVER), ==, 5);
    more(&b->done);
}

struct serving {
    int listener;
    struct board *board;
};

static void *serves_by_children(void *arg)
{
    const struct serving *s = arg;
    return ptr(weft_serve(s->listener, forks_and_answers, s->board, NULL, WEFT_FOREVER));
}

static void *asks_children(void *arg)
{
    struct serving s = {weft_listen("127.0.0.1:0"), arg};
    weft_fiber *server = go(serves_by_children, &s);
    char address[32], answer[11] = "";
    snprintf(address, sizeof address, "127.0.0.1:%d", weft_port(s.listener));
    for (int i = 0; i < 3; i++) {
        int fd = weft_dial(address, WEFT_FOREVER);
        CHECK_INT(weft_read_full(fd, answer, 10, NULL, weft_in(100 * WEFT_SEC)), ==, 10);
        CHECK_STR(answer, "childand I");
        CHECK_INT(weft_close(fd), ==, 0);
    }
    CHECK_INT(weft_close(s.listener), ==, 0);
    CHECK_PTR(ended(server), ==, ptr(0));
    return NULL;
}

TEST(a_handler_forks_and_its_child_ends_with_it)
{
    SKIP_UNDER_TSAN();
    for (unsigned workers = 1; workers <= SEVERAL; workers++) {
        struct board *b = new_board();
        int rc = weft_run(asks_children, b, NULL, &(weft_sched_opts){.threads = workers});
        if (getpid() != b->parent) {
            CHECK_INT(rc, ==, -ESRCH); /* the first fiber, whose value it would be, is not there */
            _exit(0);
        }
        CHECK_INT(rc, ==, 0);
        CHECK_INT(seen(&b->done), ==, 3);
        munmap(b, sizeof *b);
    }
}

TESTS(io_fork, a_child_does_all_that_a_fiber_may, a_hundred_children_beside_traffic,
      what_the_parent_waits_with_is_closed_in_a_child, nothing_of_the_parents_runs_in_a_child,
      weft_run_returns_in_a_child_as_well, a_child_without_the_caller_ends_with_its_last_fiber, a_child_forks_again,
      a_child_of_a_plain_thread_begins_anew, a_handler_forks_and_its_child_ends_with_it)
