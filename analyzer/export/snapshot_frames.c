/*
 * snapshot_frames.c - what the parts of a snapshot are made of: keys and values, lists in pieces, and frames,
 * which are written once.
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
    pickle_append(&w->pickle);
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

enum whose { OF_BEFORE, OF_FRAMEWORK, OF_PHYSICAL, OF_POOL, OF_ARRAY, OF_GRAPH, OF_DIRECT, WHOSE };

static enum whose whose(const struct holding *x)
{
    return x->kind == HOLDING_REST      ? OF_BEFORE
           : x->op == VS_OP_BLOCK_ALLOC ? OF_FRAMEWORK
           : x->op == VS_OP_PHYS_CREATE ? OF_PHYSICAL
           : x->space == VS_SPACE_POOL  ? OF_POOL
           : x->space == VS_SPACE_ARRAY ? OF_ARRAY
           : x->space == VS_SPACE_GRAPH ? OF_GRAPH
                                        : OF_DIRECT;
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
    static const char *const names[] = {
        [OF_BEFORE] = "held from before the recording, or by events that it lacks",
        [OF_FRAMEWORK] = "block of a framework, in a segment that the recording does not have",
        [OF_PHYSICAL] = "direct physical memory, outside PyTorch's allocator",
        [OF_POOL] = "direct pool memory, outside PyTorch's allocator",
        [OF_ARRAY] = "direct array, outside PyTorch's allocator",
        [OF_GRAPH] = "memory of a graph, outside PyTorch's allocator",
        [OF_DIRECT] = "direct memory, outside PyTorch's allocator"};
    enum whose category = whose(x);
    if (x->stack > 0 && says_whose(w, x->stack)) {
        snapshot_stack(w, x->stack);
        return;
    }
    int64_t key = x->stack * WHOSE + category + 1, kept = map_get(&w->own_stacks, key);
    if (kept >= 0) {
        pickle_again(&w->pickle, kept);
        return;
    }
    const char *owner = x->stack ? trace_owner(w->t, x->stack) : NULL;
    struct place first = {names[category], owner ? shown(owner) : "vramscope", names[category], 0};
    map_put(&w->own_stacks, key, put_path(w, x->stack, &first));
}

void snapshot_frames(struct snapshot_writer *w, const struct holding *x)
{
    pickle_text(&w->pickle, "frames");
    if (x->kind == HOLDING_OWN || x->kind == HOLDING_REST)
        snapshot_own_stack(w, x);
    else
        snapshot_stack(w, x->stack);
}
