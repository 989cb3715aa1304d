/*
 * counter.h - whether the processor's counter (cpu.h) may be read as a clock, and how to read it in order.
 */
#ifndef VS_CORE_ARCH_COUNTER_H
#define VS_CORE_ARCH_COUNTER_H

#include <stdbool.h>

#include "cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/prctl.h>

/* The kernel's names for a clock that is this counter, each with its newline. */
#define VS_ARCH_COUNTER_SOURCES "tsc\n", "kvm-clock\n"

/* Neither reading of the counter may drift over what stands on the other side. */
static inline void vs_arch_counter_fence(void)
{
    __builtin_ia32_lfence();
}

/* It runs at one rate, and reading it raises no signal. */
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

/* Always, by the architecture; where the kernel keeps programs from it, its clock is another one. */
static inline bool vs_arch_counter_is_clock(void)
{
    return true;
}

#endif

#endif
