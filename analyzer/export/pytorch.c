/*
 * pytorch.c - a snapshot of PyTorch's allocator, as torch.cuda.memory._snapshot() makes it: for
 * docs.pytorch.org/memory_viz, torch.cuda._memory_viz, and whatever else reads these pickles.
 *
 * The format is what PyTorch's own page and tools read: torch/utils/viz/MemoryViz.js and
 * torch/cuda/_memory_viz.py, and what c10 writes, torch/csrc/cuda/memory_snapshot.cpp.  A dict:
 *
 *      device_traces          a list a device, by its ordinal: events, dicts with action, addr, size, stream,
 *                             frames, time_us; of a block alloc, free_requested, free_completed; of a segment
 *                             segment_alloc, segment_free, segment_map, segment_unmap; oom
 *      segments               dicts, what there is at the end, and blocks, which tile each of them
 *      allocator_settings     what is known of them
 *      external_annotations   phases and other ranges: name, stage START or END, device, time_us
 *
 * Readers go from the segments at the end back through the events, so these have to fit each other: heap.h
 * sees to that, and says how memory comes in that is not PyTorch's.  Where a stretch of the run has no events
 * (--from, or what was folded), the first events allocate what lived then.
 */
#include <stdlib.h>
#include <string.h>

#include "base/commands.h"
#include "base/shown.h"
#include "base/units.h"
#include "heap.h"
#include "pickle.h"
#include "places.h"

enum { PIECE = 500 /* elements: the page hands as many to one call */ };

struct writer {
    struct trace *t;
    const struct export_options *o;
    struct pickle pickle;
    struct places places;
    struct map stacks, own_stacks; /* to what is kept: the frames of a stack, those with who held it */
    struct map frames;             /* by index + 1 */
    int64_t no_frames;             /* kept; -1: not yet */
    char **owned;
    size_t owned_count;
    struct texts kept; /* of these, those that come again */
    struct trace_role_finder *roles;
    struct trace_oom_kept *ooms;
    size_t oom_count;
    struct heap *heaps; /* by device */
    size_t heap_count;
    size_t elements; /* of the list that is being written */
    bool expandable; /* a piece of an expandable segment was seen */
    int64_t first_seq, now;
    int64_t device; /* that is being written */
    int64_t first_device;
};

static const char *own(struct writer *w, char *text)
{
    *PUSH(w->owned, w->owned_count) = text;
    return text;
}

/* One copy of a text that will be gone. */
static const char *own_once(struct writer *w, const char *text)
{
    bool is_new;
    size_t i = texts_index(&w->kept, text, &is_new);
    if (is_new)
        w->kept.at[i] = own(w, xstrdup(text));
    return w->kept.at[i];
}

static int64_t wall_us(const struct writer *w, int64_t t)
{
    int64_t start = w->t->process.start_realtime_ns;
    return ((start == UNKNOWN ? 0 : start) + t) / 1000;
}

static void begin_list(struct writer *w)
{
    pickle_list(&w->pickle);
    pickle_mark(&w->pickle);
    w->elements = 0;
}

/* Called after each element. */
static void count_element(struct writer *w)
{
    if (++w->elements % PIECE)
        return;
    pickle_append(&w->pickle);
    pickle_mark(&w->pickle);
}

static void end_list(struct writer *w)
{
    pickle_append(&w->pickle);
}

static void put_int(struct writer *w, const char *key, int64_t value)
{
    pickle_text(&w->pickle, key);
    pickle_int(&w->pickle, value);
}

static void put_text(struct writer *w, const char *key, const char *value)
{
    pickle_text(&w->pickle, key);
    pickle_text(&w->pickle, value);
}

static void put_bool(struct writer *w, const char *key, bool value)
{
    pickle_text(&w->pickle, key);
    pickle_bool(&w->pickle, value);
}

/* ---- frames ---- */

static void put_place(struct writer *w, const struct place *place)
{
    pickle_dict(&w->pickle);
    pickle_items(&w->pickle);
    put_text(w, "filename", place->file);
    put_int(w, "line", place->line);
    put_text(w, "name", place->name);
    pickle_set(&w->pickle);
}

static void put_frame(struct writer *w, int64_t frame)
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
static int64_t put_path(struct writer *w, int64_t stack, const struct place *first)
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

static void put_no_frames(struct writer *w)
{
    if (w->no_frames >= 0) {
        pickle_again(&w->pickle, w->no_frames);
        return;
    }
    pickle_list(&w->pickle);
    w->no_frames = pickle_keep(&w->pickle);
}

static void put_stack(struct writer *w, int64_t stack)
{
    int64_t kept = map_get(&w->stacks, stack);
    if (stack <= 0)
        put_no_frames(w);
    else if (kept >= 0)
        pickle_again(&w->pickle, kept);
    else
        map_put(&w->stacks, stack, put_path(w, stack, NULL));
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

/* Of memory that is not PyTorch's the first frame says whose it is. */
static void put_own_stack(struct writer *w, const struct holding *x)
{
    enum { CATEGORIES = 8 };
    int64_t category = x->kind == HOLDING_REST      ? 1
                       : x->op == VS_OP_BLOCK_ALLOC ? 2
                       : x->op == VS_OP_PHYS_CREATE ? 3
                       : x->space == VS_SPACE_POOL  ? 4
                       : x->space == VS_SPACE_ARRAY ? 5
                       : x->space == VS_SPACE_GRAPH ? 6
                                                    : 7;
    int64_t key = x->stack * CATEGORIES + category, kept = map_get(&w->own_stacks, key);
    if (kept >= 0) {
        pickle_again(&w->pickle, kept);
        return;
    }
    const char *owner = x->stack ? trace_owner(w->t, x->stack) : NULL;
    struct place whose = {category_of(x), owner ? shown(owner) : "vramscope", 0};
    map_put(&w->own_stacks, key, put_path(w, x->stack, &whose));
}

static void put_frames(struct writer *w, const struct holding *x)
{
    pickle_text(&w->pickle, "frames");
    if (x->kind == HOLDING_OWN || x->kind == HOLDING_REST)
        put_own_stack(w, x);
    else
        put_stack(w, x->stack);
}

/* ---- events ---- */

static void begin_event(struct writer *w, const char *action, int64_t size, int64_t stream)
{
    pickle_dict(&w->pickle);
    pickle_items(&w->pickle);
    put_text(w, "action", action);
    put_int(w, "size", size);
    put_int(w, "stream", stream);
    put_int(w, "time_us", wall_us(w, w->now));
}

static void end_event(struct writer *w)
{
    pickle_set(&w->pickle);
    count_element(w);
}

/* Categories are spelt as torch.profiler's, where it has them. */
static void put_category(struct writer *w, int64_t alloc_seq)
{
    const char *role = alloc_seq ? trace_role_of(w->roles, alloc_seq) : NULL;
    if (!w->roles)
        return;
    if (role && !strcmp(role, "optimizer state"))
        role = "optimizer_state";
    put_text(w, "category", role ? own_once(w, role) : "unknown");
}

static void put_change(void *context, const struct heap_change *c)
{
    static const char *const actions[] = {[HEAP_ALLOC] = "alloc",
                                          [HEAP_FREE] = "free_requested",
                                          [HEAP_SEGMENT_ALLOC] = "segment_alloc",
                                          [HEAP_SEGMENT_FREE] = "segment_free",
                                          [HEAP_SEGMENT_MAP] = "segment_map",
                                          [HEAP_SEGMENT_UNMAP] = "segment_unmap"};
    struct writer *w = context;
    bool begins = c->action == HEAP_ALLOC || c->action == HEAP_SEGMENT_ALLOC || c->action == HEAP_SEGMENT_MAP;
    w->expandable = w->expandable || c->action == HEAP_SEGMENT_MAP;
    for (int half = 0; half <= (c->action == HEAP_FREE); half++) {
        begin_event(w, half ? "free_completed" : actions[c->action], c->size, c->stream);
        put_int(w, "addr", c->address);
        if (begins) {
            put_frames(w, c->about);
        } else { /* nobody recorded who freed it */
            pickle_text(&w->pickle, "frames");
            put_no_frames(w);
        }
        if (c->action == HEAP_ALLOC)
            put_category(w, c->about->kind == HOLDING_REST ? 0 : c->about->seq);
        end_event(w);
    }
}

static void put_oom(struct writer *w, const struct trace_row *e)
{
    int64_t free_bytes = UNKNOWN;
    for (size_t i = 0; i < w->oom_count; i++)
        if (w->ooms[i].seq == e->seq)
            free_bytes = w->ooms[i].free;
    begin_event(w, "oom", e->size == UNKNOWN ? 0 : e->size, 0);
    put_int(w, "device_free", free_bytes == UNKNOWN ? -1 : free_bytes);
    pickle_text(&w->pickle, "frames");
    put_stack(w, e->stack);
    end_event(w);
}

static bool put_row(void *context, const struct trace_row *e)
{
    struct writer *w = context;
    struct heap *heap = &w->heaps[w->device];
    bool mine = e->device == w->device || (e->device < 0 && e->op == VS_OP_UNMAP);
    if (e->t > w->o->to)
        return false;
    if (!mine)
        return true;
    w->now = e->t;
    heap_apply(heap, e);
    if (!heap->tell && e->seq >= w->first_seq && e->t >= w->o->from && trace_row_counts(e))
        heap_listen(heap, put_change, w, e->framework + e->direct);
    if (heap->tell && e->op == VS_OP_BLOCK_OOM)
        put_oom(w, e);
    return !w->pickle.out->error;
}

/* A page that knows categories wants one to be "unknown". */
static void put_unknown_category(struct writer *w)
{
    if (!w->roles || !w->heaps[w->device].tell)
        return;
    begin_event(w, "snapshot", 0, 0);
    put_int(w, "addr", 0);
    pickle_text(&w->pickle, "frames");
    put_no_frames(w);
    put_text(w, "category", "unknown");
    end_event(w);
}

static int put_traces(struct writer *w)
{
    int result = 0;
    pickle_text(&w->pickle, "device_traces");
    pickle_list(&w->pickle);
    pickle_mark(&w->pickle);
    for (size_t i = 0; !result && i < w->heap_count; i++) {
        w->device = (int64_t)i;
        begin_list(w);
        if (export_wants(w->o, w->device) && trace_find_peak(w->t, w->device, "allocated"))
            result = trace_rows(w->t, 0, put_row, w);
        put_unknown_category(w);
        end_list(w);
    }
    pickle_append(&w->pickle);
    return result;
}

/* ---- segments ---- */

static void put_block(struct writer *w, int64_t address, int64_t size, const struct holding *x)
{
    pickle_dict(&w->pickle);
    pickle_items(&w->pickle);
    put_int(w, "address", address);
    put_int(w, "size", size);
    put_int(w, "requested_size", x ? size : 0);
    put_text(w, "state", x ? "active_allocated" : "inactive");
    pickle_text(&w->pickle, "frames");
    if (!x)
        put_no_frames(w);
    else if (x->kind == HOLDING_BLOCK)
        put_stack(w, x->stack);
    else
        put_own_stack(w, x);
    pickle_set(&w->pickle);
    count_element(w);
}

/* What is allocated, and what is free between it. */
static void put_blocks(struct writer *w, const struct heap_segment *s, const struct holding **blocks)
{
    int64_t at = s->address;
    begin_list(w);
    if (s->own)
        put_block(w, s->address, s->size, s->own);
    for (size_t i = s->first; !s->own && i < s->first + s->count; i++) {
        if (blocks[i]->address > at)
            put_block(w, at, blocks[i]->address - at, NULL);
        put_block(w, blocks[i]->address, blocks[i]->size, blocks[i]);
        at = blocks[i]->address + blocks[i]->size;
    }
    if (!s->own && at < s->address + s->size)
        put_block(w, at, s->address + s->size - at, NULL);
    end_list(w);
}

static int64_t allocated_in(const struct heap_segment *s, const struct holding **blocks)
{
    int64_t sum = s->own ? s->size : 0;
    for (size_t i = s->first; !s->own && i < s->first + s->count; i++)
        sum += blocks[i]->size;
    return sum;
}

#define SMALL_SEGMENT (INT64_C(2) << 20) /* c10's pool of small blocks has segments of 2 MiB */

static void put_segment(struct writer *w, const struct heap_segment *s, const struct holding **blocks)
{
    int64_t allocated = allocated_in(s, blocks);
    pickle_dict(&w->pickle);
    pickle_items(&w->pickle);
    put_int(w, "device", w->device);
    put_int(w, "address", s->address);
    put_int(w, "total_size", s->size);
    put_int(w, "allocated_size", allocated);
    put_int(w, "active_size", allocated);
    put_int(w, "requested_size", allocated);
    put_int(w, "stream", s->expandable ? HEAP_EXPANDABLE : HEAP_PLAIN);
    put_text(w, "segment_type", s->size <= SMALL_SEGMENT ? "small" : "large");
    put_bool(w, "is_expandable", s->expandable);
    pickle_text(&w->pickle, "segment_pool_id");
    pickle_int(&w->pickle, 0);
    pickle_int(&w->pickle, 0);
    pickle_pair(&w->pickle);
    pickle_text(&w->pickle, "frames");
    if (s->own)
        put_own_stack(w, s->own);
    else
        put_stack(w, s->stack);
    size_t outer = w->elements;
    pickle_text(&w->pickle, "blocks");
    put_blocks(w, s, blocks);
    w->elements = outer;
    pickle_set(&w->pickle);
    count_element(w);
}

static void put_segments(struct writer *w)
{
    pickle_text(&w->pickle, "segments");
    begin_list(w);
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
    end_list(w);
}

/* ---- phases ---- */

struct edge { /* a range's begin or end */
    int64_t t, order;
    const char *name;
    bool begins;
};

struct edges {
    struct writer *w;
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
    *PUSH(e->at, e->n) = (struct edge){r->t_push, order, name, true};
    if (r->t_pop != UNKNOWN) /* of those that begin and end at once the inner ones end first */
        *PUSH(e->at, e->n) = (struct edge){r->t_pop, r->t_pop > r->t_push ? -order : order, name, false};
    return true;
}

static int put_annotations(struct writer *w)
{
    struct edges e = {.w = w};
    if (trace_each_range(w->t, add_span, &e))
        return -1;
    if (e.n)
        qsort(e.at, e.n, sizeof *e.at, by_time);
    pickle_text(&w->pickle, "external_annotations");
    begin_list(w);
    for (size_t i = 0; i < e.n; i++) {
        pickle_dict(&w->pickle);
        pickle_items(&w->pickle);
        put_text(w, "name", shown(e.at[i].name));
        put_text(w, "stage", e.at[i].begins ? "START" : "END");
        put_int(w, "device", w->first_device);
        put_int(w, "time_us", wall_us(w, e.at[i].t));
        pickle_set(&w->pickle);
        count_element(w);
    }
    end_list(w);
    free(e.at);
    return 0;
}

/* ---- the file ---- */

static int put_all(struct writer *w)
{
    pickle_dict(&w->pickle);
    pickle_items(&w->pickle);
    if (put_traces(w))
        return -1;
    put_segments(w);
    pickle_text(&w->pickle, "allocator_settings");
    pickle_dict(&w->pickle);
    pickle_items(&w->pickle);
    put_bool(w, "expandable_segments", w->expandable);
    pickle_set(&w->pickle);
    if (put_annotations(w))
        return -1;
    pickle_set(&w->pickle);
    return 0;
}

/* Says where the greatest sum that was told is not the peak. */
static int check_peaks(const struct writer *w)
{
    int status = EXIT_GOOD;
    bool whole = w->o->from == 0 && w->o->to == INT64_MAX;
    if (w->pickle.out->error) /* the rest was not even looked at */
        return EXIT_GOOD;
    for (size_t i = 0; whole && i < w->heap_count; i++) {
        const struct trace_peak *peak = trace_find_peak(w->t, (int64_t)i, "allocated");
        if (!peak || !w->heaps[i].tell || w->heaps[i].most == peak->bytes)
            continue;
        complain("export: %s: the peak of device %zu, %s, is not in the snapshot, whose greatest is %s: %s",
                 w->t->path, i, units_bytes(peak->bytes, false).s, units_bytes(w->heaps[i].most, false).s,
                 w->t->thinned ? "its events are folded (VRAMSCOPE_MAX_BYTES)" : "events are missing");
        status = EXIT_INCOMPLETE;
    }
    if (w->t->thinned) {
        complain("export: %s: older events are folded (VRAMSCOPE_MAX_BYTES): the snapshot begins behind them",
                 w->t->path);
        status = EXIT_INCOMPLETE;
    }
    return status;
}

static void free_writer(struct writer *w)
{
    for (size_t i = 0; i < w->heap_count; i++)
        heap_free(&w->heaps[i]);
    for (size_t i = 0; i < w->owned_count; i++)
        free(w->owned[i]);
    free(w->heaps);
    free(w->owned);
    free(w->ooms);
    texts_free(&w->kept);
    map_free(&w->stacks);
    map_free(&w->own_stacks);
    map_free(&w->frames);
    trace_role_end(w->roles);
    places_free(&w->places);
}

static int prepare(struct writer *w, const int64_t *devices, size_t n)
{
    int64_t most = devices[n - 1]; /* ascending; the readers' lists go by ordinal */
    w->first_device = devices[0];
    w->first_seq = trace_first_whole_seq(w->t);
    w->roles = trace_role_begin(w->t);
    w->heap_count = (size_t)most + 1;
    w->heaps = xrealloc(NULL, w->heap_count * sizeof *w->heaps);
    for (size_t i = 0; i < w->heap_count; i++)
        heap_init(&w->heaps[i], (int64_t)i);
    return places_load(&w->places, w->t, w->o->frames) || trace_ooms_kept(w->t, &w->ooms, &w->oom_count) ? -1
                                                                                                         : 0;
}

int export_pytorch(struct trace *t, const struct export_options *o, struct sink *out)
{
    struct writer w = {.t = t, .o = o, .no_frames = -1};
    int64_t *devices;
    size_t n = export_devices(t, o, &devices);
    int status = n ? EXIT_GOOD : EXIT_USAGE;
    if (n && devices[n - 1] > INT8_MAX) /* a CUDA ordinal is one byte in a recording */
        status = complain("export: %s is damaged: device %lld", t->path, (long long)devices[n - 1]);
    if (!status && prepare(&w, devices, n))
        status = complain("%s", t->why);
    if (!status) {
        pickle_begin(&w.pickle, out);
        status = put_all(&w) ? complain("%s", t->why) : check_peaks(&w);
        pickle_end(&w.pickle);
    }
    free_writer(&w);
    free(devices);
    return status;
}
