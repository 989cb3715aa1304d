/*
 * torch_stream.c - see torch_stream.h.
 *
 * Numbers are kept in a table of words that are written once, so any thread finds them without a lock.
 */
#define _GNU_SOURCE
#include "torch_stream.h"

#include <dlfcn.h>
#include <stddef.h>

#include "torch.h"

#define CURRENT_STREAM "_ZN3c104cuda20getCurrentCUDAStreamEa" /* of a DeviceIndex, which is an int8_t */
#define NUMBERS_MOST   254
#define ID_BITS        56

VS_HOT _Atomic(vs_c10_stream_fn *) vs_torch_current_stream;

static _Atomic uint64_t table[512]; /* id << 8 | number; 0: empty */
static _Atomic uint32_t numbers = 1;

uint8_t vs_torch_stream_number(int64_t id)
{
    uint64_t key = (uint64_t)id;
    if (key >> ID_BITS)
        return 0;
    size_t at = key * UINT64_C(0x9E3779B97F4A7C15) >> 55;
    for (;; at = (at + 1) % (sizeof table / sizeof *table)) {
        /* relaxed: the word is complete by itself */
        uint64_t word = atomic_load_explicit(&table[at], memory_order_relaxed);
        if (word >> 8 == key)
            return (uint8_t)word;
        if (word)
            continue;
        if (atomic_load_explicit(&numbers, memory_order_relaxed) >= NUMBERS_MOST)
            return 0; /* the table never fills */
        /* two threads that meet the same new stream use up two numbers, of which one counts */
        uint32_t number = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1;
        if (number > NUMBERS_MOST)
            return 0;
        if (atomic_compare_exchange_strong_explicit(&table[at], &word, key << 8 | number,
                                                    memory_order_relaxed, memory_order_relaxed))
            return (uint8_t)number;
        if (word >> 8 == key)
            return (uint8_t)word;
    }
}

void vs_torch_stream_distrust(void)
{
    atomic_store_explicit(&vs_torch_current_stream, NULL, memory_order_relaxed);
}

static const void *base_of(const void *code)
{
    Dl_info info;
    return code && dladdr(code, &info) ? info.dli_fbase : NULL;
}

void vs_torch_stream_find(const void *caller)
{
    void *library = vs_torch_library("libc10_cuda");
    void *found = library ? dlsym(library, CURRENT_STREAM) : NULL;
    if (found && base_of(found) == base_of(caller))
        atomic_store_explicit(&vs_torch_current_stream, (vs_c10_stream_fn *)found, memory_order_relaxed);
}
