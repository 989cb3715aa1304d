/*
 * columns.c - the tables whose rows are structs: which member stands in which column.
 *
 * Columns stand here in the order of schema.sql, so that one function writes a row and one reads it (SELECT
 * *).
 */
#include "fold.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum how {
    AS_IS,
    OR_UNKNOWN, /* NULL where negative, as unknown bytes are; NULL is read as -1 */
    OR_NOTHING, /* likewise, but NULL is read as 0: table `resume` has what is known */
    OR_NONE,    /* NULL where 0 */
    NOT_IF_SET, /* NULL where set, 0 where not */
    X512,
    NAMED,
    HELD,
    PROCESS, /* no member: the statement has it */
};

struct names {
    int n;
    const char *const *at;
};

struct column {
    uint16_t offset;
    uint8_t bytes;
    bool is_signed;
    enum how how;
    const struct names *names;
};

struct columns {
    int n;
    const struct column *at;
};

/* ---- names ---- */

#define X(NAME, name)        name,
#define SPACE(n, NAME, name) name,
static const char *const curve_names[] = {VS_CURVES(X) VS_SPACES(SPACE)};
static const char *const count_names[] = {VS_COUNTS(X)};
static const char *const mismatch_names[] = {VS_MISMATCHES(X)};
static const char *const source_names[] = {"unknown", "nvml_process", "meminfo", "nvml_device"};
static const char *const why_away_names[] = {"unknown", "parked", "suspended", "spilled"};
#undef X

#define NAMES(of)                                                                                            \
    {                                                                                                        \
        sizeof of##_names / sizeof *of##_names, of##_names                                                   \
    }
static const struct names curves = NAMES(curve), counts = NAMES(count), mismatches = NAMES(mismatch),
                          sources = NAMES(source), whys_away = NAMES(why_away);

/* ---- the tables ---- */

#define COLUMN(how, member, names)                                                                           \
    {                                                                                                        \
        offsetof(ROW, member), sizeof(((ROW *)0)->member), (__typeof__(((ROW *)0)->member))-1 < 1, how,      \
            names                                                                                            \
    }
#define C(member)           COLUMN(AS_IS, member, NULL)
#define OR(missing, member) COLUMN(OR_##missing, member, NULL)
#define NAME(member, names) COLUMN(NAMED, member, &(names))
#define HELD_BY(member)                                                                                      \
    {                                                                                                        \
        .offset = offsetof(ROW, member), .how = HELD                                                         \
    }
#define P                                                                                                    \
    {                                                                                                        \
        .how = PROCESS                                                                                       \
    }
#define FIGURE(NAME, name) C(figure[VS_FIGURE_##NAME]),

#define TABLE(STATEMENT, row, ...)                                                                           \
    case VS_SQL_##STATEMENT: {                                                                               \
        typedef struct row ROW;                                                                              \
        static const struct column at[] = {__VA_ARGS__};                                                     \
        return (struct columns){sizeof at / sizeof *at, at};                                                 \
    }

static struct columns columns_of(enum vs_statement table)
{
    switch (table) {
        TABLE(KIND, vs_kind_row, C(id), P, C(is.api), C(is.space), C(is.context), C(is.stream), C(is.thread),
              C(is.status), C(is.managed), OR(NONE, is.tensor));
        TABLE(ACCESS_KIND, vs_access_kind_row, C(id), P, C(is.first_by), C(is.last_by), C(is.first_phase),
              C(is.last_phase), C(is.phases), C(is.kinds), C(is.sure_phases));
        TABLE(RANGE, vs_range_row, C(id), P, C(phase), C(name), OR(NONE, domain), C(source), C(flags),
              C(parent), C(thread), C(step), C(first_seq), C(t_push), OR(UNKNOWN, t_pop));
        TABLE(RANGE_PEAK, vs_range_peak_row, C(range), C(device), OR(NOTHING, allocated), C(reserved), C(t));
        TABLE(ZONE, vs_zone_row, C(first_seq), C(last_seq), C(device), C(phase), C(t_first), C(t_last),
              C(min_allocated), C(max_allocated), C(max_t), C(min_reserved), C(max_reserved),
              C(last_framework), C(last_direct), C(last_reserved), C(events), C(min_t), C(max_reserved_t),
              C(min_reserved_t), C(reserved_at_max), C(reserved_at_min), HELD_BY(held), OR(NONE, stretch));
        TABLE(STRETCH, vs_stretch_row, C(first_seq), C(last_seq), C(t_first), C(t_last), C(first_step),
              C(last_step), C(steps), C(ranges), C(samples), COLUMN(NOT_IF_SET, open, NULL), C(unwritten),
              C(bytes));
        TABLE(STRETCHES, vs_stretch, C(first_seq), C(last_seq), C(t_first), C(t_last), C(first_step),
              C(last_step), C(folded), C(bytes), C(rows));
        TABLE(SAMPLE, vs_sample_row, P, C(t), C(device), C(used), NAME(source, sources), C(rss), C(pinned),
              C(reserved), C(seq));
        TABLE(ARENA, vs_arena_row, P, C(device), C(t), VS_ARENA_FIGURES(FIGURE));
        TABLE(AWAY, vs_away_row, C(seq), C(t), C(device), C(bytes));
        TABLE(AWAY_BLOCK, vs_away_block_row, C(seq), C(t), C(device), C(alloc_seq), C(bytes),
              NAME(why, whys_away), C(out), C(back), C(times), OR(UNKNOWN, waited_ns));
        TABLE(POOL_USE, vs_pool_row, P, C(t), C(device), C(name), C(used), OR(UNKNOWN, peak),
              OR(UNKNOWN, held));
        TABLE(FACT, vs_fact_row, C(key), C(value));
        TABLE(FRAMEWORK_ROLE, vs_role_row, C(alloc_seq), C(role));
        TABLE(STEP, vs_step_row, P, C(step), C(t), C(seq));
        TABLE(MOMENT, vs_mark_row, P, C(seq), C(t), C(name), C(source), C(thread));
        TABLE(AMEND, vs_amend_row, C(seq), C(op), C(by));
        TABLE(MISMATCH, vs_mismatch_row, P, C(seq), C(t), C(device), NAME(what, mismatches), C(ours),
              C(theirs));
        TABLE(PHASE_STAT, vs_phase_row, P, C(device), C(phase), C(ranges), OR(UNKNOWN, ns), C(open_ns),
              C(events), OR(NOTHING, allocated), C(reserved), OR(NOTHING, end_allocated), C(t_allocated));
        TABLE(PEAK, vs_peak_row, P, C(device), NAME(curve, curves), OR(UNKNOWN, peak), C(seq), C(t),
              OR(NOTHING, end), OR(UNKNOWN, known));
        TABLE(COUNTER, vs_count_row, P, C(device), NAME(what, counts), C(value));
        TABLE(UPPER_BOUND, vs_doubt_row, P, C(device), NAME(curve, curves), C(from_seq), C(t_from),
              OR(NONE, to_seq), OR(UNKNOWN, t_to));
        TABLE(LIVE, vs_alloc, C(seq), C(op), C(device), C(space), COLUMN(X512, address, NULL),
              COLUMN(X512, size, NULL), C(t), C(phase), C(range), C(stack), C(managed), OR(NONE, tensor));
        TABLE(PEAK_LIVE, vs_alloc_then, P, C(is.device), C(is.seq), C(then), C(is.t), C(is.op), C(is.space),
              C(is.address), C(is.size), C(is.phase), C(is.range), C(is.stack), OR(NONE, is.tensor));
        TABLE(OOM_LIVE, vs_alloc_then, P, C(then), C(is.seq), C(is.t), C(is.op), C(is.space), C(is.address),
              C(is.size), C(is.phase), C(is.range), C(is.stack), OR(NONE, is.tensor),
              C(is.device)); /* the last is joined when it is read */
        TABLE(OOM, vs_oom_row, P, C(seq), C(roles), C(t), C(device), C(op), C(space), C(context),
              OR(NONE, api), C(thread), C(phase), C(range), C(stack), C(step), C(requested), C(asked_driver),
              C(refusals), C(framework), C(direct), C(managed), C(unknown_use), C(reserved), C(base),
              C(pinned), C(registered), OR(UNKNOWN, free_bytes), C(free_t), OR(UNKNOWN, reserved_then),
              OR(UNKNOWN, process_used), C(process_used_t), OR(UNKNOWN, device_used), C(device_used_t),
              C(stored), OR(NONE, tensor));
        TABLE(RESUME, vs_resume_row, C(what), C(id), C(value[0]), C(value[1]), C(value[2]), C(value[3]));
    default:
        return (struct columns){0, NULL};
    }
}

/* ---- who held the memory ---- */

#define HELD_TEXT (VS_HELD_PHASES * 64 + 4)

/* [[phase, framework bytes, direct bytes], ...]; phase -1 is all further phases; phases with 0 bytes are
 * left out. */
static void bind_held(sqlite3_stmt *q, int column, const struct vs_held *h)
{
    char text[HELD_TEXT];
    size_t at = 0;
    for (int i = 0; i < VS_HELD_PHASES; i++)
        if (h->framework[i] || h->direct[i])
            at +=
                (size_t)snprintf(text + at, HELD_TEXT - at, "%s[%d,%" PRIu64 ",%" PRIu64 "]", at ? "," : "[",
                                 i < VS_HELD_PHASES - 1 ? i : -1, h->framework[i], h->direct[i]);
    snprintf(text + at, HELD_TEXT - at, at ? "]" : "[]");
    sqlite3_bind_text(q, column, text, -1, SQLITE_TRANSIENT);
}

static void read_held(const char *at, struct vs_held *h)
{
    int phase, length;
    uint64_t framework, direct;
    while (at && (at = strpbrk(at, "-0123456789")) &&
           sscanf(at, "%d,%" SCNu64 ",%" SCNu64 "%n", &phase, &framework, &direct, &length) == 3) {
        int to = phase >= 0 && phase < VS_HELD_PHASES - 1 ? phase : VS_HELD_PHASES - 1;
        h->framework[to] = framework;
        h->direct[to] = direct;
        at += length;
    }
}

/* ---- a row ---- */

static int64_t value_of(const struct column *c, const void *member)
{
    uint64_t value = 0;
    int unused = 64 - 8 * c->bytes;
    memcpy(&value, member, c->bytes); /* the low bytes come first on all machines that have a driver */
    return c->is_signed ? (int64_t)(value << unused) >> unused : (int64_t)value;
}

static void bind(sqlite3_stmt *q, int at, const struct column *c, const void *member)
{
    int64_t value = c->how == HELD ? 0 : value_of(c, member);
    bool missing = ((c->how == OR_UNKNOWN || c->how == OR_NOTHING) && value < 0) ||
                   (c->how == OR_NONE && value == 0) || (c->how == NOT_IF_SET && value != 0);
    if (c->how == HELD)
        bind_held(q, at, member);
    else if (c->how == NAMED)
        sqlite3_bind_text(q, at, c->names->at[value < c->names->n ? value : 0], -1, SQLITE_STATIC);
    else if (missing)
        sqlite3_bind_null(q, at);
    else
        sqlite3_bind_int64(q, at, c->how == X512 ? vs_x512((uint64_t)value) : value);
}

int vs_put_row(struct vs_store *s, enum vs_statement table, const void *row)
{
    int rc = vs_sql_prepare(s, table), at = 0;
    if (rc < 0)
        return rc;
    sqlite3_stmt *q = s->sql[table];
    const struct column *c = columns_of(table).at;
    for (int i = 0, n = sqlite3_bind_parameter_count(q); at < n; i++)
        if (c[i].how != PROCESS)
            bind(q, ++at, &c[i], (const char *)row + c[i].offset);
    sqlite3_step(q);
    return vs_sqlite_errno(s, sqlite3_reset(q));
}

int vs_put_rows(struct vs_store *s, enum vs_statement table, const void *rows, size_t n, size_t bytes)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = vs_put_row(s, table, (const char *)rows + i * bytes);
    return rc;
}

static int named(const struct names *names, const char *text)
{
    for (int i = 0; text && i < names->n; i++)
        if (strcmp(text, names->at[i]) == 0)
            return i;
    return -1;
}

bool vs_get_row(sqlite3_stmt *q, enum vs_statement table, void *row)
{
    const struct columns columns = columns_of(table);
    const struct column *c = columns.at;
    bool known = true;
    for (int i = 0; i < columns.n && i < sqlite3_column_count(q); i++) {
        void *member = (char *)row + c[i].offset;
        bool null = sqlite3_column_type(q, i) == SQLITE_NULL;
        int64_t value = c[i].how == NAMED || c[i].how == HELD ? 0 : sqlite3_column_int64(q, i);
        if (c[i].how == HELD) {
            read_held((const char *)sqlite3_column_text(q, i), member);
            continue;
        }
        if (c[i].how == NAMED)
            value = named(c[i].names, (const char *)sqlite3_column_text(q, i));
        else if (c[i].how == X512)
            value = (int64_t)vs_from_x512(value);
        else if (null)
            value = c[i].how == OR_UNKNOWN ? -1 : c[i].how == NOT_IF_SET;
        known = known && (c[i].how != NAMED || value >= 0);
        memcpy(member, &value, c[i].bytes);
    }
    return known;
}
