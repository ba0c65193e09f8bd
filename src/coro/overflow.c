/*
 * coro/overflow.c: the SIGSEGV handler. A fault in the guard below the current coroutine's stack, or further below in
 * the stack's own mapping, is an overflow: one line, then the default action. Any other fault goes to whoever handled
 * SIGSEGV before us; if both the fault and the stack pointer are further below the stack, a line says first that this
 * looks like an overflow.
 */
#include "coro/overflow.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/panic.h"
#include "base/plain.h"
#include "base/raw.h"
#include "base/sys.h"
#include "arch/fault.h"
#include "coro/coro.h"
#include "stack/guard.h"

#define SIGNAL_STACK_LEAST ((size_t)64 * 1024)
#define REACH ((uintptr_t)64 * 1024 * 1024) /* the largest frame that is taken for one */

static struct sigaction before; /* const after install, but for a one-shot handler that has had its shot */

/*
 * How far below the stack's lowest byte the fault is; 0: it is not below it, or not in the mapping that the stack was
 * cut from. What the program itself has mapped and protected, however near, is none of ours.
 */
static size_t below(const weft_coro *c, const void *fault)
{
    uintptr_t low = (uintptr_t)wf_coro_low(c), p = (uintptr_t)fault;
    uintptr_t base = (uintptr_t)(c->shared ? c->shared->base : wf_stack_mapping(c));
    return p < low && p >= base ? low - p : 0;
}

static bool in_reach_below(uintptr_t low, uintptr_t p)
{
    return p < low && low - p <= REACH;
}

/*
 * Whether a frame has left the mapping that the stack was cut from: the code that faulted has its stack pointer below
 * the stack as well, and is not on the signal stack, which may lie there by chance. A wild pointer leaves it in the
 * stack.
 */
static bool looks_like_overflow(const weft_coro *c, const void *fault, const void *context)
{
    const stack_t *signal_stack = &((const ucontext_t *)context)->uc_stack;
    uintptr_t low = (uintptr_t)wf_coro_low(c), sp = wf_fault_sp(context);
    bool handler = !(signal_stack->ss_flags & SS_DISABLE) &&
                   sp - (uintptr_t)signal_stack->ss_sp < signal_stack->ss_size;
    return in_reach_below(low, (uintptr_t)fault) && in_reach_below(low, sp) && !handler;
}

/* What names a coroutine in the lines below. */
struct words {
    const char *kind, *quoted, *knob;
    unsigned long long id;
    size_t kib;
    char name[80];
};

static void find_words(struct words *w, const weft_coro *c)
{
    bool fiber = wf_mode(c) & WF_BASE;
    w->kind = fiber ? "fiber" : "coroutine";
    w->quoted = wf_coro_quoted(c, w->name, sizeof w->name);
    w->knob = c->shared ? "the size given to weft_stacks_new"
              : fiber   ? "weft_attr.stack or weft_sched_opts.stack"
                        : "weft_coro_opts.stack";
    w->id = (unsigned long long)c->id;
    w->kib = (size_t)(wf_coro_high(c) - wf_coro_low(c)) / 1024;
}

static void tell(const weft_coro *c, const void *fault)
{
    char line[512];
    struct words w;
    size_t off = below(c, fault);
    find_words(&w, c);
    int n = snprintf(line, sizeof line, "weft: %s %llu%s overflowed its stack of %zu KiB (fault at %p). Raise %s",
                     w.kind, w.id, w.quoted, w.kib, fault, w.knob);
    if (off <= wf_guard_bytes())
        snprintf(line + n, sizeof line - (size_t)n, ", or keep large arrays off the stack.\n");
    else
        snprintf(line + n, sizeof line - (size_t)n,
                 ": one frame stepped over the guard, %zu KiB below. Compile with -fstack-clash-protection.\n",
                 off / 1024);
    wf_say(line);
}

static void tell_likely(const weft_coro *c, const void *fault)
{
    char line[512];
    struct words w;
    find_words(&w, c);
    snprintf(
        line, sizeof line,
        "weft: this looks like a stack overflow of %s %llu%s, whose stack has %zu KiB: the fault is at %p, %zu KiB "
        "below it. Raise %s, or keep large arrays off the stack. Compile with -fstack-clash-protection.\n",
        w.kind, w.id, w.quoted, w.kib, fault, (size_t)(wf_coro_low(c) - (const char *)fault) / 1024, w.knob);
    wf_say(line);
}

/* The instruction that faulted runs again when the handler returns, and the default action has the right context. */
static void die_of_it(void)
{
    struct sigaction fall = {.sa_handler = SIG_DFL};
    wf_raw_sigaction(SIGSEGV, &fall, NULL);
}

/* Calls whoever handled SIGSEGV before, as the kernel would have. */
static void call_before(int signal, siginfo_t *info, void *context)
{
    struct sigaction handler = before;
    if (handler.sa_flags & (int)SA_RESETHAND)
        before.sa_handler = SIG_DFL, before.sa_flags &= ~SA_SIGINFO;
    if (handler.sa_flags & SA_SIGINFO)
        handler.sa_sigaction(signal, info, context);
    else
        handler.sa_handler(signal);
}

/*
 * A fault that is not ours. One that repeats when we return is left to the handler of before, put back as it was: it gets
 * the stack and the mask that it asked for. (It can be called from here only if it runs on the signal stack anyway.)
 */
static void pass_on(int signal, siginfo_t *info, void *context)
{
    bool repeats = info->si_code > 0, calls = before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN;
    if (calls && (!repeats || before.sa_flags & SA_ONSTACK)) {
        call_before(signal, info, context);
    } else if (repeats && before.sa_handler == SIG_IGN) {
        die_of_it(); /* as the kernel does: such a fault cannot be ignored */
    } else if (repeats) {
        wf_raw_sigaction(SIGSEGV, &before, NULL);
    } else if (before.sa_handler == SIG_DFL) { /* sent by kill: nothing would run again */
        die_of_it();
        raise(signal);
    }
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    const weft_coro *c = wf_thread_now()->current;
    int kept = errno;
    if (c && info->si_code > 0 && below(c, info->si_addr) > 0) {
        tell(c, info->si_addr);
        die_of_it();
    } else {
        if (c && info->si_code > 0 && looks_like_overflow(c, info->si_addr, context))
            tell_likely(c, info->si_addr);
        pass_on(signal, info, context);
    }
    errno = kept;
}

/* Past the hooks: to them, a handler is one of the program's, and makes its signals interrupt calls. */
static void install(void)
{
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    wf_raw_sigaction(SIGSEGV, NULL, &before);
    ours.sa_mask = before.sa_mask;
    ours.sa_flags |= before.sa_flags & SA_NODEFER;
    wf_raw_sigaction(SIGSEGV, &ours, NULL);
}

/* A guard, and what a handler may need beyond the kernel's own frame. */
static size_t signal_stack_bytes(void)
{
    long least = sysconf(_SC_MINSIGSTKSZ);
    size_t frame = least > 0 ? (size_t)least : 0;
    return wf_sys_page() + WF_ROUND_UP(SIGNAL_STACK_LEAST + frame, wf_sys_page());
}

void wf_overflow_watch(struct wf_thread *t)
{
    static struct wf_plain_once once;
    stack_t has;
    wf_plain_once(&once, install);
    if (!t->listed)
        return; /* it could not be given back when the thread ends */
    if (sigaltstack(NULL, &has) != 0 || !(has.ss_flags & SS_DISABLE))
        return; /* the program's own is as good */
    void *stack = wf_sys_map(signal_stack_bytes());
    if (!stack)
        return; /* an overflow is then a bare SIGSEGV; nothing else is lost */
    size_t page = wf_sys_page();
    wf_sys_forbid(stack, page);
    stack_t ours = {.ss_sp = (char *)stack + page, .ss_size = signal_stack_bytes() - page};
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
    if (sigaltstack(NULL, &has) == 0 && has.ss_sp == (char *)t->signal_stack + wf_sys_page())
        sigaltstack(&none, NULL);
    wf_sys_unmap(t->signal_stack, signal_stack_bytes());
    t->signal_stack = NULL;
}
