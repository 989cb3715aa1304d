/*
 * watched.c - see watched.h: a sorted array, and a bit for each 2 MiB of addresses in which one lies.
 */
#include "watched.h"

#include <string.h>

#include "core/fork.h"

#define ADDRESS_BITS 47
#define CHUNK_BITS   21
#define WORDS        (1ull << (ADDRESS_BITS - CHUNK_BITS - 6))

struct vs_watched *vs_watched;
uint32_t vs_watched_count;
/* Bits stay set when a block is no longer watched: they save a look, no more.  8 MiB, of which few pages are
 * touched. */
static _Atomic(_Atomic uint64_t *) near;

bool vs_watched_near(uint64_t address)
{
    /* acquire: pairs with have_room */
    _Atomic uint64_t *words = atomic_load_explicit(&near, memory_order_acquire);
    uint64_t chunk = address >> CHUNK_BITS;
    return words != NULL && address >> ADDRESS_BITS == 0 &&
           atomic_load_explicit(&words[chunk / 64], memory_order_relaxed) >> chunk % 64 & 1;
}

static bool have_room(void)
{
    if (vs_watched == NULL)
        vs_watched = vs_map(VS_WATCHED_MOST * sizeof *vs_watched);
    if (atomic_load_explicit(&near, memory_order_relaxed) == NULL)
        atomic_store_explicit(&near, (_Atomic uint64_t *)vs_map(WORDS * sizeof(uint64_t)),
                              memory_order_release);
    return vs_watched != NULL && atomic_load_explicit(&near, memory_order_relaxed) != NULL &&
           vs_watched_count < VS_WATCHED_MOST;
}

static void set_bits(uint64_t address, uint64_t size)
{
    _Atomic uint64_t *words = atomic_load_explicit(&near, memory_order_relaxed);
    uint64_t end = (address + size - 1) >> CHUNK_BITS;
    for (uint64_t chunk = address >> CHUNK_BITS; chunk <= end; chunk++)
        atomic_fetch_or_explicit(&words[chunk / 64], 1ull << chunk % 64, memory_order_relaxed);
}

/* How many begin at ADDRESS or before it. */
static uint32_t up_to(uint64_t address)
{
    uint32_t low = 0, high = vs_watched_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (vs_watched[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct vs_watched *vs_watched_at(uint64_t address, uint64_t size)
{
    uint32_t n = up_to(address + (size != 0 ? size - 1 : 0));
    struct vs_watched *w = n != 0 ? &vs_watched[n - 1] : NULL;
    return w != NULL && address < w->address + w->size ? w : NULL;
}

struct vs_watched *vs_watched_add(const struct vs_watched *block)
{
    uint32_t n = up_to(block->address);
    if (n != 0 && vs_watched[n - 1].address == block->address)
        return &vs_watched[n - 1];
    if (block->address >> ADDRESS_BITS != 0 || !have_room())
        return NULL;
    memmove(vs_watched + n + 1, vs_watched + n, (vs_watched_count - n) * sizeof *vs_watched);
    vs_watched[n] = *block;
    vs_watched_count++;
    set_bits(block->address, block->size);
    return &vs_watched[n];
}

void vs_watched_remove(struct vs_watched *w)
{
    uint32_t n = (uint32_t)(w - vs_watched);
    memmove(w, w + 1, (vs_watched_count - n - 1) * sizeof *w);
    vs_watched_count--;
}
