/* backing_count.c - a backing of counters (backing.h). */
#include "backing.h"

#define FIRST_ADDRESS 0x700000000000ull

static int reserve(void *context, uint64_t size, uint64_t *address)
{
    struct vs_backing_count *c = context;
    *address = FIRST_ADDRESS + c->next_address;
    c->next_address += size;
    return VS_BACKING_OK;
}

static void unreserve(void *context, uint64_t address, uint64_t size) {}

/* A handle's number has how many chunks it is of in its lowest byte. */
static int create(void *context, uint64_t size, uint64_t *handle)
{
    struct vs_backing_count *c = context;
    uint64_t chunks = size / c->chunk;
    c->calls++;
    if (c->capacity && c->chunks + chunks > c->capacity)
        return VS_BACKING_OUT_OF_MEMORY;
    c->chunks += chunks;
    *handle = ++c->next_handle << 8 | chunks;
    return VS_BACKING_OK;
}

static int release(void *context, uint64_t handle)
{
    struct vs_backing_count *c = context;
    c->calls++;
    c->chunks -= handle & 0xff;
    return VS_BACKING_OK;
}

static int room(void *context, uint64_t *bytes)
{
    const struct vs_backing_count *c = context;
    *bytes = c->capacity ? (c->capacity - c->chunks) * c->chunk : UINT64_MAX;
    return VS_BACKING_OK;
}

static int map(void *context, uint64_t address, uint64_t size, uint64_t handle)
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

/* ---- order: an event is the time at which it is reached ---- */

static int event(void *context, uint64_t stream, uint64_t *out)
{
    struct vs_backing_count *c = context;
    c->events++;
    *out = c->now + c->lag;
    return VS_BACKING_OK;
}

static int reached(void *context, uint64_t at)
{
    struct vs_backing_count *c = context;
    c->looks++;
    return c->now >= at ? VS_BACKING_OK : VS_BACKING_NOT_READY;
}

static int stream_wait(void *context, uint64_t stream, uint64_t at)
{
    struct vs_backing_count *c = context;
    c->stream_waits++;
    return VS_BACKING_OK;
}

static void forget(void *context, uint64_t at) {}

static int synchronize(void *context)
{
    return VS_BACKING_OK;
}

static int await(void *context, uint64_t at)
{
    return VS_BACKING_OK;
}

struct vs_backing vs_backing_of_counters(struct vs_backing_count *c, uint64_t chunk)
{
    c->chunk = chunk;
    return (struct vs_backing){.context = c,
                               .chunk = chunk,
                               .reserve = reserve,
                               .unreserve = unreserve,
                               .create = create,
                               .release = release,
                               .map = map,
                               .access = set_access,
                               .unmap = unmap,
                               .event = event,
                               .reached = reached,
                               .stream_wait = stream_wait,
                               .forget = forget,
                               .synchronize = synchronize,
                               .await = await,
                               .room = room};
}
