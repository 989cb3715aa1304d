// link: cuda
/*
 * prog_pace.c PART - a recorder that is asked for much, is told to pause, or has no room.
 *
 *      asking  loads 100 modules and makes 100 streams: calls that the shim measures
 *      pause   a benchmark's pause, and what was allocated before, meanwhile and after it
 *      spin    holds 40 MiB while two threads allocate and free as fast as they can, 42.5 MiB at most
 */
#include "prog.h"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

static void asking(void)
{
    CUmodule module;
    CUstream stream;
    begin();
    go(1); /* the sampler's first look has to see who else is there */
    for (int i = 0; i < 100; i++) {
        OK(cuModuleLoadData(&module, ".version 8.0\n"));
        OK(cuStreamCreate(&stream, 0));
    }
}

static void call(const char *name)
{
    void (*f)(void);
    *(void **)&f = dlsym(RTLD_DEFAULT, name);
    if (f)
        f();
}

static void pause_and_go_on(void)
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
}

#define PIECES 63

static CUcontext context;
static struct timespec until;

static int over(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec > until.tv_nsec);
}

static void *allocate(void *argument)
{
    CUdeviceptr piece[PIECES];
    OK(cuCtxSetCurrent(context));
    for (size_t round = 0; !over(); round++) {
        for (size_t i = 0; i < PIECES; i++)
            OK(cuMemAlloc(&piece[i], (1 + (i + round) % 9) << 12));
        for (int i = 0; i < PIECES; i++)
            OK(cuMemFree(piece[i]));
    }
    return NULL;
}

static void spin(void)
{
    pthread_t threads[2];
    CUdeviceptr held;
    begin();
    OK(cuCtxGetCurrent(&context));
    OK(cuMemAlloc(&held, 40 * MIB));
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 500000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(cuMemFree(held));
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {{"asking", asking}, {"pause", pause_and_go_on}, {"spin", spin}};
    return play_part(argc, argv, parts, sizeof parts / sizeof *parts);
}
