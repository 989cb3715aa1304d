/*
 * snapshot_frames.c - what the parts of a snapshot are made of: keys and values, lists in pieces, and frames,
 * which are written once and referred to (pytorch.c says what the format is).
 */
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "read/stacks.h"
#include "trace/journal/journal.h"
#include "snapshot.h"

enum { PIECE = 500 /* elements: the page hands as many to one call */ };

int64_t snapshot_wall_ns(const struct snapshot_writer *w, int64_t t)
{
    int64_t start = w->t->process.start_realtime_ns;
    return (start == UNKNOWN ? 0 : start) + t;
}

void snapshot_put_time(struct snapshot_writer *w, int64_t t)
{
    int64_t ns = snapshot_wall_ns(w, t);
    snapshot_int(w, "time_us", ns / 1000);
    if (ns % 1000) /* a key of ours */
        snapshot_int(w, "time_ns", ns);
}

void snapshot_begin_list(struct snapshot_writer *w)
{
    pickle_list(&w->pickle);
    pickle_mark(&w->pickle);
    w->elements = 0;
}

/* Called after each element. */
void snapshot_count(struct snapshot_writer *w)
{
    if (++w->elements % PIECE)
        return;
    pickle_append(&w->pickle);
    pickle_mark(&w->pickle);
}

void snapshot_end_list(struct snapshot_writer *w)
{
    pickle_append(&w->pickle);
}

void snapshot_int(struct snapshot_writer *w, const char *key, int64_t value)
{
    pickle_text(&w->pickle, key);
    pickle_int(&w->pickle, value);
}

void snapshot_text(struct snapshot_writer *w, const char *key, const char *value)
{
    pickle_text(&w->pickle, key);
    pickle_text(&w->pickle, value);
}

void snapshot_bool(struct snapshot_writer *w, const char *key, bool value)
{
    pickle_text(&w->pickle, key);
    pickle_bool(&w->pickle, value);
}

/* ---- frames ---- */

static void put_place(struct snapshot_writer *w, const struct place *place)
{
    pickle_dict(&w->pickle);
    pickle_items(&w->pickle);
    snapshot_text(w, "filename", place->file);
    snapshot_int(w, "line", place->line);
    snapshot_text(w, "name", place->whole);
    pickle_set(&w->pickle);
}

static void put_frame(struct snapshot_writer *w, int64_t frame)
{
    int64_t kept = map_get(&w->frames, frame + 1);
    if (kept >= 0) {
        pickle_again(&w->pickle, kept);
        return;
    }
    put_place(w, places_at(&w->places, frame));
    map_put(&w->frames, frame + 1, pickle_keep(&w->pickle));
}

/* The frames of a stack, after FIRST where there is one; the list is kept. */
static int64_t put_path(struct snapshot_writer *w, int64_t stack, const struct place *first)
{
    size_t n;
    const int64_t *path = places_path(&w->places, stack, &n);
    pickle_list(&w->pickle);
    pickle_mark(&w->pickle);
    if (first)
        put_place(w, first);
    for (size_t i = 0; i < n; i++)
        put_frame(w, path[i]);
    pickle_append(&w->pickle);
    return pickle_keep(&w->pickle);
}

void snapshot_no_frames(struct snapshot_writer *w)
{
    if (w->no_frames >= 0) {
        pickle_again(&w->pickle, w->no_frames);
        return;
    }
    pickle_list(&w->pickle);
    w->no_frames = pickle_keep(&w->pickle);
}

void snapshot_stack(struct snapshot_writer *w, int64_t stack)
{
    int64_t kept = map_get(&w->stacks, stack);
    if (stack <= 0)
        snapshot_no_frames(w);
    else if (kept >= 0)
        pickle_again(&w->pickle, kept);
    else
        map_put(&w->stacks, stack, put_path(w, stack, NULL));
}

/* The layer that STACK was in, "" for none. */
static const char *layer_of(const struct snapshot_writer *w, int64_t stack)
{
    const struct trace_stack_row *row = trace_find_stack(&w->places.stacks, stack);
    return row && row->layer ? shown(row->layer) : "";
}

void snapshot_begin_entry(struct snapshot_writer *w, const char *action, int64_t size, int64_t stream,
                          int64_t pool, int64_t stack)
{
    pickle_dict(&w->pickle);
    pickle_items(&w->pickle);
    snapshot_text(w, "action", action);
    snapshot_int(w, "size", size);
    snapshot_int(w, "stream", stream);
    if (w->t->process.start_realtime_ns != UNKNOWN)
        snapshot_put_time(w, w->now);
    snapshot_text(w, "compile_context", "N/A");
    snapshot_text(w, "user_metadata", layer_of(w, stack));
    if (pool >= 0)
        snapshot_pool(w, "pool_id", pool);
}

void snapshot_end_entry(struct snapshot_writer *w)
{
    pickle_set(&w->pickle);
    snapshot_count(w);
}

static const char *category_of(const struct holding *x)
{
    if (x->kind == HOLDING_REST)
        return "held from before the recording, or by events that it lacks";
    if (x->op == VS_OP_BLOCK_ALLOC)
        return "block of a framework, in a segment that the recording does not have";
    if (x->op == VS_OP_PHYS_CREATE)
        return "direct physical memory, outside PyTorch's allocator";
    switch (x->space) {
    case VS_SPACE_POOL:
        return "direct pool memory, outside PyTorch's allocator";
    case VS_SPACE_ARRAY:
        return "direct array, outside PyTorch's allocator";
    case VS_SPACE_GRAPH:
        return "memory of a graph, outside PyTorch's allocator";
    default:
        return "direct memory, outside PyTorch's allocator";
    }
}

/* Whether STACK begins with such a frame: an export of ours was imported. */
static bool says_whose(struct snapshot_writer *w, int64_t stack)
{
    static const char outside[] = ", outside PyTorch's allocator",
                      held[] = "held from before the recording, or ";
    size_t n, length;
    const int64_t *path = places_path(&w->places, stack, &n);
    const char *name = n ? places_at(&w->places, path[0])->name : "";
    length = strlen(name);
    return !strncmp(name, held, sizeof held - 1) ||
           (length >= sizeof outside && !strcmp(name + length - (sizeof outside - 1), outside));
}

/* Of memory that is not PyTorch's the first frame says whose it is. */
void snapshot_own_stack(struct snapshot_writer *w, const struct holding *x)
{
    enum { CATEGORIES = 8 };
    int64_t category = x->kind == HOLDING_REST      ? 1
                       : x->op == VS_OP_BLOCK_ALLOC ? 2
                       : x->op == VS_OP_PHYS_CREATE ? 3
                       : x->space == VS_SPACE_POOL  ? 4
                       : x->space == VS_SPACE_ARRAY ? 5
                       : x->space == VS_SPACE_GRAPH ? 6
                                                    : 7;
    if (x->stack > 0 && says_whose(w, x->stack)) {
        snapshot_stack(w, x->stack);
        return;
    }
    int64_t key = x->stack * CATEGORIES + category, kept = map_get(&w->own_stacks, key);
    if (kept >= 0) {
        pickle_again(&w->pickle, kept);
        return;
    }
    const char *owner = x->stack ? trace_owner(w->t, x->stack) : NULL;
    const char *category_name = category_of(x);
    struct place whose = {category_name, owner ? shown(owner) : "vramscope", category_name, 0};
    map_put(&w->own_stacks, key, put_path(w, x->stack, &whose));
}

void snapshot_frames(struct snapshot_writer *w, const struct holding *x)
{
    pickle_text(&w->pickle, "frames");
    if (x->kind == HOLDING_OWN || x->kind == HOLDING_REST)
        snapshot_own_stack(w, x);
    else
        snapshot_stack(w, x->stack);
}
