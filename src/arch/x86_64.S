/*
 * arch/x86_64.S: the switch for x86_64, System V ABI. See arch.h for what each function promises.
 *
 * A suspended context, from its stack pointer up:
 *      0 r15   8 r14   16 r13   24 r12   32 rbx   40 rbp   48 the address to go on at
 *
 * It leaves by an indirect jump, not by ret: the return predictor expects the address that the last call pushed, which
 * is in the context being left, so a ret is mispredicted every time. The jump has a prediction of its own. (notrack: the
 * target is a return address, which has no endbr64.)
 *
 * No code takes the address of a switch, and a notrack jump leads to wf_begin. So no function here needs an endbr64,
 * and all of it may run where branch targets are checked (IBT). It must not run with a shadow stack: a context would
 * return on the shadow stack of another context (docs/decisions/0030).
 */
        .text

        .macro save register
        pushq   %\register
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %\register, 0
        .endm

        .macro load register
        popq    %\register
        .cfi_adjust_cfa_offset -8
        .cfi_restore %\register
        .endm

        .macro save_context
        save    rbp
        save    rbx
        save    r12
        save    r13
        save    r14
        save    r15
        movq    %rsp, (%rdi)
        .endm

        .globl  wf_switch
        .hidden wf_switch
        .type   wf_switch, @function
        .p2align 6
wf_switch:
        .cfi_startproc
        save_context
        movq    %rsi, %rsp              /* the other context has the same shape: the CFI holds for it too */
        movq    %rdx, %rax
.Lgo_on:
        movq    48(%rsp), %rcx
        load    r15
        load    r14
        load    r13
        load    r12
        load    rbx
        load    rbp
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        .cfi_register %rip, %rcx
        notrack jmp *%rcx
        .cfi_endproc
        .size   wf_switch, .-wf_switch

        .globl  wf_switch_last
        .hidden wf_switch_last
        .type   wf_switch_last, @function
        .p2align 4
wf_switch_last:
        .cfi_startproc
        movq    48(%rdi), %rcx
        movq    0(%rdi), %r15
        movq    8(%rdi), %r14
        movq    16(%rdi), %r13
        movq    24(%rdi), %r12
        movq    32(%rdi), %rbx
        movq    40(%rdi), %rbp
        leaq    56(%rdi), %rsp
        .cfi_def_cfa_offset 0
        .cfi_register %rip, %rcx
        movq    %rsi, %rax
        notrack jmp *%rcx
        .cfi_endproc
        .size   wf_switch_last, .-wf_switch_last

        .globl  wf_switch_through
        .hidden wf_switch_through
        .type   wf_switch_through, @function
        .p2align 4
wf_switch_through:
        .cfi_startproc
        save_context
        movq    %rsi, %rsp
        .cfi_undefined %rip             /* what was left is no longer there to be unwound into */
        movq    %rcx, %rdi
        call    *%rdx
        movq    %rax, %rsp
        movq    %rdx, %rax
        jmp     .Lgo_on
        .cfi_endproc
        .size   wf_switch_through, .-wf_switch_through

/*
 * Where a coroutine begins: wf_frame_make put fn in r12, arg in r13 and end_arg in rbx. The outermost frame of the
 * stack: the unwinder stops here, and an exception that gets here is reported by the personality.
 */
        .globl  wf_begin
        .hidden wf_begin
        .type   wf_begin, @function
        .p2align 4
        .cfi_startproc
        .cfi_personality 0x1b, wf_begin_personality
        .cfi_undefined %rip
        .cfi_undefined %rbp
wf_begin:
        nop                             /* begins after it: whoever unwinds looks up the byte before */
        movq    %r13, %rdi
        call    *%r12
        movq    %rbx, %rdi
        movq    %rax, %rsi
        call    wf_coro_end
        ud2
        .cfi_endproc
        .size   wf_begin, .-wf_begin

        .section .note.GNU-stack, "", @progbits

#if defined(__CET__) && (__CET__ & 1)
/* The mark: this code may run with branch targets checked, but not with a shadow stack. */
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 1, 0
#endif
