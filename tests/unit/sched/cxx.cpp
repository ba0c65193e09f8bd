/*
 * C++ in fibers: exceptions that are thrown, being handled and in flight when their fiber gives way, on every kind of
 * stack. Each fiber finds its own exceptions again, and nobody else's.
 */
#include <csignal>
#include <exception>
#include <stdexcept>
#include <string>

#include <weft/weft.h>

#include "support/test.h"

namespace
{

/* Of the exception that is being handled. */
std::string what_is_current()
{
    const std::exception_ptr current = std::current_exception();
    if (!current)
        return "none";
    try {
        std::rethrow_exception(current);
    } catch (const std::exception &e) {
        return e.what();
    }
}

void give_way(int how)
{
    if (how % 3 == 0)
        weft_yield();
    else if (how % 3 == 1)
        CHECK_INT(weft_sleep(WEFT_US), ==, 0);
    else
        CHECK_INT(weft_park(weft_in(WEFT_US)), ==, -ETIMEDOUT);
}

void *gives_way_in_catch_blocks(void *arg)
{
    const std::string name = "fiber " + std::to_string(reinterpret_cast<intptr_t>(arg));
    CHECK(std::current_exception() == nullptr);
    for (int i = 0; i < 20; i++) {
        try {
            try {
                throw std::runtime_error(name);
            } catch (const std::exception &e) {
                give_way(i);
                CHECK_STR(e.what(), name.c_str());
                try {
                    throw std::logic_error("inner " + name);
                } catch (const std::logic_error &inner) {
                    give_way(i + 1);
                    CHECK_STR(inner.what(), ("inner " + name).c_str());
                    CHECK_STR(what_is_current().c_str(), ("inner " + name).c_str());
                }
                give_way(i + 2);
                CHECK_STR(what_is_current().c_str(), name.c_str());
                throw;
            }
        } catch (const std::runtime_error &e) {
            give_way(i);
            CHECK_STR(e.what(), name.c_str());
        }
        CHECK(std::current_exception() == nullptr);
    }
    return nullptr;
}

/* A destructor that gives way while an exception unwinds the stack. */
struct GivesWayAtTheEnd {
    ~GivesWayAtTheEnd()
    {
        CHECK_INT(std::uncaught_exceptions(), ==, 1);
        give_way(1);
        CHECK_INT(std::uncaught_exceptions(), ==, 1);
    }
};

void *gives_way_while_unwinding(void *arg)
{
    const std::string name = "unwinding " + std::to_string(reinterpret_cast<intptr_t>(arg));
    for (int i = 0; i < 20; i++) {
        CHECK_INT(std::uncaught_exceptions(), ==, 0);
        try {
            GivesWayAtTheEnd object;
            throw std::runtime_error(name);
        } catch (const std::runtime_error &e) {
            CHECK_STR(e.what(), name.c_str());
        }
        give_way(i);
    }
    return nullptr;
}

/* The same in a raw coroutine, out of a catch block of the fiber's own. */
void *handles_at_two_levels(void *arg)
{
    weft_coro *c;
    CHECK_INT(weft_coro_new(&c, gives_way_in_catch_blocks, arg, nullptr), ==, 0);
    try {
        throw std::runtime_error("the fiber's own");
    } catch (const std::exception &) {
        CHECK_INT(weft_coro_resume(c, nullptr, nullptr), ==, 0);
        CHECK_STR(what_is_current().c_str(), "the fiber's own");
    }
    CHECK_INT(weft_coro_free(c), ==, 0);
    return nullptr;
}

void *many_at_once(void *shared)
{
    constexpr int many = 9;
    weft_fn *const kinds[] = {gives_way_in_catch_blocks, gives_way_while_unwinding, handles_at_two_levels};
    weft_fiber *f[many];
    weft_attr attr = {};
    attr.shared = static_cast<weft_stacks *>(shared);
    try {
        throw std::runtime_error("the first fiber's");
    } catch (const std::exception &) {
        for (int i = 0; i < many; i++)
            CHECK_INT(weft_go_with(&f[i], &attr, kinds[i % 3], reinterpret_cast<void *>(static_cast<intptr_t>(i))), ==,
                      0);
        for (weft_fiber *one : f) {
            CHECK_INT(weft_join(one, nullptr, WEFT_FOREVER), ==, 0);
            CHECK_STR(what_is_current().c_str(), "the first fiber's");
        }
    }
    return nullptr;
}

void run_with(unsigned workers, weft_stacks *pool)
{
    weft_sched_opts opts = {};
    opts.threads = workers;
    CHECK_INT(weft_run(many_at_once, pool, nullptr, &opts), ==, 0);
}

TEST(each_fiber_finds_its_own_exceptions_again)
{
    run_with(1, nullptr);
    run_with(4, nullptr);
}

TEST(exceptions_on_shared_stacks_stay_with_their_fibers)
{
    weft_stacks *pool;
    REQUIRE(weft_stacks_new(&pool, 2, 0) == 0);
    run_with(1, pool);
    run_with(2, pool);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

TEST(worker_0_keeps_the_threads_own)
{
    weft_sched_opts opts = {};
    weft_sched *s;
    opts.threads = 1;
    opts.use_caller = true;
    REQUIRE(weft_sched_new(&s, &opts) == 0);
    CHECK_INT(weft_sched_go(s, nullptr, nullptr, many_at_once, nullptr), ==, 0);
    try {
        throw std::runtime_error("the thread's");
    } catch (const std::exception &) {
        while (weft_sched_run(s, WEFT_NOW) == -EAGAIN)
            CHECK_STR(what_is_current().c_str(), "the thread's");
        CHECK_STR(what_is_current().c_str(), "the thread's");
    }
    CHECK_INT(weft_sched_stop(s, WEFT_FOREVER), ==, 0);
    CHECK_INT(weft_sched_free(s), ==, 0);
}

void *throws_out(void *arg)
{
    weft_yield();
    throw std::runtime_error("nobody catches this");
    return arg;
}

void *starts_a_careless_one(void *arg)
{
    weft_fiber *f;
    weft_attr attr = {};
    attr.name = "careless";
    CHECK_INT(weft_go_with(&f, &attr, throws_out, arg), ==, 0);
    weft_join(f, nullptr, WEFT_FOREVER);
    return nullptr;
}

void runs_a_careless_one(void *arg)
{
    weft_run(starts_a_careless_one, arg, nullptr, nullptr);
}

TEST(an_exception_that_leaves_a_fibers_function_ends_the_program)
{
#ifdef WF_UCONTEXT
    const char *last_words = nullptr; /* the first frame is libc's, which says nothing */
#else
    const char *last_words = "\"careless\": an exception left its entry function";
#endif
    CHECK_CHILD(runs_a_careless_one, nullptr, SIGABRT, last_words);
}

} // namespace

TESTS(sched_cxx, each_fiber_finds_its_own_exceptions_again, exceptions_on_shared_stacks_stay_with_their_fibers,
      worker_0_keeps_the_threads_own, an_exception_that_leaves_a_fibers_function_ends_the_program)
