/* convert.c - puts the entries of all devices in order of time and tells each as an event (convert.h). */
#include "convert.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define OPEN_MOST 256 /* of the profiler's ranges */

/* ---- events ---- */

static void emit(struct convert *c, int device, struct vs_event e)
{
    e.t_ns = (uint64_t)c->last_ns + 1; /* the journal's start is at 1 */
    e.thread = VS_THREAD_UNKNOWN;
    e.device = (int8_t)(device == c->s->host ? VS_DEVICE_UNKNOWN : device);
    if (e.op != VS_OP_RANGE_PUSH && e.op != VS_OP_RANGE_POP)
        e.range = c->told ? c->told : c->range && c->phase && !c->over ? c->range : 0;
    if (c->rc == 0 && vs_journal_try_append(c->journal, &e) == VS_SEQ_NONE)
        c->rc = -EIO; /* cannot be: the ring is emptied before it is full */
    if (c->rc == 0 && ++c->appended % DRAIN_EVERY == 0)
        c->rc = c->drain(c->context);
}

/* STACK: the journal's. */
static void emit_block(struct convert *c, int device, uint8_t op, uint64_t address, uint64_t size,
                       uint64_t stream, uint32_t stack)
{
    emit(c, device,
         (struct vs_event){.op = op,
                           .address = address,
                           .size = size,
                           .arg0 = VS_BYTES_UNKNOWN,
                           .arg1 = op == VS_OP_BLOCK_ALLOC ? vs_with_tensor(stream, c->sized) : stream,
                           .stack = stack,
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

static uint64_t block_size(const struct snapshot_event *e)
{
    return e->block ? e->block : e->size;
}

static void emit_entry(struct convert *c, int device, const struct snapshot_event *e)
{
    uint32_t asked = convert_asked(c, e), sized = c->sized;
    c->sized = asked ? asked : sized;
    emit_alloc(c, device, e->address, block_size(e), e->stream, convert_stack(c, e->stack, e->label),
               !asked && (e->rounded || e->block));
    c->sized = sized;
}

/* What the block that begins at ADDRESS is for, where any role is known: the ledger finds it. */
static void emit_role(struct convert *c, int device, uint64_t address, uint8_t rule)
{
    if (c->roles.any && rule)
        emit(c, device, (struct vs_event){.op = VS_OP_FRAMEWORK_ROLE, .address = address, .arg1 = rule});
}

static uint8_t space_of(const struct convert *c, int device)
{
    if (device != c->s->host)
        return VS_SPACE_DEVICE;
    return c->s->settings.registers ? VS_SPACE_REGISTERED : VS_SPACE_PINNED;
}

/* Of a device PyTorch's allocator carves blocks from it, and of the host each segment is one. */
static void emit_segment(struct convert *c, int device, uint64_t address, uint64_t size, uint64_t stream,
                         uint32_t stack)
{
    emit(c, device,
         (struct vs_event){.op = VS_OP_ALLOC,
                           .space = space_of(c, device),
                           .address = address,
                           .size = size,
                           .arg0 = stream,
                           .arg1 = device == c->s->host ? 0 : VS_CALLED_BY(VS_CALLER_CARVER),
                           .stack = convert_stack(c, stack, 0)});
}

/* ---- memory of the driver's ----
 *
 * Readers of snapshots want all memory in segments, so an export of ours has what a program asked of the
 * driver itself as a segment with one block that fills it, and marks that.  Here it becomes what it was. */

static uint64_t own_key(int device, uint64_t address)
{
    return address ^ (uint64_t)device << 58;
}

/* STACK: the journal's. */
static void begin_own(struct convert *c, int device, uint64_t address, uint64_t size, uint64_t stream,
                      uint32_t stack)
{
    vs_table_put(&c->own, own_key(device, address), 0);
    emit(c, device,
         (struct vs_event){.op = VS_OP_ALLOC,
                           .space = VS_SPACE_DEVICE,
                           .address = address,
                           .size = size,
                           .arg0 = stream,
                           .stack = stack});
}

static bool is_own(const struct convert *c, int device, uint64_t address)
{
    return vs_table_get(&c->own, own_key(device, address)) != VS_TABLE_NONE;
}

/* Whether entry I of a trace is such a segment, and its block the next. */
static bool begins_own(const struct snapshot_trace *t, size_t i)
{
    const struct snapshot_event *e = &t->at[i], *next = e + 1;
    return i + 1 < t->n && next->action == SNAPSHOT_ALLOC && next->driver && next->address == e->address &&
           next->size == e->size;
}

/* Likewise of one that lived before the trace: its block, or NULL. */
static const struct rewound_block *own_block(const struct rewound *r, const struct rewound_segment *g)
{
    size_t low = 0, high = r->block_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (r->blocks[middle].address < g->address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct rewound_block *b = low < r->block_count ? &r->blocks[low] : NULL;
    return b && b->driver && b->address == g->address && b->size == g->size && !b->pending ? b : NULL;
}

/* ---- pools ---- */

/* PyTorch's two numbers as a recording has them; a pool whose numbers do not fit gets one of its own. */
static uint64_t pool_number(const struct snapshot *s, uint32_t pool)
{
    const struct snapshot_pool *id = &s->pools[pool - 1];
    bool fits = id->first >= 0 && id->first < 1 << 24 && id->second >= 0 && id->second <= UINT32_MAX;
    return fits ? (uint64_t)id->first << 32 | (uint64_t)id->second : (UINT64_C(1) << 56) + pool;
}

/* What is asked for from here on is of POOL; of one that nobody knows it is taken as of the common one. */
static void enter_pool(struct convert *c, int device, uint32_t pool)
{
    pool = pool == SNAPSHOT_POOL_UNKNOWN ? 0 : pool;
    if (c->pool[device] == pool)
        return;
    if (c->pool[device])
        emit(c, device,
             (struct vs_event){.op = VS_OP_POOL_END, .address = pool_number(c->s, c->pool[device])});
    if (pool)
        emit(c, device, (struct vs_event){.op = VS_OP_POOL_BEGIN, .address = pool_number(c->s, pool)});
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
                           .stack = convert_stack(c, stack, 0)});
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
        const struct rewound_block *own = own_block(r, &r->segments[i]);
        if (own) {
            begin_own(c, device, own->address, own->size, own->stream, convert_stack(c, own->stack, 0));
            continue;
        }
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
        emit_alloc(c, device, b->address, b->size, b->stream, convert_stack(c, b->stack, 0), b->rounded);
        emit_block(c, device, VS_OP_BLOCK_FREE, b->address, b->size, b->stream, 0);
        emit_block(c, device, VS_OP_BLOCK_DEFERRED, b->address, b->size, b->stream, 0);
    }
    for (size_t i = 0; i < r->block_count; i++) {
        const struct rewound_block *b = &r->blocks[i];
        if (b->pending || is_own(c, device, b->address))
            continue;
        c->driver_blocks = c->driver_blocks || b->driver;
        enter_pool(c, device, pools_at_start(c->pools, device, b->address));
        emit_alloc(c, device, b->address, b->size, b->stream, convert_stack(c, b->stack, 0), b->rounded);
        emit_role(c, device, b->address, c->roles.of_block[device][i]);
    }
}

/* ---- phases and ranges ---- */

static void end_range_of_phase(struct convert *c)
{
    if (c->phase && !c->over)
        emit(c, VS_DEVICE_UNKNOWN, (struct vs_event){.op = VS_OP_RANGE_POP, .range = c->range});
    c->over = true;
}

/* After an entry: whether it was the last of the phase.  A step that PyTorch marked ends where the mark says.
 */
static void end_with_entry(struct convert *c)
{
    bool last = false;
    for (; c->end < c->roles.end_count && c->roles.ends[c->end] <= c->entry; c->end++)
        last = c->roles.ends[c->end] == c->entry;
    if (last && !c->in_step)
        end_range_of_phase(c);
}

static void close_phase(struct convert *c)
{
    end_range_of_phase(c);
    c->optimized = c->optimized || c->phase == IMPORT_OPTIMIZER;
    c->phase = IMPORT_NONE;
}

static void enter_phase(struct convert *c, enum import_phase said)
{
    enum import_phase phase = phases_then(c->phase, said);
    if (phase == c->phase)
        return;
    close_phase(c);
    if (phase == IMPORT_NONE)
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
    c->over = false;
}

struct open_range {
    const struct snapshot_range *of;
    uint32_t id;
};

struct profiler { /* its ranges, which cross threads and name no phase */
    struct open_range open[OPEN_MOST];
    size_t n, next;
};

/* Of the recording's phases the innermost is what an entry lies in. */
static void tell_phase(struct convert *c, const struct profiler *p)
{
    c->told = 0;
    for (size_t i = 0; i < p->n; i++)
        c->told = p->open[i].of->told ? p->open[i].id : c->told;
}

static void begin_range(struct convert *c, struct profiler *p, const struct snapshot_range *r)
{
    if (p->n == OPEN_MOST)
        return;
    uint32_t id = vs_journal_next_range(c->journal),
             kind = r->told ? VS_RANGE_NAMES_PHASE : VS_RANGE_CROSS_THREAD;
    emit(c, VS_DEVICE_UNKNOWN,
         (struct vs_event){.op = VS_OP_RANGE_PUSH,
                           .range = id,
                           .address = convert_string(c, r->name, r->length),
                           .arg1 = VS_SOURCE_AUTO | kind});
    p->open[p->n++] = (struct open_range){r, id};
    tell_phase(c, p);
}

static void end_range(struct convert *c, struct profiler *p, const struct snapshot_range *r)
{
    for (size_t i = p->n; i--;) {
        if (!ranges_same(p->open[i].of, r))
            continue;
        emit(c, VS_DEVICE_UNKNOWN, (struct vs_event){.op = VS_OP_RANGE_POP, .range = p->open[i].id});
        memmove(&p->open[i], &p->open[i + 1], (--p->n - i) * sizeof *p->open);
        tell_phase(c, p);
        return;
    }
}

/* ---- the trace ---- */

static int64_t ns_of(const struct convert *c, int64_t time_ns)
{
    int64_t ns = time_ns > c->first_ns ? time_ns - c->first_ns : 0;
    ns = ns < INT64_C(1) << 60 ? ns : INT64_C(1) << 60;
    return ns > c->last_ns ? ns : c->last_ns;
}

/* Whatever is open when a step ends, a closure's backward for instance, ends with it. */
static void mark_step(struct convert *c, bool begins)
{
    c->in_step = begins;
    if (begins) {
        enter_phase(c, IMPORT_OPTIMIZER);
        return;
    }
    close_phase(c);
    c->optimized = true;
}

/* The ends of the recording's steps up to TIME. */
static void steps_until(struct convert *c, int64_t time_ns)
{
    for (; c->step < unpickle_items(c->s->steps); c->step++) {
        int64_t end = unpickle_int(unpickle_item(c->s->steps, c->step), 0);
        if (end > time_ns)
            return;
        c->last_ns = ns_of(c, end);
        emit(c, VS_DEVICE_UNKNOWN, (struct vs_event){.op = VS_OP_STEP});
    }
}

static void ranges_until(struct convert *c, struct profiler *p, int64_t time_ns)
{
    for (; p->next < c->s->range_count && phases_precedes(&c->s->ranges[p->next], time_ns); p->next++) {
        const struct snapshot_range *r = &c->s->ranges[p->next];
        steps_until(c, r->time_ns);
        c->last_ns = ns_of(c, r->time_ns);
        if (r->steps)
            mark_step(c, r->begins);
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
    bool of_own = e->driver && is_own(c, device, e->address); /* its segment's entry says all */
    switch (of_own ? SNAPSHOT_OTHER : e->action) {
    case SNAPSHOT_ALLOC:
        c->driver_blocks = c->driver_blocks || e->driver;
        enter_phase(c, phases_shown(c->phases, e->stack, c->in_step));
        enter_pool(c, device, e->pool);
        emit_entry(c, device, e);
        emit_role(c, device, e->address, c->roles.of_entry[device][i]);
        break;
    case SNAPSHOT_FREE_REQUESTED:
        emit_block(c, device, VS_OP_BLOCK_FREE, e->address, block_size(e), e->stream, 0);
        if (!completes(t, i))
            emit_block(c, device, VS_OP_BLOCK_DEFERRED, e->address, block_size(e), e->stream, 0);
        break;
    case SNAPSHOT_FREE_COMPLETED:
        if (i == 0 || t->at[i - 1].action != SNAPSHOT_FREE_REQUESTED || t->at[i - 1].address != e->address)
            emit_block(c, device, VS_OP_BLOCK_REUSABLE, e->address, block_size(e), e->stream, 0);
        break;
    case SNAPSHOT_SEGMENT_ALLOC:
        if (begins_own(t, i)) {
            enter_phase(c, phases_shown(c->phases, e[1].stack, c->in_step));
            begin_own(c, device, e->address, e->size, e[1].stream, convert_stack(c, e[1].stack, e[1].label));
            break;
        }
        enter_pool(c, device, e->pool);
        emit_segment(c, device, e->address, e->size, e->stream, e->stack);
        break;
    case SNAPSHOT_SEGMENT_FREE:
        vs_table_remove(&c->own, own_key(device, e->address));
        emit(c, device,
             (struct vs_event){
                 .op = VS_OP_FREE, .space = space_of(c, device), .address = e->address, .arg0 = e->stream});
        break;
    case SNAPSHOT_SEGMENT_MAP:
    case SNAPSHOT_SEGMENT_UNMAP:
        change_cells(c, device, e, e->action == SNAPSHOT_SEGMENT_MAP);
        break;
    case SNAPSHOT_OOM:
        enter_phase(c, phases_shown(c->phases, e->stack, c->in_step));
        emit_block(c, device, VS_OP_BLOCK_OOM, 0, e->size, e->stream, convert_stack(c, e->stack, e->label));
        if (e->free_known)
            emit(c, device,
                 (struct vs_event){.op = VS_OP_SAMPLE,
                                   .address = e->address,
                                   .size = VS_BYTES_UNKNOWN,
                                   .arg0 = VS_SAMPLE_OOM});
        break;
    case SNAPSHOT_OTHER:
    case SNAPSHOT_UNKNOWN:
        break;
    }
}

/* Entries of an old PyTorch have no times: they get their number, as if each took a microsecond. */
static void number_entries(struct convert *c)
{
    c->timed = true;
    for (int d = 0; d < c->s->devices; d++)
        c->timed = c->timed && c->s->traces[d].timed;
    for (int d = 0; d < c->s->devices && !c->timed; d++)
        for (size_t i = 0; i < c->s->traces[d].n; i++)
            c->s->traces[d].at[i].time_ns = (int64_t)i * 1000;
    c->first_ns = INT64_MAX;
    for (int d = 0; d < c->s->devices; d++)
        if (c->s->traces[d].n && c->s->traces[d].at[0].time_ns < c->first_ns)
            c->first_ns = c->s->traces[d].at[0].time_ns;
    if (c->first_ns == INT64_MAX)
        c->first_ns = 0;
    if (c->s->start_ns > 0 && c->s->start_ns < c->first_ns)
        c->first_ns = c->s->start_ns;
}

static void convert_trace(struct convert *c)
{
    size_t at[SNAPSHOT_DEVICES] = {0};
    struct profiler p = {0};
    if (!c->timed || !c->s->moves)
        c->s->range_count = 0;
    for (int d; c->rc == 0 && (d = lives_next(c->s, at)) >= 0; at[d]++) {
        const struct snapshot_event *e = &c->s->traces[d].at[at[d]];
        ranges_until(c, &p, e->time_ns);
        steps_until(c, e->time_ns);
        c->last_ns = ns_of(c, e->time_ns);
        c->entry++;
        convert_entry(c, d, at[d]);
        end_with_entry(c);
    }
    ranges_until(c, &p, INT64_MAX);
    steps_until(c, INT64_MAX);
    close_phase(c);
    if (c->timed && c->s->moves)
        c->last_ns = ns_of(c, c->s->end_ns);
}

int convert_run(struct convert *c)
{
    static const char *const names[IMPORT_PHASES] = {
        [IMPORT_FORWARD] = "forward", [IMPORT_BACKWARD] = "backward", [IMPORT_OPTIMIZER] = "optimizer"};
    for (int i = IMPORT_FORWARD; i < IMPORT_PHASES; i++)
        c->names[i] = convert_string(c, names[i], strlen(names[i]));
    for (size_t i = 0; i < c->s->range_count;
         i++) /* before names of code, which an export spells otherwise */
        convert_string(c, c->s->ranges[i].name, c->s->ranges[i].length);
    if (!c->s->unrequested)
        c->sized = vs_journal_tensor(
            c->journal, vs_tensor_what(VS_TENSOR_SIZED, VS_TENSOR_NO_TYPE, VS_TENSOR_NO_SHAPE), 0, NULL);
    c->stacks = xrealloc(NULL, (c->s->stack_count + 1) * sizeof *c->stacks);
    memset(c->stacks, 0, (c->s->stack_count + 1) * sizeof *c->stacks);
    number_entries(c);
    roles_find(&c->roles, c->s, c->start, c->phases);
    for (int d = 0; d < c->s->devices; d++)
        emit_start(c, d);
    emit(c, VS_DEVICE_UNKNOWN, (struct vs_event){.op = VS_OP_RECORD_START});
    convert_trace(c);
    if (c->rc == 0)
        c->rc = c->drain(c->context);
    free(c->stacks);
    c->stacks = NULL;
    roles_free(&c->roles);
    vs_table_free(&c->own);
    return c->rc;
}
