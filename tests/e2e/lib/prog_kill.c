// link: cuda
/* Allocates and frees without end and keeps count of what has returned in a file that outlives it: ARGV[1].
 */
#include "prog.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS 4

static volatile uint64_t *counts; /* per thread: allocations returned, frees returned */
static CUcontext context;

static void *work(void *argument)
{
    volatile uint64_t *count = counts + 2 * (size_t)argument;
    CUdeviceptr p;
    OK(cuCtxSetCurrent(context));
    for (;;) {
        OK(cuMemAlloc(&p, 4096));
        count[0]++;
        OK(cuMemFree(p));
        count[1]++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    CHECK(argc == 2);
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(counts != MAP_FAILED);
    begin();
    OK(cuCtxGetCurrent(&context));
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread, NULL, work, (void *)i) == 0);
    pause();
    return 0;
}
