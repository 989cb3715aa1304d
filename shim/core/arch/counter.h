/* counter.h - tells whether the processor's counter (cpu.h) may serve as a clock, and orders its readings. */
#ifndef VS_CORE_ARCH_COUNTER_H
#define VS_CORE_ARCH_COUNTER_H

#include <stdbool.h>

#include "cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/prctl.h>

/* The kernel's names for a clock that is this counter, each with its newline. */
#define VS_ARCH_COUNTER_SOURCES "tsc\n", "kvm-clock\n"

/* Keeps readings of the counter and other loads in program order across this point. */
static inline void vs_arch_counter_fence(void)
{
    __builtin_ia32_lfence();
}

/* Whether it runs at a constant rate, and reading it raises no signal. */
static inline bool vs_arch_counter_is_clock(void)
{
    unsigned a, b, c, d = 0;
    int mode = 0;
    bool invariant = __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8);
    return invariant && prctl(PR_GET_TSC, &mode) == 0 && mode == PR_TSC_ENABLE;
}

#elif defined(__aarch64__)

#define VS_ARCH_COUNTER_SOURCES "arch_sys_counter\n"

static inline void vs_arch_counter_fence(void)
{
    __asm__ volatile("isb" ::: "memory");
}

/* Always true, by the architecture; a kernel that denies programs the counter uses another clock source. */
static inline bool vs_arch_counter_is_clock(void)
{
    return true;
}

#endif

#endif
