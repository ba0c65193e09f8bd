/*
 * hook/exit.c: pthread_exit and thrd_exit end the calling fiber alone, as they end a thread: its stack is unwound, so
 * that destructors of C++ and cleanup handlers run, and weft_join gets the value.
 *
 * Handlers of pthread_cleanup_push are of two kinds. Where exceptions are compiled in (C++, C with -fexceptions) they
 * belong to their frame, and the unwinder runs them. In other C code each is a jump buffer in its frame, and the C
 * library links those buffers in a list of the thread: fibers that take turns on a thread would mix theirs up. So a
 * fiber has a list of its own here. The unwinder jumps to a buffer when it has passed the frame that the buffer lies
 * in; the code there runs the handler and calls __pthread_unwind_next, which unwinds on from there.
 *
 * In a raw coroutine, in a signal handler and where the hooks are off all of this is the C library's, and pthread_exit
 * in a fiber then is a panic of libweft's.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>
#include <unwind.h>

#include <weft/coro.h>
#include <weft/fiber.h>

#include "hook/real.h"
#include "hook/wait.h"

#define EXIT_CLASS 0x5745465445584954u /* "WEFTEXIT": not 0, which is the C library's and which libweft panics at */

/* Whose list a buffer is in; the C library does not use that word. */
#define OURS(buffer) ((buffer)->__pad[3])
#define PREVIOUS(buffer) ((buffer)->__pad[0])

/* What a fiber has of its own. owner: the fiber */
struct ending {
    __pthread_unwind_buf_t *last;       /* the handler that was pushed last; NULL: none */
    struct _Unwind_Exception exception; /* not on the stack: the frames of pthread_exit are gone while a handler runs */
    void *value;
};

static weft_local key; /* const after make_key */
static bool has_key;   /* const after make_key: the hooks are on */

/* At the start: the program may take all that are left. */
__attribute__((constructor(102))) static void make_key(void)
{
    has_key = wf_hooks_on && weft_local_new(&key, free) == 0;
}

/* Whether the caller is in a fiber's own function, and its to end. */
static bool is_in_a_fiber(void)
{
    return wf_hooked_here() && !weft_coro_current() && wf_may_wait();
}

/* The calling fiber's; NULL: no memory. */
static struct ending *ending_here(void)
{
    if (!has_key)
        return NULL;
    struct ending *e = weft_local_get(key);
    if (e)
        return e;
    int kept = errno;
    e = calloc(1, sizeof *e);
    errno = kept;
    if (e && weft_local_set(key, e) != 0) {
        free(e);
        e = NULL;
    }
    return e;
}

/* ---- the handlers ---- */

HOOK void __pthread_register_cancel(__pthread_unwind_buf_t *buffer);
HOOK void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer);
HOOK void __pthread_register_cancel_defer(__pthread_unwind_buf_t *buffer);
HOOK void __pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buffer);
HOOK void __pthread_unwind_next(__pthread_unwind_buf_t *buffer) __attribute__((noreturn));

/* false: it is for the C library's list. */
static bool push(__pthread_unwind_buf_t *buffer)
{
    struct ending *e = unlikely(is_in_a_fiber()) ? ending_here() : NULL;
    OURS(buffer) = e;
    if (!e)
        return false;
    PREVIOUS(buffer) = e->last;
    e->last = buffer;
    return true;
}

static bool pop(const __pthread_unwind_buf_t *buffer)
{
    struct ending *e = OURS(buffer);
    if (e)
        e->last = PREVIOUS(buffer);
    return e != NULL;
}

HOOK void __pthread_register_cancel(__pthread_unwind_buf_t *buffer)
{
    if (!push(buffer))
        wf_real.__pthread_register_cancel(buffer);
}

HOOK void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer)
{
    if (!pop(buffer))
        wf_real.__pthread_unregister_cancel(buffer);
}

/* The same, and a thread is not cancelled asynchronously meanwhile: which a fiber never is. */
HOOK void __pthread_register_cancel_defer(__pthread_unwind_buf_t *buffer)
{
    if (!push(buffer))
        wf_real.__pthread_register_cancel_defer(buffer);
}

HOOK void __pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buffer)
{
    if (!pop(buffer))
        wf_real.__pthread_unregister_cancel_restore(buffer);
}

/* ---- the unwinding ---- */

/* Goes to the code that runs the handler which was pushed last. */
static __attribute__((noreturn)) void run_last(struct ending *e)
{
    __pthread_unwind_buf_t *buffer = e->last;
    e->last = PREVIOUS(buffer);
    wf_real.longjmp((struct __jmp_buf_tag *)buffer->__cancel_jmp_buf, 1);
    __builtin_unreachable();
}

/*
 * Called at each frame, before what the frame itself has to do. The frame's stack pointer tells whether the one with
 * the buffer has been left. At the end of the stack (or where the unwinder knows nothing of a frame) the remaining
 * handlers run.
 */
static _Unwind_Reason_Code at_frame(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                    struct _Unwind_Exception *exception, struct _Unwind_Context *context, void *arg)
{
    struct ending *e = arg;
    bool at_end = actions & _UA_END_OF_STACK;
    (void)version, (void)class, (void)exception;
    if (e->last && (at_end || (uintptr_t)_Unwind_GetCFA(context) > (uintptr_t)e->last))
        run_last(e);
    if (at_end)
        weft_hook_end(e->value);
    return _URC_NO_REASON;
}

static __attribute__((noreturn)) void fail(const char *line)
{
    syscall(SYS_write, STDERR_FILENO, line, strlen(line));
    abort();
}

/* A catch (...) has kept it. As with the C library's, that must throw it on. */
static void was_caught(_Unwind_Reason_Code reason, struct _Unwind_Exception *exception)
{
    (void)reason, (void)exception;
    fail("weft-hook: pthread_exit: a catch (...) in the fiber did not throw on\n");
}

static __attribute__((noreturn)) void unwind(struct ending *e)
{
    memset(&e->exception, 0, sizeof e->exception);
    e->exception.exception_class = EXIT_CLASS;
    e->exception.exception_cleanup = was_caught;
    _Unwind_ForcedUnwind(&e->exception, at_frame, e);
    fail("weft-hook: pthread_exit: the fiber's stack cannot be unwound\n");
}

HOOK void __pthread_unwind_next(__pthread_unwind_buf_t *buffer)
{
    struct ending *e = OURS(buffer);
    if (e)
        unwind(e);
    wf_real.__pthread_unwind_next(buffer);
    __builtin_unreachable();
}

HOOK void pthread_exit(void *value)
{
    struct ending *e = unlikely(is_in_a_fiber()) ? ending_here() : NULL;
    if (e) {
        e->value = value;
        unwind(e);
    }
    wf_real.pthread_exit(value);
    __builtin_unreachable();
}

HOOK void thrd_exit(int value)
{
    pthread_exit((void *)(uintptr_t)value);
}
