/* fake_driver.h - what tests set and read in fake_driver.c. */
#ifndef TESTS_UNIT_HOOKS_FAKE_DRIVER_H
#define TESTS_UNIT_HOOKS_FAKE_DRIVER_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

struct fake_state {     /* each thread has its own */
    CUresult fail_next; /* the next call's status */
    const char *last;   /* the function called last */
    int calls;
    CUdeviceptr next_address;
    int capturing;
    uint64_t reserved; /* of every pool */
    int pool_queries;
    int info_queries; /* of cuMemGetInfo */
    uint64_t taken;   /* beyond the 700 bytes that always are */
    CUmemoryPool device_pool;
    jmp_buf *leave;       /* the next call jumps out of the driver */
    void (*during)(void); /* called by the next call: what happens meanwhile */
};
extern __thread struct fake_state fake;
#define FAKE_FREE       ((size_t)1 << 40) /* bytes, where nothing is taken */
#define FAKE_BAD_STREAM ((CUstream)0xbad)
void fake_set_context(uintptr_t context); /* the low four bits are its device */
CUresult fake_result(const char *called);
CUresult fake_give(CUdeviceptr *out, const char *called);

extern struct fake_graph { /* every graph's nodes */
    int nodes, reads;
    bool free[8];
    uint64_t address[8], size[8], reserved;
} fake_graph;
extern struct fake_primary {
    int retains;
} fake_primary;
/* cuMemAlloc_v2 and cuMemFree_v2 under names that nobody hooks */
CUresult fake_alloc(CUdeviceptr *dptr, size_t bytes);
CUresult fake_free(CUdeviceptr dptr);
/* likewise cuKernelGetFunction, cuLaunchKernel, and cuGraphLaunch of fake_surface.c */
CUresult fake_kernel_function(CUfunction *f, CUkernel kernel);
CUresult fake_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                     unsigned bz, unsigned shared, CUstream stream, void **params, void **extra);
CUresult fake_graph_launch(CUgraphExec exec, CUstream stream);
CUresult fake_unhooked(void);
CUresult fake_newer_alloc(void);

#endif
