/*
 * away_blocks.c - which roles had what was on the host, and why it was there (curve.h).  Table away_block has
 * a row for each change of a block's.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/units.h"
#include "curve.h"
#include "sql.h"
#include "stream.h"
#include "trace/roles.h"

struct block {
    int64_t seq, bytes; /* seq first, for FIND */
    const char *role;
};

enum { PARTS = 2 * VS_ROLE_COUNT };

struct walk {
    struct trace_role_finder *roles;
    struct block *blocks; /* in the order of their numbers */
    size_t block_count;
    struct trace_away_part parts[PARTS]; /* some of 0 bytes */
    size_t part_count;
};

/* The words live as long as the program. */
static const char *lasting(const char *why)
{
    static const char *const whys[] = {"parked", "suspended", "spilled"};
    for (size_t i = 0; why && i < sizeof whys / sizeof *whys; i++)
        if (strcmp(why, whys[i]) == 0)
            return whys[i];
    return "away";
}

static struct block *block_of(struct walk *w, int64_t alloc_seq)
{
    struct block *found = FIND(alloc_seq, w->blocks, w->block_count);
    if (found)
        return found;
    const char *role = alloc_seq > 0 ? trace_role_of(w->roles, alloc_seq) : NULL;
    PUSH(w->blocks, w->block_count);
    size_t at = w->block_count - 1;
    for (; at > 0 && w->blocks[at - 1].seq > alloc_seq; at--)
        w->blocks[at] = w->blocks[at - 1];
    w->blocks[at] = (struct block){.seq = alloc_seq, .role = role ? vs_role_word(vs_role_named(role)) : NULL};
    return &w->blocks[at];
}

static void add(struct walk *w, const struct block *b, const char *why, int64_t bytes)
{
    size_t i = 0;
    while (i < w->part_count &&
           (w->parts[i].role != b->role || w->parts[i].why != why || w->parts[i].all != (b->seq == 0)))
        i++;
    if (i == PARTS)
        return;
    if (i == w->part_count)
        w->parts[w->part_count++] = (struct trace_away_part){.role = b->role, .why = why, .all = b->seq == 0};
    if (__builtin_add_overflow(w->parts[i].bytes, bytes, &w->parts[i].bytes))
        w->parts[i].bytes = 0; /* a damaged file has any number */
}

static int by_bytes(const void *a, const void *b)
{
    const struct trace_away_part *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static void show(struct walk *w, size_t i, trace_away_visit *visit, void *context)
{
    size_t n = 0;
    qsort(w->parts, w->part_count, sizeof *w->parts, by_bytes);
    while (n < w->part_count && w->parts[n].bytes > 0)
        n++;
    visit(context, i, w->parts, n);
}

/* Rows from where nothing was away for any reason, before the first event. */
#define ROWS                                                                                                 \
    "SELECT seq, alloc_seq, away_bytes, why FROM away_block WHERE device = ?1 AND seq <= ?3 AND seq > "      \
    "ifnull((SELECT min(z) FROM (SELECT max(CASE WHEN out_bytes = back_bytes THEN seq ELSE 0 END) AS z "     \
    "FROM away_block WHERE device = ?1 AND seq <= ?2 GROUP BY why)), 0) ORDER BY seq"

int trace_each_away(struct trace *t, int64_t device, const int64_t *seqs, size_t count,
                    trace_away_visit *visit, void *context)
{
    if (count == 0)
        return 0;
    struct walk w = {.roles = trace_role_begin(t)};
    struct sqlite3_stmt *s = trace_sql(t, ROWS, 3, device, seqs[0], seqs[count - 1]);
    size_t i = 0;
    while (trace_sql_row(s)) {
        for (; i < count && seqs[i] < trace_sql_amount(s, 0); i++)
            show(&w, i, visit, context);
        struct block *b = block_of(&w, trace_sql_amount(s, 1));
        add(&w, b, lasting((const char *)sqlite3_column_text(s, 3)), trace_sql_amount(s, 2) - b->bytes);
        b->bytes = trace_sql_amount(s, 2);
    }
    for (; i < count; i++)
        show(&w, i, visit, context);
    trace_role_end(w.roles);
    free(w.blocks);
    return trace_sql_done(t, s);
}

/* ---- at one event ---- */

struct list {
    struct trace_away_part *at;
    size_t n;
};

static void copy(void *context, size_t i, const struct trace_away_part *parts, size_t n)
{
    struct list *l = context;
    (void)i;
    for (size_t k = 0; k < n; k++)
        *PUSH(l->at, l->n) = parts[k];
}

int trace_away_parts(struct trace *t, int64_t device, int64_t seq, struct trace_away_part **out, size_t *n)
{
    struct list l = {NULL, 0};
    int result = trace_each_away(t, device, &seq, 1, copy, &l);
    *out = l.at;
    *n = l.n;
    return result;
}

char *trace_away_words(const struct trace_away_part *parts, size_t n, enum trace_away_bytes with)
{
    char *words = xstrdup("");
    for (size_t i = 0; i < n; i++) {
        const struct trace_away_part *p = &parts[i];
        const char *role = p->all ? "all memory" : p->role;
        bool bytes = n > 1 && with != AWAY_WORDS;
        char *more = xformat("%s%s%s%s%s%s%s", words, i ? "; " : "",
                             bytes ? units_bytes(p->bytes, with == AWAY_EXACT).s : "", bytes ? " " : "",
                             role ? role : "", role ? ", " : "", p->why);
        free(words);
        words = more;
    }
    return words;
}

/* ---- at all times ---- */

struct always {
    char *words;
    bool several;
};

static void compare(void *context, size_t i, const struct trace_away_part *parts, size_t n)
{
    struct always *a = context;
    char *words = trace_away_words(parts, n, AWAY_WORDS);
    (void)i;
    if (n > 0 && !a->words)
        a->words = xstrdup(words);
    a->several = a->several || n > 1 || (n > 0 && strcmp(a->words, words) != 0);
    free(words);
}

char *trace_away_always(struct trace *t, int64_t device)
{
    struct always a = {NULL, false};
    struct trace_away *aways;
    size_t n;
    if (trace_aways(t, device, &aways, &n))
        return NULL;
    int64_t *seqs = xrealloc(NULL, (n + 1) * sizeof *seqs);
    for (size_t i = 0; i < n; i++)
        seqs[i] = aways[i].seq;
    int result = trace_each_away(t, device, seqs, n, compare, &a);
    if (result || a.several) {
        free(a.words);
        a.words = NULL;
    }
    free(seqs);
    free(aways);
    return a.words;
}
