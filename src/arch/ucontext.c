/*
 * arch/ucontext.c: the switch in portable C, on getcontext, makecontext and swapcontext. Slow (a switch costs two system
 * calls, as ucontext keeps a signal mask with every context) and right wherever libc has ucontext.
 */
#include "arch/arch.h"

#include <alloca.h>

#include "base/panic.h"

/* makecontext passes ints. */
struct halves {
    int high, low;
};

static struct halves split(void *p)
{
    uint64_t bits = (uintptr_t)p;
    return (struct halves){(int)(uint32_t)(bits >> 32), (int)(uint32_t)bits};
}

static void *join(int high, int low)
{
    return (void *)(uintptr_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
}

static void begin(int fn_high, int fn_low, int arg_high, int arg_low, int end_high, int end_low)
{
    weft_fn *fn = (weft_fn *)join(fn_high, fn_low);
    wf_coro_end(join(end_high, end_low), fn(join(arg_high, arg_low)));
}

void *wf_frame_make_slowly(void *top, weft_fn *fn, void *arg, void *end_arg)
{
    enum { SMALLEST = 4096 }; /* makecontext wants a size; only the upper end matters */
    struct wf_frame *frame = (struct wf_frame *)((char *)top - WF_FRAME_BYTES);
    struct halves f = split((void *)fn), a = split(arg), e = split(end_arg);
    getcontext(&frame->context);
    frame->context.uc_stack.ss_sp = (char *)frame - SMALLEST;
    frame->context.uc_stack.ss_size = SMALLEST;
    frame->context.uc_link = NULL;
    makecontext(&frame->context, (void (*)(void))begin, 6, f.high, f.low, a.high, a.low, e.high, e.low);
    frame->value = NULL;
    frame->low = (char *)frame - SMALLEST;
    return frame;
}

void *wf_switch(void **save, void *to, void *value)
{
    struct wf_frame here, *there = to;
    here.low = (char *)alloca(16) - 128; /* the stack pointer of this frame, and a red zone */
    *save = &here;
    there->value = value;
    if (swapcontext(&here.context, &there->context) != 0)
        wf_panic("wf_switch", "swapcontext failed");
    return here.value;
}

void *wf_switch_last(void *to, void *value)
{
    struct wf_frame *there = to;
    there->value = value;
    setcontext(&there->context);
    wf_panic("wf_switch_last", "setcontext failed");
}

/* On the other stack: finds out where to go on, and goes there. */
struct passage {
    struct wf_landing (*land)(void *);
    void *arg;
    ucontext_t context;
};

static void pass(int high, int low)
{
    struct passage *p = join(high, low);
    struct wf_landing landing = p->land(p->arg);
    struct wf_frame *there = landing.sp;
    there->value = landing.value;
    setcontext(&there->context);
    wf_panic("wf_switch_through", "setcontext failed");
}

void *wf_switch_through(void **save, void *top, struct wf_landing (*land)(void *), void *arg)
{
    enum { SMALLEST = 4096 };
    struct wf_frame here;
    struct passage *p = (struct passage *)((uintptr_t)((char *)top - sizeof *p) & ~(uintptr_t)15);
    struct halves self = split(p);
    here.low = (char *)alloca(16) - 128;
    *save = &here;
    p->land = land;
    p->arg = arg;
    getcontext(&p->context);
    p->context.uc_stack.ss_sp = (char *)p - SMALLEST;
    p->context.uc_stack.ss_size = SMALLEST;
    p->context.uc_link = NULL;
    makecontext(&p->context, (void (*)(void))pass, 2, self.high, self.low);
    if (swapcontext(&here.context, &p->context) != 0)
        wf_panic("wf_switch_through", "swapcontext failed");
    return here.value;
}
