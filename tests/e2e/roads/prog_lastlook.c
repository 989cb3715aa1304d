// link: cuda
/* Holds 8 MiB, takes and frees 2 MiB again and again until the test lets it go, takes 16 MiB more and ends at
 * once. */
#include "prog.h"
#include <time.h>

int main(void)
{
    CUdeviceptr held, p;
    begin();
    OK(cuMemAlloc(&held, 8 * MIB));
    while (!may_go(1)) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        OK(cuMemAlloc(&p, 2 * MIB));
        OK(cuMemFree(p));
    }
    OK(cuMemAlloc(&p, 16 * MIB));
    return 0;
}
