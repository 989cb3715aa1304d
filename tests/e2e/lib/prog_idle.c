// link: cuda
/* Holds 32 MiB for 400 ms, or until it may go, and does little: what the driver itself says of the process is
 * sampled meanwhile.
 */
#include "prog.h"
#include <time.h>

int main(void)
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
    return 0;
}
