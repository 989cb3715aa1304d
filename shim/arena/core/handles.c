/*
 * handles.c - the physical memory of chunks: a handle of each, or one of a group of neighbours.
 *
 *      |--- A ---|--- A ---|--- A ---|-- B --|-- C --|      the handles of five chunks, three of them a group
 *
 * A call of the driver costs as much for a few chunks as for one.  So neighbours that belong to one block get
 * a handle together where they come back from being away.  The driver maps, unmaps and releases a handle as a
 * whole, so a group is mapped where its chunks have their primary mappings, and in no alias mapping.  Where
 * one of its chunks is wanted alone the group is split, once all of it is idle (split.c).
 *
 * Each chunk of a group bears its handle.  A chunk that is away, or absent, has none.
 */
#include "internal.h"

struct run vs_group(const struct vs_arena *a, uint32_t chunk)
{
    uint32_t first = chunk, end = chunk + 1;
    while (shares_handle(a, first))
        first--;
    while (shares_handle(a, end))
        end++;
    return (struct run){first, end - first};
}

bool vs_group_idle(const struct vs_arena *a, struct run group)
{
    for (uint32_t g = group.first; g < group.first + group.count; g++)
        if (a->used[g])
            return false;
    return true;
}

static void set_handle(struct vs_arena *a, struct run group, uint64_t handle)
{
    for (uint32_t g = group.first; g < group.first + group.count; g++)
        a->handle[g] = handle;
}

/* The group has HANDLE from now on. */
void vs_handle_enter(struct vs_arena *a, struct run group, uint64_t handle)
{
    set_handle(a, group, handle);
    a->grouped += group.count > 1 ? group.count : 0;
}

/* What was the group's handle; its chunks have none from now on. */
uint64_t vs_handle_leave(struct vs_arena *a, struct run group)
{
    uint64_t handle = a->handle[group.first];
    set_handle(a, group, 0);
    a->grouped -= group.count > 1 ? group.count : 0;
    return handle;
}

int vs_handle_create(struct vs_arena *a, struct run group)
{
    uint64_t handle = 0;
    int status = a->backing.create(a->backing.context, place_of(a, group.count), &handle);
    if (status == 0)
        vs_handle_enter(a, group, handle);
    return status;
}

uint64_t vs_handles_release(struct vs_arena *a, struct run chunks)
{
    uint64_t lost = 0;
    for (uint32_t g = chunks.first; g < chunks.first + chunks.count;) {
        struct run group = vs_group(a, g);
        if (a->backing.release(a->backing.context, vs_handle_leave(a, group)) != 0)
            lost += group.count;
        g = group.first + group.count;
    }
    a->stats.lost += lost;
    return chunks.count - lost;
}

int vs_handles_map(struct vs_arena *a, uint64_t place, struct run chunks, uint64_t *done)
{
    int status = 0;
    for (uint32_t g = chunks.first, end = g + chunks.count, n; g < end && status == 0; g += n) {
        n = vs_group(a, g).count;
        status =
            a->backing.map(a->backing.context, address_of(a, place) + *done, place_of(a, n), a->handle[g]);
        *done += status == 0 ? place_of(a, n) : 0;
    }
    return status;
}

int vs_handles_mapped(struct vs_arena *a, uint64_t place, int status, uint64_t *done)
{
    uint64_t address = address_of(a, place);
    if (status == 0)
        status = a->backing.access(a->backing.context, address, *done, a->peers);
    if (status != 0 && (!*done || a->backing.unmap(a->backing.context, address, *done) == 0))
        *done = 0;
    return status;
}
