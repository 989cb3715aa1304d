/*
 * pytorch.c - a snapshot of PyTorch's allocator, as torch.cuda.memory._snapshot() makes it, for
 * docs.pytorch.org/memory_viz, torch.cuda._memory_viz and others.  The format is what
 * torch/utils/viz/MemoryViz.js and torch/cuda/_memory_viz.py read and torch/csrc/cuda/memory_snapshot.cpp
 * writes: a dict.
 *
 *      device_traces        of each device, by its ordinal, a list of events
 *      segments             what there is at the end, with blocks, which tile each segment
 *      allocator_settings   where they are known for certain
 *      external_annotations phases and other ranges
 *      host_traces, host_segments             page-locked memory of the host
 *
 * Keys of ours, which other readers pass over: size_is_block (the request is not recorded), block_size,
 * is_driver_memory (no allocator of PyTorch's asked for it), made_for, element_type, shape, role_rule (table
 * framework_role), recorded_start_ns, recorded_steps, import_notes, import_misfits.
 *
 * Readers go from the segments at the end back through the events, so heap.h makes these fit each other.
 * Where a stretch has no events (--from, or what was folded), the first events allocate what lived then; what
 * an imported trace began with, no event allocates.
 */
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/shown.h"
#include "base/units.h"
#include "read/ooms.h"
#include "read/steps.h"
#include "read/tape.h"
#include "trace/roles.h"
#include "snapshot.h"

/* ---- events ---- */

/* Categories are spelt as torch.profiler's, where it has them. */
static const char *category_of(const char *role)
{
    switch (vs_role_named(role)) {
    case VS_ROLE_UNTOLD:
        return "unknown";
    case VS_ROLE_STATE:
        return "optimizer_state";
    default:
        return role;
    }
}

static void put_category(struct snapshot_writer *w, int64_t alloc_seq)
{
    if (w->roles)
        snapshot_text(w, "category", category_of(alloc_seq ? trace_role_of(w->roles, alloc_seq) : NULL));
}

static void put_role(struct snapshot_writer *w, const struct heap_change *c)
{
    if (c->action == HEAP_ALLOC)
        put_category(w, c->about->kind == HOLDING_REST ? 0 : c->about->seq);
    bool before = c->action == HEAP_FREE && c->about->seq < w->start_seq; /* its end alone is told */
    if (c->action == HEAP_ALLOC || before)
        snapshot_mark_role(w, c->about);
    if (c->action == HEAP_ALLOC)
        snapshot_mark_asked(w, c->about);
}

/* Unknown is what seems the common pool's where some private ones are not known. */
static int64_t pool_of(const struct snapshot_writer *w, const struct holding *x)
{
    return w->pools_known || x->pool ? x->pool : -1;
}

/* ---- frees that other streams hold up ---- */

static void put_completed(struct snapshot_writer *w, const struct holding *x)
{
    snapshot_begin_entry(w, "free_completed", snapshot_request(w, x), x->stream, pool_of(w, x), 0);
    snapshot_int(w, "addr", x->address);
    snapshot_mark_size(w, x);
    pickle_text(&w->pickle, "frames");
    snapshot_no_frames(w);
    snapshot_end_entry(w);
}

static void complete_or_defer(struct snapshot_writer *w, const struct holding *x)
{
    int64_t end = x->kind == HOLDING_BLOCK ? map_get(&w->waits, w->seq) : -1;
    if (end < 0) {
        put_completed(w, x);
        return;
    }
    if (end == INT64_MAX) {
        *PUSH(w->held, w->held_count) = (struct held_free){*x, w->device};
        return;
    }
    struct pending_free free = {*x, map_get(&w->ending, end) + 1, true};
    map_put(&w->ending, end, (int64_t)w->pending_count);
    *PUSH(w->pending, w->pending_count) = free;
}

/* Those that end with event SEQ. */
static void complete_pending(struct snapshot_writer *w, int64_t seq)
{
    for (int64_t i = w->pending_count ? map_get(&w->ending, seq) : -1; i >= 0; i = w->pending[i].next - 1)
        if (w->pending[i].open) {
            w->pending[i].open = false;
            put_completed(w, &w->pending[i].of);
        }
}

/* Of the others nobody saw the end: with the trace, at the latest. */
static void complete_rest(struct snapshot_writer *w)
{
    for (size_t i = 0; i < w->pending_count; i++)
        if (w->pending[i].open)
            put_completed(w, &w->pending[i].of);
    w->pending_count = 0;
    map_free(&w->waits);
    map_free(&w->ending);
}

static void put_change(void *context, const struct heap_change *c)
{
    static const char *const actions[] = {[HEAP_ALLOC] = "alloc",
                                          [HEAP_FREE] = "free_requested",
                                          [HEAP_SEGMENT_ALLOC] = "segment_alloc",
                                          [HEAP_SEGMENT_FREE] = "segment_free",
                                          [HEAP_SEGMENT_MAP] = "segment_map",
                                          [HEAP_SEGMENT_UNMAP] = "segment_unmap"};
    struct snapshot_writer *w = context;
    bool begins = c->action == HEAP_ALLOC || c->action == HEAP_SEGMENT_ALLOC || c->action == HEAP_SEGMENT_MAP;
    bool block = c->action == HEAP_ALLOC || c->action == HEAP_FREE;
    w->expandable = w->expandable || c->action == HEAP_SEGMENT_MAP;
    snapshot_begin_entry(w, actions[c->action], block ? snapshot_request(w, c->about) : c->size, c->stream,
                         pool_of(w, c->about), c->action == HEAP_ALLOC ? c->about->stack : 0);
    snapshot_int(w, "addr", c->address);
    if (block)
        snapshot_mark_size(w, c->about);
    if (begins) {
        snapshot_frames(w, c->about);
    } else { /* nobody recorded who freed it */
        pickle_text(&w->pickle, "frames");
        snapshot_no_frames(w);
    }
    put_role(w, c);
    snapshot_end_entry(w);
    if (c->action == HEAP_FREE)
        complete_or_defer(w, c->about);
}

static void put_oom(struct snapshot_writer *w, const struct trace_row *e)
{
    int64_t free_bytes = UNKNOWN;
    for (size_t i = 0; i < w->oom_count; i++)
        if (w->ooms[i].seq == e->seq)
            free_bytes = w->ooms[i].free;
    snapshot_begin_entry(w, "oom", e->size == UNKNOWN ? 0 : e->size, 0, -1, e->stack);
    snapshot_int(w, "device_free", free_bytes == UNKNOWN ? -1 : free_bytes);
    pickle_text(&w->pickle, "frames");
    snapshot_stack(w, e->stack);
    snapshot_end_entry(w);
}

/* What an imported trace began with was before it here, too: the segments at the end and the frees say so. */
static void begin_behind_start(struct snapshot_writer *w, struct heap *heap)
{
    heap_follow(heap, put_change, w);
    for (size_t i = 0; i < heap->piece_count; i++)
        w->expandable = w->expandable || heap->pieces[i].expandable;
}

static bool put_row(void *context, const struct trace_row *e)
{
    struct snapshot_writer *w = context;
    struct heap *heap = &w->heaps[w->device];
    bool mine = e->device == w->device || (e->device < 0 && e->op == VS_OP_UNMAP);
    if (e->t > w->o->to)
        return false;
    if (!heap->tell && w->start_seq && e->seq >= w->start_seq)
        begin_behind_start(w, heap);
    w->seq = e->seq;
    if (mine || w->pending_count)
        w->now = e->t;
    complete_pending(w, e->seq);
    if (!mine)
        return true;
    const struct holding *freed =
        !heap->tell && w->start_seq && e->op == VS_OP_BLOCK_FREE ? heap_find(heap, e->mate) : NULL;
    if (freed && map_get(&w->waits, e->seq) >= 0) /* it waited when the trace began: its completion is told */
        complete_or_defer(w, freed);
    heap_apply(heap, e);
    if (!heap->tell && !w->start_seq && e->seq >= w->first_seq && e->t >= w->o->from && trace_row_counts(e))
        heap_listen(heap, put_change, w, e->framework + e->direct);
    if (heap->tell && e->op == VS_OP_BLOCK_OOM)
        put_oom(w, e);
    return !w->pickle.out->error;
}

/* PyTorch's own ends with such an entry, of when it was taken.  A page that knows categories wants one to be
 * "unknown". */
static void put_snapshot(struct snapshot_writer *w)
{
    bool imported = trace_is_imported(w->t);
    bool whole = w->o->to == INT64_MAX && w->t->process.end_ns != UNKNOWN;
    if ((!w->roles && !imported && !whole) || !w->heaps[w->device].tell)
        return;
    if (whole)
        w->now = w->t->process.end_ns;
    snapshot_begin_entry(w, "snapshot", 0, 0, 0, 0);
    snapshot_int(w, "addr", 0);
    pickle_text(&w->pickle, "frames");
    snapshot_no_frames(w);
    if (w->roles)
        snapshot_text(w, "category", "unknown");
    snapshot_end_entry(w);
}

static int put_trace(struct snapshot_writer *w)
{
    struct heap_homes homes;
    int result = snapshot_homes(w, &homes);
    w->heaps[w->device].homes = &homes;
    if (!result)
        result = trace_rows(w->t, 0, put_row, w);
    if (!result)
        complete_rest(w);
    w->heaps[w->device].homes = NULL;
    snapshot_free_homes(&homes);
    return result;
}

static int put_traces(struct snapshot_writer *w)
{
    int result = 0;
    pickle_text(&w->pickle, "device_traces");
    pickle_list(&w->pickle);
    for (size_t i = 0; !result && i < w->heap_count; i++) {
        w->device = (int64_t)i;
        snapshot_begin_list(w);
        if (export_wants(w->o, w->device) && trace_find_peak(w->t, w->device, "allocated"))
            result = put_trace(w);
        put_snapshot(w);
        snapshot_end_list(w);
    }
    pickle_append(&w->pickle);
    return result;
}

/* ---- the file ---- */

/* When the recording began, and when its steps ended; -1 with w->t->why. */
static int put_steps(struct snapshot_writer *w)
{
    struct trace_step_end *steps = NULL;
    size_t n = 0;
    if (w->t->process.start_realtime_ns == UNKNOWN || !w->told)
        return 0;
    snapshot_int(w, "recorded_start_ns", snapshot_wall_ns(w, 0));
    if (trace_step_ends(w->t, &steps, &n))
        return -1;
    pickle_text(&w->pickle, "recorded_steps");
    snapshot_begin_list(w);
    for (size_t i = 0; i < n; i++) {
        pickle_int(&w->pickle, snapshot_wall_ns(w, steps[i].t));
        snapshot_count(w);
    }
    snapshot_end_list(w);
    free(steps);
    return 0;
}

static void put_notes(struct snapshot_writer *w)
{
    if (!trace_is_imported(w->t))
        return;
    pickle_text(&w->pickle, "import_notes");
    snapshot_begin_list(w);
    for (size_t i = 0; i < w->t->loss_count; i++)
        if (w->t->losses[i].code && !strcmp(w->t->losses[i].code, "imported")) {
            pickle_text(&w->pickle, shown(w->t->losses[i].why));
            snapshot_count(w);
        }
    snapshot_end_list(w);
    if (trace_imported_misfits(w->t))
        snapshot_int(w, "import_misfits", trace_imported_misfits(w->t));
}

static int put_all(struct snapshot_writer *w)
{
    pickle_dict(&w->pickle);
    if (put_traces(w))
        return -1;
    snapshot_segments(w);
    snapshot_settings(w);
    put_notes(w);
    if (put_steps(w))
        return -1;
    if (trace_dry(w->t))
        snapshot_text(w, "dry_run", trace_mark(w->t));
    if (snapshot_annotations(w) || snapshot_host(w))
        return -1;
    pickle_set(&w->pickle);
    return 0;
}

/* Says where the greatest sum that was told is not the peak. */
static int check_peaks(const struct snapshot_writer *w)
{
    int status = EXIT_GOOD;
    bool whole = w->o->from == 0 && w->o->to == INT64_MAX && w->t->end != TRACE_END_RUNNING;
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
    if (w->t->thinned && status == EXIT_GOOD) {
        complain("export: %s: older events are folded (VRAMSCOPE_MAX_BYTES): the snapshot begins behind them",
                 w->t->path);
        status = EXIT_INCOMPLETE;
    }
    return status;
}

static void free_writer(struct snapshot_writer *w)
{
    for (size_t i = 0; i < w->heap_count; i++)
        heap_free(&w->heaps[i]);
    free(w->heaps);
    free(w->ooms);
    free(w->pending);
    free(w->held);
    map_free(&w->waits);
    map_free(&w->ending);
    asked_free(&w->asked);
    map_free(&w->stacks);
    map_free(&w->own_stacks);
    map_free(&w->frames);
    trace_role_end(w->roles);
    places_free(&w->places);
}

static void begin_heap(struct snapshot_writer *w, size_t device)
{
    struct heap *h = &w->heaps[device];
    heap_init(h, (int64_t)device);
    h->plain = trace_imported_plain(w->t);
    h->late = w->start_seq > 0;
}

static int prepare(struct snapshot_writer *w, const int64_t *devices, size_t n)
{
    int64_t most = devices[n - 1]; /* ascending; the readers' lists go by ordinal */
    w->first_device = devices[0];
    w->first_seq = trace_first_whole_seq(w->t);
    w->start_seq = w->o->from > 0 ? 0 : trace_imported_start(w->t);
    w->roles = trace_role_begin(w->t);
    w->told = !trace_is_imported(w->t) || trace_imported_told(w->t);
    w->heap_count = (size_t)most + 1;
    w->heaps = xrealloc(NULL, w->heap_count * sizeof *w->heaps);
    for (size_t i = 0; i < w->heap_count; i++)
        begin_heap(w, i);
    return places_load(&w->places, w->t, w->o->frames) || trace_ooms_kept(w->t, &w->ooms, &w->oom_count) ||
                   asked_read(w->t, &w->asked)
               ? -1
               : 0;
}

int export_pytorch(struct trace *t, const struct export_options *o, struct sink *out)
{
    struct snapshot_writer w = {.t = t, .o = o, .no_frames = -1};
    int64_t *devices;
    size_t n = export_devices(t, o, &devices);
    int status = n ? EXIT_GOOD : EXIT_USAGE;
    if (n && devices[n - 1] > INT8_MAX) /* a CUDA ordinal is one byte in a recording */
        status = complain("export: %s is damaged: device %lld: record again with vramscope run", t->path,
                          (long long)devices[n - 1]);
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
