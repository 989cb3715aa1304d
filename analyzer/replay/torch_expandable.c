/*
 * torch_expandable.c - expandable segments: addresses are reserved at once, memory is mapped as it is needed,
 * by whole granules, and unmapped only where it is given back.
 *
 *      |blocks, free and allocated|  unmapped ...                              |
 *                           free  |->  a request grows the last free block, or begins at the unmapped one
 */
#include "torch_internal.h"

static uint64_t granule(const struct torch *t, bool small)
{
    return small ? SMALL_SEGMENT : t->settings.large_segment;
}

/* Whether a row of free and unmapped blocks from BLOCK on has SIZE bytes. */
static bool has_addresses(struct torch *t, uint32_t block, uint64_t size)
{
    uint64_t bytes = 0;
    for (; block && bytes < size && allocatable(at(t, block)); block = at(t, block)->next)
        bytes += at(t, block)->size;
    return bytes >= size;
}

/* As many addresses as nine eighths of the device's memory, or the fewer of expandable_segments_reserve, and
 * LEAST or more, in whole granules. */
static uint32_t reserve(struct torch *t, uint64_t least, uint16_t stream, bool small)
{
    uint64_t memory = t->settings.memory                   ? t->settings.memory
                      : t->settings.capacity == UINT64_MAX ? UINT64_C(1) << 42
                                                           : t->settings.capacity;
    uint64_t unit = granule(t, small), bytes = memory / 8 * 9, address = 0;
    if (t->settings.reserve && t->settings.reserve < bytes)
        bytes = t->settings.reserve;
    uint64_t size = ((bytes > least ? bytes : least) + unit - 1) / unit * unit;
    t->driver.ask(t->driver.context, TORCH_RESERVE, &address, size); /* addresses there are enough of */
    uint32_t block = torch_first_block(
        t, &(struct torch_block){
               .address = address, .size = size, .stream = stream, .small = small, .expandable = true});
    torch_insert_free(t, block);
    return block;
}

/* The first place of the stream, by address, where SIZE bytes are free or can be mapped. */
static uint32_t find_place(struct torch *t, uint64_t size, uint16_t stream, bool small)
{
    const struct ordered *o = &t->pools[small].unmapped;
    struct ordered_place p = ordered_from(o, (struct ordered_key){stream, 0});
    for (; !ordered_ends(o, p) && ordered_key(o, p).first == stream; p = ordered_next(o, p)) {
        uint32_t block = ordered_value(o, p), before = at(t, block)->prev;
        if (before && allocatable(at(t, before)))
            block = before;
        if (has_addresses(t, block, size))
            return block;
    }
    return reserve(t, size, stream, small);
}

/* Maps the granules that SIZE bytes from the start of an unmapped block need; it becomes a free block, with
 * its free neighbours.  False: no memory. */
static bool map(struct torch *t, uint32_t block, uint64_t size)
{
    uint64_t unit = granule(t, at(t, block)->small), bytes = (size + unit - 1) / unit * unit;
    uint64_t address = at(t, block)->address;
    bytes = bytes < at(t, block)->size ? bytes : at(t, block)->size;
    if (bytes > t->settings.capacity || t->reserved > t->settings.capacity - bytes)
        return false;
    if (!t->driver.ask(t->driver.context, TORCH_MAP, &address, bytes))
        return false;
    t->reserved += bytes;
    ordered_remove(&pool_of(t, at(t, block))->unmapped, unmapped_key(at(t, block)), block);
    at(t, block)->mapped = true;
    if (bytes < at(t, block)->size) {
        struct torch_block rest = *at(t, block);
        rest.mapped = false;
        rest.address += bytes;
        rest.size -= bytes;
        uint32_t after = torch_new_block(t, &rest);
        torch_splice(t, after, block, rest.next);
        torch_insert_free(t, after);
        at(t, block)->size = bytes;
    }
    torch_merge(t, block, at(t, block)->prev);
    torch_merge(t, block, at(t, block)->next);
    torch_insert_free(t, block);
    return true;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint32_t torch_grow(struct torch *t, uint64_t size, uint16_t stream, bool small)
{
    uint32_t block = find_place(t, size, stream, small);
    if (!at(t, block)->mapped && !map(t, block, least(at(t, block)->size, size)))
        return 0;
    while (at(t, block)->size < size) { /* behind it lies an unmapped one, which takes it in */
        uint32_t next = at(t, block)->next;
        if (!next || at(t, next)->mapped)
            return 0;
        if (!map(t, next, least(size - at(t, block)->size, at(t, next)->size)))
            return 0;
        block = next;
    }
    ordered_remove(&t->pools[small].free, free_key(t, at(t, block)), block);
    return block;
}

/* A part of BLOCK, whose granules are only in part free, stays. */
static void keep_part(struct torch *t, uint32_t block, uint64_t address, uint64_t size, bool before)
{
    struct torch_block part = *at(t, block);
    part.address = address;
    part.size = size;
    uint32_t kept = torch_new_block(t, &part);
    if (before)
        torch_splice(t, kept, part.prev, block);
    else
        torch_splice(t, kept, block, part.next);
    torch_insert_free(t, kept);
}

void torch_unmap(struct torch *t, uint32_t block)
{
    struct torch_block b = *at(t, block);
    uint64_t unit = granule(t, b.small), end = b.address + b.size;
    uint64_t first = b.base + (b.address - b.base + unit - 1) / unit * unit,
             last = b.base + (end - b.base) / unit * unit;
    if (first >= last)
        return;
    ordered_remove(&pool_of(t, &b)->free, free_key(t, &b), block);
    if (first > b.address)
        keep_part(t, block, b.address, first - b.address, true);
    if (last < end)
        keep_part(t, block, last, end - last, false);
    at(t, block)->address = first;
    at(t, block)->size = last - first;
    at(t, block)->mapped = false;
    t->driver.give(t->driver.context, TORCH_UNMAP, first, last - first);
    t->reserved -= last - first;
    torch_merge(t, block, at(t, block)->prev);
    torch_merge(t, block, at(t, block)->next);
    torch_insert_free(t, block);
}
