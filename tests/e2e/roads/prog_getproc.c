/* Reaches the driver as the CUDA runtime does: dlsym of cuGetProcAddress, everything else through that. */
#define _GNU_SOURCE
#define PROG_NO_BEGIN
#include "prog.h"
#include <dlfcn.h>
#include <string.h>

typedef CUresult (*query1_fn)(const char *, void **, int, cuuint64_t);
typedef CUresult (*query2_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef CUresult (*alloc_fn)(CUdeviceptr *, size_t);
typedef CUresult (*free_fn)(CUdeviceptr);
typedef CUresult (*alloc_async_fn)(CUdeviceptr *, size_t, CUstream);
typedef CUresult (*free_async_fn)(CUdeviceptr, CUstream);

static query2_fn query;
static void *get(const char *base, int version, cuuint64_t flags)
{
    void *found = NULL;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)9;
    OK(query(base, &found, version, flags, &status));
    CHECK(found && status == CU_GET_PROC_ADDRESS_SUCCESS);
    return found;
}
/* What a refused look-up answers. */
static void show(const char *base, int version, cuuint64_t flags)
{
    void *found = (void *)1;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)9;
    CUresult result = query(base, &found, version, flags, &status);
    printf("%s@%d/%d: %d, %s, status %d\n", base, version, (int)flags, result, found ? "pointer" : "NULL",
           status);
}

int main(void)
{
    CUdeviceptr p;
    CUcontext context;
    void *found, *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(driver);
    query = (query2_fn)dlsym(driver, "cuGetProcAddress_v2");
    CHECK(query);
    OK(((CUresult(*)(unsigned))get("cuInit", 2000, 0))(0));
    OK(((CUresult(*)(CUcontext *, CUdevice))get("cuDevicePrimaryCtxRetain", 7000, 0))(&context, 0));
    OK(((CUresult(*)(CUcontext))get("cuCtxSetCurrent", 4000, 0))(context));
    OK(((alloc_fn)get("cuMemAlloc", 3020, 0))(&p, 1024));
    OK(((free_fn)get("cuMemFree", 3020, 2))(p));
    OK(((alloc_async_fn)get("cuMemAllocAsync", 11020, 0))(&p, 2048, NULL));
    OK(((free_async_fn)get("cuMemFreeAsync", 11020, 2))(p, NULL));
    OK(((alloc_async_fn)get("cuMemAllocAsync", 11020, 2))(&p, 4096, NULL));
    OK(((free_async_fn)get("cuMemFreeAsync", 13000, 1))(p, NULL));
    OK(query("cuMemAlloc", &found, 13000, 0, NULL)); /* as the runtime asks: no status wanted */
    OK(((alloc_fn)found)(&p, 8192));
    query1_fn first = (query1_fn)dlsym(driver, "cuGetProcAddress");
    OK(first("cuMemFree", &found, 13000, 0));
    OK(((free_fn)found)(p));
    query2_fn itself = (query2_fn)get("cuGetProcAddress", 12000, 0);
    OK(itself("cuMemAlloc", &found, 12000, 0, NULL));
    OK(((alloc_fn)found)(&p, 16384));
    query1_fn older = (query1_fn)get("cuGetProcAddress", 11030, 0);
    OK(older("cuMemFree", &found, 12000, 0));
    OK(((free_fn)found)(p));
    unsigned low;
    OK(((CUresult(*)(unsigned *, unsigned))get("cuMemAlloc", 2000, 0))(&low, 512));
    OK(((CUresult(*)(unsigned))get("cuMemFree", 3010, 0))(low));
    show("cuMemAllocAsync", 11010, 0);
    show("cuNoSuchFunction", 12000, 0);
    show("", 12000, 0);
    show("cuMemAlloc", 99000, 0);
    show("cuMemAlloc", 12000, 3);
    printf("v1: %d\n", first("cuNoSuchFunction", &found, 12000, 0));
    printf("no result wanted: %d\n", query("cuMemAlloc", NULL, 12000, 0, NULL));
    return 0;
}
