/*
 * tape.c - the pass over a device's events (tape.h).
 *
 * A free names its block by the number of its allocation, as the ledger paired them; another stream's use
 * and a deferred free name it by its address.  A request of `run` has the number of the stream that was
 * its thread's current one (tape_streams.c); the scopes that were open say which pool it went to, and the
 * CUDA events that the allocator recorded when a deferred free ended.
 */
#include <stdlib.h>
#include <string.h>

#include "steps.h"
#include "tape_parts.h"
#include "trace/ledger/addresses.h"
#include "trace/ledger/ledger.h"

#define SIZE_MOST     (UINT64_C(1) << 46)
#define ADDRESS_MOST  (UINT64_C(1) << 62)
#define STREAMS_MOST  60000
#define LARGE         (UINT64_C(1) << 20)
#define OUT_OF_MEMORY 2 /* CUresult */
#define RECENT        8 /* events between a free and what says that it is deferred */
#define CAPTURED      1 /* of a scope, vs_op POOL_BEGIN */

struct scope { /* requests of a thread, or of a stream, go to a private pool */
    uint64_t pool;
    int64_t thread;
    uint64_t stream; /* 0: of the thread */
    size_t told;     /* its place in tape->scopes */
};

struct waiting { /* a block whose free was deferred */
    size_t free; /* its event */
    int64_t seq; /* of that */
    uint32_t events;
};

struct reading {
    struct trace_tape *tape;
    int64_t device;
    size_t phases;
    struct tape_held held;
    struct trace_step_end *steps;
    size_t step_count;
    struct vs_table last, deferred; /* by address the block that was there last; that waits */
    struct vs_table deferred_at;    /* of those of imports: their place in `waiting` */
    int64_t free_seq[RECENT];       /* of the last frees, by the event's place */
    struct vs_table pieces;         /* the framework's driver memory, by address: 0 */
    struct vs_table created;        /* of that the physical memory, by its event: 0 */
    struct vs_table streams, named; /* by the tape's numbers; as the program named them */
    uint32_t named_count;
    struct vs_table refused;              /* by thread, how often since its last request */
    struct vs_table over;                 /* CUDA events: the block's place in `waiting` */
    struct vs_spans reserved, unfinished; /* reservations; blocks that wait for CUDA events, likewise */
    struct waiting *waiting;
    size_t waiting_count;
    struct scope *scopes;
    size_t scope_count;
};

static struct tape_event event_of(const struct reading *r, const struct trace_row *row)
{
    bool known = row->phase > 0 && (size_t)row->phase < r->phases;
    return (struct tape_event){.t = row->t,
                               .address = (uint64_t)row->address,
                               .size = tape_bytes(row),
                               .number = tape_number_of(row->seq),
                               .phase = known ? (uint16_t)row->phase : 0};
}

static uint32_t stack_of(const struct trace_row *row)
{
    return row->stack > 0 && row->stack < UINT32_MAX ? (uint32_t)row->stack : 0;
}

/* ---- streams and pools ---- */

static uint16_t stream_of(struct reading *r, uint64_t handle, uint64_t pool)
{
    uint64_t key = pool ? handle ^ (pool + 1) * UINT64_C(0x9E3779B97F4A7C15) : handle;
    uint32_t known = vs_table_get(&r->streams, key);
    if (known == VS_TABLE_NONE) {
        if (r->tape->streams >= STREAMS_MOST)
            return 0;
        size_t n = known = r->tape->streams++;
        r->tape->stream = grow(r->tape->stream, n, sizeof *r->tape->stream);
        r->tape->stream[n] = (struct tape_stream){handle, pool};
        *PUSH(r->tape->private_pool, n) = pool != 0;
        vs_table_put(&r->streams, key, known);
    }
    return (uint16_t)known;
}

/* Streams as the program named them, without their pools. */
static uint16_t named_stream(struct reading *r, uint64_t handle)
{
    uint32_t known = vs_table_get(&r->named, handle);
    if (known == VS_TABLE_NONE && r->named_count < STREAMS_MOST)
        vs_table_put(&r->named, handle, known = r->named_count++);
    return known == VS_TABLE_NONE ? 0 : (uint16_t)known;
}

/* The pool that a request goes to: that of the last scope that is open for it; 0: the common one. */
static uint64_t pool_of(const struct reading *r, const struct trace_row *row)
{
    for (size_t i = r->scope_count; i-- > 0;) {
        const struct scope *s = &r->scopes[i];
        if (s->stream ? s->stream == tape_number(row) : s->thread == row->thread)
            return s->pool;
    }
    return 0;
}

static void begin_scope(struct reading *r, const struct trace_row *row)
{
    struct trace_tape *tape = r->tape;
    bool captured = tape_number(row) & CAPTURED;
    *PUSH(r->scopes, r->scope_count) = (struct scope){
        (uint64_t)row->address, row->thread, captured ? tape_number(row) >> 1 : 0, tape->scope_count};
    *PUSH(tape->scopes, tape->scope_count) =
        (struct tape_scope){(uint64_t)row->address, row->stack, row->seq, tape->n, SIZE_MAX, captured};
}

static void end_scope(struct reading *r, const struct trace_row *row)
{
    for (size_t i = r->scope_count; i-- > 0;) {
        if (r->scopes[i].pool != (uint64_t)row->address)
            continue;
        r->tape->scopes[r->scopes[i].told].to = r->tape->n;
        memmove(r->scopes + i, r->scopes + i + 1, (--r->scope_count - i) * sizeof *r->scopes);
        return;
    }
}

/* ---- blocks ---- */

static void push(struct reading *r, struct tape_event e)
{
    *PUSH(r->tape->at, r->tape->n) = e;
}

/* The free was none that waits, or its end was not seen: its block was there to be used. */
static void not_deferred(struct reading *r, struct waiting *w)
{
    if (!w->events)
        return;
    struct tape_event *e = &r->tape->at[w->free];
    w->events = 0;
    e->deferred = false;
    r->tape->unwatched++;
    vs_spans_remove(&r->unfinished, e->address);
}

/* 0: not known.  Of a block of up to LARGE its size is the request, rounded to 512 B; in a larger one LARGE
 * may be more. */
static uint64_t request_of(struct reading *r, uint32_t asked, uint64_t size)
{
    uint64_t bytes = asked_bytes(&r->tape->made_for.at[asked], size);
    r->tape->asked += bytes > 0;
    r->tape->unasked += !bytes && !r->tape->requests;
    r->tape->unasked_large += !bytes && !r->tape->requests && size > LARGE;
    return bytes;
}

static void block_alloc(struct reading *r, const struct trace_row *row)
{
    struct tape_event e = event_of(r, row);
    const struct vs_span *waits;
    while ((waits = vs_spans_from(&r->unfinished, e.address)) && waits->start < e.address + e.size)
        not_deferred(r, &r->waiting[waits->value]);
    bool arena = row->space == VS_SPACE_ARENA, unknown = !tape_number(row) && !arena && !r->tape->imported;
    uint32_t asked = asked_find(&r->tape->made_for, row->tensor);
    uint64_t request = request_of(r, asked, e.size);
    e.id = r->tape->ids;
    *PUSH(r->tape->blocks, r->tape->ids) = (struct tape_block){.seq = row->seq,
                                                               .size = e.size,
                                                               .request = request ? request : e.size,
                                                               .stack = stack_of(row),
                                                               .asked = asked,
                                                               .stream = named_stream(r, tape_number(row))};
    e.size = r->tape->blocks[e.id].request;
    e.what = TAPE_ALLOC;
    e.rounded = !request && !r->tape->requests;
    e.stream = unknown ? STREAM_UNKNOWN : stream_of(r, tape_number(row), arena ? 0 : pool_of(r, row));
    r->tape->arena = r->tape->arena || arena;
    vs_table_put(&r->last, e.address, e.id);
    push(r, e);
}

static void block_free(struct reading *r, const struct trace_row *row)
{
    struct tape_event e = event_of(r, row);
    struct tape_block *block = FIND(row->mate, r->tape->blocks, r->tape->ids);
    if (!block || block->freed)
        return;
    block->freed = true;
    e.id = (uint32_t)(block - r->tape->blocks);
    e.what = TAPE_FREE;
    e.size = block->request;
    r->free_seq[r->tape->n % RECENT] = row->seq;
    push(r, e);
}

/* The block that was freed last waits for the CUDA event EVENT too. */
static void waits_for(struct reading *r, size_t free_event, uint64_t event)
{
    struct waiting *last = r->waiting_count ? &r->waiting[r->waiting_count - 1] : NULL;
    struct tape_event *e = &r->tape->at[free_event];
    uint32_t other = vs_table_remove(&r->over, event);
    if (other != VS_TABLE_NONE)
        not_deferred(r, &r->waiting[other]); /* the allocator uses an event again when it is over */
    if (!last || last->free != free_event || !last->events) {
        last = PUSH(r->waiting, r->waiting_count);
        *last = (struct waiting){free_event, r->free_seq[free_event % RECENT], 0};
        uint64_t size = r->tape->blocks[e->id].size;
        vs_spans_insert(&r->unfinished, e->address, e->address + (size ? size : 1),
                        (uint32_t)(r->waiting_count - 1));
    }
    e->deferred = true;
    last->events++;
    vs_table_put(&r->over, event, (uint32_t)(r->waiting_count - 1));
}

/* Says of the free just before that its block is not reusable yet. */
static void block_deferred(struct reading *r, const struct trace_row *row)
{
    size_t i = r->tape->n;
    while (i-- > 0 && r->tape->n - i <= RECENT) {
        struct tape_event *e = &r->tape->at[i];
        if (e->what != TAPE_FREE || e->address != (uint64_t)row->address)
            continue; /* another thread's event came between */
        if (tape_number(row) && !r->tape->imported) {
            waits_for(r, i, tape_number(row));
        } else {
            e->deferred = true;
            vs_table_put(&r->deferred, e->address, e->id);
            vs_table_put(&r->deferred_at, e->address, (uint32_t)r->waiting_count);
            *PUSH(r->waiting, r->waiting_count) = (struct waiting){i, r->free_seq[i % RECENT], 1};
        }
        return;
    }
}

static void end_wait(struct reading *r, struct waiting *w, int64_t seq)
{
    w->events = 0;
    *PUSH(r->tape->waits, r->tape->wait_count) = (struct tape_wait){w->seq, seq};
}

static void block_reusable(struct reading *r, const struct trace_row *row)
{
    struct tape_event e = event_of(r, row);
    uint32_t at = vs_table_remove(&r->deferred_at, e.address);
    if (at != VS_TABLE_NONE)
        end_wait(r, &r->waiting[at], row->seq);
    e.id = vs_table_remove(&r->deferred, e.address);
    e.what = TAPE_REUSABLE;
    if (e.id != VS_TABLE_NONE)
        push(r, e);
}

static void event_done(struct reading *r, const struct trace_row *row)
{
    struct tape_event e = event_of(r, row);
    uint32_t at = vs_table_remove(&r->over, e.address);
    struct waiting *w = at == VS_TABLE_NONE ? NULL : &r->waiting[at];
    if (!w || !w->events || --w->events)
        return;
    const struct tape_event *freed = &r->tape->at[w->free];
    vs_spans_remove(&r->unfinished, freed->address);
    end_wait(r, w, row->seq);
    e.what = TAPE_REUSABLE;
    e.address = freed->address;
    e.size = freed->size;
    e.id = freed->id;
    push(r, e);
}

/* Another stream uses a block, which waits for that when it is freed. */
static void block_shared(struct reading *r, const struct trace_row *row)
{
    uint32_t id = vs_table_get(&r->last, (uint64_t)row->address);
    if (id != VS_TABLE_NONE && !r->tape->blocks[id].freed)
        *PUSH(r->tape->shares, r->tape->share_count) = (struct tape_share){id, tape_number(row), row->stack};
}

static void block_oom(struct reading *r, const struct trace_row *row)
{
    struct tape_event e = event_of(r, row);
    bool unknown = !tape_number(row) && !r->tape->imported;
    e.what = TAPE_OOM;
    e.id = (uint32_t)r->tape->refusal_count;
    *PUSH(r->tape->refusals, r->tape->refusal_count) =
        (struct tape_refusal){row->seq, e.size, r->tape->limit, stack_of(row)};
    e.address = pool_of(r, row);
    e.rounded = unknown;
    e.stream = unknown ? 0 : stream_of(r, tape_number(row), e.address);
    push(r, e);
}

/* ---- the driver ---- */

/* A segment, or a piece of an expandable one. */
static void push_birth(struct reading *r, struct tape_event e, int64_t seq)
{
    *PUSH(r->tape->births, r->tape->birth_count) = (struct tape_birth){seq, r->tape->n};
    push(r, e);
}

/* Driver memory that a framework carves: told by what the file says of its birth, ended by its address. */
static void driver_memory(struct reading *r, const struct trace_row *row)
{
    struct tape_event e = event_of(r, row);
    int op = row->op;
    if (op > VS_OP_UNMAP)
        return;
    uint32_t piece;
    bool managed = tape_managed(row) != VS_NOT_MANAGED;
    e.stream = STREAM_UNKNOWN;
    e.library = tape_managed(row) == VS_UNKNOWN_USE;
    if (r->tape->imported)
        e.stream = op == VS_OP_ALLOC ? stream_of(r, tape_number(row), pool_of(r, row)) : 0;
    if (op == VS_OP_PHYS_CREATE && managed)
        vs_table_put(&r->created, (uint64_t)row->seq, 0);
    if (op == VS_OP_PHYS_CREATE || op == VS_OP_PHYS_RELEASE)
        return;
    e.what = op == VS_OP_ALLOC  ? TAPE_SEGMENT_ALLOC
             : op == VS_OP_FREE ? TAPE_SEGMENT_FREE
             : op == VS_OP_MAP  ? TAPE_MAP
                                : TAPE_UNMAP;
    if (op == VS_OP_ALLOC && managed) {
        vs_table_put(&r->pieces, e.address, r->tape->imported ? e.stream : 0);
        push_birth(r, e, row->seq);
    } else if (op == VS_OP_FREE && (piece = vs_table_remove(&r->pieces, e.address)) != VS_TABLE_NONE) {
        e.stream = r->tape->imported ? (uint16_t)piece : e.stream;
        push(r, e);
    } else if (op == VS_OP_MAP && vs_table_get(&r->created, (uint64_t)row->mate) != VS_TABLE_NONE) {
        vs_table_put(&r->pieces, e.address, 1);
        r->tape->expandable = true;
        push_birth(r, e, row->mate);
    } else if (op == VS_OP_UNMAP && vs_table_remove(&r->pieces, e.address) != VS_TABLE_NONE) {
        push(r, e);
    }
}

static void plain(struct reading *r, struct tape_event e, enum tape_what what)
{
    e.what = what;
    e.stream = 0;
    push(r, e);
}

static void note_refusal(struct reading *r, const struct trace_row *row)
{
    uint32_t before = vs_table_get(&r->refused, (uint64_t)row->thread);
    if (row->op == VS_OP_ALLOC || row->op == VS_OP_PHYS_CREATE)
        vs_table_put(&r->refused, (uint64_t)row->thread, before == VS_TABLE_NONE ? 1 : before + 1);
}

/* The request of ROW met the refusals that its thread met before it. */
static void push_refusals(struct reading *r, const struct trace_row *row)
{
    uint32_t n = vs_table_remove(&r->refused, (uint64_t)row->thread);
    for (uint32_t i = 0; n != VS_TABLE_NONE && i < n; i++)
        plain(r, event_of(r, row), TAPE_REFUSED);
}

/* ---- rows ---- */

static void read_row(struct reading *r, const struct trace_row *row)
{
    const struct tape_event e = event_of(r, row);
    if (row->status == OUT_OF_MEMORY) {
        note_refusal(r, row);
        return;
    }
    tape_held_row(&r->held, r->tape, row);
    switch (row->op) {
    case VS_OP_BLOCK_ALLOC:
        push_refusals(r, row);
        block_alloc(r, row);
        break;
    case VS_OP_BLOCK_FREE:
        block_free(r, row);
        break;
    case VS_OP_BLOCK_OOM:
        push_refusals(r, row);
        block_oom(r, row);
        break;
    case VS_OP_BLOCK_SHARED:
        block_shared(r, row);
        break;
    case VS_OP_BLOCK_DEFERRED:
        block_deferred(r, row);
        break;
    case VS_OP_BLOCK_REUSABLE:
        block_reusable(r, row);
        break;
    case VS_OP_EVENT_DONE:
        event_done(r, row);
        break;
    case VS_OP_VA_RESERVE:
        vs_spans_insert(&r->reserved, e.address, e.address + e.size, 0);
        break;
    case VS_OP_RECORD_START:
        if (r->tape->imported)
            r->tape->start = r->tape->n;
        break;
    case VS_OP_EMPTY_CACHE:
        plain(r, e, TAPE_EMPTY_CACHE);
        break;
    case VS_OP_MEMORY_LIMIT:
        r->tape->limit = e.size;
        plain(r, e, TAPE_LIMIT);
        break;
    case VS_OP_POOL_BEGIN:
        begin_scope(r, row);
        break;
    case VS_OP_POOL_END:
        end_scope(r, row);
        break;
    default:
        driver_memory(r, row);
    }
}

/* Steps that ended before event SEQ. */
static void end_steps(struct reading *r, int64_t seq)
{
    while (r->tape->step_count < r->step_count && r->steps[r->tape->step_count].seq < seq)
        *PUSH(r->tape->steps, r->tape->step_count) = r->tape->n;
}

/* Maps, reservations and CUDA events have no device of their own, the beginning of the trace has none. */
#define ANYWHERE                                                                                             \
    (EVENT(MAP) | EVENT(UNMAP) | EVENT(VA_RESERVE) | EVENT(EVENT_DONE) | EVENT(RECORD_START) |               \
     EVENT(EMPTY_CACHE))
#define WANTED                                                                                               \
    (ANYWHERE | EVENT(ALLOC) | EVENT(FREE) | EVENT(PHYS_CREATE) | EVENT(PHYS_RELEASE) |                      \
     EVENT(POOL_RESERVED) | EVENT(GRAPH_NODE) | EVENT(BLOCK_ALLOC) | EVENT(BLOCK_FREE) | EVENT(BLOCK_OOM) |  \
     EVENT(ARENA_RESERVED) | EVENT(BLOCK_DEFERRED) | EVENT(BLOCK_REUSABLE) | EVENT(MEMORY_LIMIT) |           \
     EVENT(POOL_BEGIN) | EVENT(POOL_END) | EVENT(BLOCK_SHARED) | EVENT(PHYS_FREED) | EVENT(FREE_MISSED) |    \
     EVENT(CONTEXT_FREED))

static bool take_row(void *reading, const struct trace_row *row)
{
    struct reading *r = reading;
    bool here = row->device == r->device || ANYWHERE >> row->op & 1;
    if (!here || row->taken_back || (row->status && row->status != OUT_OF_MEMORY))
        return true;
    end_steps(r, row->seq);
    if (tape_bytes(row) < SIZE_MOST && (uint64_t)row->address < ADDRESS_MOST) /* else damaged */
        read_row(r, row);
    return true;
}

static void forget(struct reading *r)
{
    struct vs_table *tables[] = {&r->last,    &r->deferred, &r->deferred_at, &r->pieces, &r->created,
                                 &r->streams, &r->named,    &r->over,        &r->refused};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        vs_table_free(tables[i]);
    tape_held_free(&r->held);
    vs_spans_free(&r->reserved);
    vs_spans_free(&r->unfinished);
    free(r->waiting);
    free(r->scopes);
    free(r->steps);
}

int tape_read(struct trace *t, int64_t device, int64_t seq, struct trace_tape *tape)
{
    *tape = (struct trace_tape){0};
    struct reading r = {.tape = tape,
                        .device = device,
                        .phases = t->phase_name_count < UINT16_MAX ? t->phase_name_count : UINT16_MAX};
    tape_read_settings(t, tape);
    if (tape->imported) /* number 0: what an import does not say of maps */
        stream_of(&r, 0, 0);
    const struct trace_part part = {UNKNOWN, 0, seq, WANTED};
    int result = asked_read(t, &tape->made_for) || trace_step_ends(t, &r.steps, &r.step_count) ||
                 trace_rows(t, &part, take_row, &r);
    if (seq == INT64_MAX)
        end_steps(&r, seq);
    for (size_t i = 0; i < r.waiting_count; i++)
        if (r.waiting[i].events)
            end_wait(&r, &r.waiting[i], INT64_MAX);
    if (tape->imported && tape->expandable)
        tape_find_pieces(tape);
    tape->streams_known = tape->imported || tape->arena || tape_find_streams(tape, &r.reserved);
    for (size_t i = 0; i < tape->n && tape->arena; i++)
        if (tape->at[i].stream == STREAM_UNKNOWN)
            tape->at[i].stream = 0;
    forget(&r);
    if (result)
        tape_free(tape);
    return result ? -1 : 0;
}

void tape_free(struct trace_tape *tape)
{
    free(tape->at);
    free(tape->private_pool);
    free(tape->stream);
    free(tape->births);
    free(tape->waits);
    free(tape->blocks);
    free(tape->refusals);
    free(tape->steps);
    free(tape->scopes);
    free(tape->shares);
    free(tape->nodes);
    free(tape->beside);
    asked_free(&tape->made_for);
    *tape = (struct trace_tape){0};
}
