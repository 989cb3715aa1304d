/*
 * contexts.c - the contexts whose work may touch what lies on a device, beside the arena's own, which a free
 * without a stream has to wait for: memory is mapped for devices, not for contexts.
 *
 *      contexts of the program's own, on the same device
 *      all contexts, the primary one included, of a device that was given access (device/served.h: peers)
 */
#include "arena/share/share.h"
#include "serving.h"

#include "core/clock.h"
#include "core/log.h"

#include <pthread.h>
#include <time.h>

#define CONTEXTS 512
#define PATIENCE_NS                                                                                          \
    5000000000ull /* longest wait: the thread that ends or keeps a context may have been cancelled */
#define PAUSES (PATIENCE_NS / 50000)

struct reaching {
    uint64_t id; /* 0: none */
    CUcontext context;
    CUdevice device;
    uint32_t keepers;
    bool primary, ending;
};

static struct vs_lock lock = VS_LOCK(CONTEXTS); /* guards what follows */
static struct reaching list[CONTEXTS];
static uint32_t used; /* of the list, gaps included */
static uint64_t ids;
static uint64_t ending_primaries; /* by device */

/* ---- the list ---- */

static struct reaching *find_id(uint64_t id)
{
    for (uint32_t i = 0; i < used; i++)
        if (list[i].id == id)
            return &list[i];
    return NULL;
}

static struct reaching *find_context(CUcontext context)
{
    for (uint32_t i = 0; i < used; i++)
        if (list[i].id && list[i].context == context)
            return &list[i];
    return NULL;
}

static struct reaching *find_primary(CUdevice device)
{
    for (uint32_t i = 0; i < used; i++)
        if (list[i].id && list[i].primary && list[i].device == device)
            return &list[i];
    return NULL;
}

static void enter(CUcontext context, CUdevice device, bool primary)
{
    static bool said;
    struct reaching *free_place = find_context(context); /* a handle comes again: that one has ended */
    for (uint32_t i = 0; i < used && !free_place; i++)
        if (!list[i].id)
            free_place = &list[i];
    if (!free_place && used < CONTEXTS)
        free_place = &list[used++];
    if (free_place)
        *free_place = (struct reaching){++ids, context, device, 0, primary, false};
    else if (!said)
        vs_log("more than %d contexts: a free does not wait for the work of those beyond", CONTEXTS);
    said = said || !free_place;
}

/* No thread that the program cancels ends here: others count on it. */
static void pause_unlocked(void)
{
    struct timespec moment = {0, 50000};
    int cancel;
    vs_lock_give(&lock);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    nanosleep(&moment, NULL);
    pthread_setcancelstate(cancel, NULL);
    vs_lock_take(&lock);
}

/* ---- keeping ----
 *
 * The program may end a context while another thread waits for it or records an event in it.  So each has a
 * number that is never used again, and a thread that needs a context keeps it meanwhile: the end waits for
 * the keepers, and a thread that would keep it waits for the end.  Work of a context that has ended is done.
 */

static bool keep(uint64_t id, CUcontext *context)
{
    uint64_t until = vs_clock_ns() + PATIENCE_NS;
    vs_lock_take(&lock);
    struct reaching *r = find_id(id);
    for (; r && r->ending && vs_clock_ns() < until; r = find_id(id))
        pause_unlocked();
    bool lives = r && !r->ending;
    if (lives) {
        r->keepers++;
        *context = r->context;
    }
    vs_lock_give(&lock);
    return lives;
}

static void let(uint64_t id)
{
    vs_lock_take(&lock);
    struct reaching *r = find_id(id);
    if (r)
        r->keepers--;
    vs_lock_give(&lock);
}

/* The primary context of DEVICE is in the list if it is active.  The lock is held throughout, so that nobody
 * ends it between the retain, which only asks which it is, and the release. */
static void note_primary(CUdevice device)
{
    CUcontext primary = NULL;
    unsigned flags;
    int active = 0;
    for (unsigned pauses = 0; ending_primaries >> device & 1 && pauses < PAUSES; pauses++)
        pause_unlocked();
    if (find_primary(device) || vs_drv_cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS ||
        !active || vs_drv_cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
        return;
    vs_drv_cuDevicePrimaryCtxRelease_v2(device);
    enter(primary, device, true);
}

static uint32_t list_ids(const struct vs_served *s, uint64_t out[CONTEXTS])
{
    uint32_t n = 0;
    int own = (int)(s - vs_served);
    /* relaxed: who grants access and uses it in another thread orders the two himself */
    uint64_t peers = atomic_load_explicit(&s->peers, memory_order_relaxed) & ~(1ull << own);
    vs_lock_take(&lock);
    for (uint64_t rest = peers; rest; rest &= rest - 1)
        note_primary(__builtin_ctzll(rest));
    for (uint32_t i = 0; i < used; i++)
        if (list[i].id && list[i].context != s->cuda.context &&
            (list[i].device == own || peers >> list[i].device & 1))
            out[n++] = list[i].id;
    vs_lock_give(&lock);
    return n;
}

static const struct vs_served *served_of(const struct vs_backing_cuda *b)
{
    return (const void *)((const char *)b - offsetof(struct vs_served, cuda));
}

/* No lock where there is nobody: that is nearly always so. */
static bool nobody(const struct vs_served *s)
{
    return __atomic_load_n(&used, __ATOMIC_RELAXED) == 0 &&
           atomic_load_explicit(&s->peers, memory_order_relaxed) == 0;
}

static uint32_t reaching(const struct vs_backing_cuda *b, uint64_t *out, uint32_t room)
{
    uint64_t all[CONTEXTS];
    const struct vs_served *s = served_of(b);
    uint32_t n = nobody(s) ? 0 : list_ids(s, all);
    for (uint32_t i = 0; i < n && i < room; i++)
        out[i] = all[i];
    return n;
}

const struct vs_backing_others vs_reach = {reaching, keep, let};

/* ---- contexts that begin and end ---- */

static CUresult created(CUresult status, const CUcontext *context, CUdevice device)
{
    if (status != CUDA_SUCCESS || device < 0 || device >= VS_SERVED_DEVICES || !vs_served_in())
        return status;
    vs_lock_take(&lock);
    enter(*context, device, false);
    vs_lock_give(&lock);
    vs_served_out();
    return status;
}

#define CREATES(symbol, parameters, arguments)                                                               \
    static CUresult serve_##symbol parameters                                                                \
    {                                                                                                        \
        return created(VS_UNDER(symbol) arguments, out, device);                                             \
    }
CREATES(cuCtxCreate, (CUcontext * out, unsigned flags, CUdevice device), (out, flags, device))
CREATES(cuCtxCreate_v2, (CUcontext * out, unsigned flags, CUdevice device), (out, flags, device))
CREATES(cuCtxCreate_v3,
        (CUcontext * out, CUexecAffinityParam *affinity, int count, unsigned flags, CUdevice device),
        (out, affinity, count, flags, device))
CREATES(cuCtxCreate_v4,
        (CUcontext * out, struct CUctxCreateParams_st *params, unsigned flags, CUdevice device),
        (out, params, flags, device))

static struct reaching *find(CUcontext context, CUdevice device)
{
    return context ? find_context(context) : find_primary(device);
}

void vs_reach_ending(CUcontext context, CUdevice device)
{
    uint64_t until = vs_clock_ns() + PATIENCE_NS;
    if (!vs_served_in())
        return;
    vs_lock_take(&lock);
    if (!context && device >= 0 && device < VS_SERVED_DEVICES)
        ending_primaries |= 1ull << device;
    struct reaching *r = find(context, device);
    if (r)
        r->ending = true;
    for (; r && r->keepers && vs_clock_ns() < until; r = find(context, device))
        pause_unlocked();
    vs_lock_give(&lock);
    vs_served_out();
}

void vs_reach_ended(CUcontext context, CUdevice device, bool gone)
{
    if (!vs_served_in())
        return;
    vs_lock_take(&lock);
    if (!context && device >= 0 && device < VS_SERVED_DEVICES)
        ending_primaries &= ~(1ull << device);
    struct reaching *r = find(context, device);
    if (r && gone)
        *r = (struct reaching){0};
    else if (r)
        r->ending = false;
    vs_lock_give(&lock);
    vs_served_out();
}

static CUresult after_destroy(CUresult status, CUcontext context)
{
    if (context)
        vs_reach_ended(context, -1, status == CUDA_SUCCESS);
    if (status == CUDA_SUCCESS && context) {
        vs_imports_context_ended(context, -1);
        vs_captures_forget(context);
    }
    return status;
}

#define DESTROYS(symbol)                                                                                     \
    static CUresult serve_##symbol(CUcontext context)                                                        \
    {                                                                                                        \
        if (context)                                                                                         \
            vs_reach_ending(context, -1);                                                                    \
        return after_destroy(VS_UNDER(symbol)(context), context);                                            \
    }
DESTROYS(cuCtxDestroy)
DESTROYS(cuCtxDestroy_v2)

const struct vs_stand_in vs_stand_ins_contexts_ended[] = {
    {VS_API_cuCtxDestroy, (void *)serve_cuCtxDestroy},
    {VS_API_cuCtxDestroy_v2, (void *)serve_cuCtxDestroy_v2},
    {0}};

const struct vs_stand_in vs_stand_ins_contexts[] = {{VS_API_cuCtxCreate, (void *)serve_cuCtxCreate},
                                                    {VS_API_cuCtxCreate_v2, (void *)serve_cuCtxCreate_v2},
                                                    {VS_API_cuCtxCreate_v3, (void *)serve_cuCtxCreate_v3},
                                                    {VS_API_cuCtxCreate_v4, (void *)serve_cuCtxCreate_v4},
                                                    {0}};
