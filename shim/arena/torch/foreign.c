/*
 * foreign.c - blocks that a stream of another device uses (copies between devices, pipelines).
 *
 * An event of another context's stream cannot be recorded in the arena's.  So such a use is remembered, and
 * the free waits for that stream on the host.  Where there are more than fit, the block is pinned for good
 * rather than used again too early.
 */
#include "torch.h"

#include "core/log.h"

#define FOREIGN 64

struct foreign {
    uint64_t address; /* 0: none */
    CUstream stream;
};

static struct vs_lock lock = VS_LOCK(FOREIGN);
static struct foreign list[FOREIGN];
uint32_t vs_torch_foreigns;

bool vs_torch_foreign(const struct vs_served *s, CUstream stream)
{
    CUcontext context = NULL;
    return stream != NULL && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD &&
           vs_drv_cuStreamGetCtx(stream, &context) == CUDA_SUCCESS && context != s->cuda.context;
}

static bool remember(uint64_t address, CUstream stream)
{
    for (int i = 0; i < FOREIGN; i++) {
        if (list[i].address == address && list[i].stream == stream)
            return true;
        if (list[i].address)
            continue;
        list[i] = (struct foreign){address, stream};
        __atomic_fetch_add(&vs_torch_foreigns, 1, __ATOMIC_RELAXED); /* a count */
        return true;
    }
    return false;
}

void vs_torch_foreign_use(struct vs_served *s, uint64_t address, CUstream stream)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    vs_lock_take(&lock);
    bool known = remember(address, stream);
    vs_lock_give(&lock);
    if (known)
        return;
    vs_arena_pin(vs_served_arena(s), address);
    if (!atomic_flag_test_and_set_explicit(&said, memory_order_relaxed))
        vs_log("more than %d blocks are in use by streams of other devices: some stay for good", FOREIGN);
}

/* One stream that uses the block, and is no longer remembered. */
static bool next(uint64_t address, CUstream *stream)
{
    bool found = false;
    vs_lock_take(&lock);
    for (int i = 0; i < FOREIGN && !found; i++)
        if (list[i].address == address) {
            *stream = list[i].stream;
            list[i].address = 0;
            __atomic_fetch_sub(&vs_torch_foreigns, 1, __ATOMIC_RELAXED);
            found = true;
        }
    vs_lock_give(&lock);
    return found;
}

/* Where the driver won't say, a capture is under way that involves the legacy stream. */
static bool is_captured(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return vs_drv_cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void vs_torch_foreign_wait(struct vs_served *s, uint64_t address)
{
    CUstream stream;
    while (next(address, &stream)) /* one that is being captured cannot be waited for */
        if (is_captured(stream) || vs_drv_cuStreamSynchronize(stream) != CUDA_SUCCESS)
            vs_arena_pin(vs_served_arena(s), address);
}
