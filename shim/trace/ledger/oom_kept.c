/*
 * oom_kept.c - the out-of-memories that are kept, and what lived then.
 *
 * Of those that reached the program three are kept per device: the first, the last, and the one with the
 * largest request; of refusals that are still open (oom.c) two of each thread.  What lived then is kept as
 * for peaks (entries.c), so a program that runs out of memory in a loop pays nothing for it, here or in the
 * database.
 */
#include "internal.h"

size_t vs_oom_find(const struct vs_ledger *l, uint8_t role, int key)
{
    for (size_t i = 0; i < l->oom.at.n; i++) {
        const struct vs_oom_row *row = &l->oom.at.at[i].row;
        if (row->roles == role && (role & VS_OOM_OPEN_ROLES ? row->thread : row->device) == key)
            return i;
    }
    return VS_OOM_NONE;
}

size_t vs_oom_put(struct vs_ledger *l, uint8_t role, const struct vs_oom_row *row)
{
    uint64_t failed = 0;
    size_t i = vs_oom_find(l, role, role & VS_OOM_OPEN_ROLES ? row->thread : row->device);
    for (size_t k = 0; i == VS_OOM_NONE && k < l->oom.at.n; k++)
        i = l->oom.at.at[k].row.roles ? VS_OOM_NONE : k;
    if (i == VS_OOM_NONE) {
        i = l->oom.at.n;
        vs_list_push(&l->oom.at, failed, (struct oom){0});
    }
    if (failed) {
        vs_count(l, row->device, VS_COUNT_NO_MEMORY);
        return VS_OOM_NONE;
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
    size_t to = vs_oom_put(l, role, &row);
    if (to == VS_OOM_NONE)
        return;
    const struct oom *source = &l->oom.at.at[from];
    struct oom *o = &l->oom.at.at[to];
    uint64_t failed = 0;
    for (size_t i = 0; i < source->gone.n; i++)
        vs_list_push(&o->gone, failed, source->gone.at[i]);
    if (failed)
        vs_count(l, row.device, VS_COUNT_NO_MEMORY);
}

/* Of equal requests the first in the file is the largest, so that the order in which threads let their
 * refusals be known does not decide. */
void vs_oom_reached(struct vs_ledger *l, size_t first, size_t last)
{
    const struct vs_oom_row row = l->oom.at.at[last].row;
    size_t old = vs_oom_find(l, VS_OOM_FIRST, row.device);
    if (old == VS_OOM_NONE || l->oom.at.at[old].row.seq > l->oom.at.at[first].row.seq)
        keep(l, VS_OOM_FIRST, first);
    old = vs_oom_find(l, VS_OOM_LARGEST, row.device);
    const struct vs_oom_row *largest = old == VS_OOM_NONE ? NULL : &l->oom.at.at[old].row;
    if (!largest || largest->requested < row.requested ||
        (largest->requested == row.requested && largest->seq > row.seq))
        keep(l, VS_OOM_LARGEST, last);
    old = vs_oom_find(l, VS_OOM_LAST, row.device);
    if (old == VS_OOM_NONE || l->oom.at.at[old].row.seq < row.seq)
        keep(l, VS_OOM_LAST, last);
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
        if (row->roles & role && vs_oom_put(l, role, row) != VS_OOM_NONE && role == VS_OOM_OPEN_LAST)
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
    size_t last = row->what == VS_RESUME_RETRY ? vs_oom_find(l, VS_OOM_OPEN_LAST, (int)row->id) : VS_OOM_NONE;
    if (last == VS_OOM_NONE)
        return;
    l->oom.at.at[last].retry_seq = row->value[0];
    l->oom.at.at[last].retry_address = row->value[1];
}
