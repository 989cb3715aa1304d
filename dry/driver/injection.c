/*
 * injection.c - at its start the driver loads the library that CUDA_INJECTION64_PATH names and calls its
 * InitializeInjection.  A library that cannot be loaded, or has none, is passed over.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <dlfcn.h>
#include <stdlib.h>

void sim_inject(void)
{
    const char *path = secure_getenv("CUDA_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    int (*initialize)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (initialize)
        initialize();
}
