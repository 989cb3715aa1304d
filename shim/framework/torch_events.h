/*
 * torch_events.h - which freed blocks PyTorch's allocator keeps until other streams are done with them, and
 * when they are (torch_events.c).
 */
#ifndef VS_FRAMEWORK_TORCH_EVENTS_H
#define VS_FRAMEWORK_TORCH_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Has calls to N functions by the library that the code at INSIDE belongs to come to OURS, and puts the
 * functions themselves into *REAL: hooks/symbols/rebind_object.c.  preload/init.c fills it in; NULL: none. */
extern size_t (*vs_torch_rebind)(const void *inside, const char *const *names, void *const *ours,
                                 void **const *real, size_t n);

/* Has the allocator whose code is at CALLER watched.  Once; takes the loader's lock. */
void vs_torch_events_watch(const void *caller);

/* A report of the calling thread comes after CUDA events that were recorded: of a free of BLOCK they are
 * what the block waits for.  To be called where vs_self.events is not 0, after the report was recorded. */
void vs_torch_events_report(bool is_free, uint64_t block, int8_t device);

#endif
