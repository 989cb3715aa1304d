/*
 * injection.c - loads the library that CUDA_INJECTION64_PATH names and calls its InitializeInjection, as the
 * driver does at its start; one that cannot be loaded is passed over.
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
