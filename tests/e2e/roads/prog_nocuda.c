/* No CUDA at all.  A weak reference and look-ups of driver names must find nothing, although the shim exports
 * them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

extern int cuInit(unsigned) __attribute__((weak));
extern int cuMemAlloc_v2(void *, unsigned long) __attribute__((weak));

int main(void)
{
    printf("cuInit %s\n", cuInit ? "found" : "absent");
    printf("cuMemAlloc_v2 %s\n", cuMemAlloc_v2 ? "found" : "absent");
    printf("default %s\n", dlsym(RTLD_DEFAULT, "cuInit") ? "found" : "absent");
    printf("next %s\n", dlsym(RTLD_NEXT, "cuMemFree_v2") ? "found" : "absent");
    void *self = dlopen(NULL, RTLD_NOW);
    printf("self %s\n", dlsym(self, "cuMemCreate") ? "found" : "absent");
    printf("malloc %s\n", dlsym(RTLD_NEXT, "malloc") ? "found" : "absent");
    return 0;
}
