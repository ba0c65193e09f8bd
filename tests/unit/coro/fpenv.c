/*
 * Floating-point control words: the thread's, unless a coroutine was made with WEFT_FPENV and keeps its own (rounding,
 * and on x86 flush to zero, traps and the x87's precision). The exception flags are the thread's in any case.
 */
#include <fenv.h>
#include <pthread.h>

#include <weft/weft.h>

#include "support/test.h"

#if defined(__x86_64__)
#include <fpu_control.h>
#include <xmmintrin.h>
#endif

#ifdef WF_UCONTEXT
enum { UCONTEXT = 1 };
#else
enum { UCONTEXT = 0 };
#endif

static volatile double one = 1, minus_one = -1, three = 3;

/* Whether the arithmetic really rounds as the library says it does. */
static void check_arithmetic(int mode)
{
    volatile double third = one / three, minus = minus_one / three; /* which a compiler would take for the same */
    if (mode == FE_UPWARD)
        CHECK(third > -minus);
    else if (mode == FE_DOWNWARD)
        CHECK(third < -minus);
    else
        CHECK(third == -minus);
}

static void check_rounding(const char *file, int line, int mode)
{
    if (fegetround() != mode)
        test_failed(file, line, "rounding is %#x, not %#x", (unsigned)fegetround(), (unsigned)mode);
    else
        check_arithmetic(mode);
}
#define CHECK_ROUNDING(mode) check_rounding(__FILE__, __LINE__, mode)

/* As fesetround, for modes that every target has. */
static void round_to(int mode)
{
    CHECK_INT(fesetround(mode), ==, 0);
}

/* Checks that it begins in the mode `begins`, then takes `sets`, finds that again after every yield. */
struct modes {
    int begins, sets;
};

static void *keeps_its_mode(void *arg)
{
    const struct modes *m = arg;
    CHECK_ROUNDING(m->begins);
    round_to(m->sets);
    for (int i = 0; i < 3; i++) {
        weft_coro_yield(NULL);
        CHECK_ROUNDING(m->sets);
    }
    return NULL;
}

static int with_fpenv(weft_coro **out, weft_stacks *pool, weft_fn *fn, void *arg)
{
    return weft_coro_new(out, fn, arg, &(weft_coro_opts){.flags = WEFT_FPENV, .shared = pool});
}

static void *changes_the_threads(void *arg)
{
    CHECK_ROUNDING(FE_TONEAREST);
    round_to(FE_UPWARD);
    weft_coro_yield(NULL);
    CHECK_ROUNDING(FE_DOWNWARD);
    round_to(FE_TONEAREST);
    return arg;
}

TEST(without_the_flag_they_are_the_threads)
{
    weft_coro *c;
    REQUIRE(weft_coro_new(&c, changes_the_threads, NULL, NULL) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
    CHECK_ROUNDING(FE_UPWARD);
    round_to(FE_DOWNWARD);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_ROUNDING(FE_TONEAREST);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

/* Two with modes of their own beside a thread that changes its own all the time. */
static void run_two(weft_stacks *pool)
{
    static const int threads[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    struct modes up = {FE_TONEAREST, FE_UPWARD}, down = {FE_TONEAREST, FE_DOWNWARD};
    weft_coro *a, *b;
    REQUIRE(with_fpenv(&a, pool, keeps_its_mode, &up) == 0);
    REQUIRE(with_fpenv(&b, pool, keeps_its_mode, &down) == 0);
    for (int i = 0; i < 4; i++) {
        round_to(threads[i]);
        CHECK_INT(weft_coro_resume(a, NULL, NULL), ==, i < 3);
        CHECK_ROUNDING(threads[i]);
        CHECK_INT(weft_coro_resume(b, NULL, NULL), ==, i < 3);
        CHECK_ROUNDING(threads[i]);
    }
    CHECK_INT(weft_coro_free(a), ==, 0);
    CHECK_INT(weft_coro_free(b), ==, 0);
}

TEST(with_the_flag_they_are_its_own)
{
    run_two(NULL);
}

TEST(on_a_shared_stack_they_are_its_own_too)
{
    weft_stacks *pool;
    REQUIRE(weft_stacks_new(&pool, 1, 0) == 0);
    run_two(pool);
    CHECK_INT(weft_stacks_free(pool), ==, 0);
}

TEST(it_begins_with_those_of_the_thread_that_made_it)
{
    struct modes m = {FE_UPWARD, FE_DOWNWARD};
    weft_coro *c;
    round_to(FE_UPWARD);
    REQUIRE(with_fpenv(&c, NULL, keeps_its_mode, &m) == 0);
    round_to(FE_TONEAREST);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
    CHECK_ROUNDING(FE_TONEAREST);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

TEST(after_reset_it_begins_with_those_of_the_thread_that_reset_it)
{
    struct modes first = {FE_TONEAREST, FE_UPWARD}, second = {FE_DOWNWARD, FE_UPWARD};
    weft_coro *c;
    REQUIRE(with_fpenv(&c, NULL, keeps_its_mode, &first) == 0);
    for (int i = 0; i < 4; i++)
        CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, i < 3);
    CHECK_ROUNDING(FE_TONEAREST);
    round_to(FE_DOWNWARD);
    CHECK_INT(weft_coro_reset(c, keeps_its_mode, &second), ==, 0);
    round_to(FE_TONEAREST);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
    CHECK_ROUNDING(FE_TONEAREST);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
    CHECK_ROUNDING(FE_TONEAREST);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

/* Up resumes one that keeps its own and is made in its mode; that one goes down. */
static void *nests(void *arg)
{
    struct modes inner = {FE_UPWARD, FE_DOWNWARD};
    weft_coro *c;
    CHECK_ROUNDING(FE_TONEAREST);
    round_to(FE_UPWARD);
    CHECK_INT(with_fpenv(&c, NULL, keeps_its_mode, &inner), ==, 0);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, i < 3);
        CHECK_ROUNDING(FE_UPWARD);
        weft_coro_yield(NULL);
        CHECK_ROUNDING(FE_UPWARD);
    }
    CHECK_INT(weft_coro_free(c), ==, 0);
    return arg;
}

TEST(nested_ones_each_have_their_own)
{
    weft_coro *c;
    REQUIRE(with_fpenv(&c, NULL, nests, NULL) == 0);
    for (int i = 0; i < 5; i++) {
        CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, i < 4);
        CHECK_ROUNDING(FE_TONEAREST);
    }
    CHECK_INT(weft_coro_free(c), ==, 0);
}

/* A round of transfers: up, down, and one without the flag, whose words are the resumer's. */
struct round {
    weft_coro *up, *down, *plain;
};

static void *goes_up(void *arg)
{
    struct round *r = arg;
    round_to(FE_UPWARD);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(weft_coro_transfer(r->down, NULL, NULL), ==, 1);
        CHECK_ROUNDING(FE_UPWARD);
    }
    return NULL;
}

static void *goes_down(void *arg)
{
    struct round *r = arg;
    CHECK_ROUNDING(FE_TONEAREST);
    round_to(FE_DOWNWARD);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(weft_coro_transfer(r->plain, NULL, NULL), ==, 1);
        CHECK_ROUNDING(FE_DOWNWARD);
    }
    return NULL;
}

static void *has_none_of_its_own(void *arg)
{
    struct round *r = arg;
    for (int i = 0; i < 2; i++) {
        CHECK_ROUNDING(FE_TONEAREST);
        weft_coro_yield(NULL);
        CHECK_ROUNDING(FE_TONEAREST);
        CHECK_INT(weft_coro_transfer(r->up, NULL, NULL), ==, 1);
    }
    return NULL;
}

TEST(transfers_bring_each_its_own)
{
    struct round r;
    REQUIRE(with_fpenv(&r.up, NULL, goes_up, &r) == 0);
    REQUIRE(with_fpenv(&r.down, NULL, goes_down, &r) == 0);
    REQUIRE(weft_coro_new(&r.plain, has_none_of_its_own, &r, NULL) == 0);
    CHECK_INT(weft_coro_resume(r.up, NULL, NULL), ==, 1);
    CHECK_ROUNDING(FE_TONEAREST);
    CHECK_INT(weft_coro_resume(r.plain, NULL, NULL), ==, 1);
    CHECK_ROUNDING(FE_TONEAREST);
    CHECK_INT(weft_coro_resume(r.down, NULL, NULL), ==, 0);
    CHECK_ROUNDING(FE_TONEAREST);
    CHECK_INT(weft_coro_free(r.up), ==, 0);
    CHECK_INT(weft_coro_free(r.down), ==, 0);
    CHECK_INT(weft_coro_free(r.plain), ==, 0);
}

static void *resumes_in_its_own_mode(void *arg)
{
    CHECK_ROUNDING(FE_TONEAREST); /* pthread_create passes on the words of the creator */
    round_to(FE_DOWNWARD);
    CHECK_INT(weft_coro_resume(arg, NULL, NULL), ==, 1);
    CHECK_ROUNDING(FE_DOWNWARD);
    return NULL;
}

TEST(they_move_with_it_to_another_thread)
{
    struct modes m = {FE_TONEAREST, FE_UPWARD};
    weft_coro *c;
    pthread_t thread;
    REQUIRE(with_fpenv(&c, NULL, keeps_its_mode, &m) == 0);
    for (int i = 0; i < 3; i++) {
        REQUIRE(pthread_create(&thread, NULL, resumes_in_its_own_mode, c) == 0);
        pthread_join(thread, NULL);
        CHECK_ROUNDING(FE_TONEAREST);
    }
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    CHECK_ROUNDING(FE_TONEAREST);
    CHECK_INT(weft_coro_free(c), ==, 0);
}

/* Raises a flag in a mode of its own (NULL: in the thread's). */
static void *raises_flags(void *mode)
{
    if (mode)
        round_to(*(int *)mode);
    feraiseexcept(FE_DIVBYZERO);
    weft_coro_yield(NULL);
    CHECK(fetestexcept(FE_OVERFLOW) != 0); /* raised by the thread */
    return NULL;
}

TEST(exception_flags_are_the_threads)
{
    int up = FE_UPWARD, *modes[] = {NULL, &up};
    if (UCONTEXT)
        SKIP("ucontext keeps exception flags with every context");
    for (int i = 0; i < 2; i++) { /* no words to load, and some */
        weft_coro *c;
        feclearexcept(FE_ALL_EXCEPT);
        REQUIRE(with_fpenv(&c, NULL, raises_flags, modes[i]) == 0);
        CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
        CHECK(fetestexcept(FE_DIVBYZERO) != 0);
        CHECK(fetestexcept(FE_OVERFLOW) == 0);
        feraiseexcept(FE_OVERFLOW);
        CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
        CHECK(fetestexcept(FE_DIVBYZERO) != 0 && fetestexcept(FE_OVERFLOW) != 0);
        CHECK_INT(weft_coro_free(c), ==, 0);
    }
    feclearexcept(FE_ALL_EXCEPT);
}

#if defined(__x86_64__)
enum { FLUSH_TO_ZERO = 0x8040 };

static unsigned short x87_word(void)
{
    fpu_control_t word;
    _FPU_GETCW(word);
    return word;
}

static void *sets_words_of_x86(void *arg)
{
    fpu_control_t single = (fpu_control_t)((x87_word() & ~_FPU_EXTENDED) | _FPU_SINGLE);
    _FPU_SETCW(single);
    _mm_setcsr(_mm_getcsr() | FLUSH_TO_ZERO);
    CHECK_INT(feenableexcept(FE_DIVBYZERO), ==, 0);
    for (int i = 0; i < 3; i++) {
        weft_coro_yield(NULL);
        CHECK_INT(x87_word() & _FPU_EXTENDED, ==, _FPU_SINGLE);
        CHECK_INT(_mm_getcsr() & FLUSH_TO_ZERO, ==, FLUSH_TO_ZERO);
        CHECK_INT(fegetexcept(), ==, FE_DIVBYZERO);
    }
    return arg;
}
#endif

TEST(on_x86_flush_to_zero_traps_and_the_x87_word_are_kept)
{
#if defined(__x86_64__)
    weft_coro *c;
    REQUIRE(with_fpenv(&c, NULL, sets_words_of_x86, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, i < 3);
        CHECK_INT(x87_word() & _FPU_EXTENDED, ==, _FPU_EXTENDED);
        CHECK_INT(_mm_getcsr() & FLUSH_TO_ZERO, ==, 0);
        CHECK_INT(fegetexcept(), ==, 0);
    }
    CHECK_INT(weft_coro_free(c), ==, 0);
#else
    SKIP("this is not an x86_64");
#endif
}

TESTS(coro_fpenv, without_the_flag_they_are_the_threads, with_the_flag_they_are_its_own,
      on_a_shared_stack_they_are_its_own_too, it_begins_with_those_of_the_thread_that_made_it,
      after_reset_it_begins_with_those_of_the_thread_that_reset_it, nested_ones_each_have_their_own,
      transfers_bring_each_its_own, they_move_with_it_to_another_thread, exception_flags_are_the_threads,
      on_x86_flush_to_zero_traps_and_the_x87_word_are_kept)
