/*
 * tests/hook/statement.h: what a test program of the hooks is made of.
 *
 *      STATEMENT(recv_waits_for_data) { ... CHECK_INT(recv(fd, buf, 4, 0), ==, 4); CHECK_AFTER(start, 50); ... }
 *      STATEMENTS(transfer, recv_waits_for_data, ...)
 *
 * A statement is a sentence about what a blocking call does, with one body of plain calls of the C library. Every program
 * runs three times: with WEFT_HOOK=off on plain threads, where nothing of weft is started, so that the kernel itself is
 * seen to agree; and in fibers, with either driver. There the body runs on worker 0 of a scheduler with two workers, and
 * so does a ticker that sleeps 1 ms over and over: if it is ever kept waiting, the body has blocked its worker, and the
 * statement fails. Time that the machine had no CPU to give is not counted (machine.h); a statement that fails by nothing
 * but having taken too long runs once more, and says so. STATEMENT=text in the environment leaves out those without it in
 * their names.
 */
#ifndef TESTS_HOOK_STATEMENT_H
#define TESTS_HOOK_STATEMENT_H

#include <stdbool.h>

#include "hook/machine.h"
#include "support/test.h"

/* Whether AddressSanitizer is in the program: all is slower. */
#if defined(__SANITIZE_ADDRESS__)
#define STATEMENT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STATEMENT_ASAN 1
#endif
#endif
#ifndef STATEMENT_ASAN
#define STATEMENT_ASAN 0
#endif

/* Whether this is the run with plain threads: for the rare difference. */
bool is_kernel(void);

/*
 * Another flow of control. It begins soon; `end` waits until its function has returned, and releases it. A statement ends
 * all that it begins. All of them may be called in any flow.
 */
struct flow;
struct flow *begin(void (*fn)(void *arg), void *arg);           /* a fiber on worker 0; a thread in the kernel's run */
struct flow *begin_elsewhere(void (*fn)(void *arg), void *arg); /* a fiber on worker 1; a thread in the kernel's run */
struct flow *begin_thread(void (*fn)(void *arg), void *arg);    /* a thread without a fiber, in all three runs */
void end(struct flow *flow);

/* What was begun at `start` (of now_ms) is over at once: it has waited for nothing. */
#define CHECK_AT_ONCE(start) check_time(__FILE__, __LINE__, start, 0)
/* What was begun at `start` took `ms`: never less, and not ten times as much. */
#define CHECK_AFTER(start, ms) check_time(__FILE__, __LINE__, start, ms)
void check_time(const char *file, int line, double start, double ms);
/* What was begun at `start` took no longer than this. */
#define CHECK_WITHIN(start, ms) check_within(__FILE__, __LINE__, start, ms)
void check_within(const char *file, int line, double start, double ms);

/* The call fails, with this errno. */
#define CHECK_ERRNO(call, wanted)                                                                                      \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        long long check_rc = (long long)(call);                                                                        \
        check_errno(__FILE__, __LINE__, #call, check_rc, errno, wanted);                                               \
    } while (0)
void check_errno(const char *file, int line, const char *call, long long rc, int error, int wanted);

/* The statements' runner. */
void statement_run(const char *name, void (*body)(void));
/* Runs the body in a fiber beside the ticker: the longest time that this was kept waiting, in milliseconds. */
double statement_gap(void (*body)(void));
/* What is too long. */
double statement_gap_limit(void);

#define STATEMENT(name)                                                                                                \
    static void name##_body(void);                                                                                     \
    TEST(name)                                                                                                         \
    {                                                                                                                  \
        statement_run(#name, name##_body);                                                                             \
    }                                                                                                                  \
    static void name##_body(void)

/* The program: its name and its statements, in the order they run. */
#define STATEMENTS(program, ...) TESTS(program, __VA_ARGS__)

#endif
