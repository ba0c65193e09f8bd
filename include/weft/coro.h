/*
 * weft/coro.h: raw coroutines. No scheduler, no threads, no set-up call: make one, resume it, and it runs on a stack
 * of its own until it yields or returns.
 *
 * weft_coro_yield() gives control back to whoever resumed the coroutine.
 *
 * States:
 *
 *      new, reset ──▶ READY ──resume──▶ RUNNING ──return──▶ DONE ──reset──▶ READY
 *                       ▲                  │
 *                       └─ yield, transfer ┘
 *
 * A coroutine that waits for one that it resumed is RUNNING.
 *
 * Threads: a coroutine belongs to no thread. Any thread may resume it, one at a time, if nothing runs it and the last
 * yield happens before the resume (a mutex, a join, a queue between them). After such a move thread-local data is the
 * new thread's, but the compiler may have kept the address of the old thread's (errno among them) in a register across
 * the yield: code that moves must not touch thread-local data before and after a yield in the same function.
 *
 * Signal masks and floating-point control words belong to the thread (see WEFT_FPENV).
 *
 * Signals: the first coroutine of a process installs a handler for SIGSEGV, and the first of a thread an alternate signal
 * stack if the thread has none. A fault in the guard below the running coroutine's stack, or further below in the mapping
 * that the stack is part of, prints one line that names the coroutine and what to raise, and then the process dies of it
 * as it would have. Any other fault goes to whoever handled SIGSEGV before; if that handler did not ask for the signal
 * stack (SA_ONSTACK), it is put back in our place. Then, and when a handler is installed later, overflows are silent.
 * If the fault and the stack pointer are both within 64 MiB below the stack, a line first says that this looks like an
 * overflow: a single frame may have been large enough to leave the mapping.
 *
 * "Panics" means: one line on standard error that says what to do, then abort(). A coroutine that is used after it was
 * freed is undefined behaviour, and panics while its memory waits for the next one. Debug builds are those made with
 * -DWEFT_DEBUG=ON.
 *
 * Ends: a thread that ends inside a coroutine (pthread_exit, cancellation) leaves it, and those that wait for it, DONE.
 * In a fiber pthread_exit is another matter: see weft/fiber.h.
 * longjmp must not leave a coroutine. No function here may be called in a signal handler. After fork the child goes on
 * with all coroutines as they were, but those that other threads ran never go on.
 *
 * Failure: a negative errno is returned, errno is never set, and an out pointer is untouched.
 */
#ifndef WEFT_CORO_H
#define WEFT_CORO_H

#include <weft/api.h>
#include <weft/cxx.h>
#include <weft/stack.h>

WEFT_BEGIN_DECLS

typedef struct weft_coro weft_coro;

/** Where a coroutine is in its life; see the picture above. Write `enum`: weft_coro_state() has the same name. */
enum weft_coro_state {
    WEFT_CORO_NONE = -1,   /* of NULL */
    WEFT_CORO_READY = 1,   /* never resumed, or yielded: may be resumed */
    WEFT_CORO_RUNNING = 2, /* runs, or waits for one that it resumed */
    WEFT_CORO_DONE = 3     /* returned from its function: may be reset or freed */
};

/** Flags of weft_coro_opts. */
enum {
    /* It keeps its own floating-point control words (rounding, traps, flush to zero); at first those of the thread that
     * makes or resets it. */
    WEFT_FPENV = 1u << 0,
    /* It keeps its own C++ exception state. C++ callers of weft_coro_new get it unasked; for C callers it takes effect
     * once any C++ code has called weft_coro_new. */
    WEFT_CXX = 1u << 1,
    /* It starts on untouched memory, so that weft_coro_stack_used() is its own mark. */
    WEFT_MEASURE = 1u << 2,
};

/** How to make a coroutine. NULL options, or a zero field, mean the default. */
typedef struct weft_coro_opts {
    size_t size;  /* sizeof(weft_coro_opts); 0 means the first release's size; with a larger one than the library
                            knows, the bytes beyond must be zero */
    size_t stack; /* bytes of stack at least, 0: WEFT_STACK_DEFAULT; rounded up, as stacks come in four sizes to a
                            doubling; less than WEFT_STACK_MIN is -EINVAL; must be 0 with `shared` */
    weft_stacks *shared; /* run on one of these shared stacks instead of a private one; must outlive the coroutine */
    const char *name;    /* for messages; copied */
    void *user;          /* yours; see weft_coro_user() */
    unsigned flags;      /* WEFT_FPENV, WEFT_CXX, WEFT_MEASURE; any other bit is -EINVAL */
} weft_coro_opts;

#ifndef __cplusplus
/**
 * Makes a coroutine that will run fn(arg). Nothing runs yet.
 *
 * Pass NULL options for the defaults. Compiled as C++ this is an inline function that adds what WEFT_CXX needs. An
 * exception that leaves fn ends the program: a line names the coroutine, then std::terminate is called.
 *
 * Returns: 0, -EINVAL (no fn or out, unknown flag, stack too small, stack given together with shared, options of a
 *          size that cannot be read), -ENOMEM
 * Context: any thread, coroutines included
 * Blocks:  never
 * Owns:    the caller owns *out and releases it by weft_coro_free; `name` is copied
 */
WEFT_API int weft_coro_new(weft_coro **out, weft_fn *fn, void *arg, const weft_coro_opts *opts);
#endif

/**
 * weft_coro_new with WEFT_CXX, given the C++ runtime's __cxa_get_globals: what weft_coro_new is in C++.
 *
 * Returns: as weft_coro_new
 * Context: any thread, coroutines included
 * Blocks:  never
 * Owns:    as weft_coro_new
 */
WEFT_API int weft_coro_new_cxx(weft_coro **out, weft_fn *fn, void *arg, const weft_coro_opts *opts,
                               void *(*eh_globals)(void));

/**
 * Runs `c` until it yields or ends, and stores what it yielded or returned in *value (value may be NULL).
 *
 * `in` is what the yield that `c` waits in returns; the first resume has no such yield and `in` is dropped. If `c`
 * transfers, result and value are those of the coroutine that control comes back from: ask weft_coro_state(c).
 *
 * Returns: 1 it yielded, 0 it ended, -ESRCH it had ended before, -EDEADLK it is the caller or waits for the caller,
 *          -EBUSY another thread runs it or uses its shared stack (exact in debug builds; in release builds best effort,
 *          as the check is a plain load), -ENOMEM no memory to save what is on its shared stack, -EINVAL c is NULL
 * Context: any thread, coroutines included
 * Blocks:  until `c` yields or ends
 * Owns:    nothing changes hands
 */
WEFT_API int weft_coro_resume(weft_coro *c, void *in, void **value);

/**
 * Gives control and `out` back to whoever resumed the calling coroutine, and waits to be resumed again.
 *
 * Outside any coroutine there is nobody to give it to: panics.
 *
 * Returns: what the next resume or transfer passes in
 * Context: coroutine
 * Blocks:  the coroutine, until it is resumed
 * Owns:    nothing changes hands
 */
WEFT_API void *weft_coro_yield(void *out);

/**
 * Switches from the calling coroutine straight to `to`: the caller becomes READY, and `to` inherits its resumer, so
 * that control returns there when `to` yields or ends. On a thread's own stack it is weft_coro_resume.
 *
 * `in` is what the yield or transfer that `to` waits in gives; if `to` was never resumed it is dropped. What the next
 * resume of the caller, or transfer to it, passes in is stored in *value (value may be NULL).
 *
 * Returns: 1 the caller was resumed again (on a thread's own stack: as weft_coro_resume); else as weft_coro_resume
 * Context: any thread, coroutines included
 * Blocks:  the coroutine, until it is resumed
 * Owns:    nothing changes hands
 */
WEFT_API int weft_coro_transfer(weft_coro *to, void *in, void **value);

/**
 * Makes a coroutine that is DONE, or was never resumed, READY to run fn(arg) on the same stack, under a new id.
 * Name, user pointer and flags stay.
 *
 * Returns: 0, -EBUSY it is under way, -EINVAL no c or fn
 * Context: any thread, coroutines included
 * Blocks:  never
 * Owns:    nothing changes hands
 */
WEFT_API int weft_coro_reset(weft_coro *c, weft_fn *fn, void *arg);

/**
 * Releases a coroutine. One that has not ended is never run again: what its function holds (memory, locks, C++ objects)
 * is not released. NULL is allowed and does nothing.
 *
 * Returns: 0, -EBUSY it is RUNNING, or another thread uses its shared stack
 * Context: any thread, coroutines included
 * Blocks:  never
 * Owns:    takes c on 0
 */
WEFT_API int weft_coro_free(weft_coro *c);

/**
 * The innermost coroutine that the calling thread runs.
 *
 * Returns: the coroutine, or NULL on a thread's own stack
 * Context: any thread, coroutines included
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API weft_coro *weft_coro_current(void);

/**
 * A number that no other coroutine of this process has or had; never 0. reset gives a new one.
 *
 * Returns: the id; 0 if c is NULL, so it may be asked of weft_coro_current() anywhere
 * Context: any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API uint64_t weft_coro_id(const weft_coro *c);

/**
 * Where the coroutine is in its life.
 *
 * Returns: the state; of a coroutine that another thread runs, what it was a moment ago. WEFT_CORO_NONE if c is NULL
 * Context: any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API enum weft_coro_state weft_coro_state(const weft_coro *c);

/**
 * The name given in the options.
 *
 * Returns: the name, or "" if none was given or c is NULL; lives as long as the coroutine
 * Context: any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API const char *weft_coro_name(const weft_coro *c);

/**
 * The user pointer given in the options.
 *
 * Returns: the pointer, or NULL if none was given or c is NULL
 * Context: any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API void *weft_coro_user(const weft_coro *c);

/**
 * How many coroutines there are in this process: made by weft_coro_new, in fibers too, and not yet freed. Fibers are
 * not coroutines in the sense of this header (weft_coro_current is NULL in a fiber), and are not counted:
 * weft_sched_stats counts them.
 *
 * Returns: the count; exact when no other thread is making or freeing one meanwhile
 * Context: any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API size_t weft_coro_count(void);

/**
 * The most bytes of stack that were ever used, found by reading the stack from its far end.
 *
 * With WEFT_MEASURE this is the coroutine's own mark. Without it the stack may carry marks of coroutines that used it
 * before, so it is an upper bound. A reset keeps the mark. If the coroutine calls weft_stack_release, a new mark
 * begins. For a coroutine on a shared stack the result is the most that was live whenever another coroutine needed the
 * stack. If the coroutine is suspended and more is live now, that is the result.
 *
 * Returns: bytes; 0 if c is NULL
 * Context: any thread, while no other thread runs `c`
 * Blocks:  never (it reads the unused part of the stack: microseconds, or more if that is large)
 * Owns:    nothing
 */
WEFT_API size_t weft_coro_stack_used(const weft_coro *c);

WEFT_END_DECLS

#ifdef __cplusplus
/** weft_coro_new for C++: an exception may be in flight, or being handled, at any switch. */
inline int weft_coro_new(weft_coro **out, weft_fn *fn, void *arg, const weft_coro_opts *opts)
{
    return weft_coro_new_cxx(out, fn, arg, opts, reinterpret_cast<void *(*)(void)>(&__cxxabiv1::__cxa_get_globals));
}
#endif

#endif
