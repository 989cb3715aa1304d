/*
 * complete.c - the answers that torch's interface for allocators cannot be given a function for.
 *
 *      cacheInfo     what there is to be had: cudnn's search for the fastest convolution asks for it
 *                    (torch.backends.cudnn.benchmark), and torch's CUDAPluggableAllocator throws
 *      initialized   always true there, so that a program which sets an allocator of its own would be refused
 *      shareIpcHandle, getIpcDevPtr   tensors in other processes (share.c): both throw there
 */
#define _GNU_SOURCE
#include "torch.h"

#include <dlfcn.h>
#include <string.h>

#include "core/contracts.h"
#include "core/readable.h"
#include "framework/torch.h"

#define TABLE_WORDS 256
#define CURRENT     "_ZN3c104cuda20CUDACachingAllocator9allocatorE"

/* As torch's own allocator does: the largest block that could be had now, or *LARGEST where that is more. */
static void cache_info(void *self, int8_t device, size_t *largest)
{
    size_t free_bytes = 0, total = 0;
    struct vs_arena_stats stats = {0};
    if (device >= 0 && device < VS_SERVED_DEVICES && vs_served_in()) {
        struct vs_arena *arena = vs_served_arena(&vs_served[device]);
        if (arena)
            vs_arena_stats(arena, &stats);
        vs_served_out();
    }
    if (*largest == 0)
        vs_drv_cuMemGetInfo_v2(&free_bytes, &total);
    free_bytes += stats.idle;
    if (free_bytes > *largest)
        *largest = free_bytes;
}

/* Whether it is too late for another allocator. */
static bool initialized(void *self)
{
    for (int i = 0; i < VS_SERVED_DEVICES; i++)
        if (vs_served_arena(&vs_served[i]) || vs_served_refused(&vs_served[i]))
            return true;
    return false;
}

static bool replace(void **table, size_t words, void *theirs, void *ours)
{
    size_t found = 0;
    for (size_t i = 2; i < words && theirs; i++)
        if (table[i] == theirs) {
            table[i] = ours;
            found++;
        }
    return found == 1;
}

/* Torch before 2.5 asks the runtime for the handle itself: it has no shareIpcHandle. */
static bool replace_sharing(void **table, size_t words)
{
    const char *why = NULL;
    void *receive = vs_torch_share_prove(&why), *share = vs_torch_pluggable("_Z", "14shareIpcHandleEPv");
    if (receive && (!replace(table, words, receive, (void *)vs_torch_receive) ||
                    (share && !replace(table, words, share, (void *)vs_torch_share))))
        why = "its functions for that are not in its table, or not once";
    if (why)
        return vs_contract_broken(VS_CONTRACT_TORCH_SHARING, "%s", why);
    vs_contract_proven(VS_CONTRACT_TORCH_SHARING, "a string gave back what it was given");
    return true;
}

/* Two words stand before the functions: where the whole object begins, and its type.  NULL: it is so. */
static const char *look_at(void ***object, void **table, size_t words)
{
    if (!object || !table)
        return "its allocator or the class of it is not to be found";
    if (words < 3 || words > TABLE_WORDS || table[0] || !vs_cxx_is_code(table + 2, words - 2))
        return "the class's table is not a list of functions";
    if (!vs_readable((uintptr_t)object) || *object != table + 2)
        return "its allocator does not begin with the class's table";
    return NULL;
}

/* The object that torch made for us gets a copy of its class's virtual table in which our functions stand,
 * found by the addresses of torch's exported ones.  Where the class, the table or one of the first two is not
 * what is expected, all stays as it is, and without the last one so does sharing. */
static const char *complete(void ***object, void **table, int *done)
{
    static void *copy[TABLE_WORDS];
    size_t words = table ? vs_cxx_table_words(table) : 0;
    const char *why = look_at(object, table, words);
    if (why)
        return why;
    memcpy(copy, table, words * sizeof *copy);
    if (!replace(copy, words, vs_torch_pluggable("_Z", "9cacheInfoEaPm"), (void *)cache_info) ||
        !replace(copy, words, vs_torch_pluggable("_Z", "11initializedEv"), (void *)initialized))
        return "cacheInfo or initialized is not in its table, or not once";
    *done = VS_TORCH_ANSWERS | (replace_sharing(copy, words) ? VS_TORCH_SHARES : 0);
    *object = copy + 2;
    return NULL;
}

int vramscope_torch_complete(void)
{
    int done = 0;
    void *c10 = vs_torch_library("libc10_cuda"), ****current = c10 ? dlsym(c10, CURRENT) : NULL;
    dlerror(); /* the host must not find what was not found here */
    const char *why = complete(current ? *current : NULL, vs_torch_pluggable("_ZTV", "E"), &done);
    if (why)
        vs_contract_broken(VS_CONTRACT_TORCH_TABLE, "%s", why);
    else
        vs_contract_proven(VS_CONTRACT_TORCH_TABLE, "its allocator's table has each function once");
    return done;
}
