/*
 * case_weft_fair.c: weft's side of the benches fair-B and fair-move, by plain calls of the public API, on libweft.so.
 *
 * In fair-B one worker has a neighbour that computes and yields, and one kind of wait or all four: a sleep, a timer,
 * a socket that a plain thread writes to, a function that a plain thread brings. All options but `threads` and
 * `policy` are at their defaults, and so are the attributes of the fibers.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../common/case.h"
#include "../common/fair.h"
#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/sched.h>
#include <weft/sync.h>
#include <weft/timer.h>

static void must(int rc, const char *what)
{
    if (rc != 0)
        case_fail("%s: %s", what, strerror(-rc));
}

static weft_fiber *spawn(const weft_attr *attr, weft_fn *fn, void *arg)
{
    weft_fiber *f;
    must(weft_go_with(&f, attr, fn, arg), "weft_go_with");
    return f;
}

static void join(weft_fiber *f)
{
    must(weft_join(f, NULL, WEFT_FOREVER), "weft_join");
}

static int64_t end_at;     /* when no wait but the first is begun any more; const while they run */
static bool neighbour_end; /* flag of the one worker */

static bool is_over(void)
{
    return fair_now() >= end_at;
}

static void *neighbour(void *arg)
{
    while (!neighbour_end) {
        fair_compute();
        weft_yield();
    }
    return arg;
}

/* sleep and timer */

static void *sleeps(void *arg)
{
    do {
        weft_span span = fair_span_us() * WEFT_US;
        int64_t due = fair_now() + span;
        must(weft_sleep(span), "weft_sleep");
        fair_late(fair_now() - due);
    } while (!is_over());
    return arg;
}

struct shot {
    int64_t due;
    weft_sem fired;
};

static void fire(void *arg)
{
    struct shot *shot = arg;

    fair_late(fair_now() - shot->due);
    weft_sem_post(&shot->fired);
}

static void *times(void *arg)
{
    struct shot shot = {0};

    do {
        weft_span span = fair_span_us() * WEFT_US;
        shot.due = fair_now() + span;
        must(weft_timer_new(NULL, span, false, NULL, fire, &shot), "weft_timer_new");
        must(weft_sem_wait(&shot.fired, WEFT_FOREVER), "weft_sem_wait");
    } while (!is_over());
    return arg;
}

/* socket and thread: a plain thread brings the time at which it does so, and waits until that was taken */

struct partner {
    pthread_t id;
    int fd;            /* of the socket that it writes to */
    weft_sched *sched; /* that it brings functions to */
    sem_t taken;       /* by the worker */
    weft_sem ended;
    int64_t at;
};

static void pause_partner(void)
{
    struct timespec span = {.tv_nsec = fair_span_us() * 1000};
    nanosleep(&span, NULL);
}

static void await_worker(struct partner *p)
{
    while (sem_wait(&p->taken) != 0)
        ;
}

static void begin_partner(struct partner *p, void *(*fn)(void *))
{
    sem_init(&p->taken, 0, 0);
    if (pthread_create(&p->id, NULL, fn, p) != 0)
        case_fail("no thread");
}

static void end_partner(struct partner *p)
{
    pthread_join(p->id, NULL);
    sem_destroy(&p->taken);
}

static void *writes(void *arg)
{
    struct partner *p = arg;

    do {
        pause_partner();
        int64_t at = fair_now();
        if (write(p->fd, &at, sizeof(at)) != sizeof(at))
            case_fail("write");
        await_worker(p);
    } while (!is_over());
    close(p->fd);
    return NULL;
}

static void *reads(void *arg)
{
    struct partner p = {0};
    int ends[2];
    int64_t at;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        case_fail("no socket");
    p.fd = ends[1];
    begin_partner(&p, writes);
    while (weft_read(ends[0], &at, sizeof(at), WEFT_FOREVER) == sizeof(at)) {
        fair_late(fair_now() - at);
        sem_post(&p.taken);
    }
    end_partner(&p);
    must(weft_close(ends[0]), "weft_close");
    return arg;
}

static void *take(void *arg)
{
    struct partner *p = arg;

    fair_late(fair_now() - p->at);
    sem_post(&p->taken);
    return NULL;
}

static void *brings(void *arg)
{
    struct partner *p = arg;

    do {
        pause_partner();
        p->at = fair_now();
        must(weft_sched_go(p->sched, NULL, NULL, take, p), "weft_sched_go");
        await_worker(p);
    } while (!is_over());
    weft_sem_post(&p->ended);
    return NULL;
}

static void *is_brought_to(void *arg)
{
    struct partner p = {.sched = weft_sched_current()};

    begin_partner(&p, brings);
    must(weft_sem_wait(&p.ended, WEFT_FOREVER), "weft_sem_wait");
    end_partner(&p);
    return arg;
}

/* fair-B */

#define KINDS 4

static weft_fn *const kinds[KINDS] = {sleeps, times, reads, is_brought_to};

struct waits {
    weft_fn *const *kinds;
    size_t count;
    double budget_ms;
};

static void *first(void *arg)
{
    const struct waits *w = arg;
    weft_fiber *beside, *all[KINDS];

    fair_begin(0);
    neighbour_end = false;
    end_at = fair_now() + (int64_t)(w->budget_ms * 1e6);
    beside = spawn(NULL, neighbour, NULL);
    for (size_t i = 0; i < w->count; i++)
        all[i] = spawn(NULL, w->kinds[i], NULL);
    for (size_t i = 0; i < w->count; i++)
        join(all[i]);
    neighbour_end = true;
    join(beside);
    fair_end(0);
    return NULL;
}

static void run_waits(const struct waits *w, const weft_policy *policy)
{
    weft_sched_opts opts = {.size = sizeof(opts), .threads = 1, .policy = policy};
    must(weft_run(first, (void *)w, NULL, &opts), "weft_run");
}

static void run_kind(weft_fn *const *kind, double budget_ms)
{
    struct waits w = {kind, 1, budget_ms};
    run_waits(&w, NULL);
    fair_answer(true, "");
}

static void run_sleep(double budget_ms)
{
    run_kind(&kinds[0], budget_ms);
}

static void run_timer(double budget_ms)
{
    run_kind(&kinds[1], budget_ms);
}

static void run_socket(double budget_ms)
{
    run_kind(&kinds[2], budget_ms);
}

static void run_thread(double budget_ms)
{
    run_kind(&kinds[3], budget_ms);
}

/* Each policy in turn has its part of the time, with all kinds of waits at once. */
static void run_policies(double budget_ms)
{
    static const struct {
        const weft_policy *policy;
        const char *name;
    } policies[] = {{&weft_fifo, "fifo"}, {&weft_priority, "priority"},
                    {&weft_sjf, "sjf"},   {&weft_hrrn, "hrrn"},
                    {&weft_rr, "rr"},     {&weft_edf, "edf"}};
    const size_t count = sizeof(policies) / sizeof(policies[0]);
    struct waits w = {kinds, KINDS, budget_ms / (double)count};
    int64_t worst = INT64_MIN;
    char slowest[40];

    for (size_t i = 0; i < count; i++) {
        run_waits(&w, policies[i].policy);
        if (fair_worst() > worst) {
            worst = fair_worst();
            snprintf(slowest, sizeof(slowest), "slowest=%s", policies[i].name);
        }
    }
    fair_answer(true, slowest);
}

/*
 * fair-move: two workers. A fiber of the first worker wakes one that may move and that waits on the same worker. The
 * waker goes on computing until that one has run, for at most 300 ms; the second worker is idle.
 */

#define COMPUTES_NS 300000000
#define WAKES_MIN 3

static struct {
    weft_sem wake, done;
    int64_t woken_at; /* written before the wake */
    atomic_bool ran;
    bool end; /* written before the last submit */
} move;

/* Comes to the first worker when it is submitted there, waits, and is woken. */
static void *moves(void *arg)
{
    for (;;) {
        must(weft_park(WEFT_FOREVER), "weft_park");
        if (move.end)
            return arg;
        must(weft_sem_wait(&move.wake, WEFT_FOREVER), "weft_sem_wait");
        fair_late(fair_now() - move.woken_at);
        atomic_store(&move.ran, true);
        weft_sem_post(&move.done);
    }
}

static void bring_here(weft_fiber *mover)
{
    int rc;

    while ((rc = weft_sched_submit(weft_sched_current(), mover, WEFT_WORKER(0))) == -EBUSY)
        must(weft_sleep(WEFT_MS), "weft_sleep");
    must(rc, "weft_sched_submit");
    must(weft_sleep(5 * WEFT_MS), "weft_sleep"); /* it waits by then, and the second worker sleeps */
}

static void wake_and_compute(void)
{
    atomic_store(&move.ran, false);
    move.woken_at = fair_now();
    weft_sem_post(&move.wake);
    while (!atomic_load(&move.ran) && fair_now() < move.woken_at + COMPUTES_NS)
        ;
    must(weft_sem_wait(&move.done, WEFT_FOREVER), "weft_sem_wait");
}

static void *computes(void *mover)
{
    fair_begin(0);
    for (int i = 0; i < WAKES_MIN || !is_over(); i++) {
        bring_here(mover);
        wake_and_compute();
    }
    fair_end(0);
    move.end = true;
    bring_here(mover);
    return NULL;
}

static void *first_of_two(void *arg)
{
    weft_attr mover = {.size = sizeof(mover), .flags = WEFT_MIGRATE};
    weft_attr bound = {.size = sizeof(bound), .worker = WEFT_WORKER(0)};
    weft_fiber *f = spawn(&mover, moves, NULL);

    join(spawn(&bound, computes, f));
    join(f);
    return arg;
}

static void run_move(double budget_ms)
{
    weft_sched_opts opts = {.size = sizeof(opts), .threads = 2};

    end_at = fair_now() + (int64_t)(budget_ms * 1e6);
    must(weft_run(first_of_two, NULL, NULL, &opts), "weft_run");
    fair_answer(true, "workers=2");
}

/* clang-format off */
#define BESIDE(bench) \
    {bench, "weft-sleep",    run_sleep}, \
    {bench, "weft-timer",    run_timer}, \
    {bench, "weft-socket",   run_socket}, \
    {bench, "weft-thread",   run_thread}, \
    {bench, "weft-policies", run_policies}
/* clang-format on */

int main(int argc, char **argv)
{
    static const struct case_entry entries[] = {
        BESIDE("fair-0.1"),
        BESIDE("fair-0.5"),
        BESIDE("fair-5"),
        {"fair-move", "weft", run_move},
    };

    fair_open(argc, argv);
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
