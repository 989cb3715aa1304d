/*
 * own_stack.c - see own_stack.h.
 *
 * Only the stack pointer is exchanged, around an ordinary call.  The C library's context functions would do,
 * but an address sanitizer in the host prints a warning about them.  Unwinders find their way: this file is
 * compiled with a frame pointer, so where the caller's frame is does not depend on the stack pointer.
 */
#define _GNU_SOURCE
#include "own_stack.h"

#include <stddef.h>
#include <sys/mman.h>

#define STACK_BYTES (512 * 1024)
#define GUARD_BYTES (64 * 1024)

#if defined(__x86_64__)
/* The call may use all registers that a call may; the stack pointer waits in one that it keeps. */
static __attribute__((noinline)) void call_on(char *top, void (*function)(void *), void *argument)
{
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "movq %[top], %%rsp\n\t"
                     "call *%[function]\n\t"
                     "movq %%rbx, %%rsp"
                     : [function] "+r"(function), "+D"(argument)
                     : [top] "r"(top)
                     : "rbx", "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2",
                       "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                       "xmm13", "xmm14", "xmm15", "memory", "cc");
}
#else
static void call_on(char *top, void (*function)(void *), void *argument)
{
    (void)top;
    function(argument);
}
#endif

void vs_on_own_stack(void (*function)(void *), void *argument)
{
    size_t bytes = GUARD_BYTES + STACK_BYTES;
    char *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) {
        function(argument);
        return;
    }
    mprotect(m, GUARD_BYTES, PROT_NONE);
    call_on(m + bytes, function, argument);
    munmap(m, bytes);
}
