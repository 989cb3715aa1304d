/*
 * product.cu - our products as kernels, for compute capability 9.0: dinput by product.cuh, logits and dweight
 * by product_turns.cuh, with the ends of product_exponents.cuh.
 *
 * In names, `wide` has a result of 32 bits; `sums` adds dinput of some of the classes in fp32; `narrow` has
 * tiles of 192 of H, not 256.
 */
#include "product_exponents.cuh"

using Logits = lce::Turns<LCE_LOGITS_DOWN, LCE_LOGITS_RIGHT, LCE_TURN_STAGES, false>;
using Dweight = lce::Turns<LCE_DWEIGHT_DOWN, LCE_DWEIGHT_RIGHT, LCE_TURN_STAGES, true>;
using Narrow = lce::Turns<LCE_DWEIGHT_RIGHT, LCE_DWEIGHT_DOWN, LCE_TURN_STAGES, true>;
static_assert(Logits::shared <= LCE_PRODUCT_SHARED && Dweight::shared <= LCE_PRODUCT_SHARED,
              "too much shared memory");
static_assert(Dweight::width == LCE_WIDE && Narrow::width == LCE_NARROW, "not the widths of the plans");

#define PRODUCT(name, call)                                                                                  \
    extern "C" __global__ void __launch_bounds__(LCE_PRODUCT_THREADS, 1)                                     \
        lce_own_##name(const __grid_constant__ lce_own_args a)                                               \
    {                                                                                                        \
        call(a);                                                                                             \
    }
#define PRODUCTS(type, F16, T)                                                                               \
    PRODUCT(logits_##type, (lce::own_turns<F16, false, Logits>))                                             \
    PRODUCT(logits_wide_##type, (lce::own_turns<F16, true, Logits>))                                         \
    extern "C" __global__ void __launch_bounds__(LCE_PRODUCT_THREADS, 1)                                     \
        lce_own_exponents_##type(const __grid_constant__ lce_own_exponents_args a)                           \
    {                                                                                                        \
        lce::own_exponents<F16, lce::EXPONENTIALS, Logits>(a);                                               \
    }                                                                                                        \
    PRODUCT(dinput_##type, (lce::own_product<F16, false, LCE_WIDE>))                                         \
    PRODUCT(dinput_narrow_##type, (lce::own_product<F16, false, LCE_NARROW>))                                \
    PRODUCT(dinput_sums_##type, (lce::own_product<F16, true, LCE_WIDE>))                                     \
    PRODUCT(dweight_##type, (lce::own_turns<F16, false, Dweight>))                                           \
    PRODUCT(dweight_narrow_##type, (lce::own_turns<F16, false, Narrow>))                                     \
    PRODUCT(dweight_wide_##type, (lce::own_turns<F16, true, Dweight>))                                       \
    PRODUCT(dweight_wide_narrow_##type, (lce::own_turns<F16, true, Narrow>))                                 \
    extern "C" __global__ void __launch_bounds__(256)                                                        \
        lce_own_scatter_##type(const __grid_constant__ lce_own_rows_args a)                                  \
    {                                                                                                        \
        lce::own_scatter<T>(a);                                                                              \
    }

extern "C" __global__ void __launch_bounds__(LCE_PRODUCT_THREADS, 1)
    lce_own_odds_bf16(const __grid_constant__ lce_own_exponents_args a)
{
    lce::own_exponents<false, lce::ODDS, Logits>(a);
}
extern "C" __global__ void __launch_bounds__(LCE_PRODUCT_THREADS, 1)
    lce_own_gradient_bf16(const __grid_constant__ lce_own_exponents_args a)
{
    lce::own_exponents<false, lce::GRADIENT, Logits>(a);
}

PRODUCTS(bf16, false, __nv_bfloat16)
PRODUCTS(f16, true, __half)
