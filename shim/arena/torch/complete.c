/*
 * complete.c - the answers that torch's interface for allocators cannot be given a function for.
 *
 *      cacheInfo     what there is to be had: cudnn's search for the fastest convolution asks for it
 *                    (torch.backends.cudnn.benchmark), and torch's CUDAPluggableAllocator throws
 *      initialized   always true there, so that a program which sets an allocator of its own would be refused
 *      shareIpcHandle, getIpcDevPtr   tensors in other processes (share.c): both throw there
 *
 * The object that torch made for us gets a virtual table of its own: a copy of its class's in which these
 * functions are replaced.  They are found by the addresses of torch's exported ones, so nothing is assumed of
 * the order; where the class, the table or one of the first two is not what is expected, all stays as it is,
 * and without the last one so does sharing.
 */
#define _GNU_SOURCE
#include "torch.h"

#include "framework/torch.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define TABLE_WORDS 256
#define STRING      "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define CLASS       "N5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator"

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

static size_t words_of(void *table)
{
    Dl_info info;
    ElfW(Sym) *symbol = NULL;
    if (!dladdr1(table, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol || info.dli_saddr != table)
        return 0;
    return symbol->st_size / sizeof(void *);
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

/* A function of the class in the library, by its mangled name less the class's. */
static void *of_class(void *library, const char *name)
{
    char whole[256];
    snprintf(whole, sizeof whole, "_Z" CLASS "%s", name);
    return dlsym(library, whole);
}

/* Torch before 2.5 asks the runtime for the handle itself: it has no shareIpcHandle. */
static bool replace_sharing(void **table, size_t words, void *torch)
{
    void *share = of_class(torch, "14shareIpcHandleEPv");
    return replace(table, words, of_class(torch, "12getIpcDevPtrE" STRING), (void *)vs_torch_receive) &&
           (!share || replace(table, words, share, (void *)vs_torch_share));
}

/* Two words stand before the functions: where the whole object begins, and its type. */
static int complete(void ***object, void **table, void *torch)
{
    static void *copy[TABLE_WORDS];
    size_t words = words_of(table);
    if (words < 3 || words > TABLE_WORDS || *object != table + 2)
        return 0;
    memcpy(copy, table, words * sizeof *copy);
    if (!replace(copy, words, of_class(torch, "9cacheInfoEaPm"), (void *)cache_info) ||
        !replace(copy, words, of_class(torch, "11initializedEv"), (void *)initialized))
        return 0;
    int shares = replace_sharing(copy, words, torch) ? VS_TORCH_SHARES : 0;
    *object = copy + 2;
    return VS_TORCH_ANSWERS | shares;
}

int vramscope_torch_complete(void)
{
    void *c10 = vs_torch_library("libc10_cuda"), *torch = vs_torch_library("libtorch_cuda");
    void ****current = c10 ? dlsym(c10, "_ZN3c104cuda20CUDACachingAllocator9allocatorE") : NULL;
    void **table = torch ? dlsym(torch, "_ZTV" CLASS "E") : NULL;
    int done = current && *current && table ? complete(*current, table, torch) : 0;
    dlerror(); /* the host must not find what was not found here */
    return done;
}
