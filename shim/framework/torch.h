/*
 * torch.h - what torch.c does for our own allocator, which takes the place of PyTorch's
 * (arena/torch/torch.c).
 */
#ifndef VS_FRAMEWORK_TORCH_H
#define VS_FRAMEWORK_TORCH_H

#include <stdint.h>

/* Records a block that was given to torch (SIZE > 0) or that it gave back (SIZE < 0); ALLOCATED: torch's
 * bytes on the device after it. */
void vs_torch_block(void *ptr, int64_t size, uint64_t allocated, uint64_t stream, int device);
void vs_torch_block_oom(uint64_t size, uint64_t allocated, int device);

/* Tells torch's own profiler, as torch's own allocator does. */
void vs_torch_profile(void *ptr, int64_t size, uint64_t allocated, uint64_t reserved, int device);

/* The loaded library NAME*.so of torch's; NULL where there is none.  Takes the loader's lock. */
void *vs_torch_library(const char *name);

#endif
