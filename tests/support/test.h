/*
 * tests/support/test.h: what a test program is made of.
 *
 *      TEST(resume_of_a_done_one_is_esrch) { ... CHECK_INT(rc, ==, -ESRCH); ... }
 *      TESTS(coro_misuse, resume_of_a_done_one_is_esrch, ...)
 *
 * CHECK works anywhere: in coroutines, in fibers, on other threads and in forked children of a test. It records file,
 * line and values, goes on, and fails the test at its end. (An assertion of cmocka leaves by longjmp, which in a
 * coroutine jumps to another stack.) The runner is cmocka; where Debian has no cmocka for the target, a plain loop.
 */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct test {
    const char *name;
    void (*run)(void);
};

int test_main(const char *program, const struct test *tests, size_t count);

/* Records a failure; printf-like. */
void test_failed(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Whether the running test has failed so far. */
bool test_has_failed(void);
/* The test cannot run here; it must return at once. The reason is printed and the test counts as skipped. */
void test_skip(const char *reason);

/* Whether an emulator (qemu-user) runs the program: what it takes of memory, and some of what is said, is not ours. */
#ifndef TEST_EMULATED
#define TEST_EMULATED 0
#endif
/* Takes an emulator's own lines out of what a child has said. */
void test_forget_emulator(char *said);

/* Runs fn(arg) in a forked child and checks how that ends: by `signal` (0: exits with status 0; TEST_EXITS: with another
 * status, as sanitizers do) and with `say` (NULL: anything) on standard error. */
#define TEST_EXITS (-1)
void test_child(const char *file, int line, void (*fn)(void *), void *arg, int signal, const char *say);

#define TEST(name) static void name(void)

#define CHECK(cond)                                                                                                    \
    do {                                                                                                               \
        if (!(cond))                                                                                                   \
            test_failed(__FILE__, __LINE__, "CHECK(%s)", #cond);                                                       \
    } while (0)

#define CHECK_INT(a, op, b)                                                                                            \
    do {                                                                                                               \
        long long check_a = (long long)(a), check_b = (long long)(b);                                                  \
        if (!(check_a op check_b))                                                                                     \
            test_failed(__FILE__, __LINE__, "%s %s %s: %lld, %lld", #a, #op, #b, check_a, check_b);                    \
    } while (0)

#define CHECK_PTR(a, op, b)                                                                                            \
    do {                                                                                                               \
        const void *check_a = (a), *check_b = (b);                                                                     \
        if (!(check_a op check_b))                                                                                     \
            test_failed(__FILE__, __LINE__, "%s %s %s: %p, %p", #a, #op, #b, check_a, check_b);                        \
    } while (0)

#define CHECK_STR(a, b) test_check_str(__FILE__, __LINE__, #a, (a), (b))
void test_check_str(const char *file, int line, const char *what, const char *a, const char *b);

#define CHECK_CHILD(fn, arg, signal, say) test_child(__FILE__, __LINE__, fn, arg, signal, say)

/* Goes on only when the condition holds: for set-up without which the rest makes no sense. */
#define REQUIRE(cond)                                                                                                  \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            test_failed(__FILE__, __LINE__, "REQUIRE(%s)", #cond);                                                     \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

#define SKIP(reason)                                                                                                   \
    do {                                                                                                               \
        test_skip(reason);                                                                                             \
        return;                                                                                                        \
    } while (0)

/* A random seed for the run: WEFT_SEED, or the clock; printed. */
uint64_t test_seed(void);
/* The next number of a sequence; *state is anything but 0. */
uint64_t test_random(uint64_t *state);

/* Resident memory and page tables of this process, in bytes. */
size_t test_memory(void);

#define TEST_ENTRY_(name) {#name, name},
#define TEST_1_(m, a) m(a)
#define TEST_2_(m, a, ...) m(a) TEST_1_(m, __VA_ARGS__)
#define TEST_3_(m, a, ...) m(a) TEST_2_(m, __VA_ARGS__)
#define TEST_4_(m, a, ...) m(a) TEST_3_(m, __VA_ARGS__)
#define TEST_5_(m, a, ...) m(a) TEST_4_(m, __VA_ARGS__)
#define TEST_6_(m, a, ...) m(a) TEST_5_(m, __VA_ARGS__)
#define TEST_7_(m, a, ...) m(a) TEST_6_(m, __VA_ARGS__)
#define TEST_8_(m, a, ...) m(a) TEST_7_(m, __VA_ARGS__)
#define TEST_9_(m, a, ...) m(a) TEST_8_(m, __VA_ARGS__)
#define TEST_10_(m, a, ...) m(a) TEST_9_(m, __VA_ARGS__)
#define TEST_11_(m, a, ...) m(a) TEST_10_(m, __VA_ARGS__)
#define TEST_12_(m, a, ...) m(a) TEST_11_(m, __VA_ARGS__)
#define TEST_13_(m, a, ...) m(a) TEST_12_(m, __VA_ARGS__)
#define TEST_14_(m, a, ...) m(a) TEST_13_(m, __VA_ARGS__)
#define TEST_15_(m, a, ...) m(a) TEST_14_(m, __VA_ARGS__)
#define TEST_16_(m, a, ...) m(a) TEST_15_(m, __VA_ARGS__)
#define TEST_17_(m, a, ...) m(a) TEST_16_(m, __VA_ARGS__)
#define TEST_18_(m, a, ...) m(a) TEST_17_(m, __VA_ARGS__)
#define TEST_19_(m, a, ...) m(a) TEST_18_(m, __VA_ARGS__)
#define TEST_20_(m, a, ...) m(a) TEST_19_(m, __VA_ARGS__)
#define TEST_21_(m, a, ...) m(a) TEST_20_(m, __VA_ARGS__)
#define TEST_22_(m, a, ...) m(a) TEST_21_(m, __VA_ARGS__)
#define TEST_23_(m, a, ...) m(a) TEST_22_(m, __VA_ARGS__)
#define TEST_24_(m, a, ...) m(a) TEST_23_(m, __VA_ARGS__)
#define TEST_NTH_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, \
                  a23, a24, which, ...)                                                                                \
    which
#define TEST_EACH_(m, ...)                                                                                             \
    TEST_NTH_(__VA_ARGS__, TEST_24_, TEST_23_, TEST_22_, TEST_21_, TEST_20_, TEST_19_, TEST_18_, TEST_17_, TEST_16_,   \
              TEST_15_, TEST_14_, TEST_13_, TEST_12_, TEST_11_, TEST_10_, TEST_9_, TEST_8_, TEST_7_, TEST_6_, TEST_5_, \
              TEST_4_, TEST_3_, TEST_2_, TEST_1_, 0)                                                                   \
    (m, __VA_ARGS__)

/* The program: its name and up to 24 tests, in the order they run. */
#define TESTS(program, ...)                                                                                            \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        static const struct test tests[] = {TEST_EACH_(TEST_ENTRY_, __VA_ARGS__)};                                     \
        return test_main(#program, tests, sizeof tests / sizeof tests[0]);                                             \
    }

#ifdef __cplusplus
}
#endif

#endif
