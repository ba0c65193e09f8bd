/*
 * tests/clients/fleet.c: see fleet.h.
 *
 * Stacks: what the first fiber took of its is printed with each run. With the libraries of Debian 12 on x86_64 that is 18 KiB
 * with hiredis (it reads to a buffer of 16 KiB there), 11 with libpq and libmariadb, 10 with libmemcached and 9 with libcurl
 * and OpenSSL: the default of 236 KiB is more than enough for all of them.
 */
#include "clients/fleet.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <weft/hook.h>

#define FIBERS 200     /* each with a connection of its own; servers allow 600 */
#define TRIES 5        /* of what must be quick once */
#define FIBERS_OFF 10  /* without the hooks they take turns */
#define TURNS 6        /* questions of each fiber */
#define LATE_FIBERS 20 /* that wait for a time limit */
#define GAPS 20000     /* of the ticker that are kept */
#define PATIENCE weft_in(60 * WEFT_SEC)

static const struct client *client; /* const after fleet_main has begun */

/* A run. The fibers of all workers read it; who writes is said. */
static struct {
    const struct fleet *fleet; /* const while it runs */
    weft_barrier gate;
    weft_time start, end; /* of the work; atomic, by the fiber that lets all others pass */
    size_t stack;         /* bytes of it; by the first fiber */
    bool over;            /* the ticker is to end; by the first fiber, and the ticker is on its worker */
    int ticks;            /* by the ticker */
    weft_span gaps[GAPS]; /* by the ticker */
} run;

/* Waits for all others; the last to come tells the time. */
static void pass_gate(weft_time *when)
{
    int rc = weft_barrier_wait(&run.gate, PATIENCE);
    CHECK_INT(rc, >=, 0);
    if (rc == 1)
        __atomic_store_n(&when->ns, weft_now().ns, __ATOMIC_RELAXED);
}

static void *use_client(void *arg)
{
    int who = (int)(intptr_t)arg;
    void *link = run.fleet->open ? run.fleet->open(who) : NULL;
    pass_gate(&run.start);
    if (link || !run.fleet->open)
        run.fleet->work(link, who);
    pass_gate(&run.end);
    if (link && run.fleet->close)
        run.fleet->close(link);
    return NULL;
}

/* The first fiber works in a coroutine, which tells how much of its stack was used. */
static void *use_client_and_measure(void *arg)
{
    weft_coro *coro = NULL;
    weft_coro_opts opts = {.size = sizeof opts, .flags = WEFT_MEASURE};
    CHECK_INT(weft_coro_new(&coro, use_client, arg, &opts), ==, 0);
    CHECK_INT(weft_coro_resume(coro, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_state(coro), ==, WEFT_CORO_DONE);
    run.stack = weft_coro_stack_used(coro);
    weft_coro_free(coro);
    return NULL;
}

static bool at_work(void)
{
    return __atomic_load_n(&run.start.ns, __ATOMIC_RELAXED) != 0 && __atomic_load_n(&run.end.ns, __ATOMIC_RELAXED) == 0;
}

static void *tick(void *arg)
{
    while (!run.over) {
        bool counts = at_work();
        weft_time last = weft_now();
        weft_sleep(WEFT_MS);
        if (!counts)
            continue;
        if (run.ticks < GAPS)
            run.gaps[run.ticks] = weft_now().ns - last.ns;
        run.ticks++;
    }
    return arg;
}

static void *launch(void *arg)
{
    int n = run.fleet->fibers;
    weft_fiber **fibers = calloc((size_t)n, sizeof *fibers), *ticker = NULL;
    weft_attr attr = {.size = sizeof attr, .worker = WEFT_WORKER(0)};
    CHECK_INT(weft_go_with(&ticker, &attr, tick, NULL), ==, 0);
    for (int i = 0; i < n; i++) {
        attr.worker = WEFT_WORKER((unsigned)i % run.fleet->workers);
        weft_fn *fn = i == 0 ? use_client_and_measure : use_client;
        CHECK_INT(weft_go_with(&fibers[i], &attr, fn, (void *)(intptr_t)i), ==, 0);
    }
    for (int i = 0; i < n; i++)
        CHECK_INT(weft_join(fibers[i], NULL, WEFT_FOREVER), ==, 0);
    run.over = true;
    CHECK_INT(weft_join(ticker, NULL, WEFT_FOREVER), ==, 0);
    free(fibers);
    return arg;
}

static int by_length(const void *a, const void *b)
{
    weft_span x = *(const weft_span *)a, y = *(const weft_span *)b;
    return (x > y) - (x < y);
}

/* So many percent of the ticker's gaps, which are in order, are shorter; in milliseconds. */
static double gap(size_t percent)
{
    size_t kept = (size_t)(run.ticks < GAPS ? run.ticks : GAPS), at = kept * percent / 100;
    return kept ? (double)run.gaps[at < kept ? at : kept - 1] / (double)WEFT_MS : 0;
}

weft_span fleet_run(const struct fleet *fleet, int *ticks)
{
    memset(&run, 0, sizeof run);
    run.fleet = fleet;
    weft_sched_opts opts = {.size = sizeof opts, .threads = fleet->workers};
    CHECK_INT(weft_barrier_init(&run.gate, (unsigned)fleet->fibers), ==, 0);
    CHECK_INT(weft_run(launch, NULL, NULL, &opts), ==, 0);
    qsort(run.gaps, (size_t)(run.ticks < GAPS ? run.ticks : GAPS), sizeof run.gaps[0], by_length);
    printf("%d fibers, workers: %u, %s: %.3f s; %zu KiB of stack; %d ticks, gaps: median %.1f ms, p99 %.1f ms, longest "
           "%.1f ms\n",
           fleet->fibers, fleet->workers, weft_io_backend(), (double)(run.end.ns - run.start.ns) / 1e9,
           (run.stack + 1023) / 1024, run.ticks, gap(50), gap(99), gap(100));
    if (ticks)
        *ticks = run.ticks;
    return run.end.ns - run.start.ns;
}

const char *fleet_silent_port(void)
{
    static char port[8]; /* const after the first call, which is made before the fibers */
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    if (port[0])
        return port;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* open for as long as the program runs */
    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 100) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &size) == 0)
        snprintf(port, sizeof port, "%d", ntohs(at.sin_port));
    return port;
}

TEST(no_call_of_any_library_goes_past_the_hooks)
{
#ifdef __SANITIZE_ADDRESS__
    SKIP("AddressSanitizer stands before the hooks, and calls them");
#else
    CHECK_INT(weft_hook_report(stdout), ==, 0);
#endif
}

const char *fleet_port(void)
{
    const char *port = getenv(client->port);
    return port ? port : "";
}

static bool server_missing(void)
{
    if (!fleet_port()[0])
        test_skip("there is no server; run it by tests/clients/servers, with what tools/setup clients installs");
    return !fleet_port()[0];
}

static void ask_often(void *link, int who)
{
    for (int turn = 0; turn < TURNS; turn++)
        client->ask(link, who, turn);
}

static void answers(unsigned workers, int fibers)
{
    if (!server_missing())
        fleet_run(&(struct fleet){workers, fibers, client->open, ask_often, client->close}, NULL);
}

TEST(every_fiber_gets_its_own_answers_on_one_worker)
{
    answers(1, FIBERS);
}

TEST(every_fiber_gets_its_own_answers_on_two_workers)
{
    answers(2, FIBERS);
}

static void wait_once(void *link, int who)
{
    const char *wrong = client->wait(link, who);
    EXPECT(!wrong, "%d: %s", who, wrong);
}

TEST(two_hundred_waits_on_one_worker_take_the_time_of_one)
{
    int ticks = 0;
    if (server_missing())
        return;
    weft_span took = INT64_MAX;
    for (int i = 0; i < TRIES && took > 3 * FLEET_WAIT; i++) { /* the machine may be busy otherwise */
        took = fleet_run(&(struct fleet){1, FIBERS, client->open, wait_once, client->close}, &ticks);
        CHECK_INT(took, >=, FLEET_WAIT - FLEET_TICK);
        CHECK_INT(ticks, >=, FLEET_WAIT / WEFT_MS / 10);
    }
    CHECK_INT(took, <=, 3 * FLEET_WAIT);
}

static void *wait_in_vain(void *link)
{
    return client->wait(link, 0) ? NULL : link;
}

static void cancel_a_wait(void *link, int who)
{
    (void)who;
    weft_fiber *f = NULL;
    void *answer = link;
    weft_attr attr = {.size = sizeof attr, .worker = WEFT_WORKER(weft_fiber_worker(weft_fiber_current()))};
    CHECK_INT(weft_go_with(&f, &attr, wait_in_vain, link), ==, 0);
    do
        weft_yield();
    while (weft_fiber_state(f) == WEFT_FIBER_READY);
    CHECK_INT(weft_cancel(f), ==, 0);
    CHECK_INT(weft_join(f, &answer, WEFT_FOREVER), ==, 0);
    CHECK_PTR(answer, ==, NULL);
}

TEST(a_cancel_ends_a_wait_with_an_error)
{
    if (server_missing())
        return;
    weft_span took = fleet_run(&(struct fleet){2, LATE_FIBERS, client->open, cancel_a_wait, client->close}, NULL);
    CHECK_INT(took, <, FLEET_WAIT - FLEET_TICK);
}

static void be_late(void *link, int who)
{
    (void)link;
    client->late(who);
}

TEST(time_limits_of_the_library_pass_when_they_should)
{
    if (server_missing())
        return;
    REQUIRE(fleet_silent_port()[0]);
    weft_span took = fleet_run(&(struct fleet){1, LATE_FIBERS, NULL, be_late, NULL}, NULL);
    CHECK_INT(took, >=, client->limit);
    CHECK_INT(took, <, LATE_FIBERS / 2 * client->limit);
}

TEST(without_the_hooks_a_few_fibers_get_their_own_answers)
{
    answers(1, FIBERS_OFF);
}

TEST(without_the_hooks_waits_come_one_after_another)
{
    if (server_missing())
        return;
    weft_span took = fleet_run(&(struct fleet){1, FIBERS_OFF, client->open, wait_once, client->close}, NULL);
    CHECK_INT(took, >=, FIBERS_OFF * (FLEET_WAIT - FLEET_TICK));
}

#define ADD(which) (tests[n++] = (struct test){#which, which})

int fleet_main(const struct client *c, const struct test *own, size_t count)
{
    struct test tests[16];
    size_t n = 0;
    const char *hooks = getenv("WEFT_HOOK");
    client = c;
    if (hooks && strcmp(hooks, "off") == 0) {
        ADD(without_the_hooks_a_few_fibers_get_their_own_answers);
        if (client->wait)
            ADD(without_the_hooks_waits_come_one_after_another);
        return test_main(client->name, tests, n);
    }
    ADD(no_call_of_any_library_goes_past_the_hooks);
    ADD(every_fiber_gets_its_own_answers_on_one_worker);
    ADD(every_fiber_gets_its_own_answers_on_two_workers);
    if (client->wait)
        ADD(two_hundred_waits_on_one_worker_take_the_time_of_one);
    if (client->wait)
        ADD(a_cancel_ends_a_wait_with_an_error);
    if (client->late)
        ADD(time_limits_of_the_library_pass_when_they_should);
    for (size_t i = 0; i < count && n < sizeof tests / sizeof tests[0]; i++)
        tests[n++] = own[i];
    return test_main(client->name, tests, n);
}
