// link: cuda
/* prog_arena [gaps|idle] - what a program may rely on of cuMemAlloc and cuMemFree, whoever serves them. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "prog.h"
#include "vramscope.h"

#define BLOCKS  24
#define THREADS 4

static void fill(CUdeviceptr p, size_t bytes, unsigned word)
{
    OK(cuMemsetD32(p, word, bytes / 4));
}

static void expect(CUdeviceptr p, size_t bytes, unsigned word)
{
    unsigned got[3];
    OK(cuMemcpyDtoH(&got[0], p, 4));
    OK(cuMemcpyDtoH(&got[1], p + bytes / 8 * 4, 4));
    OK(cuMemcpyDtoH(&got[2], p + bytes - 4, 4));
    CHECK(got[0] == word && got[1] == word && got[2] == word);
}

/* Room that is apart serves a block that needs it all: 48 MiB are live at most. */
static void gaps(void)
{
    CUdeviceptr p[BLOCKS], large;
    for (unsigned i = 0; i < BLOCKS; i++) {
        OK(cuMemAlloc(&p[i], 2 * MIB));
        CHECK(p[i] % 512 == 0);
        fill(p[i], 2 * MIB, i);
    }
    for (unsigned i = 0; i < BLOCKS; i += 2)
        OK(cuMemFree(p[i]));
    OK(cuMemAlloc(&large, BLOCKS * MIB));
    fill(large, BLOCKS * MIB, 77);
    for (unsigned i = 1; i < BLOCKS; i += 2)
        expect(p[i], 2 * MIB, i);
    expect(large, BLOCKS * MIB, 77);
    for (unsigned i = 1; i < BLOCKS; i += 2)
        OK(cuMemFree(p[i]));
    OK(cuMemFree(large));
}

static void wait_of_free(void)
{
    CUdeviceptr p, q;
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&p, 32 * MIB));
    OK(cuMemAlloc(&q, 4096));
    OK(cuMemsetD32Async(p, 1, 8 * MIB, stream));
    OK(cuMemFree(q));
    OK(cuStreamQuery(stream)); /* done, though nobody waited for it otherwise */
    OK(cuMemFree(p));
    OK(cuStreamDestroy(stream));
}

static void errors(void)
{
    CUdeviceptr p, q;
    IS(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemAlloc(NULL, 10), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&p, 100000));
    IS(cuMemFree(p + 512), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
    IS(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    IS(cuMemAlloc(&q, 1ull << 50), CUDA_ERROR_OUT_OF_MEMORY);
}

static void pitched(void)
{
    CUdeviceptr p;
    size_t pitch = 0;
    OK(cuMemAllocPitch(&p, &pitch, 1000, 20, 4));
    CHECK(pitch >= 1000 && pitch % 4 == 0);
    fill(p, pitch * 20, 9);
    OK(cuMemFree(p));
}

/* Until the device is full, everything freed, and again in one piece. */
static void full(void)
{
    CUdeviceptr p[256], all;
    unsigned n = 0;
    CUresult status;
    while ((status = cuMemAlloc(&p[n], 32 * MIB)) == CUDA_SUCCESS && n < 255)
        n++;
    IS(status, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(n > 4);
    for (unsigned i = 0; i < n; i++)
        OK(cuMemFree(p[i]));
    OK(cuMemAlloc(&all, n * 32 * MIB));
    OK(cuMemFree(all));
}

static void *work(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;
    CUdeviceptr p[8];
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    for (unsigned n = 0; n < 20; n++) {
        for (unsigned i = 0; i < 8; i++) {
            size_t bytes = (i + me + n) % 5 * 300000 + 4096;
            OK(cuMemAlloc(&p[i], bytes));
            fill(p[i], bytes, me * 100 + i);
        }
        for (unsigned i = 0; i < 8; i++) {
            expect(p[i], (i + me + n) % 5 * 300000 + 4096, me * 100 + i);
            OK(cuMemFree(p[i]));
        }
    }
    return NULL;
}

static void threads(void)
{
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
}

/* Past its peak: 256 MiB live and freed, then many small blocks, one at a time, over the two windows of 65536
 * frees that the arena waits.  Most of that is not recorded: more events than a ring holds. */
static void idle(void)
{
    enum { COUNT = 128, TURNS = 150000, UNSEEN = 125000 };
    CUdeviceptr p[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        OK(cuMemAlloc(&p[i], 2 * MIB));
    for (unsigned i = 0; i < COUNT; i++)
        OK(cuMemFree(p[i]));
    vramscope_record_stop();
    for (unsigned i = 0; i < TURNS; i++) {
        if (i == UNSEEN)
            vramscope_record_start();
        OK(cuMemAlloc(&p[0], 4096));
        OK(cuMemFree(p[0]));
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    begin();
    if (!strcmp(what, "gaps") || !strcmp(what, "all"))
        gaps();
    if (!strcmp(what, "idle"))
        idle();
    if (!strcmp(what, "all")) {
        wait_of_free();
        errors();
        pitched();
        full();
        threads();
    }
    puts("done");
    return 0;
}
