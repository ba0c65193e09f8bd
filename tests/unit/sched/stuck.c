/*
 * Fibers that nobody will wake: while weft_run or weft_sched_run waits for them without a deadline, a list of them is
 * printed once, after a second, unless something in the process may wake them.
 *
 * Each program runs in a child, whose only threads are the scheduler's. (ThreadSanitizer and emulators add threads of
 * their own, so only circles are told there.) The test listens to its standard error, and ends it.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <weft/chan.h>
#include <weft/io.h>
#include <weft/offload.h>
#include <weft/sync.h>
#include <weft/timer.h>
#include <weft/watch.h>

#include "base/sanitizer.h"
#include "base/sys.h"
#include "unit/sched/ground.h"
#include "unit/sched/heard.h"

#define END "this is not said again"
#define ONLY_CIRCLES_ARE_TOLD_HERE                                                                                     \
    do {                                                                                                               \
        if (WF_TSAN || TEST_EMULATED)                                                                                  \
            SKIP("the process has threads of its sanitizer or emulator");                                              \
    } while (0)

struct program {
    pid_t pid;
    int said;
    int64_t began;
};

static void begin(struct program *p, void (*fn)(void))
{
    int ends[2];
    CHECK_INT(pipe2(ends, O_CLOEXEC), ==, 0);
    fflush(stderr);
    p->began = real_now();
    p->pid = fork();
    if (p->pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        fn();
        _exit(test_has_failed() ? 1 : 0);
    }
    close(ends[1]);
    p->said = ends[0];
}

/* Adds what is said within `ms` to the text, until that has `last` (NULL: to the program's end). False: it has not. */
static bool hear_more(const struct program *p, char *text, size_t room, const char *last, int64_t ms)
{
    size_t n = strlen(text);
    int64_t until = real_now() + ms * 1000000, left;
    while ((left = until - real_now()) > 0 && n < room - 1) {
        struct pollfd it = {.fd = p->said, .events = POLLIN};
        if (poll(&it, 1, (int)(left / 1000000) + 1) <= 0)
            continue;
        ssize_t got = read(p->said, text + n, room - 1 - n);
        if (got <= 0)
            return last == NULL;
        n += (size_t)got;
        text[n] = '\0';
        if (last && strstr(text, last))
            return true;
    }
    return false;
}

/* False: it was not well. */
static bool end(const struct program *p)
{
    int status = 0;
    kill(p->pid, SIGKILL);
    waitpid(p->pid, &status, 0);
    close(p->said);
    return WIFSIGNALED(status) || WEXITSTATUS(status) == 0;
}

/* The list that a stuck program prints. */
static void hear_list(const char *file, int line, void (*fn)(void), char *text, size_t room)
{
    struct program p;
    text[0] = '\0';
    begin(&p, fn);
    if (!hear_more(&p, text, room, END, AWAIT_SECONDS * 1000))
        test_failed(file, line, "no list, but: %s", text);
    if (real_now() - p.began < WEFT_SEC)
        test_failed(file, line, "the list came too early");
    CHECK(end(&p));
}
#define HEAR_LIST(fn, text) hear_list(__FILE__, __LINE__, fn, text, sizeof text)

#define SAYS(text, ...)                                                                                                \
    do {                                                                                                               \
        char says_[300];                                                                                               \
        snprintf(says_, sizeof says_, __VA_ARGS__);                                                                    \
        if (how_often(text, says_) != 1)                                                                               \
            test_failed(__FILE__, __LINE__, "not once \"%s\" in: %s", says_, text);                                    \
    } while (0)

static weft_fiber *go_as(const char *name, weft_fn *fn, void *arg)
{
    weft_fiber *f = NULL;
    CHECK_INT(weft_go_with(&f, &(weft_attr){.name = name}, fn, arg), ==, 0);
    return f;
}

/* Of the test and its children: they are at the same place in both. */
static weft_mutex mutexes[2];
static weft_rwlock written, read_by_two;
static weft_cond cond;
static weft_sem sem;
static weft_event event;
static weft_waitgroup group = {1, 0, {NULL, NULL}};
static weft_barrier barrier;
static weft_once once;
static weft_chan *chan;
static int pipe_ends[2];
static int holding;

/* ---- two mutexes ---- */

static void *takes_both(void *arg)
{
    int mine = (int)(intptr_t)arg;
    CHECK_INT(weft_mutex_lock(&mutexes[mine], WEFT_FOREVER), ==, 0);
    more(&holding);
    AWAIT(seen(&holding) == 2);
    weft_mutex_lock(&mutexes[1 - mine], WEFT_FOREVER);
    return NULL;
}

static void *locks_crosswise(void *arg)
{
    go_as("left", takes_both, ptr(0));
    go_as("right", takes_both, ptr(1));
    return arg;
}

static void crosswise_on_one(void)
{
    in_a_fiber(1, locks_crosswise, NULL);
}

static void crosswise_on_two(void)
{
    in_a_fiber(2, locks_crosswise, NULL);
}

static void check_crosswise(const char *text)
{
    SAYS(text, "weft: weft_run of \"weft\" waits for fibers that ");
    SAYS(text, " \"left\" parked, waits for mutex %p, held by fiber ", (void *)&mutexes[1]);
    SAYS(text, " \"right\" parked, waits for mutex %p, held by fiber ", (void *)&mutexes[0]);
    CHECK_INT(how_often(text, " \"right\", age"), ==, 1);
    CHECK_INT(how_often(text, " \"left\", age"), ==, 1);
    CHECK_INT(how_often(text, "\n"), ==, 4);
}

TEST(two_fibers_that_wait_for_each_others_mutex_are_listed_once_after_a_second)
{
    char text[8192] = "";
    struct program p;
    begin(&p, crosswise_on_one);
    CHECK(hear_more(&p, text, sizeof text, END, AWAIT_SECONDS * 1000));
    CHECK_INT(real_now() - p.began, >=, WEFT_SEC);
    hear_more(&p, text, sizeof text, "\n never", 2500);
    CHECK(end(&p));
    check_crosswise(text);
#if !WF_TSAN && !TEST_EMULATED
    SAYS(text, "nothing in the process can wake");
#endif
}

TEST(so_are_those_of_several_workers)
{
    char text[8192];
    HEAR_LIST(crosswise_on_two, text);
    check_crosswise(text);
}

static void *stays(void *arg)
{
    pause();
    return arg;
}

static void crosswise_beside_a_thread(void)
{
    new_thread(stays, NULL);
    in_a_fiber(1, locks_crosswise, NULL);
}

TEST(a_circle_is_told_though_there_are_other_threads)
{
    char text[8192];
    HEAR_LIST(crosswise_beside_a_thread, text);
    check_crosswise(text);
    SAYS(text, "wait for each other in a circle");
}

static void crosswise_without_memory(void)
{
    new_thread(stays, NULL);
    weft_sched *s = NULL;
    CHECK_INT(weft_sched_new(&s, &(weft_sched_opts){.threads = 1, .use_caller = true}), ==, 0);
    CHECK_INT(weft_sched_go(s, NULL, NULL, locks_crosswise, NULL), ==, 0);
    weft_sched_run(s, weft_in(200 * WEFT_MS));
    wf_sys_fail(1u << WF_SYS_MALLOC, 1, 0);
    weft_sched_run(s, WEFT_FOREVER);
}

TEST(a_look_that_has_no_memory_is_made_again)
{
    struct program p;
    char text[8192] = "";
    begin(&p, crosswise_without_memory);
    CHECK(hear_more(&p, text, sizeof text, END, AWAIT_SECONDS * 1000));
    CHECK_INT(real_now() - p.began, >=, 3 * WEFT_SEC); /* the second look is two seconds after the first */
    CHECK(end(&p));
    SAYS(text, "weft: weft_sched_run of \"weft\" waits for fibers that wait for each other in a circle");
}

static void crosswise_without_a_window(void)
{
    wf_sys_fail(1u << WF_SYS_EVENTFD, 1, 1000);
    in_a_fiber(1, locks_crosswise, NULL);
}

TEST(without_a_descriptor_the_holder_is_left_out)
{
    ONLY_CIRCLES_ARE_TOLD_HERE;
    char text[8192];
    HEAR_LIST(crosswise_without_a_window, text);
    SAYS(text, " \"left\" parked, waits for mutex %p, age ", (void *)&mutexes[1]);
}

/* ---- one of each ---- */

static void *holds_it_to_write(void *arg)
{
    CHECK_INT(weft_rwlock_write_lock(&written, WEFT_FOREVER), ==, 0);
    weft_sem_wait(&sem, WEFT_FOREVER);
    return arg;
}

static void *wants_to_read(void *arg)
{
    weft_rwlock_read_lock(&written, WEFT_FOREVER);
    return arg;
}

static void *reads_and_waits(void *arg)
{
    CHECK_INT(weft_rwlock_read_lock(&read_by_two, WEFT_FOREVER), ==, 0);
    weft_event_wait(&event, WEFT_FOREVER);
    return arg;
}

static void *wants_to_write(void *arg)
{
    weft_rwlock_write_lock(&read_by_two, WEFT_FOREVER);
    return arg;
}

static void *waits_for_the_condition(void *arg)
{
    CHECK_INT(weft_mutex_lock(&mutexes[0], WEFT_FOREVER), ==, 0);
    weft_cond_wait(&cond, &mutexes[0], WEFT_FOREVER);
    return arg;
}

static void *waits_for_the_group(void *arg)
{
    weft_waitgroup_wait(&group, WEFT_FOREVER);
    return arg;
}

static void *comes_to_the_barrier(void *arg)
{
    weft_barrier_wait(&barrier, WEFT_FOREVER);
    return arg;
}

static void never_returns(void *arg)
{
    (void)arg;
    weft_park(WEFT_FOREVER);
}

static void *does_it_once(void *arg)
{
    weft_once_do(&once, never_returns, NULL, WEFT_FOREVER);
    return arg;
}

static void *receives(void *arg)
{
    char byte;
    weft_chan_recv(chan, &byte, WEFT_FOREVER);
    return arg;
}

static void *selects(void *arg)
{
    weft_case cases[] = {{.op = WEFT_EVENT, .event = &event}, {.op = WEFT_RECV, .chan = chan, .value = &(char){0}}};
    weft_select(cases, 2, WEFT_FOREVER);
    return arg;
}

static void *joins(void *arg)
{
    ended(arg);
    return NULL;
}

static void *spawns_one_of_each(void *arg)
{
    CHECK_INT(weft_barrier_init(&barrier, 2), ==, 0);
    go_as("writer", holds_it_to_write, NULL);
    go_as("wants to read", wants_to_read, NULL);
    go_as("reader", reads_and_waits, NULL);
    go_as("second reader", reads_and_waits, NULL);
    go_as("wants to write", wants_to_write, NULL);
    go_as("cond", waits_for_the_condition, NULL);
    go_as("group", waits_for_the_group, NULL);
    go_as("barrier", comes_to_the_barrier, NULL);
    weft_fiber *calls = go_as("calls", does_it_once, NULL);
    go_as("once", does_it_once, NULL);
    go_as("chan", receives, NULL);
    go_as("select", selects, NULL);
    go_as("join", joins, calls);
    return arg;
}

static void one_of_each(void)
{
    in_a_fiber(1, spawns_one_of_each, NULL);
}

TEST(every_object_has_its_address_and_locks_their_holder)
{
    ONLY_CIRCLES_ARE_TOLD_HERE;
    char text[8192];
    CHECK_INT(weft_chan_new(&chan, 1, 0), ==, 0);
    HEAR_LIST(one_of_each, text);
    SAYS(text, "\"writer\" parked, waits for semaphore %p, age", (void *)&sem);
    SAYS(text, "\"wants to read\" parked, waits for rwlock (read) %p, held by fiber ", (void *)&written);
    SAYS(text, "\"writer\", age");
    SAYS(text, "\"reader\" parked, waits for event %p, age", (void *)&event);
    SAYS(text, "\"wants to write\" parked, waits for rwlock (write) %p, which 2 hold to read, age",
         (void *)&read_by_two);
    SAYS(text, "\"cond\" parked, waits for condition %p, age", (void *)&cond);
    SAYS(text, "\"group\" parked, waits for waitgroup %p, age", (void *)&group);
    SAYS(text, "\"barrier\" parked, waits for barrier %p, age", (void *)&barrier);
    SAYS(text, "\"calls\" parked, waits for unpark, age");
    SAYS(text, "\"once\" parked, waits for once %p, held by fiber ", (void *)&once);
    SAYS(text, "\"chan\" parked, waits for channel receive %p, age", (void *)chan);
    SAYS(text, "\"select\" parked, waits for select, age");
    SAYS(text, "\"join\" parked, waits for join of fiber ");
    CHECK_INT(how_often(text, "\"calls\", age"), ==, 2);
    CHECK_INT(weft_chan_free(chan), ==, 0);
}

/* ---- who waits ---- */

static void run_from_outside(void)
{
    weft_sched *s = running_sched(2);
    weft_fiber *f = go_on(s, parks, NULL);
    AWAIT(is_parked(f) && figures(s).idle == 2); /* they sleep before anybody waits for their end */
    weft_sched_run(s, WEFT_FOREVER);
}

TEST(who_waits_for_workers_of_their_own_hears_it_too)
{
    ONLY_CIRCLES_ARE_TOLD_HERE;
    char text[8192];
    HEAR_LIST(run_from_outside, text);
    SAYS(text, "weft: weft_sched_run of \"weft\" waits for fibers that nothing in the process can wake");
    SAYS(text, "parked, waits for unpark");
}

static void *joins_one_that_is_stuck(void *arg)
{
    ended(go_as("left", takes_both, ptr(0)));
    return arg;
}

static void *is_stuck_with_it(void *arg)
{
    go_as("right", takes_both, ptr(1));
    return joins_one_that_is_stuck(arg);
}

static void until_the_first_ends(void)
{
    weft_run(is_stuck_with_it, NULL, NULL,
             &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 1, .end_with_first = true});
}

TEST(so_does_who_waits_for_the_first_fiber_alone)
{
    char text[8192];
    HEAR_LIST(until_the_first_ends, text);
    SAYS(text, "weft: weft_run of \"weft\" waits for fibers that ");
    SAYS(text, "parked, waits for join of fiber ");
}

static void *a_mutex_of_a_thread(void *arg)
{
    weft_mutex_lock(&mutexes[0], WEFT_FOREVER);
    return arg;
}

static void stop_of_a_threads_mutex(void)
{
    weft_sched *s = new_sched(1, true);
    CHECK_INT(weft_mutex_lock(&mutexes[0], WEFT_FOREVER), ==, 0);
    go_on(s, a_mutex_of_a_thread, NULL);
    weft_sched_stop(s, WEFT_FOREVER);
}

TEST(a_stop_names_objects_and_holders_too)
{
    char text[8192];
    HEAR_LIST(stop_of_a_threads_mutex, text);
    SAYS(text, "weft: weft_sched_stop of \"weft\" waits for fibers that nothing in it can wake");
    SAYS(text, "waits for mutex %p, held by a thread, or by a fiber that has ended, age", (void *)&mutexes[0]);
}

/* ---- what may still wake them ---- */

enum { LATE_MS = 2500 };

static void pause_ms(int ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    while (nanosleep(&span, &span) != 0)
        ;
}

static void *posts_late(void *arg)
{
    pause_ms(LATE_MS);
    weft_sem_post(&sem);
    return arg;
}

static void *waits_for_a_post(void *arg)
{
    CHECK_INT(weft_sem_wait(&sem, WEFT_FOREVER), ==, 0);
    return arg;
}

static void beside_a_thread(void)
{
    pthread_t thread = new_thread(posts_late, NULL);
    in_a_fiber(1, waits_for_a_post, NULL);
    pthread_join(thread, NULL);
}

static void *offloads_the_post(void *arg)
{
    go_as("waits", waits_for_a_post, NULL);
    CHECK_INT(weft_offload(posts_late, arg, NULL, WEFT_FOREVER), ==, 0);
    return arg;
}

static void beside_a_helper(void)
{
    in_a_fiber(1, offloads_the_post, NULL);
}

static void *sleeps_and_posts(void *arg)
{
    CHECK_INT(weft_sleep(LATE_MS * WEFT_MS), ==, 0);
    weft_sem_post(&sem);
    return arg;
}

static void *spawns_a_sleeper(void *arg)
{
    go_as("sleeper", sleeps_and_posts, NULL);
    return waits_for_a_post(arg);
}

static void beside_a_sleeper(void)
{
    in_a_fiber(2, spawns_a_sleeper, NULL);
}

static void posts(void *arg)
{
    (void)arg;
    weft_sem_post(&sem);
}

static void *starts_a_recurring_timer(void *arg)
{
    weft_timer *t = NULL;
    CHECK_INT(weft_timer_new(&t, LATE_MS * WEFT_MS, true, NULL, posts, NULL), ==, 0);
    waits_for_a_post(arg);
    weft_timer_cancel(t);
    weft_timer_free(t);
    return arg;
}

static void beside_a_timer(void)
{
    in_a_fiber(1, starts_a_recurring_timer, NULL);
}

static void writes_to_the_pipe(int number)
{
    (void)number;
    if (write(pipe_ends[1], "x", 1) != 1)
        _exit(1);
}

/* The kernel writes, by a signal: another thread would count by itself. */
static void *reads_what_comes_late(void *arg)
{
    char byte;
    CHECK_INT(pipe(pipe_ends), ==, 0);
    signal(SIGALRM, writes_to_the_pipe);
    alarm(3);
    CHECK_INT(weft_read(pipe_ends[0], &byte, 1, WEFT_FOREVER), ==, 1);
    weft_sem_post(&sem);
    return arg;
}

static void *spawns_a_reader(void *arg)
{
    go_as("reader", reads_what_comes_late, NULL);
    return waits_for_a_post(arg);
}

static void beside_a_descriptor(void)
{
    in_a_fiber(2, spawns_a_reader, NULL);
}

static void posts_for_a_watch(int fd, unsigned events, void *arg)
{
    (void)fd, (void)events, (void)arg;
    weft_sem_post(&sem);
}

static void *watches_what_comes_late(void *arg)
{
    CHECK_INT(pipe(pipe_ends), ==, 0);
    signal(SIGALRM, writes_to_the_pipe);
    alarm(3);
    CHECK_INT(weft_watch_add(pipe_ends[0], WEFT_READ, posts_for_a_watch, NULL), ==, 0);
    return waits_for_a_post(arg);
}

static void beside_a_watch(void)
{
    in_a_fiber(1, watches_what_comes_late, NULL);
}

static void closes_the_other_end(int number)
{
    (void)number;
    close(pipe_ends[1]);
}

static void *is_cancelled_by_a_hangup(void *arg)
{
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, pipe_ends), ==, 0);
    signal(SIGALRM, closes_the_other_end);
    alarm(3);
    CHECK_INT(weft_cancel_on_hangup(pipe_ends[0], weft_fiber_current()), ==, 0);
    CHECK_INT(weft_sem_wait(&sem, WEFT_FOREVER), ==, -ECANCELED);
    weft_close(pipe_ends[0]);
    return arg;
}

static void beside_a_hangup(void)
{
    in_a_fiber(1, is_cancelled_by_a_hangup, NULL);
}

static void with_a_deadline(void)
{
    weft_sched *s = new_sched(1, true);
    weft_fiber *f = go_on(s, parks, NULL);
    CHECK_INT(weft_sched_run(s, weft_in(LATE_MS * WEFT_MS)), ==, -ETIMEDOUT);
    CHECK_INT(weft_cancel(f), ==, 0);
    end_sched(s);
}

static void *waits_in_a_shield(void *arg)
{
    CHECK_INT(weft_shield_begin(weft_in(LATE_MS * WEFT_MS)), ==, 0);
    CHECK_INT(weft_park(WEFT_FOREVER), ==, -ECANCELED);
    weft_shield_end();
    return arg;
}

static void *cancels_one_in_a_shield(void *arg)
{
    weft_fiber *f = go_as("shielded", waits_in_a_shield, NULL);
    AWAIT(is_parked(f));
    CHECK_INT(weft_cancel(f), ==, 0);
    ended(f);
    return arg;
}

static void beside_a_shield(void)
{
    in_a_fiber(1, cancels_one_in_a_shield, NULL);
}

/* All at once: each takes seconds. */
TEST(nothing_is_said_while_anything_in_the_process_may_wake_them)
{
    static void (*const fn[])(void) = {beside_a_thread, beside_a_helper,     beside_a_sleeper,
                                       beside_a_timer,  beside_a_descriptor, beside_a_watch,
                                       beside_a_shield, beside_a_hangup,     with_a_deadline};
    static const char *const name[] = {"thread", "helper", "sleeper", "timer",   "descriptor",
                                       "watch",  "shield", "hangup",  "deadline"};
    enum { ALL = sizeof fn / sizeof fn[0] };
    struct program p[ALL];
    for (int i = 0; i < ALL; i++)
        begin(&p[i], fn[i]);
    for (int i = 0; i < ALL; i++) {
        char text[8192] = "";
        if (!hear_more(&p[i], text, sizeof text, NULL, AWAIT_SECONDS * 1000) || text[0])
            test_failed(__FILE__, __LINE__, "beside a %s: it has not ended, or it said \"%s\"", name[i], text);
        CHECK(end(&p[i]));
    }
}

static void *ends_without_a_word(void *arg)
{
    pause_ms(1500);
    return arg;
}

static void beside_a_thread_that_ends(void)
{
    new_thread(ends_without_a_word, NULL);
    in_a_fiber(1, parks, NULL);
}

TEST(it_is_told_later_when_the_last_thread_has_ended)
{
    ONLY_CIRCLES_ARE_TOLD_HERE;
    char text[8192];
    HEAR_LIST(beside_a_thread_that_ends, text);
    SAYS(text, "nothing in the process can wake");
}

TESTS(sched_stuck, two_fibers_that_wait_for_each_others_mutex_are_listed_once_after_a_second,
      so_are_those_of_several_workers, a_circle_is_told_though_there_are_other_threads,
      a_look_that_has_no_memory_is_made_again, without_a_descriptor_the_holder_is_left_out,
      every_object_has_its_address_and_locks_their_holder, who_waits_for_workers_of_their_own_hears_it_too,
      so_does_who_waits_for_the_first_fiber_alone, a_stop_names_objects_and_holders_too,
      nothing_is_said_while_anything_in_the_process_may_wake_them, it_is_told_later_when_the_last_thread_has_ended)
