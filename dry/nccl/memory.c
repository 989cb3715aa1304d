/*
 * memory.c - what NCCL itself takes of a device, in the pieces and at the moment that it does.
 *
 * Measured is one thing: DDP, ZeroRedundancyOptimizer and FSDP2 on two H200s (NCCL 2.28.9) took 484 MiB of
 * each, in pieces of 2 and 6 MiB. A connection's buffers (NCCL_BUFFSIZE of the simple protocol and 512 KiB of
 * LL) make 6 MiB, its flags 2 MiB.  So 24 channels have 60 connections, and 4 MiB are the communicator's. For
 * other numbers of ranks and channels, other versions, other GPUs and ranks on two machines this is a guess,
 * and is told as one: a rank has one neighbour on each side of a ring however many there are, but trees and
 * NVLink's multicast take more.
 */
#include "measured.h"
#include "nccl.h"

enum { MIB = 1 << 20, PIECE = 2 * MIB, LL_BYTES = MIB / 2 };
enum { CHANNELS = 24, CONNECTIONS = 60, OWN_PIECES = 2 }; /* of collectives */
enum {
    PEER_CHANNELS = 32,
    PEER_CHANNELS_NET = 2,
    MEASURED_RANKS = 2
}; /* of sends to one rank: on this machine, on another */

struct piece {
    struct piece *next;
    CUdeviceptr at;
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
    size_t bytes = (size_t)setting("NCCL_BUFFSIZE", 4 * MIB) + LL_BYTES;
    return (bytes + PIECE - 1) / PIECE * PIECE;
}

static int channels_of(const struct comm *c)
{
    long most = setting("NCCL_MAX_CTAS", setting("NCCL_MAX_NCHANNELS", CHANNELS));
    if (c->channels > 0 && c->channels < most)
        most = c->channels;
    return (int)(most < CHANNELS ? most : CHANNELS);
}

static result take(struct comm *c, int pieces, size_t bytes)
{
    for (int i = 0; i < pieces; i++) {
        struct piece *p = calloc(1, sizeof *p);
        if (!p)
            return SYSTEM_ERROR;
        if (cuMemAlloc(&p->at, bytes) != CUDA_SUCCESS) {
            free(p);
            return CUDA_ERROR;
        }
        p->next = c->pieces;
        c->pieces = p;
    }
    return OK;
}

static bool same_machine(const struct comm *c, int peer)
{
    long local = setting("LOCAL_WORLD_SIZE", c->ranks);
    return peer / local == c->rank / local;
}

static bool was_measured(const struct comm *c, int connections, size_t bytes)
{
    enum { VERSION = 22809 };
    return c->ranks == MEASURED_RANKS && same_machine(c, 1 - c->rank) && connections == CONNECTIONS &&
           bytes == 6 * MIB && dry_on_h200() && dry_wanted("nvidia-nccl-cu").version == VERSION;
}

result take_rings(struct comm *c)
{
    if (c->connected || c->ranks < 2)
        return OK;
    c->connected = true;
    int connections = channels_of(c) * CONNECTIONS / CHANNELS;
    size_t bytes = buffer_bytes();
    if (!was_measured(c, connections, bytes))
        dry_fact("beside\tnccl\tbuffers of a communicator of %d ranks\t%zu", c->ranks,
                 (size_t)connections * (bytes + PIECE) + (size_t)OWN_PIECES * PIECE);
    result r = take(c, OWN_PIECES + connections, PIECE);
    return r ? r : take(c, connections, bytes);
}

result take_peer(struct comm *c, int peer, bool receive)
{
    uint64_t bit = (uint64_t)1 << (2 * (peer % 32) + receive);
    if (peer == c->rank || c->peers[peer / 32] & bit)
        return OK;
    c->peers[peer / 32] |= bit;
    int channels = same_machine(c, peer) ? PEER_CHANNELS : PEER_CHANNELS_NET;
    size_t bytes = receive ? buffer_bytes() : PIECE;
    dry_fact("beside\tnccl\tbuffers of %s one rank\t%zu", receive ? "receiving from" : "sending to",
             (size_t)channels * bytes);
    return take(c, channels, bytes);
}

void give_back(struct comm *c)
{
    while (c->pieces) {
        struct piece *p = c->pieces;
        c->pieces = p->next;
        cuMemFree(
            p->at); /* fails where the process is ending and the driver is gone: nothing is left to do */
        free(p);
    }
}
