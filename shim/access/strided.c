/* strided.c - tensors of any strides (by_value.h). */
#include "by_value.h"

#include <stdio.h>
#include <string.h>

#include "core/contracts.h"
#include "core/hot.h"
#include "core/pages.h"

/* The structures are those of PyTorch's
 * OffsetCalculator.cuh, CUDALoops.cuh, Reduce.cuh and TensorInfo.cuh, for offsets of 32 bits:
 *
 *      OffsetCalculator<n>      int dimensions; 25 divisors of 12 bytes; 25 times n strides of 4
 *      elementwise's lambda     OffsetCalculator<n>; char *[n]; the function (types of the tensors, first)
 *      ReduceOp                 function, ident, configuration; OffsetCalculator<1>; OffsetCalculator<2>;
 *                               source, outputs[2], sums, sums of blocks, semaphores; int64_t; two bools; int
 *      TensorInfo<T, index>     T *; 25 sizes and 25 strides of the index; int dimensions */
#define DIMENSIONS 25u
#define MOST       32u /* tensors of a calculator */

static VS_HOT bool proven; /* written by any thread, and only once to true */

static uint32_t calculator(uint32_t tensors)
{
    return 4 + DIMENSIONS * (12 + 4 * tensors);
}

static uint32_t to_eight(uint32_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* A tensor's description whose index has BYTES. */
static uint32_t described(uint32_t bytes)
{
    return to_eight(8 + 2 * DIMENSIONS * bytes + 4);
}

/* Behind TEXT in NAME; an empty text: it is not there. */
static const char *behind(const char *name, const char *text)
{
    const char *at = strstr(name, text);
    return at != NULL ? at + strlen(text) : "";
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* ---- elementwise ---- */

/* elementwise_kernel<threads, work, the lambda of gpu_kernel_impl or gpu_kernel_impl_nocast>: the name of the
 * function that these are for; NULL: it is no such kernel. */
static const char *function_of(const char *name)
{
    unsigned threads, work;
    int read = 0;
    const char *at = behind(name, "2at6native18elementwise_kernelI");
    if (sscanf(at, "Li%4uELi%4uEZNS0_%n", &threads, &work, &read) != 2 || read == 0)
        return NULL;
    if (!begins(at + read, "15gpu_kernel_implI") && !begins(at + read, "22gpu_kernel_impl_nocastI"))
        return NULL;
    return strchr(at + read, 'I') + 1;
}

/* The structure ends with eight bytes that nobody writes.  Copies, sums, products and fills, nearly all that
 * there is, have factors and constants at most. */
static bool has_numbers(const char *function)
{
    static const char *const known[] = {"ZZZNS0_23direct_copy_kernel_cudaE",
                                        "NS0_15CUDAFunctor_addI",
                                        "NS0_21CUDAFunctorOnSelf_addI",
                                        "NS0_22CUDAFunctorOnOther_addI",
                                        "NS0_13BinaryFunctorI",
                                        "NS0_13AUnaryFunctorI",
                                        "NS0_13BUnaryFunctorI",
                                        "NS0_11FillFunctorI",
                                        "NS0_10AbsFunctorI"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins(function, known[i]))
            return true;
    return false;
}

/* So many tensors as the size has room for; a function so large that one of them is too many has no such
 * addresses where this one's would be, which each launch finds out. */
static struct vs_strided elementwise_of(uint32_t size)
{
    uint32_t n = 0;
    while (n < MOST && to_eight(calculator(n + 1)) + 8 * (n + 1) < size)
        n++;
    return n == 0 ? (struct vs_strided){0}
                  : (struct vs_strided){.param = 2,
                                        .addresses = (uint8_t)n,
                                        .at = (uint16_t)to_eight(calculator(n)),
                                        .size = (uint16_t)size};
}

/* ---- reduce ---- */

#define TAIL 64u /* from the source on */
#define GAP  4u  /* in front of it, where the calculators do not end at a multiple of 8 */

/* The first calculator; before, of a structure with a gap. */
static uint32_t input_calculator(const struct vs_strided *s)
{
    return s->at - calculator(2) - calculator(1);
}

static struct vs_strided reduce_of(uint32_t size)
{
    return size % 8 != 0 || size < calculator(1) + calculator(2) + GAP + TAIL
               ? (struct vs_strided){0}
               : (struct vs_strided){
                     .param = 1, .reduces = true, .at = (uint16_t)(size - TAIL), .size = (uint16_t)size};
}

struct vs_strided vs_strided_of(const char *name, uint32_t count, uint32_t size)
{
    if (size > UINT16_MAX)
        return (struct vs_strided){0};
    const char *function = count == 2 ? function_of(name) : NULL;
    if (function != NULL) {
        struct vs_strided s = elementwise_of(size);
        s.only_numbers = has_numbers(function);
        return s;
    }
    if (count == 1 && begins(behind(name, "2at6native13reduce_kernelI"), "Li") &&
        *behind(name, "ENS0_8ReduceOpI") != 0)
        return reduce_of(size);
    return (struct vs_strided){0};
}

/* ---- launches ---- */

static uint64_t word_at(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static bool are_blocks(const char *at, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && vs_pages_may(word_at(at + 8 * i)))
        i++;
    return i == n;
}

static bool has_dimensions(const char *calculator)
{
    uint32_t dimensions;
    memcpy(&dimensions, calculator, sizeof dimensions);
    return dimensions <= DIMENSIONS;
}

static uint32_t parts_of_elementwise(const struct vs_strided *s, const char *value, struct vs_words *parts)
{
    uint32_t behind = s->at + 8u * s->addresses;
    if (!has_dimensions(value) || !are_blocks(value + s->at, s->addresses))
        return 0;
    parts[0] = (struct vs_words){value + s->at, s->addresses, true};
    parts[1] = (struct vs_words){value + behind, (s->size - behind) / 8, false};
    return s->only_numbers ? 1 : 2;
}

/* Buffers are NULL where the launch needs none. */
static bool are_buffers(const char *at, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && (word_at(at + 8 * i) == 0 || are_blocks(at + 8 * i, 1)))
        i++;
    return i == n;
}

/* The two calculators, one behind the other. */
static bool have_dimensions(const char *calculators)
{
    return has_dimensions(calculators) && has_dimensions(calculators + calculator(1));
}

static uint32_t parts_of_reduce(const struct vs_strided *s, const char *value, struct vs_words *parts)
{
    const char *source = value + s->at, *bools = source + TAIL - 8;
    uint32_t begin = input_calculator(s);
    int32_t outputs;
    memcpy(&outputs, source + TAIL - sizeof outputs, sizeof outputs);
    if ((!have_dimensions(value + begin) && !have_dimensions(value + begin - GAP)) || outputs < 1 ||
        outputs > 2 || (uint8_t)bools[0] > 1 || (uint8_t)bools[1] > 1 ||
        !are_blocks(source, 1 + (uint32_t)outputs) || !are_buffers(source + 24, 3))
        return 0;
    parts[0] = (struct vs_words){value, begin / 8, false};
    parts[1] = (struct vs_words){source, 1 + (uint32_t)outputs, true};
    parts[2] = (struct vs_words){source + 24, 3, true};
    return 3;
}

/* Addresses may be of memory that nobody saw; the dimensions are a number of 25 at most in any case. */
static bool has_numbers_where_known(const struct vs_strided *s, const char *value)
{
    const char *calculators = value + (s->reduces ? input_calculator(s) : 0);
    return has_dimensions(calculators) || (s->reduces && has_dimensions(calculators - GAP));
}

static __attribute__((noinline, cold)) void judge(const struct vs_strided *s, const char *value, uint32_t n)
{
    if (n != 0)
        vs_contract_proven(VS_CONTRACT_TORCH_STRIDED,
                           "a launch has addresses of blocks where they should be");
    else if (!has_numbers_where_known(s, value))
        vs_contract_broken(VS_CONTRACT_TORCH_STRIDED, "a calculator of offsets has more than %u dimensions",
                           DIMENSIONS);
    __atomic_store_n(&proven, proven || n != 0, __ATOMIC_RELAXED);
}

uint32_t vs_strided_parts(const struct vs_strided *s, const char *value,
                          struct vs_words parts[VS_STRIDED_PARTS])
{
    uint32_t n = s->reduces ? parts_of_reduce(s, value, parts) : parts_of_elementwise(s, value, parts);
    if (__builtin_expect(n == 0 || !__atomic_load_n(&proven, __ATOMIC_RELAXED), 0))
        judge(s, value, n);
    return n;
}

/* ---- parameters of their own ---- */

uint32_t vs_strided_room(const char *name, uint32_t size)
{
    bool calculates = strstr(name, "16OffsetCalculatorILi") != NULL;
    bool describes = strstr(name, "6detail10TensorInfoI") != NULL;
    uint32_t tensors = size > calculator(0) ? (size - calculator(0)) / 100 : 0;
    if (calculates && tensors >= 1 && tensors <= MOST && size == calculator(tensors))
        return 0;
    if (describes && (size == described(4) || size == described(8)))
        return 8;
    return size;
}
