/*
 * meminfo.h - what the driver says is used and free of a device (cuMemGetInfo), asked on the host's own
 * thread.
 */
#ifndef VS_HOOKS_MEMINFO_H
#define VS_HOOKS_MEMINFO_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

/* What the current context's device has free, by the driver. */
bool vs_query_free(uint64_t *bytes);
/* The drain's request for the device's used bytes, served on a thread that has a context. */
void vs_sample_if_requested(void);
/* the same after an allocation; where that was refused for lack of memory the driver is asked in any case:
 * how much it had free belongs to the out-of-memory */
void vs_sample_after(CUresult status);

/* The context that is current on the calling thread; 0: none.  Takes no lock. */
uint64_t vs_cuda_current(void);

/* What is used of the device that CONTEXT lies on, by other processes too, asked on a thread of ours; CONTEXT
 * is current on a thread of the host that waits meanwhile, so it stays alive without our holding it. */
bool vs_cuda_used_bytes(uint64_t context, int *device, uint64_t *bytes);

#endif
