// link: cuda
/* prog_reset [again]: holds 8 MiB, loses them with the primary context, idles, and may take 4 MiB of a new
 * one. */
#include "prog.h"
#include <string.h>
#include <time.h>

static void idle(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr p;
    begin();
    OK(cuMemAlloc(&p, 8 * MIB));
    idle();
    OK(cuDevicePrimaryCtxReset(0));
    idle();
    if (argc > 1 && strcmp(argv[1], "again") == 0) {
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        OK(cuMemAlloc(&p, 4 * MIB));
        idle();
    }
    puts("done");
    return 0;
}
