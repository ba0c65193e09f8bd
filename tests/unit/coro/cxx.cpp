/*
 * C++ as a guest: exceptions thrown, caught, being handled and in flight at a switch, on every kind of stack and on the
 * move to another thread. Each coroutine finds its own exceptions again, and nobody else's.
 */
#include <csignal>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include <weft/weft.h>

#include "support/test.h"

/* The C function of that name, which a C caller would have. */
extern "C" int weft_coro_new_of_c(weft_coro **out, weft_fn *fn, void *arg,
                                  const weft_coro_opts *opts) __asm__("weft_coro_new");

namespace
{

weft_coro_opts options(weft_stacks *shared = nullptr, const char *name = nullptr)
{
    weft_coro_opts o = {};
    o.size = sizeof o;
    o.shared = shared;
    o.name = name;
    return o;
}

void *as_ptr(intptr_t n)
{
    return reinterpret_cast<void *>(n);
}

/* Throws and catches, and sees no exception but its own. */
void throw_and_catch(const std::string &text)
{
    try {
        throw std::runtime_error(text);
    } catch (const std::exception &e) {
        CHECK_STR(e.what(), text.c_str());
        try {
            throw std::logic_error("inner " + text);
        } catch (const std::logic_error &inner) {
            CHECK_STR(inner.what(), ("inner " + text).c_str());
        }
        CHECK_STR(e.what(), text.c_str());
    }
}

void *throws_and_catches(void *arg)
{
    for (int i = 0; i < 3; i++) {
        throw_and_catch("coroutine " + std::to_string(i));
        weft_coro_yield(arg);
    }
    return arg;
}

TEST(an_exception_is_thrown_and_caught_inside)
{
    weft_coro *c;
    REQUIRE(weft_coro_new(&c, throws_and_catches, nullptr, nullptr) == 0);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(weft_coro_resume(c, nullptr, nullptr), ==, 1);
        throw_and_catch("thread");
    }
    CHECK_INT(weft_coro_resume(c, nullptr, nullptr), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

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

/* Yields in a catch block, in one inside that, and again on the way out; then lets the outer exception go on. */
void handles_for_long(const std::string &name)
{
    try {
        throw std::runtime_error(name);
    } catch (const std::runtime_error &e) {
        weft_coro_yield(nullptr);
        CHECK_STR(e.what(), name.c_str());
        CHECK_STR(what_is_current().c_str(), name.c_str());
        try {
            throw std::logic_error("inner " + name);
        } catch (const std::logic_error &inner) {
            weft_coro_yield(nullptr);
            CHECK_STR(inner.what(), ("inner " + name).c_str());
            CHECK_STR(what_is_current().c_str(), ("inner " + name).c_str());
        }
        weft_coro_yield(nullptr);
        CHECK_STR(what_is_current().c_str(), name.c_str());
        throw;
    }
}

void *yields_in_catch_blocks(void *arg)
{
    const std::string name = "number " + std::to_string(reinterpret_cast<intptr_t>(arg));
    CHECK(std::current_exception() == nullptr); /* whatever its resumer is handling */
    try {
        handles_for_long(name);
        CHECK(!"it throws");
    } catch (const std::exception &e) {
        CHECK_STR(e.what(), name.c_str());
        weft_coro_yield(nullptr);
        CHECK_STR(e.what(), name.c_str());
    }
    CHECK(std::current_exception() == nullptr);
    return arg;
}

/* Several at once, each at another point, resumed by a thread that is in a catch block itself. */
void interleave(weft_stacks *pool)
{
    constexpr int many = 5, yields = 4;
    weft_coro *all[many];
    const weft_coro_opts opts = options(pool);
    for (int i = 0; i < many; i++)
        REQUIRE(weft_coro_new(&all[i], yields_in_catch_blocks, as_ptr(i), &opts) == 0);
    try {
        throw std::runtime_error("the thread's");
    } catch (const std::exception &e) {
        for (int turn = 0; turn < yields + many; turn++) {
            for (int i = 0; i < many; i++) {
                if (turn >= i && turn - i <= yields)
                    CHECK_INT(weft_coro_resume(all[i], nullptr, nullptr), ==, turn - i < yields);
                CHECK_STR(what_is_current().c_str(), "the thread's");
                throw_and_catch("in between");
            }
        }
        CHECK_STR(e.what(), "the thread's");
    }
    CHECK(std::current_exception() == nullptr);
    for (weft_coro *c : all)
        CHECK_INT(weft_coro_free(c), ==, 0);
}

TEST(each_rethrows_the_exception_that_it_was_handling)
{
    interleave(nullptr);
}

TEST(exceptions_on_shared_stacks_stay_with_their_coroutines)
{
    weft_stacks *pool;
    for (size_t stacks = 1; stacks <= 2; stacks++) {
        REQUIRE(weft_stacks_new(&pool, stacks, 0) == 0);
        interleave(pool);
        CHECK_INT(weft_stacks_free(pool), ==, 0);
    }
}

/* A destructor that yields while an exception unwinds the stack. */
struct YieldsAtTheEnd {
    int in_flight_before = std::uncaught_exceptions();

    ~YieldsAtTheEnd()
    {
        CHECK_INT(std::uncaught_exceptions(), ==, in_flight_before + 1);
        weft_coro_yield(nullptr);
        CHECK_INT(std::uncaught_exceptions(), ==, in_flight_before + 1);
        throw_and_catch("while another one is in flight");
    }
};

void *yields_while_unwinding(void *arg)
{
    const std::string name = "unwinding " + std::to_string(reinterpret_cast<intptr_t>(arg));
    try {
        YieldsAtTheEnd first, second;
        throw std::runtime_error(name);
    } catch (const std::runtime_error &e) {
        CHECK_STR(e.what(), name.c_str());
        CHECK_INT(std::uncaught_exceptions(), ==, 0);
    }
    return arg;
}

TEST(a_destructor_may_yield_while_an_exception_is_in_flight)
{
    weft_coro *a, *b;
    REQUIRE(weft_coro_new(&a, yields_while_unwinding, as_ptr(1), nullptr) == 0);
    REQUIRE(weft_coro_new(&b, yields_while_unwinding, as_ptr(2), nullptr) == 0);
    for (int turn = 0; turn < 3; turn++) {
        CHECK_INT(weft_coro_resume(a, nullptr, nullptr), ==, turn < 2);
        CHECK_INT(std::uncaught_exceptions(), ==, 0); /* here, none is */
        throw_and_catch("thread");
        CHECK_INT(weft_coro_resume(b, nullptr, nullptr), ==, turn < 2);
    }
    CHECK_INT(weft_coro_free(a), ==, 0);
    CHECK_INT(weft_coro_free(b), ==, 0);
}

/* Each resumes the next one out of a catch block. */
void *nests_in_catch_blocks(void *arg)
{
    const intptr_t depth = reinterpret_cast<intptr_t>(arg);
    const std::string name = "level " + std::to_string(depth);
    weft_coro *next = nullptr;
    try {
        try {
            throw std::runtime_error(name);
        } catch (const std::exception &) {
            if (depth > 0) {
                CHECK_INT(weft_coro_new(&next, nests_in_catch_blocks, as_ptr(depth - 1), nullptr), ==, 0);
                CHECK_INT(weft_coro_resume(next, nullptr, nullptr), ==, 1);
            }
            CHECK_STR(what_is_current().c_str(), name.c_str());
            weft_coro_yield(nullptr);
            if (depth > 0)
                CHECK_INT(weft_coro_resume(next, nullptr, nullptr), ==, 0);
            throw;
        }
        CHECK(!"it throws");
    } catch (const std::exception &e) {
        CHECK_STR(e.what(), name.c_str());
    }
    CHECK_INT(weft_coro_free(next), ==, 0);
    return nullptr;
}

TEST(nested_ones_each_handle_their_own)
{
    weft_coro *c;
    REQUIRE(weft_coro_new(&c, nests_in_catch_blocks, as_ptr(20), nullptr) == 0);
    CHECK_INT(weft_coro_resume(c, nullptr, nullptr), ==, 1);
    throw_and_catch("thread");
    CHECK_INT(weft_coro_resume(c, nullptr, nullptr), ==, 0);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

/* One of two that transfer to each other out of catch blocks. */
void *transfers_in_a_catch_block(void *arg)
{
    weft_coro *const *pair = static_cast<weft_coro **>(arg);
    const int me = weft_coro_current() == pair[1];
    const std::string name = "side " + std::to_string(me);
    try {
        try {
            throw std::runtime_error(name);
        } catch (const std::exception &) {
            for (int i = 0; i < 3; i++) {
                CHECK_INT(weft_coro_transfer(pair[1 - me], nullptr, nullptr), ==, 1);
                CHECK_STR(what_is_current().c_str(), name.c_str());
                throw_and_catch(name);
            }
            throw;
        }
    } catch (const std::exception &e) {
        CHECK_STR(e.what(), name.c_str());
    }
    weft_coro_yield(nullptr);
    return nullptr;
}

TEST(transfers_out_of_catch_blocks_keep_both_exceptions)
{
    weft_stacks *pool;
    REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    for (int shared = 0; shared < 3; shared++) { /* none, one, both */
        weft_coro *pair[2];
        for (int i = 0; i < 2; i++) {
            const weft_coro_opts opts = options(i < shared ? pool : nullptr);
            REQUIRE(weft_coro_new(&pair[i], transfers_in_a_catch_block, pair, &opts) == 0);
        }
        try {
            throw std::runtime_error("the thread's");
        } catch (const std::exception &) {
            CHECK_INT(weft_coro_resume(pair[0], nullptr, nullptr), ==, 1);
            CHECK_STR(what_is_current().c_str(), "the thread's");
            CHECK_INT(weft_coro_resume(pair[1], nullptr, nullptr), ==, 1);
            CHECK_STR(what_is_current().c_str(), "the thread's");
        }
        for (weft_coro *c : pair) {
            CHECK_INT(weft_coro_resume(c, nullptr, nullptr), ==, 0);
            CHECK_INT(weft_coro_free(c), ==, 0);
        }
    }
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

TEST(a_coroutine_moves_to_another_thread_inside_a_catch_block)
{
    weft_coro *all[2];
    REQUIRE(weft_coro_new(&all[0], yields_in_catch_blocks, as_ptr(1), nullptr) == 0);
    REQUIRE(weft_coro_new(&all[1], yields_while_unwinding, as_ptr(2), nullptr) == 0);
    for (weft_coro *c : all) {
        for (int rc = 1; rc == 1;) { /* every turn on a thread of its own, with exceptions of its own */
            std::thread([c, &rc] {
                try {
                    throw std::runtime_error("another thread's");
                } catch (const std::exception &) {
                    rc = weft_coro_resume(c, nullptr, nullptr);
                    CHECK_STR(what_is_current().c_str(), "another thread's");
                }
                throw_and_catch("another thread's next");
            }).join();
            CHECK(rc == 0 || rc == 1);
            CHECK(std::current_exception() == nullptr);
        }
        CHECK_INT(weft_coro_free(c), ==, 0);
    }
}

void *throws_out(void *arg)
{
    throw std::runtime_error("nobody catches this");
    return arg;
}

void leaves_the_entry_function(void *shared)
{
    weft_stacks *pool = nullptr;
    if (shared)
        REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    const weft_coro_opts opts = options(pool, "careless");
    weft_coro *c;
    REQUIRE(weft_coro_new(&c, throws_out, nullptr, &opts) == 0);
    try {
        weft_coro_resume(c, nullptr, nullptr);
    } catch (...) {
        CHECK(!"an exception must not get to the resumer");
    }
}

TEST(an_exception_that_leaves_the_entry_function_ends_the_program)
{
#ifdef WF_UCONTEXT
    const char *last_words = nullptr; /* the first frame is libc's, which says nothing */
#else
    const char *last_words = "\"careless\": an exception left its entry function";
#endif
    int shared = 1;
    CHECK_CHILD(leaves_the_entry_function, nullptr, SIGABRT, last_words);
    CHECK_CHILD(leaves_the_entry_function, &shared, SIGABRT, last_words);
}

TEST(one_made_by_c_keeps_exceptions_if_it_asks_for_that)
{
    weft_coro *c, *of_cxx;
    weft_coro_opts opts = options();
    opts.flags = WEFT_CXX;
    REQUIRE(weft_coro_new(&of_cxx, throws_and_catches, nullptr, nullptr) == 0);
    REQUIRE(weft_coro_new_of_c(&c, yields_in_catch_blocks, as_ptr(8), &opts) == 0);
    try {
        throw std::runtime_error("the thread's");
    } catch (const std::exception &) {
        for (int turn = 0; turn < 5; turn++) {
            CHECK_INT(weft_coro_resume(c, nullptr, nullptr), ==, turn < 4);
            CHECK_STR(what_is_current().c_str(), "the thread's");
        }
    }
    CHECK_INT(weft_coro_free(c), ==, 0);
    CHECK_INT(weft_coro_free(of_cxx), ==, 0);
}

/* In a process where no C++ caller has made a coroutine so far: the first one does so inside a coroutine made by C. */
void *makes_the_first_of_cxx(void *arg)
{
    weft_coro *c;
    CHECK_INT(weft_coro_new(&c, throws_and_catches, nullptr, nullptr), ==, 0);
    weft_coro_yield(nullptr);
    CHECK_INT(weft_coro_free(c), ==, 0);
    return arg;
}

void learns_in_the_middle(void *arg)
{
    weft_coro *c;
    weft_coro_opts opts = options();
    opts.flags = WEFT_CXX;
    REQUIRE(weft_coro_new_of_c(&c, makes_the_first_of_cxx, arg, &opts) == 0);
    try {
        throw std::runtime_error("the thread's");
    } catch (const std::exception &) {
        for (int turn = 0; turn < 2; turn++) {
            CHECK_INT(weft_coro_resume(c, nullptr, nullptr), ==, turn == 0);
            CHECK_STR(what_is_current().c_str(), "the thread's");
        }
    }
    CHECK_INT(weft_coro_free(c), ==, 0);
}

TEST(the_first_cxx_caller_may_come_inside_a_coroutine)
{
    CHECK_CHILD(learns_in_the_middle, nullptr, 0, nullptr);
}

} // namespace

TESTS(coro_cxx, the_first_cxx_caller_may_come_inside_a_coroutine, an_exception_is_thrown_and_caught_inside,
      each_rethrows_the_exception_that_it_was_handling, exceptions_on_shared_stacks_stay_with_their_coroutines,
      a_destructor_may_yield_while_an_exception_is_in_flight, nested_ones_each_handle_their_own,
      transfers_out_of_catch_blocks_keep_both_exceptions, a_coroutine_moves_to_another_thread_inside_a_catch_block,
      an_exception_that_leaves_the_entry_function_ends_the_program, one_made_by_c_keeps_exceptions_if_it_asks_for_that)
