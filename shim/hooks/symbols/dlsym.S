/*
 * dlsym.S - the exported dlsym and dlvsym: each asks vs_dlsym_lookup or vs_dlvsym_lookup (resolve.c) whether we
 * answer this look-up ourselves, and where we do not, jumps to the real one as if we had never been there.
 *
 * The jump is the point: RTLD_NEXT and RTLD_DEFAULT depend on who calls, which the real dlsym reads from its
 * return address, and that must be our caller's.  A compiler may make a call of it (-O0, -O1, sanitizers), so
 * this is assembly.
 *
 *      struct { void *address; uintptr_t answered; } vs_dlsym_lookup(void *handle, const char *name, void *caller)
 *      ... vs_dlvsym_lookup(void *handle, const char *name, const char *version, void *caller)
 *
 * comes back in two registers.  What it needs of the processor is all in this file: x86-64, aarch64.
 */
#if defined(__x86_64__)
        .text
        .globl  dlsym
        .type   dlsym, @function
        .p2align 4
dlsym:
vs_dlsym_ours:
        .cfi_startproc
        endbr64
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        pushq   %rdi                    /* two words: the stack stays 16-byte aligned at the call */
        pushq   %rsi
        movq    8(%rbp), %rdx           /* who called us */
        call    vs_dlsym_lookup
        testq   %rdx, %rdx
        jne     1f
        popq    %rsi
        popq    %rdi
        popq    %rbp
        .cfi_remember_state
        .cfi_restore %rbp
        .cfi_def_cfa %rsp, 8
        jmp     *vs_dlsym_next(%rip)
1:
        .cfi_restore_state
        leave
        .cfi_restore %rbp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        .size   dlsym, . - dlsym

        .globl  dlvsym
        .type   dlvsym, @function
        .p2align 4
dlvsym:
vs_dlvsym_ours:
        .cfi_startproc
        endbr64
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        pushq   %rdi                    /* four words, the last one of no meaning: 16-byte aligned */
        pushq   %rsi
        pushq   %rdx
        pushq   %rdx
        movq    8(%rbp), %rcx
        call    vs_dlvsym_lookup
        testq   %rdx, %rdx
        jne     1f
        popq    %rdx
        popq    %rdx
        popq    %rsi
        popq    %rdi
        popq    %rbp
        .cfi_remember_state
        .cfi_restore %rbp
        .cfi_def_cfa %rsp, 8
        jmp     *vs_dlvsym_next(%rip)
1:
        .cfi_restore_state
        leave
        .cfi_restore %rbp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        .size   dlvsym, . - dlvsym

        /* this code keeps IBT and shadow stacks intact */
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 3, 0
#elif defined(__aarch64__)
        .text
        .globl  dlsym
        .type   dlsym, %function
        .p2align 4
dlsym:
vs_dlsym_ours:
        .cfi_startproc
        hint    #34                     /* bti c */
        stp     x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset x29, -32
        .cfi_offset x30, -24
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        mov     x2, x30                 /* who called us */
        bl      vs_dlsym_lookup
        cbnz    x1, 1f
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_remember_state
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        adrp    x16, vs_dlsym_next
        ldr     x16, [x16, #:lo12:vs_dlsym_next]
        br      x16
1:
        .cfi_restore_state
        ldp     x29, x30, [sp], #32
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        ret
        .cfi_endproc
        .size   dlsym, . - dlsym

        .globl  dlvsym
        .type   dlvsym, %function
        .p2align 4
dlvsym:
vs_dlvsym_ours:
        .cfi_startproc
        hint    #34
        stp     x29, x30, [sp, #-48]!
        .cfi_def_cfa_offset 48
        .cfi_offset x29, -48
        .cfi_offset x30, -40
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        mov     x3, x30
        bl      vs_dlvsym_lookup
        cbnz    x1, 1f
        ldp     x0, x1, [sp, #16]
        ldr     x2, [sp, #32]
        ldp     x29, x30, [sp], #48
        .cfi_remember_state
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        adrp    x16, vs_dlvsym_next
        ldr     x16, [x16, #:lo12:vs_dlvsym_next]
        br      x16
1:
        .cfi_restore_state
        ldp     x29, x30, [sp], #48
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        ret
        .cfi_endproc
        .size   dlvsym, . - dlvsym
#else
#error "dlsym.S knows x86-64 and aarch64; another processor needs its own tail jump here"
#endif
        .globl  vs_dlsym_ours
        .globl  vs_dlvsym_ours
        .hidden vs_dlsym_ours
        .hidden vs_dlvsym_ours
        .hidden vs_dlsym_lookup
        .hidden vs_dlsym_next
        .hidden vs_dlvsym_lookup
        .hidden vs_dlvsym_next
        .section .note.GNU-stack, "", %progbits
