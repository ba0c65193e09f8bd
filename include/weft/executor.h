/*
 * weft/executor.h: executors: where functions and tasks (weft/task.h) run.
 *
 * An executor is a table of a few functions. The library has five of them, and a program may write its own:
 *
 *      noop     the caller runs the function; a task that awaited continues on the thread that finished the wait
 *      thread   each function, and each continuation of a task, gets a new thread
 *      async    a bounded pool of threads, which grows and shrinks
 *      looper   one thread, made with the executor, that runs functions in the order of their arrival
 *      sched    the fibers of a scheduler, on any of its workers or on a certain worker
 *
 * Life:
 *
 *      new ──▶ OPEN ──close──▶ CLOSED ──the last function and task have ended──▶ OVER ──join──▶ its threads have ended
 *
 * OPEN takes new work. CLOSED refuses new work with -ESHUTDOWN. Its tasks go on to their end, and still continue on the
 * executor after every await. OVER has no function and no task left; only the at_exit of a looper still runs.
 *
 * Threads of the executors thread and async are named weft_thread and weft_async. A looper's thread has the name that
 * weft_executor_looper was given, or else weft_looper. All these threads block all signals. A function that runs on
 * such a thread must return: neither pthread_exit nor an exception may leave it.
 *
 * fork(2): in the child, executors that have threads (thread, async, looper) are closed and over, because their threads
 * exist only in the parent. If a function of such an executor forks, the child ends by _exit(0) when the function
 * returns.
 *
 * Failure: a negative errno is returned, errno is never set, and an out pointer is untouched.
 */
#ifndef WEFT_EXECUTOR_H
#define WEFT_EXECUTOR_H

#include <weft/api.h>
#include <weft/sched.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

typedef struct weft_executor weft_executor;

/** Flags of weft_executor_ops. */
enum {
    /* One thread runs all functions, one after another. A function that awaits a task of the executor gets -EDEADLK. */
    WEFT_EXECUTOR_SERIAL = 1u << 0,
};

/**
 * The functions of an executor that a program writes. Each but `execute` may be NULL.
 *
 * The library counts the functions and tasks that it gives to `execute`. So the table needs no states: the library
 * calls `close` once, when the executor was closed and none of them is left.
 */
typedef struct weft_executor_ops {
    size_t size;      /* sizeof(weft_executor_ops) */
    const char *name; /* for messages; must live as long as the executor */
    unsigned flags;   /* WEFT_EXECUTOR_SERIAL */
    /*
     * Arranges one call of fn(arg), now or later, on any thread. Must not block. Returns 0, or a negative errno if fn
     * will not be called. Any thread may call execute, also inside a function that the executor runs. As soon as
     * another thread can call fn, self may be released. So an execute that queues fn wakes up a thread before it
     * unlocks the queue, and does not touch self after the unlock.
     */
    int (*execute)(void *self, void (*fn)(void *), void *arg);
    /*
     * Called once, after the executor was closed and its last function and task have ended. The call may come from
     * inside an fn that execute took, before that fn returns. Tells the executor's threads to end. Must not block.
     */
    void (*close)(void *self);
    /*
     * Waits until the executor's threads have ended. Returns 0, -ETIMEDOUT, -EAGAIN (WEFT_NOW) or -ECANCELED. Called
     * after close, and never inside a function or a task of the executor. May be called again after a failure.
     */
    int (*join)(void *self, weft_time deadline);
    /*
     * Releases self. This is the last call of the table. If the program freed the executor inside one of the executor's
     * own functions, the library has not called join, and may call free on a thread of the executor. free must then
     * leave self to that thread, which releases it as its last act.
     */
    void (*free)(void *self);
} weft_executor_ops;

/**
 * Makes an executor from a table of functions. The table is copied.
 *
 * Returns: 0, -EINVAL no out, no ops or no execute, or an invalid size; -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out until weft_executor_free; the executor owns self on 0
 */
WEFT_API int weft_executor_new(weft_executor **out, const weft_executor_ops *ops, void *self);

/**
 * An executor that has no thread: the caller runs the function before weft_executor_execute returns.
 *
 * A task on it runs in weft_task_start up to its first await that has to wait. Then weft_task_start returns. The task
 * continues on the thread that ends the wait, before that thread goes on with anything else. This is the thread that
 * ends the awaited task, or the thread that calls weft_task_cancel. If a worker or the clock ends the wait (the
 * deadline of the await or of a scope, a hang-up, the failure of another child that is a fiber), the task continues on
 * a new thread.
 *
 * Returns: 0, -EINVAL no out, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out until weft_executor_free
 */
WEFT_API int weft_executor_noop(weft_executor **out);

/**
 * An executor that makes a thread for each function, and for each continuation of a task.
 *
 * Returns: 0, -EINVAL no out, -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out until weft_executor_free
 */
WEFT_API int weft_executor_thread(weft_executor **out);

/**
 * A pool of at most max_threads threads (0: twice the number of CPUs, at least 4). If no thread is idle when a function
 * arrives, the pool makes a thread. A thread ends after a second without work. Functions begin in the order of their
 * arrival.
 *
 * Returns: 0, -EINVAL no out, or more than 1024 threads; -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out until weft_executor_free
 */
WEFT_API int weft_executor_async(weft_executor **out, unsigned max_threads);

/**
 * One thread, made by this call, that runs functions in the order of their arrival, with no lock held. When the
 * executor is over, the loop ends, and at_exit(arg) runs on the executor's thread (at_exit may be NULL).
 *
 * Returns: 0, -EINVAL no out, -ENOMEM, -EAGAIN no thread could be made
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out until weft_executor_free; `name` (for the thread; may be NULL) is copied
 */
WEFT_API int weft_executor_looper(weft_executor **out, const char *name, void (*at_exit)(void *), void *arg);

/**
 * The fibers of scheduler `s`: each function and each task is a fiber of it. `worker` is 0 for any worker, or
 * WEFT_WORKER(n) for a certain worker, to which these fibers are then bound.
 *
 * The executor uses the scheduler, and does not stop or free it. Free the executor first. A scheduler that is freed
 * and never ran drops its fibers; the executor's functions and tasks among them then never run and never end.
 *
 * Returns: 0, -EINVAL no out or s, or no such worker; -ENOMEM
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *out until weft_executor_free; s must outlive it
 */
WEFT_API int weft_executor_sched(weft_executor **out, weft_sched *s, int worker);

/**
 * Runs fn(arg) once on the executor. A function of the same executor may make this call too.
 *
 * Returns: 0, -ESHUTDOWN the executor is closed, -EINVAL no x or fn, -ENOMEM, -EAGAIN no thread could be made, or
 *          what the executor's own execute returned
 * Context: fiber | any thread
 * Blocks:  never, unless the executor is noop: then for as long as fn runs
 * Owns:    nothing; arg is lent to fn
 */
WEFT_API int weft_executor_execute(weft_executor *x, void (*fn)(void *), void *arg);

/**
 * Closes an executor: from now on it refuses new functions and tasks.
 *
 * With `drain`, everything that the executor has taken still runs. Without `drain`, functions that have not begun are
 * dropped, and are never called. Tasks that have not begun end with -ECANCELED, and their callbacks run in this call.
 * Tasks that have begun are cancelled (weft_task_cancel): their awaits return -ECANCELED.
 *
 * After a close with drain, a second close without drain is allowed. It drops and cancels what is left.
 *
 * Returns: 0, -EALREADY it was closed before, -EINVAL x is NULL
 * Context: fiber | any thread, also inside a function of the executor
 * Blocks:  never, except in the callbacks of tasks that it drops; tasks on noop that wait continue in this call
 * Owns:    nothing
 */
WEFT_API int weft_executor_close(weft_executor *x, bool drain);

/**
 * Waits until the executor is closed, everything that it had taken has ended, and its threads have ended.
 *
 * Returns: 0, -ETIMEDOUT, -EAGAIN with WEFT_NOW it would have to wait, -ECANCELED, -EDEADLK called in a function or a
 *          task of this executor, or on a thread that the library made for it, or only the calling thread, which is in
 *          no fiber, can run what is left (it is its scheduler's only worker); -EINVAL x is NULL, or what the
 *          executor's own join returned
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_executor_join(weft_executor *x, weft_time deadline);

/**
 * Closes the executor without drain, waits for its end and releases it. NULL does nothing. This drops what has not
 * begun, even after a close with drain. To let everything run, call weft_executor_join first. A function that has
 * begun, and a task that ignores its cancel, hold up the call.
 *
 * Where weft_executor_join would return -EDEADLK (inside a function or a task of the executor, on its threads, that is
 * in at_exit or in a task on noop that continues there, or on the only worker of its scheduler), the call closes it and
 * returns at once; the executor releases itself when it is over.
 *
 * Returns: 0
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread; never where weft_executor_join would return -EDEADLK
 * Owns:    takes x
 */
WEFT_API int weft_executor_free(weft_executor *x);

/**
 * The name of the executor's kind, or the name in its table.
 *
 * Returns: "noop", "thread", "async", "looper", "sched", or the table's name; "" if x is NULL or the table has no name
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_executor_name(const weft_executor *x);

WEFT_END_DECLS

#endif
