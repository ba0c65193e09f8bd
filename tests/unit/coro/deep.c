/*
 * Nesting without limit: each coroutine resumes the next, 100,000 deep, and a value comes back through all of them.
 */
#include <stdlib.h>

#include <weft/weft.h>

#include "base/sanitizer.h"
#include "support/test.h"

#if WF_VALGRIND
enum { DEPTH = 500 }; /* it searches a list of stacks */
#elif WF_TSAN
enum { DEPTH = 2000 }; /* it keeps a context of some hundred KiB for each */
#else
enum { DEPTH = 100000 };
#endif

struct level {
    struct level *next;
    weft_coro *c;
};

/* Goes down, yields on the way, goes down again and returns: every level sees both values. */
static void *dive(void *arg)
{
    struct level *level = arg;
    void *value = (void *)1;
    if (level->next) {
        CHECK_INT(weft_coro_resume(level->next->c, NULL, &value), ==, 1);
        value = (void *)((intptr_t)value + 1);
    }
    weft_coro_yield(value);
    value = (void *)10;
    if (level->next) {
        CHECK_INT(weft_coro_resume(level->next->c, NULL, &value), ==, 0);
        value = (void *)((intptr_t)value + 1);
    }
    return value;
}

static void dive_with(const weft_coro_opts *opts, int depth)
{
    struct level *levels = calloc((size_t)depth, sizeof *levels);
    void *value;
    REQUIRE(levels != NULL);
    for (int i = 0; i < depth; i++) {
        levels[i].next = i + 1 < depth ? &levels[i + 1] : NULL;
        REQUIRE(weft_coro_new(&levels[i].c, dive, &levels[i], opts) == 0);
    }
    CHECK_INT(weft_coro_resume(levels[0].c, NULL, &value), ==, 1);
    CHECK_INT((intptr_t)value, ==, depth);
    CHECK_INT(weft_coro_resume(levels[0].c, NULL, &value), ==, 0);
    CHECK_INT((intptr_t)value, ==, depth + 9);
    for (int i = 0; i < depth; i++) {
        CHECK_INT(weft_coro_state(levels[i].c), ==, WEFT_CORO_DONE);
        CHECK_INT(weft_coro_free(levels[i].c), ==, 0);
    }
    free(levels);
}

TEST(nests_100000_deep_on_private_stacks)
{
    dive_with(NULL, DEPTH);
}

TEST(nests_10000_deep_on_one_shared_stack)
{
    weft_stacks *s;
    REQUIRE(weft_stacks_new(&s, 1, 0) == 0);
    dive_with(&(weft_coro_opts){.size = sizeof(weft_coro_opts), .shared = s}, DEPTH / 10);
    CHECK_INT(weft_stacks_free(s), ==, 0);
}

TESTS(coro_deep, nests_100000_deep_on_private_stacks, nests_10000_deep_on_one_shared_stack)
