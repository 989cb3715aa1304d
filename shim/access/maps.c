/*
 * maps.c - see maps.h: one open-addressed table of hashes and addresses.
 *
 * The hash is of all 128 bytes, and 64 bits wide: collisions are not to be expected.  If all sixteen places
 * for a map are taken it replaces the one that its hash selects.  The address in a map that was dropped in
 * this way can still be found, because all words of a parameter are checked.
 */
#include "maps.h"

#include <string.h>

#define MAPS   (1u << 14)
#define PROBES 16u

_Atomic bool vs_maps_any;

/* The address is written before the hash and read after it; a hash is 0 meanwhile. */
static struct {
    _Atomic uint64_t hash, address;
} maps[MAPS];

static uint64_t hash_of(const void *map)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < VS_MAP_BYTES; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)map + i, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash != 0 ? hash : 1;
}

static void put(uint32_t at, uint64_t hash, uint64_t address)
{
    atomic_store_explicit(&maps[at].hash, 0, memory_order_release);
    atomic_store_explicit(&maps[at].address, address, memory_order_release);
    atomic_store_explicit(&maps[at].hash, hash, memory_order_release);
}

void vs_map_made(const void *map, uint64_t address)
{
    uint64_t hash = hash_of(map);
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = (uint32_t)(hash >> 32) + i;
        uint64_t seen = atomic_load_explicit(&maps[at % MAPS].hash, memory_order_relaxed);
        if (seen == 0 || seen == hash) {
            put(at % MAPS, hash, address);
            atomic_store_explicit(&vs_maps_any, true, memory_order_release);
            return;
        }
    }
    put((uint32_t)(hash >> 32) % MAPS, hash, address);
}

uint64_t vs_map_address(const void *map)
{
    uint64_t hash = hash_of(map);
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = ((uint32_t)(hash >> 32) + i) % MAPS;
        uint64_t seen = atomic_load_explicit(&maps[at].hash, memory_order_acquire);
        if (seen == 0)
            return 0;
        uint64_t address = atomic_load_explicit(&maps[at].address, memory_order_acquire);
        if (seen == hash && atomic_load_explicit(&maps[at].hash, memory_order_relaxed) == hash)
            return address;
    }
    return 0;
}
