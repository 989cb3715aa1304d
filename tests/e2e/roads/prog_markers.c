// link: cuda
/* Phases through vramscope.h: nested, on two threads, unbalanced, before the first allocation. */
#include "prog.h"
#include <pthread.h>
#include "vramscope.h"

static CUcontext context;

static void *other(void *unused)
{
    CUdeviceptr p;
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&p, 5 * MIB)); /* no range of its own: the leading thread's */
    vramscope_range_push("optimizer");
    OK(cuMemAlloc(&p, 6 * MIB));
    vramscope_range_pop();
    return NULL;
}

int main(int argc, char **argv)
{
    CUdeviceptr a, b, c;
    pthread_t thread;
    if (argc > 1) {
        printf("%d %d\n", vramscope_active(), vramscope_range_pop());
        return 0;
    }
    vramscope_range_push("forward"); /* before anything is recorded */
    begin();
    OK(cuCtxGetCurrent(&context));
    OK(cuMemAlloc(&a, 2 * MIB));
    vramscope_range_push("logits");
    OK(cuMemAlloc(&b, 4 * MIB));
    OK(cuMemFree(b));
    vramscope_range_pop();
    OK(cuMemAlloc(&c, 1 * MIB));
    vramscope_mark("half way");
    vramscope_range_pop();
    vramscope_range_pop(); /* one too many */
    vramscope_range_push("backward");
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    vramscope_range_pop();
    vramscope_step();
    OK(cuMemFree(a));
    OK(cuMemFree(c));
    puts("done");
    return 0;
}
