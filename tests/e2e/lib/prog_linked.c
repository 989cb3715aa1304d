// link: cuda
/* Reaches the driver by direct linking; every plain allocation function, freed, and a free that fails. */
#include "prog.h"

int main(void)
{
    CUdeviceptr a, b, c, d;
    size_t pitch;
    begin();
    OK(cuMemAlloc(&a, 4096));
    OK(cuMemAlloc(&b, 3 * MIB + 1));
    OK(cuMemAllocPitch(&c, &pitch, 1000, 10, 4));
    OK(cuMemAllocManaged(&d, 5 * MIB, CU_MEM_ATTACH_GLOBAL));
    printf("pitch %zu\n", pitch);
    IS(cuMemFree(a + 512), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(b));
    OK(cuMemFree(d));
    OK(cuMemFree(c));
    IS(cuMemAlloc(&b, 1ull << 40), CUDA_ERROR_OUT_OF_MEMORY);
    IS(cuMemAlloc(NULL, 4096), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(a));
    IS(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
    puts("done");
    return 0;
}
