/*
 * coro/overflow.c: the SIGSEGV handler. A fault in the guard below the current coroutine's stack is an overflow: one
 * line, then the default action. Any other fault goes to whoever handled SIGSEGV before us.
 */
#include "coro/overflow.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/panic.h"
#include "base/sys.h"
#include "coro/coro.h"
#include "stack/guard.h"

#define SIGNAL_STACK_LEAST ((size_t)32 * 1024)

static struct sigaction before; /* const after install */

static bool in_guard(const weft_coro *c, const void *fault)
{
    const char *low = wf_coro_low(c), *p = fault;
    return p < low && p >= low - wf_guard_bytes();
}

static void tell(const weft_coro *c, const void *fault)
{
    char line[512];
    size_t bytes = (size_t)(wf_coro_high(c) - wf_coro_low(c));
    snprintf(line, sizeof line,
             "weft: coroutine %llu \"%.64s\" overflowed its stack of %zu KiB (fault at %p). Raise %s, or keep large "
             "arrays off the stack.\n",
             (unsigned long long)c->id, c->name ? c->name : "", bytes / 1024, fault,
             c->shared ? "the size given to weft_stacks_new" : "weft_coro_opts.stack");
    wf_say(line);
}

/* The instruction that faulted runs again when the handler returns, and the default action has the right context. */
static void die_of_it(void)
{
    struct sigaction fall = {.sa_handler = SIG_DFL};
    sigaction(SIGSEGV, &fall, NULL);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    const weft_coro *c = wf_thread_now()->current;
    if (c && info->si_code > 0 && in_guard(c, info->si_addr)) {
        tell(c, info->si_addr);
        die_of_it();
    } else if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
        if (info->si_code > 0)
            die_of_it();
        else if (before.sa_handler == SIG_DFL) { /* sent by kill: nothing would run again */
            die_of_it();
            raise(signal);
        }
    } else {
        before.sa_handler(signal);
    }
}

static void install(void)
{
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    sigaction(SIGSEGV, NULL, &before);
    if (before.sa_flags & SA_NODEFER)
        ours.sa_flags |= SA_NODEFER;
    sigaction(SIGSEGV, &ours, NULL);
}

static size_t signal_stack_bytes(void)
{
    long least = sysconf(_SC_MINSIGSTKSZ);
    size_t bytes = least > 0 ? (size_t)least * 4 : 0;
    return WF_ROUND_UP(bytes > SIGNAL_STACK_LEAST ? bytes : SIGNAL_STACK_LEAST, wf_sys_page());
}

void wf_overflow_watch(struct wf_thread *t)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    stack_t has;
    pthread_once(&once, install);
    if (sigaltstack(NULL, &has) != 0 || !(has.ss_flags & SS_DISABLE))
        return; /* the program's own is as good */
    void *stack = wf_sys_map(signal_stack_bytes());
    if (!stack)
        return; /* an overflow is then a bare SIGSEGV; nothing else is lost */
    stack_t ours = {.ss_sp = stack, .ss_size = signal_stack_bytes()};
    if (sigaltstack(&ours, NULL) == 0)
        t->signal_stack = stack;
    else
        wf_sys_unmap(stack, signal_stack_bytes());
}

void wf_overflow_leave(struct wf_thread *t)
{
    stack_t has, none = {.ss_flags = SS_DISABLE};
    if (!t->signal_stack)
        return;
    if (sigaltstack(NULL, &has) == 0 && has.ss_sp == t->signal_stack)
        sigaltstack(&none, NULL);
    wf_sys_unmap(t->signal_stack, signal_stack_bytes());
    t->signal_stack = NULL;
}
