// link: cuda
/*
 * Two devices at once: backward on a thread per device as autograd has it, memory freed from the other
 * device's context, a stream and a handle that name their own device.
 */
#define _GNU_SOURCE
#include "prog.h"
#include <pthread.h>
#include "vramscope.h"

static CUcontext contexts[2];
static CUdeviceptr left; /* of device 0, freed under device 1 */

static void use(int device)
{
    OK(cuCtxSetCurrent(contexts[device]));
}

static void on(int device, CUdeviceptr *p, size_t mib)
{
    use(device);
    OK(cuMemAlloc(p, mib * MIB));
}

/* Grows device 0 by 7 of which 3 stay, or device 1 by 5 of which 1 stays. */
static void *autograd(void *argument)
{
    int device = (int)(size_t)argument;
    CUdeviceptr grown, kept;
    pthread_setname_np(pthread_self(), device ? "pt_autograd_1" : "pt_autograd_0");
    use(device);
    on(device, &kept, device ? 1 : 3);
    on(device, &grown, 4);
    OK(cuMemFree(grown));
    if (device)
        OK(cuMemFree(left));
    return NULL;
}

static void on_both_threads(void)
{
    for (size_t device = 0; device < 2; device++) { /* one after the other: the test knows the order */
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, autograd, (void *)device) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        if (device == 0)
            on(0, &left, 2);
    }
}

static void forward(void)
{
    CUdeviceptr p, logits;
    vramscope_range_push("forward");
    on(0, &p, 10);
    on(1, &p, 3);
    vramscope_range_push("logits");
    on(1, &logits, 20);
    OK(cuMemFree(logits));
    vramscope_range_pop();
    vramscope_range_pop();
}

/* While device 0 is current, device 1 is named by the stream and by the handle. */
static void elsewhere(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    CUmemGenericAllocationHandle handle;
    CUstream stream;
    CUdeviceptr p;
    use(1);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    use(0);
    OK(cuMemAllocAsync(&p, 6 * MIB, stream));
    OK(cuMemFreeAsync(p, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemCreate(&handle, 8 * MIB, &prop, 0));
    OK(cuMemRelease(handle));
}

int main(void)
{
    int count = 0;
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    CHECK(count == 2);
    for (int i = 0; i < 2; i++)
        OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
    forward();
    vramscope_range_push("backward");
    on_both_threads();
    vramscope_range_pop();
    vramscope_step();
    on_both_threads(); /* no range anywhere: the threads' names tell */
    elsewhere();
    puts("done");
    return 0;
}
