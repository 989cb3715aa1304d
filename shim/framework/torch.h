/*
 * torch.h - functions of torch.c for the arena, when it replaces PyTorch's allocator (arena/torch/torch.c).
 */
#ifndef VS_FRAMEWORK_TORCH_H
#define VS_FRAMEWORK_TORCH_H

#include <stdint.h>

/* Records a block that torch got (SIZE > 0) or gave back (SIZE < 0); ALLOCATED: torch's bytes on the device
 * after it. */
void vs_torch_block(void *ptr, int64_t size, uint64_t allocated, uint64_t stream, int device);
void vs_torch_block_oom(uint64_t size, uint64_t allocated, int device);

/* Reports to torch's own profiler, as torch's own allocator does. */
void vs_torch_profile(void *ptr, int64_t size, uint64_t allocated, uint64_t reserved, int device);

/* at::sequence_number::get_and_increment(), which numbers nodes (autograd.c). */
#define VS_SEQUENCE_NUMBER "_ZN2at15sequence_number17get_and_incrementEv"

/* The loaded library NAME*.so of torch's; NULL where there is none.  Takes the loader's lock. */
void *vs_torch_library(const char *name);
/* LIBRARY is the path of one of torch's: says which version it is, once in a process. */
void vs_torch_note_version(const char *library);

#endif
