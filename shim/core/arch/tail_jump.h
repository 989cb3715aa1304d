/*
 * tail_jump.h - assembler only: look_up NAME, OURS, ASK, NEXT, ARGUMENTS makes the exported function NAME
 * (also called OURS), which calls ASK with its own 2 or 3 ARGUMENTS and, behind them, the address that it
 * was called from.  ASK returns two registers.  The second says whether the first is the result.  If not,
 * all registers and the stack are restored as they were at the call, and the code jumps to the pointer NEXT.
 */
#ifndef VS_CORE_ARCH_TAIL_JUMP_H
#define VS_CORE_ARCH_TAIL_JUMP_H

/* These are instructions, which the formatter would read as C. */
/* clang-format off */
#if defined(__x86_64__)

        .macro  look_up name, ours, ask, next, arguments
        .text
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
\ours:
        .cfi_startproc
        endbr64
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        pushq   %rdi                    /* two or four words: the stack stays 16-byte aligned at the call */
        pushq   %rsi
        .if \arguments == 3
        pushq   %rdx
        pushq   %rdx                    /* padding */
        movq    8(%rbp), %rcx           /* who called us */
        .else
        movq    8(%rbp), %rdx
        .endif
        call    \ask
        testq   %rdx, %rdx
        jne     1f
        .if \arguments == 3
        popq    %rdx
        popq    %rdx
        .endif
        popq    %rsi
        popq    %rdi
        popq    %rbp
        .cfi_remember_state
        .cfi_restore %rbp
        .cfi_def_cfa %rsp, 8
        jmp     *\next(%rip)
1:
        .cfi_restore_state
        leave
        .cfi_restore %rbp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

        /* this code keeps IBT and shadow stacks intact */
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 3, 0

#elif defined(__aarch64__)

        .macro  look_up name, ours, ask, next, arguments
        .text
        .globl  \name
        .type   \name, %function
        .p2align 4
\name:
\ours:
        .cfi_startproc
        hint    #34                     /* bti c */
        stp     x29, x30, [sp, #-48]!
        .cfi_def_cfa_offset 48
        .cfi_offset x29, -48
        .cfi_offset x30, -40
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        .if \arguments == 3
        mov     x3, x30                 /* who called us */
        .else
        mov     x2, x30
        .endif
        bl      \ask
        cbnz    x1, 1f
        ldp     x0, x1, [sp, #16]
        ldr     x2, [sp, #32]
        ldp     x29, x30, [sp], #48
        .cfi_remember_state
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        adrp    x16, \next
        ldr     x16, [x16, #:lo12:\next]
        br      x16
1:
        .cfi_restore_state
        ldp     x29, x30, [sp], #48
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        ret
        .cfi_endproc
        .size   \name, . - \name
        .endm

#else
#error "shim/core/arch knows x86-64 and aarch64"
#endif

#endif
