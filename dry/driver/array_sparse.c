/*
 * array_sparse.c - physical memory bound into sparse and deferred arrays (cuMemMapArrayAsync).
 *
 * A sparse array is made of tiles of 64 KiB; levels of a mipmap that are smaller form its tail.  A deferred
 * array is bound as a whole.  Binding a region again replaces what it had; a region that overlaps another
 * only in part is CUDA_ERROR_NOT_SUPPORTED.
 */
#include "array.h"

#include <stdlib.h>
#include <string.h>

struct tile {
    unsigned width, height, depth;
};

/* Of one texel size: as near to a square or cube as powers of two allow. */
static struct tile tile_of(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    bool volume = desc->Depth && !(desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP));
    unsigned shift = (unsigned)__builtin_ctzll(SIM_TILE / sim_texel_bytes(desc)); /* texels = 1 << shift */
    if (!volume)
        return (struct tile){1u << (shift + 1) / 2, 1u << shift / 2, 1};
    return (struct tile){1u << (shift + 2) / 3, 1u << (shift + 1) / 3, 1u << shift / 3};
}

static bool whole_tile(const CUDA_ARRAY3D_DESCRIPTOR *level, const struct tile *tile)
{
    return level->Width >= tile->width && level->Height >= tile->height &&
           (tile->depth == 1 || level->Depth >= tile->depth);
}

static uint64_t layers_of(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    return desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP) ? desc->Depth : 1;
}

/* The first level of the tail, and the tail's bytes in one layer. */
static unsigned tail_of(const struct sim_array *array, uint64_t *size)
{
    struct tile tile = tile_of(&array->desc);
    unsigned first = array->levels;
    uint64_t bytes = 0;
    for (unsigned i = array->levels; i-- > 0;) {
        CUDA_ARRAY3D_DESCRIPTOR level = sim_level_of(&array->desc, i);
        if (whole_tile(&level, &tile))
            break;
        first = i;
        bytes += sim_level_bytes(&level) / layers_of(&array->desc);
    }
    *size = sim_round(bytes, SIM_TILE);
    return first;
}

static CUresult properties(CUDA_ARRAY_SPARSE_PROPERTIES *out, const struct sim_array *array)
{
    if (!array)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !(array->desc.Flags & CUDA_ARRAY3D_SPARSE) || array->parent)
        return CUDA_ERROR_INVALID_VALUE;
    struct tile tile = tile_of(&array->desc);
    uint64_t tail;
    memset(out, 0, sizeof *out);
    out->tileExtent.width = tile.width;
    out->tileExtent.height = tile.height;
    out->tileExtent.depth = tile.depth;
    out->miptailFirstLevel = tail_of(array, &tail);
    out->miptailSize = tail;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *out, CUarray array)
{
    SIM_CALL(SIM_CONTEXT);
    return properties(out, sim_array_find(array, false));
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *out, CUmipmappedArray array)
{
    SIM_CALL(SIM_CONTEXT);
    return properties(out, sim_array_find(array, true));
}

static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, const struct sim_array *array,
                             CUdevice device)
{
    if (!array)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !sim_valid_device(device) || !(array->desc.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
        return CUDA_ERROR_INVALID_VALUE;
    memset(out, 0, sizeof *out);
    out->size = sim_round(array->bytes, SIM_TILE);
    out->alignment = SIM_TILE;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray array, CUdevice device)
{
    SIM_CALL(SIM_CONTEXT);
    return requirements(out, sim_array_find(array, false), device);
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUmipmappedArray array,
                                               CUdevice device)
{
    SIM_CALL(SIM_CONTEXT);
    return requirements(out, sim_array_find(array, true), device);
}

/* ---- regions ---- */

/* From OFFSET as far as EXTENT: whole tiles, or up to the level's edge. */
static bool tiled(uint64_t offset, uint64_t extent, unsigned tile, uint64_t edge)
{
    return extent && offset % tile == 0 && offset + extent <= edge &&
           (extent % tile == 0 || offset + extent == edge);
}

static uint64_t tiles(uint64_t extent, unsigned tile)
{
    return (extent + tile - 1) / tile;
}

static uint64_t level_region_bytes(const struct sim_array *array, const CUarrayMapInfo *info)
{
    const struct tile tile = tile_of(&array->desc);
    CUDA_ARRAY3D_DESCRIPTOR level = sim_level_of(&array->desc, info->subresource.sparseLevel.level);
    uint64_t depth = tile.depth == 1 ? 1 : level.Depth;
    if (info->subresource.sparseLevel.level >= (array->levels ? array->levels : 1) ||
        info->subresource.sparseLevel.layer >= layers_of(&array->desc) || !whole_tile(&level, &tile) ||
        !tiled(info->subresource.sparseLevel.offsetX, info->subresource.sparseLevel.extentWidth, tile.width,
               level.Width) ||
        !tiled(info->subresource.sparseLevel.offsetY, info->subresource.sparseLevel.extentHeight, tile.height,
               level.Height) ||
        !tiled(info->subresource.sparseLevel.offsetZ, info->subresource.sparseLevel.extentDepth, tile.depth,
               depth))
        return 0;
    return tiles(info->subresource.sparseLevel.extentWidth, tile.width) *
           tiles(info->subresource.sparseLevel.extentHeight, tile.height) *
           tiles(info->subresource.sparseLevel.extentDepth, tile.depth) * SIM_TILE;
}

static uint64_t tail_region_bytes(const struct sim_array *array, const CUarrayMapInfo *info)
{
    uint64_t size;
    if (!array->levels || tail_of(array, &size) == array->levels ||
        info->subresource.miptail.layer >= layers_of(&array->desc) ||
        info->subresource.miptail.offset % SIM_TILE || info->subresource.miptail.size % SIM_TILE ||
        info->subresource.miptail.offset + info->subresource.miptail.size > size)
        return 0;
    return info->subresource.miptail.size;
}

/* 0: no region of ARRAY that can be bound. */
static uint64_t region_bytes(const struct sim_array *array, const CUarrayMapInfo *info)
{
    if (!(array->desc.Flags & CUDA_ARRAY3D_SPARSE))
        return array->desc.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING ? sim_round(array->bytes, SIM_TILE) : 0;
    return info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL
               ? tail_region_bytes(array, info)
               : level_region_bytes(array, info);
}

static void place_of(const struct sim_array *array, const CUarrayMapInfo *info, uint64_t place[7])
{
    memset(place, 0, 7 * sizeof *place);
    if (!(array->desc.Flags & CUDA_ARRAY3D_SPARSE))
        return;
    if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
        place[0] = info->subresource.miptail.layer;
        place[1] = info->subresource.miptail.offset;
        place[2] = info->subresource.miptail.size;
        return;
    }
    place[0] = (uint64_t)info->subresource.sparseLevel.level << 32 | info->subresource.sparseLevel.layer;
    place[1] = info->subresource.sparseLevel.offsetX;
    place[2] = info->subresource.sparseLevel.offsetY;
    place[3] = info->subresource.sparseLevel.offsetZ;
    place[4] = info->subresource.sparseLevel.extentWidth;
    place[5] = info->subresource.sparseLevel.extentHeight;
    place[6] = info->subresource.sparseLevel.extentDepth;
}

/* ---- binding ---- */

static void drop(struct sim_binding **link)
{
    struct sim_binding *binding = *link;
    *link = binding->next;
    binding->phys->mappings--;
    sim_phys_unref(binding->phys);
    free(binding);
}

void sim_array_unbind_all(struct sim_array *array)
{
    while (array->bindings)
        drop(&array->bindings);
}

static struct sim_binding **binding_at(struct sim_array *array, CUarraySparseSubresourceType type,
                                       const uint64_t place[7])
{
    struct sim_binding **link = &array->bindings;
    while (*link && ((*link)->type != type || memcmp((*link)->place, place, sizeof(*link)->place) != 0))
        link = &(*link)->next;
    return link;
}

static bool apart(const uint64_t *a, const uint64_t *b, int axis)
{
    return a[1 + axis] + a[4 + axis] <= b[1 + axis] || b[1 + axis] + b[4 + axis] <= a[1 + axis];
}

/* Regions that share tiles and are not the same: the driver knows tiles, this one regions. */
static bool overlap(const struct sim_binding *b, CUarraySparseSubresourceType type, const uint64_t place[7])
{
    if (b->type != type || b->place[0] != place[0] || memcmp(b->place, place, sizeof b->place) == 0)
        return false;
    if (type == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
        return b->place[1] < place[1] + place[2] && place[1] < b->place[1] + b->place[2];
    return !apart(b->place, place, 0) && !apart(b->place, place, 1) && !apart(b->place, place, 2);
}

static bool overlaps_another(const struct sim_array *array, const CUarrayMapInfo *info)
{
    uint64_t place[7];
    place_of(array, info, place);
    for (const struct sim_binding *b = array->bindings; b; b = b->next)
        if (overlap(b, info->subresourceType, place))
            return true;
    return false;
}

static struct sim_array *target(const CUarrayMapInfo *info)
{
    struct sim_array *array =
        info->resourceType == CU_RESOURCE_TYPE_ARRAY             ? sim_array_find(info->resource.array, false)
        : info->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY ? sim_array_find(info->resource.mipmap, true)
                                                                 : NULL;
    return array && !array->parent ? array : NULL;
}

static CUresult check(const CUarrayMapInfo *info)
{
    const struct sim_array *array = target(info);
    uint64_t bytes = array ? region_bytes(array, info) : 0;
    if (!bytes || info->flags || info->reserved[0] || info->reserved[1] ||
        info->memHandleType != CU_MEM_HANDLE_TYPE_GENERIC || info->deviceBitMask != 1u << array->device)
        return CUDA_ERROR_INVALID_VALUE;
    if (overlaps_another(array, info))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (info->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP)
        return CUDA_SUCCESS;
    const struct sim_phys *phys = sim_phys_find(info->memHandle.memHandle);
    return info->memOperationType == CU_MEM_OPERATION_TYPE_MAP && phys && phys->device == array->device &&
                   (phys->prop.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL) &&
                   info->offset % SIM_TILE == 0 && info->offset <= phys->size &&
                   bytes <= phys->size - info->offset
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult apply(const CUarrayMapInfo *info)
{
    struct sim_array *array = target(info);
    uint64_t place[7];
    place_of(array, info, place);
    struct sim_binding **link = binding_at(array, info->subresourceType, place), *binding = NULL;
    if (info->memOperationType == CU_MEM_OPERATION_TYPE_MAP) {
        binding = calloc(1, sizeof *binding);
        if (!binding)
            return CUDA_ERROR_OUT_OF_MEMORY;
        binding->type = info->subresourceType;
        memcpy(binding->place, place, sizeof place);
        binding->phys = sim_phys_find(info->memHandle.memHandle);
        binding->phys->mappings++;
    }
    if (*link)
        drop(link);
    if (binding) {
        binding->next = array->bindings;
        array->bindings = binding;
    }
    return CUDA_SUCCESS;
}

/* All of the list or nothing. */
static CUresult map_list(const CUarrayMapInfo *list, unsigned count, CUstream stream)
{
    CUresult result = sim_valid_stream(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && (!list || !count))
        result = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = check(&list[i]);
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = apply(&list[i]);
    return result;
}

SIM_SAME(cuMemMapArrayAsync, cuMemMapArrayAsync_ptsz, SIM_CONTEXT,
         (CUarrayMapInfo * list, unsigned int count, CUstream stream), map_list(list, count, stream))
