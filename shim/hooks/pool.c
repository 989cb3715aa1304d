/*
 * pool.c - stream-ordered allocations, and the memory that their pools hold.
 *
 * An allocation does not show how much its pool holds: so the pool is asked after every allocation and after
 * every 64th free of a thread, and a sample is recorded if the figure has changed.  When a device's primary
 * context ends or is reset, one more question shows whether the pools' memory ended too (0: the ledger ends
 * their allocations).  Pools that were imported are not asked, because their memory is the other process's.
 */
#include "events.h"

#include "graph.h"
#include "handle_table.h"
#include "meminfo.h"
#include "place.h"
#include "provided.h"
#include "record/record.h"

#define SLOTS            64u
#define FREES_PER_SAMPLE 64u

struct slot {
    _Atomic uintptr_t pool;
    _Atomic uint64_t reserved; /* as last recorded, UINT64_MAX: never */
    _Atomic uint32_t kind;     /* KNOWN | space << 8 | (device + 1); 0: not yet */
};
#define KNOWN 0x80000000u

static struct slot slots[SLOTS];
static _Atomic(CUmemoryPool) current_pool[64]; /* by device; NULL: must be queried */
static __thread unsigned frees;

struct pool_kind {
    enum vs_space space;
    int8_t device;
};

/* `kind` is 0 until it is known. */
static struct slot *probe(CUmemoryPool pool, bool claim)
{
    return vs_handle_slot(slots, sizeof *slots, SLOTS, SLOTS, pool, claim);
}

static struct slot *slot_of(CUmemoryPool pool)
{
    struct slot *s = probe(pool, false);
    return s != NULL ? s : probe(pool, true);
}

static CUmemoryPool current_pool_of(int device)
{
    if (device < 0 || device > 63)
        return NULL;
    CUmemoryPool pool = atomic_load_explicit(&current_pool[device], memory_order_relaxed);
    if (pool == NULL && vs_drv_cuDeviceGetMemPool(&pool, device) == CUDA_SUCCESS)
        atomic_store_explicit(&current_pool[device], pool, memory_order_relaxed);
    return pool;
}

void vs_pool_current_changed(int device)
{
    for (int i = 0; i < 64; i++)
        if (device < 0 || i == device)
            atomic_store_explicit(&current_pool[i], NULL, memory_order_relaxed);
}

/* What kind of memory a pool has, by the first allocation out of it: pools may lie on the host or
 * be managed. */
static struct pool_kind query_kind(CUdeviceptr address, int8_t otherwise)
{
    struct pool_kind kind = {VS_SPACE_POOL, otherwise};
    int device = VS_DEVICE_UNKNOWN, type = 0, managed = 0;
    vs_drv_cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
    vs_drv_cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    if (managed)
        kind.space = VS_SPACE_MANAGED;
    else if (type == CU_MEMORYTYPE_HOST)
        return (struct pool_kind){VS_SPACE_PINNED, VS_DEVICE_UNKNOWN};
    if (vs_drv_cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == CUDA_SUCCESS &&
        device >= 0 && device <= INT8_MAX)
        kind.device = (int8_t)device;
    return kind;
}

static struct pool_kind kind_of(CUmemoryPool pool, CUdeviceptr address, int8_t otherwise)
{
    struct slot *s = slot_of(pool);
    uint32_t known = s != NULL ? atomic_load_explicit(&s->kind, memory_order_relaxed) : 0;
    if (known != 0)
        return (struct pool_kind){known >> 8 & 0xff, (int8_t)(int)((known & 0xff) - 1)};
    struct pool_kind kind = query_kind(address, otherwise);
    if (s != NULL) {
        uint32_t packed = KNOWN | (uint32_t)kind.space << 8 | (uint8_t)(kind.device + 1);
        atomic_store_explicit(&s->reserved, UINT64_MAX, memory_order_relaxed);
        atomic_store_explicit(&s->kind, packed, memory_order_relaxed);
    }
    return kind;
}

static bool record_reserved(CUmemoryPool pool, int8_t device, uint64_t reserved, uint64_t used)
{
    return vs_event(VS_OP_POOL_RESERVED, VS_SPACE_POOL, (struct vs_place){device, 0},
                    (uint64_t)(uintptr_t)pool, reserved, used, 0, CUDA_SUCCESS) != VS_SEQ_NONE;
}

/* Two threads may record their figures in the wrong order; the next sample of the pool then differs from the
 * stored one, and corrects it. */
static void sample(CUmemoryPool pool, int8_t device)
{
    cuuint64_t reserved = 0, used = 0;
    if (vs_drv_cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) != CUDA_SUCCESS)
        return;
    struct slot *s = slot_of(pool);
    if (s != NULL && atomic_exchange_explicit(&s->reserved, reserved, memory_order_relaxed) == reserved)
        return;
    vs_cost_unknown();
    vs_drv_cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    if (!record_reserved(pool, device, reserved, used) && s != NULL) /* to be recorded at the next chance */
        atomic_store_explicit(&s->reserved, UINT64_MAX, memory_order_relaxed);
}

/* Memory that the provider served: it belongs to no pool and no graph, and its context is known. */
static void after_given(enum vs_api api, const struct vs_given *g, uint64_t address, uint64_t size,
                        CUstream stream)
{
    if (!vs_record_takes())
        return;
    vs_place_prepare(CUDA_SUCCESS);
    struct vs_place place = vs_place_known(g->context);
    if (place.device == VS_DEVICE_UNKNOWN)
        place = vs_place_stream(stream, address);
    vs_provided_report();
    vs_place_announce(place.device);
    vs_event(VS_OP_ALLOC, g->space, place, address, size, (uint64_t)(uintptr_t)stream, api, CUDA_SUCCESS);
}

void vs_after_pool_alloc(enum vs_api api, const struct vs_given *g, uint64_t address, uint64_t size,
                         CUmemoryPool pool, CUstream stream, CUresult status)
{
    if (g->space != VS_SPACE_NONE) {
        after_given(api, g, address, size, stream);
        return;
    }
    /* do not query a handle that the driver has just refused */
    enum vs_capture capture = status == CUDA_SUCCESS ? vs_capturing(stream) : VS_CAPTURE_UNKNOWN;
    if (capture == VS_CAPTURE_YES) {
        vs_after_graph_node(api, (uint64_t)(uintptr_t)stream, address, size, status);
        return;
    }
    vs_place_prepare(status);
    struct vs_place place = status == CUDA_SUCCESS ? vs_place_stream(stream, address) : vs_place_current();
    if (pool == NULL && status == CUDA_SUCCESS)
        pool = current_pool_of(place.device);
    struct pool_kind kind = {VS_SPACE_POOL, place.device};
    if (pool != NULL && status == CUDA_SUCCESS)
        kind = kind_of(pool, address, place.device);
    vs_provided_report();
    vs_place_announce(kind.device);
    vs_event(VS_OP_ALLOC, kind.space, (struct vs_place){kind.device, place.context}, address, size,
             (uint64_t)(uintptr_t)stream, api, status);
    if (status != CUDA_SUCCESS)
        vs_sample_after(status);
    if (pool != NULL && status == CUDA_SUCCESS && kind.space == VS_SPACE_POOL && capture == VS_CAPTURE_NO)
        sample(pool, kind.device);
}

void vs_after_pool_free(CUstream stream)
{
    if (++frees % FREES_PER_SAMPLE != 0 || vs_capturing(stream) != VS_CAPTURE_NO)
        return;
    struct vs_place place = vs_place_stream(stream, 0);
    CUmemoryPool pool = current_pool_of(place.device);
    if (pool != NULL)
        sample(pool, place.device);
}

/* Only a pool with recorded allocations matters, and its slot has its device. */
static struct slot *known_slot(CUmemoryPool pool, int8_t *device)
{
    struct slot *s = slot_of(pool);
    uint32_t kind = s != NULL ? atomic_load_explicit(&s->kind, memory_order_relaxed) : 0;
    if (kind == 0 || (kind >> 8 & 0xff) != VS_SPACE_POOL)
        return NULL;
    *device = (int8_t)(int)((kind & 0xff) - 1);
    return s;
}

void vs_pool_trimmed(CUmemoryPool pool)
{
    int8_t device;
    if (known_slot(pool, &device) != NULL)
        sample(pool, device);
}

void vs_pool_destroyed(CUmemoryPool pool)
{
    int8_t device;
    struct slot *s = known_slot(pool, &device);
    if (s == NULL)
        return;
    /* its memory is given back when its last allocation is freed, and it can't be queried any more: 0 from
     * here */
    if (atomic_exchange_explicit(&s->reserved, 0, memory_order_relaxed) != 0)
        record_reserved(pool, device, 0, 0);
    atomic_store_explicit(&s->kind, 0, memory_order_relaxed);
    atomic_store_explicit(&s->pool, VS_HANDLE_GONE, memory_order_relaxed);
}

void vs_pool_imported(CUmemoryPool pool)
{
    struct slot *s = slot_of(pool);
    if (s != NULL) /* a kind that is not sampled */
        atomic_store_explicit(&s->kind, KNOWN | (uint32_t)VS_SPACE_IMPORTED << 8, memory_order_relaxed);
}

/* The next figure of the device's pools is recorded even if it is the same. */
void vs_pools_reset(int device)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        uint32_t kind = atomic_load_explicit(&slots[i].kind, memory_order_relaxed);
        if (kind != 0 && (int)(kind & 0xff) - 1 == device)
            atomic_store_explicit(&slots[i].reserved, UINT64_MAX, memory_order_relaxed);
    }
    vs_pool_current_changed(device);
}

/* After a reset only the current pool's handle is known to be valid, because the driver has just given it. */
void vs_pools_query(int device)
{
    CUmemoryPool pool = current_pool_of(device);
    int8_t known;
    if (pool != NULL && known_slot(pool, &known) != NULL)
        sample(pool, known);
}
