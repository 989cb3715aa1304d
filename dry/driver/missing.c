/* missing.c - functions that are not simulated; without CUDA's headers, as their parameters do not matter. */
#include "facts.h"

#include <stdbool.h>

bool sim_dry(void);

static int missing(const char *function)
{
    if (sim_dry())
        dry_missing("libcuda.so.1", function);
    return 801; /* CUDA_ERROR_NOT_SUPPORTED */
}

#define NO(base, version, symbol)                                                                            \
    DRY_API int sim_no_##symbol(void) __asm__(#symbol);                                                      \
    int sim_no_##symbol(void)                                                                                \
    {                                                                                                        \
        return missing(#symbol);                                                                             \
    }
#include "missing.def"
#undef NO
