/* Reaches the driver by dlopen (RTLD_LOCAL) and dlsym; names that are not there stay not there. */
#define _GNU_SOURCE
#define PROG_NO_BEGIN
#include "prog.h"
#include <dlfcn.h>
#include <string.h>

static void *driver;
static void *get(const char *name)
{
    void *found = dlsym(driver, name);
    CHECK(found);
    return found;
}
#define DRV(name) ((__typeof__(&name))get(#name))

int main(void)
{
    CUdeviceptr p;
    CUcontext context;
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(driver);
    void *(*again)(void *, const char *) = (void *(*)(void *, const char *))dlsym(RTLD_DEFAULT, "dlsym");
    CHECK(again);
    /* the driver is loaded RTLD_LOCAL: nobody finds it in the global scope, with a shim or without */
    CHECK(!dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    CHECK(!dlsym(RTLD_NEXT, "cuMemFree_v2"));
    CHECK(!dlsym(driver, "cuNoSuchFunction"));
    const char *error = dlerror();
    CHECK(error && strstr(error, "cuNoSuchFunction"));
    void *libm = dlopen("libm.so.6", RTLD_NOW);
    CHECK(libm && !dlsym(libm, "cuMemAlloc_v2") && dlsym(libm, "cos"));
    OK(DRV(cuInit)(0));
    OK(DRV(cuDevicePrimaryCtxRetain)(&context, 0));
    OK(DRV(cuCtxSetCurrent)(context));
    OK(((CUresult(*)(CUdeviceptr *, size_t))get("cuMemAlloc_v2"))(&p, 1000));
    OK(((CUresult(*)(CUdeviceptr))get("cuMemFree_v2"))(p));
    OK(((CUresult(*)(CUdeviceptr *, size_t))again(driver, "cuMemAlloc_v2"))(&p, 2000));
    unsigned low;
    OK(((CUresult(*)(unsigned *, unsigned))get("cuMemAlloc"))(&low, 3000)); /* the first ABI */
    OK(((CUresult(*)(unsigned))get("cuMemFree"))(low));
    OK(DRV(cuMemHostAlloc)((void **)&p, 4096, 0));
    puts("done");
    return 0;
}
