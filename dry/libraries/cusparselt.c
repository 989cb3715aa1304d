/*
 * cusparselt.c - stands in for libcusparseLt: nothing is computed.  A matrix of which half is kept takes half
 * of its bytes, and two bits for each kept element, as PyTorch counts too.
 */
#include "names.h"

enum { SUCCESS = 0, INVALID_VALUE = 3 };
enum { CONFIG_ID, CONFIG_MAX_ID, SEARCH_ITERATIONS, SPLIT_K, SPLIT_K_MODE, SPLIT_K_BUFFERS, ATTRIBUTES };
#include "property.h"

/* At the beginning of what callers have 512 bytes and more for. */
struct matrix {
    int64_t rows, columns;
    int type, batches;
    int64_t stride;
};

struct algorithm {
    int attributes[ATTRIBUTES];
};

/* The same place for a matrix in a description of a product, and in a plan. */
struct product {
    struct matrix sparse;
};

static bool is_8_bit(int type) /* of cudaDataType: whole numbers and floating-point ones */
{
    return type == 3 || type == 8 || type == 28 || type == 29;
}

static int64_t width(int type)
{
    return is_8_bit(type) ? 1 : type == 0 || type == 10 ? 4 : 2;
}

STANDS_IN int begin_matrix(void *handle, struct matrix *m, int64_t rows, int64_t columns, int64_t leading,
                           unsigned alignment, int type)
{
    *m = (struct matrix){rows, columns, type, 1, 0};
    return SUCCESS;
}

STANDS_IN int set_matrix(void *handle, struct matrix *m, int which, const void *value, size_t size)
{
    if (which == 0)
        memcpy(&m->batches, value, sizeof m->batches);
    else
        memcpy(&m->stride, value, sizeof m->stride);
    return SUCCESS;
}

STANDS_IN int get_matrix(void *handle, const struct matrix *m, int which, void *value, size_t size)
{
    if (which == 0)
        memcpy(value, &m->batches, sizeof m->batches);
    else
        memcpy(value, &m->stride, sizeof m->stride);
    return SUCCESS;
}

/* Which of the two is sparse is not known here; A is, as PyTorch has it. */
STANDS_IN int begin_product(void *handle, struct product *p, int opa, int opb, const struct matrix *a)
{
    p->sparse = *a;
    return SUCCESS;
}

STANDS_IN int begin_plan(void *handle, struct product *plan, const struct product *p)
{
    *plan = *p;
    return SUCCESS;
}

STANDS_IN int begin_algorithm(void *handle, struct algorithm *algorithm)
{
    *algorithm = (struct algorithm){.attributes = {[CONFIG_MAX_ID] = 1, [SPLIT_K] = 1, [SPLIT_K_MODE] = 1}};
    return SUCCESS;
}

STANDS_IN int set_algorithm(void *handle, struct algorithm *algorithm, unsigned which, const int *value,
                            size_t size)
{
    if (which >= ATTRIBUTES)
        return INVALID_VALUE;
    algorithm->attributes[which] = *value;
    return SUCCESS;
}

STANDS_IN int get_algorithm(void *handle, const struct algorithm *algorithm, unsigned which, int *value,
                            size_t size)
{
    if (which >= ATTRIBUTES)
        return INVALID_VALUE;
    *value = algorithm->attributes[which];
    return SUCCESS;
}

STANDS_IN int workspace(void *handle, void *plan, size_t *size)
{
    static size_t most;
    *size = 0;
    guess("guess", &most, "cusparseLtMatmulGetWorkspace", 0);
    return SUCCESS;
}

STANDS_IN int compressed_size(void *handle, const struct matrix *m, size_t *size, size_t *buffer)
{
    static size_t most;
    int sixteenths = is_8_bit(m->type) ? 10 : 9;
    *size = (size_t)(m->rows * m->columns * width(m->type) * sixteenths / 16 * m->batches);
    *buffer = 0;
    guess("guess", &most, "cusparseLtSpMMACompressedSize's buffer", 0);
    return SUCCESS;
}

STANDS_IN int get_version(void *handle, int *version)
{
    *version = VERSION;
    return SUCCESS;
}

STANDS_IN const char *status_name(int status)
{
    return status ? "CUSPARSE_STATUS_INVALID_VALUE" : "CUSPARSE_STATUS_SUCCESS";
}

#include "cusparselt.def"
