/* foreach.c - lists of tensors (by_value.h). */
#include "by_value.h"

#include <stdio.h>
#include <string.h>

#include "core/contracts.h"

/* The structures are those of
 * ATen/native/cuda/MultiTensorApply.cuh, n = 1 to 5,
 *
 *      TensorListMetadata<n>                      lists, elements, blocks, a number
 *      FusedOptimizerTensorListMetadata<n>        lists, elements, steps, blocks, a number
 *      TensorListScalarListMetadata<T, n>         lists, elements, scalars, blocks
 *
 * in two forms: of 4 KB, and since PyTorch 2.12 of 32 KB where that was built with CUDA 13.  They differ in
 * their room for tensors and blocks, and in the bytes of a block's tensor; its chunk of it is an int.  And of
 * Shape.cu
 *
 *      CatArrInputTensorMetadata<T, unsigned, n, m>    n tensors: three ints and a byte of each; and
 *                                                      32 bytes of each of m */
static const struct form {
    uint16_t tensors[5], with_scalars[5]; /* by the number of lists, less 1 */
    uint16_t blocks;
    uint8_t index; /* bytes of a block's tensor */
} forms[] = {
    {{110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}, 320, 1},
    {{770, 448, 336, 252, 210}, {672, 448, 336, 252, 210}, 2240, 2},
};

/* What a kernel's name says of its structure. */
struct named {
    uint32_t lists;      /* 0: nothing */
    uint32_t extra;      /* bytes for each tensor behind the elements */
    bool steps, scalars; /* what these are */
};

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

/* The scalars of a list are float or double, but for integers and complex numbers, whose lists are rare. */
static struct named named(const char *name)
{
    const char *kernel = behind(name, "25multi_tensor_apply_kernelI");
    const char *fused = behind(kernel, "32FusedOptimizerTensorListMetadataI");
    const char *scalars = behind(kernel, "28TensorListScalarListMetadataI");
    const char *plain = behind(kernel, "18TensorListMetadataI");
    uint32_t n;
    if ((n = lists_at(fused)) != 0)
        return (struct named){.lists = n, .extra = 8, .steps = true};
    if ((scalars[0] == 'f' || scalars[0] == 'd') && (n = lists_at(scalars + 1)) != 0)
        return (struct named){.lists = n, .extra = scalars[0] == 'f' ? 4 : 8, .scalars = true};
    return (struct named){.lists = lists_at(plain)};
}

static struct vs_foreach in_form(const struct named *k, const struct form *form, uint32_t size)
{
    uint32_t tensors = (k->scalars ? form->with_scalars : form->tensors)[k->lists - 1];
    uint32_t begin = (k->lists + 1) * tensors * 8;
    uint32_t blocks = begin + k->extra * form->with_scalars[k->lists - 1];
    uint32_t end = blocks + form->blocks * (form->index + 4u) + (k->scalars ? 0 : 4);
    if (to_eight(end) != size)
        return (struct vs_foreach){0};
    return (struct vs_foreach){.lists = (uint8_t)k->lists,
                               .wide = form->index == 2,
                               .tensors = (uint16_t)tensors,
                               .steps = k->steps ? (uint16_t)begin : 0,
                               .blocks = (uint16_t)blocks};
}

static struct vs_foreach foreach_of(const char *name, uint32_t size)
{
    struct named k = named(name);
    struct vs_foreach f = {0};
    if (k.lists == 0)
        return f;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && f.lists == 0; i++)
        f = in_form(&k, &forms[i], size);
    f.torch = strstr(name, "2at6native") != NULL; /* other libraries have kernels of this name, too */
    if (f.torch && f.lists != 0)
        vs_contract_proven(VS_CONTRACT_TORCH_FOREACH, "lists of up to %u tensors in %u bytes", f.tensors,
                           size);
    else if (f.torch)
        vs_contract_broken(VS_CONTRACT_TORCH_FOREACH,
                           "lists of tensors in %u bytes, which is no size of 2.4 to 2.15", size);
    return f;
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

struct vs_foreach vs_foreach_of(const char *name, uint32_t first, uint32_t second)
{
    struct vs_foreach f = foreach_of(name, first);
    return f.lists != 0 ? f : cat_of(name, second);
}

/* (un)vectorized_elementwise_kernel<..., F, std::array<char *, n>, ...>(int, F, std::array<char *, n>, ...);
 * before PyTorch 2.6 it is an at::detail::Array<char *, n> */
bool vs_foreach_is_array(const char *name, uint32_t size)
{
    const char *kernel = behind(name, "2at6native");
    const char *at = strstr(kernel, "29vectorized_elementwise_kernelI");
    unsigned n;
    if (at == NULL)
        at = strstr(kernel, "27unrolled_elementwise_kernelI");
    return at != NULL &&
           (sscanf(behind(at, "St5arrayIPcLm"), "%2uE", &n) == 1 ||
            sscanf(behind(at, "6detail5ArrayIPcLi"), "%2uE", &n) == 1) &&
           size == 8 * n;
}

/* The tables lie in the program's own memory, wherever that begins. */
typedef uint16_t wide_index __attribute__((aligned(1), may_alias));
typedef uint32_t chunk_number __attribute__((aligned(1), may_alias));

/* The blocks of a launch go through the tensors in their order, and through the chunks of each; the first may
 * go on with a tensor of the launch before.  How many tensors they have, 0: they do not go so.  A difference
 * of 0 or 1 makes the mask that the chunk before counts with, so that the loop has no branch. */
#define TENSORS_OF_BLOCKS(name, index)                                                                       \
    static uint32_t name(const index *tensor, const chunk_number *chunk, uint32_t blocks)                    \
    {                                                                                                        \
        uint32_t wrong = (tensor[0] != 0) | (chunk[0] > INT32_MAX);                                          \
        for (uint32_t i = 1; i < blocks; i++) {                                                              \
            uint32_t next = (uint32_t)tensor[i] - tensor[i - 1], after = chunk[i - 1] + 1;                   \
            wrong |= (next & ~1u) | (chunk[i] ^ (after & (next - 1)));                                       \
        }                                                                                                    \
        return wrong ? 0 : tensor[blocks - 1] + 1u;                                                          \
    }
TENSORS_OF_BLOCKS(narrow_tensors, uint8_t)
TENSORS_OF_BLOCKS(wide_tensors, wide_index)

static uint32_t tensors_of_blocks(const struct vs_foreach *f, const char *param, uint32_t blocks)
{
    const struct form *form = &forms[f->wide];
    const char *tensor = param + f->blocks;
    const chunk_number *chunk = (const chunk_number *)(tensor + form->blocks * form->index);
    if (blocks == 0 || blocks > form->blocks)
        return 0;
    uint32_t count = f->wide ? wide_tensors((const wide_index *)tensor, chunk, blocks)
                             : narrow_tensors((const uint8_t *)tensor, chunk, blocks);
    return count > f->tensors || (f->steps != 0 && count > (f->blocks - f->steps) / 8u) ? 0 : count;
}

uint32_t vs_foreach_tensors(const struct vs_foreach *f, const void *param, struct vs_grid grid)
{
    if (f->lists == 0)
        return 0;
    if (f->blocks == 0)
        return grid.y <= f->tensors ? grid.y : 0;
    uint32_t count = grid.y == 1 ? tensors_of_blocks(f, param, grid.x) : 0;
    if (__builtin_expect(count == 0 && f->torch, 0))
        vs_contract_broken(VS_CONTRACT_TORCH_FOREACH,
                           "a launch's blocks do not go through the tensors in their order");
    return count;
}
