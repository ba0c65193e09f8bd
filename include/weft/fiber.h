/*
 * weft/fiber.h: fibers: flows that a scheduler runs. Write plain blocking code; a fiber that waits costs its stack, not
 * a thread.
 *
 * weft_yield() gives way to other fibers. weft_coro_yield() (weft/coro.h) is another thing: it returns from a raw
 * coroutine to its resumer. A fiber may run raw coroutines; if the innermost of them waits, the whole fiber does.
 *
 * States:
 *
 *      fiber_new ──▶ NEW ──submit──▶ READY ──▶ RUNNING ──return──▶ DONE
 *                         go ─────────▲  ▲        │
 *                                     │  └ yield ─┤
 *                                     └── wake ── PARKED
 *
 * Where it runs: a fiber that has not started goes to whichever worker is free first, unless it is bound to a worker
 * (weft_attr.worker), or a worker is named for its next turn (weft_sched_submit). Once started it stays on its worker,
 * so that all thread-local data (errno, OpenSSL's queues and so on) is the same before and after a wait. The flag
 * WEFT_MIGRATE says that it is safe to move the fiber. errno is kept for each fiber.
 *
 * A fiber ends by returning from its function. pthread_exit in a fiber would end its worker; it panics with a line that
 * names the fiber. So does a pthread_cancel of the worker's thread. With libweft-hook pthread_exit ends the fiber alone
 * (docs/hooks.md).
 *
 * Every call here works on plain threads too, unless it says otherwise: where a fiber would park, a thread blocks.
 *
 * Failure: a negative errno is returned, errno is never set, and an out pointer is untouched.
 */
#ifndef WEFT_FIBER_H
#define WEFT_FIBER_H

#include <weft/api.h>
#include <weft/cxx.h>
#include <weft/stack.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

typedef struct weft_fiber weft_fiber;

/** Where a fiber is in its life; see the picture above. Write `enum`: weft_fiber_state() has the same name. */
enum weft_fiber_state {
    WEFT_FIBER_NONE = -1, /* of NULL */
    WEFT_FIBER_NEW = 1,   /* made by weft_fiber_new and not yet submitted */
    WEFT_FIBER_READY,     /* in a run queue */
    WEFT_FIBER_RUNNING,   /* on a worker */
    WEFT_FIBER_PARKED,    /* waits */
    WEFT_FIBER_DONE       /* returned; its value waits for a join */
};

/** Flags of weft_attr, beside WEFT_FPENV, WEFT_CXX and WEFT_MEASURE of weft/coro.h. */
enum {
    /* It may go on on another worker after any wait: it keeps nothing thread-local across one. */
    WEFT_MIGRATE = 1u << 8,
    /* Blocking calls of the system block its worker, also where libweft-hook is there (weft/hook.h). */
    WEFT_NO_HOOK = 1u << 9,
};

/** Worker n (from 0). weft_attr.worker binds a fiber to that worker; weft_sched_submit names it for one turn. */
#define WEFT_WORKER(n) ((int)(n) + 1)

/** How to run one fiber. NULL, or a zero field, means the default. */
typedef struct weft_attr {
    size_t size;         /* sizeof(weft_attr); 0 means the first release's size */
    const char *name;    /* for messages; copied, at most 31 bytes of it */
    size_t stack;        /* bytes of stack at least, 0: the scheduler's default; must be 0 with `shared` */
    weft_stacks *shared; /* run on one of these shared stacks; must outlive the fiber */
    int priority;        /* for weft_priority: 0 (default, the lowest) to 7 (the first to run) */
    weft_span cost;      /* for weft_sjf and weft_hrrn: how long it expects to run; 0: 1 ms */
    weft_time due;       /* for weft_edf: when it should have run; 0: never */
    int worker;          /* 0: any; WEFT_WORKER(n): this one, from its start to its end */
    unsigned flags;      /* WEFT_MIGRATE, WEFT_NO_HOOK, WEFT_FPENV, WEFT_CXX, WEFT_MEASURE; any other bit is -EINVAL */
} weft_attr;

#define WEFT_SITE_TEXT(line) #line
#define WEFT_SITE_LINE(line) WEFT_SITE_TEXT(line)
/** This line of this file, as a string: where a fiber was spawned. */
#define WEFT_SITE __FILE__ ":" WEFT_SITE_LINE(__LINE__)

/**
 * Starts fn(arg) as a fiber of the current scheduler (weft_sched_current). In a fiber this is the fiber's scheduler; on
 * a thread that is worker 0 of a scheduler (use_caller), it is that scheduler; elsewhere, the one that weft_run
 * started. The new fiber is detached: it is released when it ends. Call it as weft_go(fn, arg), a macro that passes the
 * line it stands on, for weft_dump.
 *
 * A thread is worker 0 of its use_caller scheduler from weft_sched_new to weft_sched_free, even while it does not work,
 * and even if a weft_run is under way on another thread. If that scheduler has no other worker, the fiber runs in the
 * next weft_sched_run or weft_sched_stop.
 *
 * Returns: 0, -EINVAL no fn, -ENXIO there is no runtime (call weft_run, or use weft_sched_go; the first such call of a
 *          process also prints a line on stderr), -ESHUTDOWN the scheduler is stopping and the caller is not one of its
 *          fibers, or it has stopped, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; `site` must live for ever
 */
WEFT_API int weft_go_at(const char *site, weft_fn *fn, void *arg);
#define weft_go(...) weft_go_at(WEFT_SITE, __VA_ARGS__) /* fn, arg */

/**
 * The same with attributes, and a handle in *out to join it by; with out NULL it is detached. Call it as
 * weft_go_with(out, attr, fn, arg).
 *
 * Returns: as weft_go; -EINVAL also for attributes that cannot be had: an unknown flag, a worker that the scheduler
 *          does not have, a stack that is too small or given together with `shared`, a priority outside 0 to 7, a
 *          negative cost; -EBUSY no shared stack of the pool can be used on that worker
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out until weft_join or weft_detach
 */
WEFT_API int weft_go_with_at(const char *site, weft_fiber **out, const weft_attr *attr, weft_fn *fn, void *arg);
#define weft_go_with(...) weft_go_with_at(WEFT_SITE, __VA_ARGS__) /* out, attr, fn, arg */

/**
 * Makes a fiber that no scheduler has yet (NEW). weft_sched_submit starts it. Call it as weft_fiber_new(out, attr, fn,
 * arg). attr->worker is not looked at: submit says which.
 *
 * Returns: 0, -EINVAL as weft_go_with, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out until weft_join or weft_detach
 */
WEFT_API int weft_fiber_new_at(const char *site, weft_fiber **out, const weft_attr *attr, weft_fn *fn, void *arg);
#define weft_fiber_new(...) weft_fiber_new_at(WEFT_SITE, __VA_ARGS__) /* out, attr, fn, arg */

/**
 * Waits for fiber `f` to end, takes its value (value may be NULL) and releases it.
 *
 * A fiber can be joined once, from a fiber or from a plain thread. After that f is nobody's: its memory may be the next
 * fiber's. To use f then is an error that release builds do not always notice. Debug builds (WEFT_DEBUG) remember the
 * last 512 fibers that are gone, and abort when a call gets the handle of such a fiber (except weft_policy_room and
 * weft_policy_attr).
 *
 * A thread that is a scheduler's worker 0 (weft_run, use_caller) runs no fiber while it waits outside a fiber. On such
 * a thread the call fails with -EDEADLK (WEFT_NOW: -EAGAIN) if it may be that only this thread can run f to its end.
 * There are two such cases:
 *  - The thread is the scheduler's only worker.
 *  - f belongs to worker 0, and f is bound to it, or is parked, or has no WEFT_MIGRATE. (f belongs to worker 0 once it
 *    has started there, and from the call that binds it to worker 0 or names worker 0 for it.)
 * In these cases call weft_sched_run first. weft_join does wait for a fiber that was not submitted yet. It also waits
 * for a ready fiber with WEFT_MIGRATE, because other workers may take that fiber.
 *
 * Returns: 0, -ETIMEDOUT past `deadline`, -EAGAIN not ended and WEFT_NOW, -ECANCELED the caller was cancelled (f is
 *          then still joinable), -EDEADLK f is the caller, or only the calling thread could run it, -EALREADY another
 *          caller is joining it, -ESRCH it was in the parent of a fork (weft/sched.h), -EINVAL f is NULL or detached
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    takes f on 0; leaves it on failure
 */
WEFT_API int weft_join(weft_fiber *f, void **value, weft_time deadline);

/**
 * Lets go of `f`: it is released when it ends, or now if it has ended or was never submitted.
 *
 * Returns: 0, -EALREADY somebody is joining it, or it was detached before (as far as that can be told: a detached fiber
 *          that has ended is gone), -ESRCH it was in the parent of a fork, -EINVAL f is NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    takes f on 0
 */
WEFT_API int weft_detach(weft_fiber *f);

/**
 * Asks `f` to end. The wait that f is in returns -ECANCELED, and so does every cancellation point that f reaches
 * later. Nothing is forced: locks and memory stay with the fiber, which is to clean up and return. A wait that was
 * already over keeps its result. A fiber whose clean-up has to wait opens a shield for it (weft_shield_begin).
 *
 * A cancellation point is every call of this library that can wait, and every hooked call that can wait (ECANCELED in
 * errno; docs/hooks.md lists the exceptions), also where the call would not have to wait now. -ECANCELED says that the
 * call has done nothing. A call of several steps checks at each step, and reports the part that is done
 * (weft_read_full, weft_write_all, weft_sendfile). Wrong arguments, -EINVAL for instance, are reported first. These are
 * not cancellation points:
 *
 *  - a call with WEFT_NOW (except weft_sched_stop, which may wait even then), or with a flag that says not to wait
 *    (MSG_DONTWAIT, SPLICE_F_NONBLOCK);
 *  - any call inside a shield;
 *  - a call that releases or announces something, which never fails because of a cancel: unlocks, weft_sem_post,
 *    weft_event_set, weft_waitgroup_done, weft_cond_signal, weft_chan_close, weft_close, weft_shutdown, weft_unpark,
 *    weft_detach, every call whose name ends in _free (for weft_scope_free see the next item);
 *  - weft_scope_wait, weft_scope_close and weft_scope_free: with -ECANCELED they report how the scope has ended, not
 *    that they have done nothing;
 *  - weft_cond_wait when it takes its mutex back, and weft_once_do once its function has returned;
 *  - calls that never wait (except weft_scope_try_go), and weft_yield and weft_checkpoint.
 *
 * The cancel stays (it is level-triggered): a fiber that ignores -ECANCELED gets it from its next cancellation point
 * again. Such a fiber still lets other fibers run.
 *
 * Returns: 0, -ESRCH it has ended, -EINVAL f is NULL
 * Context: fiber | any thread
 * Blocks:  never; tasks on noop that wait in scopes of f continue in this call
 * Owns:    nothing
 */
WEFT_API int weft_cancel(weft_fiber *f);

/**
 * Whether the calling fiber or task is cancelled now: for loops that reach no cancellation point.
 *
 * Returns: true if so; false on a plain thread outside of tasks
 * Context: task | fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API bool weft_cancelled(void);

/**
 * Begins a shield: until `deadline` no cancel ends the calling fiber's waits, whether the cancel came before the shield
 * or comes during it. A shield is for clean-up that has to wait. The usual need is to join a child:
 *
 *      int rc = weft_join(child, NULL, WEFT_FOREVER);
 *      if (rc == -ECANCELED) {                                 // we were cancelled, and the child uses our stack
 *          weft_cancel(child);
 *          int begun = weft_shield_begin(weft_in(5 * WEFT_SEC));
 *          rc = weft_join(child, NULL, WEFT_FOREVER);          // -ECANCELED: the child has ignored its cancel for 5 s
 *          if (begun == 0)
 *              weft_shield_end();                              // without a begin this would end a shield of our caller
 *      }
 *
 * The shield covers every cancellation point (weft_cancel), hooked calls included. It hides nothing: weft_cancelled()
 * stays true, and the cancel counts again after the shield.
 *
 * At its deadline the shield stops covering. If the fiber has been cancelled by then, a wait that is under way returns
 * -ECANCELED at that moment, and so does every later wait. If the fiber has not been cancelled, the wait goes on, and a
 * cancel ends it. A wait whose own deadline is not later than the shield's returns -ETIMEDOUT at its own deadline. A
 * shield whose deadline has already passed (or is WEFT_NOW) covers nothing.
 *
 * Shields nest. An inner shield cannot outlast the outer one: the earliest deadline of the open shields counts. So a
 * caller that allows a second for its clean-up gets a second, whatever functions it calls. When the inner shield ends,
 * the deadline of the outer one counts again. Each weft_shield_begin that returned 0 needs its weft_shield_end, even if
 * its deadline has passed. A fiber may end in a shield.
 *
 * Returns: 0, -EINVAL the deadline is WEFT_FOREVER (a shield may not keep a fiber alive for ever), -ENXIO not a fiber,
 *          or a task on noop inside a fiber, -ENOMEM (only inside another shield)
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_shield_begin(weft_time deadline);

/**
 * Ends the shield that the calling fiber began last. Without a shield it does nothing; a debug build prints a line.
 *
 * Returns: nothing
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API void weft_shield_end(void);

/** Kinds of causes. */
enum weft_cause_kind {
    WEFT_CAUSE_CALL = 1, /* weft_cancel, weft_scope_cancel, weft_task_cancel, or the grace of weft_scope_stop is over */
    WEFT_CAUSE_DEADLINE, /* the deadline of a scope */
    WEFT_CAUSE_FAILURE,  /* a child of the scope has failed; `code` is that child's error */
    WEFT_CAUSE_ENOUGH,   /* the scope needs no more: its policy says so, or it closes */
    WEFT_CAUSE_SHUTDOWN, /* the scheduler stops, or the task's executor was closed without drain */
    WEFT_CAUSE_HANGUP,   /* weft_cancel_on_hangup */
};

/** Why a fiber is cancelled. weft_cancel_cause says which cause counts if there are several. */
typedef struct weft_cause {
    size_t size;      /* sizeof(weft_cause); set it before the call, 0 means the first release's size */
    int kind;         /* enum weft_cause_kind */
    int code;         /* that of weft_scope_cancel or of the failed child, -ETIMEDOUT for a deadline, else -ECANCELED */
    const char *text; /* what the canceller said, or a short description; never NULL */
    uint64_t fiber;   /* the id of the fiber that caused the cancel; 0: a plain thread, the clock, or not known */
} weft_cause;

/**
 * Tells why the calling fiber, or the calling task (weft/task.h), is cancelled. A task that runs inside a fiber (noop)
 * and is not cancelled itself learns why that fiber is. If several cancels apply, the outermost cancel counts: a cancel
 * of the fiber itself counts before the cancel of a scope, and an outer scope counts before an inner scope. If the same
 * fiber or scope was cancelled more than once, its first cancel counts.
 *
 * Returns: 0, -ENOENT it is not cancelled, or the caller is a plain thread, -EINVAL no out, or its size is wrong
 * Context: task | fiber | any thread
 * Blocks:  never
 * Owns:    nothing; `text` lives as long as the scope that was cancelled; without such a scope, for ever
 */
WEFT_API int weft_cancel_cause(weft_cause *out);

/** How long all clean-up handlers of one scope together (or of one fiber together) may wait in a cancelled fiber. */
#define WEFT_DEFER_TIME (5 * WEFT_SEC)

/**
 * Adds a clean-up handler: fn(arg) runs in the calling fiber when the fiber closes its innermost open scope. If the
 * fiber has no open scope, fn(arg) runs when the fiber ends. Each handler runs once, after the children of the scope
 * have ended. The handler that was added last runs first. Handlers run in a shield of WEFT_DEFER_TIME, so they can wait
 * even if the fiber is cancelled. If the fiber closes the scope inside a shield that lasts longer, they run in that
 * shield.
 *
 * Returns: 0, -EINVAL no fn, -ENXIO not a fiber, or a task on noop inside a fiber, -ENOMEM (nothing was added: clean up
 *          at once)
 * Context: fiber
 * Blocks:  never
 * Owns:    nothing; `arg` must live until the handler has run
 */
WEFT_API int weft_defer(void (*fn)(void *arg), void *arg);

/**
 * Gives way: every fiber that is ready on this worker runs before the caller goes on (by the scheduler's policy). On a
 * plain thread it is sched_yield.
 *
 * Returns: nothing
 * Context: fiber | any thread
 * Blocks:  the fiber stays ready
 * Owns:    nothing
 */
WEFT_API void weft_yield(void);

/**
 * For code that computes long: gives way if the policy's time slice is used up (weft_rr), else returns at once. Every
 * other call of this library does the same, except those of weft/coro.h, fiber-local values, and letting go of a lock.
 *
 * Returns: nothing
 * Context: fiber | any thread
 * Blocks:  the fiber stays ready
 * Owns:    nothing
 */
WEFT_API void weft_checkpoint(void);

/**
 * Waits until somebody calls weft_unpark for the calling fiber; if somebody has since the last park, returns at once
 * and uses that up. There is no other reason to return 0.
 *
 * Returns: 0, -ETIMEDOUT, -EAGAIN no token and WEFT_NOW, -ECANCELED, -ENXIO not a fiber
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    nothing
 */
WEFT_API int weft_park(weft_time deadline);

/**
 * Lets `f` return from weft_park, now or the next time: it leaves at most one token.
 *
 * Returns: nothing; a fiber that has ended is left alone
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; f must not be released meanwhile
 */
WEFT_API void weft_unpark(weft_fiber *f);

/**
 * Waits for a length of time; at least that long. A span that is not positive is a yield. In a cancelled fiber the call
 * is a yield too, and fails.
 *
 * Returns: 0, -ECANCELED
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_sleep(weft_span d);

/**
 * Waits until a point in time. With WEFT_FOREVER only a cancel ends it. With WEFT_NOW it is a yield, and no
 * cancellation point.
 *
 * Returns: 0, -ECANCELED
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_sleep_until(weft_time t);

/**
 * The calling fiber.
 *
 * Returns: the fiber, or NULL on a plain thread
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; of a detached fiber it is valid until that ends
 */
WEFT_API weft_fiber *weft_fiber_current(void);

/**
 * A number that no other fiber of this process has or had; never 0.
 *
 * Returns: the id; 0 if f is NULL, so it may be asked of weft_fiber_current() anywhere
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API uint64_t weft_fiber_id(const weft_fiber *f);

/**
 * The name given in the attributes.
 *
 * Returns: the name, or "" if none was given or f is NULL; lives as long as the fiber
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_fiber_name(const weft_fiber *f);

/**
 * Where the fiber is in its life.
 *
 * Returns: the state; of one that other threads deal with, what it was a moment ago. WEFT_FIBER_NONE if f is NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API enum weft_fiber_state weft_fiber_state(const weft_fiber *f);

/**
 * When it was spawned, by the clock as the spawning worker last read it: earlier than that by as long as the spawning
 * fiber had computed without a wait.
 *
 * Returns: the time; 0 if f is NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API weft_time weft_fiber_born(const weft_fiber *f);

/**
 * Where it was spawned, as "file:line".
 *
 * Returns: a string that lives for ever; "" if f is NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_fiber_site(const weft_fiber *f);

/**
 * What a parked fiber waits for, and until when.
 *
 * Returns: "mutex", "sleep", "channel" and so on, with *until its deadline; "" if it is not parked, or f is NULL
 *          (*until is then WEFT_FOREVER; until may be NULL)
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; the string lives for ever
 */
WEFT_API const char *weft_fiber_waits_for(const weft_fiber *f, weft_time *until);

/**
 * The number of the worker that it is on.
 *
 * Returns: the number, from 0; -1 if f has not started and is not bound to a worker, if f has ended and its scheduler
 *          was freed, or if f is NULL
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_fiber_worker(const weft_fiber *f);

/** A key of fiber-local values. */
typedef struct weft_local {
    unsigned index;
} weft_local;

/**
 * Makes a key under which each fiber can keep a value of its own, NULL at first. Keys are for life. There are 128 keys;
 * libweft-hook takes one of them, or two with WEFT_HOOK_LOCKS.
 *
 * When a fiber ends, `destroy` (may be NULL) is called in it for each value that is not NULL, as long as destructors
 * set new ones at most four times over.
 *
 * Returns: 0, -EAGAIN all keys are in use, -EINVAL no out
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_local_new(weft_local *out, void (*destroy)(void *value));

/**
 * Sets the calling fiber's value of a key.
 *
 * Returns: 0, -ENXIO not a fiber, -EINVAL not a key, -ENOMEM
 * Context: fiber
 * Blocks:  never
 * Owns:    the fiber owns `value` if the key has a destructor
 */
WEFT_API int weft_local_set(weft_local key, void *value);

/**
 * The calling fiber's value of a key.
 *
 * Returns: the value; NULL if none was set, or if the caller is not a fiber
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API void *weft_local_get(weft_local key);

WEFT_END_DECLS

#endif
