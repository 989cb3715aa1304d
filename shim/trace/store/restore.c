/* restore.c - loads a ledger from the database, in the order that ledger/restore.c prescribes. */
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int64_t i64(sqlite3_stmt *q, int column)
{
    return sqlite3_column_int64(q, column);
}

static uint64_t u64(sqlite3_stmt *q, int column)
{
    return (uint64_t)sqlite3_column_int64(q, column);
}

static int name_index(sqlite3_stmt *q, int column, const char *const *names, int n)
{
    const char *text = (const char *)sqlite3_column_text(q, column);
    for (int i = 0; text && i < n; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    return -1;
}

/* ---- one function a table ---- */

static bool peak_row(sqlite3_stmt *q, struct vs_peak_row *row)
{
    static const char *const names[] = {
#define X(NAME, name) name,
        VS_CURVES(X)
#undef X
#define X(n, NAME, name) name,
            VS_SPACES(X)
#undef X
    };
    int curve = name_index(q, 1, names, (int)(sizeof names / sizeof *names));
    *row = (struct vs_peak_row){(int)i64(q, 0),   curve,    u64(q, 2), u64(q, 3), u64(q, 5),
                                VS_BYTES_UNKNOWN, i64(q, 4)};
    return curve >= 0;
}

static void load_peak(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    struct vs_peak_row row;
    if (peak_row(q, &row))
        vs_ledger_restore_peak(l, &row);
}

static void load_totals(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    struct vs_peak_row row;
    if (peak_row(q, &row))
        vs_ledger_restore_totals(l, &row);
}

static void load_event(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    uint64_t kind = u64(q, 5);
    struct vs_kind none = {0}, *k = kind > 0 && kind <= s->kinds.n ? &s->kinds.at[kind - 1] : &none;
    struct vs_row row = {.seq = u64(q, 0),
                         .t = i64(q, 1),
                         .op = (uint8_t)i64(q, 2),
                         .device = (int8_t)i64(q, 3),
                         .phase = (uint32_t)i64(q, 4),
                         .address = vs_from_x512(i64(q, 6)),
                         .size = sqlite3_column_type(q, 7) == SQLITE_NULL ? VS_BYTES_UNKNOWN
                                                                          : vs_from_x512(i64(q, 7)),
                         .range = (uint32_t)i64(q, 8),
                         .stack = (uint32_t)i64(q, 9),
                         .mate = u64(q, 10),
                         .stream = k->stream,
                         .api = k->api,
                         .thread = k->thread,
                         .status = k->status,
                         .space = k->space,
                         .context = k->context,
                         .managed = k->managed,
                         .tensor = k->tensor};
    vs_ledger_restore_row(l, &row);
}

/* TENSOR: the column. */
static struct vs_alloc alloc_row(sqlite3_stmt *q, bool units, int tensor)
{
    return (struct vs_alloc){.seq = u64(q, 0),
                             .op = (uint8_t)i64(q, 1),
                             .device = (int8_t)i64(q, 2),
                             .space = (uint8_t)i64(q, 3),
                             .address = units ? vs_from_x512(i64(q, 4)) : u64(q, 4),
                             .size = units ? vs_from_x512(i64(q, 5)) : u64(q, 5),
                             .t = i64(q, 6),
                             .phase = (uint32_t)i64(q, 7),
                             .range = (uint32_t)i64(q, 8),
                             .stack = (uint32_t)i64(q, 9),
                             .tensor = (uint32_t)i64(q, tensor)};
}

static void load_block(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    struct vs_alloc a = alloc_row(q, true, 10);
    vs_ledger_restore_block(l, &a);
}

static void load_at_peak(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    struct vs_alloc a = alloc_row(q, false, 11);
    s->peak_seq[a.device + 1] = u64(q, 10);
    vs_ledger_restore_at_peak(l, a.device, &a);
}

/* The columns of oom but process, in their order; NULL is unknown. */
static uint64_t known(sqlite3_stmt *q, int column)
{
    return sqlite3_column_type(q, column) == SQLITE_NULL ? VS_BYTES_UNKNOWN : u64(q, column);
}

static void load_oom(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    struct vs_oom_row o = {.seq = u64(q, 0),
                           .roles = (uint8_t)i64(q, 1),
                           .t = i64(q, 2),
                           .device = (int)i64(q, 3),
                           .op = (uint8_t)i64(q, 4),
                           .space = (uint8_t)i64(q, 5),
                           .context = (uint8_t)i64(q, 6),
                           .api = (uint16_t)i64(q, 7),
                           .thread = (uint16_t)i64(q, 8),
                           .phase = (uint32_t)i64(q, 9),
                           .range = (uint32_t)i64(q, 10),
                           .stack = (uint32_t)i64(q, 11),
                           .step = u64(q, 12),
                           .requested = u64(q, 13),
                           .asked_driver = u64(q, 14),
                           .refusals = u64(q, 15),
                           .framework = u64(q, 16),
                           .direct = u64(q, 17),
                           .managed = u64(q, 18),
                           .unknown_use = u64(q, 19),
                           .reserved = u64(q, 20),
                           .base = u64(q, 21),
                           .pinned = u64(q, 22),
                           .registered = u64(q, 23),
                           .free_bytes = known(q, 24),
                           .free_t = i64(q, 25),
                           .reserved_then = known(q, 26),
                           .process_used = known(q, 27),
                           .process_used_t = i64(q, 28),
                           .device_used = known(q, 29),
                           .device_used_t = i64(q, 30),
                           .tensor = (uint32_t)i64(q, 32)};
    if (i64(q, 31) && s->oom_sets < VS_OOMS_MAX)
        s->oom_set[s->oom_sets++] = o.seq;
    vs_ledger_restore_oom(l, &o);
}

static void load_at_oom(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    struct vs_alloc a = alloc_row(q, false, 11);
    vs_ledger_restore_at_oom(l, u64(q, 10), &a);
}

static void load_phase(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    vs_ledger_restore_phase(
        l, &(struct vs_phase_row){.device = (int)i64(q, 0),
                                  .phase = (uint32_t)i64(q, 1),
                                  .ranges = u64(q, 2),
                                  .ns = sqlite3_column_type(q, 3) == SQLITE_NULL ? -1 : i64(q, 3),
                                  .events = u64(q, 4),
                                  .allocated = u64(q, 5),
                                  .reserved = u64(q, 6),
                                  .end_allocated = u64(q, 7),
                                  .t_allocated = i64(q, 8)});
}

/* As batch.c writes it. */
static struct vs_held held_of(sqlite3_stmt *q, int column)
{
    struct vs_held h = {0};
    const char *at = (const char *)sqlite3_column_text(q, column);
    int phase, length;
    uint64_t framework, direct;
    while (at && (at = strpbrk(at, "-0123456789")) &&
           sscanf(at, "%d,%" SCNu64 ",%" SCNu64 "%n", &phase, &framework, &direct, &length) == 3) {
        int to = phase >= 0 && phase < VS_HELD_PHASES - 1 ? phase : VS_HELD_PHASES - 1;
        h.framework[to] = framework;
        h.direct[to] = direct;
        at += length;
    }
    return h;
}

static void load_zone(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    vs_ledger_restore_zone(l, &(struct vs_zone_row){.first_seq = u64(q, 0),
                                                    .last_seq = u64(q, 1),
                                                    .device = (int)i64(q, 2),
                                                    .phase = (uint32_t)i64(q, 3),
                                                    .t_first = i64(q, 4),
                                                    .t_last = i64(q, 5),
                                                    .min_allocated = u64(q, 6),
                                                    .max_allocated = u64(q, 7),
                                                    .max_t = i64(q, 8),
                                                    .min_reserved = u64(q, 9),
                                                    .max_reserved = u64(q, 10),
                                                    .last_framework = u64(q, 11),
                                                    .last_direct = u64(q, 12),
                                                    .last_reserved = u64(q, 13),
                                                    .events = (uint32_t)i64(q, 14),
                                                    .min_t = i64(q, 15),
                                                    .max_reserved_t = i64(q, 16),
                                                    .min_reserved_t = i64(q, 17),
                                                    .reserved_at_max = u64(q, 18),
                                                    .reserved_at_min = u64(q, 19),
                                                    .held = held_of(q, 20)});
}

static void load_stretch(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    vs_ledger_restore_stretch(l, &(struct vs_stretch_row){.first_seq = u64(q, 0),
                                                          .last_seq = u64(q, 1),
                                                          .t_first = i64(q, 2),
                                                          .t_last = i64(q, 3),
                                                          .first_step = u64(q, 4),
                                                          .last_step = u64(q, 5),
                                                          .steps = u64(q, 6),
                                                          .ranges = u64(q, 7),
                                                          .samples = u64(q, 8),
                                                          .unwritten = u64(q, 9),
                                                          .bytes = u64(q, 10),
                                                          .open = true});
}

static void load_range(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    vs_ledger_restore_range(
        l, &(struct vs_range_row){.id = (uint32_t)i64(q, 0),
                                  .phase = (uint32_t)i64(q, 1),
                                  .name = (uint32_t)i64(q, 2),
                                  .domain = (uint32_t)i64(q, 3),
                                  .source = (uint8_t)i64(q, 4),
                                  .outermost = i64(q, 5) & 1,
                                  .cross_thread = i64(q, 5) & 2,
                                  .lost = i64(q, 5) & 4,
                                  .parent = (uint32_t)i64(q, 6),
                                  .thread = (uint16_t)i64(q, 7),
                                  .step = (uint32_t)i64(q, 8),
                                  .first_seq = u64(q, 9),
                                  .t_push = i64(q, 10),
                                  .t_pop = sqlite3_column_type(q, 11) == SQLITE_NULL ? -1 : i64(q, 11)});
}

static void load_range_peak(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    vs_ledger_restore_range_peak(
        l, &(struct vs_range_peak_row){(uint32_t)i64(q, 0), (int)i64(q, 1), u64(q, 2), u64(q, 3), i64(q, 4)});
}

static void load_count(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    static const char *const names[] = {
#define X(NAME, name) name,
        VS_COUNTS(X)
#undef X
    };
    int what = name_index(q, 1, names, VS_COUNT_END);
    if (what >= 0)
        vs_ledger_restore_count(l, &(struct vs_count_row){(int)i64(q, 0), (enum vs_count)what, u64(q, 2)});
}

static void load_mismatch(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    static const char *const names[] = {
#define X(NAME, name) name,
        VS_MISMATCHES(X)
#undef X
    };
    int what = name_index(q, 1, names, VS_MISMATCH_END);
    if (what >= 0)
        vs_ledger_restore_mismatch(l, &(struct vs_mismatch_row){.device = (int)i64(q, 0),
                                                                .what = (enum vs_mismatch)what,
                                                                .ours = u64(q, 2),
                                                                .theirs = u64(q, 3)});
}

static void load_resume(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    uint64_t failed = 0;
    struct vs_resume_row row = {
        (enum vs_resume)i64(q, 0), u64(q, 1), {u64(q, 2), u64(q, 3), u64(q, 4), u64(q, 5)}};
    vs_list_push(&s->resume, failed, row); /* a row that is missing here is only written again */
    vs_ledger_restore_resume(l, &row);
}

/* ---- the order ---- */

#define PEAKS "SELECT device,kind,ifnull(peak_bytes,known_bytes),seq,t_ns,end_bytes FROM peak"
#define OOMS                                                                                                 \
    "SELECT seq,role,t_ns,device,op,space,context,api,thread,phase,range,stack,step,requested_bytes,"        \
    "asked_driver_bytes,refusals,framework_bytes,direct_bytes,managed_reserved_bytes,unknown_use_bytes,"     \
    "reserved_bytes,"                                                                                        \
    "base_bytes,pinned_bytes,registered_bytes,free_bytes,free_t_ns,free_reserved_bytes,process_used_bytes,"  \
    "process_used_t_ns,device_used_bytes,device_used_t_ns,stored,tensor FROM oom"
#define EVENTS "SELECT seq,t,op,device,phase,kind,address,size,range,stack,mate FROM ev WHERE "

static int load_living(struct vs_store *s, struct vs_ledger *l)
{
    bool thinned = s->thinned_from != 0;
    int rc = each_row(s, l,
                      thinned ? EVENTS "op<20 OR op=25 OR op>=50 ORDER BY seq"
                              : EVENTS "op<22 OR op=25 OR op>=50 ORDER BY seq",
                      load_event);
    if (rc == 0 && thinned)
        rc = each_row(
            s, l,
            "SELECT alloc_seq,op,device,space,address,size,t,phase,range,stack,tensor FROM live WHERE op=20",
            load_block);
    if (rc == 0)
        rc = each_row(
            s, l,
            "SELECT l.alloc_seq,l.op,l.device,l.space,l.address,l.size_bytes,l.t_ns,l.phase,l.range,"
            "l.stack,l.peak_seq,l.tensor FROM peak_live l JOIN peak p ON p.kind = 'allocated' AND p.device = "
            "l.device AND p.seq = l.peak_seq",
            load_at_peak);
    if (rc == 0)
        rc =
            each_row(s, l,
                     "SELECT w.alloc_seq,w.op,o.device,w.space,w.address,w.size_bytes,w.t_ns,w.phase,w.range,"
                     "w.stack,w.oom_seq,w.tensor FROM oom_live w JOIN oom o ON o.seq = w.oom_seq",
                     load_at_oom);
    return rc;
}

static int load_ranges(struct vs_store *s, struct vs_ledger *l)
{
    int rc = each_row(s, l,
                      "SELECT id,phase,name,domain,source,flags,parent,thread,step,first_seq,t_push,t_pop "
                      "FROM rng WHERE t_pop IS NULL "
                      "OR id > (SELECT max(id) FROM rng) - 4096 ORDER BY id",
                      load_range);
    if (rc == 0)
        rc =
            each_row(s, l,
                     "SELECT range,device,allocated_bytes,reserved_bytes,t_ns FROM range_peak WHERE range IN "
                     "(SELECT id FROM rng WHERE t_pop IS NULL)",
                     load_range_peak);
    return rc;
}

static void load_doubt(struct vs_store *s, struct vs_ledger *l, sqlite3_stmt *q)
{
    bool reserved = strcmp((const char *)sqlite3_column_text(q, 1), "reserved") == 0;
    vs_ledger_restore_doubt(l,
                            &(struct vs_doubt_row){.device = (int)i64(q, 0),
                                                   .curve = reserved ? VS_CURVE_RESERVED : VS_CURVE_ALLOCATED,
                                                   .from_seq = (uint64_t)i64(q, 2),
                                                   .t_from = i64(q, 3),
                                                   .t_to = -1});
}

static int load_aggregates(struct vs_store *s, struct vs_ledger *l)
{
    int rc = each_row(s, l, PEAKS, load_totals);
    if (rc == 0)
        rc = each_row(s, l,
                      "SELECT first_seq,last_seq,t_first,t_last,first_step,last_step,steps,ranges,samples,"
                      "unwritten,bytes FROM stretch WHERE folded IS NULL",
                      load_stretch);
    if (rc == 0)
        rc = each_row(s, l,
                      "SELECT "
                      "device,phase,ranges,ns,events,allocated_bytes,reserved_bytes,end_allocated_bytes,t_"
                      "allocated_ns FROM phase_stat",
                      load_phase);
    if (rc == 0)
        rc = each_row(
            s, l,
            "SELECT "
            "first_seq,last_seq,device,phase,t_first,t_last,min_allocated,max_allocated,max_allocated_t,min_"
            "reserved,"
            "max_reserved,last_framework,last_direct,last_reserved,events,min_allocated_t,max_reserved_t,"
            "min_reserved_t,reserved_at_max,reserved_at_min,held FROM zone WHERE first_seq >= (SELECT "
            "first_seq FROM stretch WHERE folded IS NULL) ORDER BY first_seq",
            load_zone);
    if (rc == 0)
        rc = load_ranges(s, l);
    if (rc == 0)
        rc = each_row(s, l, "SELECT device,name,value FROM counter", load_count);
    if (rc == 0)
        rc = each_row(s, l, "SELECT device,what,ours_bytes,theirs_bytes FROM mismatch ORDER BY rowid",
                      load_mismatch);
    if (rc == 0)
        rc = each_row(s, l, "SELECT device,kind,from_seq,t_from_ns FROM upper_bound WHERE to_seq IS NULL",
                      load_doubt);
    return rc;
}

int vs_store_load(struct vs_store *s, struct vs_ledger *l)
{
    if (s->fresh)
        return 0;
    int rc = each_row(s, l, PEAKS, load_peak);
    if (rc == 0)
        rc = each_row(s, l, OOMS, load_oom);
    vs_ledger_restore_begin(l);
    if (rc == 0)
        rc = load_living(s, l);
    if (rc == 0)
        rc = load_aggregates(s, l);
    vs_ledger_restore_end(l, (uint64_t)vs_store_number(s, "SELECT upto_seq FROM mark", 0),
                          (uint64_t)vs_store_number(s, "SELECT ring_seq FROM mark", 0));
    if (rc == 0)
        rc = each_row(s, l, "SELECT what,id,a,b,c,d FROM resume", load_resume);
    return rc;
}
