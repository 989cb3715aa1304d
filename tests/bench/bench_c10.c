/*
 * bench_c10.c - what stands around the reports in bench_cold: libc10, with the function that PyTorch's
 * profiler would be told by, and (CUDA) libc10_cuda, which calls it and has the current stream, as PyTorch's
 * has them.
 */
#include <stddef.h>
#include <stdint.h>

struct device {
    int8_t type, index;
};

#define EXPORT __attribute__((visibility("default")))
EXPORT void usage(void *, int64_t, size_t, size_t,
                  struct device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

#ifdef CUDA
struct stream {
    struct device device;
    int64_t id;
};
EXPORT struct stream current_stream(int8_t device) __asm__("_ZN3c104cuda20getCurrentCUDAStreamEa");
EXPORT void bench_report(void *ptr, int64_t size, size_t allocated, size_t reserved);
EXPORT void bench_stream(int64_t id);

static __thread int64_t streams[8];

struct stream current_stream(int8_t device)
{
    return (struct stream){{1, device}, streams[device & 7]};
}

void bench_stream(int64_t id)
{
    streams[0] = id;
}

void bench_report(void *ptr, int64_t size, size_t allocated, size_t reserved)
{
    if (size > 0) /* as the allocator asks before it looks for a block */
        __asm__ volatile("" : : "r"(current_stream(0).id));
    usage(ptr, size, allocated, reserved, (struct device){1, 0});
    __asm__ volatile(""); /* a call, not a jump: it is told by where it returns to */
}
#else
void usage(void *ptr, int64_t size, size_t allocated, size_t reserved, struct device device) {}
#endif
