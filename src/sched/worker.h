/*
 * sched/worker.h: a worker: one thread of a scheduler, what is ready on it, and the loop that runs it.
 *
 * What is ready is in one of
 *
 *      slot      the fiber that the last one woke: it runs next, as what it needs is in the caches; not for ever
 *      offered   as slot, for a fiber that may move: if the one that woke it goes on computing, an idle worker takes it
 *                (lookout.h)
 *      queue     fibers that only this worker may run: started, bound to it or named for it; no atomics. Of an only worker: all
 *      ring      fibers that have not started, and those that may move: idle workers steal from it. It grows; if it
 *                cannot, for lack of memory, what does not fit goes to the injection queue
 *      inbox     fibers that others woke, or that threads and other workers bring to this worker
 *      set       instead of slot, queue and ring: the ready set of a policy that is not FIFO
 *      starved   fibers that cannot have a stack now, as there is no memory; see starved.h
 *
 * and the scheduler's injection queue, for work that plain threads bring to any of several workers. Each
 * fiber in queue and ring has a `turn`, a count of what came before it; the lower one is first, so that both together
 * are one FIFO queue. What is in the inbox is gathered before anything gets the next turn (docs/decisions/0022).
 *
 * A worker without work announces that it sleeps, looks everywhere once more, and sleeps in its driver. Who brings work
 * wakes one sleeper if nobody is searching already; who finds work while searching wakes the next.
 */
#ifndef WF_SCHED_WORKER_H
#define WF_SCHED_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/coro.h>
#include <weft/sched.h>

#include "base/counter.h"
#include "base/inbox.h"
#include "base/lock.h"
#include "base/ring.h"
#include "base/thread.h"
#include "fiber/extra.h"
#include "fiber/fiber.h"
#include "fiber/pool.h"
#include "sched/driver.h"
#include "time/wheel.h"

struct wf_timers;

/* Why a fiber gave its worker control. */
enum wf_left {
    WF_LEFT_YIELD, /* ready again */
    WF_LEFT_SLICE, /* the same, and it did not want to */
    WF_LEFT_WAIT,  /* its commit step is to be done */
    WF_LEFT_END,   /* it has ended */
};

/* Bits of a worker's `round`. */
enum {
    WF_ROUND_ALWAYS = 1,   /* a policy, or WEFT_DIRECT */
    WF_ROUND_COUNTED = 2,  /* turns are counted */
    WF_ROUND_SLEEPERS = 4, /* `direct` has somebody */
    WF_ROUND_TIMED = 8,    /* something may become due or ready meanwhile; a hop is allowed unless wf_look_is_due */
};

struct wf_fifo {
    weft_fiber *first, *last;
    size_t count; /* atomic: others look */
};

enum { WF_STARVED_SIZES = 8 };

/* Fibers that wait for memory; see starved.h. */
struct wf_starved {
    uint32_t active;     /* how many lists are in use. atomic: the worker looks. guarded by: lock */
    size_t movable;      /* fibers that others may take. atomic: others look. guarded by: lock */
    int64_t again_at;    /* when the first of each list tries again. owner: the worker */
    struct wf_lock lock; /* only the worker adds to lists; others take from those that move */
    uint32_t tries;      /* how many of `others` may still fail before they all wait for again_at. guarded by: lock */
    size_t freed;        /* how many became ready since a pass last asked. owner: the worker */
    uint32_t batch;      /* what `tries` was at first. owner: the worker */
    struct wf_starved_size {
        uint16_t class;      /* of their stacks. guarded by: lock */
        bool moves;          /* the list has fibers that may move to other workers. guarded by: lock */
        weft_fiber *trying;  /* the former first: it is ready, and not in the list; or NULL. guarded by: lock */
        struct wf_fifo list; /* guarded by: lock */
    } size[WF_STARVED_SIZES];
    struct wf_fifo others; /* guarded by: lock */
};

enum {
    WF_LOOK_EVERY = 64,  /* at most so many passes between two looks around. look_ns is the longest time */
    WF_CROWD = 64,       /* so many are ready, and sleepers whose time has come do not wait for all of them */
    WF_SLOT_STREAK = 16, /* the slot is taken so often in a row, then it goes to the end like everybody */
};

/* Single writer: the worker. atomic: others add them up. */
struct wf_counts {
    uint64_t spawned, ended, switches, stolen, warm_hits, warm_misses;
    size_t watches; /* of all workers together, as a fiber may end its wait on another */
};

struct wf_worker {
    /* owner: the worker, all of this part unless a field says otherwise */
    struct wf_thread *thread;
    weft_sched *sched; /* const */
    weft_fiber *slot;  /* atomic: others look */
    struct wf_fifo queue;
    struct wf_fifo
        direct;    /* sleepers whose time has come; of WEFT_DIRECT also whose descriptor is ready. See goes_first() */
    uint32_t turn; /* the next fiber's */
    uint32_t tick; /* passes; decides when to look around */
    uint32_t inject_at;   /* the tick from which the injection queue is looked at */
    uint32_t slot_streak; /* how often in a row the slot was taken */
    enum wf_left left;
    weft_fiber *left_behind; /* it hopped away to wait, and its commit step is to be done at once; or NULL */
    bool solo;               /* const: the only worker, nobody steals */
    uint8_t round;  /* why a yield goes through the worker instead of straight to the next fiber: WF_ROUND_... */
    bool works;     /* it is in its loop. atomic: others look */
    bool searching; /* counted in sched->searching */
    bool lookout;   /* it is the lookout, and sched->lookout is 1 */
    bool listed;    /* among the idle. guarded by: sched->idle_lock */
    struct wf_eh_globals *eh;         /* the thread's C++ exception globals; NULL: there is no C++ */
    int *errno_at;                    /* const while the thread runs */
    int64_t woken_at;                 /* the end of the last sleep */
    int64_t now;                      /* the clock at the last look: for ages */
    uint32_t looked;                  /* the tick at which it was read, if nothing has run since */
    int64_t around;                   /* when it last looked around: at the driver and the injection queue too */
    uint64_t counted;                 /* the counter at the last look */
    int64_t look_ns;                  /* const: the longest time between two looks around */
    struct wf_span_counted look_span; /* look_ns in units of the counter */
    int64_t measure_at;               /* when look_span is to be measured again */
    int64_t loop_ends;                /* the deadline of its loop */
    int64_t slice;                    /* const: 0: none */
    int64_t slice_end;                /* of the fiber that runs */
    void *set;                        /* the policy's, NULL: FIFO */
    size_t set_count;                 /* atomic: others look */
    weft_coro *spare; /* the base of the last fiber that ended, if it is plain: for the next one; or NULL */
    struct wf_records records;
    struct wf_extras extras;
    struct wf_counts counts;
    struct wf_worker *idle_next, *idle_prev; /* guarded by: sched->idle_lock */
    uint64_t cancelled_to;                   /* the sched->cancels that it has done */
    uint32_t random;
    int tid;                     /* of the thread; 0: none has begun. atomic: others look */
    int64_t settled;             /* when it last gave records back */
    uint64_t idle_phase;         /* changes when a fiber has run, or a thread begins an endless wait; see stuck.c */
    int64_t look_at, look_after; /* in that phase: when it looks for stuck fibers, and the pause before that look */

    pthread_t id;             /* owner: who starts and stops */
    bool has_thread;          /* owner: who starts and stops */
    unsigned index;           /* const */
    struct wf_wheel wheel;    /* of the deadlines of fibers that wait here, or did: see wf_deadline_begin */
    int64_t first_due;        /* nothing in the wheel is due before it; INT64_MAX: it is empty */
    struct wf_timers *timers; /* const: with callbacks; see timer.h */
    size_t pass_left;         /* WEFT_DIRECT: fibers that are left of what was ready when the pass began */
    bool polls;               /* it is in its driver: who becomes ready does so by an event */
    struct wf_worker *ripe;   /* as the lookout: the worker whose offer it may take; or NULL */
    uint32_t offers;          /* how often it has offered a fiber. atomic: the lookout looks */

    /* owner: the lookout. sched->lookout hands it on */
    uint32_t seen_offers;   /* `offers` at the last look. atomic: others look */
    uint64_t seen_switches; /* counts.switches at the last look */

    struct wf_starved starved; /* each field says who may use it */
#if WF_DEBUG
    int64_t began; /* when the fiber that runs got its turn; see debug.h */
#endif

    /* Others write here. */
    struct wf_inbox inbox __attribute__((aligned(64)));
    struct wf_inbox_node nudge; /* not a fiber: in the inbox it makes the worker look around. See wf_worker_nudge */
    uint32_t nudged;            /* atomic: the node is in the inbox, or a thread is about to put it there */
    struct wf_driver driver;
    weft_fiber *offered;  /* atomic: released by the worker; emptied by it or by the lookout, who acquire */
    int64_t sleeps_until; /* atomic: asleep: when it wakes by itself. Written by the worker */
    struct wf_ring ring;  /* its notes are the turns. Aligned by itself */
};

/* A fiber that is to run on worker `w`, which the caller is, for the reason given. */
void wf_worker_push(struct wf_worker *w, weft_fiber *f, enum weft_why why);

/* The same for one that worker `w` was named for: nobody can steal it before it has run. */
WF_COLD void wf_worker_keep(struct wf_worker *w, weft_fiber *f);

/* The same from any thread: by its inbox. */
void wf_worker_send(struct wf_worker *w, weft_fiber *f);

/*
 * A fiber that may move and waited on worker `home` was settled by the calling thread, and WF_WAKE_ANYWHERE is set. If
 * the caller is a fiber of the scheduler and `home` is busy, f runs next on the caller's worker, or on an idle one if the
 * caller goes on computing. Else an idle worker is woken for f. Any thread but the home's.
 */
WF_COLD void wf_worker_take(struct wf_worker *home, weft_fiber *f);

/*
 * Makes a busy worker look around before it runs the next fiber, because something came that is in no inbox. Any thread
 * may call it, after it has published that thing and passed a wf_fence(). It does not wake a worker that sleeps.
 */
void wf_worker_nudge(struct wf_worker *w);
void wf_sched_nudge(weft_sched *s); /* all of its workers */

/* Spawns a detached fiber on worker `w`, which the caller is, though no fiber of it. False: no memory. */
bool wf_spawn_on(struct wf_worker *w, const char *site, weft_fn *fn, void *arg);

/* Wakes one idle worker if nobody is searching. Any thread, after work was published. */
void wf_sched_wake_one(weft_sched *s);

/* When a loop ends. */
enum wf_until {
    WF_UNTIL_OVER,  /* the scheduler is over */
    WF_UNTIL_EMPTY, /* no fiber is left */
    WF_UNTIL_FIRST, /* the same, or the first fiber of weft_run has ended */
    WF_UNTIL_ONCE,  /* what is ready has run once */
};

/* The loop of the calling thread, which is this worker. 0, or -ETIMEDOUT past the deadline. */
int wf_worker_loop(struct wf_worker *w, enum wf_until until, int64_t deadline);

/* On the worker's own thread: takes back its offer; NULL: there is none, or the lookout has taken it. */
static inline weft_fiber *wf_worker_take_offered(struct wf_worker *w)
{
    return wf_load(&w->offered) ? wf_exchange(&w->offered, NULL) : NULL;
}

/* On the worker's own thread: the woken fiber that goes first, or NULL. Only to compare with. */
static inline const weft_fiber *wf_worker_next_woken(const struct wf_worker *w)
{
    return w->slot ? w->slot : wf_load(&w->offered);
}

/* Gives back the stack that is kept for the next fiber. */
void wf_worker_drop_spare(struct wf_worker *w);

/* The thread becomes this worker, or is no longer. */
void wf_worker_enter(struct wf_worker *w);
void wf_worker_leave(struct wf_worker *w);

/*
 * A wait with a deadline begins and ends. What it leaves in the wheel stays there, if the next one's is not before it: it
 * is put right when its time comes (expire in worker.c), and most deadlines never come to that. Only a fiber that ends or
 * may go to another worker takes it out.
 */
static inline void wf_deadline_begin(struct wf_worker *w, weft_fiber *f);
static inline void wf_deadline_end(struct wf_worker *w, weft_fiber *f);
void wf_deadline_add(struct wf_worker *w, weft_fiber *f, int64_t when);
WF_COLD void wf_deadline_drop(struct wf_worker *w, weft_fiber *f);

/* A fiber of this worker, which the caller is, was settled: it is ready. */
void wf_worker_woken(struct wf_worker *w, weft_fiber *f);

/* Nobody has a handle of a fiber that has ended or never began: its record is free. `w`: the caller's worker, or NULL. */
void wf_fiber_release(struct wf_worker *w, weft_fiber *f);

/* A fiber has ended, and its value is there: gives it to whoever joins it. False: it is detached, release it. */
bool wf_join_ended(weft_fiber *f);

/* Releases a fiber that never began, with what it was given; its join is GONE. */
void wf_fiber_drop(weft_fiber *f);

/* Cancels every fiber that started on this worker, which the caller is, and its timers. */
void wf_cancel_all_of(struct wf_worker *w);

/* Called by a fiber: gives control to its worker; returns when it is picked again. */
WF_ENTRY void *wf_leave(struct wf_thread *t, enum wf_left why);

/* Gives a fiber that is to run for the first time the stack of the last one that ended, if that is there and fits. */
bool wf_worker_start_on_spare(struct wf_worker *w, weft_fiber *f);

/*
 * Called by a fiber that is to wait: as wf_leave, or straight to the fiber that it has just woken, or to one that has
 * not started. Then it is that fiber which does its commit step, when it arrives: every wait ends, and every fiber
 * begins, with wf_arrived().
 */
WF_ENTRY void *wf_leave_waiting(weft_fiber *f);

/* Ends the calling fiber from wherever it is in its function; no coroutine runs on top of it. */
WF_COLD WF_NORETURN void wf_fiber_end(weft_fiber *f, void *value);

/* The commit step of a fiber that was left. On its worker's thread, on another stack than its own. */
void wf_worker_commit(struct wf_worker *w, weft_fiber *f);

/*
 * Whether so much time has passed since the last look that the worker has to look around before another fiber runs. The
 * counter costs as much as a hop. So the worker reads it only while it has something that time or the kernel may make
 * ready.
 */
static inline bool wf_look_is_due(const struct wf_worker *w)
{
    return w->round & WF_ROUND_TIMED && wf_counter() - w->counted >= w->look_span.units;
}

static inline void wf_deadline_begin(struct wf_worker *w, weft_fiber *f)
{
    if (!f->timed || f->timer.when > f->until)
        wf_deadline_add(w, f, f->until);
}

static inline void wf_deadline_end(struct wf_worker *w, weft_fiber *f)
{
    if (wf_unlikely(f->flags & WEFT_MIGRATE) && f->timed)
        wf_deadline_drop(w, f);
}

static inline void wf_arrived(void)
{
    struct wf_worker *w = wf_thread_now()->worker;
    weft_fiber *left = w->left_behind;
    if (left) {
        w->left_behind = NULL;
        wf_worker_commit(w, left);
    }
}

#endif
