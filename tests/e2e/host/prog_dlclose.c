/* Opens a library that uses CUDA, and the driver itself, calls through them and closes them, round after
 * round: ARGV[1] is the library.  What was closed may come back elsewhere. */
#define _GNU_SOURCE
#define PROG_NO_BEGIN
#include "prog.h"
#include <dlfcn.h>

static void by_the_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
    int (*pairs)(int) = (int (*)(int))dlsym(library, "pairs");
    CHECK(pairs && pairs(10) == 10);
    CHECK(dlclose(library) == 0);
}

static void by_the_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CUdeviceptr p;
    CUcontext context;
    CHECK(driver);
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(driver, "cuInit");
    CUresult (*retain)(CUcontext *, CUdevice) =
        (CUresult(*)(CUcontext *, CUdevice))dlsym(driver, "cuDevicePrimaryCtxRetain");
    CUresult (*current)(CUcontext) = (CUresult(*)(CUcontext))dlsym(driver, "cuCtxSetCurrent");
    CUresult (*allocate)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))dlsym(driver, "cuMemAlloc_v2");
    CUresult (*give_back)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))dlsym(driver, "cuMemFree_v2");
    CHECK(init && retain && current && allocate && give_back);
    OK(init(0));
    OK(retain(&context, 0));
    OK(current(context));
    OK(allocate(&p, 8192));
    OK(give_back(p));
    CHECK(dlclose(driver) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    for (int i = 0; i < 20; i++) {
        by_the_library(argv[1]);
        by_the_driver();
        if (i == 10) { /* something else where it was */
            void *other = dlopen("libm.so.6", RTLD_NOW);
            CHECK(other && dlclose(other) == 0);
        }
    }
    puts("done");
    return 0;
}
