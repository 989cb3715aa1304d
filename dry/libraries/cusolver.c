/*
 * cusolver.c - stands in for libcusolver's dense routines: they solve nothing, and say that all went well.
 *
 * The caller asks what a routine needs.  Cholesky's decomposition, QR and Jacobi's of many small matrices
 * follow rules. The rest is a guess: what LAPACK's documentation names, with blocks of 64; a block of columns
 * where LAPACK needs none; a copy of what is rotated for Jacobi's methods; and that a handle has one of
 * cuBLAS, which takes its memory at once.
 */
#include "names.h"
#include "own_memory.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 2, INVALID_VALUE = 3 };
enum { BLOCK = 64 };
enum { DETERMINISM, MATH_MODE, STRATEGY, SETTINGS };
#include "property.h"

struct handle {
    void *stream, *blas;
    int settings[SETTINGS];
};

/* A function of the cuBLAS of the same CUDA: that of another one may be loaded beside it. */
static int (*of_blas(const char *name))(void *)
{
    int (*function)(void *);
    *(void **)&function =
        dlvsym(RTLD_DEFAULT, name, CUDA_MAJOR == 13 ? "libcublas.so.13" : "libcublas.so.12");
    return function;
}

STANDS_IN int create(struct handle **handle)
{
    static size_t most;
    struct handle *h = calloc(1, sizeof *h);
    int (*create_blas)(void *) = of_blas("cublasCreate_v2");
    size_t before = own_left();
    int status = h && own_context() ? SUCCESS : NOT_INITIALIZED;
    if (status == SUCCESS && create_blas && create_blas(&h->blas) != 0)
        status = ALLOC_FAILED;
    if (status != SUCCESS) {
        free(h);
        return status;
    }
    size_t after = own_left(); /* more than before, where another thread gave something back */
    guess("beside", &most, "a handle's own memory", before > after ? before - after : 0);
    *handle = h;
    return SUCCESS;
}

STANDS_IN int destroy(struct handle *h)
{
    int (*destroy_blas)(void *) = of_blas("cublasDestroy_v2");
    if (h && h->blas && destroy_blas)
        destroy_blas(h->blas);
    free(h);
    return SUCCESS;
}

#include "handle.h"
SETTING(determinism, DETERMINISM)
SETTING(math, MATH_MODE)
SETTING(strategy, STRATEGY)

/* Parameters of a method: nobody asks what they are. */
STANDS_IN int create_parameters(void **made)
{
    *made = calloc(1, 64);
    return *made ? SUCCESS : ALLOC_FAILED;
}

STANDS_IN int destroy_parameters(void *made)
{
    free(made);
    return SUCCESS;
}

STANDS_IN int residual(void *handle, void *parameters, double *value)
{
    *value = 0;
    return SUCCESS;
}

STANDS_IN int sweeps(void *handle, void *parameters, int *count)
{
    *count = 1;
    return SUCCESS;
}

STANDS_IN int get_version(int *version)
{
    *version = VERSION;
    return SUCCESS;
}

/* ---- how it went: 0, in device memory ---- */

static int went_well(intptr_t handle, intptr_t info, int64_t count)
{
    own_zero((CUdeviceptr)info, (int)count, ((struct handle *)handle)->stream);
    return SUCCESS;
}

#define INFO(at)                                                                                             \
    STANDS_IN int info_##at(ARGUMENTS)                                                                       \
    {                                                                                                        \
        return went_well(a1, a##at, 1);                                                                      \
    }
#define INFOS(at, count)                                                                                     \
    STANDS_IN int info_##at##_##count(ARGUMENTS)                                                             \
    {                                                                                                        \
        return went_well(a1, a##at, INT(count));                                                             \
    }

INFO(8)
INFO(9)
INFO(10)
INFO(11)
INFO(12)
INFO(13)
INFO(14)
INFO(15)
INFO(16)
INFO(17)
INFO(22)
INFO(23)
INFO(26)
INFOS(6, 7)
INFOS(10, 12)
INFOS(14, 16)
INFOS(16, 17)
INFOS(19, 21)

/* ---- what is needed ---- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A square of N and some vectors, where eigenvectors are wanted. */
static int64_t divide_and_conquer(int64_t vectors, int64_t n)
{
    return vectors ? 1 + 6 * n + 2 * n * n : 2 * n + 1;
}

/* Of cudaDataType: single and double, real and complex. */
static int64_t width(int64_t type)
{
    return type == 0 ? 4 : type == 5 ? 16 : 8;
}

/* ---- rules, read off tests/data/dry/h200/libraries.tsv.gz, which has sizes up to LARGEST ---- */

enum { LOWER = 0, VECTORS = 1 };
enum { LARGEST = 4096, MOST_MATRICES = 100 };
enum { JACOBI_ELEMENTS = 992 }; /* of matrices of at most 32 x 32, however many */

/* A word for each block of 32 x 32, and 128 bytes. */
static int64_t cholesky_bytes(int64_t n)
{
    int64_t blocks = (n + 31) / 32;
    return (128 + 4 * blocks * blocks + 31) / 32 * 32;
}

static int64_t qr_elements(int64_t columns)
{
    return 1024 * (512 + larger(columns, 256));
}

static int elements(size_t *most, bool known, const char *routine, intptr_t result, int64_t count,
                    int64_t bytes)
{
    count = larger(count, 1);
    *(int *)result = count > INT32_MAX ? INT32_MAX : (int)count;
    if (!known || !own_measured())
        guess("guess", most, routine, (size_t)(count * bytes));
    return SUCCESS;
}

static int bytes_of(size_t *most, bool known, const char *routine, intptr_t device, intptr_t host,
                    int64_t bytes)
{
    *(size_t *)device = (size_t)bytes;
    *(size_t *)host = 0;
    if (!known || !own_measured())
        guess("guess", most, routine, (size_t)bytes);
    return SUCCESS;
}

#include "cusolver.def"
