/*
 * sim.h - inside the simulated CUDA driver (libcuda.so.1 of the tests and of the quickstart without a GPU).
 *
 * "Device memory" is host memory under the same address.  What the driver promises about it (capacity,
 * ownership, mappings, reference counts, error codes) is kept; device code is refused (but see kernel.c),
 * or in dry mode computes nothing.  One mutex guards everything: every exported function begins with
 * SIM_CALL, which takes it.
 */
#ifndef DRY_DRIVER_SIM_H
#define DRY_DRIVER_SIM_H

#define __CUDA_API_VERSION_INTERNAL /* the header declares every variant under its own name */
#include <cuda.h>
#include <cudaTypedefs.h>
#include "newer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_API __attribute__((visibility("default")))

#define FN(base, version, symbol) extern SIM_API __typeof__(*(PFN_##base##_v##version)0) symbol;
#define PT(base, version, suffix, symbol)                                                                    \
    extern SIM_API __typeof__(*(PFN_##base##_v##version##_##suffix)0) symbol;
#include "functions.def"
#undef FN
#undef PT
SIM_API int simcuda_version(void);
SIM_API int simcuda_dry(void); /* 1 in dry mode */
/* What the simulated device's memory holds of this process, as a real driver's NVML would say; -1: no such
 * device. */
SIM_API long long simcuda_used_bytes(int device);
SIM_API long long simcuda_capacity_bytes(int device);
SIM_API int simcuda_contexts(int device);         /* alive there; NVML lists the process where there is one */
SIM_API unsigned long simcuda_faults_given(void); /* injected ones, so far */
/* CONTEXT's work takes until it is no longer BUSY: meanwhile who waits for it waits, and what is recorded in
 * it is not reached. */
SIM_API CUresult simcuda_busy(CUcontext context, int busy);
enum { SIM_ASKS_PROGRAM, SIM_ASKS_ALLOCATOR, SIM_ASKS_LOOKS };
SIM_API void simcuda_asks(int who);                     /* what this thread asks next: work.c */
SIM_API unsigned long simcuda_waits(CUcontext context); /* how often it was waited for, so far */
/* These answer also before cuInit. */
SIM_API int simcuda_device_count(void);
SIM_API void simcuda_pass_numbers(void *state, uint64_t count); /* numbers.c */
/* READER is told of single numbers that a thread has read from the device; NULL: nobody is (dry.c). */
SIM_API void simcuda_on_read(void (*reader)(void *to, size_t size));
SIM_API int simcuda_machine_devices(void);       /* those that the process does not see, too */
SIM_API int simcuda_ordinal(int machine_device); /* -1: not seen */
SIM_API int simcuda_attribute(int attribute, int device);
SIM_API const char *simcuda_card_name(void); /* as the driver says it */
SIM_API const char *simcuda_card_key(void);  /* of cards.def */
SIM_API int simcuda_card_measured(void); /* whether its memory, context and code were read off a real one */

#define SIM_VERSION     1
#define SIM_CUDA        13050
#define SIM_MAX_DEVICES 16
#define SIM_GRANULARITY (2ull << 20)

/* ---- calls (fault.c) ---- */

struct sim_point { /* one exported function */
    const char *name;
    unsigned long calls;
    bool known; /* whether `faults` were looked up */
    int faults; /* index of its first injected fault, -1 none */
};
struct sim_scope {
    CUresult result;
    bool locked;
    int saved_errno;
};
enum sim_needs { SIM_NOTHING, SIM_INITIALIZED, SIM_CONTEXT };

struct sim_scope sim_enter(struct sim_point *point, enum sim_needs needs);
void sim_leave(struct sim_scope *scope);
void sim_lock(void);
void sim_unlock(void);
void sim_wait(void); /* without the lock meanwhile, until somebody changes what one may wait for */
void sim_wake(void);
uint64_t sim_env_bytes(const char *name, uint64_t otherwise); /* 512, 64MiB, 4GiB, ... */

/* First statement of every exported function: takes the lock until the function returns. */
#define SIM_CALL(needs)                                                                                      \
    static struct sim_point sim_point_ = {.name = __func__, .faults = -1};                                   \
    __attribute__((cleanup(sim_leave))) struct sim_scope sim_scope_ = sim_enter(&sim_point_, needs);         \
    if (sim_scope_.result != CUDA_SUCCESS)                                                                   \
    return sim_scope_.result

/* NAME, and OTHER that does the same. */
#define SIM_SAME(name, other, needs, params, result)                                                         \
    CUresult name params                                                                                     \
    {                                                                                                        \
        SIM_CALL(needs);                                                                                     \
        return result;                                                                                       \
    }                                                                                                        \
    CUresult other params                                                                                    \
    {                                                                                                        \
        SIM_CALL(needs);                                                                                     \
        return result;                                                                                       \
    }

/* ---- ordered map of address ranges (range.c) ---- */

struct sim_range {
    uint64_t start, size;
    struct sim_range *left, *right;
    uint32_t priority;
};
struct sim_map {
    struct sim_range *root;
};
void sim_map_insert(struct sim_map *map, struct sim_range *range);
void sim_map_remove(struct sim_map *map, struct sim_range *range);
struct sim_range *sim_map_at(const struct sim_map *map, uint64_t address);   /* containing */
struct sim_range *sim_map_from(const struct sim_map *map, uint64_t address); /* first with start >= address */
bool sim_map_overlaps(const struct sim_map *map, uint64_t start, uint64_t size);

/* ---- devices and contexts ---- */

struct sim_pool;
struct sim_context {
    struct sim_context *next; /* all ever made; never freed, so a stale handle is told from a wild one */
    int device;
    bool primary, alive;
    unsigned long busy;           /* with the how-manieth piece of work; 0: with none */
    unsigned long launches, done; /* of kernels, and of these surely done: work.c */
    unsigned asked, watched;      /* in a row, whether something is done that is not */
    unsigned long begun, waits;
    unsigned references, flags, api_version;
    unsigned long long id;
    uint64_t cost, code_cost;     /* bytes taken from the device */
    struct sim_context *green_of; /* of a green context: the primary one that everything in it belongs to */
    size_t limits[CU_LIMIT_MAX];
    uint64_t limit_cost; /* bytes that limits above their defaults take */
};
struct sim_device {
    uint64_t capacity, used;
    struct sim_context primary;
    struct sim_pool *default_pool, *pool;
    bool peers[SIM_MAX_DEVICES];
};
extern struct sim_device sim_devices[SIM_MAX_DEVICES];
extern int sim_device_count;

bool sim_initialized(void);
bool sim_shut_down(void);
bool sim_forked(
    void); /* a fork child of a process that had called cuInit: nothing works, as with the real one */
bool sim_valid_device(CUdevice device);
void sim_visible_fix(void);                  /* visible.c: from now on the same devices are seen */
int sim_physical(int device);                /* visible.c: its number in the machine */
bool sim_charge(int device, uint64_t bytes); /* false: out of memory */
void sim_uncharge(int device, uint64_t bytes);

CUresult sim_context_check(void); /* of the calling thread's current context */
struct sim_context *sim_context_current(void);
struct sim_context *sim_context_owner(void);          /* to whom what is allocated now belongs */
struct sim_context *sim_context_of(CUcontext handle); /* NULL: no such context */
CUresult sim_primary_retain(int device);
CUresult sim_primary_release(int device);
struct sim_context *sim_context_new_green(int device); /* NULL: out of memory */
void sim_context_wait(struct sim_context *context);    /* for its work */
void sim_work_launched(struct sim_context *context);
/* BYTES are copied; the time, ns, that events of the device have: by the clock, or by what it was given. */
void sim_work_copied(uint64_t bytes);
uint64_t sim_work_ns(void);
void sim_work_wait(struct sim_context *context, unsigned long launch);
bool sim_work_is_done(struct sim_context *context, unsigned long launch);
void sim_context_end(struct sim_context *context); /* frees what it owned */

/* limits.c */
void sim_limits_init(struct sim_context *context);

/* ---- memory ---- */

enum sim_kind {
    SIM_DEVICE,
    SIM_MANAGED,
    SIM_PINNED,
    SIM_REGISTERED,
    SIM_POOLED,
    SIM_MAPPING,
    SIM_IMPORTED,
    SIM_GRAPH,
    SIM_GLOBAL
};

struct sim_block { /* an allocation or mapping, by address */
    struct sim_range range;
    enum sim_kind kind;
    int device;
    struct sim_context *owner;       /* dies with it; NULL: none */
    unsigned flags;                  /* of cuMemHostAlloc, cuMemHostRegister, widest access of a mapping */
    uint8_t access[SIM_MAX_DEVICES]; /* of a mapping, from each device: PROT_* */
    unsigned long long id;
    void *detail; /* SIM_DEVICE: chunk or NULL; SIM_POOLED: struct piece (pool.h); SIM_MAPPING: struct
                     sim_phys; SIM_IMPORTED: struct sim_import; SIM_GRAPH: struct sim_graph_memory */
};
extern struct sim_map sim_blocks;

struct sim_block *sim_block_find(uint64_t address); /* containing address, or NULL */
struct sim_block *sim_block_add(uint64_t address, uint64_t size, enum sim_kind kind, int device);
void sim_block_drop(struct sim_block *block); /* out of the map, freed */
CUresult sim_block_free(struct sim_block *block);
void sim_blocks_free_of(struct sim_context *owner);
bool sim_freeable(const struct sim_block *block); /* by cuMemFree */
/* Whether [address, +size) may be read (and written), all of it within known memory */
bool sim_accessible(uint64_t address, uint64_t size, bool write);

/* backing.c: SIZE bytes of DEVICE's memory; 0: out of memory.  *DETAIL goes back to sim_backing_free. */
uint64_t sim_backing_alloc(int device, uint64_t size, void **detail);
void sim_backing_free(int device, uint64_t address, uint64_t size, void *detail);
/* The whole pages that BLOCK of cuMemAlloc lies in. */
void sim_backing_region(const struct sim_block *block, uint64_t *start, uint64_t *size);
uint64_t sim_map_pages(uint64_t size, uint64_t alignment, int protection, int flags); /* 0 on failure */
uint64_t sim_round(uint64_t size, uint64_t to);

/* pool.c */
void sim_pools_init(void);
void sim_pools_synchronize(int device);
void sim_pools_end(int device); /* nothing is left in any of its pools */
CUresult sim_pool_free(struct sim_block *block);
CUmemoryPool sim_pool_of(const struct sim_block *block);

/* vmm.c, vmm_map.c */
struct sim_phys {
    struct sim_range range; /* start = handle */
    uint64_t size;
    int device; /* -1: on the host */
    unsigned references, mappings;
    uint64_t pages; /* a PROT_NONE mapping of all of it, that the others are duplicated from */
    int fd;         /* -1: not exportable */
    bool imported;
    struct sim_multicast *multicast; /* what a multicast object has bound; NULL: it is none */
    CUmemAllocationProp prop;
};
struct sim_phys *sim_phys_find(CUmemGenericAllocationHandle handle);
void sim_phys_unref(struct sim_phys *phys);           /* frees it once nothing refers to it */
struct sim_phys *sim_phys_new(uint64_t size, int fd); /* one reference; fd -1: without a descriptor */
int sim_shareable_file(uint64_t size);
bool sim_copy_pages(int fd, uint64_t start, uint64_t size); /* share.c: into a file */
bool sim_mappings_share(
    struct sim_phys *phys); /* they get the pages that it has now, with what was in them */
void sim_multicast_end(struct sim_multicast *multicast);
/* Whether SIZE bytes at OFFSET are whole granules within ROOM. */
bool sim_aligned_within(uint64_t offset, uint64_t size, uint64_t room);

/* array.c */
void sim_arrays_free_of(struct sim_context *owner);
CUresult sim_array_import(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels,
                          int device, uint64_t room);

/* graph_memory.c: nothing is left of its graphs' memory */
void sim_graph_memory_end(int device);

/* external.c, module.c */
void sim_externals_free_of(struct sim_context *owner);
void sim_modules_free_of(struct sim_context *owner);

/* kernel.c */
void sim_kernels_gone(uint64_t owner); /* a module or library is unloaded */

/* stream.c */
bool sim_valid_stream(CUstream stream);
bool sim_stream_blocking(CUstream stream); /* it waits for the legacy default stream */
int sim_stream_device(CUstream stream);    /* of a valid one */
void sim_streams_free_of(struct sim_context *owner);
CUresult sim_event_new(CUevent *out, unsigned flags);
bool sim_event_shareable(CUevent event);

/* dry.c: dry mode (SIMCUDA_DRY=1), in which any kernel can be launched and computes nothing, and bytes that
 * no small read asks for are not kept, so that programs of any size run in little memory. */
bool sim_dry(void);
/* Whether a copy or fill of SIZE bytes keeps them: always outside dry mode. */
bool sim_keeps(uint64_t size);
/* [ADDRESS, +SIZE) reads as zeros from now on, without taking memory where that can be had. */
void sim_forget(uint64_t address, uint64_t size);

/* A read is noted under the lock, told without it. */
void sim_note_read(uint64_t to, uint64_t from, size_t size);
void sim_tell_read(void);

/* room.c: addresses of device memory, SIZE of them at a multiple of ALIGNMENT; 0: there are none.  HINT may
 * be 0. */
uint64_t sim_room_take(uint64_t size, uint64_t alignment, uint64_t hint, int protection);
void sim_room_give(uint64_t address, uint64_t size);
void sim_room_protect(uint64_t address, uint64_t size); /* takes the access back; its bytes are gone */
void sim_room_private(uint64_t address, uint64_t size); /* a file was mapped there: no more, in dry mode */

/* cards.c: the GPU that is stood in for (cards.def) */
struct sim_card {
    const char *key, *synonyms; /* with commas between */
    const char *name;
    int capability; /* 90: 9.0 */
    int multiprocessors, l2, bus, clock, memory_clock, pci_device;
    uint64_t memory;
    int context_mib, code_mib;
    bool measured;
};
struct sim_capability {
    int capability, threads, blocks, shared, shared_of_block, doubles;
};

/* SIMCUDA_GPU's; without it the H200 in dry mode, else one of the driver's own that is no real one's.  An
 * unknown key ends the process: figures of another card than the one asked for would be false. */
const struct sim_card *sim_card(void);
bool sim_card_is_real(void); /* one of cards.def */
const struct sim_capability *sim_capability(void);

#endif
