/*
 * fold_rows.c - deletes the rows of `ev` that a folded stretch no longer needs.
 *
 * Pairs are deleted together: an allocation and its free, a mapping and its unmap.  What still lives keeps
 * its row until its end is folded, with other rows about it, and so do the last figures of pools and arena.
 * So a replay of the rows that are left gives the living allocations (ledger/restore.c).
 *
 *      stretch 1 (folded)   stretch 2 (in full)   stretch 3, being folded
 *      A alloc              B alloc               free A: goes, and A with it
 *                                                 free B: stays as long as B is in full
 *                                                 C alloc, free C: both go
 *                                                 D alloc: stays
 *
 * Driver memory that lived at an out-of-memory which the file describes is kept, with its end: these rows
 * show where the free extents lay then.
 */
#include "fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum column { SEQ, OP, DEVICE, KIND, ADDRESS, SIZE, RANGE, MATE };

struct fold_row {
    uint64_t seq, address, size, mate;
    uint32_t range;
    uint16_t status;
    uint8_t op, space;
    int8_t device;
};

static struct fold_row row_of(const struct vs_store *s, sqlite3_stmt *q)
{
    const struct vs_kind *k = vs_kind_at(s, sqlite3_column_int64(q, KIND));
    return (struct fold_row){.seq = (uint64_t)sqlite3_column_int64(q, SEQ),
                             .op = (uint8_t)sqlite3_column_int(q, OP),
                             .device = (int8_t)sqlite3_column_int(q, DEVICE),
                             .address = vs_from_x512(sqlite3_column_int64(q, ADDRESS)),
                             .size = vs_from_x512(sqlite3_column_int64(q, SIZE)),
                             .range = (uint32_t)sqlite3_column_int64(q, RANGE),
                             .mate = (uint64_t)sqlite3_column_int64(q, MATE),
                             .status = k ? k->status : 0,
                             .space = k ? (uint8_t)k->space : 0};
}

/* ---- rows to delete ---- */

static uint64_t push(struct vs_fold *f, uint64_t seq)
{
    uint64_t failed = 0;
    vs_list_push(&f->gone, failed, seq);
    return failed;
}

/* Deletes a row of this stretch, or one that was kept of an older stretch. */
static uint64_t drop(struct vs_fold *f, uint64_t seq)
{
    if (seq < f->first)
        return push(f, seq);
    if (seq - f->first < f->keep.n)
        f->keep.at[seq - f->first] = 0;
    return 0;
}

/* ---- rows to keep ---- */

/* The new node + 1; 0: no memory. */
static uint32_t new_node(struct vs_fold *f, uint64_t seq, uint32_t next)
{
    uint64_t failed = 0;
    uint32_t node = f->vacant;
    if (node) {
        f->vacant = f->nodes.at[node - 1].next;
        f->nodes.at[node - 1] = (struct vs_node){seq, next};
        return node;
    }
    vs_list_push(&f->nodes, failed, (struct vs_node){seq, next});
    return failed ? 0 : (uint32_t)f->nodes.n;
}

static uint64_t free_node(struct vs_fold *f, uint32_t node)
{
    uint64_t seq = f->nodes.at[node - 1].seq;
    f->nodes.at[node - 1].next = f->vacant;
    f->vacant = node;
    return seq;
}

static uint64_t drop_depends(struct vs_fold *f, uint64_t alloc)
{
    uint64_t failed = 0;
    uint32_t at = vs_table_remove(&f->depends, alloc), node = at == VS_TABLE_NONE ? 0 : at, next;
    for (; node; node = next) {
        next = f->nodes.at[node - 1].next;
        failed += drop(f, free_node(f, node));
    }
    return failed;
}

static uint64_t depend(struct vs_fold *f, uint64_t alloc, uint64_t seq)
{
    uint32_t at = vs_table_get(&f->depends, alloc), node = new_node(f, seq, at == VS_TABLE_NONE ? 0 : at);
    return !node || vs_table_put(&f->depends, alloc, node) < 0;
}

static int delete_gone(struct vs_store *s)
{
    struct vs_fold *f = s->fold;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < f->gone.n; i++) {
        rc = vs_sql_run(s, VS_SQL_EV_GONE, "i", (int64_t)f->gone.at[i]);
        uint64_t changed = (uint64_t)sqlite3_changes(s->db);
        f->kept -= changed < f->kept ? changed : f->kept;
    }
    f->gone.n = 0;
    return rc;
}

/* ---- ends ---- */

/* Whether the file describes an out-of-memory between the two rows. */
static bool spans_oom(const struct vs_fold *f, uint64_t alloc, uint64_t end)
{
    for (size_t i = 0; i < f->oom_count; i++)
        if (alloc <= f->ooms[i] && f->ooms[i] < end)
            return true;
    return false;
}

static bool stays(struct vs_fold *f, uint64_t alloc, uint64_t end, bool block)
{
    return (alloc < f->first && f->skipped && vs_fold_in_full(f, alloc)) ||
           (!block && spans_oom(f, alloc, end));
}

/* Deletes the rows of an allocation and of its end, and its row in table live if there is one. */
static int end_pair(struct vs_store *s, uint64_t alloc, uint64_t end, bool block)
{
    struct vs_fold *f = s->fold;
    uint64_t failed = drop(f, alloc) + drop(f, end) + drop_depends(f, alloc);
    int rc = 0;
    if (!block && s->amends)
        rc = vs_sql_run(s, VS_SQL_AMEND_GONE, "i", (int64_t)alloc);
    if (rc == 0 && end > s->live_seq && alloc <= s->live_seq)
        rc = vs_sql_run(s, VS_SQL_LIVE_GONE, "i", (int64_t)alloc);
    if (rc == 0)
        rc = vs_access_gone(s, alloc);
    if (rc == 0)
        rc = vs_roles_gone(s, alloc);
    return failed ? -ENOMEM : rc;
}

static bool is_amended(struct vs_store *s, uint64_t end)
{
    sqlite3_stmt *q = vs_fold_query(s, VS_SQL_FREE_AMENDED, (int64_t)end, 0);
    bool amended = q && sqlite3_step(q) == SQLITE_ROW;
    sqlite3_reset(q);
    return amended;
}

static int fold_end(struct vs_store *s, const struct fold_row *r)
{
    struct vs_fold *f = s->fold;
    bool block = r->op == VS_OP_BLOCK_FREE, failed_free = s->amends && !block && is_amended(s, r->seq);
    uint64_t failed = 0;
    if (r->mate == 0 || failed_free) { /* it ended nothing */
        drop(f, r->seq);
        return failed_free ? vs_sql_run(s, VS_SQL_AMEND_GONE, "i", (int64_t)r->seq) : 0;
    }
    if (!stays(f, r->mate, r->seq, block))
        return end_pair(s, r->mate, r->seq, block);
    vs_list_push(&f->pairs, failed, (struct vs_pair){r->mate, r->seq});
    return failed ? -ENOMEM : 0;
}

int vs_fold_pairs(struct vs_store *s)
{
    struct vs_fold *f = s->fold;
    size_t kept = 0;
    int rc = 0;
    f->first = UINT64_MAX; /* all of them are of older stretches */
    f->skipped = true;
    for (size_t i = 0; i < f->pairs.n; i++) {
        struct vs_pair p = f->pairs.at[i];
        if (rc == 0 && !stays(f, p.alloc, p.end, false))
            rc = end_pair(s, p.alloc, p.end, false);
        else
            f->pairs.at[kept++] = p;
    }
    f->pairs.n = kept;
    return rc == 0 ? delete_gone(s) : rc;
}

/* ---- mappings, reservations, figures ---- */

static uint64_t keep_span(struct vs_fold *f, struct vs_spans *spans, const struct fold_row *r)
{
    uint32_t node = new_node(f, r->seq, 0);
    if (node && vs_spans_insert(spans, r->address, r->address + r->size, node) < 0)
        free_node(f, node); /* there is one already, so the row is just kept */
    return !node;
}

/* An unmap, or the end of a reservation: deletes the kept rows that it ends, and itself, unless it ends
 * something that is in full. */
static uint64_t end_spans(struct vs_fold *f, struct vs_spans *spans, const struct fold_row *r)
{
    const struct vs_span *span;
    uint64_t failed = 0, end = r->address + (r->size ? r->size : 1);
    bool found = false, held = false;
    while ((span = vs_spans_from(spans, r->address)) && span->start < end) {
        uint64_t seq = free_node(f, span->value);
        bool stay = spans_oom(f, seq, r->seq);
        found = true;
        held |= stay;
        vs_spans_remove(spans, span->start);
        if (stay)
            vs_list_push(&f->pairs, failed, (struct vs_pair){seq, r->seq});
        else
            failed += drop(f, seq);
    }
    if ((found || !f->skipped) && !held)
        drop(f, r->seq);
    return failed;
}

/* A later figure of the same pool, arena or block that is away replaces an older one. */
static uint64_t fold_figure(struct vs_fold *f, const struct fold_row *r)
{
    uint64_t key = r->address * 64 + r->space + (r->op == VS_OP_BLOCK_AWAY ? 32 : 0) +
                   ((uint64_t)(uint8_t)r->device << 56);
    uint32_t node = vs_table_get(&f->figures, key);
    if (node == VS_TABLE_NONE) {
        node = new_node(f, r->seq, 0);
        return !node || vs_table_put(&f->figures, key, node) < 0;
    }
    uint64_t *last = &f->nodes.at[node - 1].seq, older = *last < r->seq ? *last : r->seq;
    *last = *last > r->seq ? *last : r->seq;
    return drop(f, older);
}

/* ---- one row ---- */

static uint64_t fold_range(struct vs_fold *f, const struct fold_row *r)
{
    uint64_t failed = 0;
    drop(f, r->seq);
    if (r->op == VS_OP_RANGE_PUSH)
        vs_list_push(&f->pushed, failed, r->range);
    else
        vs_list_push(&f->popped, failed, r->range);
    return failed;
}

static uint64_t fold_state(struct vs_fold *f, const struct fold_row *r)
{
    switch (r->op) {
    case VS_OP_MAP:
        return r->mate ? keep_span(f, &f->maps, r) : drop(f, r->seq);
    case VS_OP_VA_RESERVE:
        return keep_span(f, &f->reservations, r);
    case VS_OP_UNMAP:
        return end_spans(f, &f->maps, r);
    case VS_OP_VA_FREE:
        return end_spans(f, &f->reservations, r);
    case VS_OP_POOL_RESERVED:
    case VS_OP_ARENA_RESERVED:
    case VS_OP_BLOCK_AWAY:
        return fold_figure(f, r);
    default: /* references, bindings, reclassified */
        return r->mate ? depend(f, r->mate, r->seq) : drop(f, r->seq);
    }
}

static int fold_row(struct vs_store *s, const struct fold_row *r)
{
    struct vs_fold *f = s->fold;
    switch (r->op) {
    case VS_OP_BLOCK_ALLOC:
    case VS_OP_ALLOC:
    case VS_OP_PHYS_CREATE:
        if (r->status)
            drop(f, r->seq);
        return 0;
    case VS_OP_BLOCK_FREE:
    case VS_OP_FREE:
    case VS_OP_PHYS_FREED:
    case VS_OP_FREE_MISSED:
    case VS_OP_CONTEXT_FREED:
        return fold_end(s, r);
    case VS_OP_PHYS_RELEASE:
        if (r->size)
            return fold_end(s, r);
        break;
    case VS_OP_FREE_FAILED:
        drop(f, r->seq);
        return vs_sql_run(s, VS_SQL_AMEND_GONE, "i", (int64_t)r->mate);
    case VS_OP_CONTEXT_CREATE ... VS_OP_MODULE_UNLOAD:
    case VS_OP_LIMIT:
    case VS_OP_OVERHEAD:
        return 0; /* kept: they explain the driver's own memory */
    case VS_OP_MAP:
    case VS_OP_VA_RESERVE:
    case VS_OP_PHYS_RETAIN:
    case VS_OP_BIND:
        if (r->status)
            return drop(f, r->seq) ? -ENOMEM : 0;
        break;
    case VS_OP_UNMAP:
    case VS_OP_VA_FREE:
    case VS_OP_UNBIND:
    case VS_OP_POOL_RESERVED:
    case VS_OP_ARENA_RESERVED:
    case VS_OP_BLOCK_AWAY:
    case VS_OP_RECLASSIFY:
        break;
    case VS_OP_RANGE_PUSH:
    case VS_OP_RANGE_POP:
        return fold_range(f, r) ? -ENOMEM : 0;
    default:
        drop(f, r->seq);
        return 0;
    }
    return fold_state(f, r) ? -ENOMEM : 0;
}

/* ---- a stretch ---- */

static int begin(struct vs_fold *f, const struct vs_stretch *stretch)
{
    size_t n = (size_t)(stretch->last_seq - stretch->first_seq + 1);
    if (n > f->keep.size) {
        uint8_t *keep = realloc(f->keep.at, n);
        if (!keep)
            return -ENOMEM;
        f->keep.at = keep;
        f->keep.size = n;
    }
    memset(f->keep.at, 0, n);
    f->keep.n = n;
    f->first = stretch->first_seq;
    f->gone.n = f->pushed.n = f->popped.n = 0;
    return 0;
}

static int read_rows(struct vs_store *s, const struct vs_stretch *stretch)
{
    struct vs_fold *f = s->fold;
    sqlite3_stmt *q =
        vs_fold_query(s, VS_SQL_FOLD_READ, (int64_t)stretch->first_seq, (int64_t)stretch->last_seq);
    int rc = q ? 0 : -EIO, code;
    while (rc == 0 && (code = sqlite3_step(q)) == SQLITE_ROW) {
        struct fold_row r = row_of(s, q);
        f->keep.at[r.seq - f->first] = 1;
        rc = fold_row(s, &r);
    }
    return rc == 0 ? vs_sqlite_errno(s, sqlite3_reset(q)) : (sqlite3_reset(q), rc);
}

/* Deletes the stretch's rows between those that are kept. */
static int delete_spans(struct vs_store *s)
{
    struct vs_fold *f = s->fold;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < f->keep.n;) {
        size_t end = i;
        while (end < f->keep.n && !f->keep.at[end])
            end++;
        if (end > i)
            rc =
                vs_sql_run(s, VS_SQL_FOLD_SPAN, "ii", (int64_t)(f->first + i), (int64_t)(f->first + end - 1));
        for (i = end; i < f->keep.n && f->keep.at[i]; i++)
            f->kept++;
    }
    return rc;
}

int vs_fold_rows(struct vs_store *s, const struct vs_commit *c, const struct vs_stretch *stretch)
{
    int rc = begin(s->fold, stretch);
    if (rc == 0)
        rc = read_rows(s, stretch);
    if (rc == 0)
        rc = vs_fold_ranges(s, c, stretch);
    if (rc == 0)
        rc = delete_spans(s);
    return rc == 0 ? delete_gone(s) : rc;
}

/* ---- a file that is continued ---- */

/* Reads the rows that were kept of a folded stretch; none of them is deleted. */
int vs_fold_load_rows(struct vs_store *s, const struct vs_stretch *stretch)
{
    struct vs_fold *f = s->fold;
    sqlite3_stmt *q =
        vs_fold_query(s, VS_SQL_FOLD_READ, (int64_t)stretch->first_seq, (int64_t)stretch->last_seq);
    uint64_t failed = 0;
    int code = SQLITE_ERROR;
    while (q && (code = sqlite3_step(q)) == SQLITE_ROW) {
        struct fold_row r = row_of(s, q);
        bool state = r.op == VS_OP_MAP || r.op == VS_OP_VA_RESERVE || r.op == VS_OP_POOL_RESERVED ||
                     r.op == VS_OP_ARENA_RESERVED || r.op == VS_OP_BLOCK_AWAY;
        bool end = r.op == VS_OP_BLOCK_FREE || r.op == VS_OP_FREE || r.op == VS_OP_PHYS_FREED ||
                   r.op == VS_OP_FREE_MISSED || r.op == VS_OP_CONTEXT_FREED ||
                   (r.op == VS_OP_PHYS_RELEASE && r.size);
        bool depends = r.op == VS_OP_PHYS_RETAIN || r.op == VS_OP_BIND || r.op == VS_OP_UNBIND ||
                       r.op == VS_OP_RECLASSIFY || (r.op == VS_OP_PHYS_RELEASE && !r.size);
        f->kept++;
        f->first = r.seq;
        if (state)
            failed += fold_state(f, &r);
        else if (depends && r.mate)
            failed += depend(f, r.mate, r.seq);
        else if (end && r.mate)
            vs_list_push(&f->pairs, failed, (struct vs_pair){r.mate, r.seq});
    }
    sqlite3_reset(q);
    f->gone.n = 0;
    return failed ? -ENOMEM : code == SQLITE_DONE ? 0 : -EIO;
}

void vs_fold_forget_rows(struct vs_fold *f)
{
    f->pairs.n = f->nodes.n = 0;
    f->vacant = 0;
    f->kept = 0;
    vs_table_free(&f->depends);
    vs_table_free(&f->figures);
    vs_spans_free(&f->maps);
    vs_spans_free(&f->reservations);
}
