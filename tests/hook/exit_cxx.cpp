/*
 * pthread_exit in C++: destructors run in a fiber as in a thread; a catch (...) sees it, and must throw it on.
 */
#include <csignal>
#include <pthread.h>
#include <string>
#include <unistd.h>

#include <weft/weft.h>

extern "C" {
#include "hook/statement.h"
}

namespace
{

struct notes_its_end {
    std::string &trace;
    char letter;

    ~notes_its_end()
    {
        usleep(1000); // others have the thread meanwhile
        trace += letter;
    }
};

__attribute__((noinline)) void leaves(std::string &trace)
{
    notes_its_end c{trace, 'c'};
    usleep(1000);
    pthread_exit(&trace);
}

void *has_destructors(void *arg)
{
    std::string &trace = *static_cast<std::string *>(arg);
    notes_its_end a{trace, 'a'};
    try {
        notes_its_end b{trace, 'b'};
        leaves(trace);
        trace += '!';
    } catch (const std::exception &) {
        trace += '!';
    } catch (...) {
        trace += '.';
        throw;
    }
    return nullptr;
}

/* The value of fn(arg) in so many fibers of one worker, or in threads in the kernel's run. */
template <int N> void run(weft_fn *fn, std::string (&traces)[N])
{
    weft_sched *s = nullptr;
    weft_fiber *fibers[N];
    pthread_t threads[N];
    if (is_kernel()) {
        for (int i = 0; i < N; i++)
            CHECK_INT(pthread_create(&threads[i], nullptr, fn, &traces[i]), ==, 0);
        for (int i = 0; i < N; i++) {
            void *value = nullptr;
            CHECK_INT(pthread_join(threads[i], &value), ==, 0);
            CHECK_PTR(value, ==, &traces[i]);
        }
        return;
    }
    weft_sched_opts opts = {};
    opts.size = sizeof opts;
    opts.threads = 1;
    CHECK_INT(weft_sched_new(&s, &opts), ==, 0);
    CHECK_INT(weft_sched_start(s), ==, 0);
    for (int i = 0; i < N; i++)
        CHECK_INT(weft_sched_go(s, &fibers[i], nullptr, fn, &traces[i]), ==, 0);
    for (int i = 0; i < N; i++) {
        void *value = nullptr;
        CHECK_INT(weft_join(fibers[i], &value, weft_in(20 * WEFT_SEC)), ==, 0);
        CHECK_PTR(value, ==, &traces[i]);
    }
    CHECK_INT(weft_sched_stop(s, weft_in(10 * WEFT_SEC)), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

void *exits_while_it_handles_another(void *arg)
{
    try {
        throw 42;
    } catch (int) { // without a catch (...) inside, which would be an end by std::terminate in a thread too
        std::string &trace = *static_cast<std::string *>(arg);
        notes_its_end b{trace, 'b'};
        leaves(trace);
    }
    return nullptr;
}

void notes(void *arg)
{
    *static_cast<std::string *>(arg) += 'h';
}

void *has_a_handler(void *arg)
{
    std::string &trace = *static_cast<std::string *>(arg);
    notes_its_end a{trace, 'a'};
    pthread_cleanup_push(notes, arg);
    leaves(trace);
    pthread_cleanup_pop(0);
    return nullptr;
}

void *keeps_it(void *arg)
{
    try {
        pthread_exit(arg);
    } catch (...) {
    }
    return nullptr;
}

void fiber_keeps_it(void *arg)
{
    (void)arg;
    alarm(60);
    weft_run(keeps_it, nullptr, nullptr, nullptr);
}

} // namespace

TEST(destructors_run_and_catch_all_sees_it)
{
    std::string traces[5];
    run(has_destructors, traces);
    for (const std::string &trace : traces)
        CHECK_STR(trace.c_str(), "cb.a");
}

TEST(so_they_do_in_a_catch_clause)
{
    std::string traces[5];
    run(exits_while_it_handles_another, traces);
    for (const std::string &trace : traces)
        CHECK_STR(trace.c_str(), "cb");
}

TEST(handlers_run_among_destructors)
{
    std::string traces[5];
    run(has_a_handler, traces);
    for (const std::string &trace : traces)
        CHECK_STR(trace.c_str(), "cha");
}

TEST(one_that_is_not_thrown_on_ends_the_program)
{
    if (is_kernel())
        SKIP("the C library's line");
    CHECK_CHILD(fiber_keeps_it, nullptr, SIGABRT, "pthread_exit: a catch (...) in the fiber did not throw on");
}

TESTS(hook_exit_cxx, destructors_run_and_catch_all_sees_it, so_they_do_in_a_catch_clause,
      handlers_run_among_destructors, one_that_is_not_thrown_on_ends_the_program)
