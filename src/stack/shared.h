/*
 * stack/shared.h: pools of shared stacks: the memory and who is on it. The copying is coro/copied.h's.
 *
 *      | guard | low ............ grows down ........ high | guard | ... passage |
 *
 * The passage is a small stack for replacing what is on the shared one; a signal handler may run on it as well.
 */
#ifndef WF_STACK_SHARED_H
#define WF_STACK_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/stack.h>

struct weft_coro;
struct wf_thread;

/* A switch that replaces what is on the stack it starts from; owner: whoever switches. */
struct wf_trip {
    void *left_sp;           /* where the switch saves the context it leaves */
    void **save;             /* where that belongs */
    struct weft_coro *place; /* whose bytes come onto the stack */
    void *to_sp;             /* where to go on */
    void **slot;             /* where the value goes, once `place` is there; may be NULL */
    void *in;                /* the value */
    void *pass;              /* what the other side's switch returns */
};

/* The live bytes of a fiber that waited on the stack; see coro/packed.h. */
struct wf_image {
    size_t refs;  /* owner: whoever has the stack */
    size_t bytes; /* const: a multiple of 16 */
    uint64_t words[];
};

/* owner: the thread that runs coroutines on it; when none runs, whoever resumes the next one. */
struct wf_shared {
    char *low, *high;           /* const */
    char *passage;              /* const: the upper end of the passage */
    struct weft_coro *occupant; /* whose bytes are on it; NULL: nobody's */
    size_t running;             /* its coroutines that are RUNNING, waiting ones included */
    struct wf_thread *thread;   /* which thread runs them. atomic: others look */
    struct wf_trip trip;
    struct wf_image *image; /* what copies are compared with, to pack them; NULL: none so far */
    unsigned misses;        /* copies in a row that were not like the image */
    weft_fn *start_fn;      /* what a coroutine that is placed for the first time begins with */
    void *start_arg;
    const void *owner,
        *group;           /* fibers: the worker that may run on it, and its scheduler. guarded by: a lock in shared.c */
    size_t fibers;        /* that have it for life. guarded by: the same */
    uint32_t forks;       /* the wf_forks that these are of: others have none of it. guarded by: the same */
    weft_stacks *pool;    /* const */
    void *base;           /* const: the mapping */
    int guard[2];         /* const: enum wf_guard, of the stack and of the passage */
    unsigned valgrind[2]; /* const: the stack's, the passage's */
};

struct weft_stacks {
    size_t count;      /* const */
    size_t bytes;      /* const: of one mapping */
    size_t next;       /* atomic: whose turn it is */
    size_t coroutines; /* atomic: that use the pool */
    struct wf_shared stacks[];
};

/* The next stack in turn, for life. */
struct wf_shared *wf_shared_assign(weft_stacks *pool);
void wf_shared_release(struct wf_shared *s);

/*
 * For a fiber, for life: a stack that only worker `owner` uses, or, with `anywhere`, one of any worker of `group`, which
 * s->owner then tells; one that nobody has yet becomes owner's. NULL: there is none.
 */
struct wf_shared *wf_shared_bind(weft_stacks *pool, const void *owner, const void *group, bool anywhere);
void wf_shared_unbind(struct wf_shared *s);

/* In the child of a fork: the only fiber there is on it, and on this worker of this scheduler. */
void wf_shared_keep(struct wf_shared *s, const void *owner, const void *group);

#endif
