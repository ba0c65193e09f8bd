/*
 * hook/signal.h: whether a signal handler is running: what it calls must not let the fiber wait that it has interrupted.
 *
 * A handler is set through a function of ours that notes where the handler began, by the address of its frame. As long as
 * that is above us on the stack we are in it; one that was left by siglongjmp is not.
 */
#ifndef WF_HOOK_SIGNAL_H
#define WF_HOOK_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

struct wf_handler {
    uintptr_t frame;  /* of the outermost handler that runs, 0: none */
    uintptr_t lowest; /* no frame below this is of that stack */
};

extern __thread struct wf_handler wf_handler __attribute__((tls_model("initial-exec"), visibility("hidden")));

bool wf_still_in_handler(void);

static inline bool wf_in_handler(void)
{
    return __builtin_expect(wf_handler.frame != 0, 0) && wf_still_in_handler();
}

#endif
