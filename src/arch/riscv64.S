/*
 * arch/riscv64.S: the switch for riscv64, LP64D. See arch.h for what each function promises.
 *
 * A suspended context, from its stack pointer up: ra (where to go on), s0 to s11, fs0 to fs11. It leaves by ret.
 */
        .text

        .macro save_context
        addi    sp, sp, -208
        .cfi_adjust_cfa_offset 208
        sd      ra, 0(sp)
        .cfi_rel_offset ra, 0
        sd      s0, 8(sp)
        .cfi_rel_offset s0, 8
        sd      s1, 16(sp)
        .cfi_rel_offset s1, 16
        sd      s2, 24(sp)
        .cfi_rel_offset s2, 24
        sd      s3, 32(sp)
        .cfi_rel_offset s3, 32
        sd      s4, 40(sp)
        .cfi_rel_offset s4, 40
        sd      s5, 48(sp)
        .cfi_rel_offset s5, 48
        sd      s6, 56(sp)
        .cfi_rel_offset s6, 56
        sd      s7, 64(sp)
        .cfi_rel_offset s7, 64
        sd      s8, 72(sp)
        .cfi_rel_offset s8, 72
        sd      s9, 80(sp)
        .cfi_rel_offset s9, 80
        sd      s10, 88(sp)
        .cfi_rel_offset s10, 88
        sd      s11, 96(sp)
        .cfi_rel_offset s11, 96
        fsd     fs0, 104(sp)
        fsd     fs1, 112(sp)
        fsd     fs2, 120(sp)
        fsd     fs3, 128(sp)
        fsd     fs4, 136(sp)
        fsd     fs5, 144(sp)
        fsd     fs6, 152(sp)
        fsd     fs7, 160(sp)
        fsd     fs8, 168(sp)
        fsd     fs9, 176(sp)
        fsd     fs10, 184(sp)
        fsd     fs11, 192(sp)
        sd      sp, 0(a0)
        .endm

        .macro load_context
        ld      ra, 0(sp)
        ld      s0, 8(sp)
        ld      s1, 16(sp)
        ld      s2, 24(sp)
        ld      s3, 32(sp)
        ld      s4, 40(sp)
        ld      s5, 48(sp)
        ld      s6, 56(sp)
        ld      s7, 64(sp)
        ld      s8, 72(sp)
        ld      s9, 80(sp)
        ld      s10, 88(sp)
        ld      s11, 96(sp)
        fld     fs0, 104(sp)
        fld     fs1, 112(sp)
        fld     fs2, 120(sp)
        fld     fs3, 128(sp)
        fld     fs4, 136(sp)
        fld     fs5, 144(sp)
        fld     fs6, 152(sp)
        fld     fs7, 160(sp)
        fld     fs8, 168(sp)
        fld     fs9, 176(sp)
        fld     fs10, 184(sp)
        fld     fs11, 192(sp)
        addi    sp, sp, 208
        ret
        .endm

        .globl  wf_switch
        .hidden wf_switch
        .type   wf_switch, @function
        .p2align 2
wf_switch:
        .cfi_startproc
        save_context
        mv      sp, a1
        mv      a0, a2
        load_context
        .cfi_endproc
        .size   wf_switch, .-wf_switch

        .globl  wf_switch_last
        .hidden wf_switch_last
        .type   wf_switch_last, @function
        .p2align 2
wf_switch_last:
        .cfi_startproc
        .cfi_undefined ra
        mv      sp, a0
        mv      a0, a1
        load_context
        .cfi_endproc
        .size   wf_switch_last, .-wf_switch_last

        .globl  wf_switch_through
        .hidden wf_switch_through
        .type   wf_switch_through, @function
        .p2align 2
wf_switch_through:
        .cfi_startproc
        save_context
        mv      sp, a1
        .cfi_undefined ra               /* what was left is no longer there to be unwound into */
        mv      a0, a3
        jalr    a2
        mv      sp, a0
        mv      a0, a1
        load_context
        .cfi_endproc
        .size   wf_switch_through, .-wf_switch_through

/* Where a coroutine begins: wf_frame_make put fn in s0, arg in s1 and end_arg in s2. */
        .globl  wf_begin
        .hidden wf_begin
        .type   wf_begin, @function
        .p2align 2
        .cfi_startproc
        .cfi_personality 0x1b, wf_begin_personality
        .cfi_undefined ra
wf_begin:
        .option push
        .option norvc
        nop                             /* begins after it: whoever unwinds looks up the byte before */
        .option pop
        mv      t0, s0
        mv      a0, s1
        li      s0, 0                   /* no frame beyond this one */
        jalr    t0
        mv      a1, a0
        mv      a0, s2
        call    wf_coro_end
        ebreak
        .cfi_endproc
        .size   wf_begin, .-wf_begin

        .section .note.GNU-stack, "", @progbits
