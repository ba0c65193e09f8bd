/*
 * offload/offload.h: calls on helper threads, as the layers above use them.
 */
#ifndef WF_OFFLOAD_OFFLOAD_H
#define WF_OFFLOAD_OFFLOAD_H

#include <stdbool.h>

#include <weft/api.h>
#include <weft/offload.h>
#include <weft/time.h>

struct wf_sleeper;

/* What else may end the wait for a call: whoever it links `me` with, which settles it with a negative errno. */
struct wf_errand_end {
    bool (*link)(struct wf_errand_end *end, struct wf_sleeper *me); /* false: it has come already. Runs under a lock */
    void (*unlink)(struct wf_errand_end *end);
    int why; /* the result if it has come already */
};

/* A call for a helper to make. */
struct wf_errand {
    weft_fn *fn;
    void *arg;
    void (*drop)(void *arg, void *value); /* see weft_offload_opts; may be NULL */
    struct wf_errand_end *end;            /* may be NULL; not with `stays` */
    int kind;
    bool stays; /* once it has begun its end is waited for, whatever comes: what it uses may be on the caller's stack */
    bool outlasts_cancel; /* once it has begun, a cancel does not end the wait for it; a deadline does */
};

/*
 * As weft_offload, but always on a helper, also for a plain thread. With `stays` a failure says that it has never begun.
 */
int wf_offload(const struct wf_errand *errand, void **value, weft_time deadline);

#endif
