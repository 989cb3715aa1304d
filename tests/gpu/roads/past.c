/*
 * past.c - allocates 640 MiB past every hook, by the C library's own dlsym (77: not to be had here); with
 * `seen` as everybody does, and managed memory beside.
 */
#define _GNU_SOURCE
#include "work.h"

#include <dlfcn.h>

#define MIB ((size_t)1 << 20)

static void *libc_dlsym(void *handle, const char *name)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW), *found = dlvsym(libc, "dlsym", "GLIBC_2.34");
    if (found == NULL)
        found = dlvsym(libc, "dlsym", "GLIBC_2.2.5");
    if (found == NULL)
        exit(77);
    return ((void *(*)(void *, const char *))found)(handle, name);
}

int main(int argc, char **argv)
{
    CUresult (*past)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))libc_dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
    CUcontext context;
    CUdeviceptr p;
    MUST(cuInit(0) == CUDA_SUCCESS);
    MUST(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
    if (argc > 1) {
        MUST(cuMemAlloc_v2(&p, 640 * MIB) == CUDA_SUCCESS);
        MUST(cuMemAllocManaged(&p, 300 * MIB, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
    } else {
        MUST(past(&p, 640 * MIB) == CUDA_SUCCESS);
    }
    return 0;
}
