/*
 * foreach.c - see foreach.h.  The structures are those of ATen/native/cuda/MultiTensorApply.cuh, n = 1 to 5,
 *
 *      TensorListMetadata<n>, FusedOptimizerTensorListMetadata<n>      110, 64, 48, 36, 30 tensors
 *      TensorListScalarListMetadata<T, n>                               96, 64, 48, 36, 30
 *
 * each with 320 blocks: a byte for a block's tensor, an int for its chunk of it; and of Shape.cu
 *
 *      CatArrInputTensorMetadata<T, unsigned, n, m>    n tensors: three ints and a byte of each; and
 *                                                      32 bytes of each of m
 */
#include "foreach.h"

#include <stdio.h>
#include <string.h>

#define BLOCKS 320u
#define TABLES (BLOCKS * 5u)

static const uint16_t most[] = {110, 64, 48, 36, 30}, most_with_scalars[] = {96, 64, 48, 36, 30};

/* The number in "Li<n>E" at AT; 0: it is none from 1 to 5. */
static uint32_t lists_at(const char *at)
{
    return at[0] == 'L' && at[1] == 'i' && at[2] >= '1' && at[2] <= '5' && at[3] == 'E'
               ? (uint32_t)(at[2] - '0')
               : 0;
}

/* Behind TYPE in NAME; an empty text: it is not there. */
static const char *behind(const char *name, const char *type)
{
    const char *at = strstr(name, type);
    return at != NULL ? at + strlen(type) : "";
}

static uint32_t to_eight(uint32_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static struct vs_foreach checked(uint32_t lists, uint32_t tensors, uint32_t extra, bool extra_is_list,
                                 uint32_t rest, uint32_t size)
{
    uint32_t begin = (lists + 1) * tensors * 8, blocks = begin + extra;
    if (lists == 0 || to_eight(blocks + TABLES + rest) != size)
        return (struct vs_foreach){0};
    return (struct vs_foreach){.lists = (uint8_t)lists,
                               .tensors = (uint16_t)tensors,
                               .steps = extra_is_list ? (uint16_t)begin : 0,
                               .blocks = (uint16_t)blocks};
}

/* CatArrayBatchedCopy...<T, unsigned, dimensions, n, m, ...> */
static struct vs_foreach cat_of(const char *name, uint32_t size)
{
    const char *at = strstr(behind(name, "CatArrayBatchedCopy"), "jLi");
    unsigned dimensions, n, m;
    if (at == NULL || strstr(at, "25CatArrInputTensorMetadataI") == NULL ||
        sscanf(at, "jLi%1uELi%3uELi%3uE", &dimensions, &n, &m) != 3)
        return (struct vs_foreach){0};
    uint32_t bytes = n * (sizeof(void *) + 3 * sizeof(int) + 1);
    if (n == 0 || n % 4 != 0 || to_eight(bytes + m * 8 * sizeof(int)) != size)
        return (struct vs_foreach){0};
    return (struct vs_foreach){.lists = 1, .param = 1, .tensors = (uint16_t)n};
}

static struct vs_foreach foreach_of(const char *name, uint32_t size)
{
    const char *kernel = behind(name, "25multi_tensor_apply_kernelI");
    const char *fused = behind(kernel, "32FusedOptimizerTensorListMetadataI");
    const char *scalars = behind(kernel, "28TensorListScalarListMetadataI");
    const char *plain = behind(kernel, "18TensorListMetadataI");
    uint32_t n;
    if ((n = lists_at(fused)) != 0)
        return checked(n, most[n - 1], 8u * most_with_scalars[n - 1], true, 4, size);
    if ((scalars[0] == 'f' || scalars[0] == 'd') && (n = lists_at(scalars + 1)) != 0)
        return checked(n, most_with_scalars[n - 1], (scalars[0] == 'f' ? 4u : 8u) * most_with_scalars[n - 1],
                       false, 0, size);
    if ((n = lists_at(plain)) != 0)
        return checked(n, most[n - 1], 0, false, 4, size);
    return (struct vs_foreach){0};
}

struct vs_foreach vs_foreach_of(const char *name, uint32_t first, uint32_t second)
{
    struct vs_foreach f = foreach_of(name, first);
    return f.lists != 0 ? f : cat_of(name, second);
}

/* (un)vectorized_elementwise_kernel<..., F, std::array<char *, n>, ...>(int, F, std::array<char *, n>, ...)
 */
bool vs_foreach_is_array(const char *name, uint32_t size)
{
    const char *kernel = behind(name, "2at6native");
    const char *at = strstr(kernel, "29vectorized_elementwise_kernelI");
    unsigned n;
    if (at == NULL)
        at = strstr(kernel, "27unrolled_elementwise_kernelI");
    return at != NULL && sscanf(behind(at, "St5arrayIPcLm"), "%2uE", &n) == 1 && size == 8 * n;
}

/* The blocks of a launch go through the tensors in their order, and through the chunks of each; the first may
 * go on with a tensor of the launch before. */
static uint32_t tensors_of_blocks(const struct vs_foreach *f, const void *param, uint32_t blocks)
{
    const uint8_t *tensor = (const uint8_t *)param + f->blocks;
    int32_t chunk[BLOCKS];
    uint32_t wrong;
    if (blocks == 0 || blocks > BLOCKS)
        return 0;
    memcpy(chunk, tensor + BLOCKS, blocks * sizeof *chunk);
    wrong = (tensor[0] != 0) | (chunk[0] < 0);
    for (uint32_t i = 1; i < blocks; i++) {
        uint32_t next = (uint32_t)tensor[i] - tensor[i - 1];
        wrong |= (next > 1) | (chunk[i] != (next ? 0 : chunk[i - 1] + 1));
    }
    uint32_t count = tensor[blocks - 1] + 1u;
    return wrong || count > f->tensors || (f->steps != 0 && count > (f->blocks - f->steps) / 8u) ? 0 : count;
}

uint32_t vs_foreach_tensors(const struct vs_foreach *f, const void *param, struct vs_grid grid)
{
    if (f->lists == 0)
        return 0;
    if (f->blocks != 0)
        return grid.y == 1 ? tensors_of_blocks(f, param, grid.x) : 0;
    return grid.y <= f->tensors ? grid.y : 0;
}
