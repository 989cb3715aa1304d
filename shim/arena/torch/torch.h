/*
 * torch.h - what the parts of PyTorch's pluggable allocator share.
 *
 *      torch ──▶ torch.c         malloc, free, record_stream, ...: the functions that torch is given
 *                pools.c   memory of graphs and of torch's MemPool: queues of their own
 *                counts.c  torch's statistics, and the events of its blocks
 *                raise.c   torch's own exceptions, thrown from C
 *                cxx.c     strings, tables and code of C++, looked at from C
 *                pluggable.c  whether torch takes these functions for what they are
 *                foreign.c   blocks that streams of other devices use
 *                complete.c  what the interface has no function for
 *                share.c     tensors that other processes open
 *
 * Whatever looks at an arena does so between vs_served_in and vs_served_out, and a fork's child does nothing.
 *
 * The functions are exported as vramscope_torch_*; framework/python/vramscope/_arena.py hands them to torch.
 * A device's arena is that of cuda/arenas.c: what else the program allocates on the device comes from the
 * same one.
 */
#ifndef VS_ARENA_TORCH_TORCH_H
#define VS_ARENA_TORCH_TORCH_H

#include "arena/cuda/serving.h"
#include "arena/share/share.h"
#include "abi.h"

/* ---- C++ as C finds it (cxx.c) ----
 *
 * libstdc++ has two kinds of std::string, which differ in size and layout and stand in the names of functions
 * that take one.  Both are made, filled, read and ended by functions of that library which every program that
 * has strings has, so nothing is taken for granted of how they lie.
 *
 * Any thread.  Takes the loader's lock; the host does not find in dlerror() what was not found here. */

/* A std::string: one word of the old kind, four of the new one. */
struct vs_cxx_string {
    uint64_t words[4];
};

/* How a kind is spelled in the names of functions, and its own functions. */
struct vs_cxx_kind {
    const char *type, *of, *of_const;
};
extern const struct vs_cxx_kind vs_cxx_kinds[2];

struct vs_cxx_strings {
    void (*begin)(struct vs_cxx_string *);
    struct vs_cxx_string *(*assign)(struct vs_cxx_string *, const char *, size_t);
    void (*end)(struct vs_cxx_string *);
    const char *(*data)(const struct vs_cxx_string *);
    size_t (*size)(const struct vs_cxx_string *);
};

/* The functions for strings of KIND that LIBRARY uses; false: they are not there, or do not give back what
 * they were given. */
bool vs_cxx_strings(struct vs_cxx_strings *s, void *library, const struct vs_cxx_kind *kind);
/* Makes a string at TO, which ends by the caller's C++ or by `end`.  May throw where the process has no
 * memory. */
void vs_cxx_string(const struct vs_cxx_strings *s, struct vs_cxx_string *to, const char *bytes, size_t n);

/* Whether each of the N addresses from FIRST on lies in code of a loaded object. */
bool vs_cxx_is_code(void *const *first, size_t n);
/* Whether TYPE is what C++ has of a class of that NAME, as it is mangled. */
bool vs_cxx_is_type(const void *type, const char *name);
/* The words of the virtual table at TABLE, by its symbol; 0: it has none. */
size_t vs_cxx_table_words(void *table);

/* ---- pools (pools.c) ---- */

struct vs_torch_pool;

/* How many pools take allocations now; atomic. */
extern uint32_t vs_torch_filters;
static inline bool vs_torch_filtering(void)
{
    /* relaxed: who begins a pool and allocates in another thread orders the two himself */
    return __builtin_expect(__atomic_load_n(&vs_torch_filters, __ATOMIC_RELAXED) != 0, 0);
}

/* The pool that what STREAM allocates on DEVICE belongs to now; NULL: none.  Calls torch: may throw. */
struct vs_torch_pool *vs_torch_pool_of(int device, CUstream stream);
/* SIZE bytes of the pool for work on STREAM. */
int vs_torch_pool_malloc(struct vs_served *s, struct vs_torch_pool *pool, CUstream stream, uint64_t size,
                         uint64_t *address);
/* The queue of the work on STREAM that uses the block at ADDRESS: the block's own, where it is a pool's block
 * that the stream was given; otherwise the stream's.  VS_ARENA_ANY: it is not known. */
uint32_t vs_torch_queue(struct vs_served *s, uint64_t address, CUstream stream);
/* Waits for the device and lets go of the pools that ended; whether there were any. */
bool vs_torch_pools_retire(struct vs_served *s);

/* ---- streams of other devices (foreign.c) ---- */

/* How many uses are remembered; atomic. */
extern uint32_t vs_torch_foreigns;
bool vs_torch_foreign(const struct vs_served *s, CUstream stream);
void vs_torch_foreign_use(struct vs_served *s, uint64_t address, CUstream stream);
/* Before the block is freed: waits for those that use it. */
void vs_torch_foreign_wait(struct vs_served *s, uint64_t address);

/* ---- statistics and events (counts.c) ---- */

/* RESERVED: what the device's arena holds then. */
void vs_torch_count(int device, uint64_t address, uint64_t size, bool more, CUstream stream,
                    uint64_t reserved);
void vs_torch_count_oom(int device, uint64_t size);
void vs_torch_count_retry(int device);
/* Bytes that torch has allocated on the device. */
uint64_t vs_torch_allocated(int device);

/* ---- other processes (share.c) ---- */

struct shareable;
struct shared_pointer;
/* torch's own getIpcDevPtr, where its strings and shared pointers are what ours are taken for; NULL: *WHY
 * not. Before the two that follow are in place. */
void *vs_torch_share_prove(const char **why);
/* In the place of the virtual functions shareIpcHandle and getIpcDevPtr of torch's allocator. */
struct shareable *vs_torch_share(struct shareable *out, void *self, void *address);
struct shared_pointer *vs_torch_receive(struct shared_pointer *out, void *self,
                                        const struct vs_cxx_string *text);
/* torch.c: the device's primary context, made if need be, and one reference of ours on it; NULL: there is
 * none */
CUcontext vs_torch_primary(int device);

/* ---- errors (raise.c) ---- */

/* Looks what torch's errors are made with, before it is given the arena.  NULL: out of memory can be thrown;
 * otherwise the reason why not. */
const char *vs_torch_raise_prove(void);

/* These return in a process without torch alone. */

/* Throws torch.OutOfMemoryError with MESSAGE. */
void vs_torch_raise_oom(const char *message);
/* Throws what torch's own allocator throws where the runtime gave it STATUS. */
void vs_torch_raise(CUresult status);
/* Throws a RuntimeError. */
void vs_torch_raise_text(const char *message);

/* ---- the class (pluggable.c) ---- */

/* A function or table of torch's CUDAPluggableAllocator: BEFORE and AFTER are what the class's name stands
 * between, as it is mangled.  NULL: there is none. */
void *vs_torch_pluggable(const char *before, const char *after);

#endif
