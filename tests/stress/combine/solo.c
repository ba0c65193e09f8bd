/*
 * combine/solo.c: tests that can run only while no scene does: limits of the whole process, and descriptor numbers that
 * are closed once too often. Each part makes a small runtime of its own.
 */
#include "stress/combine/combine.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/un.h>

static weft_sched_opts small(uint64_t *random)
{
    weft_sched_opts opts = {.size = sizeof opts, .name = "solo", .threads = 1 + pick(random, 2)};
    opts.io = chance(random, 2) ? WEFT_IO_EPOLL : WEFT_IO_URING;
    return opts;
}

/* ---- no descriptor is left ---- */

static void handle(int fd, void *arg)
{
    (void)fd;
    (void)arg;
}

/* A server that cannot accept for want of descriptors ends at its deadline all the same. */
static void *serves_without_descriptors(void *arg)
{
    int *listener = arg;
    struct rlimit limit, less;
    weft_wait_fd(*listener, POLLPRI, weft_in(WEFT_MS)); /* what the worker needs for a wait is there from now on */
    int lowest = dup(*listener);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    less = limit;
    less.rlim_cur = (rlim_t)lowest;
    close(lowest);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &less), ==, 0);
    weft_time deadline = weft_in(12 * WEFT_MS);
    CHECK_INT(weft_serve(*listener, handle, NULL, NULL, deadline), ==, 0);
    CHECK_INT(weft_now().ns, >=, deadline.ns);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    return NULL;
}

static void lack_descriptors(uint64_t *random)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    socklen_t size = sizeof at;
    weft_sched_opts opts = small(random);
    int l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), c = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(l, (struct sockaddr *)&at, offsetof(struct sockaddr_un, sun_path)) == 0 && listen(l, 4) == 0);
    CHECK(getsockname(l, (struct sockaddr *)&at, &size) == 0 && connect(c, (struct sockaddr *)&at, size) == 0);
    watch_solo("weft_serve at its deadline without descriptors");
    CHECK_INT(weft_run(serves_without_descriptors, &l, NULL, &opts), ==, 0);
    watch_solo(NULL);
    CHECK_INT(weft_close(l), ==, 0);
    CHECK_INT(weft_close(c), ==, 0);
}

/* ---- closed twice ---- */

enum { TIMES = 6 };

struct twice {
    unsigned workers;
    int fds[2];
    int ready;  /* flag: what the worker needs for waits is there */
    int got;    /* flag */
    int second; /* what the second close returned */
};

static void *reads_one(void *arg)
{
    struct twice *t = arg;
    char c = 0;
    CHECK_INT(weft_read(t->fds[0], &c, 1, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    put(&t->ready, 1);
    put(&t->got, weft_read(t->fds[0], &c, 1, WEFT_FOREVER) == 1 && c == 'x' ? 1 : -1);
    return NULL;
}

/* A number that was closed is closed once more when the library has taken descriptors of its own. */
static void *closes_twice(void *arg)
{
    struct twice *t = arg;
    weft_fiber *f = NULL;
    weft_attr attr = {.size = sizeof attr, .worker = WEFT_WORKER(t->workers - 1)};
    CHECK_INT(pipe2(t->fds, O_CLOEXEC | O_NONBLOCK), ==, 0);
    int number = eventfd(0, EFD_CLOEXEC);
    CHECK_INT(weft_close(number), ==, 0);
    CHECK_INT(weft_go_with(&f, &attr, reads_one, t), ==, 0);
    AWAIT(seen(&t->ready) && is_parked(f));
    t->second = weft_close(number);
    CHECK_INT(write(t->fds[1], "x", 1), ==, 1);
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
    CHECK_INT(t->got, ==, 1);
    CHECK_INT(weft_close(t->fds[0]), ==, 0);
    CHECK_INT(weft_close(t->fds[1]), ==, 0);
    return NULL;
}

/*
 * While the library makes a descriptor the kernel gives it the lowest number, for a moment. So the second close may find one
 * now and then; if it does each time, that is where the library keeps its own.
 */
static void close_twice(uint64_t *random)
{
    weft_sched_opts opts = small(random);
    unsigned found = 0;
    watch_solo("a number that is closed twice");
    for (unsigned i = 0; i < TIMES && found == i; i++) {
        struct twice t = {.workers = opts.threads};
        CHECK_INT(weft_run(closes_twice, &t, NULL, &opts), ==, 0);
        CHECK(t.second == 0 || t.second == -EBADF);
        found += t.second == 0;
    }
    if (found == TIMES)
        WRONG(NULL, "a number that is closed for the second time is one of the library's own");
    watch_solo(NULL);
}

void play_solo(uint64_t *random)
{
    const char *wish = getenv("WEFT_COMBINE_SCENES");
    unsigned which = pick(random, 4);
    int descriptors = count_descriptors();
    if (wish && *wish && *wish != '-' && !strstr(wish, "solo"))
        return;
    if (wish && strstr(wish, "-solo"))
        return;
    if (which == 0)
        lack_descriptors(random);
    else if (which == 1 && !COMBINE_TSAN) /* which rightly reports the second close */
        close_twice(random);
    CHECK_INT(count_descriptors(), ==, descriptors);
}
