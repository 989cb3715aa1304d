/*
 * stack.h - an ordinary call on another stack: only the stack pointer is exchanged around it.
 *
 * The caller must be compiled with a frame pointer and not be inlined: then its frame does not depend on the
 * stack pointer, and unwinders can pass it.
 */
#ifndef VS_CORE_ARCH_STACK_H
#define VS_CORE_ARCH_STACK_H

/* TOP: the stack's end, a multiple of 16. */
static __attribute__((noinline)) void vs_arch_call_on(char *top, void (*function)(void *), void *argument)
{
#if defined(__x86_64__)
    /* The call clobbers every caller-saved register; the old stack pointer is kept in a callee-saved one. */
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "movq %[top], %%rsp\n\t"
                     "call *%[function]\n\t"
                     "movq %%rbx, %%rsp"
                     : [function] "+r"(function), "+D"(argument)
                     : [top] "r"(top)
                     : "rbx", "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2",
                       "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                       "xmm13", "xmm14", "xmm15", "memory", "cc");
#elif defined(__aarch64__)
    register void *x0 __asm__("x0") = argument;
    __asm__ volatile("mov x19, sp\n\t"
                     "mov sp, %[top]\n\t"
                     "blr %[function]\n\t"
                     "mov sp, x19"
                     : "+r"(x0)
                     : [top] "r"(top), [function] "r"(function)
                     : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
                       "x14", "x15", "x16", "x17", "x18", "x19", "x30", "v0", "v1", "v2", "v3", "v4", "v5",
                       "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18",
                       "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30",
                       "v31", "memory", "cc");
#else
#error "shim/core/arch knows x86-64 and aarch64"
#endif
}

#endif
