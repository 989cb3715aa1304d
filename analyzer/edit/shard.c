/*
 * shard.c - ZeRO: states (stage 1), gradients (2) and parameters (3) in shares of N ranks.
 *
 * What a rank holds for good is its share.  What communication takes on top depends on the implementation:
 *
 *      low     nothing but what must be whole at a time: a unit's parameters while it runs (3)
 *      high    a bucket of gradients, one of parameters, and the buffers of a communication library
 *
 * No machine with N devices was measured.
 */
#include <stdlib.h>

#include "apply.h"

#define BUCKET                                                                                               \
    (UINT64_C(500) << 20) /* at the most: reduce and gather, as DeepSpeed has them by default twice */
#define NCCL (UINT64_C(1) << 30)

static bool is_shared(enum edit_kind kind, int64_t stage)
{
    return kind == KIND_STATE || kind == KIND_UPDATE || (kind == KIND_GRADIENT && stage >= 2) ||
           (kind == KIND_PARAMETER && stage >= 3);
}

/* The largest unit's parameters, which stage 3 gathers; and of the rest the largest one. */
static uint64_t largest_parameter(const struct program *p)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_PARAMETER && p->blocks[i].size > largest)
            largest = p->blocks[i].size;
    return largest;
}

struct program apply_zero(const struct program *from, const struct edit *e, struct edit_result *r, bool high)
{
    struct build b;
    if (!needs_steps(from, r) || !needs_roles(from, r))
        return (struct program){0};
    if (!program_most(from, KIND_STATE))
        return refuse(r, "no states of an optimizer are known: record at least one whole step");
    uint64_t parameters = program_most(from, KIND_PARAMETER);
    uint64_t whole = e->stage >= 3 ? 2 * largest_parameter(from) : 0;
    uint64_t more = parameters < BUCKET ? 2 * parameters : 2 * BUCKET;
    struct edit_block like = {.stream = 0};
    build_begin(&b, from);
    if (from->event_count) {
        build_born(&b, &like, whole, 0, KIND_OTHER);
        build_born(&b, &like, high ? more : 0, 0, KIND_OTHER);
        build_born(&b, &like, high ? NCCL : 0, 0, KIND_OTHER);
    }
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_moment *at = &from->events[i];
        const struct edit_block *was = at->what == MOMENT_BORN ? &from->blocks[at->block] : NULL;
        if (was && is_shared(was->kind, e->stage))
            b.now[at->block] =
                build_born(&b, was, (was->size + (uint64_t)e->n - 1) / (uint64_t)e->n, at->phase, was->kind);
        else
            build_copy(&b, i);
    }
    r->assumes = xformat("unmeasured: %lld ranks with the recorded batch each, buffers and a communication "
                         "library's memory at the high end",
                         (long long)e->n);
    return build_end(&b);
}
