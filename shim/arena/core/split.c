/*
 * split.c - splits groups, so that each of their chunks can be had alone.
 *
 * What stood in the chunks of a group that is idle nobody needs, or the caller of a parked block has it.  So
 * they get other physical memory, a handle each: that is made first, and whatever fails then, the group is as
 * it was.  Where the device has no more, the group is given back before.
 */
#include "internal.h"

static void release_all(struct vs_arena *a, const uint64_t *handles, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (a->backing.release(a->backing.context, handles[i]) != 0)
            a->stats.lost++;
}

static int create_all(struct vs_arena *a, uint64_t *handles, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int status = a->backing.create(a->backing.context, chunk_bytes(a), &handles[i]);
        if (status != 0) {
            release_all(a, handles, i);
            return status;
        }
    }
    return 0;
}

static int map_home(struct vs_arena *a, struct run chunks)
{
    uint64_t place = place_of(a, chunks.first), done = 0;
    int status = vs_handles_map(a, place, chunks, &done);
    status = vs_handles_mapped(a, place, status, &done);
    a->stats.lost += status != 0 ? done >> a->shift : 0;
    return status;
}

static void set_handles(struct vs_arena *a, struct run group, const uint64_t *handles)
{
    for (uint32_t i = 0; i < group.count; i++)
        vs_handle_enter(a, (struct run){group.first + i, 1}, handles[i]);
}

/* Nothing is mapped at the group's place; OLD was. */
static int exchange(struct vs_arena *a, struct run group, uint64_t old, const uint64_t *handles)
{
    set_handles(a, group, handles);
    int status = map_home(a, group);
    if (status == 0)
        return 0;
    for (uint32_t i = 0; i < group.count; i++)
        vs_handle_leave(a, (struct run){group.first + i, 1});
    vs_handle_enter(a, group, old);
    if (map_home(a, group) != 0)
        for (uint32_t i = 0; i < group.count; i++)
            vs_supply_lose_home(a, group.first + i);
    return status;
}

static int replace(struct vs_arena *a, struct run group, const uint64_t *handles)
{
    const struct vs_backing *b = &a->backing;
    uint64_t address = address_of(a, place_of(a, group.first)), size = place_of(a, group.count);
    int status = b->unmap(b->context, address, size);
    if (status != 0)
        return status;
    uint64_t old = vs_handle_leave(a, group);
    status = exchange(a, group, old, handles);
    if (status != 0)
        return status;
    bool released = b->release(b->context, old) == 0;
    *(released ? &a->stats.released : &a->stats.lost) += group.count;
    a->stats.created += group.count;
    a->stats.unmapped += group.count;
    return 0;
}

static int split(struct vs_arena *a, struct run group)
{
    uint64_t handles[GROUP];
    for (uint32_t i = 0; i < group.count; i++)
        if (!vs_chunk_complete(a, group.first + i))
            return NOT_COMPLETE;
    if (vs_extents_reserve(a, a->stats.blocks + 1, a->live_aliases + 1, a->primary_top) != 0)
        return VS_BACKING_OUT_OF_MEMORY;
    int status = create_all(a, handles, group.count);
    if (status == VS_BACKING_OUT_OF_MEMORY && vs_trim_group(a, group))
        return vs_supply_again(a, group);
    if (status != 0)
        return status;
    status = replace(a, group, handles);
    if (status != 0)
        release_all(a, handles, group.count);
    return status;
}

int vs_split(struct vs_arena *a, struct run chunks)
{
    int status = 0;
    for (uint32_t g = chunks.first; a->grouped && g < chunks.first + chunks.count && status == 0;) {
        struct run group = vs_group(a, g);
        status = group.count > 1 ? split(a, group) : 0;
        g = group.first + group.count;
    }
    return status;
}
