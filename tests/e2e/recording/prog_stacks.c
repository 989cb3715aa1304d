// link: cuda
/* Allocates from known functions: a recursion as deep as asked, a thread, after changing the directory. */
#include "prog.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#if __has_attribute(noclone) /* gcc: no copies for constant arguments */
#define NOINLINE __attribute__((noinline, noclone))
#else
#define NOINLINE __attribute__((noinline))
#endif

static NOINLINE void allocate(size_t size)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, size));
    __asm__ volatile("" ::: "memory");
}

static NOINLINE void descend(int n)
{
    if (n > 0)
        descend(n - 1);
    else
        allocate(4096);
    __asm__ volatile("" ::: "memory");
}

static void *on_a_thread(void *unused)
{
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    allocate(8192);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc > 2)
        OK(chdir(argv[2]));
    begin();
    descend(argc > 1 ? atoi(argv[1]) : 3);
    OK(pthread_create(&thread, NULL, on_a_thread, NULL));
    OK(pthread_join(thread, NULL));
    for (int i = 0; i < 100; i++)
        allocate(512);
    puts("done");
    return 0;
}
