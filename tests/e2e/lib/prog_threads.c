// link: cuda
/*
 * prog_threads.c [COUNTS] - threads that allocate and free at once.
 *
 * Eight have 1000 pairs each, four live at a time; once all 32 live together, so that the peak is the same in
 * each run.  With COUNTS, a file that outlives the process: four go on without end, and count there what
 * returned.
 */
#include "prog.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

static CUcontext context;
static pthread_barrier_t all;
static volatile uint64_t *counts; /* per thread: allocations returned, frees returned */

static void *work(void *argument)
{
    size_t unit = (size_t)argument * 4096;
    CUdeviceptr live[4] = {0};
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < 1000; i++) {
        if (i == 4)
            pthread_barrier_wait(&all);
        if (live[i % 4])
            OK(cuMemFree(live[i % 4]));
        OK(cuMemAlloc(&live[i % 4], unit));
    }
    for (int i = 0; i < 4; i++)
        OK(cuMemFree(live[i]));
    return NULL;
}

static void *go_on(void *argument)
{
    volatile uint64_t *count = counts + 2 * ((size_t)argument - 1);
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

static void map_counts(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(counts != MAP_FAILED);
}

int main(int argc, char **argv)
{
    pthread_t threads[8];
    size_t n = argc > 1 ? 4 : 8;
    if (argc > 1)
        map_counts(argv[1]);
    begin();
    OK(cuCtxGetCurrent(&context));
    CHECK(pthread_barrier_init(&all, NULL, 8) == 0);
    for (size_t i = 0; i < n; i++)
        CHECK(pthread_create(&threads[i], NULL, counts ? go_on : work, (void *)(i + 1)) == 0);
    for (size_t i = 0; i < n; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    puts("done");
    return 0;
}
