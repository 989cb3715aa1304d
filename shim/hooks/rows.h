/*
 * rows.h - the driver's descriptions of a copy of rows, all as that of a copy in three dimensions.
 */
#ifndef VS_HOOKS_ROWS_H
#define VS_HOOKS_ROWS_H

#include "access/box.h"
#include "driver.h"

#define VS_ROWS_END(c, end)                                                                                  \
    .end##XInBytes = (c)->end##XInBytes, .end##Y = (c)->end##Y, .end##MemoryType = (c)->end##MemoryType,     \
    .end##Host = (c)->end##Host, .end##Device = (c)->end##Device, .end##Pitch = (c)->end##Pitch

static inline CUDA_MEMCPY3D vs_rows_2d(const CUDA_MEMCPY2D *c)
{
    return (CUDA_MEMCPY3D){VS_ROWS_END(c, src), VS_ROWS_END(c, dst), .WidthInBytes = c->WidthInBytes,
                           .Height = c->Height, .Depth = 1};
}

static inline CUDA_MEMCPY3D vs_rows_peer(const CUDA_MEMCPY3D_PEER *c)
{
    return (CUDA_MEMCPY3D){VS_ROWS_END(c, src),
                           VS_ROWS_END(c, dst),
                           .srcZ = c->srcZ,
                           .srcHeight = c->srcHeight,
                           .dstZ = c->dstZ,
                           .dstHeight = c->dstHeight,
                           .WidthInBytes = c->WidthInBytes,
                           .Height = c->Height,
                           .Depth = c->Depth};
}

#define VS_ROWS_POINTER(op_, end)                                                                            \
    .end##MemoryType = CU_MEMORYTYPE_UNIFIED, .end##Device = (op_)->end.op.ptr.ptr,                          \
    .end##Pitch = (op_)->end.op.ptr.rowLength != 0 ? (op_)->end.op.ptr.rowLength : (op_)->extent.width,      \
    .end##Height = (op_)->end.op.ptr.layerHeight != 0 ? (op_)->end.op.ptr.layerHeight : (op_)->extent.height

/* False: one end is an array, whose elements it counts in, of a size that is not known here. */
static inline bool vs_rows_op(const struct CUDA_MEMCPY3D_BATCH_OP_st *op, CUDA_MEMCPY3D *c)
{
    if (op->src.type != CU_MEMCPY_OPERAND_TYPE_POINTER || op->dst.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
        return false;
    *c = (CUDA_MEMCPY3D){VS_ROWS_POINTER(op, src), VS_ROWS_POINTER(op, dst), .WidthInBytes = op->extent.width,
                         .Height = op->extent.height, .Depth = op->extent.depth};
    return true;
}

/* The memory at one END (src, dst) of the copy C; that of an array has no address here. */
#define VS_ROWS_BOX(c, end)                                                                                  \
    vs_rows_box(c,                                                                                           \
                (c)->end##MemoryType == CU_MEMORYTYPE_HOST    ? (uint64_t)(uintptr_t)(c)->end##Host          \
                : (c)->end##MemoryType == CU_MEMORYTYPE_ARRAY ? 0                                            \
                                                              : (c)->end##Device,                            \
                (c)->end##XInBytes + (c)->end##Pitch * ((c)->end##Y + (c)->end##Height * (c)->end##Z),       \
                (c)->end##Pitch, (c)->end##Height)
static inline struct vs_box vs_rows_box(const CUDA_MEMCPY3D *c, uint64_t begin, uint64_t before, size_t pitch,
                                        size_t height)
{
    begin = begin != 0 ? begin + before : 0;
    /* Dense rows are one, unless addresses in them may begin at odd bytes, for which box.c has to know them.
     */
    if (pitch == c->WidthInBytes && pitch % sizeof(uint32_t) == 0 && (c->Depth == 1 || height == c->Height))
        return VS_BOX_FLAT(begin, c->WidthInBytes * c->Height * c->Depth);
    return (struct vs_box){begin, c->WidthInBytes, c->Height, c->Depth, pitch, height};
}

#endif
