/*
 * hook/interrupt.h: waits of the first fiber of weft_run, which a signal handler interrupts.
 *
 * The kernel delivers a signal for the process to its main thread, and a call that waits there returns EINTR. The first
 * fiber of weft_run stands for that thread. When a handler has run on the thread of that fiber, the fiber's hooked call
 * returns EINTR where the kernel's call would. Every other fiber goes on waiting.
 */
#ifndef WF_HOOK_INTERRUPT_H
#define WF_HOOK_INTERRUPT_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include <weft/time.h>

/* Which handlers end a wait: signal(7). */
enum wf_ends {
    WF_ENDS_RESTART, /* those without SA_RESTART */
    WF_ENDS_ALWAYS,  /* all of them */
};

/*
 * One hooked call: all zero at first. A call that waits several times names the same section in every wait. A handler
 * that runs after the first wait has begun ends that wait or the next one; a handler that ran earlier ends none.
 */
struct wf_section {
    bool entered; /* a wait of the call has begun */
};

/* Whether a handler may interrupt a wait that the caller begins: it is the first fiber, and there is a handler. */
bool wf_is_interruptible(void);

/* weft_wait_fd; and -EINTR. */
int wf_wait_fd(struct wf_section *s, int fd, unsigned events, enum wf_ends ends, weft_time until);

/* weft_sleep_until; and -EINTR. */
int wf_sleep_until(struct wf_section *s, enum wf_ends ends, weft_time until);

/*
 * weft_poll; and -EINTR, by any handler but those of the signals that `mask` (may be NULL) blocks. The mask of the first
 * wait holds for the whole section.
 */
int wf_poll(struct wf_section *s, struct pollfd *fds, size_t count, const sigset_t *mask, weft_time until);

/* From now on there is a handler of the program's. */
void wf_interrupt_enable(void);

/* Whether the first fiber waits, and this is its thread. Async-signal-safe; errno stays. */
bool wf_interrupt_is_home(void);

/* A handler is about to be called on this thread. Async-signal-safe; errno stays. */
void wf_interrupt(int number);

#endif
