/*
 * shard.c - ZeRO: states (stage 1), gradients (2) and parameters (3) in shares of N ranks, as PyTorch itself
 * has it.  Stage 1 is DDP with ZeroRedundancyOptimizer.  Stages 2 and 3 are fully_shard (gather.c), which at
 * stage 2 keeps over forward what was gathered.
 *
 * DDP keeps a copy of all gradients in buckets.  At first one bucket has all.  The second step's forward
 * makes others of 25 MiB and more (the first of 1 MiB and more), in the order in which backward made the
 * gradients.  At the low end gradients are views of them (gradient_as_bucket_view), at the high end blocks
 * beside them.  The first bucket goes when the others are made, or one step or two later.  NCCL keeps what a
 * collective used until a thread of its own has seen the end of it, and a later collective then lets it go:
 * that is a matter of time, on each rank anew.
 *
 * Each parameter's states are one rank's as a whole.  So one rank may have a few large ones and another many
 * small ones, which are different programs for an allocator.  Where it is not known whose a state is, states
 * are shares.
 *
 * What a communication library takes of the device is none of PyTorch's allocators.  Other libraries
 * (DeepSpeed) have other buffers.
 */
#include "shard.h"

#include <stdlib.h>

#include "groups.h"

#define BUCKET       (UINT64_C(25) << 20) /* it is closed by the gradient that makes it as large */
#define FIRST_BUCKET (UINT64_C(1) << 20)
#define KEPT_STEPS   2

/* ---- which rank has a parameter's states ---- */

/*
 * ZeroRedundancyOptimizer goes over the parameters from the largest to the smallest, and gives each to the
 * rank that has the fewest elements by then, the first of several.  Its place says whose a state is: the
 * optimizer makes all states of one parameter, then those of the next, and temporaries in that order, too.
 * Parameters of a size are the same to an allocator, so it is enough to count by size.
 */
struct owners {
    struct owned {
        uint64_t size;
        int64_t rank;
        size_t next; /* of the first of a size: states, and temporaries, that were seen */
        size_t seen;
    } * at; /* by size, the largest first; of a size in the order of the parameters */
    size_t n;
    size_t states; /* of a parameter */
    int64_t fullest, emptiest;
};

static int by_size(const void *a, const void *b)
{
    const struct owned *x = a, *y = b;
    return (x->size < y->size) - (x->size > y->size);
}

/* The first of SIZE; NULL: there is none. */
static struct owned *find(const struct owners *o, uint64_t size)
{
    size_t low = 0, high = o->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (o->at[middle].size > size)
            low = middle + 1;
        else
            high = middle;
    }
    return low < o->n && o->at[low].size == size ? &o->at[low] : NULL;
}

static size_t count(const struct owners *o, const struct owned *first)
{
    size_t n = 1;
    while (first + n < o->at + o->n && first[n].size == first->size)
        n++;
    return n;
}

/* Ranks beyond one more than there are parameters have none. */
static void give_out(struct owners *o, int64_t ranks)
{
    size_t n = (uint64_t)ranks < o->n + 1 ? (size_t)ranks : o->n + 1;
    uint64_t *load = xrealloc(NULL, n * sizeof *load);
    for (size_t r = 0; r < n; r++)
        load[r] = 0;
    for (size_t i = 0; i < o->n; i++) {
        size_t least = 0;
        for (size_t r = 1; r < n; r++)
            least = load[r] < load[least] ? r : least;
        o->at[i].rank = (int64_t)least;
        load[least] += o->at[i].size;
    }
    size_t most = 0, least = 0;
    for (size_t r = 1; r < n; r++) {
        most = load[r] >= load[most] ? r : most;
        least = load[r] < load[least] ? r : least;
    }
    o->fullest = (int64_t)most;
    o->emptiest = (int64_t)least;
    free(load);
}

/* For RANKS of them, as ZeroRedundancyOptimizer gives parameters out.  N is 0 where states and parameters do
 * not go together. */
static struct owners owners_of(const struct program *p, int64_t ranks)
{
    struct owners o = {.n = 0};
    size_t states = 0;
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_PARAMETER)
            *PUSH(o.at, o.n) = (struct owned){.size = p->blocks[i].size};
    if (o.n)
        qsort(o.at, o.n, sizeof *o.at, by_size);
    for (size_t i = 0; i < p->block_count; i++)
        states += p->blocks[i].kind == KIND_STATE && find(&o, p->blocks[i].size);
    o.states = o.n ? states / o.n : 0;
    if (!o.states || states % o.n)
        o.n = 0;
    else
        give_out(&o, ranks);
    return o;
}

static void owners_free(struct owners *o)
{
    free(o->at);
    *o = (struct owners){0};
}

/* Whether the next block, of KIND_STATE or KIND_UPDATE and so large, is that of a parameter of RANK: 1, 0, or
 * -1 where no parameter is as large. */
static int owners_next(struct owners *o, uint64_t size, enum edit_kind kind, int64_t rank)
{
    struct owned *first = o->n ? find(o, size) : NULL;
    if (!first)
        return -1;
    size_t of_size = count(o, first);
    size_t at = kind == KIND_STATE ? first->seen++ / o->states : first->next++;
    return first[at % of_size].rank == rank;
}

/* ---- shares ---- */

uint64_t shard_of(const struct shard *s, uint64_t size)
{
    return (size + (uint64_t)s->ranks - 1) / (uint64_t)s->ranks;
}

static bool is_shared(const struct shard *s, enum edit_kind kind)
{
    return kind == KIND_STATE || kind == KIND_UPDATE ||
           (s->stage >= 2 && (kind == KIND_GRADIENT || kind == KIND_PARAMETER));
}

void shard_copy(struct build *b, const struct shard *s, size_t i)
{
    const struct trace_moment *at = &b->from->events[i];
    const struct edit_block *was = at->what == MOMENT_BORN ? &b->from->blocks[at->block] : NULL;
    if (!was || !is_shared(s, was->kind)) {
        build_copy(b, i);
        return;
    }
    int own = s->owners ? owners_next(s->owners, was->size, was->kind, s->rank) : -1;
    if (own >= 0) {
        if (own)
            build_copy(b, i);
        return;
    }
    uint64_t size = shard_of(s, was->size), most = (uint64_t)((double)size * s->most);
    b->now[at->block] = build_born(b, was, most < was->size ? most : was->size, at->phase, was->kind);
}

/* ---- stage 1 ---- */

struct buckets {     /* of gradients, as DDP has them */
    uint64_t *sizes; /* of the gradients, in the order in which the first backward makes them */
    size_t n;
    uint32_t *blocks;
    size_t block_count;
    uint32_t kept; /* the first one, where it is kept */
    unsigned kept_steps;
    bool step, built; /* a step is through; the buckets are those of its order */
};

static void find_order(struct buckets *u, const struct program *p, const struct groups *g)
{
    for (size_t i = 0; i < p->event_count && p->events[i].what != MOMENT_STEP; i++)
        if (p->events[i].what == MOMENT_BORN && p->blocks[p->events[i].block].kind == KIND_GRADIENT)
            *PUSH(u->sizes, u->n) = p->blocks[p->events[i].block].size;
    for (size_t i = 0; i < g->n && !u->n; i++) /* the recording has none of that step */
        for (size_t k = 0; k < g->at[i].n; k++)
            *PUSH(u->sizes, u->n) = g->at[i].sizes[k];
}

static void bear_bucket(struct build *b, struct buckets *u, uint64_t size, uint16_t phase)
{
    struct edit_block like = {.stream = 0};
    *PUSH(u->blocks, u->block_count) = build_born(b, &like, size, phase, KIND_OTHER);
}

/* All in one at first, as no order is known then. */
static void bear_first(struct build *b, struct buckets *u)
{
    uint64_t all = 0;
    for (size_t i = 0; i < u->n; i++)
        all += u->sizes[i];
    bear_bucket(b, u, all, 0);
}

static void build_buckets(struct build *b, struct buckets *u, uint16_t phase, bool keep)
{
    uint64_t bucket = 0, most = FIRST_BUCKET;
    if (keep)
        u->kept = u->blocks[0];
    else
        build_died(b, u->blocks[0], phase);
    for (size_t i = 0; i < u->n; i++) {
        bucket += u->sizes[i];
        if (bucket >= most) {
            bear_bucket(b, u, bucket, phase);
            bucket = 0;
            most = BUCKET;
        }
    }
    bear_bucket(b, u, bucket, phase);
    u->built = true;
}

/* A gradient goes when it was copied into its bucket, before the next node makes another. */
struct copied {
    uint32_t *blocks;
    size_t n;
    uint32_t stack;
};

static void free_copied(struct build *b, struct copied *c, const struct trace_moment *at)
{
    bool same = at->what == MOMENT_BORN && b->from->blocks[at->block].stack == c->stack;
    if (same || at->what == MOMENT_DIED)
        return;
    for (size_t k = 0; k < c->n; k++)
        build_died(b, c->blocks[k], at->phase);
    c->n = 0;
}

static struct program in_buckets(const struct program *from, const struct shard *s, const struct groups *g)
{
    struct build b;
    struct copied c = {.n = 0};
    build_begin(&b, from);
    struct buckets u = {.kept = BLOCK_NEVER};
    find_order(&u, from, g);
    if (from->event_count)
        bear_first(&b, &u);
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_moment *at = &from->events[i];
        const struct edit_block *was = at->what == MOMENT_BORN ? &from->blocks[at->block] : NULL;
        free_copied(&b, &c, at);
        if (was && u.step && !u.built && program_is_forward(from->facts, at->phase))
            build_buckets(&b, &u, at->phase, s->high);
        u.step = u.step || at->what == MOMENT_STEP;
        if (at->what == MOMENT_STEP && u.built && ++u.kept_steps == KEPT_STEPS)
            build_died(&b, u.kept, 0);
        shard_copy(&b, s, i);
        if (was && !s->high && was->kind == KIND_GRADIENT && at->phase &&
            at->phase == from->facts->backward) {
            *PUSH(c.blocks, c.n) = b.now[at->block];
            c.stack = was->stack;
        }
    }
    free(c.blocks);
    free(u.sizes);
    free(u.blocks);
    return build_end(&b);
}

struct program apply_zero(const struct program *from, const struct edit *e, struct edit_result *r, bool high)
{
    if (!needs_steps(from, r) || !needs_roles(from, r))
        return (struct program){0};
    if (!program_most(from, KIND_STATE))
        return refuse(r, "no states of an optimizer are known: record at least one whole step");
    if (from->facts->ranks > 1) /* of which buckets, shares and gathers may be in it already */
        return refuse(r, "it is of one of %lld ranks already: record the program on one GPU",
                      (long long)from->facts->ranks);
    if (e->stage > 1 && from->facts->imported)
        return refuse(r, "it has no layers, by which weights are gathered: a snapshot does not name them, "
                         "vramscope run does");
    struct shard s = {.ranks = e->n, .stage = e->stage, .most = 1, .high = high};
    const char *how = e->stage == 2   ? "fully_shard (what it gathered is kept over forward)"
                      : e->stage == 3 ? "fully_shard"
                                      : "DDP with ZeroRedundancyOptimizer";
    const char *of = e->stage > 1 && from->facts->units ? " of each layer, and of the rest"
                     : e->stage == 1
                         ? ", whose first bucket a rank keeps for a step more or not, as it happens"
                         : "";
    r->assumes =
        xformat("%lld ranks with the recorded batch each; PyTorch's %s%s; NCCL's own memory is not in it%s",
                (long long)e->n, how, of, e->n == 2 ? "" : "; measured with 2 ranks only");
    if (e->stage > 1)
        return shard_gathered(from, &s);
    /* where no gradient is known all parameters are taken to have one */
    struct groups g = program_most(from, KIND_GRADIENT) ? groups_of_gradients(from) : groups_of(from, high);
    struct owners owners = owners_of(from, e->n);
    s.rank = e->other ? owners.emptiest : owners.fullest;
    if (owners.n)
        s.owners = &owners;
    else if (high)
        s.most = groups_unevenness(&g, e->n);
    struct program p = in_buckets(from, &s, &g);
    groups_free(&g);
    owners_free(&owners);
    return p;
}
