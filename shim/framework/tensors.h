/*
 * tensors.h - what PyTorch asks its CUDA allocator for a block as: a tensor with its element type and shape,
 * a storage, or bytes.
 *
 * A note lies in the calling thread's memory from a function of libtorch that makes a tensor (tensor_hooks.c)
 * to the report of the block that it gets (torch.c), which the allocator makes inside of that function.
 */
#ifndef VS_FRAMEWORK_TENSORS_H
#define VS_FRAMEWORK_TENSORS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hot.h"
#include "trace/journal/journal.h"

/* A report comes from a few calls below the function that left the note; one from further down, or from
 * above, is of another request. */
#define VS_TENSOR_STACK (64u << 10)
/* The allocator rounds a request up, to 512 bytes and at most to the next power of two.  A request of up to
 * 1 MiB gets no more than that; with a larger one it may leave up to 20 MiB, where that is not to be split.
 */
#define VS_TENSOR_SMALL       (UINT64_C(1) << 20)
#define VS_TENSOR_SPARE_SMALL UINT64_C(512)
#define VS_TENSOR_SPARE       (UINT64_C(20) << 20)

struct vs_tensor_note {
    _Alignas(64) uint32_t what; /* vs_tensor_what; 0: nothing is noted; VS_TENSOR_UNCLEAR */
    uintptr_t stack;            /* where the noting function's frame lies */
    uint64_t request;           /* bytes */
    int64_t size[VS_TENSOR_DIMS_MAX];
};
/* A tensor of which not even the bytes are known: its block is not "raw". */
#define VS_TENSOR_UNCLEAR UINT32_MAX

extern __thread struct vs_tensor_note vs_tensor_note __attribute__((tls_model("initial-exec")));
/* A note has been taken in this process: from then on a block without one is "raw". */
extern _Atomic bool vs_tensor_seen;

/* Whether a block of SIZE bytes can be what REQUEST bytes were asked for. */
static inline bool vs_tensor_fits(uint64_t size, uint64_t request)
{
    uint64_t spare = request <= VS_TENSOR_SMALL ? VS_TENSOR_SPARE_SMALL : VS_TENSOR_SPARE;
    return size >= request && size - request <= request + spare;
}

/* The id in J of what a block of SIZE bytes, reported now on the calling thread, was asked for as; 0: not
 * known.  The note is used up. */
static inline uint32_t vs_tensor_take(struct vs_journal *j, uint64_t size)
{
    struct vs_tensor_note *note = &vs_tensor_note;
    uint32_t what = note->what;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    note->what = 0;
    if (__builtin_expect(what == 0, 0))
        return atomic_load_explicit(&vs_tensor_seen, memory_order_relaxed)
                   ? vs_journal_tensor(j,
                                       vs_tensor_what(VS_TENSOR_RAW, VS_TENSOR_NO_TYPE, VS_TENSOR_NO_SHAPE),
                                       0, note->size)
                   : 0;
    if (__builtin_expect(what == VS_TENSOR_UNCLEAR || note->stack - here > VS_TENSOR_STACK ||
                             !vs_tensor_fits(size, note->request),
                         0))
        return 0;
    if (__builtin_expect(!atomic_load_explicit(&vs_tensor_seen, memory_order_relaxed), 0))
        atomic_store_explicit(&vs_tensor_seen, true, memory_order_relaxed);
    return vs_journal_tensor(j, what, note->request, note->size);
}

/* The report is not recorded. */
static inline void vs_tensor_drop(void)
{
    vs_tensor_note.what = 0;
}

/* ---- the functions that leave notes, by their names in libtorch_cpu and, the last one, libtorch_cuda ----
 */

#define VS_GENERIC                                                                                           \
    "_ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_9AllocatorENS1_14DispatchKeySetENS1_10ScalarTypeE"  \
    "St8optionalINS1_12MemoryFormatEE"
#define VS_STRIDED                                                                                           \
    "_ZN2at6detail21empty_strided_genericEN3c108ArrayRefIlEES3_PNS1_9AllocatorENS1_14DispatchKeySetENS1_"    \
    "10ScalarTypeE"
#define VS_RESIZE_CUDA "_ZN2at6native17resize_bytes_cudaEPN3c1011StorageImplEm"
#define VS_RESIZE_AT   "_ZN2at6native27resize_bytes_cuda_with_addrEPN3c1011StorageImplEmPv" /* since 2.13 */

#endif
