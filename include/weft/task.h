/*
 * weft/task.h: tasks: functions that run on an executor (weft/executor.h), and whose result comes later.
 *
 *      static int fetch(void *arg, void **value) { ... *value = page; return 0; }          // or: return -ETIMEDOUT
 *
 *      weft_task *t;
 *      weft_task_start(&t, fetch, url, &(weft_task_opts){.on = pool, .destroy = free});
 *      ...
 *      void *page;
 *      int rc = weft_task_await(t, &page, weft_in(WEFT_SEC));
 *      weft_task_free(t);
 *
 * A task belongs to its executor: it starts there, and after every await it continues there, whatever thread ended the
 * wait. On a scheduler a task is a fiber. On any other executor it is a coroutine with a stack of its own:
 *
 *  - weft_task_await suspends the task. Its thread then does other work. On noop, thread and async the task may
 *    continue on another thread, like a fiber with WEFT_MIGRATE. So it must keep nothing thread-local, and hold no
 *    lock, across an await.
 *  - Every other call that waits blocks the task's thread.
 *  - Scopes, clean-up handlers (weft_defer) and shields belong to fibers. Such a task has none of them.
 *  - Its cancellation points are those of a fiber (weft_cancel in weft/fiber.h): await, and every other call of this
 *    library that can wait. Hooked calls are not among them. (A task on noop that runs inside a fiber has await only.
 *    In other calls that fiber waits, and a cancel of the task does not reach the fiber.)
 *  - If the executor cannot run the task after an await (no thread, no memory), the task continues on the thread that
 *    ended the wait, and await returns the executor's error.
 *
 * States:
 *
 *      start ──▶ QUEUED ──▶ RUNNING ──returns──▶ ENDING (callbacks run) ──▶ ENDED (awaits return)
 *                   └──cancelled or dropped: -ECANCELED──▲
 *
 * Errors. A task fails by returning a negative errno, and weft_fail adds a message. The message that weft_task_error
 * gives begins with the task's name, if it has one. A task that returns the code of the failed task that it awaited
 * last, without a weft_fail after that, inherits that task's message. So a task "fetch" that returns what its await of
 * a task "connect" returned has the message "fetch: connect: refused". A task that fails without any message has the
 * text of weft_strerror.
 *
 * fork(2): in the child the task that forked goes on. Other tasks that had not ended never end there: for these, await
 * returns -ESRCH, and weft_task_then, weft_task_catching and weft_task_finally add nothing and return NULL.
 *
 * Failure: a negative errno is returned, errno is never set, and an out pointer is untouched.
 */
#ifndef WEFT_TASK_H
#define WEFT_TASK_H

#include <weft/api.h>
#include <weft/executor.h>
#include <weft/fiber.h>
#include <weft/scope.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

typedef struct weft_task weft_task;

/** How a task failed. */
typedef struct weft_error {
    int code;            /* a negative errno; 0: it has not failed */
    const char *message; /* lives as long as the task; "" if it has not failed */
} weft_error;

/**
 * What a task runs. It returns 0 and sets *value (NULL at first), or fails with a negative errno. A positive number
 * counts as -EINVAL. The library ignores *value if the task fails.
 */
typedef int weft_task_fn(void *arg, void **value);

/** How to start a task. NULL, or a zero field, means the default. */
typedef struct weft_task_opts {
    size_t size;                  /* sizeof(weft_task_opts); 0 means the first release's size */
    const char *name;             /* for messages; copied */
    weft_executor *on;            /* NULL: the current scheduler; without a scheduler, as weft_executor_thread */
    bool owns_executor;           /* `on` is freed with the task: see weft_task_free */
    weft_scope *scope;            /* the task is a child of this scope: see weft_task_start; NULL: of no scope */
    void (*destroy)(void *value); /* called at the release, with a value that is not NULL and was not taken */
    const weft_attr *attr; /* on a scheduler: the fiber's. Elsewhere only `stack`, WEFT_FPENV and WEFT_MEASURE count */
} weft_task_opts;

/**
 * Starts fn(arg) as a task. The task inherits the context values of the caller (weft/context.h).
 *
 * With opts->scope (weft/scope.h) the task is a child of that scope, whatever executor it runs on. Its failure counts
 * as a child's failure. A cancel of the scope cancels the task, and the scope's close waits for the task and its
 * callbacks. The caller must be the scope's owner or one of its children. weft_stopping() tells such a task that the
 * scope is to stop. A task that is cancelled before its turn never runs: release `arg` in a weft_task_finally.
 *
 * Returns: 0, -ESHUTDOWN the executor is closed or the scheduler takes no more work, -EINVAL no out or fn, or invalid
 *          options; -ENOMEM, -EAGAIN no thread could be made, or the scope has no place (at_once); -ECANCELED the scope
 *          was cancelled, or is being closed, -EPERM the caller is neither the scope's owner nor a child, or what the
 *          executor's own execute returned
 * Context: fiber | any thread
 * Blocks:  never, unless the executor is noop: then for as long as the task runs without an await
 * Owns:    the caller owns *out until weft_task_free; the task owns opts->on on 0 if owns_executor says so
 */
WEFT_API int weft_task_start(weft_task **out, weft_task_fn *fn, void *arg, const weft_task_opts *opts);

/**
 * Waits for the end of the task and of its callbacks, and reads the task's value (`value` may be NULL). The value stays
 * the task's; any number of awaits may read it. After weft_task_take, awaits read NULL.
 *
 * If the task failed, await returns the task's code. await can also fail by itself. weft_task_error tells the two
 * apart: await has failed by itself if weft_task_error returns -EAGAIN (the task has not ended), or gives another code.
 *
 * Inside a callback of the same task the call returns at once.
 *
 * Returns: 0, the task's code; -ETIMEDOUT past `deadline`, -EAGAIN not ended and WEFT_NOW, -ECANCELED the caller was
 *          cancelled, -EDEADLK the task is the caller, or the task and the caller await each other in a ring, also
 *          one through weft_task_all, weft_task_any or weft_task_race (the caller then has a message that names the
 *          ring, as by weft_fail), or only the calling thread can run the task; -ESRCH the task was in the parent of a
 *          fork, -EINVAL t is NULL; if the caller's executor could not run the caller again: the executor's error
 * Context: task | fiber | any thread
 * Blocks:  the task | the fiber | the thread
 * Owns:    nothing; t must not be freed before the call returns
 */
WEFT_API int weft_task_await(weft_task *t, void **value, weft_time deadline);

/**
 * Moves the value out of a task that has ended. The value is then the caller's, and opts->destroy does not get it.
 *
 * Returns: 0, -EAGAIN it has not ended, -EALREADY it was taken before, -EINVAL no t or value, or the code of a task
 *          that failed
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    the caller owns *value on 0
 */
WEFT_API int weft_task_take(weft_task *t, void **value);

/**
 * How a task has failed: its code and its message.
 *
 * Returns: 0, -EAGAIN it has not ended, -EINVAL no t or out
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing; the message lives as long as the task
 */
WEFT_API int weft_task_error(const weft_task *t, weft_error *out);

/**
 * In a task: notes a message, printf-like, for a failure with `code`. The task then returns that code:
 *
 *      return weft_fail(-EIO, "%s: short page", host);
 *
 * Outside of tasks it only returns the code. Without memory the message is the text of weft_strerror.
 *
 * Returns: code
 * Context: task | fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * Adds a callback: fn(value, arg) is called once if the task succeeds. The value is lent to fn for the call.
 *
 * Callbacks (then, catching, finally) run in the order in which they were added. Callbacks that were added before the
 * task's end run on the thread that finishes the task, before any await returns. A callback that is added while others
 * run is appended to them. A callback that is added later runs at once, in this call. A callback may start, await,
 * cancel or free any task, its own included. It should not wait for long, because every await of the task waits for it
 * too. The callbacks of a cancelled task run inside that task, so their waits return -ECANCELED.
 *
 * Returns: t, so that calls can be chained; NULL if there was no memory (the first two callbacks need none), if t or fn
 *          is NULL, or if the task was in the parent of a fork and had not ended
 * Context: fiber | any thread
 * Blocks:  never, except in fn if the task has ended already
 * Owns:    nothing; arg is lent to fn
 */
WEFT_API weft_task *weft_task_then(weft_task *t, void (*fn)(void *value, void *arg), void *arg);

/**
 * Adds a callback: fn(error, arg) is called once if the task fails. The rest is as for weft_task_then.
 *
 * Returns: as weft_task_then
 * Context: fiber | any thread
 * Blocks:  never, except in fn if the task has ended already
 * Owns:    nothing; arg is lent to fn
 */
WEFT_API weft_task *weft_task_catching(weft_task *t, void (*fn)(const weft_error *error, void *arg), void *arg);

/**
 * Adds a callback: fn(arg) is called once when the task has ended, in success or failure. The rest is as for
 * weft_task_then.
 *
 * Returns: as weft_task_then
 * Context: fiber | any thread
 * Blocks:  never, except in fn if the task has ended already
 * Owns:    nothing; arg is lent to fn
 */
WEFT_API weft_task *weft_task_finally(weft_task *t, void (*fn)(void *arg), void *arg);

/**
 * Waits until all of n tasks have succeeded, or one has failed. The others are left alone. Inside a callback of one of
 * the tasks, that task counts as ended.
 *
 * Returns: 0, the code of the first task to fail; -ETIMEDOUT, -EAGAIN, -ECANCELED and -ESRCH as weft_task_await;
 *          -EDEADLK as weft_task_await for one of the tasks: also a ring through a single one, although another may
 *          fail first; -ENOMEM, -EINVAL a task is NULL, or there is no array
 * Context: task | fiber | any thread
 * Blocks:  the task | the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_task_all(weft_task **tasks, size_t n, weft_time deadline);

/**
 * Waits until one of n tasks has succeeded, or all have failed. The rest is as for weft_task_all.
 *
 * Returns: the index of the first task to succeed; the code of the last task to fail, if all have; -EDEADLK one of the
 *          tasks is the caller or needs the calling thread, or all that have not ended await the caller in rings;
 *          -EINVAL also for n 0; else as weft_task_all
 * Context: task | fiber | any thread
 * Blocks:  the task | the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_task_any(weft_task **tasks, size_t n, weft_time deadline);

/**
 * Waits until one of n tasks has ended. The rest is as for weft_task_all.
 *
 * Returns: the index of the first task to end, in success or failure; -EINVAL also for n 0; else as weft_task_any
 * Context: task | fiber | any thread
 * Blocks:  the task | the fiber | the thread
 * Owns:    nothing
 */
WEFT_API int weft_task_race(weft_task **tasks, size_t n, weft_time deadline);

/**
 * Asks a task to end. A task that has not begun never runs: it ends with -ECANCELED when its turn comes. A task that
 * has begun gets -ECANCELED from its current wait or the next, and from every later wait. The task should clean up and
 * return.
 *
 * Returns: 0, -ESRCH its function has returned, or it was in the parent of a fork, -EINVAL t is NULL
 * Context: fiber | any thread
 * Blocks:  never; a task on noop that waits continues in this call
 * Owns:    nothing
 */
WEFT_API int weft_task_cancel(weft_task *t);

/**
 * The calling task.
 *
 * In a callback that runs before the task's awaits return, this is the task that has ended.
 *
 * Returns: the task, or NULL outside of tasks; valid until the task's function, or the callback, returns
 * Context: task | fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API weft_task *weft_task_current(void);

/**
 * Lets go of a task. A task that has not ended goes on, and is released at its end. NULL does nothing.
 *
 * When a task is released, opts->destroy gets the value if it was not taken. Debug builds print a line if the task
 * failed (other than by a cancel) and no await, weft_task_error, catching or scope has seen the failure. A task that
 * outlives its handle is released at its end, inside its executor. There opts->destroy may free the executor, and
 * weft_executor_join returns -EDEADLK.
 *
 * An executor that the task owns is freed too. If the task has ended, the call waits for the executor's end, unless the
 * caller is inside that executor. If the task has not ended, the executor releases itself after the task's end.
 *
 * Returns: nothing
 * Context: fiber | any thread
 * Blocks:  never, except for the end of an executor that the task owns
 * Owns:    takes t
 */
WEFT_API void weft_task_free(weft_task *t);

WEFT_END_DECLS

#endif
