/*
 * held.c - see living.h.  The device's peak does not tell what some blocks held at most, as a layer can be at
 * its greatest when the rest is small: a sum follows the events.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "curve.h"
#include "events.h"
#include "living.h"
#include "sql.h"

/* ---- what is known of a block ---- */

struct block { /* that is meant */
    int64_t seq, size;
    bool certain;
};

struct search {
    struct trace *t;
    const struct trace_held_by *by;
    signed char *class_of; /* by stack; -1: not asked yet */
    size_t classes;
    struct trace_role *roles; /* by seq */
    size_t role_count;
    struct block *blocks; /* likewise; of what has ended the size is 0 */
    size_t block_count;
    int64_t device, certain, possible; /* what they hold */
    struct trace_held *out;
};

static const char *role_of(const struct search *s, int64_t seq)
{
    const struct trace_role *role = FIND(seq, s->roles, s->role_count);
    return role ? role->role : NULL;
}

/* A block of backward has the line of the forward that made its node, or the node's name where that is not
 * known: then any line may have made it. */
static enum trace_held_class ask_stack(struct search *s, int64_t stack)
{
    const struct trace_held_by *by = s->by;
    if (stack <= 0)
        return by->stack(by->context, NULL, true, NULL, true);
    struct sqlite3_stmt *q = trace_sql(
        s->t,
        "SELECT CASE WHEN s.line IS NULL THEN NULL ELSE x.line END, x.layer, s.line IS NULL AND s.node IS "
        "NOT NULL FROM stack s JOIN stack_text x ON x.id = s.id WHERE s.id = ?",
        1, stack);
    enum trace_held_class class = HELD_MAYBE;
    if (q && sqlite3_step(q) == SQLITE_ROW)
        class = by->stack(by->context, (const char *)sqlite3_column_text(q, 0), sqlite3_column_int(q, 2),
                          (const char *)sqlite3_column_text(q, 1), false);
    sqlite3_finalize(q);
    return class;
}

enum { MOST_CLASSES = 1 << 24 }; /* what a damaged file calls a stack need not be one */

static enum trace_held_class class_of_stack(struct search *s, int64_t stack)
{
    if (stack < 0 || stack >= MOST_CLASSES)
        return ask_stack(s, 0);
    while ((size_t)stack >= s->classes)
        *PUSH(s->class_of, s->classes) = -1;
    if (s->class_of[stack] < 0)
        s->class_of[stack] = (signed char)ask_stack(s, stack);
    return (enum trace_held_class)s->class_of[stack];
}

static const char *phase_name(const struct trace *t, int64_t phase)
{
    return phase >= 0 && (size_t)phase < t->phase_name_count ? t->phase_names[phase] : NULL;
}

/* ---- the events ---- */

static void end(struct search *s, const struct trace_row *row)
{
    struct block *b = FIND(row->mate, s->blocks, s->block_count);
    if (!b)
        return;
    s->certain -= b->certain ? b->size : 0;
    s->possible -= b->size;
    b->size = 0;
}

static void begin(struct search *s, const struct trace_row *row)
{
    struct trace_held *out = s->out;
    enum trace_held_class class = class_of_stack(s, row->stack), of_block = HELD_NOT;
    if (class != HELD_NOT)
        of_block = s->by->block(s->by->context, phase_name(s->t, row->phase), role_of(s, row->seq));
    class = of_block < class ? of_block : class;
    if (class == HELD_NOT)
        return;
    struct block b = {row->seq, row->size > 0 ? row->size : 0, class == HELD_YES};
    *PUSH(s->blocks, s->block_count) = b;
    out->blocks += b.certain;
    s->certain += b.certain ? b.size : 0;
    s->possible += b.size;
    if (s->certain > out->most) {
        out->most = s->certain;
        out->seq = row->seq;
        out->t = row->t;
    }
    out->possible = s->possible > out->possible ? s->possible : out->possible;
}

/* As the view live_at_peak has it; the frees are those of any device. */
static bool take(void *search, const struct trace_row *row)
{
    struct search *s = search;
    if (trace_row_ends(row)) {
        if (!row->taken_back)
            end(s, row);
    } else if (row->device == s->device && !row->status && !row->reclassified && trace_row_begins(row)) {
        begin(s, row);
    }
    return true;
}

int trace_held_most(struct trace *t, int64_t device, const struct trace_held_by *by, struct trace_held *out)
{
    struct search s = {.t = t, .by = by, .device = device, .out = out};
    *out = (struct trace_held){.seq = UNKNOWN, .t = UNKNOWN};
    int result =
        (by->roles && trace_roles(t, &s.roles, &s.role_count)) || trace_rows(t, NULL, take, &s) ? -1 : 0;
    free(s.blocks);
    free(s.class_of);
    free(s.roles);
    return result;
}

/* ---- a moment ---- */

int64_t trace_last_seq(struct trace *t, int64_t when)
{
    return trace_sql_one(t, "SELECT max(seq) FROM ev WHERE t <= ?", 1, when);
}

struct with_graphs {
    struct trace_with_graphs *out;
    int64_t held, live; /* for the graphs; of their memory nodes */
};

static bool take_graphs(void *context, const struct trace_row *row)
{
    struct with_graphs *g = context;
    int64_t size = row->size > 0 ? row->size : 0, all = row->framework + row->direct;
    if (row->status)
        return true;
    if (row->space == VS_SPACE_GRAPH) {
        g->held = row->op == VS_OP_POOL_RESERVED ? size : g->held;
        g->live += row->op == VS_OP_ALLOC ? size : trace_row_ends(row) ? -size : 0;
    }
    int64_t own = g->held > g->live ? g->held - g->live : 0;
    if (own && own + all > g->out->bytes)
        *g->out = (struct trace_with_graphs){own + all, own, row->seq, row->t};
    return true;
}

int trace_most_with_graphs(struct trace *t, int64_t device, struct trace_with_graphs *out)
{
    const struct trace_part part = {device, 0, INT64_MAX, EVENTS_TOTALS};
    struct with_graphs g = {.out = out};
    *out = (struct trace_with_graphs){.seq = UNKNOWN, .t = UNKNOWN};
    return trace_rows(t, &part, take_graphs, &g);
}

int64_t trace_handed_out(struct trace *t, int64_t device, int64_t seq)
{
    struct trace_then then, later;
    int64_t block =
        trace_sql_one(t, "SELECT seq FROM ev WHERE seq > ? AND device = ? AND op = 20 ORDER BY seq LIMIT 1",
                      2, seq, device);
    if (block == UNKNOWN || trace_then(t, device, seq, &then) || trace_then(t, device, block, &later))
        return seq;
    return then.found && then.reserved == later.reserved ? block : seq;
}
