/*
 * curand.c - stands in for libcurand: generators write nothing into device memory.  What a real one takes for
 * its state is not known, and said to be none.
 */
#include "names.h"

#include <stdlib.h>

enum { SUCCESS = 0, ALLOCATION_FAILED = 102, OUT_OF_RANGE = 104 };

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

STANDS_IN int get_property(int which, int *value)
{
    int parts[] = {VERSION / 1000, VERSION / 100 % 10, VERSION % 100};
    if (which < 0 || which > 2)
        return OUT_OF_RANGE;
    *value = parts[which];
    return SUCCESS;
}

#include "curand.def"
