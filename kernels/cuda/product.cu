/*
 * product.cu - the three products as kernels of their own, for compute capability 9.0.
 *
 *     logits   [tokens, V] = x weight^T         dinput [tokens, H] = g weight        dweight [V, H] += g^T x
 *
 * logits and dinput have long sums and get four stages.  dweight writes more in proportion to its
 * arithmetic, and adds to its old values, so it gets three stages and staging for a whole tile.  `wide` has
 * a result of 32 bits.
 */
#include "product.cuh"

#define PRODUCT(name, F16, Wide, AcrossA, AcrossB, Stages, Columns)                                          \
    static_assert(lce::own_shared_size<Stages, Columns> <= LCE_PRODUCT_SHARED, "too much shared memory");    \
    extern "C" __global__ void __launch_bounds__(LCE_PRODUCT_THREADS, 1)                                     \
        lce_own_##name(const __grid_constant__ lce_own_args a)                                               \
    {                                                                                                        \
        lce::own_product<F16, Wide, AcrossA, AcrossB, Stages, LCE_PRODUCT_CLUSTER, Columns>(a);              \
    }
#define PRODUCTS(type, F16, T)                                                                               \
    PRODUCT(logits_##type, F16, false, false, false, 4, 128)                                                 \
    PRODUCT(logits_wide_##type, F16, true, false, false, 4, 128)                                             \
    PRODUCT(dinput_##type, F16, false, false, true, 4, 128)                                                  \
    PRODUCT(dweight_##type, F16, false, true, true, 3, 256)                                                  \
    PRODUCT(dweight_wide_##type, F16, true, true, true, 4, 128)                                              \
    extern "C" __global__ void __launch_bounds__(256)                                                        \
        lce_own_scatter_##type(const __grid_constant__ lce_own_rows_args a)                                  \
    {                                                                                                        \
        lce::own_scatter<T, LCE_PRODUCT_CLUSTER>(a);                                                         \
    }

PRODUCTS(bf16, false, __nv_bfloat16)
PRODUCTS(f16, true, __half)
