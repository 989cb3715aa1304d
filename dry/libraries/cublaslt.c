/*
 * cublaslt.c - stands in for libcublasLt: products do nothing.  A search for algorithms finds one, which
 * needs no workspace: callers allocate theirs before they search.  The library takes no memory of its own.
 */
#include "blas_common.h"

#include <stdlib.h>

/*
 * Whatever is described (a product, a matrix, a preference, a transformation, an algorithm) is a list of
 * numbers of at most 8 bytes by the attributes' own numbers.  Its length is what callers of any version have
 * room for who make a description in memory of their own (the *Init functions).  What has a higher number is
 * dropped, and told as 0.
 */
enum { PRODUCT = 20, OTHER = 8, LONGEST = 64 };

static int keep(uint64_t *slots, int room, int which, const void *value, size_t size)
{
    if (!value || which < 0)
        return INVALID_VALUE;
    if (which < room) {
        slots[which] = 0;
        memcpy(&slots[which], value, size < 8 ? size : 8);
    }
    return SUCCESS;
}

static int tell(const uint64_t *slots, int room, int which, void *value, size_t size, size_t *written)
{
    uint64_t told = which >= 0 && which < room ? slots[which] : 0;
    if (value)
        memcpy(value, &told, size < 8 ? size : 8);
    if (written)
        *written = size < 8 && size ? size : 8;
    return SUCCESS;
}

STANDS_IN int set_product(uint64_t *slots, int which, const void *value, size_t size)
{
    return keep(slots, PRODUCT, which, value, size);
}

STANDS_IN int get_product(const uint64_t *slots, int which, void *value, size_t size, size_t *written)
{
    return tell(slots, PRODUCT, which, value, size, written);
}

STANDS_IN int set_other(uint64_t *slots, int which, const void *value, size_t size)
{
    return keep(slots, OTHER, which, value, size);
}

STANDS_IN int get_other(const uint64_t *slots, int which, void *value, size_t size, size_t *written)
{
    return tell(slots, OTHER, which, value, size, written);
}

STANDS_IN int create_other(uint64_t **made)
{
    *made = calloc(LONGEST, sizeof **made);
    return *made ? SUCCESS : ALLOC_FAILED;
}

STANDS_IN int destroy(void *made)
{
    free(made);
    return SUCCESS;
}

/* The first attributes are those that a description begins with. */
STANDS_IN int init_layout(uint64_t *slots, size_t size, uint32_t type, uint64_t rows, uint64_t columns,
                          int64_t leading)
{
    memset(slots, 0, size);
    slots[0] = type;
    slots[2] = rows;
    slots[3] = columns;
    slots[4] = (uint64_t)leading;
    slots[5] = 1;
    return SUCCESS;
}

STANDS_IN int create_layout(uint64_t **made, uint32_t type, uint64_t rows, uint64_t columns, int64_t leading)
{
    int status = create_other(made);
    return status ? status : init_layout(*made, LONGEST * sizeof **made, type, rows, columns, leading);
}

STANDS_IN int init_product(uint64_t *slots, size_t size, uint32_t compute, uint32_t scale)
{
    memset(slots, 0, size);
    slots[0] = compute;
    slots[1] = scale;
    return SUCCESS;
}

STANDS_IN int create_product(uint64_t **made, uint32_t compute, uint32_t scale)
{
    int status = create_other(made);
    return status ? status : init_product(*made, LONGEST * sizeof **made, compute, scale);
}

STANDS_IN int init_other(void *slots, size_t size)
{
    memset(slots, 0, size);
    return SUCCESS;
}

/* ---- algorithms ---- */

struct algorithm {
    uint64_t slots[OTHER];
};

struct found {
    struct algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
};

STANDS_IN int find(void *handle, void *product, void *a, void *b, void *c, void *d, void *preference,
                   int want, struct found *found, int *count)
{
    *count = want > 0;
    if (want > 0)
        *found = (struct found){.waves = 1};
    return SUCCESS;
}

STANDS_IN int check(void *handle, void *product, void *a, void *b, void *c, void *d,
                    const struct algorithm *algorithm, struct found *found)
{
    *found = (struct found){.algorithm = *algorithm, .waves = 1};
    return SUCCESS;
}

STANDS_IN int ids(void *handle, int compute, int scale, int a, int b, int c, int d, int want, int *found,
                  int *count)
{
    *count = want > 0;
    if (want > 0)
        *found = 0;
    return SUCCESS;
}

STANDS_IN int begin(void *handle, int compute, int scale, int a, int b, int c, int d, int id,
                    struct algorithm *algorithm)
{
    *algorithm = (struct algorithm){{(uint64_t)id}};
    return SUCCESS;
}

/* None of what an algorithm may be able to do. */
STANDS_IN int ability(const struct algorithm *algorithm, int which, void *value, size_t size, size_t *written)
{
    if (value)
        memset(value, 0, size);
    if (written)
        *written = size;
    return SUCCESS;
}

static size_t capacity = 8192;

STANDS_IN int set_capacity(size_t value)
{
    capacity = value;
    return SUCCESS;
}

STANDS_IN int get_capacity(size_t *value)
{
    *value = capacity;
    return SUCCESS;
}

STANDS_IN size_t get_version(void)
{
    return VERSION;
}

#include "cublaslt.def"
