/*
 * hook/interrupt.c: see interrupt.h.
 *
 * There is one first fiber, so there is one section at a time, and one word about it. The fiber stays on its thread, and
 * only handlers on that thread count, so the fiber and such a handler never run at the same time. A handler may have
 * interrupted the scheduler anywhere, so wf_interrupt must not touch the scheduler. It sets a bit in the word and, if the
 * fiber waits, writes to an event descriptor. Every wait of the fiber includes that descriptor.
 *
 * Nothing marks the end of a section. The word stays as the last wait left it, and the first wait of the next section
 * begins it anew: so a call may return, or a handler may leave it by siglongjmp, anywhere.
 */
#include "hook/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/fiber.h>
#include <weft/hook.h>
#include <weft/io.h>

#include "hook/real.h"

/* The word: the thread of the section's fiber in the upper half, and these. 0: there was no section yet. */
enum {
    WAITS = 1,          /* the fiber waits: a handler that ends the wait also writes to the descriptor */
    BY_ALL = 2,         /* ... and any handler ends it, not only one without SA_RESTART */
    SAW_ENDING = 4,     /* a handler without SA_RESTART has run */
    SAW_RESTARTING = 8, /* a handler with SA_RESTART has run, between two waits or in a wait with BY_ALL */
    HOME = 32,          /* by so much the thread is shifted */
};

static bool enabled; /* atomic: there is, or was, a handler */

/* Of the section. owner: the first fiber, and handlers on its thread */
static uint64_t word;       /* atomic */
static bool has_mask;       /* `mask` counts */
static sigset_t mask;       /* of signals that do not end its waits */
static int descriptor = -1; /* the event descriptor; -1: not made yet */

void wf_interrupt_enable(void)
{
    __atomic_store_n(&enabled, true, __ATOMIC_RELAXED);
}

bool wf_is_interruptible(void)
{
    return __atomic_load_n(&enabled, __ATOMIC_RELAXED) && weft_hook_self() == weft_hook_first();
}

/* Not kept: a child of vfork(2) has our memory, and is another thread. */
static uint64_t this_thread(void)
{
    return (uint64_t)syscall(SYS_gettid) << HOME;
}

static bool is_interrupted(uint64_t now)
{
    return now & SAW_ENDING || (now & BY_ALL && now & SAW_RESTARTING);
}

/* The descriptor is readable, or is not ours any more: then the next wait makes another. */
static void calm_down(void)
{
    uint64_t count;
    int kept = errno;
    if (weft_own_next((unsigned)descriptor, (unsigned)descriptor) == descriptor)
        syscall(SYS_read, descriptor, &count, sizeof count);
    else
        weft_own_close(descriptor), descriptor = -1;
    errno = kept;
}

static void enter(struct wf_section *s, const sigset_t *spares)
{
    if (descriptor >= 0 && __atomic_load_n(&word, __ATOMIC_RELAXED) & WAITS)
        calm_down(); /* a handler has left the last wait by siglongjmp, and may have written */
    if (spares)
        mask = *spares;
    has_mask = spares != NULL;
    s->entered = true;
    __atomic_store_n(&word, this_thread(), __ATOMIC_RELEASE); /* pairs with wf_interrupt */
}

/* Begins a wait, if no handler has run that ends it. */
static bool begin(struct wf_section *s, enum wf_ends ends, const sigset_t *spares)
{
    uint64_t waits = ends == WF_ENDS_ALWAYS ? WAITS | BY_ALL : WAITS;
    if (!s->entered)
        enter(s, spares);
    if (descriptor < 0) {
        int kept = errno;
        descriptor = weft_own_take(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        errno = kept;
    }
    uint64_t now = __atomic_load_n(&word, __ATOMIC_RELAXED);
    do {
        if (is_interrupted(now | waits))
            return false;
    } while (!__atomic_compare_exchange_n(&word, &now, now | waits, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    return true; /* it pairs with wf_interrupt */
}

/* Ends it: true if a handler has interrupted it. `is_told`: the descriptor has something to say. */
static bool end(bool is_told)
{
    uint64_t was = __atomic_fetch_and(&word, ~(uint64_t)(WAITS | BY_ALL),
                                      __ATOMIC_ACQUIRE); /* pairs with wf_interrupt */
    if ((is_told || is_interrupted(was)) && descriptor >= 0)
        calm_down();
    return is_interrupted(was);
}

/* siginterrupt(3) changes the flag where no hook sees it, so the kernel is asked. */
static bool restarts(int number)
{
    extern int __sigaction(int number, const struct sigaction *act, struct sigaction *before); /* the C library's own */
    struct sigaction act;
    return __sigaction(number, NULL, &act) == 0 && act.sa_flags & SA_RESTART;
}

/* Another thread may begin a section of its own at any time: then the word is no longer the one that was looked at. */
static void note_handler(uint64_t now, int number)
{
    static const uint64_t one = 1;
    uint64_t here = this_thread(), saw = 0;
    do {
        if (now >> HOME != here >> HOME || (has_mask && sigismember(&mask, number) == 1))
            return;
        saw = saw != 0 ? saw : restarts(number) ? SAW_RESTARTING : SAW_ENDING;
        if (saw == SAW_RESTARTING && (now & (WAITS | BY_ALL)) == WAITS)
            return;
    } while (!__atomic_compare_exchange_n(&word, &now, now | saw, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
    if (now & WAITS) /* begin() and end() pair with this */
        syscall(SYS_write, descriptor, &one, sizeof one);
}

bool wf_interrupt_is_home(void)
{
    uint64_t now = __atomic_load_n(&word, __ATOMIC_ACQUIRE); /* pairs with begin() */
    int kept = errno;
    bool is = now & WAITS && now >> HOME == this_thread() >> HOME;
    errno = kept;
    return is;
}

void wf_interrupt(int number)
{
    uint64_t now = __atomic_load_n(&word, __ATOMIC_ACQUIRE); /* pairs with begin() */
    if (likely(now == 0))
        return;
    int kept = errno;
    note_handler(now, number);
    errno = kept;
}

/*
 * weft_poll of `count` descriptors and of the event descriptor, for which `fds` has room behind them; and -EINTR. If that
 * is ready though no handler has interrupted the wait, it was left so, or the program has closed it: the wait goes on.
 */
static int wait_beside(struct wf_section *s, struct pollfd *fds, size_t count, enum wf_ends ends,
                       const sigset_t *spares, weft_time until)
{
    for (;;) {
        if (!begin(s, ends, spares))
            return -EINTR;
        fds[count] = (struct pollfd){.fd = descriptor, .events = POLLIN};
        int n = weft_poll(fds, count + (descriptor >= 0), until);
        bool is_told = n > 0 && fds[count].revents != 0, interrupted = end(is_told);
        n -= is_told;
        if (n == 0 && interrupted)
            return -EINTR;
        if (n != 0 || !is_told || weft_now().ns >= until.ns)
            return n;
    }
}

int wf_wait_fd(struct wf_section *s, int fd, unsigned events, enum wf_ends ends, weft_time until)
{
    if (likely(!wf_is_interruptible()))
        return weft_wait_fd(fd, events, until);
    struct pollfd both[2] = {{.fd = fd, .events = (short)events}};
    int n = wait_beside(s, both, 1, ends, NULL, until);
    if (n <= 0)
        return n < 0 ? n : -ETIMEDOUT;
    return both[0].revents & POLLNVAL ? -EBADF : both[0].revents;
}

int wf_sleep_until(struct wf_section *s, enum wf_ends ends, weft_time until)
{
    if (likely(!wf_is_interruptible()) || weft_now().ns >= until.ns)
        return weft_sleep_until(until);
    struct pollfd told;
    int n = wait_beside(s, &told, 0, ends, NULL, until);
    return n == 0 || n == -EINTR || n == -ECANCELED ? n : weft_sleep_until(until);
}

int wf_poll(struct wf_section *s, struct pollfd *fds, size_t count, const sigset_t *spares, weft_time until)
{
    enum { FEW = 8 };
    if (likely(!wf_is_interruptible()))
        return weft_poll(fds, count, until);
    struct pollfd few[FEW + 1], *all = count <= FEW ? few : malloc((count + 1) * sizeof *all);
    if (!all)
        return -ENOMEM;
    if (count > 0)
        memcpy(all, fds, count * sizeof *all);
    int n = wait_beside(s, all, count, WF_ENDS_ALWAYS, spares, until);
    for (size_t i = 0; n > 0 && i < count; i++)
        fds[i].revents = all[i].revents;
    if (all != few)
        free(all);
    return n;
}

/* What was taken for a call is closed there (weft_own_take). */
static void in_child(void)
{
    descriptor = -1;
    word = 0;
}

__attribute__((constructor(102))) static void set_up(void)
{
    pthread_atfork(NULL, NULL, in_child);
}
