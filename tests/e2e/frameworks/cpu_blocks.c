/*
 * cpu_blocks.c - preloaded beside the shim: every tensor that PyTorch makes on the CPU is a block of a CUDA
 * device.
 *
 * PyTorch without a GPU reports no block.  Its CPU allocator takes all memory from two functions that libc10
 * calls through the linker; here they report, as libc10_cuda does.  Tensors are made by real operations then,
 * in real forwards and real backwards, on the threads and with the Python frames that these have.
 *
 * CPU_BLOCKS_LOG names a file that gets a line for each block, in their order: its size, and the number that
 * the program said last on the thread (cpu_blocks_say).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLACES = 1 << 16, LEAST = 1024, RESERVED = 1 << 30 };

void report(void *, int64_t, size_t, size_t,
            uint16_t) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
void cpu_blocks_say(int);
void *c10_alloc(size_t) __asm__("_ZN3c109alloc_cpuEm");
void c10_free(void *) __asm__("_ZN3c108free_cpuEPv");

static struct {
    void *at;
    size_t size;
} blocks[PLACES];
static size_t allocated; /* of a pool that was there before the recording */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static FILE *told;
static __thread int said;

void cpu_blocks_say(int what)
{
    said = what;
}

static __attribute__((constructor)) void open_log(void)
{
    const char *path = getenv("CPU_BLOCKS_LOG");
    told = path ? fopen(path, "w") : NULL;
    if (told)
        setlinebuf(told); /* the program reads it before it ends */
}

static unsigned place_of(void *p)
{
    unsigned at = (unsigned)((uintptr_t)p >> 6) * 2654435761u % PLACES;
    while (blocks[at].at && blocks[at].at != p)
        at = (at + 1) % PLACES;
    return at;
}

/* Places are never given back, so that a search may end at an empty one. */
static void note(void *p, size_t size)
{
    pthread_mutex_lock(&mutex);
    unsigned at = place_of(p);
    int64_t change = (int64_t)size - (int64_t)blocks[at].size;
    blocks[at].at = p;
    blocks[at].size = size;
    allocated += (size_t)change;
    if (change)
        report(p, change, allocated, RESERVED, 1);
    if (change > 0 && told)
        fprintf(told, "%zu %d\n", size, said);
    pthread_mutex_unlock(&mutex);
}

void *c10_alloc(size_t size)
{
    void *p = NULL;
    if (size == 0 || posix_memalign(&p, 64, size))
        return NULL;
    if (size >= LEAST)
        note(p, size);
    return p;
}

void c10_free(void *p)
{
    if (p) {
        pthread_mutex_lock(&mutex);
        size_t size = blocks[place_of(p)].at == p ? blocks[place_of(p)].size : 0;
        pthread_mutex_unlock(&mutex);
        if (size)
            note(p, 0);
    }
    free(p);
}
