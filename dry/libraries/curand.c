/*
 * curand.c - stands in for libcurand: generators write nothing.  What a real one takes for its state is not
 * known, and said to be none.
 */
#include "names.h"

#include <stdlib.h>

enum { SUCCESS = 0, ALLOCATION_FAILED = 102, INVALID_VALUE = 104 };
#include "property.h"

STANDS_IN int create(void **generator)
{
    static size_t most;
    guess("beside", &most, "a generator's own memory", 0);
    *generator = calloc(1, 64);
    return *generator ? SUCCESS : ALLOCATION_FAILED;
}

STANDS_IN int destroy(void *generator)
{
    free(generator);
    return SUCCESS;
}

STANDS_IN int get_version(int *version)
{
    *version = VERSION;
    return SUCCESS;
}

#include "curand.def"
