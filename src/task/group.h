/*
 * task/group.h: a wait for several tasks, as group.c makes it and ring.c looks at it.
 */
#ifndef WF_TASK_GROUP_H
#define WF_TASK_GROUP_H

#include "task/task.h"

enum wf_wanted { WF_WANTS_ALL, WF_WANTS_ANY, WF_WANTS_RACE };

struct wf_member {
    struct wf_waiter node;  /* guarded by: its task's lock */
    struct wf_group *group; /* const */
    weft_task *task;        /* const */
    bool is_readable;       /* the caller runs callbacks of the task: it counts as ended. const once linked */
};

/* On the heap, because a fiber's stack may be copied away. */
struct wf_group {
    struct wf_await await;
    enum wf_wanted wanted;      /* const */
    size_t count;               /* const */
    struct wf_sleeper *sleeper; /* the waiter, if it is a fiber or a thread; or NULL. const once linked */
    weft_task *waiter;          /* the waiter, if it is a coroutine; or NULL. const once linked */
    uint64_t visited, can_end;  /* in which pass of a search, and since which it is known to. guarded by: ring.c */
    struct wf_lock lock;
    size_t left;                    /* members that have not ended. guarded by: lock */
    bool decided;                   /* guarded by: lock */
    int result;                     /* guarded by: lock */
    const struct wf_member *failed; /* the member whose code the result is, or NULL. guarded by: lock */
    struct wf_member members[];
};

#endif
