/* cublas.c - stands in for libcublas: handles keep what they are told, products do nothing. */
#include "blas_common.h"
#include "own_memory.h"

#include <stdlib.h>

enum { SCALARS = 1 << 10, SMALL = 128 << 10, MIB = 1 << 20, POOLS = 8 };
enum {
    POINTER_MODE,
    ATOMICS_MODE,
    MATH_MODE,
    SM_COUNT,
    STRATEGY,
    SPECIAL_VALUES,
    CONTROL,
    MOST_BITS,
    BITS_OFFSET,
    SETTINGS
};

struct handle {
    void *stream;
    int settings[SETTINGS];
    void *bit_count, *logger;
    CUdeviceptr memory[1 + POOLS];
};

static size_t recommended(int capability)
{
    return capability / 10 == 9 || capability / 10 == 10 ? 32 * MIB
           : capability / 10 == 12                       ? 12 * MIB
                                                         : 4 * MIB;
}

static bool take(struct handle *h, size_t bytes)
{
    int i = 0;
    while (i < 1 + POOLS && h->memory[i])
        i++;
    return !bytes || i == 1 + POOLS || (h->memory[i] = own_alloc(bytes));
}

/* ":SIZE:COUNT:SIZE:COUNT", sizes in KiB. */
static bool take_configured(struct handle *h, const char *config)
{
    char *end = NULL;
    while (*config == ':') {
        size_t size = strtoul(config + 1, &end, 10);
        size_t count = *end == ':' ? strtoul(end + 1, &end, 10) : 1;
        if (!take(h, (size << 10) * count))
            return false;
        config = end;
    }
    return true;
}

/* What a handle takes while it lives was measured on an H200 with cuBLAS 13.1.0.3 (CUDA 13.0.2): 1 KiB, 128
 * KiB and 64 MiB; with CUBLAS_WORKSPACE_CONFIG 1 KiB and what that says.  64 MiB are twice the workspace that
 * cuBLAS's documentation recommends for Hopper; other cards get twice theirs, told as a guess. */
static bool take_default(struct handle *h)
{
    size_t large = 2 * recommended(own_capability());
    static size_t most;
    if (!own_measured())
        guess("beside", &most, "a handle's own memory", large + SMALL + SCALARS);
    return take(h, SMALL) && take(h, large);
}

static void give_back(struct handle *h)
{
    for (int i = POOLS; i >= 0; i--)
        own_free(h->memory[i]);
    free(h);
}

STANDS_IN int create(struct handle **handle)
{
    const char *config = getenv("CUBLAS_WORKSPACE_CONFIG");
    struct handle *h = calloc(1, sizeof *h);
    if (!h || !own_context()) {
        free(h);
        return NOT_INITIALIZED;
    }
    if (!take(h, SCALARS) || !(config && *config == ':' ? take_configured(h, config) : take_default(h))) {
        give_back(h);
        return ALLOC_FAILED;
    }
    *handle = h;
    return SUCCESS;
}

STANDS_IN int destroy(struct handle *h)
{
    if (!h)
        return NOT_INITIALIZED;
    give_back(h);
    return SUCCESS;
}

#include "handle.h"
SETTING(pointer_mode, POINTER_MODE)
SETTING(atomics, ATOMICS_MODE)
SETTING(math, MATH_MODE)
SETTING(sm_count, SM_COUNT)
SETTING(strategy, STRATEGY)
SETTING(special, SPECIAL_VALUES)
SETTING(control, CONTROL)
SETTING(most_bits, MOST_BITS)
SETTING(bits_offset, BITS_OFFSET)

STANDS_IN int set_bit_count(struct handle *h, void *pointer)
{
    h->bit_count = pointer;
    return SUCCESS;
}

STANDS_IN int get_bit_count(struct handle *h, void **pointer)
{
    *pointer = h->bit_count;
    return SUCCESS;
}

static void *logger;

STANDS_IN int set_logger(void *callback)
{
    logger = callback;
    return SUCCESS;
}

STANDS_IN int get_logger(void **callback)
{
    *callback = logger;
    return SUCCESS;
}

STANDS_IN int get_version(struct handle *h, int *version)
{
    (void)h;
    *version = VERSION;
    return SUCCESS;
}

/* ---- results and statuses that the host reads ---- */

/* The number of the argument or matrix that failed: none. */
STANDS_IN int info_7(intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f, int *info)
{
    *info = 0;
    return SUCCESS;
}

STANDS_IN int info_10(intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f, intptr_t g,
                      intptr_t i, intptr_t k, int *info)
{
    *info = 0;
    return SUCCESS;
}

/* The same, of each matrix of a batch and on the device. */
STANDS_IN int infos_6(struct handle *h, intptr_t b, intptr_t c, intptr_t d, intptr_t e, CUdeviceptr infos,
                      int batch)
{
    own_zero(infos, batch, h->stream);
    return SUCCESS;
}

STANDS_IN int infos_7(struct handle *h, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f,
                      CUdeviceptr infos, int batch)
{
    return infos_6(h, b, c, d, e, infos, batch);
}

STANDS_IN int infos_8(struct handle *h, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f,
                      intptr_t g, CUdeviceptr infos, int batch)
{
    return infos_6(h, b, c, d, e, infos, batch);
}

STANDS_IN int info_10_infos_11(struct handle *h, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f,
                               intptr_t g, intptr_t i, intptr_t k, int *info, CUdeviceptr infos, int batch)
{
    *info = 0;
    return infos_6(h, b, c, d, e, infos, batch);
}

#define RESULT(type, letter)                                                                                 \
    STANDS_IN int one_##letter(struct handle *h, intptr_t n, intptr_t x, intptr_t stride, type *result)      \
    {                                                                                                        \
        if (h->settings[POINTER_MODE] == 0)                                                                  \
            *result = 1;                                                                                     \
        return SUCCESS;                                                                                      \
    }                                                                                                        \
    STANDS_IN int dot_##letter(struct handle *h, intptr_t n, intptr_t x, intptr_t dx, intptr_t y,            \
                               intptr_t dy, type *result)                                                    \
    {                                                                                                        \
        return one_##letter(h, n, x, dx, result);                                                            \
    }
RESULT(float, S)
RESULT(double, D)
RESULT(_Complex float, C)
RESULT(_Complex double, Z)
RESULT(int, I)
RESULT(int64_t, L)

#include "cublas.def"
