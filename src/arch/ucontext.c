/*
 * arch/ucontext.c: the switch in portable C, on getcontext, makecontext and swapcontext. Slow (a switch costs two system
 * calls, as ucontext keeps a signal mask with every context) and right wherever libc has ucontext.
 */
#include "arch/arch.h"

#include <alloca.h>
#include <signal.h>

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

/* What goes with a switch: the value, and the thread's floating-point control words. */
static void hand_over(struct wf_frame *there, void *value)
{
    pthread_sigmask(SIG_SETMASK, NULL, &there->context.uc_sigmask); /* the mask is the thread's, not the context's */
    there->value = value;
    wf_fp_read(&there->words);
}

static void *take_over(struct wf_frame *here)
{
    struct wf_fp scratch;
    wf_fp_swap(&here->words, &scratch);
    return here->value;
}

static void begin(int high, int low)
{
    struct wf_frame *frame = join(high, low);
    take_over(frame);
    wf_coro_end(frame->end_arg, frame->fn(frame->arg));
}

void *wf_frame_make_slowly(void *top, weft_fn *fn, void *arg, void *end_arg)
{
    enum { SMALLEST = 4096 }; /* makecontext wants a size; only the upper end matters */
    struct wf_frame *frame = (struct wf_frame *)((char *)top - WF_FRAME_BYTES);
    struct halves self = split(frame);
    getcontext(&frame->context);
    frame->context.uc_stack.ss_sp = (char *)frame - SMALLEST;
    frame->context.uc_stack.ss_size = SMALLEST;
    frame->context.uc_link = NULL;
    makecontext(&frame->context, (void (*)(void))begin, 2, self.high, self.low);
    frame->low = (char *)frame - SMALLEST;
    frame->fn = fn;
    frame->arg = arg;
    frame->end_arg = end_arg;
    return frame;
}

void *wf_switch(void **save, void *to, void *value)
{
    struct wf_frame here, *there = to;
    here.low = (char *)alloca(16) - 128; /* the stack pointer of this frame, and a red zone */
    *save = &here;
    hand_over(there, value);
    if (swapcontext(&here.context, &there->context) != 0)
        wf_panic("wf_switch", "swapcontext failed");
    return take_over(&here);
}

void *wf_switch_last(void *to, void *value)
{
    struct wf_frame *there = to;
    hand_over(there, value);
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
    hand_over(there, landing.value);
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
    return take_over(&here);
}
