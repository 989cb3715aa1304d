/*
 * bench_c10.c - what stands behind the reports in bench_cold: a library that is called as PyTorch's libc10
 * is, with the function that its profiler would be told by.
 */
#include <stddef.h>
#include <stdint.h>

struct device {
    int8_t type, index;
};

__attribute__((visibility("default"))) void
profiler(void *, int64_t, size_t, size_t,
         struct device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

void profiler(void *ptr, int64_t size, size_t allocated, size_t reserved, struct device device) {}
