// link: cuda
/* prog_reset [again]: holds 8 MiB, loses them with the primary context, and may take 4 MiB of a new one;
 * waits in between until it may go. */
#include "prog.h"
#include <string.h>

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr p;
    begin();
    OK(cuMemAlloc(&p, 8 * MIB));
    go(1);
    OK(cuDevicePrimaryCtxReset(0));
    go(2);
    if (argc > 1 && strcmp(argv[1], "again") == 0) {
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        OK(cuMemAlloc(&p, 4 * MIB));
    }
    puts("done");
    return 0;
}
