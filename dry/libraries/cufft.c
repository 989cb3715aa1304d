/*
 * cufft.c - stands in for libcufft: plans are made and transform nothing.
 *
 * A plan's work area is the caller's (cufftSetAutoAllocation), or taken when the plan is made.  Its size is a
 * guess: the complex elements once, and eight times where a factor is a prime above 127, as the documentation
 * says of these.
 */
#include "names.h"
#include "own_memory.h"

#include <pthread.h>
#include <stdlib.h>

enum { SUCCESS = 0, INVALID_PLAN = 1, ALLOC_FAILED = 2, INVALID_VALUE = 4, INVALID_SIZE = 8 };
enum { R2C = 0x2a, C2R = 0x2c, D2Z = 0x6a, Z2D = 0x6c, Z2Z = 0x69 };
enum { LARGEST_PRIME = 127, FOR_LARGER = 8, MOST_DIMENSIONS = 3 };
#include "property.h"

struct plan {
    CUdeviceptr area;
    size_t size;
    bool callers;
};

/* A plan is a number: its place, counted from 1. */
static struct plan **plans;
static int places;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int free_place(void)
{
    for (int i = 0; i < places; i++)
        if (!plans[i])
            return i;
    int more = places ? 2 * places : 64;
    struct plan **grown = realloc(plans, (size_t)more * sizeof *plans);
    if (!grown)
        return -1;
    memset(grown + places, 0, (size_t)(more - places) * sizeof *plans);
    plans = grown;
    int place = places;
    places = more;
    return place;
}

STANDS_IN int create(int *number)
{
    struct plan *plan = calloc(1, sizeof *plan);
    pthread_mutex_lock(&lock);
    int place = plan ? free_place() : -1;
    if (place >= 0)
        plans[place] = plan;
    pthread_mutex_unlock(&lock);
    if (place < 0) {
        free(plan);
        return ALLOC_FAILED;
    }
    *number = place + 1;
    return SUCCESS;
}

static struct plan *known(int number)
{
    return number > 0 && number <= places ? plans[number - 1] : NULL;
}

static struct plan *plan_of(int number)
{
    pthread_mutex_lock(&lock);
    struct plan *plan = known(number);
    pthread_mutex_unlock(&lock);
    return plan;
}

STANDS_IN int destroy(int number)
{
    pthread_mutex_lock(&lock);
    struct plan *plan = known(number);
    if (plan)
        plans[number - 1] = NULL;
    pthread_mutex_unlock(&lock);
    if (!plan)
        return INVALID_PLAN;
    own_free(plan->area);
    free(plan);
    return SUCCESS;
}

STANDS_IN int set_auto_allocation(int number, int automatic)
{
    struct plan *plan = plan_of(number);
    if (!plan)
        return INVALID_PLAN;
    plan->callers = !automatic;
    return SUCCESS;
}

STANDS_IN int set_work_area(int number, void *area)
{
    struct plan *plan = plan_of(number);
    if (!plan)
        return INVALID_PLAN;
    own_free(plan->area);
    plan->area = 0;
    return SUCCESS;
}

STANDS_IN int get_size(int number, size_t *size)
{
    struct plan *plan = plan_of(number);
    if (!plan)
        return INVALID_PLAN;
    *size = plan->size;
    return SUCCESS;
}

STANDS_IN int get_version(int *version)
{
    *version = VERSION;
    return SUCCESS;
}

/* ---- sizes ---- */

static bool has_large_prime(int64_t n)
{
    for (int64_t factor = 2; factor <= LARGEST_PRIME && factor <= n; factor++)
        while (n % factor == 0)
            n /= factor;
    return n > 1;
}

/* Plans of small dimensions without large prime factors need nothing.  An H200 was asked about 1,998 plans of
 * single and double precision: 1,413 had such dimensions, and none of them needed anything. */
static bool needs_nothing(int rank, const int64_t *n, bool real, size_t element)
{
    int64_t most = element == 8 ? 1 << 15 : 1 << 14;
    for (int i = 0; i < rank; i++)
        if (n[i] >= most || has_large_prime(n[i]))
            return false;
    bool simple = !real || rank > 1 || n[0] <= 1024 || (n[0] < most / 2 && (n[0] & (n[0] - 1)) == 0);
    return simple && element >= 8 && CUDA_MAJOR == 13 && own_capability() == 90;
}

/* Of RANK dimensions; where one side is REAL half of the last one's elements, and one more, are enough. */
static size_t work_size(int rank, const int64_t *n, int64_t batch, bool real, size_t element)
{
    static size_t most;
    bool nothing = needs_nothing(rank, n, real, element);
    if (nothing && own_measured())
        return 0;
    size_t count = nothing ? 0 : (size_t)batch;
    bool large = false;
    for (int i = 0; i < rank; i++) {
        count *= (size_t)(real && i == rank - 1 ? n[i] / 2 + 1 : n[i]);
        large = large || has_large_prime(n[i]);
    }
    size_t bytes = count * element * (large ? FOR_LARGER : 1);
    guess("guess", &most, "a plan's work area", bytes);
    return bytes;
}

static size_t typed_size(int rank, const int64_t *n, int type, int64_t batch)
{
    bool real = type == R2C || type == C2R || type == D2Z || type == Z2D;
    return work_size(rank, n, batch, real, type == D2Z || type == Z2D || type == Z2Z ? 16 : 8);
}

/* The number of a plan that is to be made, and what it needs. */
static int planned(int number, size_t bytes, size_t *size)
{
    struct plan *plan = plan_of(number);
    if (!plan)
        return INVALID_PLAN;
    plan->size = bytes;
    if (size)
        *size = bytes;
    own_free(plan->area); /* where it is made again */
    plan->area = 0;
    if (!plan->callers && bytes && !(plan->area = own_alloc(bytes)))
        return ALLOC_FAILED;
    return SUCCESS;
}

static int made(int *number, size_t bytes)
{
    int status = create(number);
    if (status)
        return status;
    status = planned(*number, bytes, NULL);
    if (status)
        destroy(*number);
    return status;
}

static int told(size_t bytes, size_t *size)
{
    *size = bytes;
    return SUCCESS;
}

/* Dimensions as 64-bit numbers: in the functions that have ints, and at most three. */
#define SIZES(...)                                                                                           \
    (const int64_t[])                                                                                        \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

static size_t many_size(int rank, const int *n, int type, int64_t batch)
{
    int64_t wide[MOST_DIMENSIONS] = {0};
    for (int i = 0; i < rank && i < MOST_DIMENSIONS; i++)
        wide[i] = n[i];
    return rank < 1 || rank > MOST_DIMENSIONS ? 0 : typed_size(rank, wide, type, batch);
}

STANDS_IN int make_1d(int plan, int x, int type, int batch, size_t *size)
{
    return planned(plan, typed_size(1, SIZES(x), type, batch), size);
}

STANDS_IN int make_2d(int plan, int x, int y, int type, size_t *size)
{
    return planned(plan, typed_size(2, SIZES(x, y), type, 1), size);
}

STANDS_IN int make_3d(int plan, int x, int y, int z, int type, size_t *size)
{
    return planned(plan, typed_size(3, SIZES(x, y, z), type, 1), size);
}

STANDS_IN int plan_1d(int *plan, int x, int type, int batch)
{
    return made(plan, typed_size(1, SIZES(x), type, batch));
}

STANDS_IN int plan_2d(int *plan, int x, int y, int type)
{
    return made(plan, typed_size(2, SIZES(x, y), type, 1));
}

STANDS_IN int plan_3d(int *plan, int x, int y, int z, int type)
{
    return made(plan, typed_size(3, SIZES(x, y, z), type, 1));
}

STANDS_IN int estimate_1d(int x, int type, int batch, size_t *size)
{
    return told(typed_size(1, SIZES(x), type, batch), size);
}

STANDS_IN int estimate_2d(int x, int y, int type, size_t *size)
{
    return told(typed_size(2, SIZES(x, y), type, 1), size);
}

STANDS_IN int estimate_3d(int x, int y, int z, int type, size_t *size)
{
    return told(typed_size(3, SIZES(x, y, z), type, 1), size);
}

STANDS_IN int size_1d(int plan, int x, int type, int batch, size_t *size)
{
    return estimate_1d(x, type, batch, size);
}

STANDS_IN int size_2d(int plan, int x, int y, int type, size_t *size)
{
    return estimate_2d(x, y, type, size);
}

STANDS_IN int size_3d(int plan, int x, int y, int z, int type, size_t *size)
{
    return estimate_3d(x, y, z, type, size);
}

/* Plan, rank, sizes, three of the layout of inputs, three of outputs, type, batch, answer. */
STANDS_IN int make_many(ARGUMENTS)
{
    return planned((int)a1, many_size((int)a2, (const int *)a3, (int)a10, INT(11)), (size_t *)a12);
}

STANDS_IN int make_many_64(ARGUMENTS)
{
    return planned((int)a1, typed_size((int)a2, (const int64_t *)a3, (int)a10, a11), (size_t *)a12);
}

STANDS_IN int size_many(ARGUMENTS)
{
    return told(many_size((int)a2, (const int *)a3, (int)a10, INT(11)), (size_t *)a12);
}

STANDS_IN int size_many_64(ARGUMENTS)
{
    return told(typed_size((int)a2, (const int64_t *)a3, (int)a10, a11), (size_t *)a12);
}

STANDS_IN int plan_many(ARGUMENTS)
{
    return made((int *)a1, many_size((int)a2, (const int *)a3, (int)a10, INT(11)));
}

STANDS_IN int estimate_many(ARGUMENTS)
{
    return told(many_size((int)a1, (const int *)a2, (int)a9, INT(10)), (size_t *)a11);
}

/* The same with types of the data: real ones have the numbers 0 to 2 of cudaDataType, and 14 (bfloat16). */
static size_t any_type_size(int rank, const int64_t *n, int input, int output, int execution, int64_t batch)
{
    bool real = input <= 2 || output <= 2 || input == 14 || output == 14;
    size_t element = execution == 5 || execution == 1 ? 16 : execution == 4 || execution == 0 ? 8 : 4;
    return work_size(rank, n, batch, real, element);
}

STANDS_IN int make_any(ARGUMENTS)
{
    return planned((int)a1, any_type_size((int)a2, (const int64_t *)a3, (int)a7, (int)a11, (int)a14, a12),
                   (size_t *)a13);
}

STANDS_IN int size_any(ARGUMENTS)
{
    return told(any_type_size((int)a2, (const int64_t *)a3, (int)a7, (int)a11, (int)a14, a12), (size_t *)a13);
}

#include "cufft.def"
