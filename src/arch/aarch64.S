/*
 * arch/aarch64.S: the switch for aarch64, AAPCS64. See arch.h for what each function promises.
 *
 * A suspended context, from its stack pointer up: x19 to x28, x29 (frame), x30 (where to go on), d8 to d15.
 * It leaves by ret: a plain branch to a return address is a fault where branch targets are checked (BTI).
 */
        .text

        .macro save_context
        sub     sp, sp, #160
        .cfi_adjust_cfa_offset 160
        stp     x19, x20, [sp, #0]
        .cfi_rel_offset x19, 0
        .cfi_rel_offset x20, 8
        stp     x21, x22, [sp, #16]
        .cfi_rel_offset x21, 16
        .cfi_rel_offset x22, 24
        stp     x23, x24, [sp, #32]
        .cfi_rel_offset x23, 32
        .cfi_rel_offset x24, 40
        stp     x25, x26, [sp, #48]
        .cfi_rel_offset x25, 48
        .cfi_rel_offset x26, 56
        stp     x27, x28, [sp, #64]
        .cfi_rel_offset x27, 64
        .cfi_rel_offset x28, 72
        stp     x29, x30, [sp, #80]
        .cfi_rel_offset x29, 80
        .cfi_rel_offset x30, 88
        stp     d8, d9, [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
        mov     x9, sp
        str     x9, [x0]
        .endm

        .macro load_context
        ldp     x19, x20, [sp, #0]
        ldp     x21, x22, [sp, #16]
        ldp     x23, x24, [sp, #32]
        ldp     x25, x26, [sp, #48]
        ldp     x27, x28, [sp, #64]
        ldp     x29, x30, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        add     sp, sp, #160
        ret
        .endm

        .globl  wf_switch
        .hidden wf_switch
        .type   wf_switch, %function
        .p2align 5
wf_switch:
        .cfi_startproc
        hint    #34                     /* bti c */
        save_context
        mov     sp, x1
        mov     x0, x2
        load_context
        .cfi_endproc
        .size   wf_switch, .-wf_switch

        .globl  wf_switch_last
        .hidden wf_switch_last
        .type   wf_switch_last, %function
        .p2align 4
wf_switch_last:
        .cfi_startproc
        hint    #34                     /* bti c */
        .cfi_undefined x30
        mov     sp, x0
        mov     x0, x1
        load_context
        .cfi_endproc
        .size   wf_switch_last, .-wf_switch_last

        .globl  wf_switch_through
        .hidden wf_switch_through
        .type   wf_switch_through, %function
        .p2align 4
wf_switch_through:
        .cfi_startproc
        hint    #34                     /* bti c */
        save_context
        mov     sp, x1
        .cfi_undefined x30              /* what was left is no longer there to be unwound into */
        mov     x0, x3
        blr     x2
        mov     sp, x0
        mov     x0, x1
        load_context
        .cfi_endproc
        .size   wf_switch_through, .-wf_switch_through

/* Where a coroutine begins: wf_frame_make put fn in x19, arg in x20 and end_arg in x21. */
        .globl  wf_begin
        .hidden wf_begin
        .type   wf_begin, %function
        .p2align 4
        .cfi_startproc
        .cfi_personality 0x1b, wf_begin_personality
        .cfi_undefined x30
        .cfi_undefined x29
wf_begin:
        nop                             /* begins after it: whoever unwinds looks up the byte before */
        mov     x0, x20
        blr     x19
        mov     x1, x0
        mov     x0, x21
        bl      wf_coro_end
        brk     #0
        .cfi_endproc
        .size   wf_begin, .-wf_begin

        .section .note.GNU-stack, "", %progbits

/* This code may be run with branch targets checked. */
        .section .note.gnu.property, "a"
        .p2align 3
        .word   4, 16, 5
        .asciz  "GNU"
        .word   0xc0000000, 4, 1, 0
