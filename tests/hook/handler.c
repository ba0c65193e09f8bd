/*
 * Handlers of signals: a hooked call that one makes never switches to another flow; and what becomes of one that is left
 * by a jump. What is asked for and given about handlers is the user's.
 */
#include "hook/ends.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

#include <weft/weft.h>

/* A flow that counts, as fast as it is let. */
struct counter {
    int count; /* atomic */
    bool stop; /* atomic */
    struct flow *flow;
};

static void count_on(void *arg)
{
    struct counter *c = arg;
    while (!__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
        __atomic_add_fetch(&c->count, 1, __ATOMIC_RELAXED);
        usleep(1000);
    }
}

static struct counter counter;

static int counted(void)
{
    return __atomic_load_n(&counter.count, __ATOMIC_RELAXED);
}

static void begin_counter(void)
{
    counter = (struct counter){0};
    counter.flow = begin(count_on, &counter);
    while (counted() == 0)
        usleep(1000);
}

static void end_counter(void)
{
    __atomic_store_n(&counter.stop, true, __ATOMIC_RELEASE);
    end(counter.flow);
}

/* --- what a handler does --- */

static void (*deed)(void); /* what it is to do */
static int ran;            /* atomic: how often it has */
static int meanwhile;      /* atomic: how far others have counted while it did */

static void handler(int number)
{
    int error = errno, before = counted();
    (void)number;
    deed();
    __atomic_add_fetch(&meanwhile, counted() - before, __ATOMIC_RELAXED);
    __atomic_add_fetch(&ran, 1, __ATOMIC_RELAXED);
    errno = error;
}

static void handler_with_info(int number, siginfo_t *info, void *context)
{
    CHECK_INT(info->si_signo, ==, number);
    CHECK(context != NULL);
    handler(number);
}

static struct sigaction handle(void (*what)(void), int flags)
{
    struct sigaction act = {.sa_flags = flags}, before;
    if (flags & SA_SIGINFO)
        act.sa_sigaction = handler_with_info;
    else
        act.sa_handler = handler;
    deed = what;
    __atomic_store_n(&ran, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&meanwhile, 0, __ATOMIC_RELAXED);
    CHECK_INT(sigaction(SIGUSR1, &act, &before), ==, 0);
    return before;
}

/* The handler has run this often, and nobody else on this worker meanwhile; other threads do as they like. */
static void check_handled(int times)
{
    CHECK_INT(__atomic_load_n(&ran, __ATOMIC_RELAXED), ==, times);
    if (!is_kernel())
        CHECK_INT(__atomic_load_n(&meanwhile, __ATOMIC_RELAXED), ==, 0);
}

static void restore(struct sigaction before)
{
    CHECK_INT(sigaction(SIGUSR1, &before, NULL), ==, 0);
}

static void sleep_10_ms(void)
{
    double start = now_ms();
    usleep(10000);
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    CHECK_AFTER(start, 15);
}

static struct ends filled; /* a plain thread writes to it */

static void wait_for_bytes(void)
{
    char byte;
    struct pollfd p = {filled.a, POLLIN, 0};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(filled.a, &set);
    CHECK_INT(read(filled.a, &byte, 1), ==, 1);
    CHECK_INT(recv(filled.a, &byte, 1, 0), ==, 1);
    CHECK_INT(poll(&p, 1, -1), ==, 1);
    CHECK_INT(select(filled.a + 1, &set, NULL, NULL, NULL), ==, 1);
    CHECK_INT(read(filled.a, &byte, 1), ==, 1);
}

static void write_three(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        usleep(8000);
        write_one(filled.b);
    }
}

/* Others run while a call waits. */
static void check_others_run(void (*wait)(void))
{
    int seen = counted();
    for (int i = 0; i < 20 && counted() <= seen + 2; i++)
        wait();
    CHECK_INT(counted(), >, seen + 2);
}

static void wait_shallow(void)
{
    usleep(20000);
}

static void check_deeds(int flags)
{
    begin_counter();
    struct sigaction before = handle(sleep_10_ms, flags);
    errno = 99;
    CHECK_INT(raise(SIGUSR1), ==, 0);
    CHECK_INT(errno, ==, 99);
    check_handled(1);
    check_others_run(wait_shallow);
    CHECK_INT(pthread_kill(pthread_self(), SIGUSR1), ==, 0);
    check_handled(2);
    check_others_run(wait_shallow);
    deed = wait_for_bytes;
    filled = unix_ends(SOCK_STREAM);
    struct flow *f = begin_thread(write_three, NULL);
    CHECK_INT(raise(SIGUSR1), ==, 0);
    check_handled(3);
    end(f);
    close_ends(filled);
    restore(before);
    end_counter();
}

STATEMENT(a_call_in_a_handler_never_switches)
{
    check_deeds(0);
    check_deeds(SA_SIGINFO | SA_RESTART | SA_NODEFER);
}

STATEMENT(a_call_in_a_handler_on_a_stack_of_its_own_never_switches)
{
    enum { ROOM = 256 << 10 };
    stack_t before, own = {.ss_sp = malloc(ROOM), .ss_size = ROOM};
    CHECK_INT(sigaltstack(&own, &before), ==, 0);
    check_deeds(SA_ONSTACK);
    CHECK_INT(sigaltstack(&before, NULL), ==, 0);
    free(own.ss_sp);
}

static void shoot(void *arg)
{
    pthread_t *at = arg;
    usleep(30000);
    pthread_kill(*at, SIGUSR1);
}

/* The handler runs wherever the worker then is: in another flow, or in none. */
STATEMENT(a_call_in_a_handler_that_comes_from_outside_never_switches)
{
    pthread_t self = pthread_self();
    begin_counter();
    struct sigaction before = handle(sleep_10_ms, SA_RESTART);
    for (int i = 1; i <= 5; i++) {
        struct flow *f = begin_thread(shoot, &self);
        double start = now_ms();
        do {
            usleep(5000);
        } while (now_ms() - start < 60);
        end(f);
        check_handled(i);
    }
    restore(before);
    end_counter();
}

static void raise_again(void)
{
    static int depth;
    if (depth == 0) {
        depth = 1;
        usleep(5000);
        raise(SIGUSR1);
        usleep(5000);
        depth = 0;
    } else {
        usleep(5000);
    }
}

STATEMENT(handlers_within_handlers_never_switch)
{
    begin_counter();
    struct sigaction before = handle(raise_again, SA_NODEFER);
    CHECK_INT(raise(SIGUSR1), ==, 0);
    check_handled(2);
    check_others_run(wait_shallow);
    restore(before);
    end_counter();
}

/* --- handlers that are left by a jump --- */

static sigjmp_buf out;

static void jump(void)
{
    usleep(1000);
    siglongjmp(out, 1);
}

/* Far down the stack, where the handler's frames were. */
static __attribute__((noinline)) void sleep_deep(int levels)
{
    volatile char frame[1024];
    memset((char *)frame, levels, sizeof frame);
    if (levels > 0)
        sleep_deep(levels - 1);
    else
        usleep(20000);
    frame[0]++;
}

static __attribute__((noinline)) void leave_a_handler(void)
{
    if (sigsetjmp(out, 1) == 0) {
        raise(SIGUSR1);
        test_failed(__FILE__, __LINE__, "the handler returned");
    }
}

static void wait_deep(void)
{
    sleep_deep(24);
}

STATEMENT(who_has_left_a_handler_by_a_jump_is_out_of_it)
{
    begin_counter();
    struct sigaction before = handle(jump, 0);
    for (int i = 0; i < 3; i++) {
        leave_a_handler();
        check_others_run(wait_shallow);
        leave_a_handler();
        check_others_run(wait_deep);
    }
    restore(before);
    end_counter();
}

/* Below where the handler's frames were, with all that they have written still there. */
static __attribute__((noinline)) void wait_below(void)
{
    char untouched[16384];
    __asm__ volatile("" : : "r"(untouched) : "memory");
    usleep(20000);
    __asm__ volatile("" : : "r"(untouched) : "memory");
}

static void jump_inside(void)
{
    sigjmp_buf here;
    if (sigsetjmp(here, 1) == 0)
        siglongjmp(here, 1);
    usleep(10000);
}

STATEMENT(where_a_jump_went_is_known_whatever_it_has_left_behind)
{
    static char memory[65536];
    stack_t own = {.ss_sp = memory, .ss_size = sizeof memory}, stack_before;
    CHECK_INT(sigaltstack(&own, &stack_before), ==, 0);
    begin_counter();
    for (int flags = 0; flags <= SA_ONSTACK; flags += SA_ONSTACK) {
        struct sigaction before = handle(jump, flags);
        leave_a_handler();
        check_others_run(wait_below);
        check_others_run(wait_shallow);
        restore(before);
        before = handle(jump_inside, flags);
        CHECK_INT(raise(SIGUSR1), ==, 0);
        check_handled(1);
        check_others_run(wait_below);
        restore(before);
    }
    end_counter();
    CHECK_INT(sigaltstack(&stack_before, NULL), ==, 0);
}

static void leave_and_compute(void *arg)
{
    (void)arg;
    leave_a_handler(); /* and no hooked call after it */
}

static void wait_in_fibers(void *arg)
{
    (void)arg;
    check_others_run(wait_shallow);
}

/* Its stack may lie below or above the others'. */
STATEMENT(what_one_flow_has_left_by_a_jump_another_is_not_in)
{
    begin_counter();
    struct sigaction before = handle(jump, 0);
    for (int i = 0; i < 4; i++) {
        struct flow *flows[6];
        for (int k = 0; k < 6; k++)
            flows[k] = begin(k == i ? leave_and_compute : wait_in_fibers, NULL);
        check_others_run(wait_shallow);
        for (int k = 0; k < 6; k++)
            end(flows[k]);
    }
    restore(before);
    end_counter();
}

/* --- what is asked for and given --- */

static void other(int number)
{
    (void)number;
}

STATEMENT(what_was_set_is_what_is_told)
{
    struct sigaction kept, told, act = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_NODEFER};
    CHECK_INT(sigaction(SIGUSR2, NULL, &kept), ==, 0);
    CHECK(kept.sa_handler == SIG_DFL);
    sigaddset(&act.sa_mask, SIGHUP);
    CHECK_INT(sigaction(SIGUSR2, &act, NULL), ==, 0);
    CHECK_INT(sigaction(SIGUSR2, NULL, &told), ==, 0);
    CHECK(told.sa_handler == handler);
    CHECK_INT(told.sa_flags & (SA_RESTART | SA_NODEFER | SA_SIGINFO | SA_RESETHAND), ==, SA_RESTART | SA_NODEFER);
    CHECK(sigismember(&told.sa_mask, SIGHUP) == 1 && sigismember(&told.sa_mask, SIGINT) == 0);
    CHECK(signal(SIGUSR2, other) == handler);
    CHECK(signal(SIGUSR2, SIG_IGN) == other);
    CHECK_INT(raise(SIGUSR2), ==, 0); /* nothing */
    CHECK(signal(SIGUSR2, SIG_DFL) == SIG_IGN);
    act = (struct sigaction){.sa_sigaction = handler_with_info, .sa_flags = SA_SIGINFO | SA_RESETHAND};
    CHECK_INT(sigaction(SIGUSR2, &act, &told), ==, 0);
    CHECK(told.sa_handler == SIG_DFL);
    deed = sleep_10_ms;
    CHECK_INT(raise(SIGUSR2), ==, 0);
    CHECK_INT(sigaction(SIGUSR2, &kept, &told), ==, 0);
    CHECK(told.sa_handler == SIG_DFL); /* it was for one time */
    CHECK_ERRNO(sigaction(SIGKILL, &act, NULL), EINVAL);
    CHECK_ERRNO(sigaction(0, &act, NULL), EINVAL);
    CHECK_ERRNO(sigaction(12345, NULL, &told), EINVAL);
    CHECK(signal(SIGSTOP, other) == SIG_ERR);
    CHECK_INT(sigaction(SIGUSR2, &(struct sigaction){.sa_handler = other}, NULL), ==, 0);
    CHECK_INT(sigaction(SIGUSR2, &kept, &told), ==, 0);
    CHECK(told.sa_handler == other);
}

/* --- a policy with a time slice --- */

struct turns {
    int taken; /* of the other fiber */
    int in_handler;
    bool over;
};

static struct turns turns;

static void *take_turns(void *arg)
{
    while (!turns.over) {
        turns.taken++;
        weft_yield();
    }
    return arg;
}

static void count_turns(int number)
{
    int before = turns.taken;
    (void)number;
    usleep(1000);
    turns.in_handler += turns.taken - before;
}

/* The handler interrupts a fiber that has used up its slice: every call of weft is a place to switch. */
static void *use_up_slice(void *arg)
{
    struct sigaction act = {.sa_handler = count_turns}, before;
    CHECK_INT(sigaction(SIGUSR2, &act, &before), ==, 0);
    CHECK_INT(weft_go(take_turns, NULL), ==, 0);
    while (turns.taken == 0)
        weft_yield();
    for (int i = 0; i < 3; i++) {
        int taken = turns.taken;
        for (double start = now_ms(); now_ms() - start < 10;)
            ;
        CHECK_INT(raise(SIGUSR2), ==, 0);
        CHECK_INT(turns.taken, ==, taken);
        weft_yield();
    }
    CHECK_INT(sigaction(SIGUSR2, &before, NULL), ==, 0);
    turns.over = true;
    return arg;
}

TEST(a_handler_never_switches_when_a_slice_is_used_up)
{
    weft_sched_opts opts = {.size = sizeof opts, .threads = 1, .policy = &weft_rr};
    if (is_kernel())
        SKIP("there are no slices");
    turns = (struct turns){0};
    CHECK_INT(weft_run(use_up_slice, NULL, NULL, &opts), ==, 0);
    CHECK_INT(turns.in_handler, ==, 0);
}

STATEMENTS(handler, a_call_in_a_handler_never_switches, a_call_in_a_handler_on_a_stack_of_its_own_never_switches,
           a_call_in_a_handler_that_comes_from_outside_never_switches, handlers_within_handlers_never_switch,
           who_has_left_a_handler_by_a_jump_is_out_of_it, where_a_jump_went_is_known_whatever_it_has_left_behind,
           what_one_flow_has_left_by_a_jump_another_is_not_in, what_was_set_is_what_is_told,
           a_handler_never_switches_when_a_slice_is_used_up)
