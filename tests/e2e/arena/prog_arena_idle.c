// link: cuda
/*
 * prog_arena_idle.c - a program that is past its peak: 256 MiB live and freed, then many small blocks, one at
 * a time.
 */
#include "prog.h"

#define BLOCKS 128
#define TURNS  150000

int main(void)
{
    CUdeviceptr p[BLOCKS];
    begin();
    for (unsigned i = 0; i < BLOCKS; i++)
        OK(cuMemAlloc(&p[i], 2 * MIB));
    for (unsigned i = 0; i < BLOCKS; i++)
        OK(cuMemFree(p[i]));
    for (unsigned i = 0; i < TURNS; i++) {
        OK(cuMemAlloc(&p[0], 4096));
        OK(cuMemFree(p[0]));
    }
    return 0;
}
