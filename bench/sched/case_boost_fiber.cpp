/*
 * case_boost_fiber.cpp: Boost.Fiber. One thread runs its fibers in turn (round_robin, the default); in skynet-2 two
 * threads take from each other (work_stealing).
 *
 * Stacks come from one pooled_fixedsize_stack. They come from fixedsize_stack in skynet-2, where any thread may release
 * one, as the pool has no lock, and with the sleepers, as the pool stops them for 0.2 s when it grows.
 */
#include <boost/fiber/all.hpp>

#include <malloc.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "../common/case.h"
#include "../common/fair.h"
#include "../common/sleepers.h"

namespace fibers = boost::fibers;

namespace
{

constexpr std::size_t live = 10000;
constexpr std::size_t leaves_1 =
    100000; /* on one thread all leaves are alive at once: a million takes 11 GB and 40 s */
constexpr std::size_t leaves_2 = 1000000;
constexpr std::size_t lock_turns = 256000;
constexpr std::size_t stack_size = 16 * 1024;

using channel = fibers::unbuffered_channel<std::uint64_t>;

fibers::pooled_fixedsize_stack pool(stack_size);

constexpr std::uint64_t leaves_sum(std::uint64_t leaves)
{
    return leaves * (leaves - 1) / 2;
}

template <class F> fibers::fiber start(fibers::launch how, F &&fn)
{
    return fibers::fiber(how, std::allocator_arg, pool, std::forward<F>(fn));
}

/* yield */

struct yielders {
    std::vector<std::size_t> yields;
    bool end = false;
};

void yield(void *arg, std::size_t n)
{
    yielders &s = *static_cast<yielders *>(arg);

    std::fill(s.yields.begin(), s.yields.end(), 0);
    for (std::size_t i = 0; i < n; i++)
        boost::this_fiber::yield();
    for (std::size_t yields : s.yields)
        case_check_sum(yields, n);
}

template <std::size_t count> void run_yield(double budget_ms)
{
    yielders s;
    std::vector<fibers::fiber> all;

    s.yields.resize(count - 1);
    for (std::size_t &yields : s.yields)
        all.push_back(start(fibers::launch::post, [&s, &yields] {
            while (!s.end) {
                yields++;
                boost::this_fiber::yield();
            }
        }));
    case_ok(case_time(budget_ms, yield, &s, count), "");
    s.end = true;
    for (fibers::fiber &fiber : all)
        fiber.join();
}

/* spawn-join */

void spawn_join(void *, std::size_t n)
{
    std::uint64_t sum = 0;

    for (std::size_t i = 0; i < n; i++)
        start(fibers::launch::dispatch, [&sum, i] { sum += i + 1; }).join();
    case_check_sum(sum, case_pingpong_sum(n));
}

void run_spawn_join(double budget_ms)
{
    case_ok(case_time(budget_ms, spawn_join, nullptr, 1), "launch=dispatch");
}

void spawn_join_live(void *arg, std::size_t n)
{
    auto &all = *static_cast<std::vector<fibers::fiber> *>(arg);

    while (n--) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < all.size(); i++)
            all[i] = start(fibers::launch::post, [&sum, i] { sum += i + 1; });
        for (fibers::fiber &fiber : all)
            fiber.join();
        case_check_sum(sum, case_pingpong_sum(all.size()));
    }
}

void run_spawn_join_live(double budget_ms)
{
    std::vector<fibers::fiber> all(live);
    case_ok(case_time(budget_ms, spawn_join_live, &all, live), "live=10000 launch=post");
}

/* chan */

struct channels {
    channel there, back;
};

void answer_plus_one(channels &s)
{
    std::uint64_t value;
    while (s.there.pop(value) == fibers::channel_op_status::success)
        s.back.push(value + 1);
}

void pingpong(void *arg, std::size_t n)
{
    channels &s = *static_cast<channels *>(arg);
    std::uint64_t sum = 0, value;

    for (std::size_t i = 0; i < n; i++) {
        s.there.push(i);
        s.back.pop(value);
        sum += value;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

void run_chan(double budget_ms)
{
    channels s;
    fibers::fiber other = start(fibers::launch::dispatch, [&s] { answer_plus_one(s); });

    case_ok(case_time(budget_ms, pingpong, &s, 2), "channel=unbuffered_channel");
    s.there.close();
    other.join();
}

/*
 * sem and wake: there is no semaphore. A buffered channel is one, and faster than a mutex, a condition variable and a
 * count.
 */

class semaphore
{
    fibers::buffered_channel<char> posts{2};

  public:
    void post()
    {
        posts.push(0);
    }

    void wait()
    {
        char post;
        posts.pop(post);
    }
};

struct semaphores {
    semaphore there, back;
    std::uint64_t value = 0;
    bool end = false;
};

void post_plus_one(semaphores &s)
{
    for (s.there.wait(); !s.end; s.there.wait()) {
        s.value++;
        s.back.post();
    }
}

void post_and_wait(void *arg, std::size_t n)
{
    semaphores &s = *static_cast<semaphores *>(arg);
    std::uint64_t sum = 0;

    for (std::size_t i = 0; i < n; i++) {
        s.value = i;
        s.there.post();
        s.back.wait();
        sum += s.value;
    }
    case_check_sum(sum, case_pingpong_sum(n));
}

void end_posts(semaphores &s)
{
    s.end = true;
    s.there.post();
}

void run_sem(double budget_ms)
{
    semaphores s;
    fibers::fiber other = start(fibers::launch::dispatch, [&s] { post_plus_one(s); });

    case_ok(case_time(budget_ms, post_and_wait, &s, 2), "semaphore=buffered_channel");
    end_posts(s);
    other.join();
}

void run_wake(double budget_ms)
{
    semaphores s;
    std::thread other([&s] { post_plus_one(s); }); /* its main fiber */

    case_ok(case_time(budget_ms, post_and_wait, &s, 2), "semaphore=buffered_channel");
    end_posts(s);
    other.join();
}

/* skynet */

void skynet(channel &parent, std::size_t ordinal, std::size_t size)
{
    std::uint64_t sum = 0, value;

    if (size == 1) {
        parent.push(ordinal);
        return;
    }
    channel children;
    for (std::size_t i = 0; i < 10; i++)
        start(fibers::launch::dispatch, [&children, ordinal, size, i] {
            skynet(children, ordinal + i * (size / 10), size / 10);
        }).detach();
    for (std::size_t i = 0; i < 10; i++) {
        children.pop(value);
        sum += value;
    }
    parent.push(sum);
}

void grow_skynet(void *, std::size_t n)
{
    while (n--) {
        channel root;
        std::uint64_t sum;
        start(fibers::launch::post, [&root] { skynet(root, 0, leaves_1); }).detach();
        root.pop(sum);
        case_check_sum(sum, leaves_sum(leaves_1));
    }
}

void run_skynet_1(double budget_ms)
{
    case_ok(case_time(budget_ms, grow_skynet, nullptr, leaves_1), "leaves=100000 launch=dispatch");
}

/* On two threads a child may still be inside of push when its value has been taken, so each keeps the channel alive. */
using shared_channel = std::shared_ptr<channel>;

void skynet_2(const shared_channel &parent, std::size_t ordinal, std::size_t size)
{
    std::uint64_t sum = 0, value;

    if (size == 1) {
        parent->push(ordinal);
        return;
    }
    auto children = std::make_shared<channel>();
    for (std::size_t i = 0; i < 10; i++)
        fibers::fiber(fibers::launch::dispatch, std::allocator_arg, fibers::fixedsize_stack(stack_size),
                      [children, ordinal, size, i] { skynet_2(children, ordinal + i * (size / 10), size / 10); })
            .detach();
    for (std::size_t i = 0; i < 10; i++) {
        children->pop(value);
        sum += value;
    }
    parent->push(sum);
}

void grow_skynet_2(void *, std::size_t n)
{
    while (n--) {
        auto root = std::make_shared<channel>();
        std::uint64_t sum;
        fibers::fiber(fibers::launch::post, std::allocator_arg, fibers::fixedsize_stack(stack_size), [root] {
            skynet_2(root, 0, leaves_2);
        }).detach();
        root->pop(sum);
        case_check_sum(sum, leaves_sum(leaves_2));
    }
}

void run_skynet_2(double budget_ms)
{
    fibers::mutex mutex;
    fibers::condition_variable ended;
    bool end = false;
    std::thread other([&] {
        fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(2);
        std::unique_lock<fibers::mutex> lock(mutex);
        ended.wait(lock, [&end] { return end; });
    });

    fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(2);
    case_ok(case_time(budget_ms, grow_skynet_2, nullptr, leaves_2),
            "leaves=1000000 launch=dispatch algo=work_stealing");
    {
        std::unique_lock<fibers::mutex> lock(mutex);
        end = true;
    }
    ended.notify_all();
    other.join();
}

/* sleepers */

void run_sleepers_with(sleepers_figure figure)
{
    std::vector<fibers::fiber> all(SLEEPERS);

    mallopt(M_TRIM_THRESHOLD, 1 << 30); /* to get stacks from the system, or give them back, makes others late */
    mallopt(M_TOP_PAD, 64 << 20);
    sleepers_begin();
    for (std::size_t i = 0; i < SLEEPERS; i++) {
        all[i] = fibers::fiber(std::allocator_arg, fibers::fixedsize_stack(stack_size), [i] {
            sleeper_start(i);
            boost::this_fiber::sleep_for(std::chrono::microseconds(sleeper_us(i)));
            sleeper_woke(i);
        });
        boost::this_fiber::yield();
    }
    for (fibers::fiber &fiber : all)
        fiber.join();
    sleepers_answer(figure, false);
}

template <sleepers_figure figure> void run_sleepers(double)
{
    run_sleepers_with(figure);
}

/* fair */

void run_fair_sleep(double budget_ms)
{
    std::int64_t end = fair_now() + static_cast<std::int64_t>(budget_ms * 1e6);
    fair_begin(0);
    bool has_slept = false;
    fibers::fiber sleeper([end, &has_slept] {
        do {
            std::int64_t us = fair_span_us(), due = fair_now() + us * 1000;
            boost::this_fiber::sleep_for(std::chrono::microseconds(us));
            fair_late(fair_now() - due);
        } while (fair_now() < end);
        has_slept = true;
    });

    while (!has_slept) {
        fair_compute();
        boost::this_fiber::yield();
    }
    sleeper.join();
    fair_end(0);
    fair_answer(false, "");
}

/*
 * mutex: half of the fibers on each of two threads. Nobody locks before all are there; else the first would be done
 * before the other thread is awake.
 */

struct contention {
    fibers::mutex mutex;
    std::uint64_t counter = 0, expected = 0;
    std::size_t fibers;
    std::atomic<std::size_t> arrived{0};
};

void lock_in_turn(contention &s, std::size_t count, std::size_t turns)
{
    std::vector<fibers::fiber> all;
    for (std::size_t i = 0; i < count; i++)
        all.emplace_back([&s, turns] {
            s.arrived++;
            while (s.arrived < s.fibers)
                boost::this_fiber::yield();
            for (std::size_t turn = 0; turn < turns; turn++) {
                s.mutex.lock();
                s.counter++;
                s.mutex.unlock();
            }
        });
    for (fibers::fiber &fiber : all)
        fiber.join();
}

void contend(void *arg, std::size_t n)
{
    contention &s = *static_cast<contention *>(arg);
    std::size_t turns = n * lock_turns / s.fibers;
    s.arrived = 0;
    std::thread other([&s, turns] { lock_in_turn(s, s.fibers / 2, turns); });

    lock_in_turn(s, s.fibers - s.fibers / 2, turns);
    other.join();
    s.expected += turns * s.fibers;
    case_check_sum(s.counter, s.expected);
}

template <std::size_t count> void run_mutex(double budget_ms)
{
    contention s;
    s.fibers = count;
    case_ok(case_time(budget_ms, contend, &s, lock_turns), "threads=2");
}

} // namespace

int main(int argc, char **argv)
{
    static const case_entry entries[] = {
        {"yield-2", "boost-fiber", run_yield<2>},
        {"yield-1000", "boost-fiber", run_yield<1000>},
        {"spawn-join", "boost-fiber", run_spawn_join},
        {"spawn-join-10k", "boost-fiber", run_spawn_join_live},
        {"chan", "boost-fiber", run_chan},
        {"sem", "boost-fiber", run_sem},
        {"skynet-1", "boost-fiber", run_skynet_1},
        {"skynet-2", "boost-fiber", run_skynet_2},
        {"wake", "boost-fiber", run_wake},
        {"sleepers-p99", "boost-fiber", run_sleepers<SLEEPERS_P99>},
        {"sleepers-cpu", "boost-fiber", run_sleepers<SLEEPERS_CPU>},
        {"fair-0.1", "boost-sleep", run_fair_sleep},
        {"fair-0.5", "boost-sleep", run_fair_sleep},
        {"fair-5", "boost-sleep", run_fair_sleep},
        {"mutex-1", "boost-fiber", run_mutex<1>},
        {"mutex-4", "boost-fiber", run_mutex<4>},
        {"mutex-16", "boost-fiber", run_mutex<16>},
        {"mutex-64", "boost-fiber", run_mutex<64>},
    };
    fair_open(argc, argv);
    return case_main(argc, argv, entries, sizeof(entries) / sizeof(entries[0]));
}
