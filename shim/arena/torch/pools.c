/*
 * pools.c - memory of CUDA graphs, and of torch's MemPool.
 *
 * While a graph is captured, and inside torch.cuda.use_mem_pool, torch names a pool that allocations go to.
 * Each stream that allocates in a pool has a queue of its own there, of the private kind: what is freed in it
 * is given out in the same pool and to the same stream only, and never given back.  So a graph finds its
 * addresses as long as it lives, several graphs share a pool as torch means it, and nothing is asked of a
 * stream that is being captured: such a queue has no events.
 */
#define _GNU_SOURCE
#include "torch.h"

#include "core/contracts.h"
#include "core/log.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define POOLS   256
#define FILTERS 32 /* at once */
/* ms that the end of a filter waits for its users: one may have thrown, and never left it */
#define PATIENCE 100

/* ---- std::function ----
 *
 * Which allocations go to a pool torch says by a filter, a std::function<bool(cudaStream_t)>: those of a
 * capture, of a thread, of a stream, or all.  C cannot tell these apart from outside, so the filter itself is
 * asked.  Its layout (16 bytes of state, the function that copies and destroys it, the one that calls it) is
 * part of libstdc++'s fixed ABI, and torch's Linux builds have no other library.  A filter may throw, so none
 * is called with a lock held; and one that is ended is destroyed only when nobody is inside any. */

enum { CLONE = 2, DESTROY = 3 };

static void copy(struct vs_function *to, const struct vs_function *from)
{
    memset(to, 0, sizeof *to);
    if (!from->manage)
        return;
    from->manage(to, from, CLONE);
    to->manage = from->manage;
    to->call = from->call;
}

static void destroy(struct vs_function *f)
{
    if (f->manage)
        f->manage(f, f, DESTROY);
    memset(f, 0, sizeof *f);
}

/* Both words lead to code, or both are none; of a filter without a manager its state is all there is to copy.
 */
static bool is_function(const struct vs_function *f)
{
    void *const words[] = {(void *)f->manage, (void *)f->call};
    return !f->manage && !f->call ? true : vs_cxx_is_code(words, 2);
}

/* False: nothing begins, since a fork's child does nothing, or what this filter accepts cannot be known,
 * which is an error in a process with torch. */
static bool may_begin(const struct vs_function *accepts)
{
    if (!vs_served_in())
        return false;
    bool good = is_function(accepts);
    vs_served_out();
    if (good) {
        vs_contract_proven(VS_CONTRACT_TORCH_FILTER, "the words of a filter that are called lead to code");
        return true;
    }
    vs_contract_broken(VS_CONTRACT_TORCH_FILTER, "a filter of a pool is no std::function of libstdc++");
    vs_torch_raise_text("vramscope's arena can't tell what goes to this pool: run without --allocator=arena");
    return false;
}

/* ---- state ---- */

struct held { /* blocks without a queue */
    uint64_t *address;
    uint32_t count, room;
};

struct vs_torch_pool {
    struct vs_mempool id;
    int device;
    uint32_t uses;
    bool taken;
    uint64_t ended; /* to be retired: the how-manieth end that was; 0: it is in use */
    struct held held;
};

struct filter {
    struct vs_torch_pool *pool; /* NULL: none */
    struct vs_function accepts;
    uint64_t begun; /* the older one is asked first */
};

/* Who a queue is for. */
struct owner {
    struct vs_torch_pool *pool;
    uint32_t number; /* of the device's arenas, the one that the queue is of */
    CUstream stream;
};

static struct vs_lock lock = VS_LOCK(POOLS); /* guards all that follows but the atomics */
static struct vs_torch_pool pools[POOLS];
static struct filter filters[FILTERS];
static struct owner owners[VS_SERVED_DEVICES][VS_ARENA_QUEUES];
static uint64_t beginnings, ends;
static uint32_t owned[VS_SERVED_DEVICES]; /* queues, or blocks that are held; atomic */
static uint32_t asking;                   /* threads inside a filter; atomic */
static uint32_t ended_pools;              /* atomic */
uint32_t vs_torch_filters;

static struct vs_torch_pool *find(int device, struct vs_mempool id)
{
    for (int i = 0; i < POOLS; i++) {
        struct vs_torch_pool *p = &pools[i];
        if (p->taken && p->device == device && p->id.first == id.first && p->id.second == id.second)
            return p;
    }
    return NULL;
}

static struct vs_torch_pool *find_or_make(int device, struct vs_mempool id)
{
    struct vs_torch_pool *p = find(device, id);
    for (int i = 0; i < POOLS && !p; i++)
        if (!pools[i].taken) {
            p = &pools[i];
            *p = (struct vs_torch_pool){.id = id, .device = device, .taken = true};
        }
    if (p && p->ended) {
        p->ended = 0; /* it is used once more */
        __atomic_fetch_sub(&ended_pools, 1, __ATOMIC_RELAXED);
    }
    return p;
}

/* ---- filters ---- */

/* Those of DEVICE, in the order in which they began; from now on none of them is destroyed. */
static int snapshot(int device, struct filter *out)
{
    int n = 0;
    vs_lock_take(&lock);
    __atomic_fetch_add(&asking, 1, __ATOMIC_ACQUIRE); /* before what is read below */
    for (int i = 0; i < FILTERS; i++) {
        int at = n;
        if (!filters[i].pool || filters[i].pool->device != device)
            continue;
        for (; at > 0 && out[at - 1].begun > filters[i].begun; at--)
            out[at] = out[at - 1];
        out[at] = filters[i];
        n++;
    }
    vs_lock_give(&lock);
    return n;
}

struct vs_torch_pool *vs_torch_pool_of(int device, CUstream stream)
{
    struct filter candidate[FILTERS];
    struct vs_torch_pool *pool = NULL;
    int n = snapshot(device, candidate);
    for (int i = 0; i < n && !pool; i++) {
        const struct vs_function *f = &candidate[i].accepts;
        CUstream requested = stream;
        if (!f->call || f->call(f->state, &requested))
            pool = candidate[i].pool;
    }
    __atomic_fetch_sub(&asking, 1, __ATOMIC_RELEASE);
    return pool;
}

static void wait_for_askers(void)
{
    struct timespec one = {0, 1000000};
    for (int ms = 0; ms < PATIENCE && __atomic_load_n(&asking, __ATOMIC_ACQUIRE); ms++)
        nanosleep(&one, NULL);
}

static bool begin_filter(struct vs_torch_pool *pool, const struct vs_function *accepts)
{
    for (int i = 0; i < FILTERS; i++) {
        if (filters[i].pool)
            continue;
        filters[i] = (struct filter){.pool = pool, .begun = ++beginnings};
        copy(&filters[i].accepts, accepts);
        __atomic_fetch_add(&vs_torch_filters, 1, __ATOMIC_RELAXED);
        return true;
    }
    return false;
}

void vramscope_torch_begin_allocate_to_pool(int device, struct vs_mempool id,
                                            const struct vs_function *accepts)
{
    if (!may_begin(accepts) || !vs_served_in())
        return;
    vs_lock_take(&lock);
    struct vs_torch_pool *pool = find_or_make(device, id);
    bool begun = pool && begin_filter(pool, accepts);
    if (pool)
        pool->uses++;
    vs_lock_give(&lock);
    vs_served_out();
    if (!begun)
        vs_log("more than %d pools of PyTorch's: a graph that is captured now may not be replayed", POOLS);
}

void vramscope_torch_end_allocate_to_pool(int device, struct vs_mempool id)
{
    struct vs_function over = {.manage = NULL};
    if (!vs_served_in())
        return;
    vs_lock_take(&lock);
    const struct vs_torch_pool *pool = find(device, id);
    for (int i = 0; i < FILTERS && pool; i++) {
        if (filters[i].pool != pool)
            continue;
        over = filters[i].accepts;
        filters[i] = (struct filter){.pool = NULL};
        __atomic_fetch_sub(&vs_torch_filters, 1, __ATOMIC_RELAXED);
        break;
    }
    vs_lock_give(&lock);
    vs_served_out();
    wait_for_askers();
    destroy(&over);
}

/* ---- owners ---- */

void vramscope_torch_retain_pool(int device, struct vs_mempool id)
{
    if (!vs_served_in())
        return;
    vs_lock_take(&lock);
    struct vs_torch_pool *pool = find_or_make(device, id);
    if (pool)
        pool->uses++;
    vs_lock_give(&lock);
    vs_served_out();
}

int vramscope_torch_pool_uses(int device, struct vs_mempool id)
{
    if (!vs_served_in())
        return 0;
    vs_lock_take(&lock);
    const struct vs_torch_pool *pool = find(device, id);
    int uses = pool ? (int)pool->uses : 0;
    vs_lock_give(&lock);
    vs_served_out();
    return uses;
}

void vramscope_torch_release_pool(int device, struct vs_mempool id)
{
    if (!vs_served_in())
        return;
    vs_lock_take(&lock);
    struct vs_torch_pool *pool = find(device, id);
    if (pool && pool->uses && --pool->uses == 0) {
        pool->ended = ++ends;
        __atomic_fetch_add(&ended_pools, 1, __ATOMIC_RELAXED);
    }
    vs_lock_give(&lock);
    vs_served_out();
}

/* ---- memory ---- */

static bool owns(const struct owner *o, const struct vs_served *s, CUstream stream)
{
    return o->pool && o->number == s->number && o->stream == stream;
}

static uint32_t find_queue(const struct vs_served *s, const struct vs_torch_pool *pool, CUstream stream)
{
    const struct owner *of = owners[s - vs_served];
    for (uint32_t queue = 1; queue < VS_ARENA_QUEUES; queue++)
        if (owns(&of[queue], s, stream) && of[queue].pool == pool)
            return queue;
    return VS_ARENA_ANY;
}

/* QUEUE is the pool's, unless another thread has opened one for it meanwhile. */
static uint32_t keep_one_queue(struct vs_served *s, struct vs_torch_pool *pool, CUstream stream,
                               uint32_t queue)
{
    vs_lock_take(&lock);
    uint32_t other = find_queue(s, pool, stream);
    if (other == VS_ARENA_ANY) {
        owners[s - vs_served][queue] = (struct owner){pool, s->number, stream};
        __atomic_fetch_add(&owned[s - vs_served], 1, __ATOMIC_RELAXED);
    }
    vs_lock_give(&lock);
    if (other == VS_ARENA_ANY)
        return queue;
    vs_arena_retire_queue(vs_served_arena(s), queue);
    return other;
}

/* Opening one may wait for the device: not with the lock. */
static uint32_t queue_in(struct vs_served *s, struct vs_torch_pool *pool, CUstream stream)
{
    vs_lock_take(&lock);
    uint32_t queue = find_queue(s, pool, stream);
    vs_lock_give(&lock);
    if (queue != VS_ARENA_ANY)
        return queue;
    /* without a stream, since one that is captured, or that a graph replays on, cannot be queried */
    if (vs_arena_open_queue(vs_served_arena(s), VS_BACKING_DEVICE, VS_QUEUE_PRIVATE, &queue) != 0)
        return VS_ARENA_ANY;
    return keep_one_queue(s, pool, stream, queue);
}

static bool remember(struct held *h, uint64_t address)
{
    if (h->count == h->room) {
        uint32_t room = h->room ? 2 * h->room : 512;
        void *grown = h->room ? mremap(h->address, h->room * sizeof *h->address, room * sizeof *h->address,
                                       MREMAP_MAYMOVE)
                              : mmap(NULL, room * sizeof *h->address, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (grown == MAP_FAILED)
            return false;
        h->address = grown;
        h->room = room;
    }
    h->address[h->count++] = address;
    return true;
}

/* Where there is no queue left, a pool's block comes from its stream's queue, pinned, so that nothing else
 * gets it before the pool ends: used once, and free when the pool is. */
static int malloc_held(struct vs_served *s, struct vs_torch_pool *pool, CUstream stream, uint64_t size,
                       uint64_t *address)
{
    struct vs_arena *arena = vs_served_arena(s);
    int status = vs_arena_malloc(arena, vs_served_stream_queue(s, stream, true), size, address);
    if (status != 0)
        return status;
    vs_arena_pin(arena, *address);
    vs_lock_take(&lock);
    remember(&pool->held, *address); /* or it is never used again */
    vs_lock_give(&lock);
    return 0;
}

int vs_torch_pool_malloc(struct vs_served *s, struct vs_torch_pool *pool, CUstream stream, uint64_t size,
                         uint64_t *address)
{
    uint32_t queue = queue_in(s, pool, stream);
    return queue == VS_ARENA_ANY ? malloc_held(s, pool, stream, size, address)
                                 : vs_arena_malloc(vs_served_arena(s), queue, size, address);
}

uint32_t vs_torch_queue(struct vs_served *s, uint64_t address, CUstream stream)
{
    struct vs_arena_block block;
    bool own = false;
    /* relaxed: the block was allocated before, in this thread or in one that this one knows of */
    if (__atomic_load_n(&owned[s - vs_served], __ATOMIC_RELAXED) &&
        vs_arena_find(vs_served_arena(s), address, &block)) {
        vs_lock_take(&lock);
        own = owns(&owners[s - vs_served][block.queue], s, stream);
        vs_lock_give(&lock);
    }
    return own ? block.queue : vs_served_stream_queue(s, stream, true);
}

/* ---- the end of a pool ----
 *
 * A graph's last launch may still use a pool that its last owner releases.  It waits for the next time that
 * the device is waited for anyway: torch.cuda.empty_cache(), which torch calls before each capture, or out of
 * memory. */

static void release_pool(struct vs_served *s, struct vs_torch_pool *pool)
{
    struct vs_arena *arena = vs_served_arena(s);
    struct owner *of = owners[s - vs_served];
    for (uint32_t queue = 1; queue < VS_ARENA_QUEUES; queue++) {
        if (of[queue].pool != pool)
            continue;
        if (of[queue].number == s->number)
            vs_arena_retire_queue(arena, queue);
        of[queue] = (struct owner){.pool = NULL};
        __atomic_fetch_sub(&owned[s - vs_served], 1, __ATOMIC_RELAXED);
    }
    for (uint32_t i = 0; i < pool->held.count; i++)
        vs_arena_unpin(arena, pool->held.address[i]);
    if (pool->held.room)
        munmap(pool->held.address, pool->held.room * sizeof *pool->held.address);
    *pool = (struct vs_torch_pool){.taken = false};
    __atomic_fetch_sub(&ended_pools, 1, __ATOMIC_RELAXED);
}

/* Releases the pools that ended up to END; one that was taken into use again since then will end once more.
 */
static bool release_ended_pools(struct vs_served *s, uint64_t end)
{
    bool any = false;
    vs_lock_take(&lock);
    for (int i = 0; i < POOLS; i++)
        if (pools[i].taken && pools[i].ended && pools[i].ended <= end && pools[i].device == s - vs_served) {
            release_pool(s, &pools[i]);
            any = true;
        }
    vs_lock_give(&lock);
    return any;
}

/* The wait is for work that may need another thread of the program: a function that cuLaunchHostFunc calls
 * wants Python's lock, whoever holds that wants a tensor.  So no lock of the pools' is held meanwhile, nor
 * the arena's (vs_synchronize_outside), which is more than torch's own allocator does: out of memory, and in
 * empty_cache, it waits for its events with its mutex held.  What is the same is Python's lock itself: torch
 * lets go of it around operations, and where it calls its allocator with it (the end of a tensor, some of
 * torch.cuda) it does so here, too. */
bool vs_torch_pools_retire(struct vs_served *s)
{
    struct vs_arena *arena = vs_served_arena(s);
    /* relaxed: one that ends just now has the next time */
    if (!arena || !__atomic_load_n(&ended_pools, __ATOMIC_RELAXED))
        return false;
    vs_lock_take(&lock);
    uint64_t end = ends;
    vs_lock_give(&lock);
    uint64_t ticket = vs_arena_ticket(arena);
    if (vs_backing_cuda_synchronize(&s->cuda) != 0)
        return false;
    vs_arena_synchronized(arena, ticket);
    return release_ended_pools(s, end);
}
