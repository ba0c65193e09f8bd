/*
 * Scopes in C++: an exception that leaves the block of WEFT_SCOPE closes the scope on its way.
 */
#include <stdexcept>

#include <weft/weft.h>

#include "support/test.h"

namespace
{

int waits_and_counts(void *arg)
{
    const int rc = weft_sleep_until(WEFT_FOREVER);
    __atomic_add_fetch(static_cast<int *>(arg), 1, __ATOMIC_ACQ_REL);
    return rc;
}

int throws_and_catches(void *arg)
{
    try {
        weft_sleep(WEFT_US);
        throw std::runtime_error("a child's");
    } catch (const std::runtime_error &) {
        weft_yield();
    }
    (void)arg;
    return 0;
}

void throws_out_of_a_scope(int *ended)
{
    WEFT_SCOPE (outer, nullptr) {
        CHECK_INT(weft_scope_go(&outer, waits_and_counts, ended), ==, 0);
        WEFT_SCOPE (inner, nullptr) {
            CHECK_INT(weft_scope_go(&inner, waits_and_counts, ended), ==, 0);
            CHECK_INT(weft_scope_go(&inner, throws_and_catches, nullptr), ==, 0);
            throw std::runtime_error("out of here");
        }
    }
}

void *catches(void *arg)
{
    int ended = 0;
    try {
        throws_out_of_a_scope(&ended);
        CHECK(false);
    } catch (const std::runtime_error &e) {
        CHECK_STR(e.what(), "out of here");
        CHECK_INT(__atomic_load_n(&ended, __ATOMIC_ACQUIRE), ==, 2);
    }
    CHECK(!weft_cancelled());
    return arg;
}

void an_exception_closes_the_scopes_that_it_leaves()
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        weft_sched_opts opts{};
        opts.threads = workers;
        CHECK_INT(weft_run(catches, nullptr, nullptr, &opts), ==, 0);
    }
}

} // namespace

TESTS(scope_cxx, an_exception_closes_the_scopes_that_it_leaves)
