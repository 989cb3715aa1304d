/*
 * torch_stream.h - the number of the stream that PyTorch's allocator is serving.
 *
 * A report says nothing of the stream.  But the allocator has asked for the current one of its thread just
 * before, and so can we: c10::cuda::getCurrentCUDAStream(device) reads two words of the thread's.  It is
 * found by its symbol at the first report, and called only where that report came from the library that has
 * it, and only as long as its answers are streams of the device that was asked about.  Its name does not say
 * how the answer comes, so the first call is one that would show it (torch_stream.c).
 *
 *      PyTorch's id   0      0x143   0x243   a cudaStream_t of another library's
 *      number         1      2       3       4                                      0: unknown
 *
 * Where memory was requested for another stream than the current one (raw_alloc_with_stream) the number is
 * wrong; the reader corrects it, since all blocks of a segment are of one stream (read/tape.c).
 */
#ifndef VS_FRAMEWORK_TORCH_STREAM_H
#define VS_FRAMEWORK_TORCH_STREAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arch/cpu.h"
#include "core/hot.h"

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

#endif
