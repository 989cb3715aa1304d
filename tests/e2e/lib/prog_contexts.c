// link: cuda
/* What ends with a context: a created one's memory, the primary's at its last release and at a reset. */
#include "prog.h"

static void fill(void)
{
    CUDA_ARRAY_DESCRIPTOR desc = {1024, 512, CU_AD_FORMAT_FLOAT, 1};
    CUdeviceptr a;
    CUarray array;
    void *host;
    OK(cuMemAlloc(&a, 4 * MIB));
    OK(cuArrayCreate(&array, &desc));
    OK(cuMemHostAlloc(&host, 8192, 0));
}

static void created(void)
{
    CUcontext context;
    OK(cuCtxCreate(&context, NULL, 0, 0));
    fill();
    OK(cuCtxDestroy(context));
    IS(cuCtxDestroy(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static void primary(void)
{
    CUcontext context;
    CUdeviceptr pooled;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    fill();
    OK(cuMemAllocAsync(&pooled, MIB, NULL));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuDevicePrimaryCtxRelease(0)); /* not the last */
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    fill();
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuDevicePrimaryCtxReset(0)); /* of nothing */
}

static void green(void)
{
    CUdevResource all;
    CUdevResourceDesc desc;
    CUgreenCtx context;
    CUcontext current;
    CUdeviceptr a;
    OK(cuDevicePrimaryCtxRetain(&current, 0));
    OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevResourceGenerateDesc(&desc, &all, 1));
    OK(cuGreenCtxCreate(&context, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuCtxFromGreenCtx(&current, context));
    OK(cuCtxSetCurrent(current));
    OK(cuMemAlloc(&a, 2 * MIB));
    OK(cuDevicePrimaryCtxRetain(&current, 0));
    OK(cuCtxSetCurrent(current));
    OK(cuGreenCtxDestroy(context)); /* what was allocated under it is the primary's */
    OK(cuMemFree(a));
}

int main(void)
{
    OK(cuInit(0));
    created();
    primary();
    green();
    puts("done");
    return 0;
}
