/*
 * hook/signal.c: see signal.h.
 *
 * Which handler the user has set is kept here, and given back to who asks; all else about it is the kernel's. Only a
 * handler is kept, never that there is none: so a child of vfork(2), which has our memory and sets everything to its
 * default before it goes on to another program, changes nothing for us.
 */
#include "hook/signal.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include "hook/interrupt.h"
#include "hook/real.h"

#define FAR ((uintptr_t)64 << 20) /* no stack of a handler reaches further down */

extern int __sigaction(int number, const struct sigaction *act, struct sigaction *before); /* the C library's own */

__thread struct wf_handler wf_handler;

typedef void handler_fn(int number, siginfo_t *info, void *context);

static handler_fn *handlers[NSIG]; /* atomic: the user's, where ours is set */

static handler_fn enter;

struct walk {
    bool found; /* the frame is there */
    bool ended; /* there are no frames after the last one: else it is of code that does not say who has called it */
};

static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *frame, void *arg)
{
    struct walk *w = arg;
    w->ended = _Unwind_GetIP(frame) == 0;
    w->found = !w->ended && _Unwind_GetRegionStart(frame) == (uintptr_t)enter;
    return w->found ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* After a jump: whether the frame is still there. Where that went to the C library does not say. */
static bool is_left(void)
{
    struct walk w = {0};
    _Unwind_Backtrace(look_at_frame, &w);
    wf_handler.jumped = !w.found && !w.ended;
    return !w.found && w.ended;
}

__attribute__((no_sanitize("address"))) bool wf_still_in_handler(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    const struct wf_handler *h = &wf_handler;
    if (h->fiber == weft_hook_self() && !(h->jumped && is_left()) && here < (uintptr_t)h->frame && here >= h->lowest &&
        *h->frame == h->mark)
        return true;
    wf_handler.frame = NULL; /* it was left by a jump */
    return false;
}

/* Where the stack ends after a jump; 0: that is not known here. (The C library hides it from who overwrites buffers.) */
static uintptr_t stack_after(const struct __jmp_buf_tag *to)
{
#if defined(__x86_64__) && defined(__LP64__)
    enum { RSP = 6, TURNED = 17 };
    uintptr_t hidden = (uintptr_t)to->__jmpbuf[RSP], guard;
    __asm__("mov %%fs:0x30, %0" : "=r"(guard));
    return (hidden >> TURNED | hidden << (64 - TURNED)) ^ guard;
#else
    (void)to;
    return 0;
#endif
}

/*
 * Whether a handler that has interrupted the scheduler jumps out of it, while the first fiber waits: into that fiber, or
 * out of weft_run. The worker would go on as whoever the jump is to, and never come back to its fibers.
 */
static bool leaves_the_scheduler(const struct __jmp_buf_tag *to)
{
    if (!wf_in_handler() || weft_hook_self() != 0 || !wf_interrupt_is_home())
        return false;
    uintptr_t after = stack_after(to), here = (uintptr_t)__builtin_frame_address(0);
    return after != 0 && !(after >= here && after <= (uintptr_t)wf_handler.frame); /* else it stays in the handler */
}

static void note_jump(const struct __jmp_buf_tag *to)
{
    static const char line[] =
        "weft-hook: siglongjmp: a signal handler jumps out of a call in which the first fiber of "
        "weft_run waits, and its worker would be lost. Let the handler return: the call then "
        "fails with EINTR\n";
    if (likely(wf_handler.frame == NULL))
        return;
    if (leaves_the_scheduler(to)) {
        syscall(SYS_write, STDERR_FILENO, line, sizeof line - 1);
        abort();
    }
    wf_handler.jumped = true;
}

HOOK void longjmp(struct __jmp_buf_tag to[1], int value)
{
    note_jump(to);
    wf_real.longjmp(to, value);
    __builtin_unreachable();
}

HOOK void _longjmp(struct __jmp_buf_tag to[1], int value)
{
    note_jump(to);
    wf_real._longjmp(to, value);
    __builtin_unreachable();
}

HOOK void siglongjmp(struct __jmp_buf_tag to[1], int value)
{
    note_jump(to);
    wf_real.siglongjmp(to, value);
    __builtin_unreachable();
}

HOOK void __longjmp_chk(struct __jmp_buf_tag *to, int value)
{
    note_jump(to);
    wf_real.__longjmp_chk(to, value);
    __builtin_unreachable();
}

/*
 * Whether it is of the code that runs here, be it another fiber's: the kernel interrupts no call by it. Without SA_SIGINFO
 * the kernel does not say who sent it, and hardly anybody sends these.
 */
static bool is_fault(int number, const siginfo_t *info)
{
    struct sigaction act;
    if (likely(number != SIGSEGV && number != SIGBUS && number != SIGFPE && number != SIGILL && number != SIGTRAP &&
               number != SIGSYS))
        return false;
    return __sigaction(number, NULL, &act) != 0 || !(act.sa_flags & SA_SIGINFO) || info->si_code > 0;
}

/* What the kernel calls. (It passes all three whether they were asked for or not, as far as they are there.) */
static void enter(int number, siginfo_t *info, void *context)
{
    static uint64_t marks = 0x9e3779b97f4a7c15;
    handler_fn *fn = __atomic_load_n(&handlers[number], __ATOMIC_ACQUIRE);
    volatile uint64_t mark = __atomic_add_fetch(&marks, 2, __ATOMIC_RELAXED);
    struct wf_handler before = wf_handler;
    bool outermost = !wf_in_handler();
    if (outermost) {
        uintptr_t here = (uintptr_t)&mark;
        wf_handler = (struct wf_handler){&mark, mark, weft_hook_self(), here > FAR ? here - FAR : 0, false};
        before.frame = NULL;
    }
    if (!is_fault(number, info))
        wf_interrupt(number);
    if (fn)
        fn(number, info, context);
    mark = 0;
    wf_handler = before;
}

static bool is_ours(const struct sigaction *act)
{
    return act->sa_sigaction == enter;
}

/* A function of the user's, and none that another name of these functions has given away as what was set before. */
static bool is_function(sighandler_t fn)
{
    return fn != SIG_DFL && fn != SIG_IGN && fn != SIG_ERR && fn != SIG_HOLD && fn != (sighandler_t)(void *)enter;
}

static bool is_number(int number)
{
    return number > 0 && number < NSIG && wf_hooks_on;
}

HOOK int sigaction(int number, const struct sigaction *act, struct sigaction *before)
{
    if (!is_number(number))
        return __sigaction(number, act, before);
    handler_fn *had = __atomic_load_n(&handlers[number], __ATOMIC_ACQUIRE);
    struct sigaction ours, was;
    if (act && is_function(act->sa_handler)) {
        ours = *act;
        ours.sa_sigaction = enter;
        wf_interrupt_enable();
        __atomic_store_n(&handlers[number], act->sa_sigaction, __ATOMIC_RELEASE);
        act = &ours;
    }
    int rc = __sigaction(number, act, &was);
    if (rc != 0) {
        if (act == &ours)
            __atomic_store_n(&handlers[number], had, __ATOMIC_RELEASE);
        return rc;
    }
    if (before) {
        *before = was;
        if (is_ours(&was))
            before->sa_sigaction = had;
    }
    return rc;
}

/* The same for the functions that know a handler and nothing else. */
static sighandler_t set(sighandler_t (*how)(int, sighandler_t), int number, sighandler_t fn)
{
    if (!is_number(number))
        return how(number, fn);
    handler_fn *had = __atomic_load_n(&handlers[number], __ATOMIC_ACQUIRE);
    bool is_new = is_function(fn);
    if (is_new)
        wf_interrupt_enable();
    if (is_new)
        __atomic_store_n(&handlers[number], (handler_fn *)(void *)fn, __ATOMIC_RELEASE);
    sighandler_t before = how(number, is_new ? (sighandler_t)(void *)enter : fn);
    if (before == SIG_ERR && is_new)
        __atomic_store_n(&handlers[number], had, __ATOMIC_RELEASE);
    return before == (sighandler_t)(void *)enter ? (sighandler_t)(void *)had : before;
}

HOOK sighandler_t signal(int number, sighandler_t fn)
{
    return set(wf_real.signal, number, fn);
}

HOOK sighandler_t ssignal(int number, sighandler_t fn)
{
    return set(wf_real.ssignal, number, fn);
}

HOOK sighandler_t bsd_signal(int number, sighandler_t fn)
{
    return set(wf_real.signal, number, fn);
}

HOOK sighandler_t sysv_signal(int number, sighandler_t fn)
{
    return set(wf_real.sysv_signal, number, fn);
}

HOOK sighandler_t __sysv_signal(int number, sighandler_t fn)
{
    return set(wf_real.sysv_signal, number, fn);
}

HOOK sighandler_t sigset(int number, sighandler_t fn)
{
    return set(wf_real.sigset, number, fn);
}

/* Those that were set before we were there. (Not of faults: who has set those deals with the stack, or ends the program.) */
__attribute__((constructor(103))) static void take_over(void)
{
    for (int number = 1; number < NSIG; number++) {
        struct sigaction act;
        if (number != SIGSEGV && number != SIGBUS && number != SIGFPE && number != SIGILL && number != SIGTRAP &&
            __sigaction(number, NULL, &act) == 0 && is_function(act.sa_handler))
            sigaction(number, &act, NULL);
    }
}
