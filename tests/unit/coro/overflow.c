/*
 * A stack that overflows: one line that names the coroutine, then SIGSEGV. Any other fault goes to whoever handled it
 * before. Everything happens in children: this process itself never makes a coroutine, as the first one installs the
 * handler. Compiled without -fstack-clash-protection: some of the frames here are to step over the guard.
 */
#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/thread.h"
#include "stack/slab.h"
#include "support/test.h"

/* What a child leaves behind: shared memory, and a file that is its standard error. */
struct last_words {
    void (*fn)(struct last_words *);
    uint64_t id; /* of the coroutine that is going to die */
    int fd;
    char said[4096];
};

static void in_child(void *arg)
{
    struct last_words *w = arg;
    dup2(w->fd, STDERR_FILENO);
    w->fn(w);
}

/* Runs fn in a child that ends by `signal`; the caller unmaps the result. */
static struct last_words *last_words_of(void (*fn)(struct last_words *), int signal)
{
    struct last_words *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FILE *file = tmpfile();
    w->fn = fn;
    w->fd = fileno(file);
    CHECK_CHILD(in_child, w, signal, NULL);
    rewind(file);
    w->said[fread(w->said, 1, sizeof w->said - 1, file)] = '\0';
    test_forget_emulator(w->said);
    fclose(file);
    return w;
}

/* The child dies of SIGSEGV and says exactly one line: that the coroutine so named overflowed its stack. */
static void check_overflow(void (*fn)(struct last_words *), const char *name, size_t kib, const char *advice)
{
    struct last_words *w = last_words_of(fn, SIGSEGV);
    char begin[128];
    snprintf(begin, sizeof begin, "weft: coroutine %llu%s%s%s overflowed its stack of ", (unsigned long long)w->id,
             *name ? " \"" : "", name, *name ? "\"" : "");
    CHECK(w->id != 0);
    CHECK_INT(strncmp(w->said, begin, strlen(begin)), ==, 0);
    if (strncmp(w->said, begin, strlen(begin)) == 0)
        CHECK_INT(strtoul(w->said + strlen(begin), NULL, 10), >=, kib);
    CHECK(strstr(w->said, advice) != NULL);
    CHECK(strchr(w->said, '\n') == w->said + strlen(w->said) - 1);
    if (test_has_failed())
        fprintf(stderr, "expected: %s\nsaid: %s\n", begin, w->said);
    munmap(w, sizeof *w);
}

static volatile int deepest = 10000000;

__attribute__((noinline)) static int digs(volatile char *above, int depth)
{
    volatile char mine[1024];
    mine[0] = mine[depth % 1024] = above[0];
    return depth < deepest ? digs(mine, depth + 1) + mine[0] : 0;
}

static void *overflows(void *arg)
{
    struct last_words *w = arg;
    volatile char first = 1;
    w->id = weft_coro_id(weft_coro_current());
    digs(&first, 0);
    return NULL;
}

static void run(const weft_coro_opts *opts, weft_fn *fn, void *arg)
{
    weft_coro *c;
    REQUIRE(weft_coro_new(&c, fn, arg, opts) == 0);
    weft_coro_resume(c, NULL, NULL);
}

static void private_overflows(struct last_words *w)
{
    run(&(weft_coro_opts){.name = "digger", .stack = 100000}, overflows, w);
}

static void private_without_a_name_overflows(struct last_words *w)
{
    run(NULL, overflows, w);
}

TEST(overflow_of_a_private_stack_names_the_coroutine)
{
    check_overflow(private_overflows, "digger", 100000 / 1024, "Raise weft_coro_opts.stack");
    check_overflow(private_without_a_name_overflows, "", WEFT_STACK_DEFAULT / 1024, "Raise weft_coro_opts.stack");
}

static void shared_overflows(struct last_words *w)
{
    weft_stacks *s;
    REQUIRE(weft_stacks_new(&s, 3, 65536) == 0);
    for (int i = 0; i < 2; i++) { /* the second stack of the pool */
        weft_coro *c;
        REQUIRE(weft_coro_new(&c, overflows, w, &(weft_coro_opts){.name = "shares", .shared = s}) == 0);
        if (i == 1)
            weft_coro_resume(c, NULL, NULL);
    }
}

TEST(overflow_of_a_shared_stack_names_the_coroutine)
{
    check_overflow(shared_overflows, "shares", 64, "Raise the size given to weft_stacks_new");
}

/* The inner one's stack lies anywhere: its own guard is hit, whoever waits for it. */
struct nested {
    struct last_words *w;
    weft_stacks *outer, *inner;
};

static void *resumes_one_that_overflows(void *arg)
{
    struct nested *n = arg;
    run(&(weft_coro_opts){.name = "inner", .shared = n->inner}, overflows, n->w);
    return NULL;
}

static void nested_private_overflows(struct last_words *w)
{
    struct nested n = {.w = w};
    run(&(weft_coro_opts){.name = "outer"}, resumes_one_that_overflows, &n);
}

static void nested_shared_overflows(struct last_words *w)
{
    struct nested n = {.w = w};
    REQUIRE(weft_stacks_new(&n.outer, 1, 0) == 0);
    n.inner = n.outer;
    run(&(weft_coro_opts){.name = "outer", .shared = n.outer}, resumes_one_that_overflows, &n);
}

static void *returns(void *arg)
{
    return arg;
}

static void *overflows_after_a_nested_one(void *arg)
{
    run(NULL, returns, NULL);
    return overflows(arg);
}

static void outer_overflows_later(struct last_words *w)
{
    run(&(weft_coro_opts){.name = "outer"}, overflows_after_a_nested_one, w);
}

TEST(overflow_of_a_nested_one_names_the_one_that_ran)
{
    check_overflow(nested_private_overflows, "inner", WEFT_STACK_DEFAULT / 1024, "Raise weft_coro_opts.stack");
    check_overflow(nested_shared_overflows, "inner", WEFT_STACK_DEFAULT / 1024, "weft_stacks_new");
    check_overflow(outer_overflows_later, "outer", WEFT_STACK_DEFAULT / 1024, "Raise weft_coro_opts.stack");
}

static void *thread_overflows(void *arg)
{
    run(&(weft_coro_opts){.name = "elsewhere"}, overflows, arg);
    return NULL;
}

static void another_thread_overflows(struct last_words *w)
{
    pthread_t thread;
    run(NULL, returns, NULL);
    REQUIRE(pthread_create(&thread, NULL, thread_overflows, w) == 0);
    pthread_join(thread, NULL);
}

/* Made and begun here, it overflows there. */
static void *yields_then_overflows(void *arg)
{
    weft_coro_yield(NULL);
    return overflows(arg);
}

static void *thread_resumes(void *arg)
{
    weft_coro_resume(arg, NULL, NULL);
    return NULL;
}

static void moved_one_overflows(struct last_words *w)
{
    weft_coro *c;
    pthread_t thread;
    REQUIRE(weft_coro_new(&c, yields_then_overflows, w, &(weft_coro_opts){.name = "moved"}) == 0);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 1);
    REQUIRE(pthread_create(&thread, NULL, thread_resumes, c) == 0);
    pthread_join(thread, NULL);
}

TEST(overflow_on_another_thread_names_the_coroutine)
{
    check_overflow(another_thread_overflows, "elsewhere", WEFT_STACK_DEFAULT / 1024, "Raise weft_coro_opts.stack");
    check_overflow(moved_one_overflows, "moved", WEFT_STACK_DEFAULT / 1024, "Raise weft_coro_opts.stack");
}

/* Handlers that a program has before its first coroutine. */
static int *volatile nowhere = (int *)16;

static void says(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(2);
}

static void with_info(int signal, siginfo_t *info, void *context)
{
    says(signal == SIGSEGV && context && info->si_addr == nowhere ? "handler with info" : "wrong arguments");
    _exit(0);
}

static void plain(int signal)
{
    says(signal == SIGSEGV ? "plain handler" : "wrong argument");
    _exit(0);
}

static void *writes_to_nowhere(void *arg)
{
    *nowhere = 1;
    return arg;
}

static void fault_with_info_handler(struct last_words *w)
{
    struct sigaction sa = {.sa_sigaction = with_info, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &sa, NULL);
    run(NULL, writes_to_nowhere, w);
}

static void fault_with_plain_handler(struct last_words *w)
{
    signal(SIGSEGV, plain);
    run(NULL, writes_to_nowhere, w);
}

static void check_says(void (*fn)(struct last_words *), int signal, const char *text)
{
    struct last_words *w = last_words_of(fn, signal);
    CHECK_STR(w->said, text);
    munmap(w, sizeof *w);
}

TEST(a_fault_elsewhere_goes_to_the_handler_of_before)
{
    check_says(fault_with_info_handler, 0, "handler with info");
    check_says(fault_with_plain_handler, 0, "plain handler");
}

static void fault_without_handler(struct last_words *w)
{
    signal(SIGSEGV, SIG_DFL); /* a sanitizer has one */
    run(NULL, writes_to_nowhere, w);
}

static void fault_outside_any_coroutine(struct last_words *w)
{
    signal(SIGSEGV, SIG_DFL);
    run(NULL, returns, w);
    writes_to_nowhere(w);
}

static void overflow_of_the_threads_own_stack(struct last_words *w)
{
    volatile char first = 1;
    signal(SIGSEGV, SIG_DFL);
    run(NULL, returns, w);
    digs(&first, 0);
}

TEST(a_fault_elsewhere_without_a_handler_is_a_bare_sigsegv)
{
    check_says(fault_without_handler, SIGSEGV, "");
    check_says(fault_outside_any_coroutine, SIGSEGV, "");
    check_says(overflow_of_the_threads_own_stack, SIGSEGV, "");
}

static void overflow_with_a_handler(struct last_words *w)
{
    signal(SIGSEGV, plain);
    private_overflows(w);
}

TEST(an_overflow_does_not_go_to_the_handler_of_before)
{
    check_overflow(overflow_with_a_handler, "digger", 100000 / 1024, "Raise weft_coro_opts.stack");
}

static void *sends_itself_the_signal(void *arg)
{
    kill(getpid(), SIGSEGV);
    return arg;
}

static void sent_with_default(struct last_words *w)
{
    signal(SIGSEGV, SIG_DFL);
    run(NULL, sends_itself_the_signal, w);
}

static void sent_when_ignored(struct last_words *w)
{
    signal(SIGSEGV, SIG_IGN);
    run(NULL, sends_itself_the_signal, w);
    says("went on");
}

static void sent_with_a_handler(struct last_words *w)
{
    signal(SIGSEGV, plain);
    run(NULL, sends_itself_the_signal, w);
}

TEST(a_sigsegv_that_was_sent_does_what_it_did_before)
{
    check_says(sent_with_default, SIGSEGV, "");
    check_says(sent_when_ignored, 0, "went on");
    check_says(sent_with_a_handler, 0, "plain handler");
}

static void has_a_signal_stack_already(struct last_words *w)
{
    static char mine[65536];
    stack_t ours = {.ss_sp = mine, .ss_size = sizeof mine}, now;
    CHECK_INT(sigaltstack(&ours, NULL), ==, 0);
    run(NULL, returns, w);
    CHECK_INT(sigaltstack(NULL, &now), ==, 0);
    CHECK_PTR(now.ss_sp, ==, mine);
    private_overflows(w);
}

TEST(a_signal_stack_of_the_programs_own_is_used)
{
    check_overflow(has_a_signal_stack_already, "digger", 100000 / 1024, "Raise weft_coro_opts.stack");
}

static __attribute__((noinline)) char steps_over_the_guard(void)
{
    volatile char large[800 * 1024];
    __asm__ volatile("" : : "r"(large) : "memory"); /* all of it is there */
    large[0] = 1;                                   /* the far end only: below the guard */
    return large[0];
}

static void *has_a_large_frame(void *arg)
{
    return steps_over_the_guard() == 1 ? arg : NULL;
}

/* What lies below the guard is another stack of the slab, as the third one is taken: here it may not be touched. */
static void overflow_far_below(void *arg)
{
    weft_coro *c[3];
    (void)arg;
    for (int i = 0; i < 3; i++)
        REQUIRE(weft_coro_new(&c[i], has_a_large_frame, NULL, &(weft_coro_opts){.stack = 1 << 19}) == 0);
    char *top = (char *)((uintptr_t)c[2] & ~(uintptr_t)65535);
    mprotect(top - 1000 * 1024, (size_t)300 * 1024, PROT_NONE);
    weft_coro_resume(c[2], NULL, NULL);
}

TEST(a_frame_that_steps_over_the_guard_is_named_where_it_faults)
{
    CHECK_CHILD(overflow_far_below, NULL, SIGSEGV, "stepped over the guard");
}

static char *near_page;

static void unprotects(int signal)
{
    (void)signal;
    mprotect(near_page, 4096, PROT_READ | PROT_WRITE);
}

static void *touches_it(void *arg)
{
    *near_page = 1;
    return arg;
}

/* A program that keeps protected pages of its own, with one of them right below the lowest stack of a slab. */
static void fault_near_below(void *arg)
{
    static struct last_words words;
    weft_coro *c, *other;
    struct sigaction sa = {.sa_handler = unprotects, .sa_flags = SA_ONSTACK};
    (void)arg;
    sigaction(SIGSEGV, &sa, NULL);
    REQUIRE(weft_coro_new(&c, touches_it, NULL, &(weft_coro_opts){.stack = 1 << 19}) == 0);
    near_page = mmap((char *)wf_stack_mapping(c) - 4096, 4096, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    REQUIRE(near_page != MAP_FAILED);
    CHECK_INT(weft_coro_resume(c, NULL, NULL), ==, 0);
    REQUIRE(weft_coro_new(&other, overflows, &words, &(weft_coro_opts){.name = "the real one"}) == 0);
    weft_coro_resume(other, NULL, NULL); /* and an overflow is still told from it */
}

TEST(a_fault_in_the_programs_own_page_below_a_stack_is_no_overflow)
{
    if (TEST_EMULATED)
        SKIP("an emulator may have something else mapped there");
    CHECK_CHILD(fault_near_below, NULL, SIGSEGV, "\"the real one\" overflowed its stack of");
}

/* A frame that is so large that it ends below the mapping of all stacks, where this process has nothing. */
static __attribute__((noinline)) char has_a_frame_down_to(const char *end)
{
    char *here = __builtin_frame_address(0), *large = alloca((size_t)(here - end));
    __asm__ volatile("" : : "r"(large) : "memory");
    *(volatile char *)large = 1; /* the far end only */
    return *large;
}

enum { BELOW = 128 * 1024 };

static bool nothing_is_mapped(char *p)
{
    unsigned char there;
    char *page = (char *)((uintptr_t)p & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1));
    return mincore(page, 1, &there) != 0 && errno == ENOMEM;
}

/* Below all stacks, where writing is a fault: nothing is mapped there, or (`forbidden`) a page that has no rights. */
static const char *end_below(const void *mapping, bool forbidden)
{
    char *end = (char *)(uintptr_t)mapping - BELOW;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    bool faults = forbidden ? mmap(end - BELOW, 2 * BELOW, PROT_NONE, flags, -1, 0) == end - BELOW
                            : nothing_is_mapped(end) && nothing_is_mapped(end - 4096);
    if (!faults)
        _exit(3);
    return end;
}

static void *leaves_its_mapping(void *arg)
{
    const void *mapping = wf_stack_mapping(weft_coro_current());
    return has_a_frame_down_to(end_below(mapping, arg != NULL)) == 1 ? arg : NULL;
}

static void a_coroutine_leaves_its_mapping(void *arg)
{
    signal(SIGSEGV, SIG_DFL); /* a sanitizer has one */
    run(&(weft_coro_opts){.name = "large"}, leaves_its_mapping, arg);
}

static void *leaves_its_mapping_in_a_fiber(void *arg)
{
    const void *mapping = wf_stack_mapping(wf_thread_now()->current);
    return has_a_frame_down_to(end_below(mapping, arg != NULL)) == 1 ? arg : NULL;
}

static void a_fiber_leaves_its_mapping(void *arg)
{
    weft_sched_opts opts = {.size = sizeof opts, .threads = 1};
    signal(SIGSEGV, SIG_DFL);
    weft_run(leaves_its_mapping_in_a_fiber, arg, NULL, &opts);
}

TEST(a_frame_that_ends_below_all_stacks_is_told_of)
{
    static char forbidden[] = "yes";
    if (TEST_EMULATED)
        SKIP("an emulator may have something else mapped there");
    CHECK_CHILD(a_coroutine_leaves_its_mapping, NULL, SIGSEGV, "looks like a stack overflow of coroutine");
    CHECK_CHILD(a_coroutine_leaves_its_mapping, NULL, SIGSEGV, " \"large\", whose stack has ");
    CHECK_CHILD(a_coroutine_leaves_its_mapping, NULL, SIGSEGV, "Raise weft_coro_opts.stack");
    CHECK_CHILD(a_coroutine_leaves_its_mapping, NULL, SIGSEGV, "-fstack-clash-protection");
    CHECK_CHILD(a_coroutine_leaves_its_mapping, forbidden, SIGSEGV, "looks like a stack overflow of coroutine");
    CHECK_CHILD(a_fiber_leaves_its_mapping, NULL, SIGSEGV, "looks like a stack overflow of fiber");
    CHECK_CHILD(a_fiber_leaves_its_mapping, forbidden, SIGSEGV, "Raise weft_attr.stack or weft_sched_opts.stack");
}

/* A program that handles faults itself sees this one too, after the line. */
static void leaves_its_mapping_with_a_handler(struct last_words *w)
{
    (void)w;
    struct sigaction sa = {.sa_handler = plain, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &sa, NULL);
    run(&(weft_coro_opts){.name = "large"}, leaves_its_mapping, NULL);
}

TEST(a_handler_of_before_sees_a_fault_below_all_stacks_after_the_line)
{
    if (TEST_EMULATED)
        SKIP("an emulator may have something else mapped there");
    struct last_words *w = last_words_of(leaves_its_mapping_with_a_handler, 0);
    CHECK(strstr(w->said, "looks like a stack overflow of coroutine") != NULL);
    CHECK(strstr(w->said, ".\nplain handler") != NULL);
    munmap(w, sizeof *w);
}

/* A wild pointer there, with the stack pointer where it should be, and one in a handler on the signal stack. */
static char *below_all;

static void *writes_below_all(void *arg)
{
    *(volatile char *)end_below(wf_stack_mapping(weft_coro_current()), false) = 1; // NOLINT(*-cast-qual)
    return arg;
}

static void fault_below_all(struct last_words *w)
{
    signal(SIGSEGV, SIG_DFL);
    run(NULL, writes_below_all, w);
}

static void writes_there(int signal)
{
    (void)signal;
    *(volatile char *)below_all = 1;
}

static void *raises(void *arg)
{
    raise(SIGUSR1);
    return arg;
}

/* The signal stack lies below the coroutine's, as it may by chance. */
static void fault_on_the_signal_stack(struct last_words *w)
{
    enum { BYTES = 128 * 1024 };
    weft_coro *c;
    struct sigaction sa = {.sa_handler = writes_there, .sa_flags = SA_ONSTACK};
    signal(SIGSEGV, SIG_DFL);
    sigaction(SIGUSR1, &sa, NULL);
    REQUIRE(weft_coro_new(&c, raises, w, NULL) == 0);
    below_all = (char *)(uintptr_t)end_below(wf_stack_mapping(c), false);
    char *ours = mmap(below_all - 2 * BYTES, BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    REQUIRE(ours != MAP_FAILED);
    stack_t stack = {.ss_sp = ours, .ss_size = BYTES};
    REQUIRE(sigaltstack(&stack, NULL) == 0);
    weft_coro_resume(c, NULL, NULL);
}

TEST(a_wild_pointer_below_all_stacks_is_no_overflow)
{
    if (TEST_EMULATED)
        SKIP("an emulator may have something else mapped there");
    check_says(fault_below_all, SIGSEGV, "");
    check_says(fault_on_the_signal_stack, SIGSEGV, "");
}

TESTS(coro_overflow, overflow_of_a_private_stack_names_the_coroutine, overflow_of_a_shared_stack_names_the_coroutine,
      overflow_of_a_nested_one_names_the_one_that_ran, overflow_on_another_thread_names_the_coroutine,
      a_fault_elsewhere_goes_to_the_handler_of_before, a_fault_elsewhere_without_a_handler_is_a_bare_sigsegv,
      an_overflow_does_not_go_to_the_handler_of_before, a_sigsegv_that_was_sent_does_what_it_did_before,
      a_signal_stack_of_the_programs_own_is_used, a_frame_that_steps_over_the_guard_is_named_where_it_faults,
      a_fault_in_the_programs_own_page_below_a_stack_is_no_overflow, a_frame_that_ends_below_all_stacks_is_told_of,
      a_handler_of_before_sees_a_fault_below_all_stacks_after_the_line, a_wild_pointer_below_all_stacks_is_no_overflow)
