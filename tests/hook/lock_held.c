/*
 * tests/hook/lock_held.c: without WEFT_HOOK_LOCKS, a fiber that waits while it holds a mutex is told on stderr, once for
 * each place.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <threads.h>

#include <weft/chan.h>
#include <weft/fiber.h>
#include <weft/sched.h>
#include <weft/sync.h>

#include "hook/peer.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void wait_with_mutex(void)
{
    CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
    usleep(1000);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
}

static void receive_with_mutex(void)
{
    int pair[2];
    char c;
    unix_pair(pair, SOCK_STREAM);
    struct writer w = {pair[1], 20, "x", 1};
    struct flow *writes = begin(write_later, &w);
    CHECK_INT(pthread_mutex_trylock(&mutex), ==, 0);
    CHECK_INT(recv(pair[0], &c, 1, 0), ==, 1);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
    end(writes);
    close_pair(pair);
}

static void wait_without(void)
{
    mtx_t m;
    mtx_init(&m, mtx_plain | mtx_recursive);
    CHECK_INT(mtx_lock(&m), ==, thrd_success);
    CHECK_INT(mtx_lock(&m), ==, thrd_success);
    CHECK_INT(mtx_unlock(&m), ==, thrd_success);
    CHECK_INT(mtx_unlock(&m), ==, thrd_success);
    CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
    CHECK_INT(pthread_mutex_trylock(&mutex), ==, EBUSY);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
    usleep(1000);
}

/* Calls that may wait, and do not have to: what they are to wait for is there. */
static void call_with_mutex(void)
{
    int pair[2], state = -1;
    struct timeval none = {0, 0};
    struct timespec nothing = {0, 0};
    unix_pair(pair, SOCK_STREAM);
    CHECK_INT(write(pair[1], "xyz", 3), ==, 3);
    struct pollfd p = {.fd = pair[0], .events = POLLIN};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair[0], &set);
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    CHECK_INT(waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT), ==, 0);
    CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
    CHECK_INT(poll(&p, 1, -1), ==, 1);
    CHECK_INT(ppoll(&p, 1, NULL, NULL), ==, 1);
    CHECK_INT(select(pair[0] + 1, &set, NULL, NULL, NULL), ==, 1);
    CHECK_INT(select(0, NULL, NULL, NULL, &none), ==, 0);
    CHECK_INT(pselect(0, NULL, NULL, NULL, &nothing, NULL), ==, 0);
    CHECK_INT(waitpid(child, &state, 0), ==, child);
    CHECK_INT(send(pair[1], "x", 1, 0), ==, 1);
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_INT(connect(udp, (struct sockaddr *)&to, sizeof to), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
    close(udp);
    close_pair(pair);
}

static void let_thread_wait(void *arg)
{
    (void)arg;
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    CHECK_INT(pthread_mutex_lock(&own), ==, 0);
    usleep(1000);
    CHECK_INT(pthread_mutex_unlock(&own), ==, 0);
}

static void run_beside_ticker(void (*body)(void))
{
    statement_gap(body);
}

static void *run_body(void *arg)
{
    void (**body)(void) = arg;
    (*body)();
    return NULL;
}

static void run_alone(void (*body)(void))
{
    weft_sched_opts opts = {.size = sizeof opts, .threads = 1};
    CHECK_INT(weft_run(run_body, &body, NULL, &opts), ==, 0);
}

/* What stands on stderr while the body runs in a fiber. */
static void what_is_told_by(void (*run)(void (*)(void)), void (*body)(void), char *text, size_t room)
{
    int file = memfd_create("stderr", 0), kept = dup(STDERR_FILENO);
    CHECK(file >= 0 && kept >= 0);
    CHECK_INT(dup2(file, STDERR_FILENO), ==, STDERR_FILENO);
    run(body);
    dup2(kept, STDERR_FILENO);
    ssize_t n = pread(file, text, room - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(file);
    close(kept);
}

static void what_is_told(void (*body)(void), char *text, size_t room)
{
    what_is_told_by(run_beside_ticker, body, text, room);
}

static int lines_of(const char *text)
{
    int n = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        n++;
    return n;
}

static void wait_with_mutex_twice(void)
{
    for (int i = 0; i < 2; i++)
        wait_with_mutex();
}

TEST(a_fiber_that_waits_with_a_mutex_is_told_once_for_each_place)
{
    char text[4096];
    if (is_kernel())
        SKIP("nobody tells");
    what_is_told(wait_with_mutex_twice, text, sizeof text);
    CHECK_INT(lines_of(text), ==, 1);
    CHECK(strstr(text, "weft-hook: fiber ") != NULL);
    CHECK(strstr(text, "\"body\", started at ") != NULL);
    CHECK(strstr(text, "statement.c:") != NULL);
    CHECK(strstr(text, "waits at test_hook_lock_held+0x") != NULL);
    CHECK(strstr(text, "(sleep)") != NULL);
    what_is_told(wait_with_mutex, text, sizeof text);
    CHECK_INT(lines_of(text), ==, 0);
    what_is_told(receive_with_mutex, text, sizeof text);
    CHECK_INT(lines_of(text), ==, 1);
    printf("%s", text);
}

static void receive_value_with_mutex(void)
{
    weft_chan *chan;
    int value;
    CHECK_INT(weft_chan_new(&chan, sizeof value, 1), ==, 0);
    CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
    CHECK_INT(weft_chan_recv(chan, &value, weft_in(WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
    weft_chan_free(chan);
}

TEST(so_is_one_that_waits_by_this_librarys_own_calls)
{
    char text[4096];
    if (is_kernel())
        SKIP("nobody tells");
    what_is_told(receive_value_with_mutex, text, sizeof text);
    printf("%s", text);
    CHECK_INT(lines_of(text), ==, 1);
    CHECK(strstr(text, "waits at test_hook_lock_held+0x") != NULL);
}

static void yield_with_mutex(void)
{
    CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
    weft_yield();
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
}

TEST(so_is_one_that_lets_others_run)
{
    char text[4096];
    if (is_kernel())
        SKIP("nobody tells");
    what_is_told(yield_with_mutex, text, sizeof text);
    printf("%s", text);
    CHECK_INT(lines_of(text), ==, 1);
    CHECK(strstr(text, "(yield)") != NULL);
}

static void *wait_with_recursive(void *arg)
{
    pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    CHECK_INT(pthread_mutex_lock(&recursive), ==, 0);
    usleep(1000);
    CHECK_INT(pthread_mutex_unlock(&recursive), ==, 0);
    return arg;
}

static void unnamed_waits(void)
{
    weft_fiber *f;
    CHECK_INT(weft_go_with(&f, NULL, wait_with_recursive, NULL), ==, 0);
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
}

TEST(the_line_is_true_of_a_fiber_without_a_name_and_of_a_recursive_mutex)
{
    char text[4096];
    unsigned long long id;
    int length = 0;
    if (is_kernel())
        SKIP("nobody tells");
    what_is_told(unnamed_waits, text, sizeof text);
    printf("%s", text);
    CHECK_INT(sscanf(text, "weft-hook: fiber %llu, started at %n", &id, &length), ==, 1);
    CHECK_INT(length, >, 0);
    CHECK(strstr(text, "or are let in if it is recursive; set WEFT_HOOK_LOCKS=1, or unlock before\n") != NULL);
}

static void threads_wait(void)
{
    end(begin_thread(let_thread_wait, NULL));
}

TEST(who_waits_without_one_is_not_told)
{
    char text[4096];
    if (is_kernel())
        SKIP("nobody tells");
    what_is_told(wait_without, text, sizeof text);
    CHECK_INT(lines_of(text), ==, 0);
    what_is_told(call_with_mutex, text, sizeof text);
    printf("%s", text);
    CHECK_INT(lines_of(text), ==, 0);
    what_is_told(threads_wait, text, sizeof text);
    CHECK_INT(lines_of(text), ==, 0);
    printf("%s", text);
}

/* --- a fiber that is alone --- */

static void wait_and_yield_with_mutex(void)
{
    CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
    usleep(1000);
    weft_yield();
    weft_sleep(WEFT_MS);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
}

static void *do_nothing(void *arg)
{
    return arg;
}

/* After another has ended it is alone again. */
static void wait_alone(void)
{
    wait_and_yield_with_mutex();
    weft_fiber *f;
    CHECK_INT(weft_go_with(&f, NULL, do_nothing, NULL), ==, 0);
    CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
    wait_and_yield_with_mutex();
}

/* The same place, once there is another: it was not told of before. */
static void wait_at_one_place(void)
{
    for (int i = 0; i < 2; i++) {
        weft_fiber *f = NULL;
        if (i == 1)
            CHECK_INT(weft_go_with(&f, NULL, do_nothing, NULL), ==, 0);
        CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
        usleep(1000);
        CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
        if (f)
            CHECK_INT(weft_join(f, NULL, WEFT_FOREVER), ==, 0);
    }
}

TEST(a_fiber_that_waits_with_a_mutex_and_is_alone_is_not_told)
{
    char text[4096];
    if (is_kernel())
        SKIP("nobody tells");
    what_is_told_by(run_alone, wait_alone, text, sizeof text);
    printf("%s", text);
    CHECK_INT(lines_of(text), ==, 0);
    what_is_told_by(run_alone, wait_at_one_place, text, sizeof text);
    printf("%s", text);
    CHECK_INT(lines_of(text), ==, 1);
}

static pthread_mutex_t another = PTHREAD_MUTEX_INITIALIZER;

static void *lock_another(void *arg)
{
    CHECK_INT(pthread_mutex_lock(&another), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&another), ==, 0);
    weft_event_set(arg);
    return NULL;
}

static void *spawn(void *arg)
{
    while (strcmp(weft_fiber_waits_for(((void **)arg)[0], NULL), "") == 0)
        sched_yield();
    CHECK_INT(weft_go(lock_another, ((void **)arg)[1]), ==, 0);
    return NULL;
}

/* A thread spawns a fiber while the only one waits. */
static void wait_until_another_has_locked(void)
{
    weft_event locked = {0};
    pthread_t thread;
    void *both[] = {weft_fiber_current(), &locked};
    CHECK_INT(pthread_mutex_lock(&mutex), ==, 0);
    CHECK_INT(pthread_create(&thread, NULL, spawn, both), ==, 0);
    CHECK_INT(weft_event_wait(&locked, WEFT_FOREVER), ==, 0);
    CHECK_INT(pthread_mutex_unlock(&mutex), ==, 0);
    CHECK_INT(pthread_join(thread, NULL), ==, 0);
}

TEST(a_fiber_that_was_alone_is_told_when_one_that_came_later_locks_something)
{
    char text[4096];
    if (is_kernel())
        SKIP("nobody tells");
    what_is_told_by(run_alone, wait_until_another_has_locked, text, sizeof text);
    printf("%s", text);
    CHECK_INT(lines_of(text), ==, 1);
    CHECK(strstr(text, "started at weft_run, waits at test_hook_lock_held+0x") != NULL);
    CHECK(strstr(text, "(event)") != NULL);
}

STATEMENTS(lock_held, a_fiber_that_waits_with_a_mutex_and_is_alone_is_not_told,
           a_fiber_that_was_alone_is_told_when_one_that_came_later_locks_something,
           a_fiber_that_waits_with_a_mutex_is_told_once_for_each_place, so_is_one_that_waits_by_this_librarys_own_calls,
           so_is_one_that_lets_others_run, the_line_is_true_of_a_fiber_without_a_name_and_of_a_recursive_mutex,
           who_waits_without_one_is_not_told)
