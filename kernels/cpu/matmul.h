/* matmul.h - the three products of the CPU path, in fp32. */
#ifndef LCE_MATMUL_H
#define LCE_MATMUL_H

#include <stdint.h>

/* <a, b> over COUNT numbers */
float lce_dot(const float *a, const float *b, int64_t count);
/* y += factor * x */
void lce_axpy(float *y, const float *x, float factor, int64_t count);

#endif
