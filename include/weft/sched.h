/*
 * weft/sched.h: schedulers: threads ("workers") that run fibers, and the order in which they do.
 *
 * The short way: weft_run(fn, arg, &value, NULL) makes a scheduler, runs fn as its first fiber, waits for every fiber to
 * end, and returns. (With the option end_with_first it cancels the fibers that outlive the first one.) The long way:
 *
 *      new ──▶ NEW ──start──▶ RUNNING ──stop──▶ DRAINING ──▶ STOPPED ──start──▶ RUNNING
 *
 * NEW takes work and keeps it. DRAINING takes work only from its own fibers. STOPPED takes none. A process may have
 * several schedulers; fibers of different ones share locks and channels as they like.
 *
 * With use_caller the thread that makes the scheduler is worker 0, and one thread fewer is made. It works only inside
 * weft_sched_run and weft_sched_stop.
 *
 * fork(2): in the child the fiber that forked goes on, on its stack, as the only one of its scheduler, which has one worker
 * there. All other fibers, and the timers, watches and helpers of before, do not exist: none of them runs, and what is sent
 * or unlocked goes to others. What they held stays held, and an object that another thread was just using may stay locked,
 * as with those of pthreads; one that a plain thread was waiting in must not be used in the child. When the last fiber has
 * ended, weft_run, weft_sched_run or weft_sched_stop returns in the child too if the fiber forked on the thread that called
 * it (always so with one worker); else the child ends by exit(0). So a child that has done its work says _exit. Other
 * schedulers that ran are over, and can only be freed; those that did not run are as they were. If a plain thread forks the
 * child has no runtime, and weft_run begins a new one. A child may exec, _exit or exit at any time. (vfork, posix_spawn and
 * _Fork do nothing of this: exec after them.)
 *
 * Failure: a negative errno is returned, errno is never set, and an out pointer is untouched.
 */
#ifndef WEFT_SCHED_H
#define WEFT_SCHED_H

#include <stdio.h>

#include <weft/api.h>
#include <weft/fiber.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

typedef struct weft_sched weft_sched;

/** Why a policy is given a fiber. */
enum weft_why {
    WEFT_WHY_NEW = 1, /* it has never run */
    WEFT_WHY_WAKE,    /* it waited, and that is over */
    WEFT_WHY_YIELD,   /* it gave way */
    WEFT_WHY_SLICE    /* its time slice was used up */
};

/**
 * An order in which a worker runs what is ready. Each worker has a ready set of its own, and only that worker touches it:
 * no locks. Fibers do not move between workers under any policy but weft_fifo.
 */
typedef struct weft_policy {
    size_t size;      /* sizeof(weft_policy) */
    const char *name; /* for messages; must live as long as the policy */
    weft_span slice;  /* how long a fiber may run before a call of this library puts it back; 0: as long as it likes */
    /* Makes a worker's ready set; NULL: no memory. `arg` is the options' policy_arg. */
    void *(*begin)(const void *arg);
    /* The worker ends; the set is empty. */
    void (*end)(void *set);
    /* `f` is ready. Must not fail: keep what is needed in weft_policy_room(f). */
    void (*push)(void *set, weft_fiber *f, enum weft_why why, weft_time now);
    /* Who runs next; NULL: the set is empty. */
    weft_fiber *(*pop)(void *set, weft_time now);
} weft_policy;

/**
 * First come, first served, and workers without work take fibers that have not started from others. The default.
 *
 * Starts. A worker starts fibers in the order in which they arrived at it. If a call names a worker, or a fiber of this
 * worker spawns the new fiber, the new fiber arrives when the call is made. If one call returns before another begins,
 * its fiber arrived earlier, whichever threads and fibers made the calls. If there is no memory for a fiber's stack,
 * other fibers go first. Fibers that wait for private stacks of the same size start in the order of their arrival. With
 * several workers, there is one such order for fibers that may move, and another for fibers that may not.
 *
 * With one worker all fibers arrive at that worker: the order of starts is the order of the calls, whatever calls they
 * were.
 *
 * With more workers each has an order of its own, and these fibers arrive at a worker later than their call:
 *  - A fiber that a thread, or a fiber of another scheduler, spawns for any worker waits in a queue that the workers
 *    share. A worker takes from that queue when it has nothing else to run, and at least once in 128 turns of its
 *    fibers. If n fibers wait there, the worker takes the oldest n / workers + 1 of them, at most 128. So the first
 *    fiber of the queue arrives at a worker before any worker has had 128 more turns. Each fiber ahead of another in
 *    the queue delays that other fiber by at most 128 turns. Until a fiber has arrived at a worker, every fiber that
 *    arrives there may overtake it.
 *  - An idle worker takes fibers from another worker: the older half of the fibers that may move, at most 128, in their
 *    order. These fibers arrive at the new worker at that moment. The fibers that stay on the old worker may start
 *    before them. So may any number of younger fibers, for as long as the new worker is busy with another fiber.
 *  - If the worker's own queue has no room for a fiber, for lack of memory, the fiber waits in the queue that the
 *    workers share.
 *
 * Started fibers. A fiber that yields goes behind every fiber that has arrived at its worker. A woken fiber goes behind
 * every fiber that its worker has seen by the time the worker sees the wake. There are two exceptions. First, if a
 * fiber wakes fibers of its own worker, the fiber that it woke last runs next, before all ready fibers. (With several
 * workers two fibers run next: first the last fiber without WEFT_MIGRATE that it woke, then the last fiber with
 * WEFT_MIGRATE. If the waker goes on computing, an idle worker takes the fiber with WEFT_MIGRATE after 0.1 to 2 ms. A
 * fiber with WEFT_MIGRATE that waits without a deadline also runs next if a fiber of another worker wakes it while its
 * own worker is busy; if its own worker is idle, or a thread wakes it, any worker without work takes it.) After 15 such
 * turns in a row the next such fiber goes to the end. Second, while many fibers are ready, sleepers whose time has come
 * get every other turn (WEFT_QUEUE). Neither exception changes the order in which new fibers start.
 */
extern WEFT_API const weft_policy weft_fifo;
/** The highest weft_attr.priority first; a ready fiber rises one level every 100 ms (policy_arg: a weft_span). */
extern WEFT_API const weft_policy weft_priority;
/** The lowest weft_attr.cost first. A fiber that costs much may wait for ever. */
extern WEFT_API const weft_policy weft_sjf;
/** The highest (waited + cost) / cost first: short ones soon, long ones at last. */
extern WEFT_API const weft_policy weft_hrrn;
/** In turn, for a slice each: 5 ms (policy_arg: a weft_span). */
extern WEFT_API const weft_policy weft_rr;
/** The earliest weft_attr.due first; those without one come last, in turn. */
extern WEFT_API const weft_policy weft_edf;

/** What a pass of a worker does with sleepers whose time has come; the options' `dispatch`. */
enum {
    /*
     * Puts them at the end of the run queue. While 64 fibers or more are ready on the worker, every other turn goes to
     * these sleepers, in the order in which they became due. (Sleepers with WEFT_MIGRATE get no such turns if the
     * scheduler has several workers: another worker may take them.)
     */
    WEFT_QUEUE = 0,
    /* Runs them at once, before what is queued (weft_fifo only). One turn in 16 goes to the fiber that waits longest. */
    WEFT_DIRECT = 1,
};

/** What workers wait for descriptors with; the options' `io`. See weft_io_backend() in weft/io.h. */
enum {
    WEFT_IO_AUTO = 0,  /* what the environment says (WEFT_IO=epoll, WEFT_IO=uring), else epoll */
    WEFT_IO_EPOLL = 1, /* epoll */
    WEFT_IO_URING = 2, /* io_uring; epoll, and a line on stderr, where the kernel does not have it */
};

/** How to run a scheduler; also weft_run's options. NULL, or a zero field, means the default. */
typedef struct weft_sched_opts {
    size_t size;      /* sizeof(weft_sched_opts); 0 means the first release's size */
    const char *name; /* default "weft"; workers are named NAME_0, NAME_1...; copied, at most 31 bytes of it (of a
                       * thread's name the kernel keeps 15: the number is always there) */
    unsigned threads; /* workers, 0: as many as this process has CPUs (affinity and cgroup quota); at most 1024 */
    bool use_caller;  /* the calling thread is worker 0, and this is its weft_sched_current */
    const weft_policy *policy; /* default weft_fifo */
    const void *policy_arg;    /* for the policy; must live until weft_sched_new returns */
    int dispatch;              /* WEFT_QUEUE, WEFT_DIRECT */
    size_t stack;              /* bytes of stack of a fiber that does not say; 0: WEFT_STACK_DEFAULT */
    unsigned warm;             /* stacks that each worker makes at its start */
    unsigned warm_max;         /* stacks of ended fibers that each worker keeps at most; 0: as the load shows */
    int io;                    /* WEFT_IO_AUTO, WEFT_IO_EPOLL, WEFT_IO_URING */
    weft_span look_every;      /* 0: 100 us. When its fibers have run for this long, a worker looks at its clock, its
                                * timers, its descriptors and the work from other threads, before it runs the next
                                * fiber */
    bool end_with_first;       /* only for weft_run: the runtime ends when its first fiber has ended; see weft_run */
    /* With end_with_first: weft_run names the fibers that have not ended so long after their cancel; 0: 1 s, < 0: at once */
    weft_span grace;
} weft_sched_opts;

/**
 * Runs fn(arg) as the first fiber of a runtime that it makes, lets every fiber end, and takes fn's value (value may be
 * NULL). While it runs, weft_go works on every thread. The calling thread is worker 0, and the first fiber runs on it.
 *
 * With opts->end_with_first the runtime ends when its first fiber has ended, as a process ends when its main returns.
 * The runtime then takes no more work from other threads, and cancels every fiber, timer and watch that is left. It
 * also cancels every fiber that one of these fibers starts. After opts->grace weft_run prints the fibers that have
 * ignored the cancel on stderr, each with its name, its state, what it waits for and where it was spawned. weft_run
 * does not leave them behind: it waits until they have ended, because they may use memory that the caller frees after
 * weft_run. (A program that would rather end at once calls exit in its first fiber.)
 *
 * Stuck fibers. If for a second only parked fibers are left, and nothing in the process can wake them, weft_run prints
 * a list of them on stderr, once. These can wake fibers: deadlines, timers and watches; descriptors and helpers that
 * fibers wait for; and every thread that is not a worker of this scheduler. Signal handlers do not count. If only such
 * threads could wake the fibers, weft_run prints the list only if fibers wait for each other in a circle: for a mutex, a
 * once, a rwlock that a fiber holds to write, or a join. Each line of the list says what a fiber waits for, the object's
 * address and, for a lock, which fiber or thread holds it. After that weft_run goes on waiting. As long as a fiber that
 * was given to weft_cancel_on_hangup is parked, a hangup may cancel it, and no list is printed.
 *
 * Returns: 0, -EDEADLK called in a fiber, -ECANCELED called in a cancelled task that is no fiber (weft/task.h),
 *          -EBUSY another weft_run is under way, or the calling thread is a scheduler's worker 0; -EINVAL, -ENOMEM
 *          and -EAGAIN as weft_sched_new and weft_sched_start; -ESRCH in the child of a fork made in another fiber
 *          than the first, whose value is not there
 * Context: any thread, not a fiber
 * Blocks:  the thread, until every fiber has ended
 * Owns:    nothing
 */
WEFT_API int weft_run(weft_fn *fn, void *arg, void **value, const weft_sched_opts *opts);

/**
 * Makes a scheduler. No thread is made yet.
 *
 * Returns: 0, -EINVAL no out, more than 1024 threads, an unknown dispatch or io, look_every below 0, WEFT_DIRECT with
 *          another policy than weft_fifo, a policy without its functions, a stack that is too small, end_with_first;
 *          -EBUSY with use_caller: the calling thread is worker 0 of another scheduler; -EDEADLK with use_caller:
 *          called in a fiber; -ENOMEM
 * Context: any thread
 * Blocks:  never
 * Owns:    the caller owns *out and releases it by weft_sched_free
 */
WEFT_API int weft_sched_new(weft_sched **out, const weft_sched_opts *opts);

/**
 * Makes the workers' threads. NEW and STOPPED schedulers can be started.
 *
 * Returns: 0, -EALREADY it runs, -EAGAIN a thread could not be made (none is left behind, the scheduler is as before),
 *          -ESHUTDOWN it ran in the parent of a fork, -ENOMEM, -EINVAL s is NULL
 * Context: fiber | any thread
 * Blocks:  until the workers run
 * Owns:    nothing
 */
WEFT_API int weft_sched_start(weft_sched *s);

/**
 * weft_go_with on this scheduler. Call it as weft_sched_go(s, out, attr, fn, arg).
 *
 * Returns: as weft_go_with
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out until weft_join or weft_detach; with out NULL the fiber is detached
 */
WEFT_API int weft_sched_go_at(const char *site, weft_sched *s, weft_fiber **out, const weft_attr *attr, weft_fn *fn,
                              void *arg);
#define weft_sched_go(...) weft_sched_go_at(WEFT_SITE, __VA_ARGS__) /* s, out, attr, fn, arg */

/**
 * Gives an existing fiber to a worker (0: any, WEFT_WORKER(n)). One that is NEW starts there. One that is PARKED in
 * weft_park is unparked. Only a fiber with WEFT_MIGRATE may resume on another worker than its own. Its own worker sends
 * it there, as soon as the own worker is between two turns.
 *
 * The call names the worker for one turn: the fiber's next turn is on that worker, and no other worker takes the fiber
 * before that turn. After the turn a fiber with WEFT_MIGRATE goes where the next wake or submit takes it. A fiber
 * without WEFT_MIGRATE stays on that worker. (weft_attr.worker, a shared stack, or a policy other than weft_fifo bind a
 * fiber for good.)
 *
 * Returns: 0, -EBUSY it is ready or running, or waits in something else than weft_park, -ESRCH it has ended, -EPERM
 *          another worker than its own is named and it may not move, or it belongs to another scheduler, -EINVAL no s or
 *          f, no such worker, -ESHUTDOWN as weft_go, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_sched_submit(weft_sched *s, weft_fiber *f, int worker);

/**
 * Works on the calling thread, as worker 0, until no fiber, no watch and no timer that fires once is left, or until the
 * deadline passes. The scheduler stays RUNNING: call weft_sched_stop before weft_sched_free. A scheduler without
 * use_caller works by itself: the call waits until no fiber is left. If the scheduler is NEW, the call starts it. With
 * WEFT_FOREVER the call prints a list of stuck fibers as weft_run does, unless the caller is a fiber.
 *
 * Returns: 0 none of these is left, -ETIMEDOUT, -EAGAIN some are left and WEFT_NOW (what was ready has run once), -EPERM with
 *          use_caller: not the thread that made it; -EDEADLK called in a fiber of this scheduler; -ECANCELED called in a
 *          fiber of another one, which was cancelled; -ESHUTDOWN it has stopped; as weft_sched_start
 * Context: fiber | any thread
 * Blocks:  the thread
 * Owns:    nothing
 */
WEFT_API int weft_sched_run(weft_sched *s, weft_time deadline);

/**
 * Lets every fiber end and every timer fire that fires once (recurring ones end), then the workers. Work that others bring from now on is refused. At the deadline the fibers and
 * timers that are left are cancelled; -ETIMEDOUT says that some ignored that for a second more: call again. If only
 * parked fibers are left that nothing in this scheduler can wake, the call prints a list of them after a second, once,
 * as weft_run does. Here other threads do not count: the call prints the list whatever other threads there are.
 *
 * Returns: 0 it is STOPPED (also if it was), -ETIMEDOUT, -EALREADY another thread is stopping it, -EDEADLK called in a
 *          fiber of this scheduler, -ECANCELED called in a fiber of another scheduler, and that fiber was cancelled
 *          before the call or during it (call again, in a shield, to go on), -EPERM with use_caller: not the thread
 *          that made it; -EINVAL s is NULL
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_sched_stop(weft_sched *s, weft_time deadline);

/**
 * Releases a scheduler. If it never ran, its fibers, timers and watches are released without running. NULL does
 * nothing.
 *
 * Returns: 0, -EBUSY it is RUNNING or DRAINING: stop it first, -EPERM with use_caller: not the thread that made it
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    takes s on 0
 */
WEFT_API int weft_sched_free(weft_sched *s);

/**
 * The scheduler of the calling fiber; on a thread that is worker 0 of one, from weft_sched_new to weft_sched_free, that
 * one; else the one that weft_run started. weft_go, weft_timer_new and weft_watch_add use this scheduler.
 *
 * Returns: the scheduler, or NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API weft_sched *weft_sched_current(void);

/**
 * The name given in the options.
 *
 * Returns: the name; "weft" if none was given, "" if s is NULL; lives as long as the scheduler
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_sched_name(const weft_sched *s);

/**
 * When the scheduler was made. Later starts do not change it.
 *
 * Returns: the time; 0 if s is NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API weft_time weft_sched_born(const weft_sched *s);

/**
 * The kernel's id of the thread of worker number `worker` (from 0, as weft_fiber_worker counts): what gettid(2) returns
 * on that worker, and the name of its folder in /proc/self/task. Use it for sched_setaffinity(2), `top -H` and
 * debuggers.
 *
 * Each start makes new threads. With use_caller worker 0 is the thread that made the scheduler, from weft_sched_new to
 * weft_sched_free.
 *
 * Returns: the id, which is positive; -ESRCH the worker has no thread now: the scheduler has not started, or it has
 *          stopped, or it ran in the parent of a fork; -EINVAL s is NULL, or it has no such worker
 * Context: fiber | any thread
 * Blocks:  never, except right after a start: until the new thread has begun
 * Owns:    nothing
 */
WEFT_API int weft_sched_tid(const weft_sched *s, int worker);

/** What a scheduler is doing. */
typedef struct weft_sched_figures {
    size_t size;     /* set it to sizeof(weft_sched_figures) */
    size_t workers;  /* threads, worker 0 of use_caller included */
    size_t active;   /* of them: running a fiber or looking for one */
    size_t idle;     /* asleep */
    size_t ready;    /* fibers in run queues */
    size_t parked;   /* fibers that wait, sleeping ones included */
    size_t sleeping; /* of them: in weft_sleep */
    size_t timers;   /* deadlines that are armed, and timers that are to fire */
    size_t watches;  /* descriptors that are waited for */
    uint64_t spawned, ended, stolen, switches;
    uint64_t warm_hits, warm_misses; /* starts that found a stack at hand, or did not */
} weft_sched_figures;

/**
 * Counts what a scheduler is doing. The figures are taken one after another while work goes on.
 *
 * Returns: 0, -EINVAL no s or out, or a size of 0
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_sched_stats(const weft_sched *s, weft_sched_figures *out);

/**
 * Prints the fibers of this process, one a line: id, name, state, what it waits for and until when, age, worker and
 * where it was spawned. The scheduler's name follows the worker, unless that name is "weft", the default. Below a fiber
 * stand the scopes that it has open, with their children, up to 64 levels deep; deeper fibers stand below these.
 *
 * Returns: how many there are, -EINVAL no file
 * Context: fiber | any thread
 * Blocks:  on the file
 * Owns:    nothing
 */
WEFT_API int weft_dump(FILE *to);

/**
 * For policies: 32 bytes of the fiber that are the policy's own while the fiber is in its set.
 *
 * Returns: the room, aligned for any pointer; NULL if f is NULL
 * Context: a policy's push and pop
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API void *weft_policy_room(weft_fiber *f);

/**
 * For policies: the fiber's attributes that an order may rest on.
 *
 * Returns: nothing; *priority, *cost and *due are set (each may be NULL), unless f is NULL
 * Context: a policy's push and pop
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API void weft_policy_attr(const weft_fiber *f, int *priority, weft_span *cost, weft_time *due);

WEFT_END_DECLS

#endif
