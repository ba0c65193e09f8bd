/*
 * A web server and its clients in one process, for any time. Clients come and go at random: they send requests one by
 * one and in batches, send bodies, listen to events, are slow, send malformed bytes, and break off at any byte, by a
 * close, a half-close or a reset. In some rounds serving ends and begins again meanwhile, or the limits are too low for
 * all clients. Handlers wait, stream, have children, fail half-way. After each round no descriptor, fiber, connection
 * or stream is left, and each request was answered or cut exactly once. In a long run, memory does not grow either.
 *
 * WEFT_SOAK_SECONDS is the time of all rounds. WEFT_SEED is the seed of the first round, from which the other seeds
 * follow. A seed repeats the choices, not the order of the threads.
 */
#include "stress/http_soak.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "support/test.h"
#include "unit/http/client.h"
#include "unit/http/served.h"

#if WF_ASAN
size_t __sanitizer_get_current_allocated_bytes(void); /* gcc 12 comes without sanitizer/allocator_interface.h */
#endif

enum { CLIENTS = 12, ROUND_MS = 700, SECONDS = 2, LONG = 30, MIB = 1 << 20, QUARANTINE = 256 * MIB };

struct soak_total soak_total;

static struct {
    char *big;
    int file;
    uint64_t seed;
} the;

/* ---- handlers ---- */

static int echo(weft_exchange *x, void *arg)
{
    char body[64];
    const char *id = weft_http_query(x, "id");
    int size = snprintf(body, sizeof body, "id %s", id ? id : "none");
    if (arg) {
        int rc = weft_sleep(WEFT_MS);
        if (rc != 0)
            return rc;
    }
    return weft_http_reply(x, 200, "text/plain", body, (size_t)size);
}

static int sum(weft_exchange *x, void *arg)
{
    char answer[32];
    const char *body = NULL;
    size_t size = 0;
    (void)arg;
    int rc = weft_http_read_all(x, &body, &size, weft_in(20 * WEFT_SEC));
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < size; i += 31)
        rc |= body[i] != soak_byte(i) && size > 20;
    CHECK_INT(rc, ==, 0);
    return weft_http_reply(x, 200, NULL, answer, (size_t)sprintf(answer, "%zu bytes", size));
}

static int ignores(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, NULL, "ignored", 7);
}

static int big(weft_exchange *x, void *arg)
{
    (void)arg;
    return weft_http_reply(x, 200, NULL, the.big, SOAK_BIG);
}

static int chunks(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_begin(x, 200);
    for (size_t at = 0, part = 1; rc == 0 && at < SOAK_BIG; at += part, part = part * 2 + 1) {
        part = part < SOAK_BIG - at ? part : SOAK_BIG - at;
        rc = weft_http_write(x, the.big + at, part);
    }
    return rc;
}

static int file(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_begin(x, 200);
    return rc != 0 ? rc : weft_http_write_file(x, the.file, 0, SOAK_BIG);
}

static int fails(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_begin(x, 200);
    if (rc == 0)
        rc = weft_http_write(x, "this is not all", 15);
    if (rc == 0)
        weft_http_flush(x);
    return -EIO;
}

static int events(weft_exchange *x, void *arg)
{
    (void)arg;
    int rc = weft_http_events(x);
    while (rc == 0 && !weft_stopping()) {
        rc = weft_http_event(x, "tick", "now");
        if (rc == 0 && weft_event_wait(weft_stop_event(), weft_in(5 * WEFT_MS)) == -ECANCELED)
            rc = -ECANCELED;
    }
    return rc;
}

static int child(void *arg)
{
    (void)arg;
    weft_sleep(WEFT_MS);
    return 0;
}

static int children(weft_exchange *x, void *arg)
{
    (void)arg;
    weft_scope *scope = weft_http_scope(x);
    for (int i = 0; scope && i < 3; i++)
        weft_scope_go(scope, child, NULL);
    return weft_http_reply(x, 200, NULL, "children", 8);
}

static const struct served_route routes[] = {{"GET /echo", echo, NULL},
                                             {"GET /slow", echo, &the},
                                             {"POST /sum", sum, NULL},
                                             {"POST /ignore", ignores, NULL},
                                             {"GET /big", big, NULL},
                                             {"GET /chunks", chunks, NULL},
                                             {"GET /file", file, NULL},
                                             {"GET /fails", fails, NULL},
                                             {"GET /events", events, NULL},
                                             {"GET /children", children, NULL},
                                             {0}};

/* ---- one round ---- */

static void *visits(void *arg)
{
    struct soak_client *me = arg;
    while (!__atomic_load_n(me->over, __ATOMIC_ACQUIRE) && !test_has_failed())
        soak_visit(me);
    return NULL;
}

/* What a round is like: the bits of `kind`. */
enum { SHARED = 1, ELSEWHERE = 2, RESTARTS = 4, NARROW = 8, ALL_KINDS = 16 };

static void *serves(void *arg)
{
    struct served *s = arg;
    return (void *)(intptr_t)weft_http_serve(s->h, s->listener, WEFT_FOREVER);
}

/* Serving ends by a cancel, and begins again. */
static void restart(struct served *s)
{
    void *rc = NULL;
    weft_cancel(s->server);
    CHECK_INT(weft_join(s->server, &rc, weft_in(60 * WEFT_SEC)), ==, 0);
    CHECK_INT((intptr_t)rc, ==, -ECANCELED);
    CHECK_INT(weft_sched_go(s->sched, &s->server, NULL, serves, s), ==, 0);
    soak_add(&soak_total.restarts, 1);
}

static void disturb(struct served *s, unsigned kind, weft_time until, uint64_t *random)
{
    while (weft_now().ns < until.ns) {
        usleep(20000 + (unsigned)(test_random(random) % 80000));
        weft_http_figures f = served_figures(s);
        CHECK_INT(f.connections, <=, CLIENTS * 4 + 200);
        if (kind & RESTARTS)
            restart(s);
    }
    while (ask_status(s->port, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n") == 0)
        continue; /* so a stop does not come before the last beginning */
}

/* Each request was answered or cut, once. */
static void check_figures(const struct served *s)
{
    weft_http_figures f = served_figures(s);
    uint64_t answers = 0;
    for (int i = 0; i < 6; i++)
        answers += f.status[i];
    CHECK_INT(f.requests, ==, answers + f.cut);
}

static void start_clients(struct soak_client *clients, pthread_t *threads, const int *over, int port, bool is_calm,
                          uint64_t *random)
{
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct soak_client){
            .random = test_random(random) | 1, .port = port, .is_calm = is_calm, .over = over};
        snprintf(clients[i].address, sizeof clients[i].address, "127.0.0.%d", i / 2 + 1);
        CHECK_INT(pthread_create(&threads[i], NULL, visits, &clients[i]), ==, 0);
    }
}

static void play_round(uint64_t seed)
{
    struct served s;
    struct soak_client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    uint64_t random = seed * 0x9e3779b97f4a7c15u | 1;
    unsigned kind = (unsigned)(seed % ALL_KINDS);
    int over = 0, descriptors = count_descriptors();
    weft_http_opts opts = {.grace = 200 * WEFT_MS};
    weft_sched_opts workers = {.size = sizeof workers, .threads = seed / ALL_KINDS % 2 + 1, .warm = seed % 3 * 4};
    if (kind & SHARED)
        CHECK_INT(weft_stacks_new(&opts.shared, 8, 0), ==, 0);
    if (kind & ELSEWHERE) {
        CHECK_INT(weft_sched_new(&opts.on, &workers), ==, 0);
        CHECK_INT(weft_sched_start(opts.on), ==, 0);
    }
    if (kind & NARROW) {
        opts.max_conns = CLIENTS / 2;
        opts.max_per_address = 1;
    }
    served_make(&s, &opts, routes);
    s.on = opts.on;
    s.descriptors = descriptors;
    served_start_with(&s, NULL, &workers);
    start_clients(clients, threads, &over, s.port, !(kind & (RESTARTS | NARROW)), &random);
    disturb(&s, kind, weft_in(ROUND_MS * WEFT_MS), &random);
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    served_wait_connections(&s, 0);
    check_figures(&s);
    served_end(&s);
    if (opts.shared)
        CHECK_INT(weft_stacks_free(opts.shared), ==, 0);
}

/* ---- all rounds ---- */

static void make_files(void)
{
    the.big = malloc(SOAK_BIG);
    for (size_t i = 0; i < SOAK_BIG; i++)
        the.big[i] = soak_byte(i);
    the.file = memfd_create("soak", MFD_CLOEXEC);
    CHECK_INT(write(the.file, the.big, SOAK_BIG), ==, SOAK_BIG);
}

/*
 * What the process has after a round. AddressSanitizer keeps memory that was freed, up to QUARANTINE; so the resident
 * memory shows only large growth there. But it knows to the byte what is allocated. Those are only the bytes of malloc:
 * stacks, which weft maps, are counted beside them. Blocks and buffers that the HTTP server maps count only in the
 * resident memory.
 */
struct possessions {
    size_t resident;
    size_t allocated; /* by AddressSanitizer's count; else 0 */
    size_t mapped;    /* by weft, for stacks and queues */
};

static struct possessions possessions_now(void)
{
    struct possessions p = {.resident = test_memory(), .mapped = wf_sys_held().bytes};
#if WF_ASAN
    p.allocated = __sanitizer_get_current_allocated_bytes();
#endif
    return p;
}

static void check_growth(const struct possessions *early, const struct possessions *late)
{
    if (!WF_TSAN) /* its shadow grows with all addresses that were ever used */
        CHECK_INT(late->resident, <=, early->resident + early->resident / 4 + (WF_ASAN ? QUARANTINE : 8 * MIB));
    CHECK_INT(late->allocated, <=, early->allocated + 4096); /* a warning of weft's may allocate something that stays */
    CHECK_INT(late->mapped, <=, early->mapped + 8 * MIB);    /* there may have been more connections at a time */
}

TEST(random_clients_leave_nothing_behind)
{
    const char *given = getenv("WEFT_SOAK_SECONDS");
    double seconds = given ? strtod(given, NULL) : SECONDS;
    weft_time third = weft_in((weft_span)(seconds * 1e9 / 3)), end = weft_in((weft_span)(seconds * 1e9));
    struct possessions early = {0}, late = {0};
    int descriptors = count_descriptors();
    unsigned rounds = 0;
    make_files();
    the.seed = test_seed();
    for (uint64_t seed = the.seed; weft_now().ns < end.ns && !test_has_failed(); seed++, rounds++) {
        play_round(seed);
        if (test_has_failed())
            fprintf(stderr, "WEFT_SEED=%llu\n", (unsigned long long)seed);
        late = possessions_now();
        if (early.resident == 0 && weft_now().ns >= third.ns)
            early = late;
    }
    if (seconds >= LONG)
        check_growth(&early, &late);
    close(the.file);
    free(the.big);
    CHECK_INT(count_descriptors(), ==, descriptors);
    printf("http soak: seed %llu, %u rounds, %llu connections, %llu answers, %llu refused, %llu cut, %llu resets, %llu "
           "closes, %llu half-closes, %llu restarts; after a third and at the end: resident %zu and %zu KiB, allocated "
           "%zu and %zu bytes, mapped %zu and %zu KiB\n",
           (unsigned long long)the.seed, rounds, (unsigned long long)soak_total.connections,
           (unsigned long long)soak_total.answers, (unsigned long long)soak_total.refused,
           (unsigned long long)soak_total.cut, (unsigned long long)soak_total.resets,
           (unsigned long long)soak_total.closes, (unsigned long long)soak_total.halves,
           (unsigned long long)soak_total.restarts, early.resident >> 10, late.resident >> 10, early.allocated,
           late.allocated, early.mapped >> 10, late.mapped >> 10);
}

TESTS(http_soak, random_clients_leave_nothing_behind)
