/*
 * case_boost.cpp: Boost.Context, as fcontext (its bare switch) and as fiber on a pooled stack, and Boost.Coroutine2.
 *
 * Stacks have Boost's default size. Where time is measured they come from one pooled_fixedsize_stack, the fastest
 * allocator that Boost has; where memory is measured from fixedsize_stack, which takes less of it.
 */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" /* gcc 12 says so of Boost.Coroutine2's own code */
#endif
#include <boost/context/detail/fcontext.hpp>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <boost/coroutine2/all.hpp>

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "../common/case.h"

namespace ctx = boost::context;
using ctx::detail::fcontext_t;
using ctx::detail::jump_fcontext;
using ctx::detail::make_fcontext;
using ctx::detail::transfer_t;

namespace
{

constexpr std::size_t live_coroutines = 10000;
constexpr std::size_t nested_levels = 100000;

ctx::pooled_fixedsize_stack pool;

template <typename Allocator> ctx::stack_context allocate(Allocator &allocator)
{
    try {
        return allocator.allocate();
    } catch (const std::bad_alloc &) {
        case_na("no memory for another stack");
    }
}

void *as_pointer(std::uintptr_t value)
{
    return reinterpret_cast<void *>(value);
}

std::uintptr_t as_number(void *pointer)
{
    return reinterpret_cast<std::uintptr_t>(pointer);
}

/* fcontext */

/* A coroutine of fcontext: the stack, and where it waits. */
struct flow {
    ctx::stack_context stack;
    fcontext_t self;

    void start(void (*fn)(transfer_t))
    {
        self = make_fcontext(stack.sp, stack.size, fn);
    }

    std::uintptr_t resume(std::uintptr_t in)
    {
        transfer_t t = jump_fcontext(self, as_pointer(in));
        self = t.fctx;
        return as_number(t.data);
    }
};

void answer_plus_one(transfer_t t)
{
    for (;;)
        t = jump_fcontext(t.fctx, as_pointer(as_number(t.data) + 1));
}

void pingpong(void *arg, std::size_t n)
{
    fcontext_t to = static_cast<flow *>(arg)->self;
    std::uint64_t sum = 0;

    for (std::size_t i = 0; i < n; i++) {
        transfer_t t = jump_fcontext(to, as_pointer(i));
        to = t.fctx;
        sum += as_number(t.data);
    }
    static_cast<flow *>(arg)->self = to;
    case_check_sum(sum, case_pingpong_sum(n));
}

void run_switch(double budget_ms)
{
    flow f;
    f.stack = allocate(pool);
    f.start(answer_plus_one);
    case_ok(case_time(budget_ms, pingpong, &f, 2), "");
}

void spawn(void *, std::size_t n)
{
    std::uint64_t sum = 0;

    for (std::size_t i = 0; i < n; i++) {
        flow f;
        f.stack = allocate(pool);
        f.start(answer_plus_one);
        sum += f.resume(i);
        pool.deallocate(f.stack);
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

void run_spawn(double budget_ms)
{
    case_ok(case_time(budget_ms, spawn, nullptr, 1), "");
}

void yield_once(transfer_t t)
{
    t = jump_fcontext(t.fctx, nullptr);
    jump_fcontext(t.fctx, as_pointer(as_number(t.data) + 1));
}

void spawn_live(void *arg, std::size_t n)
{
    auto &all = *static_cast<std::vector<flow> *>(arg);

    while (n--) {
        std::uint64_t sum = 0;
        for (flow &f : all) {
            f.stack = allocate(pool);
            f.start(yield_once);
            f.resume(0);
        }
        for (std::size_t i = 0; i < all.size(); i++) {
            sum += all[i].resume(i);
            pool.deallocate(all[i].stack);
        }
        case_check_sum(sum, case_pingpong_sum(all.size()));
    }
}

void run_spawn_live(double budget_ms)
{
    std::vector<flow> all(live_coroutines);
    case_ok(case_time(budget_ms, spawn_live, &all, live_coroutines), "live=10000");
}

void hold_locals(transfer_t t)
{
    std::size_t k = as_number(t.data);
    case_locals locals;
    case_fill(&locals, k);
    t = jump_fcontext(t.fctx, nullptr);
    case_verify(&locals, k);
    jump_fcontext(t.fctx, as_pointer(1));
}

void run_rss(std::size_t count)
{
    std::vector<flow> all(count);
    ctx::fixedsize_stack allocator;
    case_memory before = case_memory_now();
    std::uint64_t ended = 0;

    for (std::size_t i = 0; i < count; i++) {
        case_check_memory(i);
        all[i].stack = allocate(allocator);
        all[i].start(hold_locals);
        all[i].resume(i);
    }
    case_memory now = case_memory_now();
    for (flow &f : all) {
        ended += f.resume(0);
        allocator.deallocate(f.stack);
    }
    case_check_sum(ended, count);
    case_ok_memory(before, now, count);
}

void run_rss_100k(double)
{
    run_rss(100000);
}

void run_rss_1m(double)
{
    run_rss(1000000);
}

void go_deeper(transfer_t t)
{
    flow *next = static_cast<flow *>(t.data);
    std::uintptr_t depth = 0;

    for (;;) {
        t = jump_fcontext(t.fctx, as_pointer(depth + 1));
        if (next)
            depth = next->resume(0);
    }
}

void descend(void *arg, std::size_t n)
{
    auto &chain = *static_cast<std::vector<flow> *>(arg);
    while (n--)
        case_check_sum(chain[0].resume(0), chain.size());
}

void run_nested(double budget_ms)
{
    std::vector<flow> chain(nested_levels);

    for (std::size_t i = 0; i < chain.size(); i++) {
        chain[i].stack = allocate(pool);
        chain[i].start(go_deeper);
        chain[i].resume(i + 1 < chain.size() ? as_number(&chain[i + 1]) : 0);
    }
    case_ok(case_time(budget_ms, descend, &chain, nested_levels), "levels=100000");
}

/* boost::context::fiber: values pass by reference, as it has no other way. */

void run_fiber_switch(double budget_ms)
{
    struct state {
        ctx::fiber other;
        std::uintptr_t value;
    } s;
    s.value = 0;
    s.other = ctx::fiber(std::allocator_arg, pool, [&s](ctx::fiber &&resumer) {
        for (;;) {
            s.value++;
            resumer = std::move(resumer).resume();
        }
        return std::move(resumer);
    });
    auto batch = [](void *arg, std::size_t n) {
        state &st = *static_cast<state *>(arg);
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < n; i++) {
            st.value = i;
            st.other = std::move(st.other).resume();
            sum += st.value;
        }
        case_check_sum(sum, case_pingpong_sum(n));
    };
    case_ok(case_time(budget_ms, batch, &s, 2), "");
}

void fiber_spawn(void *, std::size_t n)
{
    std::uint64_t sum = 0;

    for (std::size_t i = 0; i < n; i++) {
        ctx::fiber f(std::allocator_arg, pool, [&sum, i](ctx::fiber &&resumer) {
            sum += i + 1;
            return std::move(resumer);
        });
        f = std::move(f).resume();
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

void run_fiber_spawn(double budget_ms)
{
    case_ok(case_time(budget_ms, fiber_spawn, nullptr, 1), "");
}

void fiber_spawn_live(void *arg, std::size_t n)
{
    auto &all = *static_cast<std::vector<ctx::fiber> *>(arg);

    while (n--) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < all.size(); i++) {
            all[i] = ctx::fiber(std::allocator_arg, pool, [&sum, i](ctx::fiber &&resumer) {
                resumer = std::move(resumer).resume();
                sum += i + 1;
                return std::move(resumer);
            });
            all[i] = std::move(all[i]).resume();
        }
        for (ctx::fiber &f : all)
            f = std::move(f).resume();
        case_check_sum(sum, case_pingpong_sum(all.size()));
    }
}

void run_fiber_spawn_live(double budget_ms)
{
    std::vector<ctx::fiber> all(live_coroutines);
    case_ok(case_time(budget_ms, fiber_spawn_live, &all, live_coroutines), "live=10000");
}

/* Boost.Coroutine2: a push_type takes a value each time; the answer goes by reference. */

using coroutine = boost::coroutines2::coroutine<std::uintptr_t>;

void run_coroutine_switch(double budget_ms)
{
    struct state {
        std::uintptr_t answer = 0;
        std::unique_ptr<coroutine::push_type> other;
    } s;
    s.other = std::make_unique<coroutine::push_type>(pool, [&s](coroutine::pull_type &in) {
        for (;; in())
            s.answer = in.get() + 1;
    });
    auto batch = [](void *arg, std::size_t n) {
        state &st = *static_cast<state *>(arg);
        coroutine::push_type &other = *st.other;
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < n; i++) {
            other(i);
            sum += st.answer;
        }
        case_check_sum(sum, case_pingpong_sum(n));
    };
    case_ok(case_time(budget_ms, batch, &s, 2), "");
}

void coroutine_spawn(void *, std::size_t n)
{
    std::uint64_t sum = 0;

    for (std::size_t i = 0; i < n; i++) {
        coroutine::push_type c(pool, [&sum](coroutine::pull_type &in) { sum += in.get() + 1; });
        c(i);
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

void run_coroutine_spawn(double budget_ms)
{
    case_ok(case_time(budget_ms, coroutine_spawn, nullptr, 1), "");
}

void coroutine_spawn_live(void *, std::size_t n)
{
    while (n--) {
        std::vector<coroutine::push_type> all;
        std::uint64_t sum = 0;
        all.reserve(live_coroutines);
        for (std::size_t i = 0; i < live_coroutines; i++) {
            all.emplace_back(pool, [&sum](coroutine::pull_type &in) { sum += in().get() + 1; });
            all[i](0);
        }
        for (std::size_t i = 0; i < live_coroutines; i++)
            all[i](i);
        case_check_sum(sum, case_pingpong_sum(live_coroutines));
    }
}

void run_coroutine_spawn_live(double budget_ms)
{
    case_ok(case_time(budget_ms, coroutine_spawn_live, nullptr, live_coroutines), "live=10000");
}

} // namespace

int main(int argc, char **argv)
{
    static const case_entry entries[] = {
        {"switch", "fcontext", run_switch},
        {"switch", "boost-pooled-fiber", run_fiber_switch},
        {"switch", "boost-coroutine2", run_coroutine_switch},
        {"spawn", "fcontext", run_spawn},
        {"spawn", "boost-pooled-fiber", run_fiber_spawn},
        {"spawn", "boost-coroutine2", run_coroutine_spawn},
        {"spawn-10k", "fcontext", run_spawn_live},
        {"spawn-10k", "boost-pooled-fiber", run_fiber_spawn_live},
        {"spawn-10k", "boost-coroutine2", run_coroutine_spawn_live},
        {"switch-copied", "fcontext", run_switch},
        {"rss-100k", "fcontext", run_rss_100k},
        {"rss-1m", "fcontext", run_rss_1m},
        {"nested", "fcontext", run_nested},
    };
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
