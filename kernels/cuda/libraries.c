/*
 * libraries.c - opens libcuda.so.1 and cuBLASLt, and never closes them: both keep threads and handlers alive.
 *
 * cuBLASLt has no fixed place.  It is the file that LCE_CUBLASLT names, else a copy that the process has
 * loaded (so that PyTorch and we share one), else what the loader finds by soname, newest first.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "libraries.h"

static void *first_of(const char *const *names, int flags)
{
    void *library = NULL;
    for (int i = 0; !library && names[i]; i++)
        library = dlopen(names[i], flags);
    return library;
}

static int find(void *library, const char *name, void *field, const char *file)
{
    void *symbol = dlsym(library, name);
    if (!symbol)
        return lce_fail(LCE_BACKEND_MISSING,
                        "lce_open: %s has no %s; a newer one is needed (CUDA 12.0 or later)", file, name);
    *(void **)field = symbol;
    return LCE_OK;
}

int lce_driver_open(struct lce_driver *driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return lce_fail(LCE_BACKEND_MISSING, "lce_open: no CUDA driver (%s); install one, or use LCE_CPU",
                        dlerror());
#define X(name, field, parameters)                                                                           \
    if (find(library, #name, &driver->field, "libcuda.so.1"))                                                \
        return LCE_BACKEND_MISSING;
    LCE_DRIVER_FUNCTIONS(X)
#undef X
#define X(name, field, parameters) *(void **)&driver->field = dlsym(library, #name);
    LCE_DRIVER_OPTIONAL(X)
#undef X
    return LCE_OK;
}

int lce_blas_open(struct lce_blas *blas)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    const char *given = getenv("LCE_CUBLASLT");
    void *library = given ? dlopen(given, RTLD_NOW | RTLD_LOCAL) : first_of(names, RTLD_NOW | RTLD_NOLOAD);
    if (!library && !given)
        library = first_of(names, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return lce_fail(
            LCE_BACKEND_MISSING,
            "lce_open: cuBLASLt was not found (%s); put its directory on LD_LIBRARY_PATH (the CUDA toolkit's "
            "lib64, or nvidia/cu13/lib beside PyTorch) or its file in LCE_CUBLASLT",
            dlerror());
#define X(name, field, type, parameters)                                                                     \
    if (find(library, #name, &blas->field, "cuBLASLt"))                                                      \
        return LCE_BACKEND_MISSING;
    LCE_BLAS_FUNCTIONS(X)
#undef X
    return LCE_OK;
}

const char *lce_driver_error(const struct lce_driver *driver, CUresult status)
{
    const char *name = NULL;
    driver->error_name(status, &name);
    return name ? name : "an unknown error";
}
