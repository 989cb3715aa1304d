/*
 * graph_memory.c - the memory of graphs: addresses fixed when a node is made, bytes taken at a launch, in
 * units of 2 MiB.
 *
 * Each device has one pool for all graphs, as large as what is alive plus the most that one graph holds at
 * once; it shrinks only by cuDeviceGraphMemTrim.  "Used" is what is alive and, of the executable graphs
 * that were launched since the last trim, the most by which the peak of one exceeds what of it is alive.
 */
#define _GNU_SOURCE /* MAP_NORESERVE */
#include "graph.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct {
    uint64_t alive, reserved, reserved_high, used_high;
} pools[SIM_MAX_DEVICES];
static struct sim_map memories;

struct sim_graph_memory *sim_graph_memory_find(uint64_t address)
{
    return (struct sim_graph_memory *)sim_map_at(&memories, address);
}

uint64_t sim_graph_memory_bytes(const struct sim_graph_memory *memory)
{
    return sim_round(memory->range.size, SIM_GRANULARITY);
}

/* Without a reference yet. */
struct sim_graph_memory *sim_graph_memory_new(int device, uint64_t size)
{
    uint64_t pages = sim_round(size, SIM_GRANULARITY);
    struct sim_graph_memory *memory = calloc(1, sizeof *memory);
    uint64_t address = memory && pages >= size ? sim_room_take(pages, SIM_GRANULARITY, 0, PROT_NONE) : 0;
    if (!address) {
        free(memory);
        return NULL;
    }
    memory->range.start = address;
    memory->range.size = size;
    memory->device = device;
    sim_map_insert(&memories, &memory->range);
    return memory;
}

void sim_graph_memory_unref(struct sim_graph_memory *memory)
{
    if (--memory->references)
        return;
    sim_room_give(memory->range.start, sim_graph_memory_bytes(memory));
    sim_map_remove(&memories, &memory->range);
    free(memory);
}

static uint64_t used(int device)
{
    return pools[device].alive + sim_graph_execs_mapped(device);
}

void sim_graph_memory_mark(int device)
{
    if (used(device) > pools[device].used_high)
        pools[device].used_high = used(device);
    if (pools[device].reserved > pools[device].reserved_high)
        pools[device].reserved_high = pools[device].reserved;
}

bool sim_graph_memory_reserve(int device, uint64_t bytes)
{
    uint64_t wanted = pools[device].alive + bytes;
    if (wanted <= pools[device].reserved)
        return true;
    if (!sim_charge(device, wanted - pools[device].reserved))
        return false;
    pools[device].reserved = wanted;
    return true;
}

bool sim_graph_memory_begin(struct sim_graph_memory *memory)
{
    uint64_t bytes = sim_graph_memory_bytes(memory);
    memory->block = sim_block_add(memory->range.start, memory->range.size, SIM_GRAPH, memory->device);
    if (!memory->block)
        return false;
    if (!sim_dry() && mprotect((void *)memory->range.start, bytes, PROT_READ | PROT_WRITE) != 0) {
        sim_block_drop(memory->block);
        memory->block = NULL;
        return false;
    }
    memory->block->detail = memory;
    memory->references++;
    pools[memory->device].alive += bytes;
    return true;
}

/* Its bytes go back to the pool; what was in them is gone. */
CUresult sim_graph_memory_free(struct sim_block *block)
{
    struct sim_graph_memory *memory = block->detail;
    uint64_t bytes = sim_graph_memory_bytes(memory);
    sim_room_protect(memory->range.start, bytes);
    pools[memory->device].alive -= bytes;
    memory->block = NULL;
    sim_block_drop(block);
    sim_graph_memory_unref(memory);
    return CUDA_SUCCESS;
}

/* ---- asking ---- */

static void trim(int device)
{
    sim_graph_execs_unmap(device);
    sim_uncharge(device, pools[device].reserved - pools[device].alive);
    pools[device].reserved = pools[device].alive;
}

void sim_graph_memory_end(int device)
{
    uint64_t at = 0;
    for (struct sim_range *range; (range = sim_map_from(&sim_blocks, at));) {
        at = range->start + range->size;
        struct sim_block *block = (struct sim_block *)range;
        if (block->kind == SIM_GRAPH && block->device == device)
            sim_graph_memory_free(block);
    }
    trim(device);
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    trim(device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value || (unsigned)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t answer = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT       ? used(device)
                      : attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH        ? pools[device].used_high
                      : attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT ? pools[device].reserved
                                                                            : pools[device].reserved_high;
    memcpy(value, &answer, sizeof answer);
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    SIM_CALL(SIM_INITIALIZED);
    uint64_t wanted = 1;
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (value)
        memcpy(&wanted, value, sizeof wanted);
    if (wanted != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        pools[device].used_high = used(device);
    else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        pools[device].reserved_high = pools[device].reserved;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
