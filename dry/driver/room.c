/*
 * room.c - the addresses of device memory.
 *
 * Outside dry mode the kernel gives them, and each allocation is a mapping of its own.
 *
 * In dry mode they come from one region of the address space, always the same where it is free, because
 * PyTorch's allocator takes the lower one of two equal blocks: other addresses would be other peaks.  As a
 * real driver does, the highest room that is free is taken, and each allocation begins at a multiple of
 * 32 MiB.  The region is private memory that is not reserved: what is never touched takes nothing, and what
 * is given back takes nothing any more.
 */
#include "dry.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGION     (64ull << 40)
#define WISHED     (17ull << 40) /* above it lies nothing that Linux on x86-64 or aarch64 maps by itself */
#define ROOM       (32ull << 20)
#define PRIVATE    (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
#define ACCESSIBLE (PROT_READ | PROT_WRITE)

static uint64_t bottom, top; /* of the region; 0: not made yet */
static uint64_t lowest;      /* nothing below it is taken */
static uint64_t
    held; /* by all that is taken; there are holes where it is less than what lies above `lowest` */
static struct sim_map taken; /* by the distance of their ends from the top, so that the highest comes first */

static void advise(uint64_t address, uint64_t size)
{
    madvise((void *)address, size, MADV_NOHUGEPAGE);
    madvise((void *)address, size, MADV_DONTDUMP);
}

/* As large as the machine allows. */
static bool make_region(void)
{
    for (uint64_t size = REGION; !top && size >= 1ull << 40; size /= 2) {
        void *all = mmap((void *)WISHED, size, ACCESSIBLE, PRIVATE, -1, 0);
        if (all == MAP_FAILED)
            continue;
        bottom = sim_round((uint64_t)all, ROOM);
        lowest = top = ((uint64_t)all + size) / ROOM * ROOM;
        advise(bottom, top - bottom);
    }
    if (!top)
        dprintf(STDERR_FILENO,
                "simcuda: there is not 1 TiB of address space (ulimit -v, vm.overcommit_memory): "
                "the device has no memory\n");
    return top != 0;
}

static uint64_t record(uint64_t address, uint64_t size)
{
    struct sim_range *range = calloc(1, sizeof *range);
    if (!range)
        return 0;
    range->start = top - address - size;
    range->size = size;
    sim_map_insert(&taken, range);
    held += size;
    lowest = address < lowest ? address : lowest;
    return address;
}

/* The highest multiple of ALIGNMENT that SIZE free bytes follow. */
static uint64_t highest(uint64_t size, uint64_t alignment)
{
    bool dense = held == top - lowest;   /* no holes: nothing to look through */
    uint64_t end = dense ? lowest : top; /* of the hole */
    for (const struct sim_range *r = NULL;;) {
        r = dense ? NULL : sim_map_from(&taken, r ? r->start + 1 : 0);
        uint64_t floor = r ? top - r->start : bottom;
        uint64_t address = end >= size ? (end - size) / alignment * alignment : 0;
        if (address >= floor)
            return address;
        if (!r)
            return 0;
        end = floor - r->size;
    }
}

static bool is_free(uint64_t address, uint64_t size)
{
    return address >= bottom && address + size <= top && address % ROOM == 0 &&
           !sim_map_overlaps(&taken, top - address - size, size);
}

static uint64_t place(uint64_t size, uint64_t alignment, uint64_t hint)
{
    uint64_t room = sim_round(size, ROOM);
    if (room < size || (!top && !make_region()))
        return 0;
    uint64_t address = is_free(hint, room) ? hint : highest(room, alignment > ROOM ? alignment : ROOM);
    return address ? record(address, room) : 0;
}

uint64_t sim_room_take(uint64_t size, uint64_t alignment, uint64_t hint, int protection)
{
    if (sim_dry())
        return place(size, alignment, hint);
    if (hint && hint % SIM_GRANULARITY == 0 &&
        mmap((void *)hint, size, protection, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0) == (void *)hint)
        return hint;
    return sim_map_pages(size, alignment > SIM_GRANULARITY ? alignment : SIM_GRANULARITY, protection,
                         MAP_PRIVATE);
}

void sim_room_give(uint64_t address, uint64_t size)
{
    if (!sim_dry()) {
        munmap((void *)address, size);
        return;
    }
    struct sim_range *range = sim_map_at(&taken, top - address - sim_round(size, ROOM));
    madvise((void *)address, size, MADV_DONTNEED);
    if (address == lowest && held == top - lowest)
        lowest += range->size;
    held -= range->size;
    sim_map_remove(&taken, range);
    free(range);
}

void sim_room_protect(uint64_t address, uint64_t size)
{
    if (sim_dry())
        madvise((void *)address, size, MADV_DONTNEED);
    else
        mmap((void *)address, size, PROT_NONE, PRIVATE | MAP_FIXED, -1, 0);
}

void sim_room_private(uint64_t address, uint64_t size)
{
    if (!sim_dry())
        return;
    mmap((void *)address, size, ACCESSIBLE, PRIVATE | MAP_FIXED, -1, 0);
    advise(address, size);
}
