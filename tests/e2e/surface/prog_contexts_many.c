// link: cuda
/* More contexts than events have numbers for, one after the other and many at once: each is destroyed with 1
 * MiB in it. */
#include "prog.h"

#define LOOP    600
#define AT_ONCE 100

static void fill(CUcontext *context)
{
    CUdeviceptr p;
    OK(cuCtxCreate(context, NULL, 0, 0));
    OK(cuMemAlloc(&p, MIB));
    OK(cuCtxPopCurrent(NULL));
}

int main(void)
{
    CUcontext context, many[AT_ONCE];
    CUdeviceptr p;
    begin();
    OK(cuMemAlloc(&p, 3 * MIB));
    for (int i = 0; i < LOOP; i++) {
        fill(&context);
        OK(cuCtxDestroy(context));
    }
    for (int i = 0; i < AT_ONCE; i++)
        fill(&many[i]);
    for (int i = 0; i < AT_ONCE; i += 2) /* the others are in use */
        OK(cuCtxDestroy(many[i]));
    puts("done");
    return 0;
}
