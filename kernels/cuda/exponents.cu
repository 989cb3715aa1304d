/* exponents.cu - the kernels of exponents.cuh. */
#include "exponents.cuh"

#define EXPONENTS(type, T)                                                                                   \
    extern "C" __global__ void __launch_bounds__(lce::exponents_threads, 2)                                  \
        lce_exponents_##type(const lce_exponents_args a)                                                     \
    {                                                                                                        \
        lce::exponents_rows<T>(a);                                                                           \
    }

EXPONENTS(bf16, __nv_bfloat16)
EXPONENTS(f16, __half)
