/*
 * once.c - see once.h: one open-addressed table.
 *
 * A key is claimed by compare-and-swap, and the thread that claimed it measures.  Keys of launches are the
 * kernels' handles as they are, so that a launch is found with one load; all others are mixed, with the top
 * bit set, which no address has.  A collision (one in 2^63) costs one measurement.
 */
#include "once.h"

#include <string.h>

#include "hook.h"
#include "record/record.h"

#define PROBES 16u
#define AGAIN  1u /* a place that was given back: searches continue past it */

enum { ANYBODY = 0, NOBODY = 1 }; /* owners that are no handle */

_Atomic uint64_t vs_once_keys[VS_ONCE];
/* Each key has an owner.  The calls that return kernels tell the module of a kernel (vs_once_belongs), which
 * is kept as a key of its own; a kernel that no such call returned may be of any module, and is forgotten
 * when any module is unloaded. */
static _Atomic uintptr_t owners[VS_ONCE]; /* stored after the key */
_Atomic bool vs_once_many_contexts;
static _Atomic uintptr_t first_context;
_Atomic uint64_t vs_once_full;
_Atomic uint32_t vs_once_streams;

/* ---- keys ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 32;
}

static uint64_t key_of(uint64_t what, const void *object, uint64_t context)
{
    return mix(mix(mix(0, what), (uintptr_t)object), context) | UINT64_C(1) << 63;
}

static uint64_t hash_of(const char *name)
{
    uint64_t hash = 0, word;
    size_t left = name != NULL ? strlen(name) : 0;
    for (; left >= sizeof(word); left -= sizeof(word), name += sizeof(word)) {
        memcpy(&word, name, sizeof(word));
        hash = mix(hash, word);
    }
    word = 0;
    if (left > 0)
        memcpy(&word, name, left);
    return mix(hash, word + left);
}

static uintptr_t context(void)
{
    CUcontext current = NULL;
    return vs_drv_cuCtxGetCurrent(&current) == CUDA_SUCCESS ? (uintptr_t)current : 0;
}

/* In the first context the key is the handle itself, so that earlier launches stay known when a second
 * context appears. */
static uint64_t launch_key(const void *kernel)
{
    if (atomic_load_explicit(&vs_once_many_contexts, memory_order_relaxed)) {
        uintptr_t current = context();
        if (current != atomic_load_explicit(&first_context, memory_order_relaxed))
            return key_of(VS_API_cuLaunchKernel, kernel, current);
    }
    return (uintptr_t)kernel;
}

/* ---- the table; relaxed throughout, as a key is complete in itself ---- */

/* The place of KEY, or a place where it may be put; NULL: neither. */
static vs_first look_up(uint64_t key)
{
    vs_first room = NULL;
    for (uint32_t i = 0, at = vs_once_hash(key); i < PROBES; i++, at++) {
        vs_first place = &vs_once_keys[at % VS_ONCE];
        uint64_t seen = atomic_load_explicit(place, memory_order_relaxed);
        if (seen == key)
            return place;
        if (room == NULL && (seen == 0 || seen == AGAIN))
            room = place;
        if (seen == 0)
            break;
    }
    return room;
}

/* The place of KEY; NULL: it has none. */
static vs_first find(uint64_t key)
{
    vs_first place = look_up(key);
    return place != NULL && atomic_load_explicit(place, memory_order_relaxed) == key ? place : NULL;
}

/* Takes a place for KEY; NULL: it has one already. */
static vs_first claim(uint64_t key, uintptr_t owner)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        vs_first place = look_up(key);
        if (place == NULL)
            break;
        uint64_t seen = atomic_load_explicit(place, memory_order_relaxed);
        if (seen == key)
            return NULL;
        if ((seen == 0 || seen == AGAIN) &&
            atomic_compare_exchange_strong_explicit(place, &seen, key, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            atomic_store_explicit(&owners[place - vs_once_keys], owner, memory_order_relaxed);
            return place;
        }
    }
    /* no room: reported once */
    return atomic_exchange_explicit(&vs_once_full, 1, memory_order_relaxed) == 0 ? &vs_once_full : NULL;
}

static uint64_t belongs_key(const void *kernel)
{
    return key_of(VS_API_END, kernel, 0);
}

uintptr_t vs_once_owner(const void *kernel)
{
    vs_first place = find(belongs_key(kernel));
    return place != NULL ? atomic_load_explicit(&owners[place - vs_once_keys], memory_order_relaxed)
                         : ANYBODY;
}

/* ---- the functions of once.h ---- */

static bool records(void)
{
    return vs_record_journal() != NULL && vs_record_takes();
}

/* Whether the call that is about to be made can be measured. */
static bool measures(void)
{
    return records() && !vs_hook_nested();
}

vs_first vs_once_launch_slow(const void *kernel)
{
    if (kernel == NULL || !measures())
        return NULL;
    uint64_t key = launch_key(kernel);
    return find(key) ? NULL : claim(key, vs_once_owner(kernel));
}

vs_first vs_once_kernel(enum vs_api api, const void *kernel)
{
    if (!measures())
        return NULL;
    uint64_t key = key_of(api, kernel, context());
    return find(key) ? NULL : claim(key, vs_once_owner(kernel));
}

vs_first vs_once_module(enum vs_api api, const void *module, const char *name)
{
    return measures() ? claim(mix(key_of(api, module, context()), hash_of(name)) | UINT64_C(1) << 63,
                              (uintptr_t)module)
                      : NULL;
}

vs_first vs_once_number(enum vs_api api, uintptr_t number)
{
    return measures() ? claim(key_of(api, (const void *)number, context()), NOBODY) : NULL;
}

void vs_once_belongs(const void *kernel, uintptr_t owner)
{
    vs_first place = find(belongs_key(kernel));
    if (place != NULL)
        atomic_store_explicit(&owners[place - vs_once_keys], owner, memory_order_relaxed);
    else if (owner != ANYBODY && records())
        claim(belongs_key(kernel), owner);
}

/* ---- contexts ---- */

void vs_once_context(CUcontext context)
{
    uintptr_t none = 0;
    if (!atomic_compare_exchange_strong_explicit(&first_context, &none, (uintptr_t)context,
                                                 memory_order_relaxed, memory_order_relaxed) &&
        none != (uintptr_t)context)
        atomic_store_explicit(&vs_once_many_contexts, true, memory_order_relaxed);
}

/* ---- forgetting ---- */

void vs_once_again(vs_first first)
{
    if (first != &vs_once_full)
        atomic_store_explicit(first, AGAIN, memory_order_relaxed);
}

void vs_once_forget(const void *owner)
{
    for (uint32_t i = 0; i < VS_ONCE; i++) {
        uintptr_t is = atomic_load_explicit(&owners[i], memory_order_relaxed);
        if (atomic_load_explicit(&vs_once_keys[i], memory_order_relaxed) > AGAIN &&
            (is == (uintptr_t)owner || is == ANYBODY))
            atomic_store_explicit(&vs_once_keys[i], AGAIN, memory_order_relaxed);
    }
}

void vs_once_forget_all(CUcontext ended)
{
    uintptr_t is = (uintptr_t)ended;
    atomic_compare_exchange_strong_explicit(&first_context, &is, 0, memory_order_relaxed,
                                            memory_order_relaxed);
    for (uint32_t i = 0; i < VS_ONCE; i++)
        if (atomic_load_explicit(&vs_once_keys[i], memory_order_relaxed) != 0)
            atomic_store_explicit(&vs_once_keys[i], 0, memory_order_relaxed);
    atomic_store_explicit(&vs_once_streams, 0, memory_order_relaxed);
}
