// link: cuda
/* ARGV[1] pairs of alloc and free as fast as they come; ARGV[2], if there, is a pause in ns after each. */
#include "prog.h"
#include <time.h>

int main(int argc, char **argv)
{
    CUdeviceptr p;
    long pairs = argc > 1 ? atol(argv[1]) : 1000;
    struct timespec pause = {0, argc > 2 ? atol(argv[2]) : 0};
    begin();
    for (long i = 0; i < pairs; i++) {
        OK(cuMemAlloc(&p, 4096));
        OK(cuMemFree(p));
        if (pause.tv_nsec)
            nanosleep(&pause, NULL);
    }
    puts("done");
    return 0;
}
