/*
 * A library whose one function calls back from a frame of 0x18 bytes.  first.c and second.c are the same to
 * the last address but for that: a return address taken from one must not be unwound by the rules of the
 * other.
 */
__asm__(".text\n"
        ".globl stacktest_call\n"
        ".type stacktest_call, @function\n"
        ".p2align 12\n"
        "stacktest_call:\n"
        ".cfi_startproc\n"
        ".byte 0x48, 0x81, 0xec\n" /* sub $imm32, %rsp */
        ".long 0x18\n"
        ".cfi_adjust_cfa_offset 0x18\n"
        "mov %rdi, %rax\n"
        "mov %rsi, %rdi\n"
        "call *%rax\n"
        ".byte 0x48, 0x81, 0xc4\n" /* add $imm32, %rsp */
        ".long 0x18\n"
        ".cfi_adjust_cfa_offset -0x18\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size stacktest_call, . - stacktest_call\n"
        ".section .note.GNU-stack,\"\",@progbits\n"
        ".text\n");
