/*
 * matmul.c - dot product and axpy, in a form that compilers turn into vector code.
 *
 * The dot product has sixteen sums of its own, added up in a fixed order: the same bits wherever it is
 * compiled for the same instruction set, and no need to let the compiler reorder additions.
 */
#include "matmul.h"

enum { LANES = 16 };

float lce_dot(const float *a, const float *b, int64_t count)
{
    float sums[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++)
            sums[k] += a[i + k] * b[i + k];
    for (int k = 0; i < count; i++, k++)
        sums[k] += a[i] * b[i];
    for (int step = LANES / 2; step > 0; step /= 2)
        for (int k = 0; k < step; k++)
            sums[k] += sums[k + step];
    return sums[0];
}

void lce_axpy(float *y, const float *x, float factor, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] += factor * x[i];
}
