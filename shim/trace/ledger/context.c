/*
 * context.c - contexts, modules and limits, and everything that ends with a context.
 *
 * A living context, module or library is an object: the row that ends it names the row that made it (mate)
 * and repeats its cost, which is in no total.
 *
 * After a context's end a row CONTEXT_FREED stands for each of its allocations and modules.  By
 * cuCtxDestroy's documentation these are what cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged and
 * cuMemAllocHost gave while it was current, arrays, external memory and modules; the arena's blocks are
 * treated alike.  Physical VMM memory, mappings and reservations belong to no context, and a framework's
 * blocks end when the framework reports it.
 */
#include "internal.h"

static bool makes(uint8_t op)
{
    return op == VS_OP_CONTEXT_CREATE || op == VS_OP_MODULE_LOAD;
}

/* ---- objects ---- */

static size_t find(const struct vs_ledger *l, uint8_t made_by, uint64_t handle)
{
    size_t i = 0;
    while (i < l->objects.n && (l->objects.at[i].handle != handle || l->objects.at[i].op != made_by))
        i++;
    return i;
}

static void forget(struct vs_ledger *l, size_t i)
{
    l->objects.at[i] = l->objects.at[--l->objects.n];
}

static void keep(struct vs_ledger *l, const struct vs_row *r)
{
    uint64_t failed = 0;
    size_t old = find(l, r->op, r->address);
    if (old < l->objects.n)
        forget(l, old);
    vs_list_push(&l->objects, failed,
                 (struct object){r->address, r->seq, r->size, r->op, r->context, r->device});
    if (failed)
        vs_count(l, r->device, VS_COUNT_NO_MEMORY);
}

static struct entry as_entry(const struct object *o)
{
    return (struct entry){
        .a = {.seq = o->seq, .address = o->handle, .size = o->size, .device = o->device, .op = o->op},
        .context = o->context};
}

/* ---- the end of a context ---- */

/* Which allocations end: those of a context, or of a device's pools or graphs (space). */
struct ending {
    uint8_t context;
    int device;
    uint8_t space; /* POOL or GRAPH; NONE: all that the context owned */
};

static bool of_device(uint8_t space)
{
    return space == VS_SPACE_POOL || space == VS_SPACE_GRAPH;
}

static bool goes(const struct entry *e, const struct ending *end)
{
    if (e->a.op != VS_OP_ALLOC)
        return false;
    if (end->space != VS_SPACE_NONE)
        return e->a.space == end->space && e->a.device == end->device;
    return !of_device(e->a.space) && end->context != 0 && end->context != VS_CONTEXT_UNKNOWN &&
           e->context == end->context;
}

struct doomed {
    uint64_t seq;
    uint32_t index;
};

static int by_seq(const void *a, const void *b)
{
    const struct doomed *x = a, *y = b;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* In the order of their births: the order of the entries depends on how a continued ledger was restored. */
static void end_allocations(struct vs_ledger *l, const struct vs_event *e, struct undo *u,
                            const struct ending *end)
{
    VS_LIST(struct doomed, list) = {0};
    for (size_t i = 0; i < l->entries.n; i++)
        if (goes(&l->entries.at[i], end))
            vs_list_push(&list, l->out->no_memory, (struct doomed){l->entries.at[i].a.seq, (uint32_t)i});
    if (list.n)
        qsort(list.at, list.n, sizeof *list.at, by_seq);
    for (size_t i = 0; i < list.n; i++) {
        uint32_t index = list.at[i].index;
        struct entry entry = l->entries.at[index];
        vs_alloc_drop(l, index);
        vs_emit_end(l, e, VS_OP_CONTEXT_FREED, index);
        if (u)
            vs_undo_ended(l, u, &entry, l->seq);
        if (entry.a.space == VS_SPACE_ARRAY)
            vs_bind_object_gone(l, e, u, entry.a.address);
    }
    free(list.at);
}

static void end_modules(struct vs_ledger *l, const struct vs_event *e, struct undo *u, uint8_t context)
{
    for (size_t i = l->objects.n; i-- > 0;) {
        struct entry entry = as_entry(&l->objects.at[i]);
        if (entry.a.op != VS_OP_MODULE_LOAD || context == 0 || entry.context != context)
            continue;
        struct vs_event end = *e;
        end.op = VS_OP_CONTEXT_FREED;
        end.address = entry.a.address;
        end.size = entry.a.size;
        end.device = entry.a.device;
        end.stack = 0;
        struct vs_row r;
        forget(l, i);
        vs_row_begin(l, &r, &end);
        r.mate = entry.a.seq;
        vs_row_end(l, &r);
        vs_undo_ended(l, u, &entry, r.seq);
    }
}

static void doubt(struct vs_ledger *l, int device, bool whether)
{
    if (device >= 0)
        vs_device(l, device)->pools_in_doubt = vs_device(l, device)->graphs_in_doubt = whether;
}

static void end_context(struct vs_ledger *l, const struct vs_event *e, struct undo *u)
{
    struct ending end = {.context = e->context, .space = VS_SPACE_NONE};
    end_modules(l, e, u, e->context == VS_CONTEXT_UNKNOWN ? 0 : e->context);
    end_allocations(l, e, u, &end);
    if (e->arg0 == VS_CONTEXT_PRIMARY)
        doubt(l, e->device, true);
}

/* Pools' and graphs' memory belongs to the device.  Whether it ends with the primary context depends on the
 * driver (on an H200 with driver 580, a cuDevicePrimaryCtxReset left both, 32 MiB each, in the process's
 * figure).  So the hook queries right after how much they have reserved, and a figure of 0 ends them. */
void vs_context_reserve_reported(struct vs_ledger *l, const struct vs_event *e, int device, uint64_t before)
{
    struct device *d = vs_device(l, device);
    bool graph = e->space == VS_SPACE_GRAPH, *in_doubt = graph ? &d->graphs_in_doubt : &d->pools_in_doubt;
    struct ending end = {.device = device, .space = graph ? VS_SPACE_GRAPH : VS_SPACE_POOL};
    if (*in_doubt && before != 0 && e->size == 0)
        end_allocations(l, e, NULL, &end);
    *in_doubt = false;
}

/* ---- events ---- */

static void apply_end(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    uint8_t made_by = e->op == VS_OP_CONTEXT_DESTROY ? VS_OP_CONTEXT_CREATE : VS_OP_MODULE_LOAD;
    size_t i = find(l, made_by, e->address);
    struct entry entry = {.a = {.op = 0}};
    vs_row_begin(l, &r, e);
    r.status = 0;
    r.size = 0;
    if (i < l->objects.n) {
        entry = as_entry(&l->objects.at[i]);
        r.mate = entry.a.seq;
        r.size = entry.a.size;
        r.device = entry.a.device;
        forget(l, i);
    }
    vs_row_end(l, &r);
    struct undo *u = vs_undo_add(l, &r, e->address);
    if (entry.a.op)
        vs_undo_ended(l, u, &entry, 0);
    if (e->op == VS_OP_CONTEXT_DESTROY)
        end_context(l, e, u);
}

void vs_apply_object(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    if (!makes(e->op)) {
        apply_end(l, e);
        return;
    }
    vs_row_begin(l, &r, e);
    if (e->status == 0)
        keep(l, &r);
    vs_row_end(l, &r);
}

/* The driver's figure moved by `size`, in two's complement: a row has its magnitude, and mate 1 where it
 * fell. */
void vs_apply_moved(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    if (e->size != VS_BYTES_UNKNOWN && (int64_t)e->size < 0) {
        r.size = (uint64_t)0 - e->size;
        r.mate = 1;
    }
    vs_row_end(l, &r);
}

/* ---- an end that failed ---- */

static void revive(struct vs_ledger *l, const struct ended *ended, const struct vs_row *r)
{
    const struct vs_alloc *a = &ended->entry.a;
    uint64_t failed = 0;
    if (makes(a->op))
        vs_list_push(&l->objects, failed,
                     (struct object){a->address, a->seq, a->size, a->op, ended->entry.context, a->device});
    else if (a->op == VS_OP_ALLOC)
        vs_alloc_restore_ended(l, &ended->entry, r->seq, r->t);
    if (failed)
        vs_count(l, a->device, VS_COUNT_NO_MEMORY);
}

void vs_context_undo(struct vs_ledger *l, struct undo *u, const struct vs_row *r)
{
    for (size_t i = 0; i < u->n_ended; i++)
        revive(l, &u->ended[i], r);
    doubt(l, r->device, false);
}
