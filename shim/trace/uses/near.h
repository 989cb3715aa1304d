/*
 * near.h - addresses that lie near each other, two to a word of a use (VS_USE_NEAR).
 *
 *      word    upper half: the second address | lower half: the first
 *      half    31 bits: 1 + how many times 16 bytes it lies above a base | 1 bit: whether the use is sure
 *      base    a multiple of 8 GiB, whose number the event has
 *
 * A list of 400 tensors so takes 50 slots of the ring instead of 100, and each slot's line has to come from
 * the processor whose thread empties the ring.  A half of 0 is no address.
 */
#ifndef VS_TRACE_USES_NEAR_H
#define VS_TRACE_USES_NEAR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "trace/access.h"

#define VS_NEAR_WORDS     (2 * VS_USE_SLOT_WORDS)
#define VS_NEAR_BASE_BITS 33u /* 8 GiB: numbers of 16 bits, since addresses have 49 */
#define VS_NEAR_UNIT_BITS 4u
/* What an address has above its base has none of the first, and is not the second, as 1 is added to it. */
#define VS_NEAR_NOT (~(((UINT64_C(1) << 31) - 1) << VS_NEAR_UNIT_BITS))
#define VS_NEAR_MAX (((UINT64_C(1) << 31) - 1) << VS_NEAR_UNIT_BITS)

/* The number of a base with ADDRESS and what lies around it. */
static inline uint16_t vs_near_base(uint64_t address)
{
    uint64_t number = address >> VS_NEAR_BASE_BITS;
    return (uint16_t)(number != 0 ? number - 1 : 0);
}

/* Packs the eight addresses at FROM, which need not be aligned, as uses that are SURE or not.  False: one
 * does not lie near enough above BASE, or is no multiple of 16. */
static inline bool vs_near_pack(const void *from, uint16_t base, bool sure, uint64_t to[VS_USE_SLOT_WORDS])
{
    const uint64_t above = (uint64_t)base << VS_NEAR_BASE_BITS;
    uint64_t at[VS_NEAR_WORDS], bits = 0, last = 0;
    memcpy(at, from, sizeof at);
    for (uint32_t i = 0; i < VS_NEAR_WORDS; i++) {
        at[i] -= above;
        bits |= at[i];
        last |= at[i] == VS_NEAR_MAX;
    }
    if ((bits & VS_NEAR_NOT) != 0 || last)
        return false;
    for (uint32_t i = 0; i < VS_USE_SLOT_WORDS; i++) /* less 4 bits of a unit, plus the one for sure */
        to[i] = (at[2 * i] >> 3 | at[2 * i + 1] << 29) + UINT64_C(0x200000002) +
                (sure ? UINT64_C(0x100000001) : 0);
    return true;
}

/* The word of VS_USE_WORDS that HALF stands for; 0: none. */
static inline uint64_t vs_near_word(uint32_t half, uint16_t base)
{
    uint64_t above = (uint64_t)((half >> 1) - 1) << VS_NEAR_UNIT_BITS;
    return half == 0 ? 0 : (((uint64_t)base << VS_NEAR_BASE_BITS) + above) | (half & 1 ? VS_USE_SURE : 0);
}

#endif
