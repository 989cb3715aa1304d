// link: cuda
/* Holds 40 MiB while two threads allocate and free 63 pieces of 4 to 36 KiB each, for half a second as fast
 * as they can: never more than 42.5 MiB.  Everything is freed in the end. */
#include "prog.h"
#include <pthread.h>
#include <time.h>

#define PIECES 63

static CUcontext context;
static struct timespec until;

static int over(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec > until.tv_nsec);
}

static void *spin(void *argument)
{
    CUdeviceptr piece[PIECES];
    OK(cuCtxSetCurrent(context));
    for (size_t round = 0; !over(); round++) {
        for (size_t i = 0; i < PIECES; i++)
            OK(cuMemAlloc(&piece[i], (1 + (i + round) % 9) << 12));
        for (int i = 0; i < PIECES; i++)
            OK(cuMemFree(piece[i]));
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    CUdeviceptr held;
    begin();
    OK(cuCtxGetCurrent(&context));
    OK(cuMemAlloc(&held, 40 * MIB));
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 500000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, spin, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(cuMemFree(held));
    puts("done");
    return 0;
}
