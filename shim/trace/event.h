/*
 * event.h - the event: one thing that happened, and a slot of the journal's ring.  Everything else is derived
 * from it.
 *
 * Units: bytes, nanoseconds of CLOCK_MONOTONIC.  Fields are as the machine has them, little endian: a journal
 * is read on the machine that wrote it.  Shim, analyzer and tests share this header; it needs no header of
 * CUDA or SQLite.
 */
#ifndef VS_TRACE_EVENT_H
#define VS_TRACE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "roles.h"

/* Which driver the process runs on: process.simulated. */
enum vs_driver { VS_DRIVER_REAL, VS_DRIVER_SIMULATED, VS_DRIVER_DRY };

/* What happened.  The numbers are part of the journal format and of the database: append, never renumber.
 * Meaning of address / size / arg0 / arg1 per kind stands beside it ("-" = 0).
 * `api` is the row of driver.def that made the event (enum vs_api), so that a list of events says which entry
 * point was called.  X(number, NAME, "name as the database shows it") */
#define VS_OPS(X)                                                                                            \
    /* driver memory with an address: address, size, arg0 = stream (0: none), arg1 = api | VS_CALLED_BY */   \
    X(1, ALLOC, "alloc")                                                                                     \
    /* address, size 0 (the ledger pairs it), arg0 = stream, arg1 = api; appended BEFORE the real call    */ \
    X(2, FREE, "free")                                                                                       \
    /* the free whose ring sequence is in arg0 failed with `status`: its bytes count again */                \
    X(3, FREE_FAILED, "free_failed")                                                                         \
    /* physical VMM memory: address = handle, size, arg0 = location type << 32 | location id, arg1 = api |   \
     * VS_CALLED_BY */                                                                                       \
    X(4, PHYS_CREATE, "phys_create")                                                                         \
    /* address = handle, arg1 = api; one more reference (RetainAllocationHandle, Import); arg0 = the VA */   \
    X(5, PHYS_RETAIN, "phys_retain")                                                                         \
    /* address = handle, arg1 = api; one reference less; appended before the real call */                    \
    X(6, PHYS_RELEASE, "phys_release")                                                                       \
    /* address = VA, size, arg0 = handle, arg1 = offset into the physical allocation */                      \
    X(7, MAP, "map")                                                                                         \
    /* address = VA, size, arg1 = api; appended before the real call */                                      \
    X(8, UNMAP, "unmap")                                                                                     \
    X(9, VA_RESERVE, "va_reserve")  /* address, size, arg1 = api */                                          \
    X(10, VA_FREE, "va_free")       /* address, size, arg1 = api */                                          \
    X(11, SET_ACCESS, "set_access") /* address, size, arg0 = number of descriptors, arg1 = api */            \
    /* a pool's reserved bytes, queried from the driver: address = pool handle, size = those bytes, */       \
    /* arg0 = bytes used.  A sample, and labelled so */                                                      \
    /* (a device's graph memory: address = VS_GRAPH_POOL of the device, space GRAPH) */                      \
    X(12, POOL_RESERVED, "pool_reserved")                                                                    \
    /* a memory node was added to a graph, by hand or by capture; changes no total.  address, size (0: a     \
     * free node), arg0 = graph or captured stream, arg1 = api */                                            \
    X(13, GRAPH_NODE, "graph_node")                                                                          \
    /* physical memory (arg0 = handle) bound into an object without an address: a sparse array or a          \
     * multicast object.  address = the object, size, arg1 = the place in it (a key, equal for the same      \
     * place).  Like a mapping it keeps the memory alive */                                                  \
    X(14, BIND, "bind")                                                                                      \
    X(15, UNBIND, "unbind") /* address = object, size, arg1 = key; appended before the real call */          \
    /* address = CUcontext, device, arg0 = enum vs_context_kind, arg1 = api, size = device bytes that its    \
     * creation took, by the change of the driver's own figure (VS_BYTES_UNKNOWN: no figure) */              \
    X(16, CONTEXT_CREATE, "context_create")                                                                  \
    /* address = CUcontext, arg1 = api; appended before the real call, ends what the context owned */        \
    X(17, CONTEXT_DESTROY, "context_destroy")                                                                \
    /* code and its static data.  address = CUmodule or CUlibrary, arg0 = bytes of the image where known,    \
     * size = device bytes that the load took (VS_BYTES_UNKNOWN as above), arg1 = api */                     \
    X(18, MODULE_LOAD, "module_load")                                                                        \
    X(19, MODULE_UNLOAD, "module_unload") /* address, arg1 = api; appended before the real call */           \
    /* framework caching allocator: address, size = the block's bytes, arg0 / arg1 = the framework's own     \
     * allocated / reserved totals after the event, as passed with the report; space ARENA: a block of our   \
     * own allocator's, and arg1 = stream.  arg0 VS_BYTES_UNKNOWN: nobody said the totals, and arg1 = stream \
     * Else `context` of what is asked for is the number of its stream, 0: unknown (framework/torch.h).      \
     * An allocation and an OOM have the id of what was asked for in status and the upper bits of arg1       \
     * (vs_event_tensor) */                                                                                  \
    X(20, BLOCK_ALLOC, "block_alloc")                                                                        \
    X(21, BLOCK_FREE, "block_free")                                                                          \
    X(22, BLOCK_OOM, "oom") /* size = bytes requested, arg0 / arg1 as above */                               \
    /* a limit of the context was set: address = CUlimit, arg0 = its new value, size = device bytes by which \
     * the driver's figure moved (two's complement; VS_BYTES_UNKNOWN as above), arg1 = api */                \
    X(23, LIMIT, "limit")                                                                                    \
    /* the driver's figure for this process moved by `size` (two's complement) across a call that allocates  \
     * nothing: address = its object (function, stream, library, ...), arg0 = enum vs_overhead, arg1 = api   \
     */                                                                                                      \
    X(24, OVERHEAD, "overhead")                                                                              \
    /* the physical memory that the device's arena holds, exactly: size = those bytes, arg0 = of them idle,  \
     * arg1 = those of blocks that were freed and are not yet reusable; address = bytes of blocks that are   \
     * away, on the host and in no figure here.  Recorded before the event of a block that needed it, after  \
     * frees, and when memory went away or came back */                                                      \
    X(25, ARENA_RESERVED, "arena_reserved")                                                                  \
    /* the arena's figures at a moment, in several events: range = number of the sample, stack = which part, \
     * address, size, arg0, arg1 = figures 4 * part to 4 * part + 3 of enum vs_arena_figure.  No row of ev   \
     */                                                                                                      \
    X(26, ARENA_FIGURES, "arena_figures")                                                                    \
    /* the block freed just before is still in use by another stream: its bytes count as freed, and are not  \
     * to be had before BLOCK_REUSABLE, which only imported traces have, or before EVENT_DONE of arg0.       \
     * address; arg0 = the CUDA event that the allocator recorded there (0: imported), one row each */       \
    X(27, BLOCK_DEFERRED, "block_deferred")                                                                  \
    X(28, BLOCK_REUSABLE, "block_reusable") /* address: those streams are done with it */                    \
    X(29, EVENT_DONE, "event_done")         /* the allocator saw that its event was over: address = event */ \
    /* range = its id; address = id of its name; size = id of its NVTX domain's name (0: none); */           \
    /* arg0 = parent range id on the same thread; arg1 = enum vs_range_source | VS_RANGE_* flags; */         \
    /* stack = id of the phase that it names where that is not its own name (0: it is) */                    \
    X(30, RANGE_PUSH, "range_push")                                                                          \
    X(31, RANGE_POP, "range_pop") /* range = the id that closes; the thread may be another (start/end) */    \
    X(32, MARK, "mark")           /* address = id of its name, size = domain, arg1 = source */               \
    /* one training iteration ends here; arg0 = how many that ended before it have no event */               \
    X(33, STEP, "step")                                                                                      \
    X(34, RECORD_START, "record_start")                                                                      \
    X(35, RECORD_STOP, "record_stop")                                                                        \
    /* the program asks PyTorch's allocator to give back what is cached; recorded before the call */         \
    X(36, EMPTY_CACHE, "empty_cache")                                                                        \
    X(37, MEMORY_LIMIT, "memory_limit") /* size = bytes that PyTorch's allocator may hold from here on */    \
    /* requests of the thread go to a private pool of PyTorch's allocator from here on; address = its number \
     * (arg0: 0, or of any thread on a stream that is captured, twice that stream's number, and 1); its call \
     * stack is that of what made the pool, or captures into it */                                           \
    X(38, POOL_BEGIN, "pool_begin")                                                                          \
    X(39, POOL_END, "pool_end") /* address: no more */                                                       \
    /* size = driver's used bytes, arg0 = enum vs_sample_source, arg1 = host RSS bytes, */                   \
    /* address = pinned bytes */                                                                             \
    X(40, SAMPLE, "sample")                                                                                  \
    /* a library's own pool as it reports itself: address = id of the library's name, size = bytes in use,   \
     * arg0 = the most so far (VS_BYTES_UNKNOWN: not reported), arg1 = bytes that it holds (likewise).       \
     * No row of ev */                                                                                       \
    X(41, POOL_USE, "pool_use")                                                                              \
    /* what a framework says that blocks are for: address, size, arg0 = where they begin (0: none), arg1 =   \
     * enum vs_role.  No row of ev */                                                                        \
    X(42, FRAMEWORK_ROLE, "framework_role")                                                                  \
    /* what a framework says of itself: address, size = ids of the strings that are key and value of table   \
     * meta.  No row of ev */                                                                                \
    X(43, FRAMEWORK_FACT, "framework_fact")                                                                  \
    /* PyTorch's record_stream: a stream other than its own uses the block, whose free will wait for it.     \
     * address, arg0 = that stream's number */                                                               \
    X(44, BLOCK_SHARED, "block_shared")                                                                      \
    /* of the arena's block at address, size bytes are on the host from here on (0: it is back), for the     \
     * reason arg0 (enum vs_away_why).  address 0: of all its blocks on the device.  arg1 = ns that the      \
     * program waited for such blocks so far, by the device's clock (VS_BYTES_UNKNOWN: unknown) */           \
    X(45, BLOCK_AWAY, "block_away")                                                                          \
    /* made by the ledger only: a direct driver allocation turned out to be managed; address, size */        \
    X(50, RECLASSIFY, "reclassify")                                                                          \
    /* made by the ledger only: physical VMM memory went away because its last mapping did (an unmap may end \
     * several); address = handle, size */                                                                   \
    X(51, PHYS_FREED, "phys_freed")                                                                          \
    /* made by the ledger only: an address was handed out again, so the free of its last block was missed */ \
    X(52, FREE_MISSED, "free_missed")                                                                        \
    /* made by the ledger only: an allocation ended with its context; address, size */                       \
    X(53, CONTEXT_FREED, "context_freed")

enum vs_op {
    VS_OP_NONE = 0,
#define X(n, NAME, text) VS_OP_##NAME = n,
    VS_OPS(X)
#undef X
};

/* What the device was given (trace/access.h): only in the ring, never in the database. */
#define VS_OP_USE 60

/* What a framework's block was asked for as (framework/tensors.h).  Part of the format. */
enum vs_tensor_kind {
    VS_TENSOR_WHOLE = 1,   /* a tensor: its bytes, element type and shape are known */
    VS_TENSOR_STORAGE = 2, /* a storage that was resized: its bytes are known */
    VS_TENSOR_RAW = 3,     /* no tensor: somebody asked the allocator for bytes, how many is not known */
    VS_TENSOR_SIZED = 4 /* as many bytes as the block's size says, in a trace that has requests for sizes */
};

/* Element types as PyTorch numbers them (c10/core/ScalarType.h; later versions append).  X(number, "name",
 * bytes of an element).  Types below a byte in size are stored in one. */
#define VS_ELEMENT_TYPES(X)                                                                                  \
    X(0, "uint8", 1)                                                                                         \
    X(1, "int8", 1)                                                                                          \
    X(2, "int16", 2)                                                                                         \
    X(3, "int32", 4)                                                                                         \
    X(4, "int64", 8)                                                                                         \
    X(5, "float16", 2)                                                                                       \
    X(6, "float32", 4)                                                                                       \
    X(7, "float64", 8)                                                                                       \
    X(8, "complex32", 4)                                                                                     \
    X(9, "complex64", 8)                                                                                     \
    X(10, "complex128", 16)                                                                                  \
    X(11, "bool", 1)                                                                                         \
    X(12, "qint8", 1)                                                                                        \
    X(13, "quint8", 1)                                                                                       \
    X(14, "qint32", 4)                                                                                       \
    X(15, "bfloat16", 2)                                                                                     \
    X(16, "quint4x2", 1)                                                                                     \
    X(17, "quint2x4", 1)                                                                                     \
    X(18, "bits1x8", 1)                                                                                      \
    X(19, "bits2x4", 1)                                                                                      \
    X(20, "bits4x2", 1)                                                                                      \
    X(21, "bits8", 1)                                                                                        \
    X(22, "bits16", 2)                                                                                       \
    X(23, "float8_e5m2", 1)                                                                                  \
    X(24, "float8_e4m3fn", 1)                                                                                \
    X(25, "float8_e5m2fnuz", 1)                                                                              \
    X(26, "float8_e4m3fnuz", 1)                                                                              \
    X(27, "uint16", 2)                                                                                       \
    X(28, "uint32", 4)                                                                                       \
    X(29, "uint64", 8)                                                                                       \
    X(30, "uint1", 1)                                                                                        \
    X(31, "uint2", 1)                                                                                        \
    X(32, "uint3", 1)                                                                                        \
    X(33, "uint4", 1)                                                                                        \
    X(34, "uint5", 1)                                                                                        \
    X(35, "uint6", 1)                                                                                        \
    X(36, "uint7", 1)                                                                                        \
    X(37, "int1", 1)                                                                                         \
    X(38, "int2", 1)                                                                                         \
    X(39, "int3", 1)                                                                                         \
    X(40, "int4", 1)                                                                                         \
    X(41, "int5", 1)                                                                                         \
    X(42, "int6", 1)                                                                                         \
    X(43, "int7", 1)                                                                                         \
    X(44, "float8_e8m0fnu", 1)                                                                               \
    X(45, "float4_e2m1fn_x2", 1)                                                                             \
    X(46, "bcomplex32", 4)

/* Where memory lives.  Only DEVICE, POOL, ARRAY, GRAPH and ARENA count into the device's totals. */
#define VS_SPACES(X)                                                                                         \
    X(0, NONE, "none")                                                                                       \
    X(1, DEVICE, "device")                                                                                   \
    X(2, POOL, "pool")             /* stream-ordered allocation out of a memory pool, on the device */       \
    X(3, MANAGED, "managed")       /* cuMemAllocManaged: migrates */                                         \
    X(4, PINNED, "pinned")         /* page-locked host memory that the driver allocated */                   \
    X(5, REGISTERED, "registered") /* the host's own pages, page-locked by cuMemHostRegister */              \
    X(6, HOST_VMM, "host_vmm")     /* VMM physical memory located on the host */                             \
    X(7, IMPORTED, "imported")     /* memory of another process or API; never counted here */                \
    X(8, ADDRESS, "address")       /* reserved address space: no memory behind it */                         \
    X(9, ARRAY, "array")           /* a CUDA array or mipmapped array; its address is the handle */          \
    X(10, GRAPH, "graph")          /* allocated by a graph's memory node, alive beyond its launch */         \
    X(11, MULTICAST,                                                                                         \
      "multicast")        /* a multicast object: an address for several devices' memory, none of its own */  \
    X(12, ARENA, "arena") /* a block of the arena's, out of memory that it holds */

enum vs_space {
#define X(n, NAME, text) VS_SPACE_##NAME = n,
    VS_SPACES(X)
#undef X
};

/* Whose code requested driver memory, as far as the call's return address shows it (hooks/caller.c): in the
 * upper bits of arg1, whose lower 16 are the api. */
enum vs_caller {
    VS_CALLER_UNKNOWN = 0,
    VS_CALLER_CARVER = 1, /* a caching allocator that reports its blocks: all its requests are managed */
    VS_CALLER_POOL = 2 /* a library whose pool reports nothing: its memory is reserved, how much of it is used
                          is unknown */
};
#define VS_CALLED_BY(caller) ((uint64_t)(caller) << 16)
#define VS_CALLER_OF(arg1)   ((enum vs_caller)((arg1) >> 16 & 0xff))

enum vs_range_source { VS_SOURCE_MARKER = 1, VS_SOURCE_NVTX = 2, VS_SOURCE_AUTO = 3 };
#define VS_RANGE_SOURCE_MASK  0xfu
#define VS_RANGE_NAMES_PHASE  0x10u /* the range's name is the phase of what happens inside */
#define VS_RANGE_CROSS_THREAD 0x20u /* start/end: not on any thread's stack, names no phase */

enum vs_sample_source {
    VS_SAMPLE_NVML_PROCESS = 1, /* NVML's figure for this pid */
    VS_SAMPLE_MEMINFO = 2,      /* cuMemGetInfo: total - free of the whole device, other processes included */
    VS_SAMPLE_NVML_DEVICE = 3,  /* NVML's figure for the whole device */
    VS_SAMPLE_OOM = 4, /* cuMemGetInfo right after the driver refused memory, on the refused thread; address =
                          free bytes.  It belongs to that out-of-memory, not to the curve */
    VS_SAMPLE_OOM_PROCESS = 5 /* NVML's figure for this pid, queried right after VS_SAMPLE_OOM */
};

/* Why a block is on the host.  Part of the format. */
enum vs_away_why { VS_AWAY_PARKED = 1, VS_AWAY_SUSPENDED = 2, VS_AWAY_SPILLED = 3, VS_AWAY_WHYS };

enum vs_context_kind { VS_CONTEXT_PRIMARY = 1, VS_CONTEXT_CREATED = 2, VS_CONTEXT_GREEN = 3 };

/* What took device memory that no call requested.  X(number, NAME, "name as reports show it") */
#define VS_OVERHEADS(X)                                                                                      \
    X(1, CODE, "code")     /* kernels and static data loaded at first use, the kernels' local memory */      \
    X(2, STREAM, "stream") /* streams and their queues */                                                    \
    X(3, GRAPH, "graph")   /* instantiated graphs, without the memory of their memory nodes */               \
    X(4, PEER, "peer")     /* access between devices */

enum vs_overhead {
#define X(n, NAME, text) VS_OVERHEAD_##NAME = n,
    VS_OVERHEADS(X)
#undef X
};

/* What the arena of a device has done so far, and its present state.  X(NAME, column of the database) */
#define VS_ARENA_FIGURES(X)                                                                                  \
    X(NUMBER, "number")                                                                                      \
    X(MALLOCS, "mallocs")                                                                                    \
    X(FREES, "frees")                                                                                        \
    X(HITS, "hits")                                                                                          \
    X(VIEW_HITS, "view_hits")                                                                                \
    X(DRIVER_CALLS, "driver_calls")                                                                          \
    X(CREATED, "created")                                                                                    \
    X(RELEASED, "released")                                                                                  \
    X(ALIASED, "aliased")                                                                                    \
    X(UNMAPPED, "unmapped")                                                                                  \
    X(ORDER_CALLS, "order_calls")                                                                            \
    X(FOLLOWS, "follows")                                                                                    \
    X(SETTLES, "settles")                                                                                    \
    X(FREE_WAITS, "free_waits")                                                                              \
    X(EVICTED, "evicted")                                                                                    \
    X(LOST, "lost")                                                                                          \
    X(LOST_BLOCKS, "lost_blocks")                                                                            \
    X(BLOCKS, "blocks")                                                                                      \
    X(LANES, "lanes")                                                                                        \
    X(VIEWS, "views")                                                                                        \
    X(MAPPINGS, "mappings")                                                                                  \
    X(PEAK_MAPPINGS, "peak_mappings")                                                                        \
    X(GRANULE, "granule_bytes")                                                                              \
    X(ALLOCATED, "allocated_bytes")                                                                          \
    X(RESERVED, "reserved_bytes")                                                                            \
    X(IDLE, "idle_bytes")                                                                                    \
    X(DEFERRED, "deferred_bytes")                                                                            \
    X(PEAK_ALLOCATED, "peak_allocated_bytes")                                                                \
    X(PEAK_RESERVED, "peak_reserved_bytes")                                                                  \
    X(AT_PEAK_RESERVED, "at_peak_reserved_bytes")                                                            \
    X(AT_PEAK_IDLE, "at_peak_idle_bytes")                                                                    \
    X(AT_PEAK_DEFERRED, "at_peak_deferred_bytes")

enum vs_arena_figure {
#define X(NAME, column) VS_FIGURE_##NAME,
    VS_ARENA_FIGURES(X)
#undef X
        VS_FIGURE_END
};
#define VS_FIGURE_PARTS (VS_FIGURE_END / 4)

_Static_assert(VS_FIGURE_END % 4 == 0, "every part is full");

#define VS_BYTES_UNKNOWN UINT64_MAX
/* The pool handle that stands for the memory of all graphs of a device: below any address. */
#define VS_GRAPH_POOL(device) ((uint64_t)(device) + 1)

#define VS_DEVICE_UNKNOWN  (-1)
#define VS_THREAD_UNKNOWN  0xffffu /* more threads than ids: counted together */
#define VS_CONTEXT_UNKNOWN 0xffu
#define VS_STATUS_PENDING  0xffffu

struct vs_event {
    uint64_t state; /* the journal's own word: sequence and publication; meaningless outside the ring */
    uint64_t t_ns;  /* CLOCK_MONOTONIC; within 1 us; taken just before the slot is claimed, so neighbours may
                       differ by that against the ring's order; the ring's order is the order */
    uint64_t address;
    uint64_t size;
    uint64_t arg0;
    uint64_t arg1;
    uint32_t stack;  /* journal stack id, 0 = none */
    uint32_t range;  /* innermost phase-naming range that the event belongs to, 0 = none */
    uint16_t thread; /* journal thread id (from 1) */
    uint8_t op;      /* enum vs_op */
    uint8_t space;   /* enum vs_space */
    int8_t device;   /* CUDA ordinal within the process, VS_DEVICE_UNKNOWN where it is not known */
    uint8_t context; /* journal context id (from 1), 0 = none */
    uint16_t status; /* CUresult of the real call, 0 = success */
};

_Static_assert(sizeof(struct vs_event) == 64, "one slot is one cache line");

/* A framework's block has no CUresult, and its totals and streams are below 2^48: so the journal's id of what
 * was asked for (vs_journal_tensor; 0 unknown) fits into the event. */
#define VS_TENSOR_AT 48

static inline bool vs_event_is_block(uint8_t op)
{
    return op >= VS_OP_BLOCK_ALLOC && op <= VS_OP_BLOCK_OOM;
}

/* Whether the driver refused the call. */
static inline bool vs_event_failed(const struct vs_event *e)
{
    return e->status != 0 && !vs_event_is_block(e->op);
}

static inline uint32_t vs_event_tensor(const struct vs_event *e)
{
    return (uint32_t)(e->arg1 >> VS_TENSOR_AT) << 16 | e->status;
}

/* arg1 of a block without the tensor's bits. */
static inline uint64_t vs_event_block_arg1(const struct vs_event *e)
{
    return e->arg1 & ((UINT64_C(1) << VS_TENSOR_AT) - 1);
}

static inline uint64_t vs_with_tensor(uint64_t arg1, uint32_t tensor)
{
    return arg1 | (uint64_t)(tensor >> 16) << VS_TENSOR_AT;
}

#endif
