/*
 * shard.c - ZeRO: states (stage 1), gradients (2) and parameters (3) in shares of N ranks, as PyTorch itself
 * has it: stage 1 is DDP with ZeroRedundancyOptimizer, 2 and 3 are fully_shard (gather.c), which at stage 2
 * keeps what was gathered over forward.
 *
 * DDP keeps a copy of all gradients in buckets, from the first step on.  At the low end gradients are views
 * of them (gradient_as_bucket_view), at the high end blocks beside them. Each parameter's states are one
 * rank's as a whole: the low end is an even share, the high end the fullest rank's.
 *
 * What a communication library takes of the device is none of PyTorch's allocators.  Other libraries' buffers
 * (DeepSpeed's) are other ones.
 */
#include "shard.h"

#include <stdlib.h>

#include "groups.h"

#define BUCKET (UINT64_C(25) << 20) /* it is closed by the gradient that makes it as large */

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
    uint64_t size = shard_of(s, was->size), most = (uint64_t)((double)size * s->most);
    b->now[at->block] = build_born(b, was, most < was->size ? most : was->size, at->phase, was->kind);
}

/* ---- stage 1 ---- */

static void bear_buckets(struct build *b, const struct groups *g)
{
    struct edit_block like = {.stream = 0};
    uint64_t bucket = 0;
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < g->at[i].n; k++) {
            bucket += g->at[i].sizes[k];
            if (bucket >= BUCKET) {
                build_born(b, &like, bucket, 0, KIND_OTHER);
                bucket = 0;
            }
        }
    build_born(b, &like, bucket, 0, KIND_OTHER);
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
    if (from->event_count)
        bear_buckets(&b, g);
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_moment *at = &from->events[i];
        const struct edit_block *was = at->what == MOMENT_BORN ? &from->blocks[at->block] : NULL;
        free_copied(&b, &c, at);
        shard_copy(&b, s, i);
        if (was && !s->high && was->kind == KIND_GRADIENT && at->phase &&
            at->phase == from->facts->backward) {
            *PUSH(c.blocks, c.n) = b.now[at->block];
            c.stack = was->stack;
        }
    }
    free(c.blocks);
    return build_end(&b);
}

struct program apply_zero(const struct program *from, const struct edit *e, struct edit_result *r, bool high)
{
    if (!needs_steps(from, r) || !needs_roles(from, r))
        return (struct program){0};
    if (!program_most(from, KIND_STATE))
        return refuse(r, "no states of an optimizer are known: record at least one whole step");
    struct shard s = {.ranks = e->n, .stage = e->stage, .most = 1, .high = high};
    const char *how = e->stage == 2   ? "fully_shard that keeps what it gathered over forward"
                      : e->stage == 3 ? "fully_shard"
                                      : "DDP with ZeroRedundancyOptimizer";
    const char *of = e->stage > 1 && from->facts->units ? " of each layer, and of the rest" : "";
    r->assumes =
        xformat("%lld ranks with the recorded batch each; PyTorch's %s%s; NCCL's own memory is not in it%s",
                (long long)e->n, how, of, e->n == 2 ? "" : "; measured with 2 ranks only");
    if (e->stage > 1)
        return shard_gathered(from, &s);
    /* where no gradient is known all parameters are taken to have one */
    struct groups g = program_most(from, KIND_GRADIENT) ? groups_of_gradients(from) : groups_of(from, high);
    if (high)
        s.most = groups_unevenness(&g, e->n);
    struct program p = in_buckets(from, &s, &g);
    groups_free(&g);
    return p;
}
