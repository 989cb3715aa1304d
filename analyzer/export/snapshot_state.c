/*
 * snapshot_state.c - the parts of a snapshot that are no events: the segments at the end with their blocks,
 * and the phases and ranges.
 */
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "trace/roles.h"
#include "snapshot.h"

/* ---- segments ---- */

static uint64_t asked_of(const struct snapshot_writer *w, const struct holding *x)
{
    if (x->kind == HOLDING_REST) /* nobody asked for just that */
        return 0;
    if (x->op != VS_OP_BLOCK_ALLOC) /* the driver gives what it is asked for */
        return (uint64_t)x->size;
    return asked_bytes(&w->asked.at[asked_find(&w->asked, x->tensor)], (uint64_t)x->size);
}

int64_t snapshot_request(const struct snapshot_writer *w, const struct holding *x)
{
    uint64_t asked = asked_of(w, x);
    return asked ? (int64_t)asked : x->size;
}

void snapshot_mark_size(struct snapshot_writer *w, const struct holding *x)
{
    if (!asked_of(w, x))
        snapshot_bool(w, "size_is_block", true);
    else if ((int64_t)asked_of(w, x) != x->size)
        snapshot_int(w, "block_size", x->size);
    if (x->op != VS_OP_BLOCK_ALLOC || x->kind == HOLDING_REST)
        snapshot_bool(w, "is_driver_memory", true);
}

void snapshot_mark_role(struct snapshot_writer *w, const struct holding *x)
{
    static const uint8_t told[VS_ROLE_COUNT] = {[VS_ROLE_UNTOLD] = VS_LIFE_TOLD_UNKNOWN,
                                                [VS_ROLE_PARAMETER] = VS_LIFE_TOLD_PARAMETER,
                                                [VS_ROLE_GRADIENT] = VS_LIFE_TOLD_GRADIENT,
                                                [VS_ROLE_STATE] = VS_LIFE_TOLD_STATE,
                                                [VS_ROLE_ACTIVATION] = VS_LIFE_TOLD_ACTIVATION,
                                                [VS_ROLE_RECOMPUTED] = VS_LIFE_TOLD_RECOMPUTED,
                                                [VS_ROLE_OUTPUT] = VS_LIFE_TOLD_LOGITS,
                                                [VS_ROLE_INPUT] = VS_LIFE_TOLD_INPUT,
                                                [VS_ROLE_TEMPORARY] = VS_LIFE_TOLD_TEMPORARY,
                                                [VS_ROLE_WORKSPACE] = VS_LIFE_TOLD_WORKSPACE,
                                                [VS_ROLE_COMMUNICATION] = VS_LIFE_TOLD_COMMUNICATION};
    int64_t rule = x->kind == HOLDING_REST ? 0 : trace_role_rule_of(w->roles, x->seq);
    const char *role = rule || x->kind == HOLDING_REST ? NULL : trace_role_of(w->roles, x->seq);
    if (role)
        rule = told[vs_role_named(role)];
    if (rule)
        snapshot_int(w, "role_rule", rule);
}

void snapshot_mark_asked(struct snapshot_writer *w, const struct holding *x)
{
    const struct asked *asked = &w->asked.at[asked_find(&w->asked, x->tensor)];
    if (!asked->made_for || x->op != VS_OP_BLOCK_ALLOC)
        return;
    snapshot_text(w, "made_for", asked->made_for);
    if (asked->element_type)
        snapshot_text(w, "element_type", asked->element_type);
    if (asked->extents)
        snapshot_text(w, "shape", asked->extents);
}

/* X: who has it; NULL: it is free.  WAITS: it is freed, and other streams may still use it. */
static void put_block(struct snapshot_writer *w, int64_t address, int64_t size, const struct holding *x,
                      bool waits)
{
    pickle_dict(&w->pickle);
    snapshot_int(w, "address", address);
    snapshot_int(w, "size", size);
    snapshot_int(w, "requested_size", x ? snapshot_request(w, x) : 0);
    if (x)
        snapshot_mark_size(w, x);
    if (x && !waits)
        snapshot_mark_role(w, x);
    snapshot_text(w, "state", waits ? "active_pending_free" : x ? "active_allocated" : "inactive");
    pickle_text(&w->pickle, "frames");
    if (!x || waits)
        snapshot_no_frames(w);
    else if (x->kind == HOLDING_BLOCK)
        snapshot_stack(w, x->stack);
    else
        snapshot_own_stack(w, x);
    pickle_set(&w->pickle);
    snapshot_count(w);
}

/* What is free from AT to END, but for blocks that still wait. */
static void put_gap(struct snapshot_writer *w, int64_t at, int64_t end)
{
    while (at < end) {
        const struct holding *next = NULL;
        for (size_t i = 0; i < w->held_count; i++) {
            const struct holding *x = &w->held[i].of;
            bool within = w->held[i].device == w->device && x->address >= at && x->address + x->size <= end;
            if (within && (!next || x->address < next->address))
                next = x;
        }
        int64_t until = next ? next->address : end;
        if (until > at)
            put_block(w, at, until - at, NULL, false);
        if (next)
            put_block(w, next->address, next->size, next, true);
        at = next ? next->address + next->size : end;
    }
}

/* What is allocated, and what is free between it. */
static void put_blocks(struct snapshot_writer *w, const struct heap_segment *s, const struct holding **blocks)
{
    int64_t at = s->address;
    snapshot_begin_list(w);
    if (s->own)
        put_block(w, s->address, s->size, s->own, false);
    for (size_t i = s->first; !s->own && i < s->first + s->count; i++) {
        put_gap(w, at, blocks[i]->address);
        put_block(w, blocks[i]->address, blocks[i]->size, blocks[i], false);
        at = blocks[i]->address + blocks[i]->size;
    }
    if (!s->own)
        put_gap(w, at, s->address + s->size);
    snapshot_end_list(w);
}

static int64_t allocated_in(const struct heap_segment *s, const struct holding **blocks)
{
    int64_t sum = s->own ? s->size : 0;
    for (size_t i = s->first; !s->own && i < s->first + s->count; i++)
        sum += blocks[i]->size;
    return sum;
}

static int64_t requested_in(const struct snapshot_writer *w, const struct heap_segment *s,
                            const struct holding **blocks)
{
    int64_t sum = s->own ? snapshot_request(w, s->own) : 0;
    for (size_t i = s->first; !s->own && i < s->first + s->count; i++)
        sum += snapshot_request(w, blocks[i]);
    return sum;
}

#define SMALL_SEGMENT (INT64_C(2) << 20) /* c10's pool of small blocks has segments of 2 MiB */

static void put_segment(struct snapshot_writer *w, const struct heap_segment *s,
                        const struct holding **blocks)
{
    int64_t allocated = allocated_in(s, blocks);
    pickle_dict(&w->pickle);
    snapshot_int(w, "device", w->device);
    snapshot_int(w, "address", s->address);
    snapshot_int(w, "total_size", s->size);
    snapshot_int(w, "allocated_size", allocated);
    snapshot_int(w, "active_size", allocated);
    snapshot_int(w, "requested_size", requested_in(w, s, blocks));
    snapshot_int(w, "stream", s->stream);
    snapshot_text(w, "segment_type", s->size <= SMALL_SEGMENT ? "small" : "large");
    snapshot_bool(w, "is_expandable", s->expandable);
    snapshot_pool(w, "segment_pool_id", s->pool);
    pickle_text(&w->pickle, "frames");
    if (s->own)
        snapshot_own_stack(w, s->own);
    else
        snapshot_stack(w, s->stack);
    size_t outer = w->elements;
    pickle_text(&w->pickle, "blocks");
    put_blocks(w, s, blocks);
    w->elements = outer;
    pickle_set(&w->pickle);
    snapshot_count(w);
}

void snapshot_segments(struct snapshot_writer *w)
{
    pickle_text(&w->pickle, "segments");
    snapshot_begin_list(w);
    for (size_t i = 0; i < w->heap_count; i++) {
        struct heap_segment *segments;
        const struct holding **blocks;
        size_t n;
        w->device = (int64_t)i;
        if (!w->heaps[i].tell) /* nothing was told of it, so readers could not go back from here */
            continue;
        heap_state(&w->heaps[i], &segments, &n, &blocks);
        for (size_t k = 0; k < n; k++)
            put_segment(w, &segments[k], blocks);
        free(segments);
        free(blocks);
    }
    snapshot_end_list(w);
}

/* ---- phases ---- */

struct edge { /* a range's begin or end */
    int64_t t, order;
    const char *name;
    bool begins, phase;
};

struct edges {
    struct snapshot_writer *w;
    struct edge *at;
    size_t n;
};

static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return x->t != y->t ? (x->t < y->t ? -1 : 1) : x->order < y->order ? -1 : x->order > y->order;
}

static bool add_span(void *context, const struct trace_span_row *r)
{
    struct edges *e = context;
    const struct trace *t = e->w->t;
    const char *name =
        r->phase > 0 && (size_t)r->phase < t->phase_name_count ? t->phase_names[r->phase] : r->name;
    int64_t order = (int64_t)e->n;
    if (!name || r->t_push > e->w->o->to || (r->t_pop != UNKNOWN && r->t_pop < e->w->o->from))
        return true;
    *PUSH(e->at, e->n) = (struct edge){r->t_push, order, name, true, r->phase > 0};
    if (r->t_pop != UNKNOWN) /* of those that begin and end at once the inner ones end first */
        *PUSH(e->at, e->n) =
            (struct edge){r->t_pop, r->t_pop > r->t_push ? -order : order, name, false, r->phase > 0};
    return true;
}

int snapshot_annotations(struct snapshot_writer *w)
{
    struct edges e = {.w = w};
    if (trace_each_range(w->t, add_span, &e))
        return -1;
    if (e.n)
        qsort(e.at, e.n, sizeof *e.at, by_time);
    pickle_text(&w->pickle, "external_annotations");
    snapshot_begin_list(w);
    for (size_t i = 0; i < e.n; i++) {
        pickle_dict(&w->pickle);
        snapshot_text(w, "name", shown(e.at[i].name));
        snapshot_text(w, "stage", e.at[i].begins ? "START" : "END");
        snapshot_int(w, "device", w->first_device);
        snapshot_put_time(w, e.at[i].t);
        if (e.at[i].phase) /* a key of ours: an importer knows where it comes from */
            snapshot_text(w, "phase", w->told ? "recorded" : "by stacks");
        pickle_set(&w->pickle);
        snapshot_count(w);
    }
    snapshot_end_list(w);
    free(e.at);
    return 0;
}
