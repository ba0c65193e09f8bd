/*
 * Coroutines and threads: any thread may go on with a coroutine, one at a time, and each thread has its own besides.
 * What fork makes of it is fork.c's.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "support/locals.h"
#include "support/test.h"

static void *as_ptr(intptr_t n)
{
    return (void *)n;
}

static void *yields_once(void *arg)
{
    weft_coro_yield(arg);
    return arg;
}

static weft_stack_figures stats_now(void)
{
    weft_stack_figures stats = {.size = sizeof stats};
    CHECK_INT(weft_stack_stats(&stats), ==, 0);
    return stats;
}

/* Runs fn(arg) on a new thread, to its end. */
static void on_a_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, fn, arg) == 0);
    pthread_join(thread, NULL);
}

/* Keeps locals and counts what it is passed, wherever it runs. */
static void *sums_up(void *arg)
{
    struct locals mine;
    intptr_t sum = (intptr_t)arg, in;
    locals_fill(&mine, 1);
    while ((in = (intptr_t)weft_coro_yield(as_ptr(sum))) != 0) {
        CHECK(locals_intact(&mine, 1));
        sum += in;
    }
    return as_ptr(-sum);
}

struct step {
    weft_coro *c;
    intptr_t in, got;
    int rc;
};

static void *takes_a_step(void *arg)
{
    struct step *s = arg;
    void *value = NULL;
    CHECK_PTR(weft_coro_current(), ==, NULL);
    s->rc = weft_coro_resume(s->c, as_ptr(s->in), &value);
    s->got = (intptr_t)value;
    CHECK_PTR(weft_coro_current(), ==, NULL);
    return NULL;
}

static void *frees(void *arg)
{
    CHECK_INT(weft_coro_free(arg), ==, 0);
    return NULL;
}

static void move_about(weft_stacks *pool)
{
    size_t before = weft_coro_count();
    struct step s = {0};
    REQUIRE(weft_coro_new(&s.c, sums_up, as_ptr(100), &(weft_coro_opts){.shared = pool}) == 0);
    for (s.in = 1; s.in <= 10; s.in++) {
        on_a_thread(takes_a_step, &s);
        CHECK_INT(s.rc, ==, 1);
        CHECK_INT(s.got, ==, 100 + s.in * (s.in + 1) / 2 - 1); /* the first 1 is dropped */
    }
    s.in = 0;
    takes_a_step(&s); /* on this thread */
    CHECK_INT(s.rc, ==, 0);
    CHECK_INT(s.got, ==, -154);
    on_a_thread(frees, s.c);
    CHECK_INT(weft_coro_count(), ==, before);
}

TEST(one_made_here_goes_on_elsewhere_and_is_freed_elsewhere)
{
    weft_stacks *pool;
    move_about(NULL);
    REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    move_about(pool);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

/* Two threads take turns with one coroutine. */
struct ball {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    int turn; /* guarded by: lock */
    weft_coro *c;
};

enum { TURNS = 2000 };

static void take_turns(struct ball *ball, int side)
{
    pthread_mutex_lock(&ball->lock);
    while (ball->turn < TURNS) {
        if (ball->turn % 2 != side) {
            pthread_cond_wait(&ball->turned, &ball->lock);
            continue;
        }
        pthread_mutex_unlock(&ball->lock); /* whose turn it is owns the coroutine */
        CHECK_INT(weft_coro_resume(ball->c, as_ptr(1), NULL), ==, 1);
        pthread_mutex_lock(&ball->lock);
        ball->turn++;
        pthread_cond_signal(&ball->turned);
    }
    pthread_mutex_unlock(&ball->lock);
}

static void *other_side(void *arg)
{
    take_turns(arg, 1);
    return NULL;
}

TEST(two_threads_take_turns_with_one)
{
    struct ball ball = {.lock = PTHREAD_MUTEX_INITIALIZER, .turned = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    void *value;
    REQUIRE(weft_coro_new(&ball.c, sums_up, NULL, NULL) == 0);
    REQUIRE(pthread_create(&thread, NULL, other_side, &ball) == 0);
    take_turns(&ball, 0);
    pthread_join(thread, NULL);
    CHECK_INT(weft_coro_resume(ball.c, NULL, &value), ==, 0);
    CHECK_INT((intptr_t)value, ==, -(TURNS - 1));
    CHECK_INT(weft_coro_free(ball.c), ==, 0);
}

/* Thread-local data, reached by calls, as the header says it must be. */
static __thread int of_this_thread;

__attribute__((noinline)) static int *thread_local_now(void)
{
    __asm__ volatile("");
    return &of_this_thread;
}

static void *looks_at_its_thread(void *arg)
{
    for (;;) {
        if (*thread_local_now() == 0)
            return arg;
        weft_coro_yield(as_ptr(*thread_local_now()));
    }
}

static void *steps_with_a_number(void *arg)
{
    struct step *s = arg;
    *thread_local_now() = (int)s->in;
    return takes_a_step(s);
}

TEST(thread_local_data_is_that_of_the_thread_that_runs_it)
{
    struct step s = {0};
    REQUIRE(weft_coro_new(&s.c, looks_at_its_thread, NULL, NULL) == 0);
    for (s.in = 1; s.in <= 5; s.in++) {
        on_a_thread(steps_with_a_number, &s);
        CHECK_INT(s.got, ==, s.in);
    }
    of_this_thread = 0;
    CHECK_INT(weft_coro_resume(s.c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(s.c), ==, 0);
}

static void *makes_three_frees_one(void *arg)
{
    weft_coro **two = arg, *third;
    CHECK_INT(weft_coro_new(&two[0], yields_once, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_new(&two[1], yields_once, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_new(&third, yields_once, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(third), ==, 0);
    return NULL;
}

TEST(count_knows_those_of_threads_that_have_ended)
{
    size_t before = weft_coro_count();
    weft_coro *left[10];
    for (int i = 0; i < 10; i += 2)
        on_a_thread(makes_three_frees_one, &left[i]);
    CHECK_INT(weft_coro_count(), ==, before + 10);
    for (int i = 0; i < 5; i++)
        CHECK_INT(weft_coro_free(left[i]), ==, 0);
    CHECK_INT(weft_coro_count(), ==, before + 5);
    for (int i = 5; i < 10; i++)
        on_a_thread(frees, left[i]);
    CHECK_INT(weft_coro_count(), ==, before);
}

enum { ID_THREADS = 8, IDS = 10000 };

static void *collects_ids(void *arg)
{
    uint64_t *ids = arg;
    weft_coro *c;
    for (int i = 0; i < IDS; i += 2) {
        CHECK_INT(weft_coro_new(&c, yields_once, NULL, NULL), ==, 0);
        ids[i] = weft_coro_id(c);
        CHECK_INT(weft_coro_reset(c, yields_once, NULL), ==, 0);
        ids[i + 1] = weft_coro_id(c);
        CHECK_INT(weft_coro_free(c), ==, 0);
    }
    return NULL;
}

static int in_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

TEST(ids_are_unique_over_all_threads)
{
    uint64_t *ids = calloc((size_t)ID_THREADS * IDS, sizeof *ids);
    pthread_t threads[ID_THREADS];
    size_t twice = 0;
    REQUIRE(ids != NULL);
    for (int i = 0; i < ID_THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, collects_ids, ids + (ptrdiff_t)i * IDS) == 0);
    for (int i = 0; i < ID_THREADS; i++)
        pthread_join(threads[i], NULL);
    qsort(ids, (size_t)ID_THREADS * IDS, sizeof *ids, in_order);
    for (size_t i = 1; i < (size_t)ID_THREADS * IDS; i++)
        twice += ids[i] == ids[i - 1];
    CHECK_INT(twice, ==, 0);
    CHECK(ids[0] != 0);
    free(ids);
}

static void *keeps_a_cache(void *arg)
{
    weft_coro *all[200];
    for (int i = 0; i < 200; i++)
        CHECK_INT(weft_coro_new(&all[i], yields_once, NULL, NULL), ==, 0);
    for (int i = 0; i < 200; i++)
        CHECK_INT(weft_coro_free(all[i]), ==, 0);
    *(size_t *)arg = stats_now().cached;
    return NULL;
}

TEST(a_thread_that_ends_gives_back_what_it_kept)
{
    size_t cached = 0;
    weft_stack_trim();
    weft_stack_figures before = stats_now();
    struct wf_sys_held held = wf_sys_held();
    on_a_thread(keeps_a_cache, &cached);
    CHECK_INT(cached, >=, 200);
    CHECK_INT(stats_now().stacks, ==, before.stacks);
    CHECK_INT(stats_now().slabs, ==, before.slabs);
    CHECK_INT(wf_sys_held().n, ==, held.n);
    CHECK_INT(wf_sys_held().bytes, ==, held.bytes);
}

/* A destructor of thread-specific data that runs after the library's own. */
static void uses_it_once_more(void *arg)
{
    keeps_a_cache(arg);
}

static void *leaves_work_to_a_destructor(void *arg)
{
    pthread_key_t *key = arg;
    static size_t cached;
    keeps_a_cache(&cached); /* the library's key is older than this one */
    pthread_setspecific(*key, &cached);
    return NULL;
}

TEST(a_later_destructor_may_use_the_library_again)
{
    pthread_key_t key;
    weft_stack_trim();
    struct wf_sys_held held = wf_sys_held();
    size_t count = weft_coro_count();
    REQUIRE(pthread_key_create(&key, uses_it_once_more) == 0);
    on_a_thread(leaves_work_to_a_destructor, &key);
    pthread_key_delete(key);
    CHECK_INT(wf_sys_held().n, ==, held.n);
    CHECK_INT(wf_sys_held().bytes, ==, held.bytes);
    CHECK_INT(weft_coro_count(), ==, count);
}

/* Each thread runs its own, private and shared ones, all threads at once. */
static void *runs_its_own(void *arg)
{
    enum { OWN = 20, ROUNDS = 50 };
    struct step steps[OWN];
    weft_stacks *pool;
    pthread_barrier_wait(arg);
    CHECK_INT(weft_stacks_new(&pool, 2, 0), ==, 0);
    for (int i = 0; i < OWN; i++) {
        steps[i] = (struct step){.in = i + 1};
        CHECK_INT(weft_coro_new(&steps[i].c, sums_up, NULL, &(weft_coro_opts){.shared = i % 2 ? pool : NULL}), ==, 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OWN; i++) {
            takes_a_step(&steps[i]);
            CHECK_INT(steps[i].got, ==, (i + 1) * round);
        }
    }
    for (int i = 0; i < OWN; i++)
        CHECK_INT(weft_coro_free(steps[i].c), ==, 0);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
    return NULL;
}

TEST(up_to_64_threads_run_their_own_at_once)
{
    size_t before = weft_coro_count();
    for (unsigned n = 1; n <= 64; n *= 2) {
        pthread_t threads[64];
        pthread_barrier_t start;
        pthread_barrier_init(&start, NULL, n);
        for (unsigned i = 0; i < n; i++)
            REQUIRE(pthread_create(&threads[i], NULL, runs_its_own, &start) == 0);
        for (unsigned i = 0; i < n; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&start);
    }
    CHECK_INT(weft_coro_count(), ==, before);
}

#if WF_DEBUG
/* Many threads want one coroutine; in its first turn it waits until somebody was refused. */
struct prey {
    weft_coro *c;
    sem_t refused;
    int inside, turns; /* by whoever is inside: nobody else may be */
};

static void *counts_who_is_inside(void *arg)
{
    struct prey *p = arg;
    sem_wait(&p->refused);
    for (; p->turns < 5000; p->turns++) {
        CHECK_INT(__atomic_add_fetch(&p->inside, 1, __ATOMIC_RELAXED), ==, 1);
        __atomic_sub_fetch(&p->inside, 1, __ATOMIC_RELAXED);
        weft_coro_yield(NULL);
    }
    return NULL;
}

static void *hunts(void *arg)
{
    struct prey *p = arg;
    int rc;
    while ((rc = weft_coro_resume(p->c, NULL, NULL)) == 1 || rc == -EBUSY) {
        if (rc == -EBUSY)
            sem_post(&p->refused);
    }
    CHECK(rc == 0 || rc == -ESRCH);
    return NULL;
}
#endif

TEST(of_many_threads_that_want_one_exactly_one_enters)
{
#if WF_DEBUG
    struct prey p = {0};
    pthread_t threads[4];
    sem_init(&p.refused, 0, 0);
    REQUIRE(weft_coro_new(&p.c, counts_who_is_inside, &p, NULL) == 0);
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, hunts, &p) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(p.turns, ==, 5000);
    CHECK_INT(weft_coro_free(p.c), ==, 0);
    sem_destroy(&p.refused);
#else
    SKIP("only builds with WEFT_DEBUG check this exactly");
#endif
}

#if WF_DEBUG
/*
 * A thread that is leaving a coroutine. The value that it passes on goes to a page that may not be written, so that it
 * faults when the coroutine's state is no longer RUNNING, and stays there, on the coroutine's stack, until it is told to
 * go on.
 */
static struct {
    weft_coro *c;
    void **page;
    int faulted[2], go_on[2]; /* pipes: a handler may use them */
    int rc;
} leaver;

static void stays_in_the_fault(int signal)
{
    char byte = 0;
    (void)signal;
    CHECK_INT(write(leaver.faulted[1], &byte, 1), ==, 1);
    CHECK_INT(read(leaver.go_on[0], &byte, 1), ==, 1);
    CHECK_INT(mprotect(leaver.page, wf_sys_page(), PROT_READ | PROT_WRITE), ==, 0);
}

static void *wants_a_value(void *arg)
{
    leaver.rc = weft_coro_resume(leaver.c, NULL, leaver.page);
    return arg;
}

/* Calls `tries` while another thread is leaving a coroutine that runs fn(1). */
static void while_it_is_left(weft_fn *fn, void (*tries)(void))
{
    struct sigaction sa = {.sa_handler = stays_in_the_fault, .sa_flags = SA_ONSTACK | (int)SA_RESETHAND}, before;
    pthread_t thread;
    char byte = 0;
    leaver.page = mmap(NULL, wf_sys_page(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(leaver.page != MAP_FAILED);
    REQUIRE(pipe(leaver.faulted) == 0 && pipe(leaver.go_on) == 0);
    REQUIRE(weft_coro_new(&leaver.c, fn, as_ptr(1), NULL) == 0);
    REQUIRE(sigaction(SIGSEGV, &sa, &before) == 0); /* in place of the library's */
    REQUIRE(pthread_create(&thread, NULL, wants_a_value, NULL) == 0);
    CHECK_INT(read(leaver.faulted[0], &byte, 1), ==, 1);
    tries();
    CHECK_INT(write(leaver.go_on[1], &byte, 1), ==, 1);
    pthread_join(thread, NULL);
    sigaction(SIGSEGV, &before, NULL);
    CHECK_PTR(*leaver.page, ==, as_ptr(1));
    munmap(leaver.page, wf_sys_page());
    for (int i = 0; i < 2; i++) {
        close(leaver.faulted[i]);
        close(leaver.go_on[i]);
    }
}

static void resets_it(void)
{
    CHECK_INT(weft_coro_state(leaver.c), ==, WEFT_CORO_DONE);
    CHECK_INT(weft_coro_reset(leaver.c, yields_once, NULL), ==, -EBUSY);
}

static void frees_and_resumes_it(void)
{
    CHECK_INT(weft_coro_state(leaver.c), ==, WEFT_CORO_READY);
    CHECK_INT(weft_coro_free(leaver.c), ==, -EBUSY);
    CHECK_INT(weft_coro_resume(leaver.c, NULL, NULL), ==, -EBUSY);
}

static void *returns_it(void *arg)
{
    return arg;
}
#endif

TEST(one_that_a_thread_is_still_leaving_is_ebusy_to_others)
{
#if WF_DEBUG
    while_it_is_left(returns_it, resets_it);
    CHECK_INT(leaver.rc, ==, 0);
    CHECK_INT(weft_coro_free(leaver.c), ==, 0);
    if (test_has_failed())
        return; /* what follows would leave two threads on one stack */
    while_it_is_left(yields_once, frees_and_resumes_it);
    CHECK_INT(leaver.rc, ==, 1);
    CHECK_INT(weft_coro_resume(leaver.c, NULL, NULL), ==, 0);
    CHECK_INT(weft_coro_free(leaver.c), ==, 0);
#else
    SKIP("only builds with WEFT_DEBUG check this exactly");
#endif
}

TESTS(coro_threads, one_made_here_goes_on_elsewhere_and_is_freed_elsewhere, two_threads_take_turns_with_one,
      thread_local_data_is_that_of_the_thread_that_runs_it, count_knows_those_of_threads_that_have_ended,
      ids_are_unique_over_all_threads, a_thread_that_ends_gives_back_what_it_kept,
      a_later_destructor_may_use_the_library_again, up_to_64_threads_run_their_own_at_once,
      one_that_a_thread_is_still_leaving_is_ebusy_to_others, of_many_threads_that_want_one_exactly_one_enters)
