// link: cuda
/* The record window: what is allocated while it is closed is not written, what is freed then is. */
#include "prog.h"
#include "vramscope.h"

int main(void)
{
    CUdeviceptr before, hidden, after;
    begin();
    OK(cuMemAlloc(&before, 1000));
    vramscope_record_stop();
    OK(cuMemAlloc(&hidden, 2000));
    OK(cuMemFree(before)); /* was recorded: its end is */
    vramscope_record_start();
    OK(cuMemAlloc(&after, 3000));
    OK(cuMemFree(hidden)); /* never recorded */
    OK(cuMemFree(after));
    puts("done");
    return 0;
}
