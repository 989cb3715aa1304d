// link: cuda
/* Ends while threads still work hard (ARGV[1] = flood; with a second argument they go on recording markers
 * through every exit handler), or starves the recorder's thread of processor time (starve) and says how long
 * the longest call took. */
#define _GNU_SOURCE
#include "prog.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <dirent.h>
#include <time.h>
#include <sys/resource.h>
#include <unistd.h>
#include "vramscope.h"

static CUcontext context;
static _Atomic int at_work; /* threads that did a thousand times what they do */

/* The processor time of this thread: a wait of the recorder's spins, and a busy machine's does not count. */
static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *allocates(void *unused)
{
    CUdeviceptr p;
    (void)unused;
    OK(cuCtxSetCurrent(context));
    for (long i = 0; cuMemAlloc(&p, 4096) == CUDA_SUCCESS; i++) {
        at_work += i == 1000;
        cuMemFree(p);
        vramscope_range_push("work");
        vramscope_range_pop();
    }
    return NULL;
}

static void *marks(void *unused)
{
    for (long i = 0;; i++) {
        at_work += i == 1000;
        vramscope_range_push("work");
        vramscope_range_pop();
    }
    return unused;
}

static void flood(bool late)
{
    pthread_t t;
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 4096));
    for (int i = 0; i < 6; i++)
        CHECK(pthread_create(&t, NULL, late ? marks : allocates, NULL) == 0);
    while (at_work < 6)
        usleep(1000);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A thread of a real-time class on processor 0 that never yields, and the recorder's threads bound to it. */
static void *hog(void *stop)
{
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    sched_setaffinity(0, sizeof first, &first);
    bool refused = sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 10}) != 0;
    at_work = 1;
    if (refused)
        return (void *)1;
    while (!atomic_load((_Atomic bool *)stop))
        ;
    return NULL;
}

/* Binds the recorder's threads to processor 0; returns how many there are by name. */
static int bind_recorder(void)
{
    int bound = 0;
    cpu_set_t first;
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *d;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    while ((d = readdir(tasks))) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", d->d_name);
        FILE *f = fopen(path, "r");
        if (f && fgets(name, sizeof name, f) && strncmp(name, "vramscope", 9) == 0)
            bound += sched_setaffinity(atoi(d->d_name), sizeof first, &first) == 0;
        if (f)
            fclose(f);
    }
    closedir(tasks);
    return bound;
}

/* How often another program was given this thread's processor. */
static long robbed(void)
{
    struct rusage used;
    CHECK(getrusage(RUSAGE_THREAD, &used) == 0);
    return used.ru_nivcsw;
}

enum { PAIRS = 20000, ROUNDS = 5 };

/* Whether nobody waited for long: a millisecond whenever the ring was half empty since the last one, which is
 * hardly ever. A pair during which the processor was taken away says nothing. */
static bool pairs_are_fast(void)
{
    static uint64_t took[PAIRS];
    CUdeviceptr p;
    for (int i = 0; i < PAIRS; i++) {
        long before = robbed();
        uint64_t start = now_ns();
        OK(cuMemAlloc(&p, 4096));
        OK(cuMemFree(p));
        took[i] = now_ns() - start;
        if (robbed() != before)
            took[i] = 0;
    }
    qsort(took, PAIRS, sizeof *took, by_number);
    return took[PAIRS - 20] < 500000 && took[PAIRS - 1] < 3000000;
}

/* On a busy machine even who waited for a millisecond may come back late: one round of several is good. */
static void starve(void)
{
    static _Atomic bool stop;
    cpu_set_t second;
    CUdeviceptr p;
    pthread_t t;
    void *refused;
    int rounds = 0;
    bool fast = false;
    OK(cuMemAlloc(&p, 4096));
    OK(cuMemFree(p));
    for (int i = 0; i < 3000 && bind_recorder() < 2; i++) /* they have their names in a moment */
        usleep(10000);
    CPU_ZERO(&second);
    CPU_SET(1, &second);
    sched_setaffinity(0, sizeof second, &second);
    CHECK(pthread_create(&t, NULL, hog, &stop) == 0);
    while (at_work == 0)
        usleep(1000);
    for (; rounds < ROUNDS && !fast; rounds++)
        fast = pairs_are_fast();
    stop = true;
    CHECK(pthread_join(t, &refused) == 0);
    if (refused)
        exit(77);
    CHECK(fast);
    printf("nobody waited for long, of %d\n", rounds * 2 * PAIRS + 2);
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    begin();
    OK(cuCtxGetCurrent(&context));
    if (strcmp(argv[1], "starve") == 0)
        starve();
    else
        flood(argc > 2);
    return 0;
}
