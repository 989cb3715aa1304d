/*
 * array.c - the memory of CUDA arrays and mipmapped arrays, and what is bound into sparse ones.
 *
 * An array's bytes are those of its elements, by its descriptor; each level halves every dimension, to 1 at
 * least, but not the number of layers.  What the driver rounds up beyond that is residual.  A format that is
 * not known here counts 0.
 */
#include "events.h"

#include "record/record.h"

#define SPARSE  0x40u /* CUDA_ARRAY3D_SPARSE */
#define LATER   0x80u /* CUDA_ARRAY3D_DEFERRED_MAPPING */
#define LAYERS  0x01u /* CUDA_ARRAY3D_LAYERED */
#define CUBEMAP 0x04u /* CUDA_ARRAY3D_CUBEMAP */

/* Bits of an element by the number of its format: of one channel, of the whole, of a block of 4 x 4. */
#define CHANNEL(bits) ((bits) | 0x1000)
#define ELEMENT(bits) ((bits) | 0x2000)
#define BLOCK(bits)   ((bits) | 0x4000)
static const uint16_t formats[256] = {
    [0x01] = CHANNEL(8),  [0x02] = CHANNEL(16), [0x03] = CHANNEL(32), /* UNSIGNED_INT8 16 32 */
    [0x08] = CHANNEL(8),  [0x09] = CHANNEL(16), [0x0a] = CHANNEL(32), /* SIGNED_INT8 16 32 */
    [0x10] = CHANNEL(16), [0x20] = CHANNEL(32),                       /* HALF, FLOAT */
    [0x50] = ELEMENT(32),                                             /* UNORM_INT_101010_2 */
    [0x51] = ELEMENT(16), [0x52] = ELEMENT(32),                       /* packed 4:2:2, 4:4:4 */
    [0x53] = ELEMENT(12), [0x55] = ELEMENT(16), [0x57] = ELEMENT(24), /* semi-planar 4:2:0 4:2:2 4:4:4 */
    [0x54] = ELEMENT(24), [0x56] = ELEMENT(32), [0x58] = ELEMENT(48), /* in 16 bits */
    [0x59] = ELEMENT(12), [0x5b] = ELEMENT(16), [0x5d] = ELEMENT(24), /* planar 4:2:0 4:2:2 4:4:4 */
    [0x5a] = ELEMENT(24), [0x5c] = ELEMENT(32), [0x5e] = ELEMENT(48), /* in 16 bits */
    [0x91] = BLOCK(64),   [0x92] = BLOCK(64),                         /* BC1 */
    [0x93] = BLOCK(128),  [0x94] = BLOCK(128),                        /* BC2 */
    [0x95] = BLOCK(128),  [0x96] = BLOCK(128),                        /* BC3 */
    [0x97] = BLOCK(64),   [0x98] = BLOCK(64),                         /* BC4 */
    [0x99] = BLOCK(128),  [0x9a] = BLOCK(128),                        /* BC5 */
    [0x9b] = BLOCK(128),  [0x9c] = BLOCK(128),                        /* BC6H */
    [0x9d] = BLOCK(128),  [0x9e] = BLOCK(128),                        /* BC7 */
    [0x9f] = ELEMENT(24), [0xa1] = ELEMENT(24), [0xb0] = ELEMENT(12), /* P010, P016, NV12: 4:2:0 */
    [0xa2] = ELEMENT(16), [0xa3] = ELEMENT(32), [0xa4] = ELEMENT(32), /* NV16, P210, P216: 4:2:2 */
    [0xa5] = ELEMENT(16), [0xa6] = ELEMENT(32), [0xa7] = ELEMENT(32), /* YUY2, Y210, Y216: 4:2:2 */
    [0xa8] = ELEMENT(32), [0xa9] = ELEMENT(32), [0xb1] = ELEMENT(64), /* AYUV, Y410, Y416: 4:4:4 */
    [0xb2] = ELEMENT(24), [0xb3] = ELEMENT(48),                       /* Y444 planar, 8 and 10 bits */
    [0xb4] = ELEMENT(24), [0xb5] = ELEMENT(48),                       /* YUV444 semi-planar, 8 and 16 bits */
    [0xc0] = ELEMENT(8),  [0xc1] = ELEMENT(16), [0xc2] = ELEMENT(32), /* UNORM_INT8X1 X2 X4 */
    [0xc3] = ELEMENT(16), [0xc4] = ELEMENT(32), [0xc5] = ELEMENT(64), /* UNORM_INT16X1 X2 X4 */
    [0xc6] = ELEMENT(8),  [0xc7] = ELEMENT(16), [0xc8] = ELEMENT(32), /* SNORM_INT8X1 X2 X4 */
    [0xc9] = ELEMENT(16), [0xca] = ELEMENT(32), [0xcb] = ELEMENT(64), /* SNORM_INT16X1 X2 X4 */
};

static uint64_t at_least_1(uint64_t n)
{
    return n != 0 ? n : 1;
}

static uint64_t level_bytes(const struct vs_array *a, uint64_t width, uint64_t height, uint64_t depth)
{
    unsigned format = (unsigned)a->format < 256 ? formats[a->format] : 0;
    uint64_t bits = format & 0xfff;
    if (format & 0x1000)
        bits *= a->channels;
    if (format & 0x4000) {
        width = (width + 3) / 4;
        height = (height + 3) / 4;
    }
    return (width * height * depth * bits + 7) / 8;
}

/* The number of levels that the driver makes: at most down to one element. */
static unsigned clamp_levels(const struct vs_array *a, unsigned levels)
{
    uint64_t size = a->width > a->height ? a->width : a->height;
    unsigned most = 1;
    if (!(a->flags & (LAYERS | CUBEMAP)) && a->depth > size)
        size = a->depth;
    while (size >>= 1)
        most++;
    return levels < 1 ? 1 : levels < most ? levels : most;
}

uint64_t vs_array_bytes(const struct vs_array *a, unsigned levels)
{
    uint64_t bytes = 0;
    bool layers = (a->flags & (LAYERS | CUBEMAP)) != 0;
    if (a->flags & (SPARSE | LATER))
        return 0;
    levels = clamp_levels(a, levels);
    for (unsigned i = 0; i < levels; i++)
        bytes += level_bytes(a, at_least_1(a->width >> i), at_least_1(a->height >> i),
                             at_least_1(layers ? a->depth : a->depth >> i));
    return bytes;
}

/* ---- memory bound into sparse arrays ----
 *
 * Sparse arrays and those with deferred mapping have no memory of their own: cuMemMapArrayAsync binds
 * physical memory into them, one BIND or UNBIND for each entry of its list. */

static uint64_t mix(uint64_t key, uint64_t value)
{
    key = (key ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return key ^ key >> 29;
}

/* A key that is equal for the same place in an array. */
static uint64_t key_of(const CUarrayMapInfo *info)
{
    uint64_t key = mix(1, info->subresourceType);
    if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
        return mix(mix(key, info->subresource.miptail.layer), info->subresource.miptail.offset);
    key = mix(key, (uint64_t)info->subresource.sparseLevel.level << 32 | info->subresource.sparseLevel.layer);
    key = mix(key,
              (uint64_t)info->subresource.sparseLevel.offsetX << 32 | info->subresource.sparseLevel.offsetY);
    return mix(key, info->subresource.sparseLevel.offsetZ);
}

static uint64_t object_of(const CUarrayMapInfo *info)
{
    return info->resourceType == CU_RESOURCE_TYPE_ARRAY ? (uint64_t)(uintptr_t)info->resource.array
                                                        : (uint64_t)(uintptr_t)info->resource.mipmap;
}

static uint64_t bound_bytes(const CUarrayMapInfo *info)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    CUarray array = info->resource.array;
    if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
        return info->subresource.miptail.size;
    if (info->resourceType != CU_RESOURCE_TYPE_ARRAY &&
        vs_drv_cuMipmappedArrayGetLevel(&array, info->resource.mipmap, info->subresource.sparseLevel.level) !=
            CUDA_SUCCESS)
        return 0;
    if (vs_drv_cuArray3DGetDescriptor_v2(&d, array) != CUDA_SUCCESS)
        return 0;
    struct vs_array a = {info->subresource.sparseLevel.extentWidth,
                         info->subresource.sparseLevel.extentHeight,
                         info->subresource.sparseLevel.extentDepth,
                         d.NumChannels,
                         0,
                         d.Format};
    return vs_array_bytes(&a, 1);
}

static uint64_t record_bind(const CUarrayMapInfo *info, enum vs_op op, CUresult status)
{
    return vs_event(op, VS_SPACE_ARRAY, vs_place_nowhere, object_of(info), bound_bytes(info),
                    op == VS_OP_BIND ? info->memHandle.memHandle : 0, key_of(info), status);
}

static bool unbinds(const CUarrayMapInfo *info)
{
    return info->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP;
}

void vs_before_map_arrays(const CUarrayMapInfo *list, unsigned count, struct vs_many *undone)
{
    undone->count = 0;
    for (unsigned i = 0; list != NULL && i < count && undone->count < VS_MANY; i++) {
        if (!unbinds(&list[i]))
            continue;
        undone->address[undone->count] = object_of(&list[i]);
        undone->seq[undone->count++] = record_bind(&list[i], VS_OP_UNBIND, CUDA_SUCCESS);
    }
}

/* Records the unbinds beyond those that were recorded before the call; if the call failed, takes the
 * recorded ones back. */
void vs_after_map_arrays(const CUarrayMapInfo *list, unsigned count, const struct vs_many *undone,
                         CUresult status)
{
    unsigned seen = 0;
    for (unsigned i = 0; status != CUDA_SUCCESS && i < undone->count; i++)
        vs_after_free(undone->seq[i], VS_SPACE_ARRAY, undone->address[i], status);
    for (unsigned i = 0; list != NULL && i < count; i++) {
        if (!unbinds(&list[i]))
            record_bind(&list[i], VS_OP_BIND, status);
        else if (seen++ >= undone->count && status == CUDA_SUCCESS)
            record_bind(&list[i], VS_OP_UNBIND, status);
    }
}
