/*
 * sched/object.h: what a parked fiber waits for, seen from outside: the object's address, and the fiber or thread that
 * holds it. The list of fibers that nothing can wake (sched/stuck.h) needs this. The object may be gone meanwhile, so
 * the library lets the kernel read it.
 */
#ifndef WF_SCHED_OBJECT_H
#define WF_SCHED_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "fiber/fiber.h"

enum {
    /* In a mutex, a rwlock and a once: the lowest bits of the word that names the owner. They are flags. */
    WF_OWNER_BITS = 3,
    /* In the word of a rwlock: readers hold it, and the rest of the word is their number. */
    WF_OWNER_READERS = 2,
    /* The offset of a channel's lock. */
    WF_CHAN_LOCK_AT = 2 * sizeof(size_t),
};

/* An object, and its holder. */
struct wf_object {
    const void *at; /* its address; for a join the fiber's record. NULL: not known */
    enum wf_holder {
        WF_HOLDER_NONE,    /* it has no holder, or the holder is not known */
        WF_HOLDER_ONE,     /* `by`: a fiber's record, or a plain thread's struct wf_thread */
        WF_HOLDER_READERS, /* `by`: the number of readers */
        WF_HOLDER_JOINED,  /* a join; `by`: the record of the fiber that is joined */
    } holder;
    uintptr_t by;
};

/* Reads memory that may not be there. The descriptor is the library's own; negative: every object is unknown. */
struct wf_window {
    int fd;
};
void wf_window_open(struct wf_window *w);
void wf_window_close(struct wf_window *w);

/* What the record of a PARKED fiber says about its wait; all zero: nothing. */
struct wf_awaited {
    const char *what;
    const void *arg, *data;
};
struct wf_awaited wf_awaited_by(const weft_fiber *f);

/* The answer is exact if the fiber still waits for the object. */
struct wf_object wf_object_of(const struct wf_window *w, const struct wf_awaited *a);

#endif
