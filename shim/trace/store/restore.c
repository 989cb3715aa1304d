/* restore.c - loads a ledger from the database, in the order that ledger/restore.c prescribes. */
#include "internal.h"

typedef void load_fn(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q);

static int each_row(struct vs_store *s, struct vs_ledger *l, const char *sql, load_fn *load)
{
    sqlite3_stmt *q;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(q)) == SQLITE_ROW) {
        load(s, l, q);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(q);
    return vs_sqlite_errno(s, rc);
}

/* ---- one function a table ---- */

#define LOAD(name, TABLE, type)                                                                              \
    static void load_##name(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)                        \
    {                                                                                                        \
        struct type row = {0};                                                                               \
        if (vs_get_row(q, VS_SQL_##TABLE, &row))                                                             \
            vs_ledger_restore_##name(l, &row);                                                               \
    }
LOAD(phase, PHASE_STAT, vs_phase_row)
LOAD(zone, ZONE, vs_zone_row)
LOAD(stretch, STRETCH, vs_stretch_row)
LOAD(range, RANGE, vs_range_row)
LOAD(range_peak, RANGE_PEAK, vs_range_peak_row)
LOAD(count, COUNTER, vs_count_row)
LOAD(mismatch, MISMATCH, vs_mismatch_row)
LOAD(doubt, UPPER_BOUND, vs_doubt_row)
LOAD(peak, PEAK, vs_peak_row)
LOAD(totals, PEAK, vs_peak_row)
LOAD(block, LIVE, vs_alloc)
LOAD(away_block, AWAY_BLOCK, vs_away_block_row)

static void load_event(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    static const struct vs_kind none;
    const struct vs_kind *k = vs_kind_at(s, sqlite3_column_int64(q, 5));
    k = k ? k : &none;
    struct vs_row row = {.seq = (uint64_t)sqlite3_column_int64(q, 0),
                         .t = sqlite3_column_int64(q, 1),
                         .op = (uint8_t)sqlite3_column_int(q, 2),
                         .device = (int8_t)sqlite3_column_int(q, 3),
                         .phase = (uint32_t)sqlite3_column_int64(q, 4),
                         .address = vs_from_x512(sqlite3_column_int64(q, 6)),
                         .size = sqlite3_column_type(q, 7) == SQLITE_NULL
                                     ? VS_BYTES_UNKNOWN
                                     : vs_from_x512(sqlite3_column_int64(q, 7)),
                         .range = (uint32_t)sqlite3_column_int64(q, 8),
                         .stack = (uint32_t)sqlite3_column_int64(q, 9),
                         .mate = (uint64_t)sqlite3_column_int64(q, 10),
                         .stream = k->stream,
                         .api = k->api,
                         .thread = k->thread,
                         .status = k->status,
                         .space = (uint8_t)k->space,
                         .context = (uint8_t)k->context,
                         .managed = (uint8_t)k->managed,
                         .tensor = k->tensor};
    vs_ledger_restore_row(l, &row);
}

static void load_at_peak(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    struct vs_alloc_then a = {0};
    vs_get_row(q, VS_SQL_PEAK_LIVE, &a);
    s->peak_seq[a.is.device + 1] = a.then;
    vs_ledger_restore_at_peak(l, a.is.device, &a.is);
}

static void load_oom(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    struct vs_oom_row o = {0};
    vs_get_row(q, VS_SQL_OOM, &o);
    if (o.stored && s->oom_sets < VS_OOMS_MAX)
        s->oom_set[s->oom_sets++] = o.seq;
    vs_ledger_restore_oom(l, &o);
}

static void load_at_oom(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    struct vs_alloc_then a = {0};
    vs_get_row(q, VS_SQL_OOM_LIVE, &a);
    vs_ledger_restore_at_oom(l, a.then, &a.is);
}

static void load_resume(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    uint64_t failed = 0;
    struct vs_resume_row row = {0};
    vs_get_row(q, VS_SQL_RESUME, &row);
    vs_list_push(&s->resume, failed, row); /* a row that is missing here is only written again */
    vs_ledger_restore_resume(l, &row);
}

/* ---- the order ---- */

#define PEAKS                                                                                                \
    "SELECT process,device,kind,ifnull(peak_bytes,known_bytes),seq,t_ns,end_bytes,known_bytes FROM peak"
#define EVENTS "SELECT seq,t,op,device,phase,kind,address,size,range,stack,mate FROM ev WHERE "

struct query {
    const char *sql;
    load_fn *load;
};

static int each(struct vs_store *s, struct vs_ledger *l, const struct query *queries, size_t n)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = each_row(s, l, queries[i].sql, queries[i].load);
    return rc;
}

static const struct query first[] = {{PEAKS, load_peak}, {"SELECT * FROM oom", load_oom}};
static const struct query living[] = {{EVENTS "op<22 OR op=25 OR op=45 OR op>=50 ORDER BY seq", load_event}};
static const struct query living_thinned[] = {{EVENTS "op<20 OR op=25 OR op>=50 ORDER BY seq", load_event},
                                              {"SELECT * FROM live WHERE op=20", load_block}};
static const struct query rest[] = {
    {"SELECT l.* FROM peak_live l JOIN peak p ON p.kind = 'allocated' AND p.device = l.device AND p.seq = "
     "l.peak_seq",
     load_at_peak},
    {"SELECT w.*,o.device FROM oom_live w JOIN oom o ON o.seq = w.oom_seq", load_at_oom},
    {PEAKS, load_totals},
    {"SELECT * FROM stretch WHERE folded IS NULL", load_stretch},
    {"SELECT * FROM phase_stat", load_phase},
    {"SELECT * FROM zone WHERE first_seq >= (SELECT first_seq FROM stretch WHERE folded IS NULL) ORDER BY "
     "first_seq",
     load_zone},
    {"SELECT * FROM rng WHERE t_pop IS NULL OR id > (SELECT max(id) FROM rng) - 4096 ORDER BY id",
     load_range},
    {"SELECT * FROM range_peak WHERE range IN (SELECT id FROM rng WHERE t_pop IS NULL)", load_range_peak},
    {"SELECT * FROM counter", load_count},
    {"SELECT * FROM mismatch ORDER BY rowid", load_mismatch},
    {"SELECT * FROM away_block WHERE seq IN (SELECT max(seq) FROM away_block GROUP BY device, why)",
     load_away_block},
    {"SELECT * FROM upper_bound WHERE to_seq IS NULL", load_doubt}};
static const struct query last[] = {{"SELECT * FROM resume", load_resume}};

#define EACH(queries) each(s, l, queries, sizeof queries / sizeof *queries)

int vs_store_load(struct vs_store *s, struct vs_ledger *l)
{
    if (s->fresh)
        return 0;
    int rc = EACH(first);
    vs_ledger_restore_begin(l);
    if (rc == 0)
        rc = s->thinned_from ? EACH(living_thinned) : EACH(living);
    if (rc == 0)
        rc = EACH(rest);
    vs_ledger_restore_end(l, (uint64_t)vs_store_number(s, "SELECT upto_seq FROM mark", 0),
                          (uint64_t)vs_store_number(s, "SELECT ring_seq FROM mark", 0));
    return rc == 0 ? EACH(last) : rc;
}
