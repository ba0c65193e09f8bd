/*
 * fiber/fiber.h: the record of a fiber: passive data, which the scheduler works on.
 *
 * Records are 320 bytes (512 in debug builds), apart from the stacks. A fiber that has not started has no stack, and a
 * fiber that has ended and waits for its join has given its stack back (docs/decisions/0008). The memory of a record
 * stays a record as long as any record is in use nearby (fiber/pool.h), so that weft_dump may look at all of them.
 */
#ifndef WF_FIBER_FIBER_H
#define WF_FIBER_FIBER_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/fiber.h>

#include "base/inbox.h"
#include "base/sanitizer.h"
#include "fiber/sleeper.h"
#include "time/wheel.h"

struct weft_coro;
struct weft_sched;
struct wf_extra;
struct wf_finish;
struct wf_shared;
struct wf_shields;
struct wf_worker;
struct wf_child;

enum { WF_NAME_BYTES = 32, WF_LOCALS = 128, WF_DEBUG_LOCKS = 7 };

/* Debug builds: what the checks of sched/debug.c know of a fiber. owner: the fiber, unless a field says otherwise */
struct wf_debug {
    struct wf_debug_lock {
        const void *object;
        const char *what;    /* "mutex" and so on */
        const void *site;    /* where its lock call returns to */
    } locks[WF_DEBUG_LOCKS]; /* the locks that it holds; those beyond the last place are not known */
    uint32_t lock_count;
    bool told; /* the line that says that it computes for long was printed */
    const void
        *object; /* it waits for this object, which may be on another fiber's stack; or NULL. atomic: others look */
    int64_t ready_at; /* since when it could run. atomic: written by the thread that made it ready */
};

/* What fiber->join is, if not the sleeper that waits for the end. */
enum {
    WF_JOIN_OPEN = 0,     /* it may be joined */
    WF_JOIN_DETACHED = 1, /* nobody will */
    WF_JOIN_DONE = 2,     /* it has ended: `value` is there */
    WF_JOIN_GONE = 3,     /* released: the record waits for the next fiber */
    WF_JOIN_ENDING = 4,   /* it has ended, and its joiner is about to be told */
    WF_JOIN_LOST = 5,     /* it was in the parent of a fork; see sched/fork.h */
};

/* Where a waker puts a parked fiber. */
enum wf_wake {
    WF_WAKE_HOME,     /* its home decides: a waker on another thread sends it to the home's inbox */
    WF_WAKE_SLOT,     /* a fiber of its home puts it into the slot: only a wake ends the wait, and nothing is special */
    WF_WAKE_ANYWHERE, /* it may move, and its home touches it no more: any waker may take it elsewhere */
};

/* Bits of `deaf`: why a fiber pays no heed to a cancel; see sched/shield.h. */
enum {
    WF_DEAF_SECTION = 1 << 0, /* it is in a section that cannot fail */
    WF_DEAF_SHIELD = 1 << 1,  /* it has begun one shield */
    WF_DEAF_SHIELDS = 1 << 2, /* several, one in another */
};

/*
 * The order is that of use: spawning, starting, ending and joining a plain fiber touches the first two cache lines, a wait
 * the third as well, deadlines and policies the fourth.
 */
struct weft_fiber {
    /* What a run queue and a switch need. owner: the queue that it is in, or the worker that it runs on */
    union {
        weft_fiber *next;          /* in a run queue, the injection queue or the pool */
        struct wf_inbox_node link; /* in an inbox */
    };
    struct weft_coro *coro; /* NULL: it has not started, or has ended */
    union {
        struct weft_coro *inner; /* not RUNNING: the innermost of its coroutines */
        weft_stacks *pool;       /* NEW: what its shared stack is to be from, or NULL */
    };
    struct wf_worker *home; /* atomic: the worker that it last ran on, is bound to or is named for; NULL: none so far */
    uint32_t state; /* atomic: enum weft_fiber_state, 0: the record is free. Written by its owner; others look */
    bool bound;     /* const from submit on: to `home`, from its start to its end */
    bool special;   /* const: made with attributes, so that its record needs cleaning */
    uint8_t wake;   /* PARKED: enum wf_wake. atomic: home releases WF_WAKE_ANYWHERE; other wakers acquire it */
    uint8_t deaf; /* WF_DEAF_*: its next wait is not to be cancelled. owner: the fiber; its home looks while it waits */
    uint8_t priority; /* const */
    bool timed;       /* its timer is in the wheel of its home. owner: home */
    uint16_t named; /* READY soon: the number, from 1, of the worker that weft_sched_submit named for its next turn; 0:
                         none. owner: who made it ready, then the worker whose inbox it is in */
    int kept_errno; /* not RUNNING: its errno */
    uint32_t turn;  /* in a run queue: when it came; see worker.h */
    uint16_t class; /* const: of its stack */
    uint16_t flags; /* of weft_attr. const, but for WEFT_NO_HOOK and the bits above it,
                       which count its locks (sched/hooked.h): owner: the fiber */
    uintptr_t join; /* atomic: WF_JOIN_* or the struct wf_sleeper of who joins */

    weft_fn *fn; /* const */
    union {
        void *arg;                /* until it has started */
        struct wf_finish *finish; /* see sched/finish.h. owner: the fiber */
        void *value;              /* join is DONE */
    };
    uint64_t id;              /* const. atomic: weft_dump looks */
    const char *site;         /* const. atomic: weft_dump looks */
    int64_t born;             /* const. atomic: weft_dump looks */
    struct weft_sched *sched; /* const from submit on. atomic: weft_dump looks */

    struct wf_sleeper sleeper; /* its words end the second line, its waiter begins the third */
    const char *what;          /* PARKED: what it waits for. atomic: others look */
    int64_t until;             /* PARKED: its deadline. atomic: others look */
    union {
        int64_t shield;             /* WF_DEAF_SHIELD: its deadline */
        struct wf_shields *shields; /* WF_DEAF_SHIELDS: those of all that are open */
    };                              /* owner: as `deaf` */

    struct wf_timer timer; /* of the wait's deadline, or of an earlier one's. owner: home */
    union {
        uint64_t room[4]; /* what weft_policy_room gives. owner: the policy, while in its set */
        struct wf_commit_step {
            bool (*fn)(struct wf_sleeper *me, void *arg);
            void *arg;
        } commit; /* PARKED soon: what its worker does once it has left. owner: the worker */
    };

    weft_span cost;           /* const */
    weft_time due;            /* const */
    struct wf_shared *shared; /* const: its shared stack, or NULL */
    struct wf_extra *extra;   /* see extra.h; NULL: none. atomic: a canceller may give it one */
    char name[WF_NAME_BYTES]; /* const. weft_dump looks */
#if WF_DEBUG
    struct wf_debug debug;
#endif
};

_Static_assert(sizeof(weft_fiber) == (WF_DEBUG ? 512 : 320), "a record is whole cache lines");

/* The fiber of a sleeper, a timer or an inbox's node. */
#define WF_FIBER_OF(p, member) ((weft_fiber *)((char *)(p)-offsetof(weft_fiber, member)))

/* Copies the name byte by byte: the record may change hands meanwhile. */
static inline void wf_name_copy(char *to, const weft_fiber *f)
{
    for (int i = 0; i < WF_NAME_BYTES - 1; i++) {
        to[i] = wf_load(&f->name[i]);
        if (to[i] == '\0')
            return;
    }
    to[WF_NAME_BYTES - 1] = '\0';
}

/* A record that becomes free, or is new: the fields that only some fibers set. */
static inline void wf_record_clean(weft_fiber *f)
{
    f->bound = f->special = false;
    f->priority = 0;
    f->cost = WEFT_MS;
    f->due = (weft_time){0};
    f->shared = NULL;
    f->named = 0;
    wf_store(&f->name[0], '\0');
}

#endif
