/*
 * exceptions.cpp: an outside program in C++17. Two coroutines and the main program each handle an exception of their
 * own at the same time, and yield inside their catch blocks: every one must still hold its own when it goes on.
 */
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include <weft/weft.h>

namespace
{

struct Flow {
    const char *name;
    int destroyed = 0;
    bool kept = false;
};

struct Guard {
    Flow *flow;
    ~Guard()
    {
        flow->destroyed++;
    }
};

void throw_named(Flow *flow)
{
    Guard guard{flow};
    throw std::runtime_error(flow->name);
}

void *handle(void *arg)
{
    auto *flow = static_cast<Flow *>(arg);
    try {
        throw_named(flow);
    } catch (const std::runtime_error &) {
        weft_coro_yield(flow); /* another flow throws and catches meanwhile */
        try {
            throw; /* the exception that is being handled here, not the one handled elsewhere */
        } catch (const std::exception &e) {
            flow->kept = std::strcmp(e.what(), flow->name) == 0;
        }
        weft_coro_yield(flow);
    }
    return std::current_exception() ? nullptr : flow;
}

bool step(weft_coro *c, int expected)
{
    return weft_coro_resume(c, nullptr, nullptr) == expected;
}

bool run(weft_coro *a, weft_coro *b)
{
    try {
        throw std::runtime_error("main");
    } catch (const std::runtime_error &e) {
        /* a enters its handler before b does, and leaves it before b does: no stack order */
        bool stepped = step(a, 1) && step(b, 1) && step(a, 1) && step(b, 1);
        void *ended_a = nullptr, *ended_b = nullptr;
        stepped = stepped && weft_coro_resume(a, nullptr, &ended_a) == 0 && weft_coro_resume(b, nullptr, &ended_b) == 0;
        return stepped && ended_a && ended_b && std::string(e.what()) == "main" && std::current_exception();
    }
    return false;
}

} // namespace

int main()
{
    Flow first{"first"}, second{"second"};
    weft_coro *a = nullptr, *b = nullptr;
    if (weft_coro_new(&a, handle, &first, nullptr) != 0 || weft_coro_new(&b, handle, &second, nullptr) != 0)
        return 2;
    bool stepped = run(a, b);
    bool freed = weft_coro_free(a) == 0 && weft_coro_free(b) == 0;
    bool unwound = first.destroyed == 1 && second.destroyed == 1;
    std::printf("stepped %d kept %d %d unwound %d freed %d\n", stepped, first.kept, second.kept, unwound, freed);
    return stepped && first.kept && second.kept && unwound && freed && !std::current_exception() ? 0 : 1;
}
