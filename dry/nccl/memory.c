/*
 * memory.c - what NCCL itself takes of a device, in the pieces and at the moment that it does: pieces of
 * mapped physical memory, unless NCCL_CUMEM_ENABLE=0.
 *
 * Measured on two H200s (NCCL 2.28.9, 55 runs of DDP, FSDP1, FSDP2, ZeRO and tensor parallelism).  For other
 * ranks, channels, versions, GPUs and ranks on two machines it is told as a guess: a ring has one neighbour
 * on each side however many ranks there are, but trees and NVLink's multicast take more.
 */
#include "measured.h"
#include "nccl.h"

/* A communicator's collectives took 484 MiB of each GPU, as 24 pieces of 10 MiB and 122 of 2 MiB.  The
 * receive buffers of a channel make 10 MiB (4 MiB or NCCL_BUFFSIZE of the simple protocol, 512 KiB of LL, 4.7
 * MiB of LL128).  Each end of a connection has flags, five in a channel of two ranks.  4 MiB are the
 * communicator's.  Sends between two ranks took 32 channels: 64 MiB of the one that sends, 320 of the one
 * that receives. */
enum { MIB = 1 << 20, PIECE = 2 * MIB, LL_BYTES = MIB / 2, LL128_BYTES = 640 * 120 * 8 * 8 };
enum { CHANNELS = 24, FLAGS = 5, OWN_PIECES = 2 }; /* of collectives */
enum {
    PEER_CHANNELS = 32,
    PEER_CHANNELS_NET = 2,
    MEASURED_RANKS = 2
}; /* of sends to one rank: on this machine, on another */

struct piece {
    struct piece *next;
    CUdeviceptr at;
    size_t mapped; /* bytes of HANDLE; 0: none is */
    CUmemGenericAllocationHandle handle;
};

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    char *end = NULL;
    long value = text ? strtol(text, &end, 10) : 0;
    return text && end != text && value > 0 ? value : otherwise;
}

static size_t buffer_bytes(void)
{
    size_t bytes = (size_t)setting("NCCL_BUFFSIZE", 4 * MIB) + LL_BYTES + LL128_BYTES;
    return (bytes + PIECE - 1) / PIECE * PIECE;
}

static int channels_of(const struct comm *c)
{
    long most = setting("NCCL_MAX_CTAS", setting("NCCL_MAX_NCHANNELS", CHANNELS));
    if (c->channels > 0 && c->channels < most)
        most = c->channels;
    return (int)(most < CHANNELS ? most : CHANNELS);
}

/* P may have its addresses already. */
static CUresult map(struct piece *p, size_t bytes, int device)
{
    CUmemAllocationProp what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemAccessDesc access = {what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult r = cuMemCreate(&p->handle, bytes, &what, 0);
    if (r)
        return r;
    p->mapped = bytes;
    if ((p->at || !(r = cuMemAddressReserve(&p->at, bytes, 0, 0, 0))) &&
        !(r = cuMemMap(p->at, bytes, 0, p->handle, 0)))
        r = cuMemSetAccess(p->at, bytes, &access, 1);
    return r;
}

/* Its addresses stay. */
static void unmap(struct piece *p)
{
    if (!p->handle)
        return;
    if (p->at)
        cuMemUnmap(p->at, p->mapped);
    cuMemRelease(p->handle);
    p->handle = 0;
}

static void let_go(struct piece *p) /* fails where the process is ending and the driver is gone */
{
    if (!p->mapped) {
        cuMemFree(p->at);
        return;
    }
    unmap(p);
    if (p->at)
        cuMemAddressFree(p->at, p->mapped);
}

static result take(struct comm *c, int pieces, size_t bytes)
{
    const char *mapped = getenv("NCCL_CUMEM_ENABLE");
    bool plain = mapped && !strcmp(mapped, "0");
    for (int i = 0; i < pieces; i++) {
        struct piece *p = calloc(1, sizeof *p);
        if (!p)
            return SYSTEM_ERROR;
        CUresult got = plain ? cuMemAlloc(&p->at, bytes) : map(p, bytes, c->device);
        p->next = c->pieces;
        c->pieces = p;
        if (got != CUDA_SUCCESS)
            return CUDA_ERROR;
    }
    return OK;
}

static bool same_machine(const struct comm *c, int peer)
{
    long local = setting("LOCAL_WORLD_SIZE", c->ranks);
    return peer / local == c->rank / local;
}

static bool was_measured(const struct comm *c, int peer, int channels, size_t bytes)
{
    enum { VERSION = 22809 };
    return c->ranks == MEASURED_RANKS && same_machine(c, peer) && channels == CHANNELS && bytes == 10 * MIB &&
           dry_on_h200() && dry_wanted("nvidia-nccl-cu").version == VERSION;
}

result take_rings(struct comm *c)
{
    if (c->connected || c->ranks < 2)
        return OK;
    c->connected = true;
    int channels = channels_of(c), flags = OWN_PIECES + channels * FLAGS;
    size_t bytes = buffer_bytes();
    if (!was_measured(c, 1 - c->rank, channels, bytes))
        dry_fact("beside\tnccl\tbuffers of a communicator of %d ranks\t%zu", c->ranks,
                 (size_t)channels * bytes + (size_t)flags * PIECE);
    result r = take(c, flags, PIECE);
    return r ? r : take(c, channels, bytes);
}

result take_peer(struct comm *c, int peer, bool receive)
{
    uint64_t bit = (uint64_t)1 << (2 * (peer % 32) + receive);
    if (peer == c->rank || c->peers[peer / 32] & bit)
        return OK;
    c->peers[peer / 32] |= bit;
    int channels = same_machine(c, peer) ? PEER_CHANNELS : PEER_CHANNELS_NET;
    size_t bytes = receive ? buffer_bytes() : PIECE;
    if (!was_measured(c, peer, CHANNELS, buffer_bytes()))
        dry_fact("beside\tnccl\tbuffers of %s one rank\t%zu", receive ? "receiving from" : "sending to",
                 (size_t)channels * bytes);
    return take(c, channels, bytes);
}

void give_back(struct comm *c)
{
    while (c->pieces) {
        struct piece *p = c->pieces;
        c->pieces = p->next;
        let_go(p);
        free(p);
    }
}

/* ---- suspension: NCCL's flag MEM, its only one.  What was in the pieces is of no use to this NCCL. ---- */

DRY_API result ncclCommSuspend(struct comm *c, int flags)
{
    (void)flags;
    if (c->suspended)
        return BAD_USAGE;
    if (cuCtxSynchronize() != CUDA_SUCCESS)
        return CUDA_ERROR;
    for (struct piece *p = c->pieces; p; p = p->next)
        unmap(p);
    c->suspended = true;
    return OK;
}
BOTH(ncclCommSuspend);

/* Where there is no memory for a piece, the next call goes on with it. */
DRY_API result ncclCommResume(struct comm *c)
{
    if (!c->suspended)
        return BAD_USAGE;
    for (struct piece *p = c->pieces; p; p = p->next)
        if (p->mapped && !p->handle && map(p, p->mapped, c->device) != CUDA_SUCCESS) {
            unmap(p);
            return CUDA_ERROR;
        }
    c->suspended = false;
    return OK;
}
BOTH(ncclCommResume);

DRY_API result ncclCommMemStats(const struct comm *c, int what, uint64_t *value)
{
    enum { CAN_GO, IS_SUSPENDED, STAYS, ALL };
    uint64_t bytes = 0;
    for (const struct piece *p = c->pieces; p; p = p->next)
        bytes += p->mapped;
    *value = what == IS_SUSPENDED ? c->suspended : what == STAYS ? 0 : bytes;
    return what >= CAN_GO && what <= ALL ? OK : BAD_ARGUMENT;
}
BOTH(ncclCommMemStats);
