/* no_cuda.c - stands where cuda/ would where the library was built without nvcc. */
#include "internal.h"

int lce_cuda_open(struct lce **library)
{
    return lce_fail(LCE_BACKEND_MISSING,
                    "lce_open: this library was built without nvcc, so it has no LCE_CUDA; build it "
                    "where nvcc is, or use LCE_CPU");
}
