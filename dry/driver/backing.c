/*
 * backing.c - where the bytes of simulated device memory come from, and what they cost: as in the real driver
 * an allocation above 1 MiB has pages of its own, and smaller ones share chunks of 2 MiB, one size class (a
 * power of two from 512 bytes) a chunk.  The host pays only for what is touched.
 */
#include "share.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALLEST  512ull
#define LARGE     (1ull << 20)
#define MAX_SLOTS (SIM_GRANULARITY / SMALLEST)
#define CLASSES   12 /* 512 B ... 1 MiB */

struct chunk {
    struct chunk *next, *previous; /* among the chunks of its class that have a free slot */
    uint64_t address;
    unsigned class, used, slots;
    uint64_t taken[MAX_SLOTS / 64];
};
static struct chunk *with_room[SIM_MAX_DEVICES][CLASSES];

uint64_t sim_round(uint64_t size, uint64_t to)
{
    return (size + to - 1) / to * to;
}

uint64_t sim_map_pages(uint64_t size, uint64_t alignment, int protection, int flags)
{
    uint64_t room = size + alignment;
    if (room < size)
        return 0;
    char *all = mmap(NULL, room, protection, flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return 0;
    uint64_t start = sim_round((uint64_t)all, alignment), before = start - (uint64_t)all;
    if (before)
        munmap(all, before);
    munmap((void *)(start + size), room - before - size);
    return start;
}

static void link_chunk(int device, struct chunk *chunk)
{
    struct chunk **head = &with_room[device][chunk->class];
    chunk->previous = NULL;
    chunk->next = *head;
    if (*head)
        (*head)->previous = chunk;
    *head = chunk;
}

static void unlink_chunk(int device, struct chunk *chunk)
{
    if (chunk->previous)
        chunk->previous->next = chunk->next;
    else
        with_room[device][chunk->class] = chunk->next;
    if (chunk->next)
        chunk->next->previous = chunk->previous;
}

static uint64_t alloc_large(int device, uint64_t size)
{
    uint64_t bytes = sim_round(size, SIM_GRANULARITY);
    if (bytes < size || !sim_charge(device, bytes))
        return 0;
    uint64_t address = sim_room_take(bytes, SIM_GRANULARITY, 0, PROT_READ | PROT_WRITE);
    if (!address)
        sim_uncharge(device, bytes);
    return address;
}

static struct chunk *new_chunk(int device, unsigned class)
{
    struct chunk *chunk = calloc(1, sizeof *chunk);
    uint64_t address = chunk ? alloc_large(device, SIM_GRANULARITY) : 0;
    if (!address) {
        free(chunk);
        return NULL;
    }
    chunk->address = address;
    chunk->class = class;
    chunk->slots = (unsigned)(SIM_GRANULARITY / (SMALLEST << class));
    link_chunk(device, chunk);
    return chunk;
}

static unsigned take_slot(struct chunk *chunk)
{
    for (unsigned word = 0;; word++)
        if (~chunk->taken[word]) {
            unsigned bit = (unsigned)__builtin_ctzll(~chunk->taken[word]);
            chunk->taken[word] |= 1ull << bit;
            return word * 64 + bit;
        }
}

uint64_t sim_backing_alloc(int device, uint64_t size, void **detail)
{
    *detail = NULL;
    if (size > LARGE)
        return alloc_large(device, size);
    unsigned class = 0;
    while (SMALLEST << class < size)
        class ++;
    struct chunk *chunk = with_room[device][class];
    if (!chunk && !(chunk = new_chunk(device, class)))
        return 0;
    unsigned slot = take_slot(chunk);
    if (++chunk->used == chunk->slots)
        unlink_chunk(device, chunk);
    *detail = chunk;
    return chunk->address + slot * (SMALLEST << class);
}

static void free_large(int device, uint64_t address, uint64_t size)
{
    uint64_t bytes = sim_round(size, SIM_GRANULARITY);
    sim_unshare(address);
    sim_room_give(address, bytes);
    sim_uncharge(device, bytes);
}

void sim_backing_free(int device, uint64_t address, uint64_t size, void *detail)
{
    struct chunk *chunk = detail;
    if (!chunk) {
        free_large(device, address, size);
        return;
    }
    uint64_t slot = (address - chunk->address) / (SMALLEST << chunk->class);
    chunk->taken[slot / 64] &= ~(1ull << slot % 64);
    if (chunk->used-- == chunk->slots)
        link_chunk(device, chunk);
    if (!chunk->used) {
        unlink_chunk(device, chunk);
        free_large(device, chunk->address, SIM_GRANULARITY);
        free(chunk);
    }
}

void sim_backing_region(const struct sim_block *block, uint64_t *start, uint64_t *size)
{
    const struct chunk *chunk = block->detail;
    *start = chunk ? chunk->address : block->range.start;
    *size = chunk ? SIM_GRANULARITY : sim_round(block->range.size, SIM_GRANULARITY);
}
