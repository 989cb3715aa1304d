// link: cuda
/* Memory outside the device's totals: pinned, registered, managed. */
#include "prog.h"

static char own[3 * 4096];

int main(void)
{
    void *a, *b;
    CUdeviceptr managed;
    begin();
    OK(cuMemHostAlloc(&a, 10000, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuMemAllocHost(&b, 20000));
    OK(cuMemHostRegister(own, sizeof own, 0));
    OK(cuMemAllocManaged(&managed, 30000, CU_MEM_ATTACH_GLOBAL));
    IS(cuMemHostRegister(own, sizeof own, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostUnregister(own));
    OK(cuMemFreeHost(a));
    IS(cuMemFreeHost(own), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeHost(b));
    OK(cuMemFree(managed));
    puts("done");
    return 0;
}
