/*
 * torch.h - what the files about PyTorch's allocator share, and what they give to the arena and to the
 * constructor.
 */
#ifndef VS_FRAMEWORK_TORCH_H
#define VS_FRAMEWORK_TORCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arch/cpu.h"
#include "core/hot.h"

/* ---- torch.c ---- */

/* at::sequence_number::get_and_increment(), which numbers nodes (autograd.c). */
#define VS_SEQUENCE_NUMBER "_ZN2at15sequence_number17get_and_incrementEv"

/* The loaded library NAME*.so of torch's; NULL where there is none.  Takes the loader's lock. */
void *vs_torch_library(const char *name);

/* ---- torch.c, for the arena when it replaces PyTorch's allocator (arena/torch/torch.c) ---- */

/* Records a block that torch got (SIZE > 0) or gave back (SIZE < 0); ALLOCATED: torch's bytes on the device
 * after it. */
void vs_torch_block(void *ptr, int64_t size, uint64_t allocated, uint64_t stream, int device);
void vs_torch_block_oom(uint64_t size, uint64_t allocated, int device);

/* Reports to torch's own profiler, as torch's own allocator does. */
void vs_torch_profile(void *ptr, int64_t size, uint64_t allocated, uint64_t reserved, int device);

/* ---- torch_stream.c: the number of the stream that the allocator is serving ----
 *
 *      PyTorch's id   0      0x143   0x243   a cudaStream_t of another library's
 *      number         1      2       3       4                                      0: unknown
 *
 * Where memory was requested for another stream than the current one (raw_alloc_with_stream) the number is
 * wrong; the reader corrects it, since all blocks of a segment are of one stream (read/tape.c). */

/* c10::cuda::CUDAStream, which has a trivial copy: type and index of its device, and its id. */
struct vs_c10_stream {
    uint64_t device;
    int64_t id;
};
typedef struct vs_c10_stream vs_c10_stream_fn(int8_t device);

extern _Atomic(vs_c10_stream_fn *) vs_torch_current_stream; /* NULL: not found, or not to be trusted */

/* Finds the function, where the code at CALLER, which has reported a block of DEVICE, is of the library that
 * has it, and its answer comes as it should.  Takes the loader's lock. */
void vs_torch_stream_find(const void *caller, int8_t device);
/* The number of the stream ID that is not the default one; a new one if there was none. */
uint8_t vs_torch_stream_number(int64_t id);
/* The answer was no stream of the device: nothing is asked any more. */
void vs_torch_stream_distrust(void);

/* Of the calling thread, on DEVICE; 0: unknown.  No lock, no memory. */
static inline uint8_t vs_torch_stream(int8_t device)
{
    /* relaxed: a pointer to code, complete by itself */
    vs_c10_stream_fn *current = atomic_load_explicit(&vs_torch_current_stream, memory_order_relaxed);
    if (__builtin_expect(current == NULL, 0))
        return 0;
    struct vs_c10_stream stream = current(device);
    if (__builtin_expect((uint16_t)stream.device != (uint16_t)(1 | (uint8_t)device << 8), 0)) {
        vs_torch_stream_distrust();
        return 0;
    }
    return stream.id == 0 ? 1 : vs_torch_stream_number(stream.id);
}

/* ---- torch_events.c: which freed blocks the allocator keeps until other streams are done with them ---- */

/* Has calls to N functions by the library that the code at INSIDE belongs to come to OURS, and puts the
 * functions themselves into *REAL: hooks/symbols/rebind_object.c.  preload/init.c fills it in; NULL: none. */
extern size_t (*vs_torch_rebind)(const void *inside, const char *const *names, void *const *ours,
                                 void **const *real, size_t n);

/* Has the allocator whose code is at CALLER watched.  Once; takes the loader's lock. */
void vs_torch_events_watch(const void *caller);

/* A report of the calling thread comes after CUDA events that were recorded: of a free of BLOCK they are
 * what the block waits for.  To be called where vs_self.events is not 0, after the report was recorded. */
void vs_torch_events_report(bool is_free, uint64_t block, int8_t device);

/* ---- torch_facts.c: what Python says of the allocator (python/vramscope/_allocator.py) ---- */

/* How many things that were said before the recording began wait to be recorded; not 0 while they are. */
extern _Atomic unsigned vs_torch_facts_waiting;

void vs_torch_facts_record(void);
/* In the constructor: keeps what ENVIRONMENT says of PyTorch's settings, which programs without Python read
 * too. */
void vs_torch_facts_init(char *const *environment);

/* To be called with each report, where the recording may just have begun. */
static inline void vs_torch_facts_due(void)
{
    if (__builtin_expect(atomic_load_explicit(&vs_torch_facts_waiting, memory_order_relaxed) != 0, 0))
        vs_torch_facts_record();
}

#endif
