/*
 * pthread_exit and thrd_exit: what they do to a thread they do to a fiber, and to that fiber alone. In the kernel's
 * run the flows are threads, so that the C library itself is seen to agree. Compiled twice: without -fexceptions,
 * where handlers are in a list, and with it, where they belong to their frames (exit_exceptions). exit_cxx.cpp has
 * destructors.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <threads.h>
#include <unistd.h>

#include <weft/hook.h>
#include <weft/weft.h>

#include "hook/statement.h"

/* A flow that has a value: a fiber on the one worker of a scheduler; in the kernel's run a thread. */
struct valued {
    weft_fiber *fiber;
    pthread_t thread;
};

static weft_sched *sched;

static void set_up(void)
{
    if (is_kernel())
        return;
    CHECK_INT(weft_sched_new(&sched, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 1}), ==, 0);
    CHECK_INT(weft_sched_start(sched), ==, 0);
}

static void tear_down(void)
{
    if (is_kernel())
        return;
    CHECK_INT(weft_sched_stop(sched, weft_in(10 * WEFT_SEC)), ==, 0);
    CHECK_INT(weft_sched_free(sched), ==, 0);
}

static void start(struct valued *v, void *(*fn)(void *), void *arg)
{
    if (is_kernel())
        CHECK_INT(pthread_create(&v->thread, NULL, fn, arg), ==, 0);
    else
        CHECK_INT(weft_sched_go(sched, &v->fiber, NULL, fn, arg), ==, 0);
}

static void *value_of(struct valued *v)
{
    void *value = NULL;
    if (is_kernel())
        CHECK_INT(pthread_join(v->thread, &value), ==, 0);
    else
        CHECK_INT(weft_join(v->fiber, &value, weft_in(20 * WEFT_SEC)), ==, 0);
    return value;
}

/* What happened, in order. owner: one flow at a time */
struct trace {
    char text[64];
};

static void note(struct trace *t, char c)
{
    size_t n = strlen(t->text);
    if (n + 1 < sizeof t->text)
        t->text[n] = c;
}

struct handler {
    struct trace *trace;
    char letter;
};

static void handles(void *arg)
{
    const struct handler *h = arg;
    note(h->trace, h->letter);
}

static __attribute__((noinline)) void leaves(void *value)
{
    usleep(1000); /* others have the thread meanwhile */
    pthread_exit(value);
}

static __attribute__((noinline)) void is_nested(struct trace *t)
{
    struct handler c = {t, 'c'}, d = {t, 'd'}, e = {t, 'e'};
    pthread_cleanup_push(handles, &c);
    usleep(1000);
    pthread_cleanup_push(handles, &d);
    pthread_cleanup_push(handles, &e);
    usleep(1000);
    pthread_cleanup_pop(0); /* e does not run */
    leaves(t);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    note(t, '!');
}

static void *ends_in_the_depth(void *arg)
{
    struct handler a = {arg, 'a'}, b = {arg, 'b'};
    pthread_cleanup_push(handles, &a);
    pthread_cleanup_push(handles, &b);
    is_nested(arg);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    note(arg, '!');
    return NULL;
}

TEST(the_value_is_joined)
{
    struct valued v;
    struct trace t = {{0}};
    set_up();
    start(&v, ends_in_the_depth, &t);
    CHECK_PTR(value_of(&v), ==, &t);
    tear_down();
}

TEST(handlers_run_last_in_first_out)
{
    struct valued v;
    struct trace t = {{0}};
    set_up();
    start(&v, ends_in_the_depth, &t);
    value_of(&v);
    CHECK_STR(t.text, "dcba");
    tear_down();
}

TEST(each_flow_has_handlers_of_its_own)
{
    enum { MANY = 20 };
    struct valued v[MANY];
    struct trace t[MANY];
    memset(t, 0, sizeof t);
    set_up();
    for (int i = 0; i < MANY; i++) /* they take turns at every sleep */
        start(&v[i], ends_in_the_depth, &t[i]);
    for (int i = 0; i < MANY; i++) {
        CHECK_PTR(value_of(&v[i]), ==, &t[i]);
        CHECK_STR(t[i].text, "dcba");
    }
    tear_down();
}

static void *pops_and_returns(void *arg)
{
    struct handler a = {arg, 'a'}, b = {arg, 'b'};
    pthread_cleanup_push(handles, &a);
    usleep(1000);
    pthread_cleanup_push(handles, &b);
    usleep(1000);
    pthread_cleanup_pop(1);
    pthread_cleanup_pop(0);
    return arg;
}

TEST(a_handler_that_is_popped_runs_if_asked_to)
{
    struct valued v[3];
    struct trace t[3];
    memset(t, 0, sizeof t);
    set_up();
    for (int i = 0; i < 3; i++)
        start(&v[i], i == 1 ? ends_in_the_depth : pops_and_returns, &t[i]);
    for (int i = 0; i < 3; i++) {
        CHECK_PTR(value_of(&v[i]), ==, &t[i]);
        CHECK_STR(t[i].text, i == 1 ? "dcba" : "b");
    }
    tear_down();
}

static void waits_and_handles(void *arg)
{
    usleep(1000);
    handles(arg);
    usleep(1000);
}

static void *has_a_handler_that_waits(void *arg)
{
    struct handler a = {arg, 'a'}, b = {arg, 'b'};
    pthread_cleanup_push(waits_and_handles, &a);
    pthread_cleanup_push(waits_and_handles, &b);
    leaves(arg);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return NULL;
}

TEST(a_handler_may_wait)
{
    enum { MANY = 5 };
    struct valued v[MANY];
    struct trace t[MANY];
    memset(t, 0, sizeof t);
    set_up();
    for (int i = 0; i < MANY; i++)
        start(&v[i], has_a_handler_that_waits, &t[i]);
    for (int i = 0; i < MANY; i++) {
        CHECK_PTR(value_of(&v[i]), ==, &t[i]);
        CHECK_STR(t[i].text, "ba");
    }
    tear_down();
}

static void *ends_by_thrd_exit(void *arg)
{
    struct handler a = {arg, 'a'};
    pthread_cleanup_push(handles, &a);
    thrd_exit(-7);
    pthread_cleanup_pop(0);
}

TEST(thrd_exit_does_the_same)
{
    struct valued v;
    struct trace t = {{0}};
    set_up();
    start(&v, ends_by_thrd_exit, &t);
    CHECK_INT((int)(intptr_t)value_of(&v), ==, -7);
    CHECK_STR(t.text, "a");
    tear_down();
}

static void *ends_first(void *arg)
{
    leaves(arg);
    return NULL;
}

TEST(the_others_go_on)
{
    enum { MANY = 1000 };
    static struct valued v[MANY];
    struct trace t = {{0}};
    struct valued other;
    set_up();
    start(&other, pops_and_returns, &t);
    for (int i = 0; i < MANY; i += 50) { /* stacks are used again */
        for (int j = i; j < i + 50; j++)
            start(&v[j], ends_first, &v[j]);
        for (int j = i; j < i + 50; j++)
            CHECK_PTR(value_of(&v[j]), ==, &v[j]);
    }
    CHECK_PTR(value_of(&other), ==, &t);
    tear_down();
}

/* ---- what only fibers have ---- */

static int destroyed; /* atomic */

static void destroys(void *value)
{
    __atomic_add_fetch(&destroyed, (int)(intptr_t)value, __ATOMIC_RELAXED);
}

static void *has_a_local(void *arg)
{
    CHECK_INT(weft_local_set(*(weft_local *)arg, (void *)3), ==, 0);
    pthread_exit(arg);
}

TEST(values_of_the_fiber_are_destroyed)
{
    static weft_local key;
    struct valued v;
    if (is_kernel())
        SKIP("threads have no such values");
    set_up();
    CHECK_INT(weft_local_new(&key, destroys), ==, 0);
    start(&v, has_a_local, &key);
    CHECK_PTR(value_of(&v), ==, &key);
    CHECK_INT(__atomic_load_n(&destroyed, __ATOMIC_RELAXED), ==, 3);
    tear_down();
}

TEST(a_fiber_on_a_shared_stack_ends_so_too)
{
    enum { MANY = 6 };
    weft_fiber *f[MANY];
    struct trace t[MANY];
    weft_stacks *stacks = NULL;
    if (is_kernel())
        SKIP("threads have no shared stacks");
    memset(t, 0, sizeof t);
    set_up();
    CHECK_INT(weft_stacks_new(&stacks, 2, 0), ==, 0);
    for (int i = 0; i < MANY; i++) {
        weft_attr attr = {.size = sizeof attr, .shared = stacks};
        CHECK_INT(weft_sched_go(sched, &f[i], &attr, ends_in_the_depth, &t[i]), ==, 0);
    }
    for (int i = 0; i < MANY; i++) {
        void *value = NULL;
        CHECK_INT(weft_join(f[i], &value, weft_in(20 * WEFT_SEC)), ==, 0);
        CHECK_PTR(value, ==, &t[i]);
        CHECK_STR(t[i].text, "dcba");
    }
    tear_down();
    CHECK_INT(weft_stacks_free(stacks), ==, 0);
}

static int fired; /* atomic */

static void fires_and_leaves(void *arg)
{
    (void)arg;
    __atomic_add_fetch(&fired, 1, __ATOMIC_RELAXED);
    pthread_exit(NULL);
}

static void *uses_a_timer(void *arg)
{
    weft_timer *t = NULL;
    weft_alive *alive = NULL;
    static int object;
    CHECK_INT(weft_alive_new(&alive, &object, NULL), ==, 0);
    CHECK_INT(weft_timer_new(&t, WEFT_MS, true, alive, fires_and_leaves, NULL), ==, 0);
    for (weft_time end = weft_in(20 * WEFT_SEC);
         __atomic_load_n(&fired, __ATOMIC_RELAXED) < 5 && weft_now().ns < end.ns;)
        weft_sleep(WEFT_MS);
    CHECK_INT(fired, >=, 5);
    CHECK_INT(weft_timer_free(t), >=, 0);
    weft_alive_drop(alive); /* waits for nobody, and panics if something is wrong */
    return arg;
}

TEST(a_callback_of_a_timer_may_end_so)
{
    struct valued v;
    if (is_kernel())
        SKIP("there are no timers");
    set_up();
    start(&v, uses_a_timer, &v);
    CHECK_PTR(value_of(&v), ==, &v);
    tear_down();
}

static void answers_and_leaves(int fd, void *arg)
{
    (void)arg;
    CHECK_INT(weft_write(fd, "x", 1, weft_in(20 * WEFT_SEC)), ==, 1);
    pthread_exit(NULL);
}

static void *dials(void *arg)
{
    char address[64], byte;
    snprintf(address, sizeof address, "127.0.0.1:%d", weft_port(*(int *)arg));
    for (int i = 0; i < 3; i++) {
        int fd = weft_dial(address, weft_in(20 * WEFT_SEC));
        CHECK_INT(fd, >=, 0);
        CHECK_INT(weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)), ==, 1);
        CHECK_INT(weft_read(fd, &byte, 1, weft_in(20 * WEFT_SEC)), ==, 0); /* it is closed all the same */
        weft_close(fd);
    }
    return arg;
}

static void *serves(void *listener)
{
    weft_serve_opts opts = {.size = sizeof opts, .max_conns = 1};
    weft_serve(*(int *)listener, answers_and_leaves, NULL, &opts, WEFT_FOREVER);
    return listener;
}

TEST(a_handler_of_a_server_may_end_so)
{
    struct valued server, client;
    if (is_kernel())
        SKIP("there is no server");
    set_up();
    int listener = weft_listen("127.0.0.1:0");
    CHECK_INT(listener, >=, 0);
    start(&server, serves, &listener);
    start(&client, dials, &listener);
    CHECK_PTR(value_of(&client), ==, &listener);
    CHECK_INT(weft_cancel(server.fiber), ==, 0);
    CHECK_PTR(value_of(&server), ==, &listener);
    tear_down();
    weft_close(listener);
}

/* ---- where it is the C library's, and so a panic ---- */

static void *has_no_hooks(void *arg)
{
    weft_hook_enable(false);
    pthread_exit(arg);
}

static void *exits(void *arg)
{
    pthread_exit(arg);
}

static void *is_in_a_coroutine(void *arg)
{
    weft_coro *c = NULL;
    CHECK_INT(weft_coro_new(&c, exits, arg, NULL), ==, 0);
    weft_coro_resume(c, NULL, NULL);
    return NULL;
}

static void run(void *fn)
{
    alarm(60);
    weft_run((weft_fn *)fn, NULL, NULL, &(weft_sched_opts){.size = sizeof(weft_sched_opts), .threads = 1});
}

TEST(without_hooks_and_in_a_coroutine_it_panics)
{
    CHECK_CHILD(run, (void *)has_no_hooks, SIGABRT, "weft: pthread_exit: fiber ");
    CHECK_CHILD(run, (void *)is_in_a_coroutine, SIGABRT, "weft: pthread_exit: fiber ");
}

static void *end_of_a_thread(void *arg)
{
    struct handler a = {arg, 'a'}, b = {arg, 'b'};
    pthread_cleanup_push(handles, &a);
    pthread_cleanup_push(handles, &b);
    pthread_exit(arg);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
}

TEST(plain_threads_end_as_ever)
{
    pthread_t thread;
    struct trace t = {{0}};
    void *value = NULL;
    CHECK_INT(pthread_create(&thread, NULL, end_of_a_thread, &t), ==, 0);
    CHECK_INT(pthread_join(thread, &value), ==, 0);
    CHECK_PTR(value, ==, &t);
    CHECK_STR(t.text, "ba");
}

TESTS(hook_exit, the_value_is_joined, handlers_run_last_in_first_out, each_flow_has_handlers_of_its_own,
      a_handler_that_is_popped_runs_if_asked_to, a_handler_may_wait, thrd_exit_does_the_same, the_others_go_on,
      values_of_the_fiber_are_destroyed, a_fiber_on_a_shared_stack_ends_so_too, a_callback_of_a_timer_may_end_so,
      a_handler_of_a_server_may_end_so, without_hooks_and_in_a_coroutine_it_panics, plain_threads_end_as_ever)
