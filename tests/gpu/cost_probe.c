/*
 * cost_probe.c - times the library's two entries that PyTorch calls most, call by call (cost_parts.sh).
 *
 *      LD_PRELOAD="cost_probe.so libvramscope.so" python cost_parts.py turns ...
 *
 * Preloaded in front of the library, it takes the reports of blocks and the numbers of autograd nodes and
 * hands them on with the processor's counter read before and after.  What the library calls in turn is in the
 * time; the same calls while it is paused say how much that is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum { ALLOC, ALLOC_ELSEWHERE, FREE, BIRTH, BIRTH_ELSEWHERE, KINDS, MODES = 3, KEPT = 1 << 18 };

#define EXPORT __attribute__((visibility("default")))
#define USAGE  "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define NUMBER "_ZN2at15sequence_number17get_and_incrementEv"

typedef void usage_fn(void *, int64_t, size_t, size_t, uint16_t);
typedef uint64_t number_fn(void);

EXPORT void probe_usage(void *, int64_t, size_t, size_t, uint16_t) __asm__(USAGE);
EXPORT uint64_t probe_number(void) __asm__(NUMBER);
EXPORT void probe_mode(int mode);
EXPORT double probe_ticks_per_ns(void);
EXPORT int probe_take(int mode, int kind, uint32_t **times);

static _Atomic int mode = -1;
static _Atomic int used[MODES][KINDS];
static uint32_t kept[MODES][KINDS][KEPT];

static inline uint64_t ticks(void)
{
    return __builtin_ia32_rdtsc();
}

static inline bool elsewhere(void)
{
    static __thread int known; /* 1: the first thread, 2: another */
    if (!known)
        known = gettid() == getpid() ? 1 : 2;
    return known == 2;
}

static inline void keep(int kind, uint64_t begin)
{
    uint64_t took = ticks() - begin;
    int m = atomic_load_explicit(&mode, memory_order_relaxed);
    if (m < 0)
        return;
    int at = atomic_fetch_add_explicit(&used[m][kind], 1, memory_order_relaxed);
    if (at < KEPT)
        kept[m][kind][at] = (uint32_t)took;
}

void probe_usage(void *ptr, int64_t size, size_t allocated, size_t reserved, uint16_t device)
{
    static usage_fn *_Atomic next;
    usage_fn *call = next;
    if (!call)
        next = call = (usage_fn *)dlsym(RTLD_NEXT, USAGE);
    uint64_t begin = ticks();
    call(ptr, size, allocated, reserved, device);
    keep(size < 0 ? FREE : elsewhere() ? ALLOC_ELSEWHERE : ALLOC, begin);
}

uint64_t probe_number(void)
{
    static number_fn *_Atomic next;
    number_fn *call = next;
    if (!call)
        next = call = (number_fn *)dlsym(RTLD_NEXT, NUMBER);
    uint64_t begin = ticks(), number = call();
    keep(elsewhere() ? BIRTH_ELSEWHERE : BIRTH, begin);
    return number;
}

void probe_mode(int m)
{
    mode = m;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double probe_ticks_per_ns(void)
{
    uint64_t begin = ticks(), ns = now_ns();
    while (now_ns() - ns < 20000000)
        ;
    return (double)(ticks() - begin) / (double)(now_ns() - ns);
}

int probe_take(int m, int kind, uint32_t **times)
{
    *times = kept[m][kind];
    int n = used[m][kind];
    return n < KEPT ? n : KEPT;
}
