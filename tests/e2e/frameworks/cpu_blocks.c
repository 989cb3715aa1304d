/*
 * cpu_blocks.c - preloaded beside the shim: memory that PyTorch takes on the CPU is reported as a CUDA
 * device's.
 *
 * PyTorch's CPU allocator takes all of it by two functions that libc10 calls through the linker.
 *
 * CPU_BLOCKS_LIMIT: a block beyond so many bytes is refused with an exception, as PyTorch's allocator does
 * it.  CPU_BLOCKS_LOG: a file that gets a line a block, its size and what the thread said last
 * (cpu_blocks_say).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLACES = 1 << 16, LEAST = 1024, RESERVED = 1 << 30 };

void report(void *, int64_t, size_t, size_t,
            uint16_t) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
void report_refused(int64_t, size_t, size_t,
                    uint16_t) __asm__("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
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
static size_t limit = SIZE_MAX;

void cpu_blocks_say(int what)
{
    said = what;
}

static __attribute__((constructor)) void open_log(void)
{
    const char *path = getenv("CPU_BLOCKS_LOG"), *most = getenv("CPU_BLOCKS_LIMIT");
    limit = most ? strtoull(most, NULL, 10) : SIZE_MAX;
    told = path ? fopen(path, "w") : NULL;
    if (told)
        setlinebuf(told); /* the program reads it before it ends */
}

/* Python loads libc10 for its extension alone, so its names are not found by themselves. */
static void throw_error(const char *text)
{
    typedef void fail(const char *, const char *, uint32_t, const char *);
    void *c10 = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
    fail *check = c10 ? (fail *)dlsym(c10, "_ZN3c106detail14torchCheckFailEPKcS2_jS2_") : NULL;
    if (check)
        check(__func__, __FILE__, __LINE__, text);
    abort();
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

static bool is_refused(size_t size)
{
    pthread_mutex_lock(&mutex);
    bool refused = allocated + size > limit;
    pthread_mutex_unlock(&mutex);
    return refused;
}

void *c10_alloc(size_t size)
{
    void *p = NULL;
    if (size >= LEAST && is_refused(size)) {
        report_refused((int64_t)size, allocated, RESERVED, 1);
        throw_error("out of memory: the limit of CPU_BLOCKS_LIMIT");
    }
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
