/*
 * array.c - arrays and mipmapped arrays: the bytes of their texels, level by level, without padding.
 *
 * Sparse and deferred ones have no memory of their own (array_sparse.c).  Formats of one texel per element
 * are simulated; planar and block-compressed ones are CUDA_ERROR_NOT_SUPPORTED.
 */
#include "array.h"
#include "capture.h"

#include <stdlib.h>
#include <string.h>

#define UNBACKED (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)
#define KNOWN                                                                                                \
    (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER | \
     CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT | UNBACKED)

static struct sim_map arrays;

struct sim_array *sim_array_find(const void *handle, bool mipmapped)
{
    struct sim_array *array = (struct sim_array *)sim_map_at(&arrays, (uint64_t)handle);
    return array && (array->levels != 0) == mipmapped ? array : NULL;
}

struct sim_array *sim_array_next(const struct sim_array *after)
{
    return (struct sim_array *)sim_map_from(&arrays, after ? after->range.start + 1 : 0);
}

/* ---- sizes ---- */

uint64_t sim_texel_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    unsigned channels =
        desc->NumChannels == 1 || desc->NumChannels == 2 || desc->NumChannels == 4 ? desc->NumChannels : 0;
    switch ((int)desc->Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return channels * 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return channels * 4;
    default:
        return 0;
    }
}

static uint64_t at_least_1(uint64_t extent)
{
    return extent ? extent : 1;
}

/* Layers stay as many at every level; a volume's depth halves like its other extents. */
CUDA_ARRAY3D_DESCRIPTOR sim_level_of(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned level)
{
    CUDA_ARRAY3D_DESCRIPTOR out = *desc;
    out.Width = at_least_1(desc->Width >> level);
    out.Height = desc->Height ? at_least_1(desc->Height >> level) : 0;
    if (desc->Depth && !(desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
        out.Depth = at_least_1(desc->Depth >> level);
    return out;
}

uint64_t sim_level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(desc->Width * sim_texel_bytes(desc), at_least_1(desc->Height), &bytes) ||
        __builtin_mul_overflow(bytes, at_least_1(desc->Depth), &bytes))
        return UINT64_MAX;
    return bytes;
}

static uint64_t all_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
    uint64_t sum = 0;
    for (unsigned level = 0; level < (levels ? levels : 1); level++) {
        CUDA_ARRAY3D_DESCRIPTOR one = sim_level_of(desc, level);
        sum += sim_level_bytes(&one);
    }
    return sum;
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
    const uint64_t most = 1u << 17;
    uint64_t largest = desc->Width > desc->Height ? desc->Width : desc->Height;
    if (!desc->Width || desc->Width > most || desc->Height > most || desc->Depth > most ||
        (desc->Flags & ~(unsigned)KNOWN) || !desc->NumChannels)
        return CUDA_ERROR_INVALID_VALUE;
    if ((desc->Flags & CUDA_ARRAY3D_LAYERED) && !desc->Depth)
        return CUDA_ERROR_INVALID_VALUE;
    if ((desc->Flags & CUDA_ARRAY3D_CUBEMAP) &&
        (desc->Width != desc->Height || desc->Depth % 6 || !desc->Depth))
        return CUDA_ERROR_INVALID_VALUE;
    if ((desc->Flags & CUDA_ARRAY3D_SPARSE) && !desc->Height)
        return CUDA_ERROR_INVALID_VALUE;
    if (levels && largest >> (levels - 1) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_texel_bytes(desc) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- creating ---- */

static struct sim_array *new_array(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels, int device)
{
    struct sim_array *array = calloc(1, sizeof *array);
    if (!array)
        return NULL;
    array->range.start = (uint64_t)array;
    array->range.size = 1;
    array->owner = sim_context_owner();
    array->device = device;
    array->desc = *desc;
    array->levels = levels;
    array->bytes = all_bytes(desc, levels);
    sim_map_insert(&arrays, &array->range);
    return array;
}

static void destroy(struct sim_array *array)
{
    for (struct sim_array *level = array->next_level, *next; level; level = next) {
        next = level->next_level;
        sim_map_remove(&arrays, &level->range);
        free(level);
    }
    sim_array_unbind_all(array);
    if (array->address)
        sim_backing_free(array->device, array->address, array->bytes, array->detail);
    sim_map_remove(&arrays, &array->range);
    free(array);
}

static CUresult create(void **out, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
    SIM_UNSAFE();
    CUresult result = out ? check(desc, levels) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_array *array = new_array(desc, levels, sim_context_owner()->device);
    if (array && !(desc->Flags & UNBACKED))
        array->address = sim_backing_alloc(array->device, array->bytes, &array->detail);
    if (!array || (!array->address && !(desc->Flags & UNBACKED))) {
        if (array)
            destroy(array);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = array;
    return CUDA_SUCCESS;
}

CUresult sim_array_import(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels,
                          int device, uint64_t room)
{
    CUresult result = out && levels ? check(desc, levels) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    if (all_bytes(desc, levels) > room)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_array *array = new_array(desc, levels, device);
    *out = (CUmipmappedArray)(void *)array;
    return array ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

#define FLAT(d)                                                                                              \
    {                                                                                                        \
        .Width = (d)->Width, .Height = (d)->Height, .Format = (d)->Format, .NumChannels = (d)->NumChannels   \
    }
#define DEEP(d)                                                                                              \
    {                                                                                                        \
        .Width = (d)->Width, .Height = (d)->Height, .Depth = (d)->Depth, .Format = (d)->Format,              \
        .NumChannels = (d)->NumChannels, .Flags = (d)->Flags                                                 \
    }
#define CREATE(name, descriptor, convert)                                                                    \
    CUresult name(CUarray *out, const descriptor *desc)                                                      \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        if (!desc)                                                                                           \
            return CUDA_ERROR_INVALID_VALUE;                                                                 \
        CUDA_ARRAY3D_DESCRIPTOR full = convert(desc);                                                        \
        return create((void **)out, &full, 0);                                                               \
    }
CREATE(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, FLAT)
CREATE(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR, FLAT)
CREATE(cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, DEEP)
CREATE(cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR, DEEP)

CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
                                unsigned int levels)
{
    SIM_CALL(SIM_CONTEXT);
    return desc && levels ? create((void **)out, desc, levels) : CUDA_ERROR_INVALID_VALUE;
}

/* A level is the mipmap's: it can't be destroyed by itself. */
CUresult cuArrayDestroy(CUarray handle)
{
    SIM_CALL(SIM_CONTEXT);
    struct sim_array *array = sim_array_find(handle, false);
    if (!array || array->parent)
        return CUDA_ERROR_INVALID_HANDLE;
    destroy(array);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
    SIM_CALL(SIM_CONTEXT);
    struct sim_array *array = sim_array_find(handle, true);
    if (!array)
        return CUDA_ERROR_INVALID_HANDLE;
    destroy(array);
    return CUDA_SUCCESS;
}

/* Levels go with their mipmaps, whichever comes first: so from the front again after each. */
void sim_arrays_free_of(struct sim_context *owner)
{
    struct sim_array *array = NULL;
    while ((array = sim_array_next(array)))
        if (array->owner == owner && !array->parent) {
            destroy(array);
            array = NULL;
        }
}

CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray handle, unsigned int level)
{
    SIM_CALL(SIM_CONTEXT);
    struct sim_array *mipmap = sim_array_find(handle, true);
    if (!mipmap)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || level >= mipmap->levels)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR desc = sim_level_of(&mipmap->desc, level);
    struct sim_array *array = new_array(&desc, 0, mipmap->device);
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    array->owner = mipmap->owner;
    array->parent = mipmap;
    array->next_level = mipmap->next_level;
    mipmap->next_level = array;
    *out = (CUarray)(void *)array;
    return CUDA_SUCCESS;
}

/* ---- describing ---- */

#define DESCRIBE(name, descriptor, convert)                                                                  \
    CUresult name(descriptor *desc, CUarray handle)                                                          \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        const struct sim_array *array = sim_array_find(handle, false);                                       \
        if (!array)                                                                                          \
            return CUDA_ERROR_INVALID_HANDLE;                                                                \
        if (!desc)                                                                                           \
            return CUDA_ERROR_INVALID_VALUE;                                                                 \
        *desc = (descriptor)convert(&array->desc);                                                           \
        return CUDA_SUCCESS;                                                                                 \
    }
#define SHORT(d)                                                                                             \
    {                                                                                                        \
        .Width = (unsigned)(d)->Width, .Height = (unsigned)(d)->Height, .Format = (d)->Format,               \
        .NumChannels = (d)->NumChannels                                                                      \
    }
#define SHORT_DEEP(d)                                                                                        \
    {                                                                                                        \
        .Width = (unsigned)(d)->Width, .Height = (unsigned)(d)->Height, .Depth = (unsigned)(d)->Depth,       \
        .Format = (d)->Format, .NumChannels = (d)->NumChannels, .Flags = (d)->Flags                          \
    }
DESCRIBE(cuArrayGetDescriptor, CUDA_ARRAY_DESCRIPTOR_v1, SHORT)
DESCRIBE(cuArrayGetDescriptor_v2, CUDA_ARRAY_DESCRIPTOR, FLAT)
DESCRIBE(cuArray3DGetDescriptor, CUDA_ARRAY3D_DESCRIPTOR_v1, SHORT_DEEP)
DESCRIBE(cuArray3DGetDescriptor_v2, CUDA_ARRAY3D_DESCRIPTOR, DEEP)

/* ---- copying ---- */

static CUresult bytes_of(CUarray handle, size_t offset, size_t size, void **out)
{
    const struct sim_array *array = sim_array_find(handle, false);
    if (!array)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!array->address || offset > array->bytes || size > array->bytes - offset)
        return CUDA_ERROR_INVALID_VALUE; /* also where nothing is simulated behind it */
    *out = (void *)(array->address + offset);
    return CUDA_SUCCESS;
}

static CUresult to_array(CUarray array, size_t offset, const void *from, bool device, size_t size)
{
    void *to;
    CUresult result = bytes_of(array, offset, size, &to);
    if (result == CUDA_SUCCESS && (!from || (device && !sim_accessible((uint64_t)from, size, false))))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        memmove(to, from, size);
    return result;
}

static CUresult from_array(void *to, bool device, CUarray array, size_t offset, size_t size)
{
    void *from;
    CUresult result = bytes_of(array, offset, size, &from);
    if (result == CUDA_SUCCESS && (!to || (device && !sim_accessible((uint64_t)to, size, true))))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        memmove(to, from, size);
    return result;
}

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t size)
{
    SIM_CALL(SIM_CONTEXT);
    return to_array(to, offset, from, false, size);
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t size)
{
    SIM_CALL(SIM_CONTEXT);
    return to_array(to, offset, (const void *)from, true, size);
}

CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t size)
{
    SIM_CALL(SIM_CONTEXT);
    return from_array(to, false, from, offset, size);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t size)
{
    SIM_CALL(SIM_CONTEXT);
    return from_array((void *)to, true, from, offset, size);
}
