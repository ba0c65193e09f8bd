/*
 * sched/defer.h: clean-up handlers (weft_defer). A fiber has one list of handlers, the latest first. A handler belongs
 * to the scope that was innermost when it was added, or to the fiber if no scope was open. Only the fiber touches the
 * list.
 */
#ifndef WF_SCHED_DEFER_H
#define WF_SCHED_DEFER_H

#include "fiber/extra.h"

/*
 * Runs, in a shield, the calling fiber's handlers that belong to scope s, or all handlers if s is NULL. If a handler
 * adds another handler, that one is run too.
 */
void wf_defers_run(weft_fiber *f, const struct wf_scope *s);

/* Whether the first handler belongs to scope s. */
bool wf_defers_has(const struct wf_extra *x, const struct wf_scope *s);

#endif
