/* convert.c - see convert.h. */
#include "convert.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define DRAIN_EVERY 8192 /* events; the ring has twice as many slots */
#define TEXT_MOST   4095 /* of a journal's string */
#define COUNTED     UINT32_MAX
#define OPEN_MOST   256 /* of the profiler's ranges */

/* ---- the journal's size ---- */

static uint64_t text_bytes(uint32_t length)
{
    return (length < TEXT_MOST ? length : TEXT_MOST) + 24;
}

/* A frame is one dict that many stacks refer to. */
static void count_frames(const struct pickle_object *stack, uint64_t *frames, uint64_t *bytes)
{
    for (size_t i = 0; i < stack->n; i++) {
        const struct pickle_value *f = &stack->at[i], *name = unpickle_get(f, "name"),
                                  *file = unpickle_get(f, "filename");
        if (f->kind != PICKLE_DICT || f->object->tag == COUNTED)
            continue;
        f->object->tag = COUNTED;
        *frames += 2; /* with that of a node */
        *bytes += text_bytes(name ? name->length : 0) * 2 + text_bytes(file ? file->length : 0);
    }
}

struct vs_journal_config convert_room(const struct snapshot *s)
{
    uint64_t frames = 64, bytes = 1 << 16;
    for (size_t i = 0; i < s->stack_count; i++)
        count_frames(s->stacks[i], &frames, &bytes);
    for (size_t i = 0; i < s->range_count; i++)
        bytes += text_bytes(s->ranges[i].length);
    uint64_t stacks = s->stack_frames + s->stack_count + 64;
    return (struct vs_journal_config){.ring_slots = DRAIN_EVERY * 2,
                                      .string_bytes =
                                          bytes < UINT32_MAX - 8 ? (uint32_t)bytes : UINT32_MAX - 8,
                                      .threads = 8,
                                      .contexts = 8,
                                      .devices = 8,
                                      .modules = 8,
                                      .frames = frames < UINT32_MAX ? (uint32_t)frames : UINT32_MAX,
                                      .tensor_bytes = 4096,
                                      .stacks = stacks < UINT32_MAX ? (uint32_t)stacks : UINT32_MAX,
                                      .start_ns = 1};
}

/* ---- stacks ---- */

static uint32_t string_of(struct convert *c, const char *text, size_t n)
{
    return vs_journal_string(c->journal, text, n);
}

/* PATH of Windows with slashes, as who looks for a package in it expects them. */
static uint32_t file_of(struct convert *c, const struct snapshot_frame *f)
{
    char path[TEXT_MOST];
    size_t n = f->file_length < sizeof path ? f->file_length : sizeof path;
    if (n < 3 || f->file[1] != ':' || f->file[2] != '\\')
        return string_of(c, f->file, f->file_length);
    for (size_t i = 0; i < n; i++)
        path[i] = f->file[i] == '\\' ? '/' : f->file[i];
    return string_of(c, path, n);
}

static uint32_t make_frame(struct convert *c, const struct snapshot_frame *f)
{
    bool native = phases_native(f), placed = f->file_length && !(f->file_length == 2 && f->file[0] == '?');
    uint32_t name = f->name_length ? string_of(c, f->name, f->name_length) : string_of(c, "?", 1);
    uint32_t file = placed ? file_of(c, f) : 0;
    const char *node;
    size_t node_length = phases_exported_node(f, &node);
    if (node_length)
        return vs_journal_named_frame(c->journal, VS_FRAME_NODE, string_of(c, node, node_length), 0, 0);
    return vs_journal_named_frame(c->journal, native ? VS_FRAME_NATIVE : VS_FRAME_PYTHON, name, file,
                                  f->line);
}

/* Of a frame whose dict has been seen: the journal's. */
static uint32_t frame_of(struct convert *c, struct pickle_object *o, const struct snapshot_frame *f)
{
    if (o->tag == COUNTED || !o->tag)
        o->tag = make_frame(c, f);
    return o->tag;
}

/* How many frames from the innermost on are kept, and the node under them: autograd's threads run a node
 * below frames that are the same for every node.  Where Python called backward in the same thread its frames
 * stay, and the node is left to native frames: under a node the database has those of the forward. */
static size_t cut_at_node(const struct snapshot *s, uint32_t stack, const char **node, size_t *node_length)
{
    struct snapshot_frame f;
    size_t at = 0, n = 0;
    *node_length = 0;
    for (; snapshot_frame(s, stack, n, &f); n++) {
        if (!phases_native(&f) && *node_length)
            break;
        if (!*node_length && (*node_length = phases_node(&f, node)))
            at = n + 1;
    }
    bool python = snapshot_frame(s, stack, n, &f);
    while (snapshot_frame(s, stack, n, &f))
        n++;
    if (python)
        *node_length = 0;
    return *node_length ? at : n;
}

static uint32_t make_stack(struct convert *c, uint32_t stack)
{
    const struct pickle_object *frames = c->s->stacks[stack - 1];
    const char *node = NULL;
    size_t node_length, n = cut_at_node(c->s, stack, &node, &node_length);
    uint32_t id = 0;
    struct snapshot_frame f;
    if (node_length)
        id = vs_journal_stack(
            c->journal, 0,
            vs_journal_named_frame(c->journal, VS_FRAME_NODE, string_of(c, node, node_length), 0, 0));
    for (size_t i = n; i--;) {
        if (!snapshot_frame(c->s, stack, i, &f) || phases_recorder(&f) || frames->at[i].kind != PICKLE_DICT)
            continue;
        uint32_t frame = frame_of(c, frames->at[i].object, &f);
        id = frame ? vs_journal_stack(c->journal, id, frame) : id;
    }
    return id;
}

static uint32_t stack_of(struct convert *c, uint32_t stack)
{
    if (!stack)
        return 0;
    if (!c->stacks[stack - 1])
        c->stacks[stack - 1] = make_stack(c, stack);
    return c->stacks[stack - 1];
}

/* ---- events ---- */

static void emit(struct convert *c, int device, struct vs_event e)
{
    e.t_ns = (uint64_t)c->last_ns + 1; /* the journal's start is at 1 */
    e.thread = VS_THREAD_UNKNOWN;
    e.device = (int8_t)device;
    if (e.op != VS_OP_RANGE_PUSH && e.op != VS_OP_RANGE_POP)
        e.range = c->range && c->phase ? c->range : 0;
    if (c->rc == 0 && vs_journal_try_append(c->journal, &e) == VS_SEQ_NONE)
        c->rc = -EIO; /* cannot be: the ring is emptied before it is full */
    if (c->rc == 0 && ++c->appended % DRAIN_EVERY == 0)
        c->rc = c->drain(c->context);
}

static void emit_block(struct convert *c, int device, uint8_t op, uint64_t address, uint64_t size,
                       uint64_t stream, uint32_t stack)
{
    emit(c, device,
         (struct vs_event){.op = op,
                           .address = address,
                           .size = size,
                           .arg0 = VS_BYTES_UNKNOWN,
                           .arg1 = stream,
                           .stack = stack_of(c, stack),
                           .status = op == VS_OP_BLOCK_ALLOC ? (uint16_t)c->sized : 0});
}

/* ROUNDED: nobody knows what was requested of it. */
static void emit_alloc(struct convert *c, int device, uint64_t address, uint64_t size, uint64_t stream,
                       uint32_t stack, bool rounded)
{
    uint32_t sized = c->sized;
    c->sized = rounded ? 0 : sized;
    emit_block(c, device, VS_OP_BLOCK_ALLOC, address, size, stream, stack);
    c->sized = sized;
}

static void emit_segment(struct convert *c, int device, uint64_t address, uint64_t size, uint64_t stream,
                         uint32_t stack)
{
    emit(c, device,
         (struct vs_event){.op = VS_OP_ALLOC,
                           .space = VS_SPACE_DEVICE,
                           .address = address,
                           .size = size,
                           .arg0 = stream,
                           .arg1 = VS_CALLED_BY(VS_CALLER_CARVER),
                           .stack = stack_of(c, stack)});
}

/* What is asked for from here on is of POOL; of one that nobody knows it is taken as of the common one. */
static void enter_pool(struct convert *c, int device, uint32_t pool)
{
    pool = pool == SNAPSHOT_POOL_UNKNOWN ? 0 : pool;
    if (c->pool[device] == pool)
        return;
    if (c->pool[device])
        emit(c, device, (struct vs_event){.op = VS_OP_POOL_END, .address = c->pool[device]});
    if (pool)
        emit(c, device, (struct vs_event){.op = VS_OP_POOL_BEGIN, .address = pool});
    c->pool[device] = pool;
}

/* A cell of an expandable segment: one piece of physical memory, under a handle that is made up. */
static uint64_t handle_of(int device, size_t cell)
{
    return ((uint64_t)device + 1) << 40 | cell;
}

static void map_cell(struct convert *c, int device, size_t cell, uint32_t stack)
{
    const struct rewound *r = &c->start[device];
    uint64_t address = r->edges[cell], size = r->edges[cell + 1] - address;
    emit(c, device,
         (struct vs_event){.op = VS_OP_PHYS_CREATE,
                           .space = VS_SPACE_DEVICE,
                           .address = handle_of(device, cell),
                           .size = size,
                           .arg0 = UINT64_C(1) << 32 | (uint64_t)device,
                           .arg1 = VS_CALLED_BY(VS_CALLER_CARVER),
                           .stack = stack_of(c, stack)});
    emit(c, device,
         (struct vs_event){
             .op = VS_OP_MAP, .address = address, .size = size, .arg0 = handle_of(device, cell)});
}

static void unmap_cell(struct convert *c, int device, size_t cell)
{
    const struct rewound *r = &c->start[device];
    uint64_t address = r->edges[cell];
    emit(c, device,
         (struct vs_event){.op = VS_OP_UNMAP, .address = address, .size = r->edges[cell + 1] - address});
    emit(c, device, (struct vs_event){.op = VS_OP_PHYS_RELEASE, .address = handle_of(device, cell)});
}

static void change_cells(struct convert *c, int device, const struct snapshot_event *e, bool map)
{
    struct rewound *r = &c->start[device];
    for (size_t i = rewound_cell(r, e->address); i < r->cells && r->edges[i] < e->address + e->size; i++) {
        if (r->mapped[i] == map)
            continue;
        r->mapped[i] = map;
        if (map)
            map_cell(c, device, i, e->stack);
        else
            unmap_cell(c, device, i);
    }
}

/* ---- the start ---- */

static void emit_start(struct convert *c, int device)
{
    const struct rewound *r = &c->start[device];
    for (size_t i = 0; i < r->segment_count; i++) {
        enter_pool(c, device, pools_at_start(c->pools, device, r->segments[i].address));
        emit_segment(c, device, r->segments[i].address, r->segments[i].size, r->segments[i].stream, 0);
    }
    for (size_t i = 0; i < r->cells; i++)
        if (r->mapped[i])
            map_cell(c, device, i, 0);
    for (size_t i = 0; i < r->block_count; i++) {
        const struct rewound_block *b = &r->blocks[i];
        if (!b->pending)
            continue;
        enter_pool(c, device, pools_at_start(c->pools, device, b->address));
        emit_alloc(c, device, b->address, b->size, b->stream, b->stack, b->rounded);
        emit_block(c, device, VS_OP_BLOCK_FREE, b->address, b->size, b->stream, 0);
        emit_block(c, device, VS_OP_BLOCK_DEFERRED, b->address, b->size, b->stream, 0);
    }
    for (size_t i = 0; i < r->block_count; i++) {
        const struct rewound_block *b = &r->blocks[i];
        if (b->pending)
            continue;
        enter_pool(c, device, pools_at_start(c->pools, device, b->address));
        emit_alloc(c, device, b->address, b->size, b->stream, b->stack, b->rounded);
    }
}

/* ---- phases and ranges ---- */

static void close_phase(struct convert *c)
{
    if (c->phase)
        emit(c, VS_DEVICE_UNKNOWN, (struct vs_event){.op = VS_OP_RANGE_POP, .range = c->range});
    c->optimized = c->optimized || c->phase == IMPORT_OPTIMIZER;
    c->phase = IMPORT_NONE;
}

/* What no stack speaks for stays in the phase that is open. */
static void enter_phase(struct convert *c, enum import_phase phase)
{
    if (phase == IMPORT_NONE || phase == c->phase || (phase == IMPORT_OUTSIDE && c->phase <= IMPORT_FORWARD))
        return;
    close_phase(c);
    if (phase == IMPORT_OUTSIDE)
        return;
    if (c->optimized && phase != IMPORT_OPTIMIZER) {
        emit(c, VS_DEVICE_UNKNOWN, (struct vs_event){.op = VS_OP_STEP});
        c->optimized = false;
    }
    c->range = vs_journal_next_range(c->journal);
    emit(c, VS_DEVICE_UNKNOWN,
         (struct vs_event){.op = VS_OP_RANGE_PUSH,
                           .range = c->range,
                           .address = c->names[phase],
                           .arg1 = VS_SOURCE_AUTO | VS_RANGE_NAMES_PHASE});
    c->phase = phase;
}

struct open_range {
    const struct snapshot_range *of;
    uint32_t id;
};

struct profiler { /* its ranges, which cross threads and name no phase */
    struct open_range open[OPEN_MOST];
    size_t n, next;
};

static bool same_range(const struct snapshot_range *a, const struct snapshot_range *b)
{
    return a->device == b->device && a->length == b->length && memcmp(a->name, b->name, a->length) == 0;
}

static void begin_range(struct convert *c, struct profiler *p, const struct snapshot_range *r)
{
    if (p->n == OPEN_MOST)
        return;
    uint32_t id = vs_journal_next_range(c->journal);
    emit(c, VS_DEVICE_UNKNOWN,
         (struct vs_event){.op = VS_OP_RANGE_PUSH,
                           .range = id,
                           .address = string_of(c, r->name, r->length),
                           .arg1 = VS_SOURCE_AUTO | VS_RANGE_CROSS_THREAD});
    p->open[p->n++] = (struct open_range){r, id};
}

static void end_range(struct convert *c, struct profiler *p, const struct snapshot_range *r)
{
    for (size_t i = p->n; i--;) {
        if (!same_range(p->open[i].of, r))
            continue;
        emit(c, VS_DEVICE_UNKNOWN, (struct vs_event){.op = VS_OP_RANGE_POP, .range = p->open[i].id});
        memmove(&p->open[i], &p->open[i + 1], (--p->n - i) * sizeof *p->open);
        return;
    }
}

/* ---- the trace ---- */

static int64_t ns_of(const struct convert *c, int64_t time_us)
{
    int64_t us = time_us > c->first_us ? time_us - c->first_us : 0;
    int64_t ns = us < INT64_C(1) << 50 ? us * 1000 : INT64_C(1) << 60;
    return ns > c->last_ns ? ns : c->last_ns;
}

static void ranges_until(struct convert *c, struct profiler *p, int64_t time_us)
{
    for (; p->next < c->s->range_count && c->s->ranges[p->next].time_us <= time_us; p->next++) {
        const struct snapshot_range *r = &c->s->ranges[p->next];
        c->last_ns = ns_of(c, r->time_us);
        if (r->begins)
            begin_range(c, p, r);
        else
            end_range(c, p, r);
    }
}

/* Whether the block that E frees is reusable at once: then its completion is the next entry. */
static bool completes(const struct snapshot_trace *t, size_t i)
{
    return i + 1 < t->n && t->at[i + 1].action == SNAPSHOT_FREE_COMPLETED &&
           t->at[i + 1].address == t->at[i].address;
}

static void convert_entry(struct convert *c, int device, size_t i)
{
    const struct snapshot_trace *t = &c->s->traces[device];
    const struct snapshot_event *e = &t->at[i];
    switch (e->action) {
    case SNAPSHOT_ALLOC:
        enter_phase(c, phase_of(c->phases, e->stack));
        enter_pool(c, device, e->pool);
        emit_alloc(c, device, e->address, e->size, e->stream, e->stack, e->rounded);
        break;
    case SNAPSHOT_FREE_REQUESTED:
        emit_block(c, device, VS_OP_BLOCK_FREE, e->address, e->size, e->stream, 0);
        if (!completes(t, i))
            emit_block(c, device, VS_OP_BLOCK_DEFERRED, e->address, e->size, e->stream, 0);
        break;
    case SNAPSHOT_FREE_COMPLETED:
        if (i == 0 || t->at[i - 1].action != SNAPSHOT_FREE_REQUESTED || t->at[i - 1].address != e->address)
            emit_block(c, device, VS_OP_BLOCK_REUSABLE, e->address, e->size, e->stream, 0);
        break;
    case SNAPSHOT_SEGMENT_ALLOC:
        enter_pool(c, device, e->pool);
        emit_segment(c, device, e->address, e->size, e->stream, e->stack);
        break;
    case SNAPSHOT_SEGMENT_FREE:
        emit(c, device,
             (struct vs_event){
                 .op = VS_OP_FREE, .space = VS_SPACE_DEVICE, .address = e->address, .arg0 = e->stream});
        break;
    case SNAPSHOT_SEGMENT_MAP:
    case SNAPSHOT_SEGMENT_UNMAP:
        change_cells(c, device, e, e->action == SNAPSHOT_SEGMENT_MAP);
        break;
    case SNAPSHOT_OOM:
        enter_phase(c, phase_of(c->phases, e->stack));
        emit_block(c, device, VS_OP_BLOCK_OOM, 0, e->size, e->stream, e->stack);
        break;
    case SNAPSHOT_OTHER:
        break;
    }
}

/* The device whose next entry is the earliest; -1 where none has one left. */
static int next_device(const struct convert *c, const size_t *at)
{
    int best = -1;
    for (int d = 0; d < c->s->devices; d++) {
        const struct snapshot_trace *t = &c->s->traces[d];
        if (at[d] < t->n && (best < 0 || t->at[at[d]].time_us < c->s->traces[best].at[at[best]].time_us))
            best = d;
    }
    return best;
}

/* Entries of an old PyTorch have no times: they get their number, as if each took a microsecond. */
static void number_entries(struct convert *c)
{
    c->timed = true;
    for (int d = 0; d < c->s->devices; d++)
        c->timed = c->timed && c->s->traces[d].timed;
    for (int d = 0; d < c->s->devices && !c->timed; d++)
        for (size_t i = 0; i < c->s->traces[d].n; i++)
            c->s->traces[d].at[i].time_us = (int64_t)i;
    c->first_us = INT64_MAX;
    for (int d = 0; d < c->s->devices; d++)
        if (c->s->traces[d].n && c->s->traces[d].at[0].time_us < c->first_us)
            c->first_us = c->s->traces[d].at[0].time_us;
    if (c->first_us == INT64_MAX)
        c->first_us = 0;
}

static int by_time(const void *a, const void *b)
{
    const struct snapshot_range *x = a, *y = b;
    return (x->time_us > y->time_us) - (x->time_us < y->time_us);
}

static void convert_trace(struct convert *c)
{
    size_t at[SNAPSHOT_DEVICES] = {0};
    struct profiler p = {0};
    if (!c->timed)
        c->s->range_count = 0;
    if (c->s->range_count)
        qsort(c->s->ranges, c->s->range_count, sizeof *c->s->ranges, by_time);
    for (int d; c->rc == 0 && (d = next_device(c, at)) >= 0; at[d]++) {
        const struct snapshot_event *e = &c->s->traces[d].at[at[d]];
        ranges_until(c, &p, e->time_us);
        c->last_ns = ns_of(c, e->time_us);
        convert_entry(c, d, at[d]);
    }
    ranges_until(c, &p, INT64_MAX);
    close_phase(c);
}

int convert_run(struct convert *c)
{
    static const char *const names[IMPORT_PHASES] = {
        [IMPORT_FORWARD] = "forward", [IMPORT_BACKWARD] = "backward", [IMPORT_OPTIMIZER] = "optimizer"};
    for (int i = IMPORT_FORWARD; i < IMPORT_PHASES; i++)
        c->names[i] = string_of(c, names[i], strlen(names[i]));
    if (!c->s->unrequested)
        c->sized = vs_journal_tensor(
            c->journal, vs_tensor_what(VS_TENSOR_SIZED, VS_TENSOR_NO_TYPE, VS_TENSOR_NO_SHAPE), 0, NULL);
    c->stacks = xrealloc(NULL, (c->s->stack_count + 1) * sizeof *c->stacks);
    memset(c->stacks, 0, (c->s->stack_count + 1) * sizeof *c->stacks);
    number_entries(c);
    for (int d = 0; d < c->s->devices; d++)
        emit_start(c, d);
    emit(c, VS_DEVICE_UNKNOWN, (struct vs_event){.op = VS_OP_RECORD_START});
    convert_trace(c);
    if (c->rc == 0)
        c->rc = c->drain(c->context);
    free(c->stacks);
    c->stacks = NULL;
    return c->rc;
}
