/*
 * hook/signal.h: whether a signal handler is running: what it calls must not let the fiber wait that it has interrupted.
 *
 * A handler is set through a function of ours that notes in which fiber, and where on the stack, the handler began. We are
 * in it as long as we are in that fiber, that place is above us, and what was written there is still there. One that jumps
 * (siglongjmp) may have left it so: then the frames of the stack are looked through.
 */
#ifndef WF_HOOK_SIGNAL_H
#define WF_HOOK_SIGNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wf_handler {
    const volatile uint64_t *frame; /* what the outermost handler that runs has left in its frame; NULL: none runs */
    uint64_t mark;                  /* ... which is this */
    uint64_t fiber;                 /* that it runs in; 0: none */
    uintptr_t lowest;               /* no frame below this is of that stack */
    bool jumped;                    /* it may have been left by a jump, or may not */
};

extern __thread struct wf_handler wf_handler __attribute__((tls_model("initial-exec"), visibility("hidden")));

bool wf_still_in_handler(void);

static inline bool wf_in_handler(void)
{
    return __builtin_expect(wf_handler.frame != NULL, 0) && wf_still_in_handler();
}

#endif
