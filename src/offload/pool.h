/*
 * offload/pool.h: the helper threads and the jobs that they take.
 *
 *              put             a helper takes it          fn returns
 *      (new) ──────▶ QUEUED ─────────────────▶ RUNNING ──────────────▶ DONE
 *                      │ │                        └─ the caller leaves ──▶ LEFT ── fn returns ──▶ (freed)
 *                      │ └─ no thread to be had ──▶ REFUSED
 *                      └─── the caller leaves ────▶ (freed)
 *
 * QUEUED   in the queue of its kind; nobody runs it
 * RUNNING  a helper's; the caller waits, or is about to
 * DONE     the caller's, with the value
 * LEFT     the helper's alone, which drops what it was given
 * REFUSED  the caller's; it has not run
 */
#ifndef WF_OFFLOAD_POOL_H
#define WF_OFFLOAD_POOL_H

#include <stdint.h>

#include "base/lock.h"
#include "offload/offload.h"

struct wf_sleeper;

enum wf_job_state { WF_JOB_QUEUED = 1, WF_JOB_RUNNING, WF_JOB_DONE, WF_JOB_LEFT, WF_JOB_REFUSED };

/* On the heap, as the caller's stack may be copied away. guarded by: the pool's lock, but for what is const */
struct wf_job {
    struct wf_errand errand; /* const */
    enum wf_job_state state;
    void *value;
    struct wf_sleeper *who;      /* who waits for it; NULL: nobody yet */
    uint32_t told;               /* atomic: who won `who` has made it ready, and is out of its scheduler */
    uint64_t turn;               /* the lower is first, of all kinds */
    struct wf_job *next, **link; /* in the queue of its kind */
};

/* Guards the pool and all jobs. Whoever waits for a job waits under it. */
extern WF_HIDDEN struct wf_lock wf_pool_lock;

/* Queues a job, and sees to it that somebody comes for it, if anybody may. Without the lock. */
void wf_pool_put(struct wf_job *j);

/* The caller stops waiting: a queued job is taken out, a running one becomes LEFT. The state before. With the lock. */
enum wf_job_state wf_pool_give_up(struct wf_job *j);

#endif
