/*
 * How many locked instructions the ways take that every program takes all the time: a yield to another fiber, and a
 * weft_go with the pick that starts the fiber. Promised: none, and one at most.
 *
 * A child runs fibers that mark each turn by a breakpoint; its parent steps worker 0 through, instruction by instruction
 * (ptrace), and counts between two marks: those with a lock prefix, an xchg with memory, and mfence. A second worker, if
 * there is one, is kept busy and is not stepped. tools/count-locked runs this and prints what it counted.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/sched.h>

#include "base/clock.h"
#include "base/sanitizer.h"
#include "support/test.h"

#if !defined(__x86_64__) || TEST_EMULATED
#define NOT_HERE "it counts the instructions of an x86_64 that runs them itself"
#elif WF_ASAN || WF_TSAN
#define NOT_HERE "a sanitizer's own instructions are in the way"
#elif WF_VALGRIND
#define NOT_HERE "valgrind's build tells it of every stack"
#elif WF_DEBUG
#define NOT_HERE "debug builds switch in the call form, and look at more"
#elif defined(WF_UCONTEXT)
#define NOT_HERE "the portable switch is made of calls"
#endif

#ifdef NOT_HERE

TEST(locked_instructions_are_seen)
{
    SKIP(NOT_HERE);
}

TEST(yield_has_no_locked_instruction)
{
    SKIP(NOT_HERE);
}

TEST(go_and_its_pick_have_one_locked_instruction_at_most)
{
    SKIP(NOT_HERE);
}

#else

#include <sys/user.h>

enum { WARM_UP = 300, TURNS = 40 };

/* What is between two marks, of `turns` such pieces: the most of one piece, and the instructions of the shortest. */
struct counted {
    unsigned turns, locked_most, locked_least;
    unsigned long steps_least;
};

/* ---- the child: fibers that mark their turns ---- */

static int release_worker_1;

static inline void mark(void)
{
    __asm__ volatile("int3" : : : "memory");
}

static void *yields(void *arg)
{
    (void)arg;
    for (int i = 0; i < WARM_UP; i++)
        weft_yield();
    for (int i = 0; i < TURNS / 2; i++) {
        mark();
        weft_yield();
    }
    return NULL;
}

static void *two_that_yield(void *arg)
{
    weft_fiber *other = NULL;
    CHECK_INT(weft_go_with(&other, &(weft_attr){.worker = WEFT_WORKER(0)}, yields, NULL), ==, 0);
    weft_yield();
    yields(arg);
    CHECK_INT(weft_join(other, NULL, WEFT_FOREVER), ==, 0);
    __atomic_store_n(&release_worker_1, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *does_nothing(void *arg)
{
    return arg;
}

static void *marks_its_start(void *arg)
{
    mark();
    return arg;
}

/* The pieces are by turns: go, yield, and the start of the other; the other's end. */
static void *goes(void *arg)
{
    (void)arg;
    for (int i = 0; i < WARM_UP; i++) {
        CHECK_INT(weft_go(does_nothing, NULL), ==, 0);
        weft_yield();
    }
    for (int i = 0; i < TURNS; i++) {
        mark();
        weft_go(marks_its_start, NULL);
        weft_yield();
    }
    __atomic_store_n(&release_worker_1, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *has_three(void *arg)
{
    uint32_t word = 0, other = 1;
    mark();
    __asm__ volatile("lock addl $1, %0\n\t"
                     "xchgl %1, %0\n\t"
                     "mfence\n\t"
                     "addl $1, %0\n\t"
                     "xchgl %1, %%ecx"
                     : "+m"(word), "+r"(other)
                     :
                     : "ecx", "cc", "memory");
    mark();
    return arg;
}

static void *is_busy(void *arg)
{
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&release_worker_1, __ATOMIC_ACQUIRE))
        ;
    return NULL;
}

static void run(unsigned workers, weft_fn *fn)
{
    static int busy;
    weft_sched *s = NULL;
    wf_clock_set(1000 * WEFT_SEC); /* to the workers no time passes: what they do now and then is not counted */
    if (weft_sched_new(&s, &(weft_sched_opts){.threads = workers, .use_caller = true}) != 0 || weft_sched_start(s) != 0)
        _exit(2);
    if (workers > 1) {
        CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(1)}, is_busy, &busy), ==, 0);
        while (!__atomic_load_n(&busy, __ATOMIC_ACQUIRE))
            usleep(100);
    }
    CHECK_INT(weft_sched_go(s, NULL, &(weft_attr){.worker = WEFT_WORKER(0)}, fn, NULL), ==, 0);
    weft_sched_run(s, WEFT_FOREVER);
}

/* ---- the parent ---- */

static bool is_prefix(uint8_t byte)
{
    static const uint8_t prefixes[] = {0xf0, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0x66, 0x67};
    return memchr(prefixes, byte, sizeof prefixes) != NULL;
}

static bool is_locked(const uint8_t *code, const uint8_t *end)
{
    for (; code < end && is_prefix(*code); code++) {
        if (*code == 0xf0)
            return true;
    }
    if (code < end && (*code & 0xf0) == 0x40) /* REX */
        code++;
    if (end - code < 3)
        return false;
    bool exchanges = (code[0] == 0x86 || code[0] == 0x87) && code[1] >> 6 != 3;
    bool fences = code[0] == 0x0f && code[1] == 0xae && code[2] == 0xf0;
    return exchanges || fences;
}

/* The instruction that the child is about to execute. */
static bool next_is_locked(pid_t child)
{
    struct user_regs_struct regs;
    union {
        long words[2];
        uint8_t bytes[2 * sizeof(long)];
    } code;
    if (ptrace(PTRACE_GETREGS, child, NULL, &regs) != 0)
        return false;
    for (size_t i = 0; i < 2; i++)
        code.words[i] = ptrace(PTRACE_PEEKTEXT, child, (void *)(regs.rip + i * sizeof(long)), NULL);
    return is_locked(code.bytes, code.bytes + sizeof code.bytes);
}

/* How the child stopped. */
enum stop { AT_MARK, AT_STEP, AT_SIGNAL, ENDED };

static enum stop await_stop(pid_t child, int *status)
{
    siginfo_t info = {0};
    while (waitpid(child, status, __WALL) < 0 && errno == EINTR)
        ;
    if (!WIFSTOPPED(*status))
        return ENDED;
    if (WSTOPSIG(*status) != SIGTRAP)
        return AT_SIGNAL;
    ptrace(PTRACE_GETSIGINFO, child, NULL, &info);
    return info.si_code == SI_KERNEL ? AT_MARK : AT_STEP; /* int3, or a step */
}

/* From a mark to the next one. False: the child has ended before that. */
static bool count_piece(pid_t child, unsigned *locked, unsigned long *steps)
{
    int status = 0, signal = 0;
    *locked = 0;
    for (*steps = 0;; ++*steps) {
        *locked += next_is_locked(child);
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, (void *)(intptr_t)signal) != 0)
            return false;
        enum stop stop = await_stop(child, &status);
        if (stop == AT_MARK || stop == ENDED)
            return stop == AT_MARK;
        signal = stop == AT_SIGNAL ? WSTOPSIG(status) : 0;
    }
}

static bool run_to_mark(pid_t child)
{
    int status = 0, signal = 0;
    for (;;) {
        if (ptrace(PTRACE_CONT, child, NULL, (void *)(intptr_t)signal) != 0)
            return false;
        enum stop stop = await_stop(child, &status);
        if (stop == AT_MARK || stop == ENDED)
            return stop == AT_MARK;
        signal = stop == AT_SIGNAL ? WSTOPSIG(status) : 0;
    }
}

/* Counts the pieces after every mark, or after every other one. */
static void count_all(pid_t child, bool every_other, struct counted *out)
{
    *out = (struct counted){.locked_least = UINT32_MAX, .steps_least = UINT64_MAX};
    for (bool at_mark = run_to_mark(child); at_mark;) {
        unsigned locked;
        unsigned long steps;
        if (!count_piece(child, &locked, &steps))
            break;
        out->turns++;
        out->locked_most = locked > out->locked_most ? locked : out->locked_most;
        out->locked_least = locked < out->locked_least ? locked : out->locked_least;
        out->steps_least = steps < out->steps_least ? steps : out->steps_least;
        at_mark = !every_other || run_to_mark(child);
    }
}

/* False: it cannot be done here, and was skipped. */
static bool count(unsigned workers, weft_fn *fn, bool every_other, struct counted *out)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        raise(SIGSTOP);
        run(workers, fn);
        _exit(0);
    }
    while (waitpid(child, &status, __WALL) < 0 && errno == EINTR)
        ;
    if (!WIFSTOPPED(status)) {
        test_skip("the system does not let a process be traced");
        return false;
    }
    ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)PTRACE_O_EXITKILL);
    count_all(child, every_other, out);
    waitpid(child, &status, __WALL);
    return true;
}

static void say(const char *what, unsigned workers, const struct counted *c)
{
    printf("%s, %u worker%s: %u locked instructions at most, %u at least, of %lu in all (the fewest of %u turns)\n",
           what, workers, workers > 1 ? "s" : "", c->locked_most, c->locked_least, c->steps_least, c->turns);
}

TEST(locked_instructions_are_seen)
{
    struct counted c;
    if (!count(1, has_three, false, &c))
        return;
    CHECK_INT(c.turns, ==, 1);
    CHECK_INT(c.locked_most, ==, 3);
}

TEST(yield_has_no_locked_instruction)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct counted c;
        if (!count(workers, two_that_yield, false, &c))
            return;
        say("weft_yield", workers, &c);
        CHECK_INT(c.turns, >=, TURNS - 2);
        CHECK_INT(c.locked_most, ==, 0);
    }
}

TEST(go_and_its_pick_have_one_locked_instruction_at_most)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        struct counted c;
        if (!count(workers, goes, true, &c))
            return;
        say("weft_go and the pick", workers, &c);
        CHECK_INT(c.turns, ==, TURNS);
        CHECK_INT(c.locked_most, <=, 1);
    }
}

#endif

TESTS(integration_locked, locked_instructions_are_seen, yield_has_no_locked_instruction,
      go_and_its_pick_have_one_locked_instruction_at_most)
