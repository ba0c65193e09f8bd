/*
 * weft/offload.h: calls that block a thread and cannot be made otherwise (a library's, a name lookup, a long computation),
 * made on a helper thread while the fiber waits and its worker runs others.
 *
 * Helpers are made when they are needed and end when they have had nothing to do for 5 s. There are at most 64, and each
 * kind of call has at most half of them (WEFT_OFFLOAD_CPU: no more than there are CPUs), so that one kind that hangs leaves
 * room for the others; weft_offload_limit changes that. Calls that find no helper wait in turn, first come first served
 * among those whose kind may have one.
 *
 * On a helper all signals are blocked, and it is a plain thread: what fn does with this library works as on any. fn must
 * return: neither pthread_exit nor an exception may leave it.
 *
 * At the end of the process idle helpers end too; one that is in a call does not hold it up. In the child of a fork there
 * are no helpers, and new ones are made as they are needed; a child forked by fn ends
 * when fn returns, by _exit(0).
 */
#ifndef WEFT_OFFLOAD_H
#define WEFT_OFFLOAD_H

#include <weft/api.h>
#include <weft/time.h>

WEFT_BEGIN_DECLS

/** What a call is like: each kind has a limit of its own. */
enum {
    WEFT_OFFLOAD_CALL = 0, /* any; weft_offload */
    WEFT_OFFLOAD_FILE = 1, /* waits for a disk; the calls of weft/file.h and of weft/io.h on files */
    WEFT_OFFLOAD_NET = 2,  /* waits for the network: name lookups, and weft_connect on a blocking descriptor */
    WEFT_OFFLOAD_CPU = 3,  /* waits for nothing, and computes */
    WEFT_OFFLOAD_ALL = 4   /* weft_offload_limit: all kinds together */
};

/** How to make a call. NULL, or a zero field, means the default. */
typedef struct weft_offload_opts {
    size_t size; /* sizeof(weft_offload_opts); 0 means the first release's size */
    int kind;    /* WEFT_OFFLOAD_CALL, ... */
    /*
     * Takes over what the caller gave and will not see again: called once for a call that returned -ETIMEDOUT or
     * -ECANCELED; on the helper when fn has ended, or by the caller (with value NULL) if fn is never going to run.
     */
    void (*drop)(void *arg, void *value);
    bool stays; /* once fn has begun its end is waited for, whatever comes: a failure says that fn has not run */
} weft_offload_opts;

/**
 * Runs fn(arg) on a helper thread and waits for its value (value may be NULL). On a plain thread without a deadline fn is
 * called right there.
 *
 * A call whose deadline passes, or whose fiber is cancelled, returns at once. If fn has not begun by then, fn never
 * runs. If fn has begun, the helper goes on to its end, and the value is thrown away. So `arg`, and all that fn uses,
 * must live until fn has ended: opts->drop of weft_offload_with tells when, and opts->stays waits for it.
 *
 * In a scope (weft/scope.h) a cancel does not leave fn behind: if the caller is a child of a scope, or has a scope
 * open, and there is no opts->drop, then a cancelled call whose fn has begun returns when fn has ended, with 0. So no
 * cancel lets fn outlive the close of the scope. The deadline of the call itself still leaves fn behind.
 *
 * Returns: 0, -ETIMEDOUT, -ECANCELED, -EAGAIN there is no thread to be had, or WEFT_NOW (fn does not run), -ENOMEM,
 *          -EINVAL no fn
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    nothing; arg is lent to fn until that returns, and must not lie on a shared stack
 */
WEFT_API int weft_offload(weft_fn *fn, void *arg, void **value, weft_time deadline);

/**
 * The same with options.
 *
 * Returns: as weft_offload; -EINVAL also for a kind that does not exist
 * Context: fiber | any thread
 * Blocks:  the fiber | the thread
 * Owns:    with opts->drop: takes arg on -ETIMEDOUT and -ECANCELED, and leaves it otherwise; without: as weft_offload
 */
WEFT_API int weft_offload_with(const weft_offload_opts *opts, weft_fn *fn, void *arg, void **value, weft_time deadline);

/**
 * Sets how many helpers there may be for one kind of call, or for all together (WEFT_OFFLOAD_ALL); 0: the default. Fewer
 * than there are: those that are in a call finish it.
 *
 * Returns: 0, -EINVAL a kind that does not exist, or more than 1024
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_offload_limit(int kind, unsigned most);

/** What weft_offload_stats reports. */
typedef struct weft_offload_figures {
    size_t size;      /* sizeof(weft_offload_figures), set by the caller */
    unsigned threads; /* helpers that there are */
    unsigned busy;    /* of them, in a call */
    size_t queued;    /* calls that wait for a helper */
} weft_offload_figures;

/**
 * Counts helpers and calls.
 *
 * Returns: 0, -EINVAL no out, or a size of 0
 * Context: fiber | any thread
 * Blocks:  never
 * Owns:    nothing
 */
WEFT_API int weft_offload_stats(weft_offload_figures *out);

WEFT_END_DECLS

#endif
