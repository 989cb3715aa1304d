/*
 * cusparse.c - stands in for libcusparse: descriptions of matrices and vectors are kept, nothing is computed.
 */
#include "names.h"
#include "own_memory.h"

#include <stdarg.h>
#include <stdlib.h>

enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 2, INVALID_VALUE = 3 };
enum { POINTER_MODE, SETTINGS };
enum { MOST = 13 };
#include "property.h"

struct handle {
    void *stream;
    int settings[SETTINGS];
};

STANDS_IN int create(struct handle **handle)
{
    *handle = own_context() ? calloc(1, sizeof **handle) : NULL;
    return *handle ? SUCCESS : NOT_INITIALIZED;
}

STANDS_IN int destroy(void *made)
{
    free(made);
    return SUCCESS;
}

#include "handle.h"
SETTING(pointer_mode, POINTER_MODE)

STANDS_IN int get_version(struct handle *h, int *version)
{
    *version = VERSION;
    return SUCCESS;
}

STANDS_IN const char *status_name(int status)
{
    static const char *const names[] = {
        "SUCCESS",          "NOT_INITIALIZED", "ALLOC_FAILED",
        "INVALID_VALUE",    "ARCH_MISMATCH",   "MAPPING_ERROR",
        "EXECUTION_FAILED", "INTERNAL_ERROR",  "MATRIX_TYPE_NOT_SUPPORTED",
        "ZERO_PIVOT",       "NOT_SUPPORTED",   "INSUFFICIENT_RESOURCES",
    };
    return status >= 0 && status < (int)(sizeof names / sizeof *names) ? names[status] : "unknown";
}

/* ---- what describes the matrices of older functions ---- */

enum { TYPE, FILL, DIAGONAL, BASE, PROPERTIES };

STANDS_IN int create_blank(int **made)
{
    *made = calloc(PROPERTIES, sizeof **made);
    return *made ? SUCCESS : ALLOC_FAILED;
}

#define PROPERTY(name, which)                                                                                \
    STANDS_IN int set_##name(int *description, int value)                                                    \
    {                                                                                                        \
        description[which] = value;                                                                          \
        return SUCCESS;                                                                                      \
    }                                                                                                        \
    STANDS_IN int get_##name(const int *description)                                                         \
    {                                                                                                        \
        return description[which];                                                                           \
    }
PROPERTY(type, TYPE)
PROPERTY(fill, FILL)
PROPERTY(diagonal, DIAGONAL)
PROPERTY(base, BASE)

/* ---- matrices and vectors ---- */

/*
 * The values that it was made of, in order, and what each is: '8' an int64_t, 'p' a pointer, of which the
 * last is to the elements, 'b' the base of indices, 't' their type, '4' another enumeration.  Of a matrix the
 * first three are rows, columns and, where it is sparse, elements.
 */
struct object {
    const char *fields;
    int format, batches;
    int64_t stride, attribute;
    intptr_t kept[MOST];
};

static int make(struct object **made, const char *fields, int format, va_list values)
{
    struct object *o = calloc(1, sizeof *o);
    if (!o)
        return ALLOC_FAILED;
    o->fields = fields;
    o->format = format;
    o->batches = 1;
    for (int i = 0; fields[i]; i++)
        o->kept[i] = va_arg(values, intptr_t);
    *made = o;
    return SUCCESS;
}

#define OBJECT(kind, format, fields)                                                                         \
    STANDS_IN int create_##kind(struct object **made, ...)                                                   \
    {                                                                                                        \
        va_list values;                                                                                      \
        va_start(values, made);                                                                              \
        int status = make(made, fields, format, values);                                                     \
        va_end(values);                                                                                      \
        return status;                                                                                       \
    }
OBJECT(csr, 1, "888ppp44bt")
OBJECT(csc, 2, "888ppp44bt")
OBJECT(coo, 3, "888ppp4bt")
OBJECT(blocked, 5, "8888pp4bt")
OBJECT(bsr, 6, "88888ppp44bt4")
OBJECT(sliced, 7, "88888ppp44bt")
OBJECT(dense, 0, "888pt4")
OBJECT(dense_vector, 0, "8pt")
OBJECT(vector, 0, "88pp4bt")

static void tell(void *place, char field, intptr_t value)
{
    int number = (int)value;
    if (place && (field == '8' || field == 'p'))
        memcpy(place, &value, sizeof value);
    else if (place)
        memcpy(place, &number, sizeof number);
}

STANDS_IN int get(const struct object *o, ...)
{
    va_list places;
    va_start(places, o);
    for (int i = 0; o->fields[i]; i++)
        tell(va_arg(places, void *), o->fields[i], o->kept[i]);
    va_end(places);
    return SUCCESS;
}

static int field(const struct object *o, char which)
{
    const char *found = which == 'p' ? strrchr(o->fields, 'p') : strchr(o->fields, which);
    return found ? (int)(found - o->fields) : 0;
}

STANDS_IN int get_values(const struct object *o, intptr_t *values)
{
    *values = o->kept[field(o, 'p')];
    return SUCCESS;
}

STANDS_IN int set_values(struct object *o, intptr_t values)
{
    o->kept[field(o, 'p')] = values;
    return SUCCESS;
}

STANDS_IN int set_pointers(struct object *o, intptr_t first, intptr_t second, intptr_t values)
{
    int last = field(o, 'p');
    o->kept[last - 2] = first;
    o->kept[last - 1] = second;
    o->kept[last] = values;
    return SUCCESS;
}

STANDS_IN int get_size(const struct object *o, int64_t *rows, int64_t *columns, int64_t *elements)
{
    *rows = o->kept[0];
    *columns = o->kept[1];
    *elements = o->kept[2];
    return SUCCESS;
}

STANDS_IN int get_format(const struct object *o, int *format)
{
    *format = o->format;
    return SUCCESS;
}

STANDS_IN int get_index_base(const struct object *o, int *base)
{
    *base = (int)o->kept[field(o, 'b')];
    return SUCCESS;
}

STANDS_IN int set_batches(struct object *o, int batches, int64_t stride)
{
    o->batches = batches;
    o->stride = stride;
    return SUCCESS;
}

STANDS_IN int get_batches(const struct object *o, int *batches)
{
    *batches = o->batches;
    return SUCCESS;
}

STANDS_IN int get_batches_and_stride(const struct object *o, int *batches, int64_t *stride)
{
    *stride = o->stride;
    return get_batches(o, batches);
}

/* Two attributes, filled half and diagonal, of four bytes each. */
STANDS_IN int set_attribute(struct object *o, int which, const int *value, size_t size)
{
    if (which < 0 || which > 1 || size != sizeof *value)
        return INVALID_VALUE;
    memcpy((int *)&o->attribute + which, value, sizeof *value);
    return SUCCESS;
}

STANDS_IN int get_attribute(const struct object *o, int which, int *value, size_t size)
{
    if (which < 0 || which > 1 || size != sizeof *value)
        return INVALID_VALUE;
    memcpy(value, (const int *)&o->attribute + which, sizeof *value);
    return SUCCESS;
}

/* ---- sizes of buffers, which are guesses: an index for each row; for sorting, keys and places once more;
 * for a product of two sparse matrices, an index and a value for each product of elements ---- */

static int64_t width(int type)
{
    switch (type) {
    case 0:  /* single, of cudaDataType */
    case 6:  /* pairs of halves */
    case 10: /* int32 */
    case 15:
        return 4;
    case 1: /* double */
    case 4: /* pairs of singles */
        return 8;
    case 5:
        return 16;
    case 2:
    case 14:
        return 2;
    default:
        return 1;
    }
}

static int64_t row_indices(int64_t rows)
{
    return 8 * (rows + 1);
}

static int64_t rows_of(intptr_t matrix)
{
    return row_indices(((const struct object *)matrix)->kept[0]);
}

static int answer(size_t *most, const char *function, size_t *place, int64_t bytes)
{
    *place = (size_t)bytes;
    guess("guess", most, function, *place);
    return SUCCESS;
}

static int answer_int(size_t *most, const char *function, int *place, int64_t bytes)
{
    *place = (int)bytes;
    guess("guess", most, function, (size_t)bytes);
    return SUCCESS;
}

STANDS_IN int no_pivot_is_zero(const struct handle *h, void *info, int *position)
{
    if (h->settings[POINTER_MODE] == 0)
        *position = -1;
    return SUCCESS;
}

/* ---- sparse results, whose number of elements only a GPU finds out.  It is assumed that products, or
 * elements of sums, never meet in a place; under the second assumption about values (VRAMSCOPE_DRY_ASSUME),
 * that every two do ---- */

/* How many products of elements a product of A and B has, if B's elements are spread evenly over its rows. */
static int64_t products(const struct object *a, const struct object *b)
{
    int64_t rows = b->kept[0] ? b->kept[0] : 1;
    return (a->kept[2] * b->kept[2] + rows - 1) / rows;
}

static int64_t assumed(const char *function, int64_t elements, int64_t places)
{
    const char *assumption = getenv("VRAMSCOPE_DRY_ASSUME");
    if (assumption && strcmp(assumption, "second") == 0)
        elements = (elements + 1) / 2;
    elements = elements < places ? elements : places;
    dry_fact("value\t%s\telements of the result of %s\t%lld", LIBRARY, function, (long long)elements);
    return elements;
}

static int64_t product_bytes(const struct object *a, const struct object *b)
{
    return products(a, b) * (8 + width((int)a->kept[field(a, 't')]));
}

STANDS_IN int create_product(int64_t **made)
{
    *made = calloc(1, sizeof **made);
    return *made ? SUCCESS : ALLOC_FAILED;
}

STANDS_IN int product_count(const int64_t *product, int64_t *count)
{
    *count = *product;
    return SUCCESS;
}

STANDS_IN int product_begin(void *h, int opa, int opb, void *alpha, struct object *a, struct object *b,
                            void *beta, struct object *c, int type, int method, int64_t *product,
                            size_t *size, void *buffer)
{
    static size_t most;
    *product = products(a, b);
    return answer(&most, "cusparseSpGEMM_workEstimation", size, row_indices(c->kept[0]));
}

/* Called for the size first, and then with a buffer. */
STANDS_IN int product_compute(void *h, int opa, int opb, void *alpha, struct object *a, struct object *b,
                              void *beta, struct object *c, int type, int method, int64_t *product,
                              size_t *size, void *buffer)
{
    static size_t most;
    if (!buffer)
        return answer(&most, "cusparseSpGEMM_compute", size, product_bytes(a, b));
    c->kept[2] = assumed("cusparseSpGEMM", products(a, b), c->kept[0] * c->kept[1]);
    return SUCCESS;
}

/* The number of elements of a sum, on the host or on the device. */
STANDS_IN int sum_elements(struct handle *h, int rows, int columns, void *da, int elements_a, void *ra,
                           void *ca, void *db, int elements_b, void *rb, void *cb, void *dc,
                           CUdeviceptr row_pointers, int *total)
{
    int elements =
        (int)assumed("cusparseXcsrgeam2Nnz", (int64_t)elements_a + elements_b, (int64_t)rows * columns);
    if (h->settings[POINTER_MODE] == 0)
        *total = elements;
    else if (own_context())
        cuMemsetD32Async((CUdeviceptr)total, (unsigned)elements, 1, h->stream);
    return SUCCESS;
}

#include "cusparse.def"
