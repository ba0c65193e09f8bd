/*
 * tests/hook/lock_cxx.cpp: what C++ makes of the locks (WEFT_HOOK_LOCKS=1): its library's, and static variables.
 */
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <thread>

#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/weft.h>

extern "C" {
#include "hook/statement.h"
}

using start_fn = struct flow *(void (*fn)(void *arg), void *arg);

static start_fn *const starts[] = {begin, begin_elsewhere, begin_thread};

using std::chrono::milliseconds;

struct box {
    std::mutex mutex;
    std::condition_variable changed;
    int number = 0; /* guarded by: mutex */
};

static void change_later(void *arg)
{
    box *b = static_cast<box *>(arg);
    std::this_thread::sleep_for(milliseconds(30));
    std::lock_guard<std::mutex> lock(b->mutex);
    b->number++;
    b->changed.notify_one();
}

STATEMENT(a_condition_variable_is_waited_for)
{
    box b;
    for (int i = 0; i < 3; i++) {
        double start = now_ms();
        struct flow *other = starts[i](change_later, &b);
        std::unique_lock<std::mutex> lock(b.mutex);
        if (i == 1)
            CHECK(b.changed.wait_for(lock, std::chrono::seconds(20), [&] { return b.number == i + 1; }));
        else
            b.changed.wait(lock, [&] { return b.number == i + 1; });
        lock.unlock();
        end(other);
        CHECK_AFTER(start, 30);
    }
    std::unique_lock<std::mutex> lock(b.mutex);
    double start = now_ms();
    CHECK(!b.changed.wait_for(lock, milliseconds(30), [] { return false; }));
    CHECK_AFTER(start, 30);
}

struct held {
    std::recursive_mutex recursive;
    std::shared_mutex shared;
    bool has_them = false; /* atomic */
    int done = 0;          /* guarded by: both */
};

static void hold(void *arg)
{
    held *h = static_cast<held *>(arg);
    std::lock_guard<std::recursive_mutex> first(h->recursive), second(h->recursive);
    std::unique_lock<std::shared_mutex> third(h->shared);
    __atomic_store_n(&h->has_them, true, __ATOMIC_RELEASE);
    usleep(50000);
    h->done++;
}

STATEMENT(mutexes_are_waited_for)
{
    for (int i = 0; i < 6; i++) {
        held h;
        struct flow *other = starts[i % 3](hold, &h);
        while (!__atomic_load_n(&h.has_them, __ATOMIC_ACQUIRE))
            usleep(1000);
        if (i < 3) {
            std::lock_guard<std::recursive_mutex> lock(h.recursive);
            CHECK_INT(h.done, ==, 1);
        } else {
            std::shared_lock<std::shared_mutex> lock(h.shared);
            CHECK_INT(h.done, ==, 1);
        }
        end(other);
    }
}

/* ---- what is called once ---- */

struct once {
    std::once_flag flag;
    int calls = 0;             /* atomic */
    int failing;               /* how many calls throw */
    int thrown = 0, begun = 0; /* atomic */
};

static void call(void *arg)
{
    once *o = static_cast<once *>(arg);
    try {
        std::call_once(o->flag, [o] {
            int nth = __atomic_add_fetch(&o->calls, 1, __ATOMIC_ACQ_REL);
            __atomic_store_n(&o->begun, nth, __ATOMIC_RELEASE);
            usleep(40000);
            if (nth <= o->failing)
                throw std::runtime_error("not yet");
        });
        CHECK_INT(__atomic_load_n(&o->calls, __ATOMIC_ACQUIRE), ==, o->failing + 1);
    } catch (const std::runtime_error &) {
        __atomic_add_fetch(&o->thrown, 1, __ATOMIC_ACQ_REL);
    }
}

static void check_once(int failing)
{
    for (int i = 0; i < 3; i++) {
        once o;
        std::once_flag quick;
        int quick_calls = 0;
        o.failing = failing;
        struct flow *flows[6];
        flows[0] = starts[i](call, &o);
        while (!__atomic_load_n(&o.begun, __ATOMIC_ACQUIRE))
            usleep(1000);
        for (int j = 1; j < 6; j++)
            flows[j] = j == 5 ? begin_thread(call, &o) : begin(call, &o);
        usleep(10000); /* they wait; what they are to call is not mixed up with this */
        std::call_once(quick, [&] { quick_calls++; });
        for (struct flow *f : flows)
            end(f);
        call(&o);
        CHECK_INT(o.calls, ==, failing + 1);
        CHECK_INT(o.thrown, ==, failing);
        CHECK_INT(quick_calls, ==, 1);
    }
}

STATEMENT(those_that_come_while_a_call_once_waits_wait_for_it)
{
    check_once(0);
}

STATEMENT(a_call_once_that_throws_is_made_by_the_next)
{
    check_once(2);
}

/* ---- fibers that move between workers ---- */

enum { MOVING = 16, ROUNDS = 60, FAILING = 6 };

struct moving {
    std::once_flag flags[ROUNDS];
    int calls[ROUNDS] = {};
    int moved = 0, ended = 0; /* atomic */
};

/* Keeps the worker busy, so that others take what is ready there. */
static void be_busy()
{
    for (double start = now_ms(); now_ms() - start < 0.2;)
        ;
}

static void call_nth(moving *m, int n)
{
    pid_t before = gettid();
    int made = 0; /* by this flow */
    try {
        std::call_once(m->flags[n], [m, n, &made] {
            made = ++m->calls[n];
            usleep(100);
            if (m->calls[n] <= FAILING)
                throw std::runtime_error("not yet");
        });
    } catch (const std::runtime_error &) {
        CHECK(made > 0 && made <= FAILING);
    }
    __atomic_add_fetch(&m->moved, gettid() != before, __ATOMIC_RELAXED);
    be_busy();
}

static void *move_on(void *arg)
{
    moving *m = static_cast<moving *>(arg);
    for (int i = 0; i < ROUNDS; i++)
        call_nth(m, i);
    __atomic_add_fetch(&m->ended, 1, __ATOMIC_RELEASE);
    return nullptr;
}

static void *start_moving(void *arg)
{
    weft_attr attr = {};
    attr.size = sizeof attr;
    attr.flags = WEFT_MIGRATE | WEFT_CXX;
    for (int i = 0; i < MOVING; i++)
        CHECK_INT(weft_go_with(nullptr, &attr, move_on, arg), ==, 0);
    return nullptr;
}

TEST(a_call_once_finds_its_function_on_another_worker)
{
    moving m;
    weft_sched_opts opts = {};
    if (is_kernel())
        SKIP("nothing moves");
    opts.size = sizeof opts;
    opts.threads = 3;
    CHECK_INT(weft_run(start_moving, &m, nullptr, &opts), ==, 0);
    printf("%d of %d calls have moved\n", m.moved, MOVING * ROUNDS);
    CHECK_INT(m.ended, ==, MOVING);
    CHECK(m.moved > 0);
    for (int calls : m.calls)
        CHECK_INT(calls, ==, FAILING + 1);
}

/* ---- static variables ---- */

static int made;    /* atomic */
static int to_fail; /* atomic */

struct slow_thing {
    int number;
    slow_thing() : number(__atomic_add_fetch(&made, 1, __ATOMIC_ACQ_REL))
    {
        usleep(40000);
        if (__atomic_fetch_sub(&to_fail, 1, __ATOMIC_ACQ_REL) > 0)
            throw std::runtime_error("not yet");
    }
};

template <int which> static void use_thing(void *arg)
{
    (void)arg;
    for (;;) {
        try {
            static slow_thing thing;
            CHECK_INT(thing.number, ==, __atomic_load_n(&made, __ATOMIC_ACQUIRE));
            return;
        } catch (const std::runtime_error &) {
        }
    }
}

template <int which> static void check_static(int failing)
{
    struct flow *flows[6];
    made = 0;
    to_fail = failing;
    flows[0] = starts[which % 3](use_thing<which>, nullptr);
    while (!__atomic_load_n(&made, __ATOMIC_ACQUIRE))
        usleep(1000);
    for (int j = 1; j < 6; j++)
        flows[j] = starts[j % 3](use_thing<which>, nullptr);
    use_thing<which>(nullptr);
    for (struct flow *f : flows)
        end(f);
    CHECK_INT(made, ==, failing + 1);
}

STATEMENT(those_that_come_while_a_static_variable_is_made_wait_for_it)
{
    check_static<0>(0);
    check_static<1>(0);
    check_static<2>(0);
}

STATEMENT(a_static_variable_whose_constructor_throws_is_made_by_the_next)
{
    check_static<3>(2);
    check_static<4>(2);
    check_static<5>(2);
}

STATEMENT(the_end_of_a_thread_is_waited_for)
{
    double start = now_ms();
    std::thread thread([] { std::this_thread::sleep_for(milliseconds(40)); });
    thread.join();
    CHECK_AFTER(start, 40);
}

STATEMENTS(lock_cxx, a_condition_variable_is_waited_for, mutexes_are_waited_for,
           those_that_come_while_a_call_once_waits_wait_for_it, a_call_once_that_throws_is_made_by_the_next,
           a_call_once_finds_its_function_on_another_worker,
           those_that_come_while_a_static_variable_is_made_wait_for_it,
           a_static_variable_whose_constructor_throws_is_made_by_the_next, the_end_of_a_thread_is_waited_for)
