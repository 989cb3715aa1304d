/*
 * arena_kit.h - a backing that checks every call, and a reference that is as simple as the rules.
 *
 * The backing keeps what is mapped where, which handles live, and how far each stream is.  The reference
 * knows of each unit of physical memory who owns it and whose work touched it last.  A block that the arena
 * hands out must be mapped and accessible in whole, owned by nobody, and touched by no work that its stream
 * may not know to be done.  What is away or parked the test keeps (away_kit.h, park_kit.h).  Any call can be
 * made to fail.
 */
#ifndef TESTS_UNIT_ARENA_ARENA_KIT_H
#define TESTS_UNIT_ARENA_ARENA_KIT_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena/core/internal.h"

#define KIT_CHUNK   4096ull
#define KIT_UNITS   (KIT_CHUNK / VS_ARENA_UNIT)
#define KIT_PLACES  90000 /* chunks of addresses */
#define KIT_HANDLES 512   /* alive at once */
#define KIT_GROUP   4     /* chunks of a handle at most */
#define KIT_STREAMS 40    /* number 0: the device, what queue ANY is */
#define KIT_EVENTS  4096
#define KIT_BASE    0x10000000000ull
#define KIT_ERROR   719 /* some error that is not a lack of memory */

struct kit_unit {
    uint32_t owner;  /* block + 1 */
    uint64_t users;  /* bits of the streams whose work touched it, as of the last free */
    uint64_t freed;  /* which free that was */
    bool everywhere; /* the device's work, whatever stream */
};

/* Reached, what its stream had waited for before is done as well. */
struct kit_record {
    bool used;
    uint64_t stream, freed;
    uint64_t known[KIT_STREAMS];
};

struct kit {
    struct kit_record event[KIT_EVENTS]; /* at the end of a run none is used */
    struct kit_unit (*kept)[KIT_UNITS];  /* by chunk: what stood in those that are away; outlasts a run */
    uint32_t kept_room;
    struct kit_unit (*copy)[KIT_UNITS]; /* by place: what stood in those that are parked; outlasts a run */
    struct kit_unit (*used)[KIT_UNITS]; /* by place: the last use through this address; outlasts a run */
    struct vs_arena *arena;
    /* physical memory and mappings.  most_places: that can be reserved at once; 0 = any number */
    struct {
        bool alive;
        uint32_t chunks;
        int maps;
        struct kit_unit unit[KIT_GROUP][KIT_UNITS]; /* by chunk */
    } handle[KIT_HANDLES];
    struct {
        uint32_t handle; /* + 1 */
        uint32_t chunk;  /* of the handle's */
        bool access;
        uint64_t peers;
    } place[KIT_PLACES];
    uint64_t next_place, most_places, reserved_places, chunks, capacity;
    uint64_t calls, driver_calls, aliases;
    uint64_t rooms;   /* times that somebody asked what is left */
    uint64_t longest; /* bytes that are sent or fetched at once; 0: any number */
    /* order */
    uint64_t freed;                           /* frees told so far */
    uint64_t done[KIT_STREAMS];               /* how far each stream really is */
    uint64_t known[KIT_STREAMS][KIT_STREAMS]; /* how far [s] may know [q] to be */
    uint64_t ended[KIT_STREAMS];              /* 1 + the frees told when it was destroyed; 0: it is there */
    int events, lag;                          /* alive; in 1/100: how often an event is found not reached */
    bool capturing;                           /* no events, no waits */
    bool moving; /* who sends or fetches has seen to it that the device is done */
    /* faults */
    uint64_t fail_at, fail_again; /* the calls with these numbers fail; 0 = none */
    int fail_with, fail_percent;
    bool faults_seen, unmap_failed;
    uint64_t random;
};

static inline uint32_t kit_random(struct kit *k, uint32_t below)
{
    k->random = k->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(k->random >> 33) % below;
}

#define KIT_CHECK(condition)                                                                                 \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                          \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* The status that this call shall fail with, or 0. */
static inline int kit_fault(struct kit *k)
{
    k->calls++;
    bool fails = k->calls == k->fail_at || k->calls == k->fail_again ||
                 (k->fail_percent && kit_random(k, 1000) < (uint32_t)k->fail_percent);
    if (!fails)
        return 0;
    k->faults_seen = true;
    return k->fail_with ? k->fail_with : kit_random(k, 2) ? VS_BACKING_OUT_OF_MEMORY : KIT_ERROR;
}

static inline uint64_t kit_place(uint64_t address)
{
    KIT_CHECK(address >= KIT_BASE && address % KIT_CHUNK == 0);
    KIT_CHECK((address - KIT_BASE) / KIT_CHUNK < KIT_PLACES);
    return (address - KIT_BASE) / KIT_CHUNK;
}

static int kit_reserve(void *context, uint64_t size, uint64_t *address)
{
    struct kit *k = context;
    int status = kit_fault(k);
    if (status != 0)
        return status;
    if (k->most_places && size / KIT_CHUNK > k->most_places)
        return VS_BACKING_OUT_OF_MEMORY;
    KIT_CHECK(size % KIT_CHUNK == 0 && k->next_place + size / KIT_CHUNK <= KIT_PLACES);
    *address = KIT_BASE + k->next_place * KIT_CHUNK;
    k->next_place += size / KIT_CHUNK;
    k->reserved_places += size / KIT_CHUNK;
    return 0;
}

static void kit_unreserve(void *context, uint64_t address, uint64_t size)
{
    struct kit *k = context;
    for (uint64_t p = kit_place(address); p < kit_place(address) + size / KIT_CHUNK; p++)
        KIT_CHECK(!k->place[p].handle || k->unmap_failed);
    k->reserved_places -= size / KIT_CHUNK;
}

static int kit_create(void *context, uint64_t size, uint64_t *handle)
{
    struct kit *k = context;
    int status = kit_fault(k);
    uint64_t chunks = size / KIT_CHUNK;
    k->driver_calls++;
    KIT_CHECK(chunks && chunks <= KIT_GROUP && size % KIT_CHUNK == 0);
    if (status != 0 || k->chunks + chunks > k->capacity)
        return status ? status : VS_BACKING_OUT_OF_MEMORY;
    uint32_t h = 0;
    while (k->handle[h].alive || k->handle[h].maps)
        h++;
    memset(&k->handle[h], 0, sizeof k->handle[h]);
    k->handle[h].alive = true;
    k->handle[h].chunks = (uint32_t)chunks;
    k->chunks += chunks;
    *handle = h + 1;
    return 0;
}

/* The last free before which stream Q can have touched the unit. */
static inline uint64_t kit_touched(const struct kit *k, const struct kit_unit *u, uint32_t q)
{
    return k->ended[q] && k->ended[q] - 1 < u->freed ? k->ended[q] - 1 : u->freed;
}

/* Whether work that may still run touched the unit. */
static inline bool kit_in_use(const struct kit *k, const struct kit_unit *u)
{
    for (uint32_t q = 0; q < KIT_STREAMS; q++)
        if ((u->users >> q & 1 || (u->everywhere && q)) && kit_touched(k, u, q) > k->done[q])
            return true;
    return u->owner != 0;
}

static int kit_release(void *context, uint64_t handle)
{
    struct kit *k = context;
    int status = kit_fault(k);
    k->driver_calls++;
    KIT_CHECK(k->handle[handle - 1].alive);
    if (status != 0)
        return status;
    KIT_CHECK(k->handle[handle - 1].maps == 0 || k->unmap_failed);
    for (uint32_t u = 0; u < KIT_GROUP * KIT_UNITS; u++)
        KIT_CHECK(k->unmap_failed ||
                  !kit_in_use(k, &k->handle[handle - 1].unit[u / KIT_UNITS][u % KIT_UNITS]));
    k->handle[handle - 1].alive = false;
    k->chunks -= k->handle[handle - 1].chunks;
    return 0;
}

/* All that the handle has. */
static int kit_map(void *context, uint64_t address, uint64_t size, uint64_t handle)
{
    struct kit *k = context;
    int status = kit_fault(k);
    k->driver_calls++;
    uint64_t p = kit_place(address), chunks = k->handle[handle - 1].chunks;
    bool taken = false;
    KIT_CHECK(k->handle[handle - 1].alive && p + chunks <= k->next_place && size == chunks * KIT_CHUNK);
    for (uint64_t i = 0; i < chunks; i++)
        taken |= k->place[p + i].handle != 0;
    KIT_CHECK(!taken || k->unmap_failed);
    if (status != 0 || taken)
        return status ? status : KIT_ERROR;
    k->aliases += k->handle[handle - 1].maps > 0;
    for (uint32_t i = 0; i < chunks; i++) {
        k->place[p + i].handle = (uint32_t)handle;
        k->place[p + i].chunk = i;
        k->place[p + i].access = false;
    }
    k->handle[handle - 1].maps++;
    return 0;
}

/* No call is about a part of what a handle has. */
static inline void kit_check_whole(const struct kit *k, uint64_t address, uint64_t size)
{
    uint64_t first = kit_place(address), last = first + size / KIT_CHUNK - 1;
    uint32_t handle = k->place[last].handle;
    KIT_CHECK(!k->place[first].handle || k->place[first].chunk == 0);
    KIT_CHECK(!handle || k->place[last].chunk == k->handle[handle - 1].chunks - 1);
}

static int kit_access(void *context, uint64_t address, uint64_t size, uint64_t peers)
{
    struct kit *k = context;
    int status = kit_fault(k);
    k->driver_calls++;
    KIT_CHECK(size > 0 && size % KIT_CHUNK == 0);
    kit_check_whole(k, address, size);
    for (uint64_t p = kit_place(address); p < kit_place(address) + size / KIT_CHUNK; p++) {
        KIT_CHECK(k->place[p].handle || k->unmap_failed);
        if (status == 0) {
            k->place[p].access = true;
            k->place[p].peers = peers;
        }
    }
    return status;
}

static int kit_unmap(void *context, uint64_t address, uint64_t size)
{
    struct kit *k = context;
    int status = kit_fault(k);
    k->driver_calls++;
    k->unmap_failed |= status != 0;
    kit_check_whole(k, address, size);
    for (uint64_t p = kit_place(address); p < kit_place(address) + size / KIT_CHUNK; p++) {
        KIT_CHECK(k->place[p].handle || k->unmap_failed || k->arena->stats.lost);
        for (uint32_t u = 0; u < KIT_UNITS; u++)
            KIT_CHECK(k->moving || !kit_in_use(k, &k->used[p][u]));
        if (status != 0 || !k->place[p].handle)
            continue;
        k->handle[k->place[p].handle - 1].maps -= k->place[p].chunk == 0;
        k->place[p].handle = 0;
    }
    return status;
}

/* ---- order ---- */

static int kit_record(void *context, uint64_t stream, uint64_t *event)
{
    struct kit *k = context;
    int status = kit_fault(k);
    if (status != 0 || k->capturing)
        return status ? status : VS_BACKING_NOT_READY;
    if (stream == VS_BACKING_DEVICE && k->random % 2)
        return VS_BACKING_NOT_READY;
    uint32_t m = 0;
    while (k->event[m].used)
        m++;
    KIT_CHECK(m < KIT_EVENTS);
    k->event[m] = (struct kit_record){true, stream, k->freed, {0}};
    if (stream != VS_BACKING_DEVICE)
        memcpy(k->event[m].known, k->known[stream], sizeof k->event[m].known);
    k->events++;
    *event = m;
    return 0;
}

static inline void kit_learn(struct kit *k, uint32_t q, uint64_t freed)
{
    if (k->done[q] < freed)
        k->done[q] = freed;
    for (uint32_t s = 0; s < KIT_STREAMS; s++)
        if (k->known[s][q] < freed)
            k->known[s][q] = freed;
}

static inline void kit_learn_all(struct kit *k, uint64_t freed)
{
    for (uint32_t q = 0; q < KIT_STREAMS; q++)
        kit_learn(k, q, freed);
}

static inline void kit_learn_event(struct kit *k, const struct kit_record *m)
{
    if (m->stream == VS_BACKING_DEVICE)
        kit_learn_all(k, m->freed);
    else
        kit_learn(k, (uint32_t)m->stream, m->freed);
    for (uint32_t q = 0; q < KIT_STREAMS; q++)
        kit_learn(k, q, m->known[q]);
}

static int kit_reached(void *context, uint64_t event)
{
    struct kit *k = context;
    int status = kit_fault(k);
    const struct kit_record *m = &k->event[event];
    KIT_CHECK(m->used);
    if (status != 0)
        return status;
    bool device = m->stream == VS_BACKING_DEVICE;
    if ((device || k->done[m->stream] < m->freed) && kit_random(k, 100) < (uint32_t)k->lag)
        return VS_BACKING_NOT_READY;
    kit_learn_event(k, m);
    return 0;
}

static int kit_await(void *context, uint64_t event)
{
    struct kit *k = context;
    int status = kit_fault(k);
    KIT_CHECK(k->event[event].used);
    if (status != 0 || k->capturing)
        return status ? status : VS_BACKING_NOT_READY;
    kit_learn_event(k, &k->event[event]);
    return 0;
}

static int kit_stream_wait(void *context, uint64_t stream, uint64_t event)
{
    struct kit *k = context;
    int status = kit_fault(k);
    const struct kit_record *m = &k->event[event];
    KIT_CHECK(m->used && stream < KIT_STREAMS && stream != 0);
    if (status != 0 || k->capturing)
        return status ? status : VS_BACKING_NOT_READY;
    if (k->known[stream][m->stream] < m->freed)
        k->known[stream][m->stream] = m->freed;
    for (uint32_t q = 0; q < KIT_STREAMS; q++)
        if (k->known[stream][q] < m->known[q])
            k->known[stream][q] = m->known[q];
    return 0;
}

static void kit_forget(void *context, uint64_t event)
{
    struct kit *k = context;
    KIT_CHECK(k->event[event].used);
    k->event[event].used = false;
    k->events--;
}

static int kit_synchronize(void *context)
{
    struct kit *k = context;
    int status = kit_fault(k);
    if (status != 0 || k->capturing)
        return status ? status : VS_BACKING_NOT_READY;
    kit_learn_all(k, k->freed);
    return 0;
}

/* ---- the reference ---- */

/* The chunk at an address of the arena's. */
static inline uint32_t kit_chunk(const struct kit *k, uint64_t address)
{
    uint64_t place = 0;
    KIT_CHECK(vs_place_at(k->arena, address, &place));
    return vs_chunks_mapped_at(k->arena, slot_of(k->arena, place), 1).first;
}

/* Whether the block there is parked, and the chunk with it. */
static inline bool kit_is_parked(const struct kit *k, uint64_t address)
{
    uint64_t place = 0;
    KIT_CHECK(vs_place_at(k->arena, address, &place));
    return (slot_of(k->arena, place) >= k->arena->primary_slots ||
            is_parked_at_home(k->arena, kit_chunk(k, address))) &&
           k->arena->extent[vs_extent_at(k->arena, place)].is_parked;
}

/* What stands there, be it away or parked.  A chunk that a failed call left unmapped has something that is
 * nobody's. */
static inline struct kit_unit *kit_unit(struct kit *k, uint64_t address, uint64_t peers)
{
    static struct kit_unit lost;
    uint64_t p = kit_place(address & ~(KIT_CHUNK - 1));
    if (k->arena->stats.away && is_away(k->arena, kit_chunk(k, address)))
        return &k->kept[kit_chunk(k, address)][address % KIT_CHUNK / VS_ARENA_UNIT];
    if (k->arena->stats.parked && kit_is_parked(k, address))
        return &k->copy[p][address % KIT_CHUNK / VS_ARENA_UNIT];
    if ((!k->place[p].handle || !k->place[p].access) && k->unmap_failed && k->arena->stats.lost) {
        lost = (struct kit_unit){0};
        return &lost;
    }
    KIT_CHECK(k->place[p].handle && k->place[p].access);
    KIT_CHECK(k->place[p].peers == peers || k->faults_seen);
    KIT_CHECK(k->handle[k->place[p].handle - 1].alive);
    return &k->handle[k->place[p].handle - 1].unit[k->place[p].chunk][address % KIT_CHUNK / VS_ARENA_UNIT];
}

static inline void kit_check_known(const struct kit *k, const struct kit_unit *u, uint32_t stream)
{
    for (uint32_t q = 0; q < KIT_STREAMS; q++) {
        bool touched = u->users >> q & 1 || (u->everywhere && q);
        if (touched && (q != stream || q == 0))
            KIT_CHECK(kit_touched(k, u, q) <= k->known[stream][q]);
    }
}

/* The block was handed out to STREAM. */
static inline void kit_own(struct kit *k, uint64_t address, uint64_t size, uint32_t block, uint32_t stream)
{
    KIT_CHECK(address % VS_ARENA_UNIT == 0);
    for (uint64_t at = address; at < address + size; at += VS_ARENA_UNIT) {
        struct kit_unit *u = kit_unit(k, at, k->arena->peers);
        KIT_CHECK(!k->arena->stats.away || !is_away(k->arena, kit_chunk(k, at)));
        KIT_CHECK(!k->arena->stats.parked || !kit_is_parked(k, at));
        KIT_CHECK(!u->owner || k->unmap_failed);
        kit_check_known(k, u, stream);
        u->owner = block + 1;
    }
}

/* Its free is told: work of these streams touched it before. */
static inline void kit_disown(struct kit *k, uint64_t address, uint64_t size, uint32_t block, uint64_t users,
                              bool everywhere)
{
    k->freed++;
    for (uint64_t at = address; at < address + size; at += VS_ARENA_UNIT) {
        struct kit_unit *u = kit_unit(k, at, k->place[kit_place(at & ~(KIT_CHUNK - 1))].peers);
        KIT_CHECK(u->owner == block + 1 || k->unmap_failed);
        *u = (struct kit_unit){0, users, k->freed, everywhere};
        if (!k->arena->stats.parked || !kit_is_parked(k, at))
            k->used[kit_place(at & ~(KIT_CHUNK - 1))][at % KIT_CHUNK / VS_ARENA_UNIT] = *u;
    }
}

/* Who owns the units of a block that was freed; 0: nobody. */
static inline void kit_hold(struct kit *k, uint64_t address, uint64_t size, uint32_t owner)
{
    for (uint64_t at = address; at < address + size; at += VS_ARENA_UNIT)
        kit_unit(k, at, k->place[kit_place(at & ~(KIT_CHUNK - 1))].peers)->owner = owner;
}

static int kit_room(void *context, uint64_t *bytes)
{
    struct kit *k = context;
    k->rooms++;
    *bytes = (k->capacity - k->chunks) * KIT_CHUNK;
    return 0;
}

/* K is zero, or was used before. */
static inline void kit_begin(struct kit *k, uint64_t capacity, const struct vs_arena_config *config)
{
    struct vs_arena_config c = config ? *config : (struct vs_arena_config){0};
    memset(k->place, 0, k->next_place * sizeof *k->place);
    if (!k->used) {
        k->used = calloc(KIT_PLACES, sizeof *k->used);
        k->copy = calloc(KIT_PLACES, sizeof *k->copy);
    }
    memset(k->used, 0, k->next_place * sizeof *k->used);
    memset(&k->arena, 0, offsetof(struct kit, place) - offsetof(struct kit, arena));
    memset((char *)k + offsetof(struct kit, next_place), 0, sizeof *k - offsetof(struct kit, next_place));
    k->capacity = capacity;
    k->random = 1;
    c.capacity = capacity * KIT_CHUNK;
    if (!c.max_mappings)
        c.max_mappings = 8 * capacity;
    if (!c.defer_bytes)
        c.defer_bytes = 4 * KIT_CHUNK;
    if (!c.small)
        c.small = 1024;
    struct vs_backing b = {k,          KIT_CHUNK,       kit_reserve, kit_unreserve,
                           kit_create, kit_release,     kit_map,     kit_access,
                           kit_unmap,  kit_record,      kit_reached, kit_stream_wait,
                           kit_forget, kit_synchronize, kit_await,   kit_room};
    KIT_CHECK(vs_arena_create(&k->arena, &b, &c) == 0);
}

static inline void kit_end(struct kit *k)
{
    k->fail_at = 0;
    k->fail_percent = 0;
    kit_learn_all(k, k->freed);
    for (uint32_t h = 0; h < KIT_HANDLES; h++) /* the end does not care who owns what */
        for (uint32_t u = 0; u < KIT_GROUP * KIT_UNITS; u++)
            k->handle[h].unit[u / KIT_UNITS][u % KIT_UNITS].owner = 0;
    vs_arena_destroy(k->arena);
    KIT_CHECK(k->reserved_places == 0 && k->events == 0);
    KIT_CHECK(k->faults_seen || k->chunks == 0);
    for (uint32_t p = 0; p < k->next_place; p++)
        KIT_CHECK(!k->place[p].handle || k->unmap_failed);
}

static inline uint64_t kit_rounded(uint64_t size)
{
    return size ? (size + VS_ARENA_UNIT - 1) / VS_ARENA_UNIT * VS_ARENA_UNIT : VS_ARENA_UNIT;
}

#endif
