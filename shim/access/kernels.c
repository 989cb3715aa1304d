/*
 * kernels.c - see kernels.h: an open-addressed table of handles, and layouts on pages that only grow.
 *
 *      place   handle | layout ------.      room for a layout of ten runs, two cache lines in all
 *                          |         v
 *                          '-----> [ layout ]   or on the pages
 *
 * So of nearly all kernels a launch reads two neighbouring lines, whose address follows from the handle.  A
 * published layout is never changed except for its epoch.  If a handle comes to mean another kernel it gets a
 * new layout, and the old one's few bytes are not reused (but by a reset, when there is one thread).
 */
#define _GNU_SOURCE
#include "kernels.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/fork.h"

/* ---- tensor maps: an open-addressed table of hashes and addresses ----
 *
 * The hash is of all 128 bytes, and 64 bits wide: collisions are not to be expected.  If all sixteen places
 * for a map are taken it replaces the one that its hash selects.  The address in a map that was dropped in
 * this way can still be found, because all words of a parameter are checked. */

#define MAPS       (1u << 14)
#define MAP_PROBES 16u

_Atomic bool vs_maps_any;

/* The address is written before the hash and read after it; a hash is 0 meanwhile. */
static struct {
    _Atomic uint64_t hash, address;
} maps[MAPS];

static uint64_t hash_of_map(const void *map)
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
    uint64_t hash = hash_of_map(map);
    for (uint32_t i = 0; i < MAP_PROBES; i++) {
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
    uint64_t hash = hash_of_map(map);
    for (uint32_t i = 0; i < MAP_PROBES; i++) {
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

/* ---- kernels ---- */

#define KERNELS (1u << 15)
#define PROBES  32u
#define CHUNK   (256u << 10)

#define PLACE 128u
#define ROOM  (PLACE - sizeof(uintptr_t) - sizeof(void *))

struct place {
    _Alignas(PLACE) _Atomic uintptr_t handle;
    _Atomic(struct vs_kernel *) layout;
    _Alignas(struct vs_kernel) char room[ROOM]; /* for the first layout, by who got the handle in here */
};
_Static_assert(sizeof(struct place) == PLACE, "two lines");
/* 4 MiB, of which few pages are touched; NULL without the access ledger, so that such programs keep their
 * address space. */
static VS_HOT void *_Atomic kernels; /* struct place */
static VS_HOT _Atomic uint32_t epoch = 1;

static uint32_t hash_of(const void *handle)
{
    return (uint32_t)((uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 49);
}

VS_HOT_CODE const struct vs_kernel *vs_kernel_find(const void *handle)
{
    uintptr_t key = (uintptr_t)handle;
    /* Acquire: pairs with vs_map_once(). */
    struct place *table = atomic_load_explicit(&kernels, memory_order_acquire);
    for (uint32_t i = 0, at = hash_of(handle); table != NULL && i < PROBES; i++, at++) {
        uintptr_t seen = atomic_load_explicit(&table[at % KERNELS].handle, memory_order_relaxed);
        if (seen == 0)
            return NULL;
        if (seen != key)
            continue;
        /* Acquire: pairs with the release in vs_kernel_learn. */
        struct vs_kernel *k = atomic_load_explicit(&table[at % KERNELS].layout, memory_order_acquire);
        return k != NULL && atomic_load_explicit(&k->epoch, memory_order_relaxed) ==
                                atomic_load_explicit(&epoch, memory_order_relaxed)
                   ? k
                   : NULL;
    }
    return NULL;
}

void vs_kernels_doubt(void)
{
    atomic_fetch_add_explicit(&epoch, 1, memory_order_relaxed);
}

void vs_kernels_reset(void)
{
    struct place *table = atomic_load_explicit(&kernels, memory_order_relaxed);
    for (uint32_t i = 0; table != NULL && i < KERNELS; i++)
        if (atomic_load_explicit(&table[i].handle, memory_order_relaxed) != 0) {
            atomic_store_explicit(&table[i].layout, NULL, memory_order_relaxed);
            atomic_store_explicit(&table[i].handle, 0, memory_order_relaxed);
        }
}

/* ---- making a layout ---- */

/* The words of parameter PARAM: those that lie completely in it, at multiples of 8. */
static bool run_of(const struct vs_kernel_params *p, uint32_t param, struct vs_kernel_run *run)
{
    uint32_t offset = p->at[param].offset, size = p->at[param].size;
    uint32_t first = (offset + 7) / 8 * 8, end = (offset + size) / 8 * 8;
    if (end <= first || end > UINT16_MAX)
        return false;
    *run = (struct vs_kernel_run){(uint16_t)param, (uint16_t)(first - offset), (uint16_t)first,
                                  .words = (uint16_t)((end - first) / 8) & 0x7fff,
                                  .own = size == sizeof(void *) || p->array == param + 1};
    return true;
}

/* Pages for layouts: one chunk after the other, its fill by compare-and-swap. */
static void *take(size_t bytes)
{
    static _Atomic(char *) chunk;
    static _Atomic uint64_t used = CHUNK; /* of the present chunk; its number in the upper half */
    bytes = (bytes + 15) / 16 * 16;
    uint64_t at = atomic_load_explicit(&used, memory_order_acquire);
    for (;;) {
        if ((uint32_t)at + bytes <= CHUNK) {
            char *base = atomic_load_explicit(&chunk, memory_order_acquire);
            if (atomic_compare_exchange_weak(&used, &at, at + bytes))
                return base + (uint32_t)at;
            continue;
        }
        int saved = errno;
        char *more = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        errno = saved;
        return more != MAP_FAILED && bytes <= CHUNK
                   ? (atomic_store_explicit(&chunk, more, memory_order_release),
                      atomic_store_explicit(&used, ((at >> 32) + 1) << 32 | bytes, memory_order_release),
                      more)
                   : NULL;
    }
}

static bool same(const struct vs_kernel *k, uint32_t name, bool reaches, const struct vs_kernel_params *p)
{
    uint16_t runs = 0;
    struct vs_kernel_run run;
    if (k == NULL || k->name != name || k->reaches != reaches || k->known != p->known)
        return false;
    for (uint32_t i = 0; i < p->count; i++)
        if (run_of(p, i, &run))
            if (runs >= k->runs || memcmp(&run, &k->run[runs++], sizeof run) != 0)
                return false;
    return runs == k->runs;
}

/* In ROOM bytes at THERE, or elsewhere. */
static struct vs_kernel *make(char *there, uint32_t name, bool reaches, const struct vs_kernel_params *p)
{
    struct vs_kernel_run run;
    uint16_t runs = 0;
    for (uint32_t i = 0; i < p->count; i++)
        runs += run_of(p, i, &run);
    size_t bytes = sizeof(struct vs_kernel) + runs * sizeof run;
    struct vs_kernel *k = there != NULL && bytes <= ROOM ? (struct vs_kernel *)there : take(bytes);
    if (k == NULL)
        return NULL;
    *k = (struct vs_kernel){.name = name,
                            .runs = runs,
                            .known = p->known,
                            .reaches = reaches,
                            .apart = p->list.lists != 0 ? p->list.param + 1 : p->strided.param,
                            .list = p->list,
                            .strided = p->strided};
    for (uint32_t i = 0, n = 0; i < p->count; i++)
        n += run_of(p, i, &k->run[n < runs ? n : 0]);
    return k;
}

/* The table, made by who asks first: in a program that is recorded when that begins (vs_kernels_begin), so
 * that none of the program's own mappings comes to lie elsewhere by it later.  NULL: there is no room. */
static struct place *places(void)
{
    return vs_map_once(&kernels, KERNELS * PLACE, false);
}

void vs_kernels_begin(void)
{
    places();
}

const struct vs_kernel *vs_kernel_learn(const void *handle, uint32_t name, bool reaches,
                                        const struct vs_kernel_params *params)
{
    uintptr_t key = (uintptr_t)handle;
    uint32_t now = atomic_load_explicit(&epoch, memory_order_relaxed);
    bool got = false;
    struct place *table = places();
    for (uint32_t i = 0, at = hash_of(handle); table != NULL && i < PROBES; i++, at++) {
        struct place *place = &table[at % KERNELS];
        uintptr_t seen = atomic_load_explicit(&place->handle, memory_order_relaxed);
        if (seen == 0 && (got = atomic_compare_exchange_strong(&place->handle, &seen, key)))
            seen = key;
        if (seen != key)
            continue;
        struct vs_kernel *k = atomic_load_explicit(&place->layout, memory_order_acquire);
        if (!same(k, name, reaches, params))
            k = make(got ? place->room : NULL, name, reaches, params);
        if (k == NULL)
            return NULL;
        atomic_store_explicit(&k->epoch, now, memory_order_relaxed);
        atomic_store_explicit(&place->layout, k, memory_order_release);
        return k;
    }
    return NULL;
}

/* ---- launches ---- */

/* The address of a run's first word; NULL: it is not given. */
static inline const char *value_of(const struct vs_kernel_run *run, void *const *params, const char *buffer,
                                   size_t size)
{
    if (params != NULL)
        return params[run->param] ? (const char *)params[run->param] + run->at : NULL;
    return buffer != NULL && run->packed + 8u * run->words <= size ? buffer + run->packed : NULL;
}

/* Finds tensor maps among the words of a run whose first word has the offset PACKED. */
static __attribute__((noinline)) void look_for_maps(const struct vs_kernel_run *run, const char *value,
                                                    void (*see)(void *, uint64_t, bool, bool), void *context)
{
    uint32_t bytes = 8u * run->words, at = (0u - run->packed) % VS_MAP_ALIGN;
    for (; at + VS_MAP_BYTES <= bytes; at += VS_MAP_ALIGN) {
        uint64_t address = vs_map_address(value + at);
        if (address != 0)
            see(context, address, true, bytes == VS_MAP_BYTES);
    }
}

static inline bool may_have_maps(const struct vs_kernel_run *run)
{
    return __builtin_expect(run->words >= VS_MAP_BYTES / 8, 0) &&
           atomic_load_explicit(&vs_maps_any, memory_order_acquire);
}

static void see_map(void *use, uint64_t word, bool map, bool sure)
{
    struct vs_use u = *(struct vs_use *)use;
    u.kinds |= VS_ACCESS_MAP;
    vs_use_word(&u, word, sure);
}

#define PARTS 6u /* five lists, and one more */

/* Of a structure with lists at VALUE; 0: it is not known how much of them is in use. */
static uint32_t parts_of_lists(const struct vs_foreach *f, struct vs_grid grid, const char *value,
                               struct vs_words *parts)
{
    uint32_t n = 0, tensors = vs_foreach_tensors(f, value, grid);
    for (; tensors != 0 && n < f->lists; n++)
        parts[n] = (struct vs_words){value + 8u * n * f->tensors, tensors, true};
    if (tensors != 0 && f->steps != 0)
        parts[n++] = (struct vs_words){value + f->steps, tensors, true};
    return n;
}

/* Whether the parameter of RUN is one of which only parts count. */
static inline bool is_apart(const struct vs_kernel *k, const struct vs_kernel_run *run)
{
    return __builtin_expect(k->apart != 0, 0) && run->param + 1 == k->apart;
}

/* What counts of RUN, whose first word is at VALUE: all of it where no parts are known.  At least one. */
static uint32_t each_part(const struct vs_kernel *k, const struct vs_kernel_run *run, struct vs_grid grid,
                          const char *value, struct vs_words parts[PARTS])
{
    uint32_t n = 0;
    if (is_apart(k, run))
        n = k->list.lists != 0 ? parts_of_lists(&k->list, grid, value - run->at, parts)
                               : vs_strided_parts(&k->strided, value - run->at, parts);
    if (n == 0)
        parts[n++] = (struct vs_words){value, run->words, run->own};
    return n;
}

static __attribute__((noinline)) void given_parts(const struct vs_kernel *k, const struct vs_kernel_run *run,
                                                  const struct vs_use *u, struct vs_use_batch *b,
                                                  struct vs_grid grid, const char *value)
{
    struct vs_words parts[PARTS];
    uint32_t n = each_part(k, run, grid, value, parts);
    for (uint32_t i = 0; i < n; i++)
        vs_use_words(u, b, parts[i].at, parts[i].words, parts[i].sure);
}

VS_HOT_CODE void vs_kernel_given(const struct vs_kernel *k, const struct vs_use *u, struct vs_grid grid,
                                 void *const *params, const void *buffer, size_t size)
{
    struct vs_use_batch b;
    vs_use_batch_begin(&b);
    for (uint32_t i = 0; i < k->runs; i++) {
        const struct vs_kernel_run *run = &k->run[i];
        const char *value = value_of(run, params, buffer, size);
        if (value == NULL)
            continue;
        if (is_apart(k, run)) {
            given_parts(k, run, u, &b, grid, value);
            continue;
        }
        if (run->words == 1) {
            uint64_t word;
            memcpy(&word, value, sizeof word);
            vs_use_add(u, &b, word, run->own);
            continue;
        }
        vs_use_words(u, &b, value, run->words, run->own);
        if (may_have_maps(run))
            look_for_maps(run, value, see_map, (void *)u);
    }
    if (!k->known && buffer != NULL)
        vs_use_words(u, &b, buffer, size / sizeof(uint64_t), false);
    vs_use_flush(u, &b);
}

static void see_words(const char *at, size_t words, bool sure, void (*see)(void *, uint64_t, bool, bool),
                      void *context)
{
    for (size_t w = 0; w < words; w++) {
        uint64_t word;
        memcpy(&word, at + 8 * w, sizeof word);
        see(context, word, false, sure);
    }
}

void vs_kernel_each(const struct vs_kernel *k, struct vs_grid grid, void *const *params, const void *buffer,
                    size_t size, void (*see)(void *context, uint64_t word, bool map, bool sure),
                    void *context)
{
    for (uint32_t i = 0; i < k->runs; i++) {
        const struct vs_kernel_run *run = &k->run[i];
        const char *value = value_of(run, params, buffer, size);
        struct vs_words parts[PARTS];
        uint32_t n = value != NULL ? each_part(k, run, grid, value, parts) : 0;
        for (uint32_t p = 0; p < n; p++)
            see_words(parts[p].at, parts[p].words, parts[p].sure, see, context);
        if (value != NULL && !is_apart(k, run) && may_have_maps(run))
            look_for_maps(run, value, see, context);
    }
    if (!k->known && buffer != NULL)
        see_words(buffer, size / sizeof(uint64_t), false, see, context);
}
