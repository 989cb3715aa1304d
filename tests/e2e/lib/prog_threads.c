// link: cuda
/*
 * Eight threads, each with 1000 pairs of allocation and free, four live at a time; once all 32 live
 * together, so that the peak is the same in each run.
 */
#include "prog.h"
#include <pthread.h>

static CUcontext context;
static pthread_barrier_t all;

static void *work(void *argument)
{
    size_t unit = (size_t)argument * 4096;
    CUdeviceptr live[4] = {0};
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < 1000; i++) {
        if (i == 4)
            pthread_barrier_wait(&all);
        if (live[i % 4])
            OK(cuMemFree(live[i % 4]));
        OK(cuMemAlloc(&live[i % 4], unit));
    }
    for (int i = 0; i < 4; i++)
        OK(cuMemFree(live[i]));
    return NULL;
}

int main(void)
{
    pthread_t threads[8];
    begin();
    OK(cuCtxGetCurrent(&context));
    CHECK(pthread_barrier_init(&all, NULL, 8) == 0);
    for (size_t i = 0; i < 8; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (size_t i = 0; i < 8; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    puts("done");
    return 0;
}
