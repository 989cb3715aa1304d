/*
 * half.h - fp16 and bf16 as numbers, on any compiler.  Rounding is to nearest, ties to even.
 */
#ifndef LCE_CPU_HALF_H
#define LCE_CPU_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "linear_cross_entropy.h"

static inline uint32_t lce_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float lce_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float lce_from_bf16(uint16_t half)
{
    return lce_from_bits((uint32_t)half << 16);
}

static inline uint16_t lce_to_bf16(float value)
{
    uint32_t bits = lce_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* NaN stays one */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float lce_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31)
        return lce_from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) { /* subnormal: a multiple of 2^-24 */
        float value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    return lce_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline uint16_t lce_to_f16(float value)
{
    uint32_t bits = lce_bits(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (size >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) /* below 2^-14: adding 0.5 leaves the multiple of 2^-24 in the low bits, rounded */
        return (uint16_t)(sign | (lce_bits(lce_from_bits(size) + 0.5f) - lce_bits(0.5f)));
    return (uint16_t)(sign | ((size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13));
}

/* element INDEX of an array of DTYPE */
static inline float lce_load(const void *base, int dtype, int64_t index)
{
    if (dtype == LCE_F32) {
        float value;
        memcpy(&value, (const char *)base + index * 4, 4);
        return value;
    }
    uint16_t half;
    memcpy(&half, (const char *)base + index * 2, 2);
    return dtype == LCE_BF16 ? lce_from_bf16(half) : lce_from_f16(half);
}

static inline void lce_store(void *base, int dtype, int64_t index, float value)
{
    if (dtype == LCE_F32) {
        memcpy((char *)base + index * 4, &value, 4);
        return;
    }
    uint16_t half = dtype == LCE_BF16 ? lce_to_bf16(value) : lce_to_f16(value);
    memcpy((char *)base + index * 2, &half, 2);
}

static inline int64_t lce_label(const struct lce_problem *p, const void *labels, int64_t token)
{
    if (p->label_dtype == LCE_I64) {
        int64_t label;
        memcpy(&label, (const char *)labels + token * 8, 8);
        return label;
    }
    int32_t label;
    memcpy(&label, (const char *)labels + token * 4, 4);
    return label;
}

#endif
