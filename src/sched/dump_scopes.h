/*
 * sched/dump_scopes.h: the scopes that a dump shows, and what it says of their children; copied while the pool is
 * locked.
 *
 * A fiber that has opened a scope has the bit WF_OPENED until it ends, and clears it under the pool's lock. So a walk
 * through the pool, which holds that lock, may look at the fiber's extra.
 */
#ifndef WF_SCHED_DUMP_SCOPES_H
#define WF_SCHED_DUMP_SCOPES_H

#include "fiber/extra.h"

enum { WF_DUMP_TEXT = 64 };

/* What dumps and messages say about a child of a scope: a copy, made while the child cannot end. */
struct wf_child_text {
    uint64_t fiber;   /* its id; 0: a task that is no fiber now */
    const char *site; /* of a fiber */
    const char *what; /* of a fiber that is parked: what it waits for; NULL: it runs or is ready */
    bool is_task;
    bool begun; /* of a task */
    char name[WF_NAME_BYTES];
    char on[WF_NAME_BYTES]; /* of a task: the name of its executor; "": the scheduler */
};

/* Describes a child, or a child that is this fiber. guarded by: the family's lock */
void wf_child_describe(struct wf_child_text *to, struct wf_child *c);
void wf_child_describe_fiber(struct wf_child_text *to, const weft_fiber *f);

/* A scope that was open. */
struct wf_scope_line {
    uint64_t owner; /* the fiber's id */
    const char *site;
    int64_t due;
    size_t live;            /* the number of its children */
    size_t first, children; /* its children: where in wf_dump_scopes.child, and how many */
    bool stopping;
    char name[WF_NAME_BYTES];
    char cause[WF_DUMP_TEXT]; /* "": it is not cancelled */
};

struct wf_dump_scopes {
    struct wf_scope_line *line;
    struct wf_child_text *child; /* those of one scope after those of another */
    size_t count, room, children, child_room;
};

/* Called for each fiber in a walk: copies its scopes, or only counts if there is no room. */
void wf_dump_look_at_scopes(struct wf_dump_scopes *to, weft_fiber *f);

/* Room for what was counted, and some more. False: no memory. Then counts anew. */
bool wf_dump_make_room(struct wf_dump_scopes *to);
void wf_dump_drop_scopes(struct wf_dump_scopes *of);

#endif
