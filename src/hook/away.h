/*
 * hook/away.h: calls that cannot be made without waiting: a helper thread makes them.
 */
#ifndef WF_HOOK_AWAY_H
#define WF_HOOK_AWAY_H

#include <stdbool.h>

/* The first member of what such a call is about. It is on the heap, as the call outlives a caller that is cancelled. */
struct wf_away {
    void (*make)(struct wf_away *call);    /* makes the call, on the helper, and keeps its results */
    void (*discard)(struct wf_away *call); /* nobody wants what it made, or it never will be; may be NULL */
    bool made;
    int error;          /* errno after the call */
    int resolver_error; /* h_errno after it */
};

/*
 * Has it made and waits. True: it was, and errno and h_errno are as it left them; the caller frees it. False: it is gone,
 * errno says why: ECANCELED, or what there is no helper for. `kind`: WEFT_OFFLOAD_...
 */
bool wf_away(struct wf_away *call, int kind);

/* The same for one that uses what is the caller's: once it has begun its end is waited for. False: it has not. */
bool wf_away_to_its_end(struct wf_away *call, int kind);

#endif
