/* fake_driver.h - what tests set and read in fake_driver.c. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <setjmp.h>
#include <stdint.h>

struct fake_state {     /* each thread has its own */
    CUresult fail_next; /* the next call's status */
    const char *last;   /* the function called last */
    int calls;
    CUdeviceptr next_address;
    int capturing;
    uint64_t reserved; /* of every pool */
    int pool_queries;
    CUmemoryPool device_pool;
    jmp_buf *leave; /* the next call jumps out of the driver */
};
extern __thread struct fake_state fake;
#define FAKE_BAD_STREAM ((CUstream)0xbad)
void fake_set_context(uintptr_t context); /* the low four bits are its device */
/* cuMemAlloc_v2 and cuMemFree_v2 under names that nobody hooks */
CUresult fake_alloc(CUdeviceptr *dptr, size_t bytes);
CUresult fake_free(CUdeviceptr dptr);
CUresult fake_unhooked(void);
CUresult fake_newer_alloc(void);

#endif
