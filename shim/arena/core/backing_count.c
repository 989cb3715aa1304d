/* backing_count.c - see backing_count.h. */
#include "backing_count.h"

#define FIRST_ADDRESS 0x700000000000ull

static int reserve(void *context, uint64_t size, uint64_t *address)
{
    struct vs_backing_count *c = context;
    *address = FIRST_ADDRESS + c->next_address;
    c->next_address += size;
    return VS_BACKING_OK;
}

static void unreserve(void *context, uint64_t address, uint64_t size) {}

static int create(void *context, uint64_t *handle)
{
    struct vs_backing_count *c = context;
    c->calls++;
    if (c->capacity && c->granules == c->capacity)
        return VS_BACKING_OUT_OF_MEMORY;
    c->granules++;
    *handle = ++c->next_handle;
    return VS_BACKING_OK;
}

static int release(void *context, uint64_t handle)
{
    struct vs_backing_count *c = context;
    c->calls++;
    c->granules--;
    return VS_BACKING_OK;
}

static int room(void *context, uint64_t *bytes)
{
    const struct vs_backing_count *c = context;
    *bytes = c->capacity ? (c->capacity - c->granules) * c->granule : UINT64_MAX;
    return VS_BACKING_OK;
}

static int map(void *context, uint64_t address, uint64_t handle)
{
    struct vs_backing_count *c = context;
    c->calls++;
    c->maps++;
    return VS_BACKING_OK;
}

static int set_access(void *context, uint64_t address, uint64_t size, uint64_t peers)
{
    struct vs_backing_count *c = context;
    c->calls++;
    c->accesses++;
    return VS_BACKING_OK;
}

static int unmap(void *context, uint64_t address, uint64_t size)
{
    struct vs_backing_count *c = context;
    c->calls++;
    return VS_BACKING_OK;
}

/* ---- order: a mark is the time at which it is reached ---- */

static int mark(void *context, uint64_t stream, uint64_t *out)
{
    struct vs_backing_count *c = context;
    c->marks++;
    *out = c->now + c->lag;
    return VS_BACKING_OK;
}

static int reached(void *context, uint64_t at)
{
    struct vs_backing_count *c = context;
    c->looks++;
    return c->now >= at ? VS_BACKING_OK : VS_BACKING_NOT_READY;
}

static int follow(void *context, uint64_t stream, uint64_t at)
{
    struct vs_backing_count *c = context;
    c->follows++;
    return VS_BACKING_OK;
}

static void forget(void *context, uint64_t at) {}

static int settle(void *context)
{
    return VS_BACKING_OK;
}

static int await(void *context, uint64_t at)
{
    return VS_BACKING_OK;
}

struct vs_backing vs_backing_of_counters(struct vs_backing_count *c, uint64_t granule)
{
    c->granule = granule;
    return (struct vs_backing){.context = c,
                               .granule = granule,
                               .reserve = reserve,
                               .unreserve = unreserve,
                               .create = create,
                               .release = release,
                               .map = map,
                               .access = set_access,
                               .unmap = unmap,
                               .mark = mark,
                               .reached = reached,
                               .follow = follow,
                               .forget = forget,
                               .settle = settle,
                               .await = await,
                               .room = room};
}
