/*
 * nvtx_steps.c [STEPS [phases]] - a training of which NVTX alone says something: "iteration" with "fwd N"
 * (in it "norm"), "bwd" and "opt", or with the names of phases.
 *
 * The biggest is the third.  In bwd a thread without a range of its own allocates, too.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <nvtx3/nvToolsExt.h>

#define MIB ((size_t)1 << 20)
#define OK(call)                                                                                             \
    do {                                                                                                     \
        CUresult r = (call);                                                                                 \
        if (r != CUDA_SUCCESS) {                                                                             \
            printf("%s: %d\n", #call, r);                                                                    \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

static CUcontext context;
static int named; /* by phases */

static void *helper(void *size)
{
    CUdeviceptr p;
    if (cuCtxSetCurrent(context) == CUDA_SUCCESS && cuMemAlloc(&p, *(size_t *)size) == CUDA_SUCCESS)
        cuMemFree(p);
    return NULL;
}

static int iterate(int i)
{
    char name[16];
    CUdeviceptr activations, norm, gradients, states;
    pthread_t thread;
    size_t size = (i == 3 ? 20 : 10) * MIB, half = size / 2;
    snprintf(name, sizeof name, "fwd %d", i);
    nvtxRangePushA("iteration");
    nvtxRangePushA(named ? "forward" : name);
    OK(cuMemAlloc(&activations, size));
    nvtxRangePushA("norm");
    OK(cuMemAlloc(&norm, MIB));
    nvtxRangePop();
    OK(cuMemFree(norm));
    nvtxRangePop();
    nvtxRangePushA(named ? "backward" : "bwd");
    OK(cuMemAlloc(&gradients, 4 * MIB));
    pthread_create(&thread, NULL, helper, &half);
    pthread_join(thread, NULL);
    OK(cuMemFree(activations));
    nvtxRangePop();
    nvtxRangePushA(named ? "optimizer" : "opt");
    OK(cuMemAlloc(&states, 2 * MIB));
    OK(cuMemFree(states));
    OK(cuMemFree(gradients));
    nvtxRangePop();
    nvtxRangePop();
    return 0;
}

int main(int argc, char **argv)
{
    int iterations = argc > 1 ? atoi(argv[1]) : 6;
    named = argc > 2;
    CUdevice device;
    CUdeviceptr weights;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&weights, 8 * MIB));
    for (int i = 1; i <= iterations; i++)
        if (iterate(i))
            return 1;
    OK(cuMemFree(weights));
    return 0;
}
