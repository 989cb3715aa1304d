/*
 * quota.c - a preloaded library that stands before the driver, as those do that share a GPU by quotas: it
 * prints each allocation, and each free, and refuses nothing.
 *
 *      (nothing), hidden, -Bsymbolic   exports dlsym, finds the driver by libc's dlsym
 *      -DNEXT                          no dlsym: finds the driver by RTLD_NEXT
 *      -DLINKED                        no dlsym: linked with the driver, finds it by cuGetProcAddress
 *      -DHELPER                        as the first, but another library finds the driver for it
 */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#if !defined(NEXT) && !defined(LINKED) && !defined(HELPER)
static void *(*libc_dlsym(void))(void *, const char *)
{
    void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    return (void *(*)(void *, const char *))(found != NULL ? found
                                                           : dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
}
#endif

#ifdef HELPER
void *find_driver(const char *name);
#else
static void *find_driver(const char *name)
{
#if defined(NEXT)
    return dlsym(RTLD_NEXT, name);
#elif defined(LINKED)
    void *found = NULL;
    const char *base = strcmp(name, "cuMemAlloc_v2") == 0 ? "cuMemAlloc" : "cuMemFree";
    return cuGetProcAddress_v2(base, &found, 12000, 0, NULL) == CUDA_SUCCESS ? found : NULL;
#else
    return libc_dlsym()(dlopen("libcuda.so.1", RTLD_NOW), name);
#endif
}
#endif

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes)
{
    CUresult (*real)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))find_driver("cuMemAlloc_v2");
    CUresult status = real(p, bytes);
    fprintf(stderr, "quota: alloc %zu: %d\n", bytes, status);
    return status;
}

CUresult cuMemFree_v2(CUdeviceptr p)
{
    CUresult (*real)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))find_driver("cuMemFree_v2");
    CUresult status = real(p);
    fprintf(stderr, "quota: free: %d\n", status);
    return status;
}

#ifndef LINKED
static CUresult replaced(CUresult status, const char *name, void **p)
{
    if (status == CUDA_SUCCESS && strcmp(name, "cuMemAlloc") == 0)
        *p = (void *)cuMemAlloc_v2;
    else if (status == CUDA_SUCCESS && strcmp(name, "cuMemFree") == 0)
        *p = (void *)cuMemFree_v2;
    return status;
}

CUresult cuGetProcAddress_v2(const char *name, void **p, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *found)
{
    CUresult (*real)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *) =
        (CUresult(*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *))find_driver(
            "cuGetProcAddress_v2");
    return replaced(real(name, p, version, flags, found), name, p);
}

CUresult cuGetProcAddress(const char *name, void **p, int version, cuuint64_t flags)
{
    CUresult (*real)(const char *, void **, int, cuuint64_t) =
        (CUresult(*)(const char *, void **, int, cuuint64_t))find_driver("cuGetProcAddress");
    return replaced(real(name, p, version, flags), name, p);
}
#endif

#if !defined(NEXT) && !defined(LINKED) && !defined(HELPER)
__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name)
{
    if (strcmp(name, "cuMemAlloc_v2") == 0)
        return (void *)cuMemAlloc_v2;
    if (strcmp(name, "cuMemFree_v2") == 0)
        return (void *)cuMemFree_v2;
    if (strcmp(name, "cuGetProcAddress_v2") == 0)
        return (void *)cuGetProcAddress_v2;
    if (strcmp(name, "cuGetProcAddress") == 0)
        return (void *)cuGetProcAddress;
    return libc_dlsym()(handle, name);
}
#endif
