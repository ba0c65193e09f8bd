/*
 * sched/finish.h: steps that the library has to take after a user's callback, even if the callback does not return: it
 * may end its fiber (pthread_exit under libweft-hook, by weft_hook_end).
 *
 *      struct wf_finish step;
 *      wf_finish_begin(&step, fn, arg);
 *      callback();
 *      wf_finish_end(&step);       // in both cases fn(arg) is called once, in the fiber
 *
 * Steps nest. They are linked from the fiber's record, and lie on the fiber's own stack. Only the fiber touches them.
 */
#ifndef WF_SCHED_FINISH_H
#define WF_SCHED_FINISH_H

#include "base/thread.h"
#include "fiber/fiber.h"

/* In a fiber's flags, in a bit that no flag of weft_attr uses: `finish` is valid. */
enum { WF_HAS_FINISH = 1 << 7 };

struct wf_finish {
    void (*fn)(void *arg);
    void *arg;
    struct wf_finish *outer; /* NULL: none */
};

static inline struct wf_finish *wf_finish_first(const weft_fiber *f)
{
    return f->flags & WF_HAS_FINISH ? f->finish : NULL;
}

static inline void wf_finish_set(weft_fiber *f, struct wf_finish *first)
{
    f->finish = first;
    f->flags = (uint16_t)(first ? f->flags | WF_HAS_FINISH : f->flags & ~WF_HAS_FINISH);
}

/* Call in a fiber. */
static inline void wf_finish_begin(struct wf_finish *step, void (*fn)(void *arg), void *arg)
{
    weft_fiber *f = wf_thread_now()->fiber;
    *step = (struct wf_finish){fn, arg, wf_finish_first(f)};
    wf_finish_set(f, step);
}

static inline void wf_finish_end(struct wf_finish *step)
{
    wf_finish_set(wf_thread_now()->fiber, step->outer);
    step->fn(step->arg);
}

#endif
