/*
 * comm.c - communicators, none of which waits for a rank; memory and windows that programs get of NCCL.
 *
 * ncclCommSplit does not say how many ranks have the same color.  Who calls it can say so before:
 * dry_nccl_group(color, ranks, rank), with ANY_COLOR of each color that it did not name.  Else the part is as
 * large as the whole.
 */
#include "nccl.h"

#include <pthread.h>
#include <string.h>

enum { VERSION = 22809, GROUPS = 1024 };

typedef struct {
    char internal[128];
} unique_id;

struct group {
    int color, ranks, rank;
};
static struct group groups[GROUPS];
static int groups_known;
static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;

DRY_API void dry_nccl_group(int color, int ranks, int rank)
{
    pthread_mutex_lock(&groups_lock);
    int i = 0;
    while (i < groups_known && groups[i].color != color)
        i++;
    if (i < GROUPS)
        groups[i] = (struct group){color, ranks, rank};
    if (i == groups_known && i < GROUPS)
        groups_known++;
    pthread_mutex_unlock(&groups_lock);
}

/* In the order of what is known best: this color's, any color's. */
static struct group group_of(int color, const struct comm *whole)
{
    struct group g = {color, whole->ranks, whole->rank};
    bool known = false;
    pthread_mutex_lock(&groups_lock);
    for (int i = 0; i < groups_known; i++)
        if (groups[i].color == color || (groups[i].color == ANY_COLOR && !known)) {
            known = true;
            g = groups[i];
        }
    pthread_mutex_unlock(&groups_lock);
    if (!known)
        dry_fact("guess\tnccl\tranks of a part of a communicator\t%d", whole->ranks);
    return g;
}

static int current_device(void)
{
    CUdevice device = 0;
    return cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
}

static result make(struct comm **out, int ranks, int rank, const struct config *config)
{
    if (!out || ranks < 1 || rank < 0 || rank >= ranks)
        return BAD_ARGUMENT;
    struct comm *c = calloc(1, sizeof *c);
    uint64_t *peers = calloc((size_t)ranks / 32 + 1, sizeof *peers);
    if (!c || !peers) {
        free(c);
        free(peers);
        return SYSTEM_ERROR;
    }
    *c = (struct comm){.ranks = ranks, .rank = rank, .device = current_device(), .peers = peers};
    if (config && config->size >= sizeof *config && config->max_ctas != UNSET)
        c->channels = config->max_ctas;
    *out = c;
    return OK;
}

static result unmake(struct comm *c)
{
    if (!c)
        return OK;
    give_back(c);
    free(c->peers);
    free(c);
    return OK;
}

DRY_API result ncclGetVersion(int *version)
{
    *version = VERSION;
    return OK;
}
BOTH(ncclGetVersion);

DRY_API result ncclGetUniqueId(unique_id *id)
{
    memset(id, 1, sizeof *id);
    return OK;
}
BOTH(ncclGetUniqueId);

DRY_API result ncclCommInitRankConfig(struct comm **c, int ranks, unique_id id, int rank,
                                      struct config *config)
{
    (void)id;
    return make(c, ranks, rank, config);
}
BOTH(ncclCommInitRankConfig);

DRY_API result ncclCommInitRank(struct comm **c, int ranks, unique_id id, int rank)
{
    (void)id;
    return make(c, ranks, rank, NULL);
}
BOTH(ncclCommInitRank);

DRY_API result ncclCommInitRankScalable(struct comm **c, int ranks, int rank, int ids, unique_id *id,
                                        struct config *config)
{
    (void)ids, (void)id;
    return make(c, ranks, rank, config);
}
BOTH(ncclCommInitRankScalable);

DRY_API result ncclCommInitAll(struct comm **c, int ranks, const int *devices)
{
    for (int i = 0; i < ranks; i++) {
        result r = make(c + i, ranks, i, NULL);
        if (r)
            return r;
        c[i]->device = devices ? devices[i] : i;
    }
    return OK;
}
BOTH(ncclCommInitAll);

DRY_API result ncclCommSplit(struct comm *c, int color, int key, struct comm **out, struct config *config)
{
    (void)key;
    *out = NULL;
    if (color == NO_COLOR)
        return OK;
    struct group g = group_of(color, c);
    return make(out, g.ranks, g.rank, config);
}
BOTH(ncclCommSplit);

DRY_API result ncclCommShrink(struct comm *c, int *without, int count, struct comm **out,
                              struct config *config, int flags)
{
    (void)flags;
    int before = 0;
    for (int i = 0; i < count; i++)
        before += without[i] < c->rank;
    return make(out, c->ranks - count, c->rank - before, config);
}
BOTH(ncclCommShrink);

DRY_API result ncclCommFinalize(struct comm *c)
{
    return c ? OK : BAD_ARGUMENT;
}
BOTH(ncclCommFinalize);

DRY_API result ncclCommDestroy(struct comm *c)
{
    return unmake(c);
}
BOTH(ncclCommDestroy);

DRY_API result ncclCommAbort(struct comm *c)
{
    return unmake(c);
}
BOTH(ncclCommAbort);

DRY_API result ncclCommRevoke(struct comm *c, int flags)
{
    (void)flags;
    return c ? OK : BAD_ARGUMENT;
}
BOTH(ncclCommRevoke);

DRY_API result ncclCommCount(const struct comm *c, int *ranks)
{
    *ranks = c->ranks;
    return OK;
}
BOTH(ncclCommCount);

DRY_API result ncclCommUserRank(const struct comm *c, int *rank)
{
    *rank = c->rank;
    return OK;
}
BOTH(ncclCommUserRank);

DRY_API result ncclCommCuDevice(const struct comm *c, int *device)
{
    *device = c->device;
    return OK;
}
BOTH(ncclCommCuDevice);

DRY_API result ncclCommGetAsyncError(struct comm *c, result *error)
{
    (void)c;
    *error = OK;
    return OK;
}
BOTH(ncclCommGetAsyncError);

DRY_API const char *ncclGetErrorString(result r)
{
    return r == OK             ? "no error"
           : r == CUDA_ERROR   ? "unhandled cuda error"
           : r == SYSTEM_ERROR ? "unhandled system error"
                               : "invalid argument or usage";
}
BOTH(ncclGetErrorString);

DRY_API const char *ncclGetLastError(struct comm *c)
{
    (void)c;
    return "";
}
BOTH(ncclGetLastError);

DRY_API void ncclResetDebugInit(void) {}
BOTH(ncclResetDebugInit);

/* What is registered is only written down by NCCL, and a window is a handle: neither takes of the device. */
DRY_API result ncclCommRegister(const struct comm *c, void *buffer, size_t bytes, void **handle)
{
    (void)c, (void)bytes;
    *handle = buffer;
    return OK;
}
BOTH(ncclCommRegister);

DRY_API result ncclCommDeregister(const struct comm *c, void *handle)
{
    (void)c, (void)handle;
    return OK;
}
BOTH(ncclCommDeregister);

DRY_API result ncclCommWindowRegister(struct comm *c, void *buffer, size_t bytes, void **window, int flags)
{
    (void)c, (void)bytes, (void)flags;
    *window = buffer;
    return OK;
}
BOTH(ncclCommWindowRegister);

DRY_API result ncclCommWindowDeregister(struct comm *c, void *window)
{
    (void)c, (void)window;
    return OK;
}
BOTH(ncclCommWindowDeregister);

/* NCCL gives whole granules of 2 MiB, which is what the driver gives for sizes beyond 1 MiB. */
DRY_API result ncclMemAlloc(void **out, size_t bytes)
{
    enum { GRANULE = 2 << 20 };
    CUdeviceptr at;
    if (cuMemAlloc(&at, (bytes + GRANULE - 1) / GRANULE * GRANULE) != CUDA_SUCCESS)
        return CUDA_ERROR;
    *out = (void *)at; /* NOLINT: an address of the device is handed out as a pointer */
    return OK;
}
BOTH(ncclMemAlloc);

DRY_API result ncclMemFree(void *at)
{
    return cuMemFree((CUdeviceptr)at) == CUDA_SUCCESS ? OK : CUDA_ERROR;
}
BOTH(ncclMemFree);

/* ---- what reaches into other ranks' memory or their kernels' state cannot be stood in for; libraries of
 * PyTorch import these names ---- */

#define MISSING(name)                                                                                        \
    DRY_API __attribute__((noreturn)) void name(void)                                                        \
    {                                                                                                        \
        dry_missing("NCCL", #name);                                                                          \
    }                                                                                                        \
    extern void p##name(void) DRY_API __attribute__((noreturn, alias(#name)));

MISSING(ncclCommGetUniqueId)
MISSING(ncclCommGrow)
MISSING(ncclDevCommCreate)
MISSING(ncclDevCommDestroy)
MISSING(ncclGetLsaMultimemDevicePointer)
MISSING(ncclGetPeerDevicePointer)
MISSING(ncclGinBarrierCreateRequirement)
MISSING(ncclGroupSimulateEnd)
MISSING(ncclLLA2ACalcSlots)
MISSING(ncclLLA2ACreateRequirement)
MISSING(ncclLsaBarrierCreateRequirement)
MISSING(ncclPutSignal)
MISSING(ncclSignal)
MISSING(ncclTeamLsa)
MISSING(ncclTeamRail)
MISSING(ncclTeamRankToLsa)
MISSING(ncclTeamRankToWorld)
MISSING(ncclTeamWorld)
MISSING(ncclWaitSignal)
MISSING(ncclWinGetUserPtr)
