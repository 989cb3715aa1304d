/*
 * collectives.c - what a collective leaves in its output, as if every rank had what this one has.  A sum
 * would be that times the ranks.  Only whole numbers in small buffers, on which sizes and counts hang, are
 * multiplied so; all other sums are this rank's own values.  Alone, receives and other ranks' broadcasts
 * leave the output as it was.
 */
#include "nccl.h"

typedef void *stream;

enum { TYPES = 12, LAST_WHOLE = 5, KEPT = 1 << 20 }; /* ncclDataType_t: whole numbers come first */
static const unsigned char widths[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static void put(void *to, const void *from, size_t bytes, stream s)
{
    if (to != from && bytes)
        cuMemcpyDtoDAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, s);
}

static bool captured(stream s)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return cuStreamIsCapturing(s, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static void multiply(unsigned char *values, size_t count, int width, int by)
{
    for (size_t i = 0; i < count; i++, values += width) {
        if (width == 8)
            *(uint64_t *)values *= (uint64_t)by;
        else if (width == 4)
            *(uint32_t *)values *= (uint32_t)by;
        else
            *values = (unsigned char)(*values * by);
    }
}

/* The sum of COUNT whole numbers at AT over ranks that all have the same. */
static void sum(void *at, size_t count, int type, int ranks, stream s)
{
    size_t bytes = count * widths[type];
    if (type > LAST_WHOLE || bytes > KEPT || !bytes || captured(s))
        return;
    unsigned char *values = malloc(bytes);
    if (values && cuMemcpyDtoHAsync(values, (CUdeviceptr)at, bytes, s) == CUDA_SUCCESS &&
        cuStreamSynchronize(s) == CUDA_SUCCESS) {
        multiply(values, count, widths[type], ranks);
        cuMemcpyHtoDAsync((CUdeviceptr)at, values, bytes, s);
    }
    free(values);
}

static void reduce(void *to, const void *from, size_t count, int type, int op, const struct comm *c, stream s)
{
    put(to, from, count * widths[type], s);
    if (op == SUM)
        sum(to, count, type, c->ranks, s);
}

static result begin(struct comm *c, int type)
{
    if (!c || type < 0 || type >= TYPES)
        return BAD_ARGUMENT;
    return c->suspended ? CUDA_ERROR : take_rings(c); /* NCCL's kernels would find no memory */
}

DRY_API result ncclAllReduce(const void *from, void *to, size_t count, int type, int op, struct comm *c,
                             stream s)
{
    result r = begin(c, type);
    if (!r)
        reduce(to, from, count, type, op, c, s);
    return r;
}
BOTH(ncclAllReduce);

DRY_API result ncclReduce(const void *from, void *to, size_t count, int type, int op, int root,
                          struct comm *c, stream s)
{
    result r = begin(c, type);
    if (!r && root == c->rank)
        reduce(to, from, count, type, op, c, s);
    return r;
}
BOTH(ncclReduce);

DRY_API result ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, struct comm *c,
                                 stream s)
{
    result r = begin(c, type);
    if (!r)
        reduce(to, (const char *)from + (size_t)c->rank * count * widths[type], count, type, op, c, s);
    return r;
}
BOTH(ncclReduceScatter);

/* Sends, receives and broadcasts of one group.  What is received of a rank is what goes to that rank in the
 * same group, where it has the same size. */
struct message {
    const void *from;
    void *to;
    size_t bytes;
    int peer;
    stream stream;
    struct message *next;
};
static __thread struct message *sent, *received,
    *broadcast; /* a broadcast's peer is -1 where it is this rank's own */
static __thread int depth;

static void deliver(const struct message *in)
{
    struct message **m = &sent;
    while (*m && ((*m)->peer != in->peer || (*m)->bytes != in->bytes))
        m = &(*m)->next;
    if (!*m)
        return;
    struct message *out = *m;
    put(in->to, out->from, in->bytes, in->stream);
    *m = out->next;
    free(out);
}

static void drop(struct message **list)
{
    while (*list) {
        struct message *m = *list;
        *list = m->next;
        free(m);
    }
}

/* One broadcast of each rank in a group is a gather, which repeats this rank's part. */
static void deliver_broadcasts(void)
{
    const struct message *own = broadcast;
    while (own && own->peer != -1)
        own = own->next;
    for (const struct message *m = broadcast; own && m; m = m->next)
        if (m->bytes == own->bytes)
            put(m->to, own->from, m->bytes, m->stream);
    drop(&broadcast);
}

static void deliver_all(void)
{
    deliver_broadcasts();
    for (struct message *m = received; m; m = m->next)
        deliver(m);
    drop(&received);
    drop(&sent);
}

static result post(struct message **list, struct message m)
{
    struct message *kept = malloc(sizeof *kept);
    if (!kept)
        return SYSTEM_ERROR;
    *kept = m;
    while (*list)
        list = &(*list)->next;
    *list = kept;
    if (!depth)
        deliver_all();
    return OK;
}

DRY_API result ncclBroadcast(const void *from, void *to, size_t count, int type, int root, struct comm *c,
                             stream s)
{
    result r = begin(c, type);
    return r ? r
             : post(&broadcast, (struct message){.from = from,
                                                 .to = to,
                                                 .bytes = count * widths[type],
                                                 .peer = root == c->rank ? -1 : root,
                                                 .stream = s});
}
BOTH(ncclBroadcast);

DRY_API result ncclBcast(void *at, size_t count, int type, int root, struct comm *c, stream s)
{
    return ncclBroadcast(at, at, count, type, root, c, s);
}
BOTH(ncclBcast);

DRY_API result ncclAllGather(const void *from, void *to, size_t count, int type, struct comm *c, stream s)
{
    result r = begin(c, type);
    if (r)
        return r;
    size_t bytes = count * widths[type];
    for (int i = 0; i < c->ranks; i++)
        put((char *)to + (size_t)i * bytes, from, bytes, s);
    return OK;
}
BOTH(ncclAllGather);

DRY_API result ncclGather(const void *from, void *to, size_t count, int type, int root, struct comm *c,
                          stream s)
{
    if (c && root != c->rank)
        return begin(c, type);
    return ncclAllGather(from, to, count, type, c, s);
}
BOTH(ncclGather);

DRY_API result ncclScatter(const void *from, void *to, size_t count, int type, int root, struct comm *c,
                           stream s)
{
    result r = begin(c, type);
    if (!r && root == c->rank)
        put(to, (const char *)from + (size_t)root * count * widths[type], count * widths[type], s);
    return r;
}
BOTH(ncclScatter);

static result all_peers(struct comm *c)
{
    result r = OK;
    for (int i = 0; i < c->ranks && !r; i++) {
        r = take_peer(c, i, false);
        if (!r)
            r = take_peer(c, i, true);
    }
    return r;
}

DRY_API result ncclAlltoAll(const void *from, void *to, size_t count, int type, struct comm *c, stream s)
{
    if (!c || type < 0 || type >= TYPES)
        return BAD_ARGUMENT;
    result r = all_peers(c);
    if (!r)
        put(to, from, (size_t)c->ranks * count * widths[type], s);
    return r;
}
BOTH(ncclAlltoAll);

DRY_API result ncclSend(const void *from, size_t count, int type, int peer, struct comm *c, stream s)
{
    if (!c || type < 0 || type >= TYPES || peer < 0 || peer >= c->ranks)
        return BAD_ARGUMENT;
    result r = take_peer(c, peer, false);
    return r ? r
             : post(&sent,
                    (struct message){.from = from, .bytes = count * widths[type], .peer = peer, .stream = s});
}
BOTH(ncclSend);

DRY_API result ncclRecv(void *to, size_t count, int type, int peer, struct comm *c, stream s)
{
    if (!c || type < 0 || type >= TYPES || peer < 0 || peer >= c->ranks)
        return BAD_ARGUMENT;
    result r = take_peer(c, peer, true);
    return r ? r
             : post(&received,
                    (struct message){.to = to, .bytes = count * widths[type], .peer = peer, .stream = s});
}
BOTH(ncclRecv);

DRY_API result ncclGroupStart(void)
{
    depth++;
    return OK;
}
BOTH(ncclGroupStart);

DRY_API result ncclGroupEnd(void)
{
    if (!depth)
        return BAD_USAGE;
    if (!--depth)
        deliver_all();
    return OK;
}
BOTH(ncclGroupEnd);

/* An operator of the program's own: a number beyond the built-in ones, so that its values stay this rank's.
 */
DRY_API result ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int where, struct comm *c)
{
    enum { FIRST_OWN = 5 };
    (void)scalar, (void)type, (void)where, (void)c;
    *op = FIRST_OWN;
    return OK;
}
BOTH(ncclRedOpCreatePreMulSum);

DRY_API result ncclRedOpDestroy(int op, struct comm *c)
{
    (void)op, (void)c;
    return OK;
}
BOTH(ncclRedOpDestroy);
