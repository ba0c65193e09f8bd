/*
 * coro/release.c: weft_stack_release gives back the memory of a stack that its coroutine does not need while it waits.
 * The thread that runs the coroutine calls it.
 */
#include "coro/copied.h"

#include "base/errno.h"
#include "base/sys.h"

/*
 * Bytes in use below the frame of weft_stack_release: its own locals, the frames of the calls from there into the
 * kernel, and a red zone. They are in use while the pages go.
 */
#if WF_ASAN || WF_TSAN
#define IN_USE ((size_t)4096)
#else
#define IN_USE ((size_t)512)
#endif

static int discard_below(const weft_coro *c, const char *frame)
{
    char *low = wf_coro_low(c), *end = (char *)((uintptr_t)(frame - IN_USE) & ~(uintptr_t)(wf_sys_page() - 1));
    return end > low ? wf_sys_discard(low, (size_t)(end - low)) : 0;
}

WF_NOINLINE int weft_stack_release(void)
{
    weft_coro *c = wf_thread_self.current;
    const char *frame = __builtin_frame_address(0);
    if (!c)
        return -ENXIO;
    if (frame < wf_coro_low(c) || frame >= wf_coro_high(c))
        return -EOPNOTSUPP;
    if (!c->shared)
        return discard_below(c, frame);
    wf_copied_trim(c);
    return 0;
}
