/* libraries.c - the libraries that test_stacks loads, one for each macro that tests.cmake defines. */
#if defined(FRAME)

/* The one function calls back from a frame of so many bytes.  Those of two such libraries are the same to the
 * last address but for that: a return address taken from one must not be unwound by the rules of the other.
 */
__asm__(".text\n"
        ".globl stacktest_call\n"
        ".type stacktest_call, @function\n"
        ".p2align 12\n"
        "stacktest_call:\n"
        ".cfi_startproc\n"
        ".byte 0x48, 0x81, 0xec\n" /* sub $imm32, %rsp */
        ".long " FRAME "\n"
        ".cfi_adjust_cfa_offset " FRAME "\n"
        "mov %rdi, %rax\n"
        "mov %rsi, %rdi\n"
        "call *%rax\n"
        ".byte 0x48, 0x81, 0xc4\n" /* add $imm32, %rsp */
        ".long " FRAME "\n"
        ".cfi_adjust_cfa_offset -" FRAME "\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size stacktest_call, . - stacktest_call\n"
        ".section .note.GNU-stack,\"\",@progbits\n"
        ".text\n");

#elif defined(ODD_FRAME)

/* Its function finds its frame by rbx: more than libunwind's fast path can follow. */
__asm__(".text\n"
        ".globl stacktest_call\n"
        ".type stacktest_call, @function\n"
        "stacktest_call:\n"
        ".cfi_startproc\n"
        "push %rbx\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_offset %rbx, -16\n"
        "mov %rsp, %rbx\n"
        ".cfi_def_cfa_register %rbx\n"
        "and $-64, %rsp\n"
        "sub $512, %rsp\n"
        "mov %rdi, %rax\n"
        "mov %rsi, %rdi\n"
        "call *%rax\n"
        "mov %rbx, %rsp\n"
        ".cfi_def_cfa_register %rsp\n"
        "pop %rbx\n"
        ".cfi_adjust_cfa_offset -8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size stacktest_call, . - stacktest_call\n"
        ".section .note.GNU-stack,\"\",@progbits\n"
        ".text\n");

#else

/* Its constructor calls into the program that loads it. */
extern void stacktest_in_constructor(void) __attribute__((weak));
static __attribute__((constructor)) void construct(void)
{
    if (stacktest_in_constructor)
        stacktest_in_constructor();
    __asm__ volatile(""); /* no tail call */
}

#endif
