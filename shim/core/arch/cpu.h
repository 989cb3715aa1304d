/*
 * cpu.h - the instructions that inner loops need, for each supported processor.
 *
 * What depends on the processor lies in this folder and nowhere else, one file a topic, the processors beside
 * each other in each; only the public header (vramscope.h), which is installed alone, has a line for x86-64,
 * too.  A new processor needs a branch in each file; until it has all of them, it does not compile.  x86-64
 * is tested and supported; aarch64 is only known to compile (tests/full/cross.sh).
 */
#ifndef VS_CORE_ARCH_CPU_H
#define VS_CORE_ARCH_CPU_H

#include <stdint.h>

#if defined(__x86_64__)

#define VS_ARCH_NAME "x86_64" /* as uname says it */
#define VS_ARCH_PAGE 4096     /* bytes: the largest page that a kernel may have */

/* In a loop that waits for another processor. */
static inline void vs_arch_relax(void)
{
    __builtin_ia32_pause();
}

/* Prefetches the line at ADDRESS for writing: a plain prefetch fetches a shared copy, and the first store
 * then has to wait until the other copies are invalidated.  The compiler's builtin emits this instruction
 * only for newer processors than we require; older ones execute it as a no-op. */
static inline void vs_arch_fetch_to_write(const void *address)
{
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
}

/* Reads the processor's counter, not ordered with loads and stores. */
static inline uint64_t vs_arch_counter(void)
{
    return __builtin_ia32_rdtsc();
}

#elif defined(__aarch64__)

#define VS_ARCH_NAME "aarch64"
#define VS_ARCH_PAGE 65536

/* "yield" is a no-op on most of these processors; this waits for some ten cycles. */
static inline void vs_arch_relax(void)
{
    __asm__ volatile("isb" ::: "memory");
}

static inline void vs_arch_fetch_to_write(const void *address)
{
    __builtin_prefetch(address, 1);
}

static inline uint64_t vs_arch_counter(void)
{
    uint64_t now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
}

#else
#error "shim/core/arch knows x86-64 and aarch64"
#endif

#endif
