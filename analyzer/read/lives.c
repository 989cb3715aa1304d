/*
 * lives.c - see lives.h.  Two rare things are known from later rows only (table amend), and take effect at
 * these, as in the totals: an allocation that turns out to be a caching allocator's stops being a block,
 * and a block whose free turns out to have failed is born again.
 */
#include "lives.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "events.h"
#include "sql.h"

struct failed { /* a free that a later row takes back */
    int64_t by, allocation;
    uint32_t block;
};

struct reborn {
    int64_t allocation;
    uint32_t block;
};

struct reader {
    struct trace_lives *out;
    struct failed *failed;
    struct reborn *reborn;
    size_t failed_count, reborn_count;
    int64_t now, last; /* no moment lies beyond the last one */
    size_t phases;
};

#define NO_BLOCK UINT32_MAX

/* ---- births and deaths ---- */

static uint32_t find_block(const struct reader *r, int64_t seq)
{
    for (size_t i = r->reborn_count; i-- > 0;) /* the latest counts */
        if (r->reborn[i].allocation == seq)
            return r->reborn[i].block;
    const struct trace_block *block = FIND(seq, r->out->blocks, r->out->block_count);
    return block ? (uint32_t)(block - r->out->blocks) : NO_BLOCK;
}

static uint32_t die(struct reader *r, uint32_t block)
{
    if (block == NO_BLOCK || r->out->blocks[block].died != UNKNOWN)
        return NO_BLOCK;
    r->out->blocks[block].died = r->now;
    return block;
}

static uint32_t bear(struct reader *r, const struct trace_row *e)
{
    struct trace_lives *l = r->out;
    if (l->block_count >= NO_BLOCK - 1)
        return NO_BLOCK;
    *PUSH(l->blocks, l->block_count) =
        (struct trace_block){.seq = e->seq,
                             .born = r->now,
                             .died = UNKNOWN,
                             .size = e->size > 0 ? e->size : 0,
                             .stack = e->stack > 0 && e->stack < UINT32_MAX ? (uint32_t)e->stack : 0,
                             .phase = e->phase > 0 && (size_t)e->phase < r->phases ? (uint16_t)e->phase : 0,
                             .framework = e->op == VS_OP_BLOCK_ALLOC,
                             .tensor = e->tensor > 0 && e->tensor < UINT32_MAX ? (uint32_t)e->tensor : 0};
    return (uint32_t)(l->block_count - 1);
}

static void note(struct reader *r, const struct trace_row *e, int64_t allocated, uint32_t block,
                 enum trace_change_what what)
{
    *PUSH(r->out->changes, r->out->change_count) = (struct trace_change){
        r->now, allocated, e->reserved, block, block == NO_BLOCK ? CHANGE_TOTALS : what};
}

/* A block goes on as a new one, for the same allocation. */
static uint32_t go_on(struct reader *r, const struct trace_row *e, const struct failed *was)
{
    struct trace_lives *l = r->out;
    struct trace_block copy = l->blocks[was->block];
    if (l->block_count >= NO_BLOCK - 1)
        return NO_BLOCK;
    copy.born = r->now;
    copy.died = UNKNOWN;
    copy.seq = e->seq; /* keeps the array in the order of its numbers */
    *PUSH(r->reborn, r->reborn_count) = (struct reborn){was->allocation, (uint32_t)l->block_count};
    *PUSH(l->blocks, l->block_count) = copy;
    return (uint32_t)(l->block_count - 1);
}

/* E says that a free had failed: all that it ended, several blocks where it was an unmap, goes on. */
static void take_back(struct reader *r, const struct trace_row *e)
{
    int64_t allocated = e->framework + e->direct;
    size_t kept = 0, first = r->out->change_count;
    for (size_t i = 0; i < r->failed_count; i++) {
        const struct failed f = r->failed[i];
        if (f.by != e->seq)
            r->failed[kept++] = f;
        else
            note(r, e, allocated, go_on(r, e, &f), CHANGE_BORN);
    }
    r->failed_count = kept;
    if (r->out->change_count == first)
        note(r, e, allocated, NO_BLOCK, CHANGE_TOTALS);
    for (size_t i = r->out->change_count; i-- > first + 1;) { /* one after the other */
        const struct trace_change *c = &r->out->changes[i];
        int64_t size = c->block == NO_BLOCK ? 0 : r->out->blocks[c->block].size;
        r->out->changes[i - 1].allocated = c->allocated - size;
    }
}

static bool take_row(void *reader, const struct trace_row *e)
{
    struct reader *r = reader;
    uint32_t block = NO_BLOCK;
    r->now = e->t > r->now ? e->t < r->last ? e->t : r->last : r->now;
    if (e->op == VS_OP_FREE_FAILED) {
        take_back(r, e);
        return true;
    }
    bool begins = trace_row_begins(e);
    if (begins)
        block = bear(r, e);
    else if (trace_row_ends(e) || e->op == VS_OP_RECLASSIFY)
        block = die(r, find_block(r, e->mate));
    if (!begins && block != NO_BLOCK && e->taken_back)
        *PUSH(r->failed, r->failed_count) = (struct failed){e->taken_back, e->mate, block};
    note(r, e, e->framework + e->direct, block, begins ? CHANGE_BORN : CHANGE_DIED);
    return true;
}

/* ---- stretches without single events ---- */

static int by_time(const void *a, const void *b)
{
    const struct trace_change *x = a, *y = b;
    return x->t < y->t ? -1 : x->t > y->t;
}

/* The events of folded zones are gone; their greatest, least and last totals stand in for them, each at its
 * time. */
static int load_folded(struct trace *t, int64_t device, struct trace_change **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT max_allocated_t, max_allocated, reserved_at_max, min_allocated_t, min_allocated, "
        "reserved_at_min, max_reserved_t, max_allocated, max_reserved, t_last, last_framework + last_direct, "
        "last_reserved FROM zone WHERE device = ? AND (stretch IS NOT NULL OR ?) ORDER BY t_last",
        2, device, (int64_t)(t->unwritten > 0));
    while (trace_sql_row(s))
        for (int i = 0; i < 12; i += 3) {
            int64_t when = trace_sql_amount(s, i), last = t->t_last == UNKNOWN ? 0 : t->t_last;
            when = when < 0 ? 0 : when > last ? last : when;
            struct trace_change c = {when, trace_sql_amount(s, i + 1), trace_sql_amount(s, i + 2), NO_BLOCK,
                                     CHANGE_FOLDED};
            if (i != 6) /* allocated at the greatest reserved is not known: that one is left out */
                *PUSH(*out, *n) = c;
        }
    return trace_sql_done(t, s);
}

static int merge_folded(struct trace *t, int64_t device, struct trace_lives *l)
{
    struct trace_change *folded = NULL;
    size_t n = 0, i = 0, k = 0;
    if (!t->thinned)
        return 0;
    int result = load_folded(t, device, &folded, &n);
    if (result || !n) {
        free(folded);
        return result;
    }
    qsort(folded, n, sizeof *folded, by_time);
    struct trace_change *all = xrealloc(NULL, (l->change_count + n) * sizeof *all);
    for (size_t at = 0; at < l->change_count + n; at++) {
        bool event = k == n || (i < l->change_count && l->changes[i].t <= folded[k].t);
        all[at] = event ? l->changes[i++] : folded[k++];
    }
    free(l->changes);
    free(folded);
    l->changes = all;
    l->change_count += n;
    l->folded = true;
    return 0;
}

/* ---- what blocks were for, and when they were used ---- */

static uint8_t role_of(struct trace *t, struct trace_lives *l, struct sqlite3_stmt *s, int column)
{
    const char *name = (const char *)sqlite3_column_text(s, column);
    if (!name)
        return 0;
    for (size_t i = 1; i < l->role_count; i++)
        if (!strcmp(l->roles[i], name))
            return (uint8_t)i;
    if (l->role_count >= UINT8_MAX)
        return 0;
    const char *text = trace_sql_text(t, s, column);
    *PUSH(l->roles, l->role_count) = text;
    return (uint8_t)(l->role_count - 1);
}

static void init_uses(struct trace_lives *l)
{
    l->uses = xrealloc(NULL, (l->block_count + 1) * sizeof *l->uses);
    for (size_t i = 0; i < l->block_count; i++)
        l->uses[i] = (struct trace_use){UNKNOWN, UNKNOWN};
}

/* Of what no role is known the phase that it was made in, by the words that every page has. */
static void name_by_phases(struct trace *t, struct trace_lives *l)
{
    uint8_t *made = xrealloc(NULL, t->phase_name_count + 1), unknown = 0;
    memset(made, 0, t->phase_name_count + 1);
    for (size_t i = 1; i < l->role_count && !unknown; i++)
        unknown = strcmp(l->roles[i], vs_role_word(VS_ROLE_UNTOLD)) ? 0 : (uint8_t)i;
    for (size_t i = 0; i < l->block_count; i++) {
        struct trace_block *b = &l->blocks[i];
        uint16_t phase = b->phase < t->phase_name_count ? b->phase : 0;
        if ((b->role && b->role != unknown) || !phase || (!made[phase] && l->role_count >= UINT8_MAX)) {
            b->role = b->role == unknown ? 0 : b->role;
            continue;
        }
        if (!made[phase]) {
            made[phase] = (uint8_t)l->role_count;
            *PUSH(l->roles, l->role_count) = *PUSH(t->texts, t->text_count) =
                xformat("made in %s", t->phase_names[phase] ? shown(t->phase_names[phase]) : "?");
        }
        b->role = made[phase];
    }
    free(made);
}

static int load_uses(struct trace *t, struct trace_lives *l)
{
    *PUSH(l->roles, l->role_count) = "made outside any phase";
    bool followed = trace_sql_one(t, "SELECT count(*) FROM (SELECT 1 FROM access LIMIT 1)", 0) > 0;
    if (!followed && trace_sql_one(t, "SELECT count(*) FROM (SELECT 1 FROM framework_role LIMIT 1)", 0) <= 0)
        return 0;
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT r.alloc_seq, r.role, x.first, x.last FROM block_role r LEFT JOIN access_times x ON "
                  "x.alloc_seq = r.alloc_seq ORDER BY r.alloc_seq",
                  0);
    size_t i = 0;
    if (followed)
        init_uses(l);
    while (trace_sql_row(s)) {
        int64_t seq = sqlite3_column_int64(s, 0), first = trace_sql_int(s, 2), last = trace_sql_int(s, 3);
        while (i < l->block_count && l->blocks[i].seq < seq)
            i++;
        if (i == l->block_count || l->blocks[i].seq != seq)
            continue;
        l->blocks[i].role = role_of(t, l, s, 1);
        if (followed && first != UNKNOWN && last != UNKNOWN)
            l->uses[i] = (struct trace_use){l->blocks[i].born + first, l->blocks[i].born + last};
    }
    return trace_sql_done(t, s);
}

int trace_lives(struct trace *t, int64_t device, struct trace_lives *out)
{
    struct reader r = {.out = out,
                       .last = t->t_last == UNKNOWN ? 0 : t->t_last,
                       .phases = t->phase_name_count < UINT16_MAX ? t->phase_name_count : UINT16_MAX};
    *out = (struct trace_lives){0};
    const struct trace_part part = {device, 0, INT64_MAX, EVENTS_TOTALS};
    int result = trace_rows(t, &part, take_row, &r) || load_uses(t, out) || merge_folded(t, device, out);
    if (!result)
        name_by_phases(t, out);
    free(r.failed);
    free(r.reborn);
    if (result)
        trace_free_lives(out);
    return result ? -1 : 0;
}

void trace_free_lives(struct trace_lives *l)
{
    free(l->changes);
    free(l->blocks);
    free(l->uses);
    free(l->roles);
    *l = (struct trace_lives){0};
}
