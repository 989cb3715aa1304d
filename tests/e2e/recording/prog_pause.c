// link: cuda
/* The recording is paused, as a benchmark does it, and goes on. */
#include "prog.h"

#include <dlfcn.h>

static void call(const char *name)
{
    void (*f)(void);
    *(void **)&f = dlsym(RTLD_DEFAULT, name);
    if (f)
        f();
}

int main(void)
{
    CUdeviceptr before, hidden, after;
    call("vramscope_benchmark_pause"); /* nothing is recorded yet: nothing to pause */
    begin();
    OK(cuMemAlloc(&before, 1000));
    for (int i = 0; i < 2; i++) {
        call("vramscope_benchmark_pause");
        call("vramscope_benchmark_pause");
        OK(cuMemAlloc(&hidden, 2000));
        OK(cuMemFree(hidden));
        call("vramscope_benchmark_resume");
        call("vramscope_benchmark_resume");
    }
    OK(cuMemAlloc(&after, 3000));
    OK(cuMemFree(after));
    OK(cuMemFree(before));
    puts("done");
    return 0;
}
