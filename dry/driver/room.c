/*
 * room.c - the addresses of device memory.  Outside dry mode mmap chooses them.
 *
 * In dry mode they come from one region of the address space, the same in each run where it is free:
 * PyTorch's allocator takes the lower of two equal blocks, so other addresses would be other peaks.  They are
 * given as an H200's driver (580.159, 2026-11-29) gave them, in rooms: see place().
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGION     (64ull << 40)
#define WISHED     (17ull << 40) /* Linux maps nothing by itself in REGION bytes from here (48-bit addresses) */
#define ROOM       (32ull << 20)
#define PRIVATE    (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
#define ACCESSIBLE (PROT_READ | PROT_WRITE)

static uint64_t bottom, top; /* of the region; 0: not made yet */

struct room {
    struct sim_range range;
    uint64_t free;
    bool whole; /* nothing else may lie in it */
};
static struct sim_map rooms, pieces; /* by address; pieces: what is taken */

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
        top = ((uint64_t)all + size) / ROOM * ROOM;
        advise(bottom, top - bottom);
    }
    if (!top)
        dprintf(STDERR_FILENO,
                "simcuda: there is not 1 TiB of address space (ulimit -v, vm.overcommit_memory): "
                "the device has no memory\n");
    return top != 0;
}

static struct room *next_room(const struct room *after)
{
    return (struct room *)sim_map_from(&rooms, after ? after->range.start + 1 : 0);
}

static struct room *add_room(uint64_t start, uint64_t size, bool whole)
{
    struct room *room = calloc(1, sizeof *room);
    if (!room)
        return NULL;
    *room = (struct room){{.start = start, .size = size}, size, whole};
    sim_map_insert(&rooms, &room->range);
    return room;
}

static void drop_room(struct room *room)
{
    sim_map_remove(&rooms, &room->range);
    free(room);
}

static uint64_t take(struct room *room, uint64_t address, uint64_t size)
{
    struct sim_range *piece = room ? calloc(1, sizeof *piece) : NULL;
    if (!piece)
        return 0;
    piece->start = address;
    piece->size = size;
    sim_map_insert(&pieces, piece);
    room->free -= size;
    return address;
}

/* What the context has of rooms where allocations lie later. */
static bool begin(void)
{
    if (!make_region())
        return false;
    uint64_t high = top - ROOM, low = top - 2 * ROOM;
    return take(add_room(high, ROOM, false), high, 8 << 20) &&
           take(add_room(low, ROOM, false), low, 30 << 20);
}

/* The lowest hole of SIZE bytes in ROOM; 0: it has none. */
static uint64_t hole_in(const struct room *room, uint64_t size, uint64_t alignment)
{
    uint64_t start = room->range.start, end = start + room->range.size, address = sim_round(start, alignment);
    for (const struct sim_range *p = sim_map_from(&pieces, start); p && p->start < end;
         p = sim_map_from(&pieces, p->start + p->size)) {
        if (address + size <= p->start)
            return address;
        address = sim_round(p->start + p->size, alignment);
    }
    return address + size <= end ? address : 0;
}

/* In a room that is there, the lowest one. */
static uint64_t place_in_hole(uint64_t size, uint64_t alignment)
{
    for (struct room *room = next_room(NULL); room; room = next_room(room)) {
        uint64_t hole = !room->whole && room->free >= size ? hole_in(room, size, alignment) : 0;
        if (hole)
            return take(room, hole, size);
    }
    return 0;
}

/* Where a new room of SIZE bytes begins. */
static uint64_t highest(uint64_t size, uint64_t alignment)
{
    uint64_t found = 0, start = bottom; /* of a gap */
    for (const struct room *room = NULL;;) {
        room = next_room(room);
        uint64_t end = room ? room->range.start : top;
        uint64_t address = end >= size ? (end - size) / alignment * alignment : 0;
        if (address >= start && end - start >= size + ROOM)
            found = address;
        if (!room)
            return found;
        start = end + room->range.size;
    }
}

static bool is_free(uint64_t address, uint64_t size)
{
    return address >= bottom && address + size <= top && address % ROOM == 0 &&
           !sim_map_overlaps(&rooms, address, size);
}

/* An allocation goes to the lowest hole of all rooms that is large enough.  Where there is none a room is
 * made, of 32 MiB or the multiple that the allocation needs, at the end of the highest gap between rooms that
 * has room for it and 32 MiB more.  A room in which nothing is left goes back.  WHOLE: addresses that a
 * program reserves have a room to themselves. At the begin there are two rooms with a hole each, of 24 and of
 * 2 MiB. */
static uint64_t place(uint64_t size, uint64_t alignment, uint64_t hint, bool whole)
{
    uint64_t room = sim_round(size, ROOM), piece = sim_round(size, SIM_GRANULARITY);
    if (room < size || (!top && !begin()))
        return 0;
    uint64_t address = whole ? 0 : place_in_hole(piece, alignment);
    if (address)
        return address;
    address = is_free(hint, room) ? hint : highest(room, alignment > ROOM ? alignment : ROOM);
    return address ? take(add_room(address, room, whole), address, piece) : 0;
}

static void give(uint64_t address, uint64_t size)
{
    struct sim_range *piece = sim_map_at(&pieces, address);
    struct room *room = (struct room *)sim_map_at(&rooms, address);
    madvise((void *)address, size, MADV_DONTNEED);
    room->free += piece->size;
    if (room->free == room->range.size)
        drop_room(room);
    sim_map_remove(&pieces, piece);
    free(piece);
}

uint64_t sim_room_take(uint64_t size, uint64_t alignment, uint64_t hint, int protection)
{
    if (sim_dry())
        return place(size, alignment > SIM_GRANULARITY ? alignment : SIM_GRANULARITY, hint,
                     protection == PROT_NONE);
    if (hint && hint % SIM_GRANULARITY == 0 &&
        mmap((void *)hint, size, protection, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0) == (void *)hint)
        return hint;
    return sim_map_pages(size, alignment > SIM_GRANULARITY ? alignment : SIM_GRANULARITY, protection,
                         MAP_PRIVATE);
}

void sim_room_give(uint64_t address, uint64_t size)
{
    if (sim_dry())
        give(address, size);
    else
        munmap((void *)address, size);
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
