/*
 * weft/scope.h: scopes. A scope is a block that no child fiber outlives. It has one deadline and one failure policy for
 * all that runs in it.
 *
 *      int fetch_all(struct page *pages, int n)
 *      {
 *          WEFT_SCOPE(s, &(weft_scope_opts){.name = "fetch", .deadline = weft_in(2 * WEFT_SEC)}) {
 *              int started = 0;
 *              for (int i = 0; i < n && started == 0; i++)
 *                  started = weft_scope_go(&s, fetch, &pages[i]);
 *              int ended = weft_scope_wait(&s);    // 0, the first failure, or -ETIMEDOUT
 *              return ended != 0 ? ended : started;
 *          }                                       // every path out of the block cancels and joins what is left
 *          return 0;
 *      }
 *
 * Children. weft_scope_go, weft_scope_try_go, and weft_task_start with opts.scope start children. weft_go, timers and
 * watches inherit nothing: what they start is nobody's child. The owner is the fiber that opened the scope. The owner
 * and the children may start children, also after a wait, and also while the scope is asked to stop. A task
 * (weft/task.h) that is not a fiber starts children by weft_task_start. To give a child a name, a stack size or other
 * attributes, or to get a value from it, start it as a task. Only the owner may wait for the scope, as often as it
 * likes, and close the scope. Any thread may cancel the scope.
 *
 * Cancellation. A scope is cancelled by weft_scope_cancel, by its deadline, by its policy (the default cancels at the
 * first failure) and by its close. It is also cancelled with its owner, and with the scope around it. Then the waits
 * of its children return -ECANCELED, and so do the waits of its owner until the owner closes the scope. The cancel
 * reaches everything below: scopes that the children have opened, and their children. weft_cancel_cause (weft/fiber.h)
 * tells why. A success can cancel a scope too: under weft_until_success the first success does. weft_scope_wait then
 * returns 0, but other waits of the owner return -ECANCELED until the close. So close the scope before you go on.
 *
 * A scope absorbs its own cancel, and no other: once the scope is closed, its owner can wait again. The cancel of an
 * outer scope stays, and so does a weft_cancel of the fiber. If a scope has both its own and an outer cancel, the outer
 * cancel wins: weft_scope_wait and weft_scope_close return -ECANCELED.
 *
 * Shields. A scope that was opened inside a shield (weft_shield_begin) is sheltered: a cancel from outside the shield
 * does not cancel it or its children. So clean-up can run in parallel too. Until the shield's deadline no cancel ends
 * the owner's own waits, not even the deadline of a scope that was opened there. After that deadline the scope is still
 * sheltered, but the owner's waits are not. A stop of the scheduler cancels every fiber, children of sheltered scopes
 * too.
 *
 * Calls of this header take no deadline: the scope has a deadline. A wait inside costs the same with and without the
 * deadline. The deadline covers calls that take no deadline, hooked calls included. It cannot interrupt a call that has
 * begun on a helper thread (weft_offload). The close waits for such a call, and says so after a second.
 *
 * Memory. A scope lies in the caller's storage, and children leave nothing behind in it. After ten million children it
 * is as big as at its start. The first scope of a fiber allocates a small record for the fiber; later scopes use the
 * same record. A scope in which children have failed keeps a list of the first failures until it is closed.
 *
 * In the child of a fork, the scopes of the fiber that forked are open and hold no children. The scopes of other fibers
 * exist only in the parent: weft_scope_cancel, weft_scope_stop, weft_scope_counts and weft_scope_failures return -ESRCH
 * for them.
 *
 * Failure: a negative errno is returned, errno is never set, and an out pointer is untouched.
 */
#ifndef WEFT_SCOPE_H
#define WEFT_SCOPE_H

#include <weft/api.h>
#include <weft/fiber.h>
#include <weft/sync.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/**
 * A scope, in the caller's storage. It must not move between open and close, and must not lie on a shared stack. The
 * storage need not be cleared before the open. Calls on storage that was never opened notice that only if it is zero.
 */
typedef struct weft_scope {
    void *opaque[16];
} weft_scope;

/** What a child runs. It returns 0, or a negative errno: then it has failed. Here a positive value counts as 0. */
typedef int weft_job(void *arg);

/** How many children a scope has had, and how they ended. */
typedef struct weft_scope_tally {
    size_t size;      /* sizeof(weft_scope_tally); set it before weft_scope_counts, 0 means the first release's size */
    size_t started;   /* children so far */
    size_t live;      /* children that have not ended */
    size_t succeeded; /* children that ended with 0 */
    size_t failed;    /* children that ended with an error, except cancelled children that returned -ECANCELED */
    int error;        /* the first error, or 0 */
} weft_scope_tally;

/**
 * A policy decides when a scope has enough, and what its wait returns. Three policies come with the library. A policy
 * of your own is a table of two functions. `self` is the table, so a policy with data is a struct that begins with the
 * table.
 *
 * Both functions run while the scope is locked, on any thread, one call at a time for each scope. They must be short,
 * and must not call this library.
 */
typedef struct weft_scope_policy weft_scope_policy;
struct weft_scope_policy {
    size_t size;      /* sizeof(weft_scope_policy) */
    const char *name; /* for messages; must live as long as the policy */
    /* Called when a child has ended, unless the scope is cancelled already. Returns true if the scope has enough: then
     * it is cancelled. */
    bool (*enough)(const weft_scope_policy *self, const weft_scope_tally *so_far);
    /* Called by each wait, and by the close, when all children have ended. Returns what the wait or the close returns.
     * Not called if a call, a deadline or a cancel from outside has cancelled the scope: the result is then theirs. */
    int (*result)(const weft_scope_policy *self, const weft_scope_tally *all);
};

/** The default. The first failure cancels the other children, and wait returns it. Without a failure wait returns 0. */
extern WEFT_API const weft_scope_policy weft_until_failure;
/**
 * The first success cancels the others, and wait returns 0. Without a success wait returns the first failure, or
 * -ENOENT if no child has failed either.
 */
extern WEFT_API const weft_scope_policy weft_until_success;
/** A supervisor. Failures cancel nothing, and wait returns 0 when all have ended. weft_scope_failures lists them. */
extern WEFT_API const weft_scope_policy weft_until_all;

/** How to open a scope. NULL, or a zero field, means the default. */
typedef struct weft_scope_opts {
    size_t size;                     /* sizeof(weft_scope_opts); 0 means the first release's size */
    const char *name;                /* for messages; must live as long as the scope; default "" */
    const weft_scope_policy *policy; /* default weft_until_failure; must live as long as the scope */
    unsigned at_once;                /* the most children at a time; 0: any number */
    weft_time deadline;              /* when the scope is cancelled; 0 or WEFT_FOREVER: never. In the past: at once */
} weft_scope_opts;

/**
 * Opens a scope. Call it as weft_scope_open(s, opts), a macro that passes the line it stands on. A scope that is opened
 * in a cancelled fiber is cancelled from its start, unless a shield shelters it.
 *
 * Returns: 0, -EINVAL s is NULL or lies on a shared stack (use weft_scope_new), or the options are invalid, -ENXIO the
 *          caller is not a fiber (a task is a fiber only on a scheduler: a task on noop is not, even inside a fiber),
 *          -EBUSY the calling fiber has s open already, -ENOMEM
 * Context: fiber
 * Blocks:  never
 * Owns:    the calling fiber owns the scope until weft_scope_close; a fiber that ends with an open scope panics
 */
WEFT_API int weft_scope_open_at(const char *site, weft_scope *s, const weft_scope_opts *opts);
#define weft_scope_open(...) weft_scope_open_at(WEFT_SITE, __VA_ARGS__) /* s, opts */

/**
 * Opens a scope on the heap, for a fiber on a shared stack. Call it as weft_scope_new(out, opts).
 *
 * Returns: as weft_scope_open; -EINVAL also without out
 * Context: fiber
 * Blocks:  never
 * Owns:    the calling fiber owns *out until weft_scope_free
 */
WEFT_API int weft_scope_new_at(const char *site, weft_scope **out, const weft_scope_opts *opts);
#define weft_scope_new(...) weft_scope_new_at(WEFT_SITE, __VA_ARGS__) /* out, opts */

/**
 * Closes a scope of weft_scope_new and frees it.
 *
 * Returns: as weft_scope_close; on -EPERM, -EBUSY and -EALREADY nothing was closed or freed. 0 if s is NULL
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    takes s, except on -EPERM, -EBUSY and -EALREADY
 */
WEFT_API int weft_scope_free(weft_scope *s);

/**
 * Starts fn(arg) as a child: a fiber of the caller's scheduler. If the scope has at_once children already, the owner
 * waits until a child ends. A child never waits: if there is no place, its call fails with -EDEADLK, because children
 * that wait for each other's places would never end. Call it as weft_scope_go(s, fn, arg).
 *
 * A child that was started runs, also if the scope is cancelled before the child's turn: then its first wait returns
 * -ECANCELED. So a child may own `arg`. (A task may be cancelled before its turn, and then never runs.)
 *
 * Returns: 0, -ECANCELED the scope or the caller was cancelled, or the scope is being closed, -EPERM the caller is not
 *          a fiber, or is neither the owner nor a child, -EDEADLK there is no place and the caller is a child, -EINVAL
 *          s or fn is NULL, -ENOMEM
 * Context: fiber
 * Blocks:  the fiber, only with at_once
 * Owns:    nothing; `arg` must live until the child has ended, so it may be in the frame that closes the scope
 */
WEFT_API int weft_scope_go_at(const char *site, weft_scope *s, weft_job *fn, void *arg);
#define weft_scope_go(...) weft_scope_go_at(WEFT_SITE, __VA_ARGS__) /* s, fn, arg */

/**
 * Like weft_scope_go, but never waits for a place. Call it as weft_scope_try_go(s, fn, arg).
 *
 * Returns: as weft_scope_go; -EAGAIN there is no place (also for a child)
 * Context: fiber
 * Blocks:  never
 * Owns:    as weft_scope_go
 */
WEFT_API int weft_scope_try_go_at(const char *site, weft_scope *s, weft_job *fn, void *arg);
#define weft_scope_try_go(...) weft_scope_try_go_at(WEFT_SITE, __VA_ARGS__) /* s, fn, arg */

/**
 * Waits until every child has ended. If the scope is cancelled meanwhile, the wait goes on until its children have
 * ended. After a second it then names on stderr the children that ignore their cancel. A cancel of the owner, of an
 * outer scope, or of a scope that the owner has opened inside this one ends the wait at once; the close then waits.
 *
 * Returns: what the policy says (by default 0 or the first failure), -ETIMEDOUT the scope's deadline has cancelled it,
 *          -ECANCELED a call has cancelled it (weft_scope_cancel, or weft_scope_stop's grace is over), or another
 *          cancel has ended the wait; -EPERM the caller is not the owner, -EINVAL s is NULL or not open
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    nothing
 */
WEFT_API int weft_scope_wait(weft_scope *s);

/**
 * Cancels a scope, and everything below it. The first cancel counts: later ones change nothing. weft_cancel_cause
 * reports `code` (-ECANCELED if it is 0) and `text` to the cancelled fibers. `code` and `text` do not change what
 * weft_scope_wait returns.
 *
 * The scope must not be closed before this call has cancelled it. A child of the scope may call at any time. Another
 * thread, or a fiber outside, needs an agreement with the owner, for instance that the owner joins it before the close.
 * A close that begins because of this cancel waits for the end of the call.
 *
 * Returns: 0 (also if it was cancelled before), -EINVAL s is NULL, or code is positive, -ESRCH s was closed, and its
 *          storage is still there
 * Context: fiber | any thread
 * Blocks:  never; tasks on noop below the scope that wait continue in this call
 * Owns:    nothing; `text` (may be NULL) must live as long as the scope
 */
WEFT_API int weft_scope_cancel(weft_scope *s, int code, const char *text);

/**
 * Asks a scope to stop in two steps. First weft_stopping() becomes true, and weft_stop_event() is set, in the owner and
 * in everything below. After `grace` the scope is cancelled; a grace that is not positive cancels at once. The scope's
 * deadline still counts if it is earlier. A second call can only shorten the grace. The scope must not be closed before
 * this call has marked it, as for weft_scope_cancel.
 *
 * Returns: 0, -EINVAL s is NULL, -ESRCH s was closed, and its storage is still there
 * Context: fiber | any thread
 * Blocks:  never; without a grace as weft_scope_cancel
 * Owns:    nothing
 */
WEFT_API int weft_scope_stop(weft_scope *s, weft_span grace);

/**
 * Whether the calling fiber, or the calling task (weft/task.h), is asked to stop: a scope that the caller has open, or
 * a scope above the caller, is stopping. A loop that sees this finishes what has begun, and begins nothing new.
 *
 * Returns: true if so; false on a plain thread
 * Context: task | fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API bool weft_stopping(void);

/**
 * An event of the calling fiber. The library sets it when weft_stopping() becomes true, and resets it when the close
 * of the stopping scope makes weft_stopping() false again. Use it in weft_select and weft_event_wait.
 *
 * Returns: the event; NULL on a plain thread, or without memory
 * Context: fiber
 * Blocks:  never
 * Owns:    the fiber owns the event, which lives until the fiber ends. Wait for it; do not set or reset it
 */
WEFT_API weft_event *weft_stop_event(void);

/**
 * Closes a scope: cancels the children that are left, waits until all have ended, and runs the clean-up handlers
 * (weft_defer) that were added inside. No cancel ends this wait. After a second it names on stderr the children that
 * ignore their cancel. Then the scope absorbs its own cancel.
 *
 * The cancel of the children that are left is no failure: if nothing else went wrong, the close returns the policy's
 * result.
 *
 * Returns: as weft_scope_wait; -EPERM the caller is not the owner, -EBUSY a scope that was opened inside is still open,
 *          -EALREADY the caller is a clean-up handler of this close; on these three nothing was closed. -EINVAL s is
 *          NULL or not open
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    releases the scope: its storage is the caller's again
 */
WEFT_API int weft_scope_close(weft_scope *s);

/**
 * How many children there were, and how they ended.
 *
 * Returns: 0, -EINVAL s or out is NULL, or out->size is too small, -ESRCH s is not open
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing. The scope must not be closed meanwhile
 */
WEFT_API int weft_scope_counts(weft_scope *s, weft_scope_tally *out);

/** A child that failed. */
typedef struct weft_failure {
    int code;         /* what it returned */
    uint64_t fiber;   /* its id; 0: a task */
    const char *site; /* where it was started, "weft_task_start" for a task; lives for ever */
} weft_failure;

/**
 * Lists the children that failed, in the order of their ends. The scope keeps the first 64 (fewer without memory); the
 * tally's `failed` has the number of all.
 *
 * Returns: how many were written to out, at most `room`; -EINVAL s is NULL, or out is NULL and room is not 0,
 *          -ESRCH s is not open
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing. The scope must not be closed meanwhile
 */
WEFT_API ptrdiff_t weft_scope_failures(weft_scope *s, weft_failure *out, size_t room);

/**
 * Opens a scope for WEFT_SCOPE: as weft_scope_open, but panics if the open fails.
 *
 * Returns: s
 * Context: fiber
 * Blocks:  never
 * Owns:    as weft_scope_open
 */
WEFT_API weft_scope *weft_scope_enter_at(const char *site, weft_scope *s, const weft_scope_opts *opts);

/**
 * Closes a scope for WEFT_SCOPE: as weft_scope_close, but panics where that call returns -EPERM, -EBUSY or -EALREADY,
 * and does nothing if the block has closed the scope itself. The call prints a line on stderr if a child has failed,
 * the result is negative, and the owner has not called weft_scope_wait.
 *
 * Returns: nothing
 * Context: fiber
 * Blocks:  the fiber
 * Owns:    as weft_scope_close
 */
WEFT_API void weft_scope_leave(weft_scope *s);

/**
 * WEFT_SCOPE(s, opts) { ... }: opens a scope named s, which the block uses as &s, and closes it on every path out of
 * the block: its end, return, goto, break and continue. A failed open panics.
 *
 * What it cannot do:
 *  - `break` and `continue` leave the scope's block only, not a loop around it.
 *  - longjmp out of the block skips the close. So does a C++ exception that passes through C code which was compiled
 *    without -fexceptions. In C++ itself exceptions close the scope.
 *  - `return total;` evaluates total before the children are joined. Call weft_scope_wait first if they change it.
 *  - In C++ the options need a name: weft_scope_opts o{}; o.deadline = ...; WEFT_SCOPE(s, &o) { ... }
 *  - The value of the close is lost. Call weft_scope_wait to see failures. The close prints a line on stderr if a child
 *    has failed, the result is negative, and weft_scope_wait was not called.
 */
#define WEFT_SCOPE(s, ...)                                                                                             \
    for (weft_scope s __attribute__((cleanup(weft_scope_leave))),                                                      \
         *weft_scope_once_##s = weft_scope_enter_at(WEFT_SITE, &s, __VA_ARGS__);                                       \
         weft_scope_once_##s; weft_scope_once_##s = NULL)

WEFT_END_DECLS

#endif
