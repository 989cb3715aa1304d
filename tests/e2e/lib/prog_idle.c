// link: cuda
/*
 * prog_idle.c [reset [again]] - holds memory until it may go, and does little: what the driver itself says of
 * the process is sampled meanwhile.
 *
 * For 400 ms at least 32 MiB; reset: 8 MiB, which go with the primary context; again: then 4 MiB of a new
 * one.
 */
#include "prog.h"
#include <time.h>

static void idle(void)
{
    CUdeviceptr held, p;
    begin();
    OK(cuMemAlloc(&held, 32 * MIB));
    for (int i = 0; i < 20; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        OK(cuMemAlloc(&p, 2 * MIB));
        OK(cuMemFree(p));
    }
    go(1);
    OK(cuMemFree(held));
}

static void reset(bool again)
{
    CUcontext context;
    CUdeviceptr p;
    begin();
    OK(cuMemAlloc(&p, 8 * MIB));
    go(1);
    OK(cuDevicePrimaryCtxReset(0));
    go(2);
    if (again) {
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        OK(cuMemAlloc(&p, 4 * MIB));
    }
    puts("done");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        reset(argc > 2);
    else
        idle();
    return 0;
}
