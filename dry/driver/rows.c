/*
 * rows.c - copies and fills of two and three dimensions, row by row.  In a captured stream each row is a
 * node, where a real driver makes one of all.  What touches an array is not supported; in dry mode it does
 * nothing.
 */
#include "capture.h"
#include "graph.h"

#include <string.h>

struct side {
    uint64_t start;
    size_t pitch, height; /* height: rows from one slice to the next */
    bool device, array;
};
struct box {
    struct side to, from;
    size_t width, rows, slices;
};

static struct side side_of(CUmemorytype type, const void *host, uint64_t device, size_t pitch, size_t height)
{
    bool is_host = type == CU_MEMORYTYPE_HOST;
    uint64_t start = is_host ? (uint64_t)host : device;
    return (struct side){.start = start,
                         .pitch = pitch,
                         .height = height,
                         .device = !is_host && sim_block_find(start),
                         .array = type == CU_MEMORYTYPE_ARRAY};
}

static bool is_dense(const struct side *side, const struct box *box)
{
    return side->pitch == box->width && (box->slices == 1 || side->height == box->rows);
}

static CUresult copy_rows(const struct box *box, CUstream stream)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < box->rows * box->slices && result == CUDA_SUCCESS; i++) {
        size_t row = i % box->rows, slice = i / box->rows;
        result =
            sim_copy_on(stream, box->to.start + (slice * box->to.height + row) * box->to.pitch,
                        box->to.device, box->from.start + (slice * box->from.height + row) * box->from.pitch,
                        box->from.device, box->width, box->width * box->rows * box->slices);
    }
    return result;
}

static CUresult copy_box(struct box *box, CUstream stream)
{
    CUresult result = sim_stream_check(stream);
    if (result != CUDA_SUCCESS || !box->width || !box->rows || !box->slices)
        return result;
    if (box->to.array || box->from.array)
        return sim_dry() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    if (is_dense(&box->to, box) && is_dense(&box->from, box)) {
        box->width *= box->rows * box->slices;
        box->rows = box->slices = 1;
    }
    return copy_rows(box, stream);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    struct box box = {side_of(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstPitch, 1),
                      side_of(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcPitch, 1), c->WidthInBytes,
                      c->Height, 1};
    box.to.start += c->dstY * c->dstPitch + c->dstXInBytes;
    box.from.start += c->srcY * c->srcPitch + c->srcXInBytes;
    return copy_box(&box, stream);
}

/* Both structures of three dimensions have the same members. */
#define COPY_3D(name, type)                                                                                  \
    static CUresult name(const type *c, CUstream stream)                                                     \
    {                                                                                                        \
        if (!c)                                                                                              \
            return CUDA_ERROR_INVALID_VALUE;                                                                 \
        struct box box = {side_of(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstPitch, c->dstHeight),    \
                          side_of(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcPitch, c->srcHeight),    \
                          c->WidthInBytes, c->Height, c->Depth};                                             \
        box.to.start += (c->dstZ * c->dstHeight + c->dstY) * c->dstPitch + c->dstXInBytes;                   \
        box.from.start += (c->srcZ * c->srcHeight + c->srcY) * c->srcPitch + c->srcXInBytes;                 \
        return copy_box(&box, stream);                                                                       \
    }
COPY_3D(copy_3d, CUDA_MEMCPY3D)
COPY_3D(copy_3d_peer, CUDA_MEMCPY3D_PEER)

static struct side operand(const CUmemcpy3DOperand *o, const CUextent3D *extent)
{
    size_t pitch = o->op.ptr.rowLength ? o->op.ptr.rowLength : extent->width,
           height = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : extent->height;
    return side_of(o->type == CU_MEMCPY_OPERAND_TYPE_POINTER ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_ARRAY,
                   NULL, o->op.ptr.ptr, pitch, height);
}

static CUresult copy_ops(const CUDA_MEMCPY3D_BATCH_OP *list, size_t count, CUstream stream)
{
    CUresult result = list ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        const CUextent3D *e = &list[i].extent;
        struct box box = {operand(&list[i].dst, e), operand(&list[i].src, e), e->width, e->height, e->depth};
        result = copy_box(&box, stream);
    }
    return result;
}

static CUresult fill_rows(uint64_t to, size_t pitch, const void *pattern, unsigned width, size_t count,
                          size_t rows, CUstream stream)
{
    CUresult result = sim_stream_check(stream);
    if (pitch == count * width || rows == 1)
        return sim_fill_on(stream, to, pattern, width, count * rows);
    for (size_t row = 0; row < rows && result == CUDA_SUCCESS; row++)
        result = sim_fill_on(stream, to + row * pitch, pattern, width, count);
    return result;
}

#define COPY_2(stream)    copy_2d(copy, stream)
#define COPY_3(stream)    copy_3d(copy, stream)
#define COPY_PEER(stream) copy_3d_peer(copy, stream)
#define COPY_OPS(stream)  copy_ops(list, count, stream)
#define FILL(stream)      fill_rows(to, pitch, &value, sizeof value, count, rows, stream)

SIM_TWINS(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *copy), NULL, COPY_2)
SIM_TWINS(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *copy), NULL, COPY_2)
SIM_TWINS(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, (const CUDA_MEMCPY2D *copy, CUstream stream), stream,
          COPY_2)
SIM_TWINS(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *copy), NULL, COPY_3)
SIM_TWINS(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz, (const CUDA_MEMCPY3D *copy, CUstream stream), stream,
          COPY_3)
SIM_TWINS(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, (const CUDA_MEMCPY3D_PEER *copy), NULL, COPY_PEER)
SIM_TWINS(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream),
          stream, COPY_PEER)

SIM_TWINS(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz,
          (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed, unsigned long long flags,
           CUstream stream),
          stream, COPY_OPS)
SIM_TWINS(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz,
          (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream stream), stream,
          COPY_OPS)

SIM_TWINS(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds,
          (CUdeviceptr to, size_t pitch, unsigned char value, size_t count, size_t rows), NULL, FILL)
SIM_TWINS(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz,
          (CUdeviceptr to, size_t pitch, unsigned char value, size_t count, size_t rows, CUstream stream),
          stream, FILL)
SIM_TWINS(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds,
          (CUdeviceptr to, size_t pitch, unsigned short value, size_t count, size_t rows), NULL, FILL)
SIM_TWINS(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz,
          (CUdeviceptr to, size_t pitch, unsigned short value, size_t count, size_t rows, CUstream stream),
          stream, FILL)
SIM_TWINS(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds,
          (CUdeviceptr to, size_t pitch, unsigned int value, size_t count, size_t rows), NULL, FILL)
SIM_TWINS(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz,
          (CUdeviceptr to, size_t pitch, unsigned int value, size_t count, size_t rows, CUstream stream),
          stream, FILL)
