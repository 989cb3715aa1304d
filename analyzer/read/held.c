/*
 * held.c - what some of a device's blocks held together, over the whole run and at one moment.
 *
 * The device's own peak says what they held then, and not what they ever held: a layer can be at its greatest
 * when the rest is small.  So the events are gone through in order, and a sum is kept of the blocks that are
 * meant: up at an allocation, down at the free that names it.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "held.h"
#include "curve.h"
#include "living.h"

/* ---- living blocks that are meant, by the number of their allocation ---- */

struct living {
    struct living_block {
        int64_t seq, size; /* seq 0: vacant */
        bool certain;
    } * at;
    size_t room, n; /* room: a power of two */
};

static struct living_block *place(const struct living *l, int64_t seq)
{
    size_t i = ((uint64_t)seq * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (l->room - 1);
    while (l->at[i].seq && l->at[i].seq != seq)
        i = (i + 1) & (l->room - 1);
    return &l->at[i];
}

static void make_room(struct living *l)
{
    if (4 * (l->n + 1) <= 3 * l->room)
        return;
    struct living old = *l;
    l->room = old.room ? 2 * old.room : 1024;
    l->at = xrealloc(NULL, l->room * sizeof *l->at);
    memset(l->at, 0, l->room * sizeof *l->at);
    for (size_t i = 0; i < old.room; i++)
        if (old.at[i].seq)
            *place(l, old.at[i].seq) = old.at[i];
    free(old.at);
}

static void add(struct living *l, int64_t seq, int64_t size, bool certain)
{
    make_room(l);
    struct living_block *b = place(l, seq);
    l->n += b->seq == 0;
    *b = (struct living_block){seq, size, certain};
}

/* The size that block SEQ had, 0 where it is none of them.  Its place stays taken, since others may lie
 * behind it: numbers are never used again. */
static int64_t end(struct living *l, int64_t seq, bool *certain)
{
    if (!l->room)
        return 0;
    struct living_block *b = place(l, seq);
    int64_t size = b->seq ? b->size : 0;
    *certain = b->certain;
    b->size = 0;
    return size;
}

/* ---- what is known of a block ---- */

struct role {
    int64_t seq;
    const char *name;
};

struct search {
    struct trace *t;
    const struct trace_held_by *by;
    signed char *class_of; /* by stack; -1: not asked yet */
    size_t classes;
    struct role *roles; /* by seq */
    size_t role_count;
};

/* One text for all rows of a role. */
static const char *role_name(struct search *s, const char *name, const char **known, size_t *n)
{
    for (size_t i = 0; i < *n; i++)
        if (!strcmp(known[i], name))
            return known[i];
    const char *kept = *PUSH(s->t->texts, s->t->text_count) = xstrdup(name);
    if (*n < 32)
        known[(*n)++] = kept;
    return kept;
}

static int load_roles(struct search *s)
{
    const char *known[32];
    size_t names = 0;
    int code = SQLITE_ERROR;
    struct sqlite3_stmt *q = trace_sql(s->t, "SELECT alloc_seq, role FROM block_role ORDER BY alloc_seq", 0);
    while (q && (code = sqlite3_step(q)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(q, 1);
        if (name)
            *PUSH(s->roles, s->role_count) =
                (struct role){trace_sql_amount(q, 0), role_name(s, name, known, &names)};
    }
    return trace_sql_done(s->t, q, code);
}

static const char *role_of(const struct search *s, int64_t seq)
{
    size_t low = 0, high = s->role_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->roles[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->role_count && s->roles[low].seq == seq ? s->roles[low].name : NULL;
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

/* as the view live_at_peak has it; the frees are those of any device */
static const char events_sql[] =
    "SELECT e.seq, e.t, e.mate, " X512("e.size") ", e.stack, e.phase, e.op IN (1, 4, 20) FROM ev e JOIN kind "
                                                 "k ON k.id = e.kind WHERE (e.op IN (1, 4, 20) AND e.device "
                                                 "= ?1 AND k.status = 0 AND (e.op = 20 OR "
                                                 "(k.space IN (1, 2, 9, 10, 12) AND NOT k.managed)) AND "
                                                 "e.seq NOT IN (SELECT seq FROM amend WHERE op = "
                                                 "50)) OR (e.op IN (2, 6, 21, 51, 52, 53) AND e.mate > 0 AND "
                                                 "(e.op <> 6 OR e.size <> 0) AND e.seq NOT IN "
                                                 "(SELECT seq FROM amend WHERE op = 3)) ORDER BY e.seq";

static void take(struct search *s, struct sqlite3_stmt *q, struct living *l, int64_t *sums,
                 struct trace_held *out)
{
    int64_t seq = trace_sql_amount(q, 0), size = trace_sql_amount(q, 3);
    bool certain = false;
    if (!sqlite3_column_int(q, 6)) {
        size = end(l, trace_sql_amount(q, 2), &certain);
        sums[0] -= certain ? size : 0;
        sums[1] -= size;
        return;
    }
    enum trace_held_class class = class_of_stack(s, trace_sql_amount(q, 4)), of_block = HELD_NOT;
    if (class != HELD_NOT)
        of_block = s->by->block(s->by->context, phase_name(s->t, trace_sql_amount(q, 5)), role_of(s, seq));
    class = of_block < class ? of_block : class;
    if (class == HELD_NOT)
        return;
    certain = class == HELD_YES;
    out->blocks += certain;
    add(l, seq, size, certain);
    sums[0] += certain ? size : 0;
    sums[1] += size;
    if (sums[0] > out->most) {
        out->most = sums[0];
        out->seq = seq;
        out->t = trace_sql_int(q, 1);
    }
    out->possible = sums[1] > out->possible ? sums[1] : out->possible;
}

int trace_held_most(struct trace *t, int64_t device, const struct trace_held_by *by, struct trace_held *out)
{
    struct search s = {.t = t, .by = by};
    struct living l = {0};
    int64_t sums[2] = {0, 0}; /* what is certain, and with what is possible */
    *out = (struct trace_held){.seq = UNKNOWN, .t = UNKNOWN};
    int code = SQLITE_ERROR, result = by->roles ? load_roles(&s) : 0;
    struct sqlite3_stmt *q = result ? NULL : trace_sql(t, events_sql, 1, device);
    while (q && (code = sqlite3_step(q)) == SQLITE_ROW)
        take(&s, q, &l, sums, out);
    if (!result)
        result = trace_sql_done(t, q, code);
    free(l.at);
    free(s.class_of);
    free(s.roles);
    return result;
}

/* ---- a moment ---- */

int trace_live_at(struct trace *t, int64_t device, int64_t seq, struct trace_live **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "WITH row(alloc_seq, size, phase, stack) AS (SELECT o.alloc_seq, " X512(
            "o.size") ", o.phase, o.stack FROM open_allocation o WHERE +o.device = ?1 AND o.alloc_seq <= ?2 "
                      "AND NOT o.managed AND (o.op = 20 OR o.space IN (1, 2, 9, 10, 12)) UNION ALL SELECT "
                      "a.seq, " X512(
                          "a.size") ", a.phase, a.stack FROM ev f CROSS JOIN ev a ON a.seq = f.mate CROSS "
                                    "JOIN kind k ON k.id = a.kind WHERE f.seq > ?2 AND f.mate > 0 AND "
                                    "f.mate <= ?2 AND f.op IN (2, 6, 21, 51, 52, 53) AND (f.op <> 6 OR "
                                    "f.size <> 0) AND f.seq NOT IN (SELECT seq FROM amend WHERE op = 3) AND "
                                    "a.device = ?1 AND (a.op = 20 OR (k.space IN (1, 2, 9, 10, 12) AND NOT "
                                    "k.managed AND a.seq NOT IN (SELECT seq FROM amend WHERE op = 50)))) "
                                    "SELECT ?1, sum(w.size), count(*), w.stack, (SELECT name FROM phase "
                                    "WHERE id = w.phase), NULL, NULL, x.line, x.layer, x.layer_type, (SELECT "
                                    "b.role FROM block_role b WHERE b.alloc_seq = w.alloc_seq) AS role FROM "
                                    "row w LEFT JOIN stack_text x ON x.id = w.stack GROUP BY w.stack, "
                                    "w.phase, role ORDER BY 2 DESC",
        2, device, seq);
    return trace_live_rows(t, s, out, n);
}

int64_t trace_last_seq(struct trace *t, int64_t when)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT max(seq) FROM ev WHERE t <= ?", 1, when);
    int64_t seq = s && sqlite3_step(s) == SQLITE_ROW ? trace_sql_int(s, 0) : UNKNOWN;
    sqlite3_finalize(s);
    return seq;
}

int64_t trace_reserved_after(struct trace *t, int64_t device, int64_t seq)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT " X2M("") " FROM ev WHERE seq <= ? AND device = ? AND "
                                                         "(op < 30 OR op >= 50) ORDER BY seq DESC "
                                                         "LIMIT 1",
                                       2, seq, device);
    int64_t value = s && sqlite3_step(s) == SQLITE_ROW ? trace_sql_amount(s, 0) : 0;
    sqlite3_finalize(s);
    return value;
}

int trace_then(struct trace *t, int64_t device, int64_t seq, struct trace_then *out)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT " X512("framework") ", " X512("direct") ", " X2M("") " FROM ev WHERE seq = ? AND device = ?",
        2, seq, device);
    int code = SQLITE_ERROR;
    *out = (struct trace_then){0};
    if (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        *out =
            (struct trace_then){trace_sql_amount(s, 0), trace_sql_amount(s, 1), trace_sql_amount(s, 2), true};
        code = SQLITE_DONE;
    }
    return trace_sql_done(t, s, code);
}

int trace_most_with_graphs(struct trace *t, int64_t device, struct trace_with_graphs *out)
{
    /* rows after the first figure of the graphs: before it none was held for them */
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT e.seq, e.t, " X512("e.framework") " + " X512(
            "e.direct") ", CASE WHEN k.space <> 10 THEN 0 WHEN e.op = 12 THEN 1 WHEN e.op = 1 THEN 2 WHEN "
                        "e.op IN "
                        "(2, 52, 53) AND e.mate > 0 THEN 3 END, " X512(
                            "e.size") " FROM ev e JOIN kind k ON k.id = e.kind WHERE e.device = ?1 AND (e.op "
                                      "< 30 OR "
                                      "e.op >= 50) AND k.status = 0 AND e.seq >= (SELECT min(f.seq) FROM ev "
                                      "f JOIN "
                                      "kind g ON g.id = f.kind WHERE f.op IN (1, 12) AND f.device = ?1 AND "
                                      "g.space = 10) ORDER BY e.seq",
        1, device);
    int64_t held = 0, live = 0;
    int code = SQLITE_ERROR;
    *out = (struct trace_with_graphs){.seq = UNKNOWN, .t = UNKNOWN};
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        int what = sqlite3_column_int(s, 3);
        int64_t size = trace_sql_amount(s, 4), own;
        held = what == 1 ? size : held;
        live += what == 2 ? size : what == 3 ? -size : 0;
        own = held > live ? held - live : 0;
        if (own + trace_sql_amount(s, 2) > out->bytes)
            *out = (struct trace_with_graphs){own + trace_sql_amount(s, 2), own, trace_sql_int(s, 0),
                                              trace_sql_int(s, 1)};
    }
    return trace_sql_done(t, s, code);
}

int64_t trace_handed_out(struct trace *t, int64_t device, int64_t seq)
{
    struct trace_then then, later;
    struct sqlite3_stmt *s =
        trace_sql(t, "SELECT seq FROM ev WHERE seq > ? AND device = ? AND op = 20 ORDER BY seq LIMIT 1", 2,
                  seq, device);
    int64_t block = s && sqlite3_step(s) == SQLITE_ROW ? trace_sql_int(s, 0) : UNKNOWN;
    sqlite3_finalize(s);
    if (block == UNKNOWN || trace_then(t, device, seq, &then) || trace_then(t, device, block, &later))
        return seq;
    return then.found && then.reserved == later.reserved ? block : seq;
}
