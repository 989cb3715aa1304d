/*
 * beyond.c - a program built for a driver that is newer than vramscope (beyond_driver.c): calls its functions
 * by the road that the argument names.  With BEYOND_LIBRARY a library that does so, for the road "library".
 */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include "prog.h"

#include <dlfcn.h>

typedef CUresult alloc_fn(unsigned long long mark, CUdeviceptr *out, double share, size_t bytes);
typedef CUresult foo_fn(size_t bytes, CUdeviceptr *out);
typedef CUresult count_fn(int *count);
extern alloc_fn cuMemAlloc_v3;
extern foo_fn cuFooAlloc;
extern count_fn cuFooCount;

static void use(alloc_fn *alloc, foo_fn *foo, count_fn *count)
{
    CUdeviceptr p, q;
    int n = 0;
    OK(alloc(0x5eed, &p, 0.5, 3000));
    OK(foo(5000, &q));
    OK(count(&n));
    CHECK(n == 3 && p != 0 && q != p);
    memset((void *)p, 1, 3000); /* the simulated device's memory is the host's */
    OK(cuMemFree_v2(p));
    OK(cuMemFree_v2(q));
}

#ifdef BEYOND_LIBRARY
void library_use(void);
void library_use(void)
{
    use(cuMemAlloc_v3, cuFooAlloc, cuFooCount);
}
#else
static void *asked(const char *base, int version)
{
    void *found = NULL;
    OK(cuGetProcAddress_v2(base, &found, version, 0, NULL));
    CHECK(found != NULL);
    return found;
}

int main(int argc, char **argv)
{
    const char *road = argc > 1 ? argv[1] : "";
    CUdeviceptr first;
    begin();
    OK(cuMemAlloc_v2(&first, 1000));
#ifdef BEYOND_LINKED
    use(cuMemAlloc_v3, cuFooAlloc, cuFooCount);
#else
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(driver != NULL);
    if (strcmp(road, "dlsym") == 0)
        use((alloc_fn *)dlsym(driver, "cuMemAlloc_v3"), (foo_fn *)dlsym(driver, "cuFooAlloc"),
            (count_fn *)dlsym(driver, "cuFooCount"));
    if (strcmp(road, "proc") == 0)
        use((alloc_fn *)asked("cuMemAlloc", 14000), (foo_fn *)asked("cuFooAlloc", 14000),
            (count_fn *)asked("cuFooCount", 14000));
    if (strcmp(road, "older") == 0) { /* built for CUDA 13.2, it never sees them */
        CUdeviceptr p;
        OK(((CUresult(*)(CUdeviceptr *, size_t))asked("cuMemAlloc", 13020))(&p, 2000));
        OK(((CUresult(*)(CUdeviceptr))asked("cuMemFree", 13020))(p));
    }
    if (strcmp(road, "library") == 0) {
        void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        ((void (*)(void))dlsym(library, "library_use"))();
    }
#endif
    OK(cuMemFree_v2(first));
    puts("done");
    return 0;
}
#endif
