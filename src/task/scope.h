/*
 * task/scope.h: converts a public scope to its internal struct, and declares what the files of scopes share.
 */
#ifndef WF_TASK_SCOPE_H
#define WF_TASK_SCOPE_H

#include <weft/scope.h>

#include "sched/family.h"

static inline struct wf_scope *wf_scope_of(weft_scope *s)
{
    return (struct wf_scope *)(void *)s;
}

/* task_scope.c: whether the calling task is a child of s. */
bool wf_task_is_child_of(const struct wf_scope *s);

/* context.c: the context values of the calling fiber or task, with another holder; or NULL. */
struct wf_context *wf_task_context(void);

/* Whether the caller may start children: 0, or -EPERM: it is neither the owner nor a child. */
int wf_scope_may_go(const struct wf_scope *s, const weft_fiber *caller);

/* What wait and close return once no child is left. guarded by: the family's lock */
int wf_scope_result(const struct wf_scope *s);

/* Writes a line that names a scope to stderr, then the children that it still has. */
void wf_scope_name_children(struct wf_scope *s, weft_span waited);

#endif
