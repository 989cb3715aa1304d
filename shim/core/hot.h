/*
 * hot.h - how what every recorded event reads stays together in memory.
 *
 * In a program's own loop an event costs what its instructions cost; between two events of a training step
 * the caches fill with other things, and an event costs as many journeys as it touches lines and pages, most
 * of all where one line says where the next one is.  So the variables of several files that every event reads
 * and next to nobody writes lie side by side (VS_HOT), and lines whose addresses are known are asked for
 * before the first of them is needed.
 */
#ifndef VS_HOT_H
#define VS_HOT_H

/* The section's name is a C identifier, so every linker lays its parts side by side.  For what is written
 * rarely, if at all: a write takes the line away from every processor that records. */
#define VS_HOT __attribute__((section("vs_hot")))

/* Functions that every event passes begin at a line, and so touch none in vain. */
#define VS_HOT_CODE __attribute__((aligned(64)))

/* Asks for the line at ADDRESS to be read. */
static inline void vs_fetch(const void *address)
{
    __builtin_prefetch(address, 0);
}

/* Asks for the line at ADDRESS to be written: with a plain prefetch it comes as a copy, and the first store
 * has to wait until the other copies are gone.  The compiler's builtin means this instruction only where it
 * may suppose a newer processor than we do; those without it take it for a no-operation. */
static inline void vs_fetch_to_write(const void *address)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
#else
    __builtin_prefetch(address, 1);
#endif
}

#endif
