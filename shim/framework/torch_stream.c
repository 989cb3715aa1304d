/*
 * torch_stream.c - the number of the stream that PyTorch's allocator is serving.
 *
 * A report says nothing of the stream.  But the allocator has asked for its thread's current one just before,
 * and so can we: c10::cuda::getCurrentCUDAStream(device) reads two words of the thread's.  It is called only
 * where the report came from the library that has it, and as long as its answers are streams of the device
 * that was asked about.
 */
#define _GNU_SOURCE
#include "torch.h"

#include <dlfcn.h>
#include <stddef.h>
#include <sys/mman.h>

#include "core/arch/returned.h"
#include "core/contracts.h"

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
    vs_contract_broken(VS_CONTRACT_TORCH_STREAM,
                       "the current stream was of another device than was asked about");
}

static const void *base_of(const void *code)
{
    Dl_info info;
    return code && dladdr(code, &info) ? info.dli_fbase : NULL;
}

/* ---- how the answer comes ---- */

#define UNTOUCHED UINT64_C(0x5ca1ab1e5ca1ab1e)

static bool is_of(struct vs_c10_stream stream, int8_t device)
{
    return (uint16_t)stream.device == (uint16_t)(1 | (uint8_t)device << 8);
}

enum { PROBE_BYTES = 4096, PROBE_WORDS = PROBE_BYTES / 8 };

/* Memory at an address whose low 32 bits are 0; NULL: none of a few is free.  They lie far apart, as what is
 * in the way (the simulated driver's memory, a sanitizer's shadow) takes tens of TiB. */
static uint64_t *map_probe(void)
{
    for (uintptr_t high = 0x1e57; high < 0x7e57; high += 0x800) {
        void *wish = (void *)(high << 32);
        void *at = mmap(wish, PROBE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (at == wish)
            return at;
        if (at != MAP_FAILED) /* a kernel that takes it for a wish */
            munmap(at, PROBE_BYTES);
    }
    return NULL;
}

/* The function's one argument is the device, in the low byte of a register, and compilers differ in how much
 * of the rest they take for granted.  So it is called with an address of ours whose low 32 bits are the
 * device: what returns an object through a hidden pointer would take that for the pointer, find the device
 * behind it, and write where nobody else is; what returns two registers, as it should, leaves all as it was.
 * Where a hidden pointer has a register of its own the answer itself has to do. */
static bool comes_in_registers(vs_c10_stream_fn *function, int8_t device)
{
    typedef struct vs_c10_stream by_address(uintptr_t, int);
    if (!VS_RETURNED_SHOWS)
        return is_of(function(device), device);
    uint64_t *probe = map_probe();
    if (!probe)
        return false;
    for (size_t i = 0; i < PROBE_WORDS; i++)
        probe[i] = UNTOUCHED;
    by_address *asked = (by_address *)(void (*)(void))function;
    bool good = is_of(asked((uintptr_t)probe + (uint8_t)device, device), device);
    for (size_t i = 0; i < PROBE_WORDS; i++)
        good = good && probe[i] == UNTOUCHED;
    munmap(probe, PROBE_BYTES);
    return good;
}

void vs_torch_stream_find(const void *caller, int8_t device)
{
    void *library = vs_torch_library("libc10_cuda");
    void *found = library ? dlsym(library, CURRENT_STREAM) : NULL;
    if (!found)
        vs_contract_broken(VS_CONTRACT_TORCH_STREAM, "no function says which stream is current");
    if (!found || base_of(found) != base_of(caller) || device < 0)
        return;
    if (!comes_in_registers((vs_c10_stream_fn *)found, device)) {
        vs_contract_broken(VS_CONTRACT_TORCH_STREAM,
                           "it could not be shown how it says which stream is current");
        return;
    }
    vs_contract_proven(VS_CONTRACT_TORCH_STREAM, "the current stream comes in two registers");
    atomic_store_explicit(&vs_torch_current_stream, (vs_c10_stream_fn *)found, memory_order_relaxed);
}
