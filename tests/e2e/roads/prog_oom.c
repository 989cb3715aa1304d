// link: cuda
/* Fills the device until it is out of memory, frees one block and goes on. */
#include "prog.h"

int main(void)
{
    CUdeviceptr block[64], p;
    int count = 0;
    CUresult result;
    begin();
    while ((result = cuMemAlloc(&block[count], 64 * MIB)) == CUDA_SUCCESS)
        count++;
    IS(result, CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree(block[0]));
    OK(cuMemAlloc(&p, 64 * MIB));
    IS(cuMemAllocAsync(&p, 64 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    printf("%d blocks\n", count);
    return 0;
}
