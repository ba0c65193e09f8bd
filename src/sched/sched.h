/*
 * sched/sched.h: a scheduler's record.
 */
#ifndef WF_SCHED_SCHED_H
#define WF_SCHED_SCHED_H

#include <weft/sched.h>

#include "base/lock.h"
#include "sched/wait.h"
#include "sched/worker.h"

#define WF_SCHED_NAME "weft" /* of one without a name */

enum wf_life { WF_NEW, WF_RUNNING, WF_DRAINING, WF_STOPPED };

struct weft_sched {
    char name[WF_NAME_BYTES];  /* const */
    int64_t born;              /* const */
    unsigned workers;          /* const, but for a child that is alone: 1, or 0 if they are in the parent */
    unsigned made;             /* const: how many `worker` has, those in the parent of a fork included */
    bool use_caller;           /* const, but for a child that is alone */
    int dispatch;              /* const */
    int io;                    /* WEFT_IO_*; AUTO until somebody has to know. atomic: of all workers, the same */
    unsigned warm, warm_max;   /* const */
    uint16_t class;            /* const: of the default stack */
    const weft_policy *policy; /* const; weft_fifo is special */
    pthread_t maker;           /* const: use_caller: who made it */

    struct wf_lock lock;      /* of life, the injection queue and the counts beside them */
    uint32_t life;            /* enum wf_life. guarded by: lock. atomic: others look */
    bool stopping;            /* a stop is under way. guarded by: lock */
    struct wf_fifo injected;  /* guarded by: lock; its count is looked at without */
    uint64_t spawned_outside; /* by plain threads and other schedulers. guarded by: lock. atomic: others look */
    unsigned next_worker;     /* atomic: round robin for work that does not care */

    struct wf_lock idle_lock;
    struct wf_worker *idle; /* guarded by: idle_lock */
    uint32_t idle_count;    /* guarded by: idle_lock. atomic: others look */
    uint32_t searching;     /* atomic: workers that look for work in others' queues */
    uint32_t lookout;       /* atomic: 1: a worker is the lookout, see lookout.h */
    uint32_t senders;       /* atomic: outsiders that are waking a fiber, which may end before they are done */

    uint32_t empty_wanted; /* atomic: somebody waits for the last fiber's end */
    struct wf_lock empty_lock;
    struct wf_waiters empty_waiters; /* guarded by: empty_lock; of those who do, all but worker 0 */
    uint32_t gate;                   /* atomic: futex: 0: the workers' threads are being made, and none may work yet */
    uint32_t over;                   /* atomic: the workers' threads are to end */
    uint64_t cancels;                /* atomic: how often all fibers were cancelled */
    bool first_ended;                /* the first fiber of weft_run has ended: WF_UNTIL_FIRST. owner: worker 0 */
    uint32_t told;                   /* atomic: the list of stuck fibers was printed; see stuck.h */
    uint32_t endless; /* atomic: threads that wait for the last fiber's end without a deadline, worker 0 included */
    uint32_t endless_ever; /* atomic: how often such a wait has begun */
    bool orphan;           /* const, but for a child that is alone: whoever would stop it is in the parent */
    weft_sched *next_of_all, **link_of_all; /* guarded by: a lock in fork.c */

    struct wf_worker *worker[]; /* const */
};

/* A copy that has every field of this version, with the defaults in place; 0 or -EINVAL. */
int wf_sched_read_opts(weft_sched_opts *mine, const weft_sched_opts *theirs);

/* Works as worker 0, which the caller is, until s->first_ended, or no fiber is left. The scheduler runs already. */
void wf_sched_run_first(weft_sched *s);

/*
 * Like weft_sched_stop, but cancels at once. -ETIMEDOUT: some fibers have ignored the cancel for `grace` (as in the
 * options), and were named.
 */
int wf_sched_stop_now(weft_sched *s, weft_span grace);

/* Whether no fiber is left, and no timer that is to fire once. Exact if the caller is the only one who could bring one. */
bool wf_sched_is_empty(const weft_sched *s);

/* Whether others than its own fibers may bring work. guarded by: s->lock */
bool wf_sched_takes_work(const weft_sched *s);

/* A worker for what others bring, in turn; worker 0 of use_caller, which may be away for long, if there is no other. */
struct wf_worker *wf_sched_next_worker(weft_sched *s);

/* Whether nothing is left but one fiber (or timer). For that fiber to ask: another may be spawned at any time. */
bool wf_sched_has_one(const weft_sched *s);

/* The scheduler that weft_run started; NULL: none. atomic */
extern WF_HIDDEN weft_sched *wf_sched_default;
/* Once it returns nobody uses the one before. */
void wf_sched_set_default(weft_sched *s);
/* That scheduler, or NULL, which stays what it is until the caller lets it go. Briefly: a lock is held meanwhile. */
weft_sched *wf_sched_hold_default(void);
void wf_sched_let_default_go(void);
/* In the child of a fork: there is none but this one (NULL: none at all). */
void wf_sched_keep_default(weft_sched *s);

/*
 * Prints the fibers of a scheduler (NULL: all) and returns how many there are. `objects`: also prints the objects that
 * they wait for, and the holders of these. Ask for objects only if nothing wakes the fibers meanwhile.
 */
int wf_dump(FILE *to, const weft_sched *s, bool objects);

#endif
