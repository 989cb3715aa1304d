/*
 * oom.c - what lived when memory ran out, and whether the program noticed the failure.
 *
 * A framework's own report (BLOCK_OOM) always reached the program.  A refusal by the driver may not:
 * PyTorch's allocator gives back what it caches, repeats the request, and only then gives up.  It reports
 * nothing meanwhile, so the next event of its thread decides:
 *
 *      refused ... the same request granted, and its next block lies in that     absorbed
 *      refused ... BLOCK_OOM                                                     reported by the framework
 *      refused ... another request, a block elsewhere, a range, a step, the end  reached the program
 *
 * Until then the refusal is open.  Of several in a row the first and the last are kept.
 *
 * Of those that reached the program three are kept per device: the first, the last, and the one with the
 * largest request.  The set of allocations that lived then is never copied: it is those that live now and
 * are as old, plus those that ended since (`gone`, as for peaks in entries.c).  So a program that runs out
 * of memory in a loop pays nothing for it, here or in the database.
 */
#include "internal.h"

#define NONE          SIZE_MAX
#define OPEN_MAX      8 /* threads; one more closes the oldest */
#define OPEN_ROLES    (VS_OOM_OPEN_FIRST | VS_OOM_OPEN_LAST)
#define OUT_OF_MEMORY 2 /* CUDA_ERROR_OUT_OF_MEMORY */

/* ---- the kept ones ---- */

/* Open roles belong to a thread, the others to a device. */
static size_t find(const struct vs_ledger *l, uint8_t role, int key)
{
    for (size_t i = 0; i < l->oom.at.n; i++) {
        const struct vs_oom_row *row = &l->oom.at.at[i].row;
        if (row->roles == role && (role & OPEN_ROLES ? row->thread : row->device) == key)
            return i;
    }
    return NONE;
}

/* Puts ROW into ROLE, with an empty list `gone`. */
static size_t put(struct vs_ledger *l, uint8_t role, const struct vs_oom_row *row)
{
    uint64_t failed = 0;
    size_t i = find(l, role, role & OPEN_ROLES ? row->thread : row->device);
    for (size_t k = 0; i == NONE && k < l->oom.at.n; k++)
        i = l->oom.at.at[k].row.roles ? NONE : k;
    if (i == NONE) {
        i = l->oom.at.n;
        vs_list_push(&l->oom.at, failed, (struct oom){0});
    }
    if (failed) {
        vs_count(l, row->device, VS_COUNT_NO_MEMORY);
        return NONE;
    }
    struct oom *o = &l->oom.at.at[i];
    o->row = *row;
    o->row.roles = role;
    o->gone.n = 0;
    o->retry_seq = 0;
    l->oom.version++;
    return i;
}

/* Copies FROM and its list `gone` into ROLE. */
static void keep(struct vs_ledger *l, uint8_t role, size_t from)
{
    struct vs_oom_row row = l->oom.at.at[from].row;
    size_t to = put(l, role, &row);
    if (to == NONE)
        return;
    const struct oom *source = &l->oom.at.at[from];
    struct oom *o = &l->oom.at.at[to];
    uint64_t failed = 0;
    for (size_t i = 0; i < source->gone.n; i++)
        vs_list_push(&o->gone, failed, source->gone.at[i]);
    if (failed)
        vs_count(l, row.device, VS_COUNT_NO_MEMORY);
}

/* FIRST and LAST, of a row of refusals (or the same one twice), reached the program.  Of equal requests the
 * first in the file is the largest, so that the order in which threads let their refusals be known does not
 * decide. */
static void reached(struct vs_ledger *l, size_t first, size_t last)
{
    const struct vs_oom_row row = l->oom.at.at[last].row;
    size_t old = find(l, VS_OOM_FIRST, row.device);
    if (old == NONE || l->oom.at.at[old].row.seq > l->oom.at.at[first].row.seq)
        keep(l, VS_OOM_FIRST, first);
    old = find(l, VS_OOM_LARGEST, row.device);
    const struct vs_oom_row *largest = old == NONE ? NULL : &l->oom.at.at[old].row;
    if (!largest || largest->requested < row.requested ||
        (largest->requested == row.requested && largest->seq > row.seq))
        keep(l, VS_OOM_LARGEST, last);
    old = find(l, VS_OOM_LAST, row.device);
    if (old == NONE || l->oom.at.at[old].row.seq < row.seq)
        keep(l, VS_OOM_LAST, last);
}

static void close_open(struct vs_ledger *l, size_t first, size_t last)
{
    if (first != NONE)
        l->oom.at.at[first].row.roles = 0;
    l->oom.at.at[last].row.roles = 0;
    l->oom.open--;
    l->oom.version++;
}

static void decide_reached(struct vs_ledger *l, size_t last)
{
    size_t first = find(l, VS_OOM_OPEN_FIRST, l->oom.at.at[last].row.thread);
    reached(l, first == NONE ? last : first, last);
    close_open(l, first, last);
}

/* The framework got the memory after all (WHAT = absorbed), or reported the failure itself (reported). */
static void decide_inner(struct vs_ledger *l, size_t last, enum vs_count what)
{
    const struct vs_oom_row *row = &l->oom.at.at[last].row;
    for (uint64_t i = 0; i < row->refusals; i++)
        vs_count(l, row->device, what);
    close_open(l, find(l, VS_OOM_OPEN_FIRST, row->thread), last);
}

static void decide_oldest(struct vs_ledger *l)
{
    size_t oldest = NONE;
    for (size_t i = 0; i < l->oom.at.n; i++) {
        const struct vs_oom_row *row = &l->oom.at.at[i].row;
        if (row->roles == VS_OOM_OPEN_LAST && (oldest == NONE || row->seq < l->oom.at.at[oldest].row.seq))
            oldest = i;
    }
    if (oldest != NONE)
        decide_reached(l, oldest);
}

void vs_oom_finish(struct vs_ledger *l)
{
    while (l->oom.open)
        decide_oldest(l);
}

/* ---- what happens ---- */

/* Contexts, modules, limits and launches take memory too, but their calls have no size to compare. */
static bool names_bytes(const struct vs_event *e)
{
    return e->op < VS_OP_CONTEXT_CREATE || e->op == VS_OP_BLOCK_OOM;
}

/* The state of the device after event E, whose row is the last one. */
static struct vs_oom_row row_of(struct vs_ledger *l, const struct vs_event *e)
{
    const struct device *d = vs_device(l, e->device);
    const struct last_sample *last = l->oom.last_sample[vs_device_index(e->device)];
    return (struct vs_oom_row){
        .seq = l->seq,
        .requested = names_bytes(e) ? e->size : 0,
        .framework = d->curve[VS_CURVE_FRAMEWORK].now,
        .direct = d->curve[VS_CURVE_DIRECT].now,
        .managed = d->curve[VS_CURVE_MANAGED].now,
        .reserved = d->curve[VS_CURVE_RESERVED].now,
        .unknown_use = d->curve[VS_CURVE_UNKNOWN_USE].now,
        .base = d->base,
        .pinned = l->space[VS_SPACE_PINNED].now,
        .registered = l->space[VS_SPACE_REGISTERED].now,
        .step = l->step + 1,
        .free_bytes = VS_BYTES_UNKNOWN,
        .reserved_then = VS_BYTES_UNKNOWN,
        .process_used = last[0].t ? last[0].used : VS_BYTES_UNKNOWN,
        .device_used = last[1].t ? last[1].used : VS_BYTES_UNKNOWN,
        .t = (int64_t)e->t_ns - l->config.start_ns,
        .process_used_t = last[0].t,
        .device_used_t = last[1].t,
        .phase = vs_event_phase(l, e),
        .range = e->range,
        .stack = e->stack,
        .tensor = e->op == VS_OP_BLOCK_OOM ? vs_event_tensor(e) : 0,
        .api = vs_has_api(e->op) ? (uint16_t)e->arg1 : 0,
        .thread = e->thread,
        .op = e->op,
        .space = e->space,
        .context = e->context,
        .device = e->device,
    };
}

/* Frees carry no result; a free that failed has an event of its own. */
static bool is_refusal(const struct vs_event *e)
{
    bool asks = e->op < VS_OP_BLOCK_ALLOC || e->op == VS_OP_LIMIT || e->op == VS_OP_OVERHEAD;
    return e->status == OUT_OF_MEMORY && asks && e->op != VS_OP_FREE_FAILED;
}

/* The arena requests what it lacks from the driver, and may itself serve what the driver refused before. */
static bool same_space(uint8_t a, uint8_t b)
{
    return a == b || a == VS_SPACE_ARENA || b == VS_SPACE_ARENA;
}

static bool same_request(const struct vs_oom_row *row, const struct vs_event *e)
{
    return row->op == e->op && row->api == (vs_has_api(e->op) ? (uint16_t)e->arg1 : 0) &&
           row->requested == (names_bytes(e) ? e->size : 0) && same_space(row->space, e->space) &&
           row->device == e->device;
}

static void open_new(struct vs_ledger *l, const struct vs_oom_row *row)
{
    if (l->oom.open >= OPEN_MAX)
        decide_oldest(l);
    if (put(l, VS_OOM_OPEN_LAST, row) == NONE)
        return;
    put(l, VS_OOM_OPEN_FIRST, row);
    l->oom.open++;
}

static void refused(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_oom_row row = row_of(l, e);
    size_t last = find(l, VS_OOM_OPEN_LAST, e->thread);
    row.asked_driver = row.requested;
    row.refusals = 1;
    vs_count(l, e->device, VS_COUNT_REFUSED);
    if (last != NONE && same_request(&l->oom.at.at[last].row, e)) {
        row.refusals += l->oom.at.at[last].row.refusals;
        put(l, VS_OOM_OPEN_LAST, &row);
        return;
    }
    if (last != NONE)
        decide_reached(l, last);
    open_new(l, &row);
}

/* Whether the refusals before REPORT were the framework's own: it requests at least as much as it needs or,
 * for expandable segments, piece by piece. */
static bool reports(const struct vs_oom_row *refused, const struct vs_oom_row *report)
{
    return refused->device == report->device &&
           (refused->op == VS_OP_PHYS_CREATE || refused->asked_driver >= report->requested);
}

/* Copies the driver's figures at the refusal, all of one moment. */
static void take_figures(struct vs_oom_row *row, const struct vs_oom_row *refused)
{
    row->free_bytes = refused->free_bytes;
    row->free_t = refused->free_t;
    row->reserved_then = refused->reserved_then;
    if (refused->free_bytes == VS_BYTES_UNKNOWN)
        return;
    row->process_used = refused->process_used;
    row->process_used_t = refused->process_used_t;
    row->device_used = refused->device_used;
    row->device_used_t = refused->device_used_t;
}

static void gave_up(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_oom_row row = row_of(l, e);
    size_t last = find(l, VS_OOM_OPEN_LAST, e->thread);
    if (last != NONE && reports(&l->oom.at.at[last].row, &row)) {
        const struct vs_oom_row *refused = &l->oom.at.at[last].row;
        row.refusals = refused->refusals;
        row.asked_driver = refused->asked_driver;
        take_figures(&row, refused);
        if (!row.stack)
            row.stack = refused->stack;
        decide_inner(l, last, VS_COUNT_REFUSED_REPORTED);
    } else if (last != NONE) {
        decide_reached(l, last);
    }
    size_t at = put(l, VS_OOM_LAST, &row);
    if (at != NONE)
        reached(l, at, at);
}

/* The refused request was repeated on its thread and granted: to the framework, or to a caller not known
 * yet. */
static void granted(struct vs_ledger *l, size_t last, const struct vs_event *e, enum verdict verdict)
{
    struct oom *o = &l->oom.at.at[last];
    bool same = same_request(&o->row, e);
    bool whole = e->op != VS_OP_PHYS_CREATE; /* else a piece: the next one may be refused again */
    if (same && whole && verdict == VERDICT_MANAGED)
        decide_inner(l, last, VS_COUNT_REFUSED_ABSORBED);
    else if (!same)
        decide_reached(l, last);
    else {
        o->retry_seq = l->seq;
        o->retry_address = e->address;
    }
}

/* A block of the thread: does it lie in memory that was granted on the second request?  Then that memory is
 * the framework's. */
static void block_elsewhere(struct vs_ledger *l, size_t last)
{
    const struct oom *o = &l->oom.at.at[last];
    uint32_t index = VS_TABLE_NONE;
    if (o->retry_seq)
        index = o->row.op == VS_OP_PHYS_CREATE ? vs_table_get(&l->phys_seq, o->retry_seq)
                                               : vs_table_get(&l->allocs, o->retry_address);
    if (index != VS_TABLE_NONE && l->entries.at[index].a.seq == o->retry_seq &&
        l->entries.at[index].a.managed)
        decide_inner(l, last, VS_COUNT_REFUSED_ABSORBED);
    else
        decide_reached(l, last);
}

static void watch(struct vs_ledger *l, const struct vs_event *e, enum verdict verdict)
{
    size_t last = find(l, VS_OOM_OPEN_LAST, e->thread);
    if (last == NONE)
        return;
    switch (e->op) {
    case VS_OP_ALLOC:
    case VS_OP_PHYS_CREATE:
        if (e->status == 0)
            granted(l, last, e, verdict);
        break;
    case VS_OP_BLOCK_ALLOC:
        block_elsewhere(l, last);
        break;
    case VS_OP_RANGE_PUSH ... VS_OP_STEP:
        decide_reached(l, last);
        break;
    default:
        break;
    }
}

void vs_oom_event(struct vs_ledger *l, const struct vs_event *e, enum verdict verdict)
{
    if (l->restoring)
        return;
    if (is_refusal(e))
        refused(l, e);
    else if (e->op == VS_OP_BLOCK_OOM)
        gave_up(l, e);
    else if (l->oom.open)
        watch(l, e, verdict);
}

/* ---- what the driver says ---- */

static void say(struct vs_ledger *l, int device, uint64_t source, uint64_t used, int64_t t)
{
    if (source >= VS_SAMPLE_NVML_PROCESS && source <= VS_SAMPLE_OOM)
        l->oom.last_sample[vs_device_index(device)][source != VS_SAMPLE_NVML_PROCESS] =
            (struct last_sample){used, t};
}

/* The driver's free bytes, as the refused thread queried them: the first answer belongs to the refusal. */
static void note_free_bytes(struct vs_ledger *l, struct vs_oom_row *row, const struct vs_event *e, int64_t t)
{
    if (row->free_bytes != VS_BYTES_UNKNOWN)
        return;
    row->free_bytes = e->address;
    row->device_used = e->size;
    row->reserved_then = vs_device(l, e->device)->curve[VS_CURVE_RESERVED].now;
    row->free_t = row->device_used_t = t;
    l->oom.version++;
}

static void note_process_use(struct vs_ledger *l, struct vs_oom_row *row, const struct vs_event *e, int64_t t)
{
    if (row->free_bytes == VS_BYTES_UNKNOWN || (row->process_used_t >= row->free_t && row->process_used_t))
        return;
    row->process_used = e->size;
    row->process_used_t = t;
    l->oom.version++;
}

void vs_oom_sample(struct vs_ledger *l, const struct vs_event *e, int64_t t)
{
    bool to_refused = e->arg0 == VS_SAMPLE_OOM || e->arg0 == VS_SAMPLE_OOM_PROCESS;
    if (l->restoring)
        return;
    say(l, e->device, e->arg0, e->size, t);
    for (size_t i = 0; to_refused && i < l->oom.at.n; i++) {
        struct vs_oom_row *row = &l->oom.at.at[i].row;
        if (!(row->roles & OPEN_ROLES) || row->thread != e->thread || row->device != e->device)
            continue;
        (e->arg0 == VS_SAMPLE_OOM ? note_free_bytes : note_process_use)(l, row, e, t);
    }
}

/* ---- what lived then ---- */

/* Where host memory ran out, everything that belongs to no device counts. */
static bool belongs(const struct vs_oom_row *row, const struct vs_alloc *a)
{
    int index = vs_device_index(row->device);
    return a->since <= row->seq && vs_device_index(a->device) == index && (!index || vs_in_allocated(a));
}

void vs_oom_remember(struct vs_ledger *l, const struct vs_alloc *a)
{
    uint64_t failed = 0;
    for (size_t i = 0; i < l->oom.at.n; i++) {
        struct oom *o = &l->oom.at.at[i];
        if (o->row.roles && l->seq > o->row.seq && belongs(&o->row, a))
            vs_list_push(&o->gone, failed, *a);
    }
    if (failed)
        vs_count(l, a->device, VS_COUNT_NO_MEMORY);
}

void vs_oom_free(struct vs_ledger *l)
{
    for (size_t i = 0; i < l->oom.at.n; i++)
        free(l->oom.at.at[i].gone.at);
    free(l->oom.at.at);
}

/* ---- for the store ---- */

static size_t with_seq(const struct vs_oom_row *rows, size_t n, uint64_t seq)
{
    size_t i = 0;
    while (i < n && rows[i].seq != seq)
        i++;
    return i;
}

size_t vs_ledger_ooms(const struct vs_ledger *l, struct vs_oom_row *out, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < l->oom.at.n; i++) {
        const struct vs_oom_row *row = &l->oom.at.at[i].row;
        size_t at = row->roles ? with_seq(out, n, row->seq) : max;
        if (at < n)
            out[at].roles |= row->roles;
        else if (at < max)
            out[n++] = *row;
    }
    return n;
}

size_t vs_ledger_oom_seqs(const struct vs_ledger *l, uint64_t *out, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < l->oom.at.n && n < max; i++)
        if (l->oom.at.at[i].row.roles)
            out[n++] = l->oom.at.at[i].row.seq;
    return n;
}

uint64_t vs_ledger_ooms_version(const struct vs_ledger *l)
{
    return l->oom.version;
}

void vs_ledger_each_at_oom(const struct vs_ledger *l, uint64_t seq,
                           void (*each)(void *context, const struct vs_alloc *a), void *context)
{
    const struct oom *o = NULL;
    for (size_t i = 0; !o && i < l->oom.at.n; i++)
        if (l->oom.at.at[i].row.roles && l->oom.at.at[i].row.seq == seq)
            o = &l->oom.at.at[i];
    if (!o)
        return;
    for (size_t i = 0; i < l->entries.n; i++)
        if (l->entries.at[i].a.op && belongs(&o->row, &l->entries.at[i].a))
            each(context, &l->entries.at[i].a);
    for (size_t i = 0; i < o->gone.n; i++)
        each(context, &o->gone.at[i]);
    if (o->row.base)
        each(context, &(struct vs_alloc){.size = o->row.base, .device = (int8_t)o->row.device});
}

/* ---- continuing a database ---- */

void vs_ledger_restore_oom(struct vs_ledger *l, const struct vs_oom_row *row)
{
    for (uint8_t role = VS_OOM_FIRST; role <= VS_OOM_OPEN_LAST; role = (uint8_t)(role << 1))
        if (row->roles & role && put(l, role, row) != NONE && role == VS_OOM_OPEN_LAST)
            l->oom.open++;
    l->oom.version = 0;
}

static void restore_gone(struct vs_ledger *l, struct oom *o, const struct vs_alloc *a)
{
    uint64_t failed = 0;
    if (!o->restored)
        o->gone.n = 0; /* the replay found some of them */
    o->restored = true;
    if (a->op && !vs_restored_lives(l, a, o->row.seq))
        vs_list_push(&o->gone, failed, *a);
}

/* One row of oom_live, which has the whole set. */
void vs_ledger_restore_at_oom(struct vs_ledger *l, uint64_t oom_seq, const struct vs_alloc *a)
{
    for (size_t i = 0; i < l->oom.at.n; i++)
        if (l->oom.at.at[i].row.roles && l->oom.at.at[i].row.seq == oom_seq)
            restore_gone(l, &l->oom.at.at[i], a);
}

void vs_oom_each_resume(const struct vs_ledger *l,
                        void (*each)(void *context, const struct vs_resume_row *row), void *context)
{
    for (size_t i = 0; i < l->oom.at.n; i++) {
        const struct oom *o = &l->oom.at.at[i];
        if (o->row.roles == VS_OOM_OPEN_LAST && o->retry_seq)
            each(context,
                 &(struct vs_resume_row){VS_RESUME_RETRY, o->row.thread, {o->retry_seq, o->retry_address}});
    }
}

void vs_oom_restore_resume(struct vs_ledger *l, const struct vs_resume_row *row)
{
    if (row->what == VS_RESUME_LAST_SAMPLE && row->id >> 1 < VS_LEDGER_DEVICES) {
        vs_device(l, (int)(row->id >> 1) - 1); /* marks the device as in use, as it was */
        l->oom.last_sample[row->id >> 1][row->id & 1] =
            (struct last_sample){row->value[0], (int64_t)row->value[1]};
        return;
    }
    size_t last = row->what == VS_RESUME_RETRY ? find(l, VS_OOM_OPEN_LAST, (int)row->id) : NONE;
    if (last == NONE)
        return;
    l->oom.at.at[last].retry_seq = row->value[0];
    l->oom.at.at[last].retry_address = row->value[1];
}
