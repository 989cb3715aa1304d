/*
 * snapshot.c - reads a snapshot into arrays (snapshot.h).
 *
 * What a hostile pickle shares (a trace that stands in its list a thousand times) is counted each time, and
 * there may not be more of anything than the file has bytes.
 */
#include "snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "trace/event.h"

#define MEMORY_RATIO 64 /* values over bytes of the file: no opcode makes more of one byte */
#define MEMORY_LEAST (64u << 20)
#define FRAMES_MOST  400 /* of a stack, from the innermost on */
#define PROBES       16
#define OPEN_MOST    64  /* ranges that were open when a trace began */
#define POOLS_MOST   256 /* private ones that are told apart */

struct reader {
    struct snapshot *s;
    struct vs_table hashes; /* of stacks */
    struct labels labels;
    size_t most; /* of anything */
    char *why;
    size_t why_size;
};

static int not_a_snapshot(struct reader *r, const char *lacks)
{
    snprintf(r->why, r->why_size,
             "is a pickle, but no PyTorch memory snapshot: %s (torch.cuda.memory._dump_snapshot writes one)",
             lacks);
    return -1;
}

static int too_many(struct reader *r, const char *what)
{
    snprintf(r->why, r->why_size,
             "has more %s than a file of its size can hold: it was not written by PyTorch", what);
    return -1;
}

/* What PyTorch writes of every entry, segment and block; false with the reason in WHY where V has it not. */
static bool has_bytes(struct reader *r, const struct pickle_value *v, const char *address, const char *size,
                      const char *of, size_t number)
{
    const struct pickle_value *where = address ? unpickle_get(v, address) : NULL;
    bool at = !address || unpickle_address(where, 0) == unpickle_address(where, 1);
    if (at && unpickle_int(unpickle_get(v, size), -1) >= 0)
        return true;
    snprintf(r->why, r->why_size,
             "is no whole PyTorch memory snapshot: %s %zu has no %s; dump it again "
             "(torch.cuda.memory._dump_snapshot)",
             of, number, at ? size : address);
    return false;
}

/* ---- stacks ---- */

static uint64_t hash_of(const struct pickle_object *frames)
{
    uint64_t h = frames->n;
    for (size_t i = 0; i < frames->n; i++) {
        h = (h ^ (uint64_t)(uintptr_t)frames->at[i].object) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

static bool same_stack(const struct pickle_object *a, const struct pickle_object *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->at[i].kind != b->at[i].kind || a->at[i].object != b->at[i].object)
            return false;
    return true;
}

static uint32_t add_stack(struct reader *r, const struct pickle_object *frames, uint64_t key)
{
    struct snapshot *s = r->s;
    s->stacks = grow(s->stacks, s->stack_count, sizeof *s->stacks);
    s->stacks[s->stack_count++] = frames;
    s->stack_frames += frames->n < FRAMES_MOST ? frames->n : FRAMES_MOST;
    vs_table_put(&r->hashes, key, (uint32_t)s->stack_count); /* without memory: only looked for again */
    return (uint32_t)s->stack_count;
}

/* Equal stacks are lists of the same frames, as the pickler keeps a frame once: each gets one number. */
static uint32_t stack_of(struct reader *r, const struct pickle_value *list)
{
    if (!unpickle_items(list))
        return 0;
    struct pickle_object *frames = list->object;
    if (frames->tag)
        return frames->tag;
    uint64_t key = hash_of(frames);
    uint32_t id = VS_TABLE_NONE;
    for (int i = 0; i < PROBES && (id = vs_table_get(&r->hashes, key)) != VS_TABLE_NONE; i++, key++)
        if (same_stack(frames, r->s->stacks[id - 1]))
            return frames->tag = id;
    return frames->tag = add_stack(r, frames, key);
}

bool snapshot_frame(const struct snapshot *s, uint32_t stack, size_t i, struct snapshot_frame *out)
{
    const struct pickle_object *frames = stack ? s->stacks[stack - 1] : NULL;
    if (!frames || i >= frames->n || i >= FRAMES_MOST)
        return false;
    const struct pickle_value *name = unpickle_get(&frames->at[i], "name"),
                              *file = unpickle_get(&frames->at[i], "filename");
    int64_t line = unpickle_int(unpickle_get(&frames->at[i], "line"), 0);
    bool named = name && name->kind == PICKLE_TEXT, filed = file && file->kind == PICKLE_TEXT;
    *out = (struct snapshot_frame){.name = named ? name->text : "",
                                   .name_length = named ? name->length : 0,
                                   .file = filed ? file->text : "",
                                   .file_length = filed ? file->length : 0,
                                   .line = line > 0 && line <= INT32_MAX ? (uint32_t)line : 0};
    const char *dot = out->name_length ? memrchr(out->name, '.', out->name_length) : NULL;
    out->last = dot ? dot + 1 : out->name;
    out->last_length = out->name_length - (uint32_t)(out->last - out->name);
    return true;
}

/* ---- events ---- */

static enum snapshot_action action_of(const struct pickle_value *v)
{
    static const struct {
        const char *name;
        enum snapshot_action action;
    } known[] = {{"alloc", SNAPSHOT_ALLOC},
                 {"free_requested", SNAPSHOT_FREE_REQUESTED},
                 {"free_completed", SNAPSHOT_FREE_COMPLETED},
                 {"segment_alloc", SNAPSHOT_SEGMENT_ALLOC},
                 {"segment_free", SNAPSHOT_SEGMENT_FREE},
                 {"segment_map", SNAPSHOT_SEGMENT_MAP},
                 {"segment_unmap", SNAPSHOT_SEGMENT_UNMAP},
                 {"oom", SNAPSHOT_OOM}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (unpickle_is(v, known[i].name))
            return known[i].action;
    return unpickle_is(v, "snapshot") || unpickle_is(v, "user_defined") || unpickle_is(v, "annotate")
               ? SNAPSHOT_OTHER
               : SNAPSHOT_UNKNOWN;
}

/* What export/pytorch.c marks.  COUNTS: V is a block, and no other entry of it. */
static bool is_rounded(struct reader *r, const struct pickle_value *v, bool counts)
{
    bool rounded = unpickle_int(unpickle_get(v, "size_is_block"), 0) != 0;
    r->s->rounded = r->s->rounded || (counts && rounded);
    r->s->exact = r->s->exact || (counts && !rounded);
    return rounded;
}

static bool is_driver(const struct pickle_value *v)
{
    return unpickle_int(unpickle_get(v, "is_driver_memory"), 0) != 0;
}

static uint8_t rule_of(struct reader *r, const struct pickle_value *v)
{
    int64_t rule = unpickle_int(unpickle_get(v, "role_rule"), 0);
    if (rule < 1 || rule > UINT8_MAX || (!vs_life_is_rule((uint64_t)rule) && !vs_role_number((uint64_t)rule)))
        return 0;
    r->s->ruled = true;
    return (uint8_t)rule;
}

/* A recording has no room for an address's uppermost bit, which all of a snapshot have or none. */
static uint64_t address_of(struct reader *r, const struct pickle_value *v, uint64_t otherwise)
{
    uint64_t address = unpickle_address(v, otherwise);
    r->s->lowered = r->s->lowered || address >> 63;
    return address & INT64_MAX;
}

/* A pool's name is a pair of numbers: (0, 0) the common one, (n, 0) a capture's, (0, n) a MemPool. */
static uint32_t pool_of(struct snapshot *s, const struct pickle_value *pair)
{
    if (unpickle_items(pair) != 2)
        return SNAPSHOT_POOL_UNKNOWN; /* an old PyTorch */
    struct snapshot_pool id = {unpickle_int(unpickle_item(pair, 0), 0),
                               unpickle_int(unpickle_item(pair, 1), 0)};
    if (!id.first && !id.second)
        return 0;
    size_t i = 0;
    while (i < s->pool_count && (s->pools[i].first != id.first || s->pools[i].second != id.second))
        i++;
    if (i == POOLS_MOST)
        return SNAPSHOT_POOL_UNKNOWN;
    if (i == s->pool_count)
        *PUSH(s->pools, s->pool_count) = id;
    return (uint32_t)i + 1;
}

int64_t snapshot_time(const struct pickle_value *v)
{
    const int64_t most = INT64_MAX / 1000;
    int64_t ns = unpickle_int(unpickle_get(v, "time_ns"), INT64_MIN),
            us = unpickle_int(unpickle_get(v, "time_us"), 0);
    return ns != INT64_MIN ? ns : us > most || us < -most ? 0 : us * 1000;
}

static void read_event(struct reader *r, const struct pickle_value *v, struct snapshot_event *e, bool *timed)
{
    const struct pickle_value *time = unpickle_get(v, "time_us");
    *e = (struct snapshot_event){.action = action_of(unpickle_get(v, "action")),
                                 .address = address_of(r, unpickle_get(v, "addr"), 0),
                                 .size = (uint64_t)unpickle_int(unpickle_get(v, "size"), 0),
                                 .stream = (uint64_t)unpickle_int(unpickle_get(v, "stream"), 0),
                                 .stack = stack_of(r, unpickle_get(v, "frames")),
                                 .time_ns = snapshot_time(v)};
    *timed = *timed && time;
    e->rounded = is_rounded(r, v, e->action == SNAPSHOT_ALLOC);
    e->driver = is_driver(v);
    r->s->registered = r->s->registered || unpickle_int(unpickle_get(v, "is_registered"), 0) != 0;
    e->rule = rule_of(r, v);
    e->block = (uint64_t)unpickle_int(unpickle_get(v, "block_size"), 0);
    e->block = e->block > e->size ? e->block : 0;
    e->asked = unpickle_get(v, "made_for") ? v : NULL;
    r->s->asked += e->block || e->asked;
    const struct pickle_value *pool = unpickle_get(v, "pool_id"); /* the other in early exports of ours */
    e->pool = pool_of(r->s, pool ? pool : unpickle_get(v, "segment_pool_id"));
    if (e->action == SNAPSHOT_OOM) {
        e->free_known = unpickle_int(unpickle_get(v, "device_free"), -1) >= 0;
        e->address = (uint64_t)unpickle_int(unpickle_get(v, "device_free"), 0);
    }
    if (e->action == SNAPSHOT_ALLOC || e->action == SNAPSHOT_OOM)
        labels_take(&r->labels, r->s, e, unpickle_get(v, "user_metadata"));
}

/* Whether two entries in a row move nothing: `vramscope export` has such pairs around a mapping, for readers
 * that know no mappings (export/heap.h). */
static bool cancels(const struct snapshot_event *a, const struct snapshot_event *b)
{
    bool came = a->action == SNAPSHOT_SEGMENT_ALLOC && b->action == SNAPSHOT_SEGMENT_UNMAP,
         went = a->action == SNAPSHOT_SEGMENT_MAP && b->action == SNAPSHOT_SEGMENT_FREE;
    return (came || went) && a->address == b->address && a->size == b->size && a->stream == b->stream;
}

/* Entries of a kind that changes no memory are left out. */
static int read_trace(struct reader *r, const struct pickle_value *list, struct snapshot_trace *t)
{
    size_t n = unpickle_items(list);
    int64_t last = 0;
    if (n > r->most - r->s->events)
        return too_many(r, "events");
    r->s->events += n;
    t->at = n ? xrealloc(NULL, n * sizeof *t->at) : NULL;
    t->timed = true;
    for (size_t i = 0; i < n; i++) {
        const struct pickle_value *v = unpickle_item(list, i);
        struct snapshot_event *e = &t->at[t->n];
        if (v->kind != PICKLE_DICT)
            return not_a_snapshot(r, "an entry of a trace is no dict");
        read_event(r, v, e, &t->timed);
        r->s->unknown += e->action == SNAPSHOT_UNKNOWN;
        if (unpickle_is(unpickle_get(v, "action"), "annotate"))
            labels_annotate(&r->labels, r->s, t, e->address, unpickle_get(v, "user_metadata"));
        if (e->time_ns > r->s->end_ns)
            r->s->end_ns = e->time_ns;
        if (e->action == SNAPSHOT_OTHER || e->action == SNAPSHOT_UNKNOWN)
            continue;
        if (e->action != SNAPSHOT_OOM &&
            !has_bytes(r, v, "addr", "size", "an entry of its trace, number", i + 1))
            return -1;
        r->s->moves++;
        if (e->time_ns < last)
            e->time_ns = last;
        last = e->time_ns;
        bool pair = t->n && cancels(e - 1, e);
        r->s->pairs = r->s->pairs || pair;
        t->n += pair ? -1 : 1;
        if (e->action == SNAPSHOT_ALLOC)
            labels_allocated(&r->labels, t, e);
    }
    labels_end_trace(&r->labels);
    r->s->skipped = skipped_requests(t) || r->s->skipped;
    return 0;
}

static int read_traces(struct reader *r, const struct pickle_value *list)
{
    size_t n = unpickle_items(list);
    if (!list || list->kind != PICKLE_LIST)
        return not_a_snapshot(r, "it has no device_traces");
    if (n > SNAPSHOT_DEVICES)
        return too_many(r, "devices");
    r->s->devices = (int)n;
    for (size_t i = 0; i < n; i++)
        if (read_trace(r, unpickle_item(list, i), &r->s->traces[i]))
            return -1;
    return 0;
}

/* ---- the state at the end ---- */

static enum snapshot_state state_of(const struct pickle_value *v)
{
    if (unpickle_is(v, "active_allocated"))
        return SNAPSHOT_LIVE;
    return unpickle_is(v, "inactive") ? SNAPSHOT_FREE : SNAPSHOT_PENDING;
}

/* Until 2.0 a block's frames, and what was requested, stand in its `history`, the last allocation first. */
static const struct pickle_value *last_history(const struct pickle_value *block)
{
    const struct pickle_value *history = unpickle_get(block, "history");
    return unpickle_items(history) ? unpickle_item(history, 0) : NULL;
}

/* Before 2.1 blocks had no address of their own: they lie side by side. */
static int read_blocks(struct reader *r, const struct pickle_value *list, struct snapshot_segment *g)
{
    struct snapshot *s = r->s;
    uint64_t address = g->address;
    g->first_block = s->block_count;
    g->blocks = unpickle_items(list);
    if (g->blocks > r->most - s->block_count)
        return too_many(r, "blocks");
    for (size_t i = 0; i < g->blocks; i++) {
        const struct pickle_value *v = unpickle_item(list, i);
        if (!has_bytes(r, v, NULL, "size", "a block of a segment, number", i + 1))
            return -1;
        struct snapshot_block b = {.size = (uint64_t)unpickle_int(unpickle_get(v, "size"), 0)};
        b.address = address_of(r, unpickle_get(v, "address"), address);
        const struct pickle_value *last = last_history(v), *requested = unpickle_get(v, "requested_size");
        requested = requested ? requested : unpickle_get(last, "real_size");
        b.requested = (uint64_t)unpickle_int(requested, (int64_t)b.size);
        b.state = state_of(unpickle_get(v, "state"));
        b.rounded = is_rounded(r, v, b.state != SNAPSHOT_FREE);
        b.driver = is_driver(v);
        b.rule = rule_of(r, v);
        s->unrequested = s->unrequested || (b.state != SNAPSHOT_FREE && !requested);
        b.stack = stack_of(r, unpickle_get(last ? last : v, "frames"));
        s->stacked = s->stacked || (b.state != SNAPSHOT_FREE && b.stack);
        address = b.address + b.size;
        *PUSH(s->blocks, s->block_count) = b;
    }
    return 0;
}

static int read_segments(struct reader *r, const struct pickle_value *list)
{
    struct snapshot *s = r->s;
    bool host = s->host >= 0;
    if (!list || list->kind != PICKLE_LIST)
        return not_a_snapshot(r, host ? "it has no host_segments" : "it has no segments");
    if (list->object->n > r->most - s->segment_count)
        return too_many(r, "segments");
    for (size_t i = 0; i < list->object->n; i++) {
        const struct pickle_value *v = unpickle_item(list, i);
        int64_t device = host ? s->host : unpickle_int(unpickle_get(v, "device"), 0);
        if (v->kind != PICKLE_DICT || device < 0 || device >= SNAPSHOT_DEVICES)
            return not_a_snapshot(r, "a segment is no dict, or of no device");
        if (!has_bytes(r, v, "address", "total_size", "segment", i + 1))
            return -1;
        struct snapshot_segment g = {.device = (int)device,
                                     .address = address_of(r, unpickle_get(v, "address"), 0),
                                     .size = (uint64_t)unpickle_int(unpickle_get(v, "total_size"), 0),
                                     .stream = (uint64_t)unpickle_int(unpickle_get(v, "stream"), 0),
                                     .expandable =
                                         !host && unpickle_int(unpickle_get(v, "is_expandable"), 0) != 0};
        s->registered = s->registered || unpickle_int(unpickle_get(v, "is_registered"), 0) != 0;
        g.pool = host ? 0 : pool_of(s, unpickle_get(v, "segment_pool_id"));
        if (!host && read_blocks(r, unpickle_get(v, "blocks"), &g))
            return -1;
        if (device >= s->devices)
            s->devices = (int)device + 1;
        *PUSH(s->segments, s->segment_count) = g;
    }
    return 0;
}

/* ---- the host ---- */

/* A segment's own entry has no stack where the program registered memory: its block's has it. */
static void keep_segments(struct snapshot_trace *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        struct snapshot_event *e = &t->at[i], *segment = n ? &t->at[n - 1] : e;
        if (e->action == SNAPSHOT_ALLOC && segment->action == SNAPSHOT_SEGMENT_ALLOC &&
            segment->address == e->address && !segment->stack)
            segment->stack = e->stack;
        e->pool = 0;
        if (e->action == SNAPSHOT_SEGMENT_ALLOC || e->action == SNAPSHOT_SEGMENT_FREE)
            t->at[n++] = *e;
    }
    t->n = n;
}

static int read_host(struct reader *r, const struct pickle_value *root)
{
    const struct pickle_value *trace = unpickle_get(root, "host_traces"),
                              *segments = unpickle_get(root, "host_segments");
    struct snapshot *s = r->s;
    if (!unpickle_items(trace) && !unpickle_items(segments))
        return 0;
    if (s->devices == SNAPSHOT_DEVICES)
        return too_many(r, "devices");
    s->host = s->devices++;
    if (read_trace(r, trace, &s->traces[s->host]) || read_segments(r, segments))
        return -1;
    keep_segments(&s->traces[s->host]);
    return 0;
}

/* ---- the rest ---- */

/* One number for each power of two. */
static int64_t divisions_of(const struct pickle_value *v)
{
    int64_t divisions = 0;
    if (!v || v->kind != PICKLE_DICT)
        return 0;
    for (size_t i = 1; i < v->object->n && i < 2 * PICKLE_KEYS; i += 2) {
        int64_t n = unpickle_int(&v->object->at[i], 0);
        if (i > 1 && n != divisions)
            return -1;
        divisions = n;
    }
    return divisions;
}

static void read_settings(struct snapshot_settings *o, const struct pickle_value *v)
{
    const struct pickle_value *threshold = unpickle_get(v, "garbage_collection_threshold"),
                              *roundup = unpickle_get(v, "roundup_power2_divisions"),
                              *conf = unpickle_get(v, "PYTORCH_CUDA_ALLOC_CONF");
    if (!conf)
        conf = unpickle_get(v, "PYTORCH_ALLOC_CONF");
    o->known = unpickle_get(v, "max_split_size") != NULL; /* an export of ours may not know them */
    o->max_split = unpickle_int(unpickle_get(v, "max_split_size"), -1);
    o->gc_threshold = threshold && threshold->kind == PICKLE_FLOAT ? threshold->real : 0;
    o->expandable = unpickle_int(unpickle_get(v, "expandable_segments"), 0) != 0;
    o->registers = unpickle_int(unpickle_get(v, "pinned_use_cuda_host_register"), 0) != 0;
    if (conf && conf->kind == PICKLE_TEXT) {
        o->conf = conf->text;
        o->conf_length = conf->length;
    }
    o->roundup = divisions_of(roundup);
}

/* One moment's state is what is dumped where nothing was recorded before. */
static int check_history(struct reader *r)
{
    if (r->s->moves || r->s->stacked)
        return 0;
    snprintf(r->why, r->why_size,
             "has no history and no call stacks, only what there was when it was dumped: call "
             "torch.cuda.memory._record_memory_history() before what is to be seen, and dump again");
    return -1;
}

static size_t memory_for(size_t size)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t half = pages > 0 && page > 0 ? (size_t)pages / 2 * (size_t)page : (size_t)4 << 30;
    size_t wanted = size * MEMORY_RATIO + MEMORY_LEAST;
    return wanted < half ? wanted : half;
}

int snapshot_read(struct snapshot *s, const void *bytes, size_t size, char *why, size_t why_size)
{
    struct pickle_value root;
    *s = (struct snapshot){.host = -1};
    struct reader r = {.s = s, .most = size, .why = why, .why_size = why_size};
    if (unpickle_read(&s->pickle, bytes, size, memory_for(size), &root, why, why_size))
        return -1;
    bool segments = unpickle_items(&root) && unpickle_get(unpickle_item(&root, 0), "total_size"); /* 1.13 */
    int rc = root.kind == PICKLE_DICT || segments ? 0 : not_a_snapshot(&r, "its value is no dict");
    if (!rc && !segments)
        rc = read_traces(&r, unpickle_get(&root, "device_traces"));
    if (!rc)
        rc = read_segments(&r, segments ? &root : unpickle_get(&root, "segments"));
    if (!rc)
        rc = read_host(&r, &root);
    if (!rc)
        rc = check_history(&r);
    s->annotations = unpickle_get(&root, "external_annotations");
    if (!rc && unpickle_items(s->annotations) > r.most)
        rc = too_many(&r, "annotations");
    read_settings(&s->settings, unpickle_get(&root, "allocator_settings"));
    s->settings.registers = s->settings.registers || s->registered;
    s->start_ns = unpickle_int(unpickle_get(&root, "recorded_start_ns"), 0);
    s->steps = unpickle_get(&root, "recorded_steps");
    s->notes = unpickle_get(&root, "import_notes");
    s->misfits = unpickle_int(unpickle_get(&root, "import_misfits"), 0);
    vs_table_free(&r.hashes);
    labels_free(&r.labels);
    if (rc)
        snapshot_free(s);
    return rc;
}

void snapshot_free(struct snapshot *s)
{
    for (int i = 0; i < SNAPSHOT_DEVICES; i++)
        free(s->traces[i].at);
    free(s->segments);
    free(s->blocks);
    free(s->pools);
    free(s->ranges);
    free(s->labels);
    free(s->stacks);
    unpickle_free(s->pickle);
    *s = (struct snapshot){0};
}
