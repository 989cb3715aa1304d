// link: cuda
/*
 * prog_arena_idle.c - a program that is past its peak: 256 MiB live and freed, then many small blocks, one
 * at a time, over the two windows of 65536 frees that the arena waits.  Most of that is not recorded: it
 * would be a burst of more events than a ring holds.
 */
#include "prog.h"
#include "vramscope.h"

#define BLOCKS 128
#define TURNS  150000
#define UNSEEN 125000

int main(void)
{
    CUdeviceptr p[BLOCKS];
    begin();
    for (unsigned i = 0; i < BLOCKS; i++)
        OK(cuMemAlloc(&p[i], 2 * MIB));
    for (unsigned i = 0; i < BLOCKS; i++)
        OK(cuMemFree(p[i]));
    for (unsigned i = 0; i < TURNS; i++) {
        if (i == 0)
            vramscope_record_stop();
        if (i == UNSEEN)
            vramscope_record_start();
        OK(cuMemAlloc(&p[0], 4096));
        OK(cuMemFree(p[0]));
    }
    return 0;
}
