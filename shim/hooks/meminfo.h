/*
 * meminfo.h - the driver's figures of used and free memory of a device (cuMemGetInfo), queried on the host's
 * own threads.
 */
#ifndef VS_HOOKS_MEMINFO_H
#define VS_HOOKS_MEMINFO_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

/* The free bytes of the current context's device, by the driver. */
bool vs_query_free(uint64_t *bytes);
/* The drain's request for the device's used bytes, served on a thread that has a context. */
void vs_sample_if_requested(void);
/* likewise after an allocation; if it was refused for lack of memory the driver is queried in any case,
 * because its free bytes belong to the out-of-memory */
void vs_sample_after(CUresult status);

/* The context that is current on the calling thread; 0: none.  Takes no lock. */
uint64_t vs_cuda_current(void);

/* The used bytes of CONTEXT's device, including other processes, queried on a thread of ours.  CONTEXT is
 * current on a thread of the host that waits meanwhile, so it stays alive without a reference of ours. */
bool vs_cuda_used_bytes(uint64_t context, int *device, uint64_t *bytes);

#endif
