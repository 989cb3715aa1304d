/*
 * products.cpp - our own products (kernels/cuda/product.cu), whose instructions only compute capability 9.0
 * has, as loops made by their description: sums in double, once for the whole grid.
 *
 * Rows of the logits beyond the tokens that count are NaN up to the end of a cluster's tile, and exponentials
 * beyond the last class 0: so whoever reads what is not there is found out.
 */
#include <cuda.h>
#include <math.h>
#include <string.h>

#include "half.h"
#include "product_args.h"

/* A matrix of which tiles are copied, as its map says. */
struct Matrix {
    char *address;
    int64_t columns, rows, stride; /* bytes */
    bool wide, f16;

    char *at(int64_t row, int64_t column) const { return address + row * stride + column * (wide ? 4 : 2); }
    bool inside(int64_t row, int64_t column) const { return row < rows && column < columns; }
    float get(int64_t row, int64_t column) const
    {
        if (!inside(row, column))
            return 0;
        if (wide)
            return *reinterpret_cast<float *>(at(row, column));
        const uint16_t bits = *reinterpret_cast<uint16_t *>(at(row, column));
        return f16 ? lce_from_f16(bits) : lce_from_bf16(bits);
    }
    void bits(int64_t row, int64_t column, uint16_t value) const
    {
        if (inside(row, column))
            *reinterpret_cast<uint16_t *>(at(row, column)) = value;
    }
    void set(int64_t row, int64_t column, float value) const
    {
        if (wide && inside(row, column))
            *reinterpret_cast<float *>(at(row, column)) = value;
        else if (!wide)
            bits(row, column, f16 ? lce_to_f16(value) : lce_to_bf16(value));
    }
};
static_assert(sizeof(Matrix) <= sizeof(CUtensorMap), "a map holds a matrix");

extern "C" __attribute__((visibility("default"))) CUresult
cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t, void *address,
                       const cuuint64_t *size, const cuuint64_t *stride, const cuuint32_t *,
                       const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                       CUtensorMapFloatOOBfill)
{
    const Matrix matrix = {static_cast<char *>(address),
                           static_cast<int64_t>(size[0]),
                           static_cast<int64_t>(size[1]),
                           static_cast<int64_t>(stride[0]),
                           type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                           type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16};
    memcpy(map, &matrix, sizeof matrix);
    return CUDA_SUCCESS;
}
extern "C" __attribute__((visibility("default"))) CUresult cuFuncSetAttribute(CUfunction,
                                                                              CUfunction_attribute, int)
{
    return CUDA_SUCCESS;
}

static Matrix of(const CUtensorMap &map)
{
    Matrix matrix;
    memcpy(&matrix, &map, sizeof matrix);
    return matrix;
}

static int64_t tokens_of(const lce_own_args &a)
{
    const int64_t left = a.counted ? *a.counted - a.first : a.tokens;
    return left < 0 ? 0 : left < a.tokens ? left : a.tokens;
}

static int64_t up(int64_t count, int64_t unit)
{
    return (count + unit - 1) / unit * unit;
}

static int64_t label_of(const lce_labels &l, int64_t token)
{
    return l.wide ? static_cast<const int64_t *>(l.labels)[token]
                  : static_cast<const int32_t *>(l.labels)[token];
}

static double alpha_of(const lce_own_args &a)
{
    return a.alpha ? *a.alpha : 1;
}

/* One element of x weight^T. */
static float logit(const Matrix &x, const Matrix &weight, int64_t row, int64_t c, int64_t hidden)
{
    double sum = 0;
    for (int64_t h = 0; h < hidden; h++)
        sum += static_cast<double>(x.get(row, h)) * weight.get(c, h);
    return static_cast<float>(sum);
}

enum { TILE_HEIGHT = 256 }; /* of a cluster */

static void logits(const lce_own_args &a)
{
    const Matrix x = of(a.a), weight = of(a.b), out = of(a.out);
    const int64_t tokens = tokens_of(a);
    for (int64_t row = 0; row < up(tokens, TILE_HEIGHT); row++)
        for (int64_t c = 0; c < up(a.n, LCE_TILE_CLASSES); c++)
            out.set(row, c, row < tokens ? logit(x, weight, row, c, a.k) : NAN);
}

static uint16_t exponential_bits(double e)
{
    const uint32_t bits = lce_bits(e < ldexp(1, -126) ? 0 : static_cast<float>(e));
    return static_cast<uint16_t>((bits + 0x2000) >> 14);
}

/* ODDS: bf16, relative to the row's reference unless a logit is 2^64 times as probable as that or more. */
static void row_of_tile(const lce_own_exponents_args &a, const Matrix &out, int64_t row, int32_t tile,
                        bool odds)
{
    const Matrix x = of(a.product.a), weight = of(a.product.b);
    const int64_t place = a.product.first + row, token = a.index ? a.index[place] : place,
                  begin = static_cast<int64_t>(tile) * LCE_TILE_CLASSES;
    const int64_t label = token < 0 ? -1 : label_of(a.labels, token);
    float z[LCE_TILE_CLASSES], most = -INFINITY;
    for (int64_t i = 0; i < LCE_TILE_CLASSES; i++) {
        z[i] = begin + i < a.product.n ? logit(x, weight, row, begin + i, a.product.k) : -INFINITY;
        if (a.begin + begin + i == label) {
            a.targets[row] = z[i];
            z[i] = -INFINITY;
        }
        most = fmaxf(most, z[i]);
    }
    double k = most == -INFINITY ? most : ceil(static_cast<double>(most) * a.to_bits), sum = 0;
    if (odds && k <= a.references[row] + 64)
        k = a.references[row];
    for (int64_t i = 0; i < LCE_TILE_CLASSES; i++) {
        const double e = exp2(static_cast<double>(z[i]) * a.to_bits - (k == -INFINITY ? 0 : k));
        sum += e;
        out.bits(row, begin + i,
                 odds ? lce_to_bf16(e < ldexp(1, -126) ? 0 : static_cast<float>(e)) : exponential_bits(e));
    }
    a.tiles[row * a.count + tile] = {static_cast<float>(k), static_cast<float>(sum)};
}

static void exponentials(const lce_own_exponents_args &a, bool odds)
{
    const Matrix out = of(a.product.out);
    const int64_t tokens = tokens_of(a.product);
    for (int64_t row = 0; row < up(tokens, TILE_HEIGHT); row++)
        for (int32_t tile = 0; tile < a.count; tile++) {
            for (int64_t c = 0; row >= tokens && c < LCE_TILE_CLASSES; c++)
                out.bits(row, static_cast<int64_t>(tile) * LCE_TILE_CLASSES + c, 0xffff);
            if (row < tokens)
                row_of_tile(a, out, row, tile, odds);
        }
}
static void exponents(const lce_own_exponents_args &a)
{
    exponentials(a, false);
}
static void odds(const lce_own_exponents_args &a)
{
    exponentials(a, true);
}

/* The gradient without the label's, of rows whose sums are known; of those that do not count 0. */
static void gradient(const lce_own_exponents_args &a)
{
    const Matrix x = of(a.product.a), weight = of(a.product.b), out = of(a.product.out);
    const int64_t tokens = tokens_of(a.product);
    for (int64_t row = 0; row < up(tokens, TILE_HEIGHT); row++)
        for (int64_t c = 0; c < up(a.product.n, LCE_TILE_CLASSES); c++) {
            const bool counts = row < tokens && c < a.product.n &&
                                a.begin + c != label_of(a.labels, a.index[a.product.first + row]);
            const double power = counts && a.known[row].power != -INFINITY ? a.known[row].power : 0;
            const double z = counts ? static_cast<double>(logit(x, weight, row, c, a.product.k)) : 0,
                         e = exp2(z * a.to_bits - power);
            out.set(row, c,
                    counts ? a.known[row].factor * static_cast<float>(e < ldexp(1, -126) ? 0 : e) : 0);
        }
}

/* g weight, into the rows that x lay in; no tile is split. */
static void dinput(const lce_own_args &a)
{
    const Matrix g = of(a.a), weight = of(a.b), out = of(a.out);
    for (int64_t row = 0; row < tokens_of(a); row++)
        for (int64_t h = 0; h < a.n; h++) {
            double sum = 0;
            for (int64_t c = 0; c < a.k; c++)
                sum += static_cast<double>(g.get(row, c)) * weight.get(c, h);
            out.set(row, h, static_cast<float>(alpha_of(a) * sum));
        }
}

/* g weight, added to sums in fp32. */
static void dinput_sums(const lce_own_args &a)
{
    const Matrix g = of(a.a), weight = of(a.b);
    for (int64_t row = 0; row < tokens_of(a); row++)
        for (int64_t h = 0; h < a.n; h++) {
            double sum = 0;
            for (int64_t c = 0; c < a.k; c++)
                sum += static_cast<double>(g.get(row, c)) * weight.get(c, h);
            float *to = static_cast<float *>(a.sums) + row * a.sums_stride + h;
            *to = static_cast<float>(alpha_of(a) * sum + (a.beta != 0 ? a.beta * *to : 0));
        }
}

/* g^T x; of a block of 64 tokens that begins before their end all rows take part. */
static void dweight(const lce_own_args &a)
{
    const Matrix g = of(a.a), x = of(a.b), out = of(a.out);
    for (int64_t c = 0; c < a.m; c++)
        for (int64_t h = 0; h < a.n; h++) {
            double sum = 0;
            for (int64_t row = 0; row < up(tokens_of(a), LCE_TILE_K); row++)
                sum += static_cast<double>(g.get(row, c)) * x.get(row, h);
            const float before = a.beta != 0 ? a.beta * out.get(c, h) : 0;
            out.set(c, h, static_cast<float>(alpha_of(a) * sum + before));
        }
}

static void dinput_of_odds(const lce_own_rows_args &a, int64_t row, int64_t token, uint16_t *line)
{
    const uint16_t *w = static_cast<const uint16_t *>(a.weight) + label_of(a.labels, token) * a.weight_stride;
    for (int32_t h = 0; h < a.product.n; h++)
        line[h] = lce_to_bf16(a.factors[row].label * lce_from_bf16(w[h]) +
                              a.factors[row].others * lce_from_bf16(line[h]));
}

static void scatter(const lce_own_rows_args &a)
{
    for (int64_t row = 0; row < tokens_of(a.product); row++) {
        const int64_t to = a.index ? a.index[row] : row;
        if (to < 0) /* where the emulation has no barriers */
            continue;
        char *line = static_cast<char *>(a.to) + 2 * to * a.to_stride;
        memcpy(line, static_cast<const char *>(a.from) + 2 * row * a.from_stride,
               2 * static_cast<size_t>(a.product.n));
        if (a.factors)
            dinput_of_odds(a, row, to, reinterpret_cast<uint16_t *>(line));
    }
}

#define KERNEL(name, arguments, call)                                                                        \
    extern "C" __attribute__((visibility("default"))) void lce_own_##name(const arguments a)                 \
    {                                                                                                        \
        call(a);                                                                                             \
    }
#define KERNELS(type)                                                                                        \
    KERNEL(logits_##type, lce_own_args, logits)                                                              \
    KERNEL(logits_wide_##type, lce_own_args, logits)                                                         \
    KERNEL(exponents_##type, lce_own_exponents_args, exponents)                                              \
    KERNEL(dinput_##type, lce_own_args, dinput)                                                              \
    KERNEL(dinput_narrow_##type, lce_own_args, dinput)                                                       \
    KERNEL(dinput_sums_##type, lce_own_args, dinput_sums)                                                    \
    KERNEL(dweight_##type, lce_own_args, dweight)                                                            \
    KERNEL(dweight_narrow_##type, lce_own_args, dweight)                                                     \
    KERNEL(dweight_wide_##type, lce_own_args, dweight)                                                       \
    KERNEL(dweight_wide_narrow_##type, lce_own_args, dweight)                                                \
    KERNEL(scatter_##type, lce_own_rows_args, scatter)

KERNEL(odds_bf16, lce_own_exponents_args, odds)
KERNEL(gradient_bf16, lce_own_exponents_args, gradient)
KERNELS(bf16)
KERNELS(f16)
