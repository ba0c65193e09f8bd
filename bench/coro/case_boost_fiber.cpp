/*
 * case_boost_fiber.cpp: Boost.Fiber, whose fibers are scheduled (round robin, its default) rather than resumed.
 *
 * A switch is this_fiber::yield between two fibers; one that waits is suspended and scheduled again by hand, as Boost's
 * own mutex and channel do it, without their locks. Stacks come from one pooled_fixedsize_stack.
 */
#include <boost/fiber/all.hpp>

#include <memory>
#include <utility>
#include <vector>

#include "../common/case.h"

namespace fibers = boost::fibers;

namespace
{

constexpr std::size_t live_coroutines = 10000;

fibers::pooled_fixedsize_stack pool;

struct pair_state {
    std::uintptr_t value = 0;
    bool ends = false;
};

void pingpong(void *arg, std::size_t n)
{
    pair_state &s = *static_cast<pair_state *>(arg);
    std::uint64_t sum = 0;

    for (std::size_t i = 0; i < n; i++) {
        s.value = i;
        boost::this_fiber::yield();
        sum += s.value;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

void run_switch(double budget_ms)
{
    pair_state s;
    fibers::fiber other(fibers::launch::dispatch, std::allocator_arg, pool, [&s] {
        while (!s.ends) {
            s.value++;
            boost::this_fiber::yield();
        }
    });

    case_ok(case_time(budget_ms, pingpong, &s, 2), "");
    s.ends = true;
    other.join();
}

void spawn(void *, std::size_t n)
{
    std::uint64_t sum = 0;

    for (std::size_t i = 0; i < n; i++)
        fibers::fiber(fibers::launch::dispatch, std::allocator_arg, pool, [&sum, i] { sum += i + 1; }).join();
    case_check_sum(sum, case_pingpong_sum(n));
}

void run_spawn(double budget_ms)
{
    case_ok(case_time(budget_ms, spawn, nullptr, 1), "");
}

struct waiting {
    fibers::fiber fiber;
    fibers::context *context;
};

void spawn_live(void *arg, std::size_t n)
{
    auto &all = *static_cast<std::vector<waiting> *>(arg);

    while (n--) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < all.size(); i++) {
            waiting &w = all[i];
            w.fiber = fibers::fiber(fibers::launch::dispatch, std::allocator_arg, pool, [&sum, &w, i] {
                w.context = fibers::context::active();
                w.context->suspend();
                sum += i + 1;
            });
        }
        for (waiting &w : all)
            fibers::context::active()->schedule(w.context);
        for (waiting &w : all)
            w.fiber.join();
        case_check_sum(sum, case_pingpong_sum(all.size()));
    }
}

void run_spawn_live(double budget_ms)
{
    std::vector<waiting> all(live_coroutines);
    case_ok(case_time(budget_ms, spawn_live, &all, live_coroutines), "live=10000");
}

} // namespace

int main(int argc, char **argv)
{
    static const case_entry entries[] = {
        {"switch", "boost-fiber", run_switch},
        {"spawn", "boost-fiber", run_spawn},
        {"spawn-10k", "boost-fiber", run_spawn_live},
    };
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
