/*
 * fold_sums.c - replaces the events of a folded stretch: one zone for each device and phase, sums of its
 * ranges, extremes of its samples, and what was away at the moments that remain.
 *
 * Folding a stretch and joining two folded ones are the same here: the rows between two sequence numbers
 * become one set.  A maximum keeps its time and its holders; of equal figures the earlier one is kept.
 */
#include "fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 64 /* of ranges, one by one, in one stretch */
#define NAME_REST (-1)

/* ---- zones ---- */

/* FROM comes later. */
static void zone_join(struct vs_zone_row *to, const struct vs_zone_row *from)
{
    if (from->max_allocated > to->max_allocated) {
        to->max_allocated = from->max_allocated;
        to->max_t = from->max_t;
        to->reserved_at_max = from->reserved_at_max;
        to->held = from->held;
    }
    if (from->min_allocated < to->min_allocated) {
        to->min_allocated = from->min_allocated;
        to->min_t = from->min_t;
        to->reserved_at_min = from->reserved_at_min;
    }
    if (from->max_reserved > to->max_reserved) {
        to->max_reserved = from->max_reserved;
        to->max_reserved_t = from->max_reserved_t;
    }
    if (from->min_reserved < to->min_reserved) {
        to->min_reserved = from->min_reserved;
        to->min_reserved_t = from->min_reserved_t;
    }
    to->events += from->events;
    to->last_seq = from->last_seq;
    to->t_last = from->t_last;
    to->last_framework = from->last_framework;
    to->last_direct = from->last_direct;
    to->last_reserved = from->last_reserved;
}

struct zones {
    VS_LIST(struct vs_zone_row, at);
};

static int zone_add(struct zones *zones, const struct vs_zone_row *z)
{
    uint64_t failed = 0;
    for (size_t i = 0; i < zones->at.n; i++) {
        struct vs_zone_row *to = &zones->at.at[i];
        if (to->device != z->device || to->phase != z->phase)
            continue;
        zone_join(to, z);
        return 0;
    }
    vs_list_push(&zones->at, failed, *z);
    return failed ? -ENOMEM : 0;
}

static int fold_zones(struct vs_store *s, uint64_t first, uint64_t last, uint32_t *rows)
{
    struct zones zones = {0};
    sqlite3_stmt *q = vs_fold_query(s, VS_SQL_FOLD_ZONES, (int64_t)first, (int64_t)last);
    int rc = q ? 0 : -EIO;
    while (rc == 0 && sqlite3_step(q) == SQLITE_ROW) {
        struct vs_zone_row z = {0};
        vs_get_row(q, VS_SQL_ZONE, &z);
        z.stretch = first;
        rc = zone_add(&zones, &z);
    }
    sqlite3_reset(q);
    if (rc == 0)
        rc = vs_sql_run(s, VS_SQL_FOLD_ZONES_GONE, "ii", (int64_t)first, (int64_t)last);
    if (rc == 0)
        rc = vs_put_rows(s, VS_SQL_ZONE, zones.at.at, zones.at.n, sizeof *zones.at.at);
    *rows += (uint32_t)zones.at.n;
    free(zones.at.at);
    return rc;
}

/* ---- samples ---- */

/* The extremes of one device and source. */
enum { MOST_USED, LEAST_USED, MOST_BEYOND, LEAST_BEYOND, MOST_RSS, MOST_PINNED, FIRST, LAST, EXTREMES };
struct extremes {
    struct vs_sample_row at[EXTREMES];
};

static int64_t beyond_reserved(const struct vs_sample_row *p)
{
    return (int64_t)(p->used - p->reserved);
}

static void extremes_add(struct extremes *e, const struct vs_sample_row *p)
{
    struct vs_sample_row *a = e->at;
    int64_t beyond = beyond_reserved(p);
    const bool better[EXTREMES] = {
        [MOST_USED] = p->used > a[MOST_USED].used,
        [LEAST_USED] = p->used<a[LEAST_USED].used, [MOST_BEYOND] = beyond> beyond_reserved(&a[MOST_BEYOND]),
        [LEAST_BEYOND] = beyond<beyond_reserved(&a[LEAST_BEYOND]), [MOST_RSS] = p->rss> a[MOST_RSS].rss,
        [MOST_PINNED] = p->pinned > a[MOST_PINNED].pinned,
        [LAST] = true};
    for (int i = 0; i < EXTREMES; i++)
        if (better[i])
            a[i] = *p;
}

struct sample_set {
    VS_LIST(struct extremes, kinds);
    VS_LIST(uint64_t, seqs);
};

static int sample_add(struct sample_set *set, const struct vs_sample_row *p)
{
    uint64_t failed = 0;
    vs_list_push(&set->seqs, failed, p->seq);
    for (size_t i = 0; i < set->kinds.n; i++)
        if (set->kinds.at[i].at[0].device == p->device && set->kinds.at[i].at[0].source == p->source) {
            extremes_add(&set->kinds.at[i], p);
            return failed ? -ENOMEM : 0;
        }
    struct extremes e;
    for (int i = 0; i < EXTREMES; i++)
        e.at[i] = *p;
    vs_list_push(&set->kinds, failed, e);
    return failed ? -ENOMEM : 0;
}

static bool is_extreme(const struct sample_set *set, uint64_t seq)
{
    for (size_t i = 0; i < set->kinds.n; i++)
        for (int k = 0; k < EXTREMES; k++)
            if (set->kinds.at[i].at[k].seq == seq)
                return true;
    return false;
}

static int fold_samples(struct vs_store *s, uint64_t first, uint64_t last, uint32_t *rows)
{
    struct sample_set set = {0};
    sqlite3_stmt *q = vs_fold_query(s, VS_SQL_FOLD_SAMPLES, (int64_t)first, (int64_t)last);
    int rc = q ? 0 : -EIO, code;
    while (rc == 0 && (code = sqlite3_step(q)) == SQLITE_ROW) {
        struct vs_sample_row p = {0};
        vs_get_row(q, VS_SQL_SAMPLE, &p);
        rc = sample_add(&set, &p);
    }
    sqlite3_reset(q);
    for (size_t i = 0; rc == 0 && i < set.seqs.n; i++) {
        bool stays = is_extreme(&set, set.seqs.at[i]);
        *rows += stays;
        if (!stays)
            rc = vs_sql_run(s, VS_SQL_SAMPLE_GONE, "i", (int64_t)set.seqs.at[i]);
    }
    free(set.kinds.at);
    free(set.seqs.at);
    return rc;
}

/* ---- ranges ---- */

struct range_sum {
    int64_t phase, name, domain, device, ranges, ns, allocated, t, reserved;
};

struct range_sums {
    VS_LIST(struct range_sum, at);
    size_t names;
};

static struct range_sum *find_sum(struct range_sums *sums, const struct range_sum *r, int64_t device)
{
    for (size_t i = 0; i < sums->at.n; i++) {
        struct range_sum *a = &sums->at.at[i];
        if (a->phase == r->phase && a->name == r->name && a->domain == r->domain && a->device == device)
            return a;
    }
    return NULL;
}

static int sum_add(struct range_sums *sums, struct range_sum r)
{
    uint64_t failed = 0;
    struct range_sum *to = find_sum(sums, &r, r.device);
    if (!to && sums->names >= NAMES_MAX && !find_sum(sums, &r, -1)) {
        r.name = NAME_REST;
        r.domain = 0;
        to = find_sum(sums, &r, r.device);
    }
    if (!to) {
        sums->names += r.device < 0;
        vs_list_push(&sums->at, failed, r);
        return failed ? -ENOMEM : 0;
    }
    to->ranges += r.ranges;
    to->ns += r.ns;
    if (r.allocated > to->allocated) {
        to->allocated = r.allocated;
        to->t = r.t;
    }
    to->reserved = r.reserved > to->reserved ? r.reserved : to->reserved;
    return 0;
}

/* A figure that is unknown for one range is unknown for the sum: "unknown" is greater than any figure, and
 * written as NULL again. */
#define UNKNOWN_PEAK INT64_MAX

static int64_t allocated_in(sqlite3_stmt *q, int column)
{
    bool unknown = sqlite3_column_type(q, column) == SQLITE_NULL;
    return unknown ? UNKNOWN_PEAK : sqlite3_column_int64(q, column);
}

static int sums_read(struct vs_store *s, struct range_sums *sums, uint64_t first, uint64_t last)
{
    sqlite3_stmt *q = vs_fold_query(s, VS_SQL_FOLD_RANGES, (int64_t)first, (int64_t)last);
    int rc = q ? 0 : -EIO, code;
    while (rc == 0 && (code = sqlite3_step(q)) == SQLITE_ROW) {
        int64_t v[9];
        for (int i = 0; i < 9; i++)
            v[i] = i == 6 ? allocated_in(q, i) : sqlite3_column_int64(q, i);
        rc = sum_add(sums, (struct range_sum){v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]});
    }
    sqlite3_reset(q);
    return rc;
}

/* Replaces the rows from FIRST to LAST. */
static int sums_write(struct vs_store *s, struct range_sums *sums, uint64_t first, uint64_t last)
{
    int rc = vs_sql_run(s, VS_SQL_FOLD_RANGES_GONE, "ii", (int64_t)first, (int64_t)last);
    for (size_t i = 0; rc == 0 && i < sums->at.n; i++) {
        const struct range_sum *r = &sums->at.at[i];
        bool peak = r->device >= 0; /* device -1 counts alone */
        bool known = peak && r->allocated != UNKNOWN_PEAK;
        rc = vs_sql_run(s, VS_SQL_FOLD_RANGE, "iiiiiiinnn", (int64_t)first, r->phase, r->name, r->domain,
                        r->device, r->ranges, r->ns, known ? r->allocated : (int64_t)-1,
                        peak ? r->t : (int64_t)-1, peak ? r->reserved : (int64_t)-1);
    }
    free(sums->at.at);
    return rc;
}

/* Adds a range whose rows are deleted to the sums, one device at a time. */
static int sum_range(struct vs_store *s, struct range_sums *sums, int64_t id, const struct range_sum *range)
{
    int rc = sum_add(sums, *range), code;
    sqlite3_stmt *q = vs_fold_query(s, VS_SQL_RANGE_PEAK_READ, id, 0);
    while (rc == 0 && q && (code = sqlite3_step(q)) == SQLITE_ROW) {
        struct range_sum on = *range;
        on.device = sqlite3_column_int64(q, 1);
        on.ns = 0;
        on.allocated = allocated_in(q, 2);
        on.reserved = sqlite3_column_int64(q, 3);
        on.t = sqlite3_column_int64(q, 4);
        rc = sum_add(sums, on);
    }
    sqlite3_reset(q);
    if (rc == 0)
        rc = vs_sql_run(s, VS_SQL_RANGE_GONE, "i", id);
    return rc == 0 ? vs_sql_run(s, VS_SQL_RANGE_PEAK_GONE, "i", id) : rc;
}

/* Whether its push and its pop are both folded, or the pop was lost. */
static bool range_goes(struct vs_store *s, const struct vs_commit *c, const struct vs_stretch *stretch,
                       const struct vs_range_row *r, bool popped)
{
    struct vs_fold *f = s->fold;
    if (popped)
        return r->first_seq >= f->first || !vs_fold_in_full(f, r->first_seq);
    if (r->t_pop < 0)
        return !vs_ledger_range_open(c->ledger, r->id);
    return r->t_pop <= stretch->t_last || vs_fold_at(f, r->t_pop);
}

static int fold_range(struct vs_store *s, const struct vs_commit *c, const struct vs_stretch *stretch,
                      struct range_sums *sums, int64_t id, bool popped)
{
    sqlite3_stmt *q = vs_fold_query(s, VS_SQL_RANGE_READ, id, 0);
    struct vs_range_row r = {0};
    bool there = q && sqlite3_step(q) == SQLITE_ROW && vs_get_row(q, VS_SQL_RANGE, &r);
    sqlite3_reset(q);
    if (!there || !range_goes(s, c, stretch, &r, popped))
        return 0;
    bool timed = r.t_pop >= 0 && (r.outermost || r.phase == VS_PHASE_NONE);
    return sum_range(s, sums, id,
                     &(struct range_sum){.phase = r.phase,
                                         .name = r.name,
                                         .domain = r.domain,
                                         .device = -1,
                                         .ranges = 1,
                                         .ns = timed ? r.t_pop - r.t_push : 0});
}

int vs_fold_ranges(struct vs_store *s, const struct vs_commit *c, const struct vs_stretch *stretch)
{
    struct vs_fold *f = s->fold;
    struct range_sums sums = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < f->popped.n; i++)
        rc = fold_range(s, c, stretch, &sums, (int64_t)f->popped.at[i], true);
    for (size_t i = 0; rc == 0 && i < f->pushed.n; i++)
        rc = fold_range(s, c, stretch, &sums, (int64_t)f->pushed.at[i], false);
    int written = sums_write(s, &sums, stretch->first_seq, stretch->first_seq);
    return rc < 0 ? rc : written;
}

/* ---- all of them ---- */

int vs_fold_sums(struct vs_store *s, uint64_t first, uint64_t last, uint32_t *rows)
{
    struct range_sums sums = {0};
    *rows = 0;
    int rc = fold_zones(s, first, last, rows);
    if (rc == 0)
        rc = fold_samples(s, first, last, rows);
    if (rc == 0) /* after the zones: what holds at their moments stays */
        rc = vs_sql_run(s, VS_SQL_FOLD_AWAYS, "ii", (int64_t)first, (int64_t)last);
    if (rc == 0)
        rc = vs_sql_run(s, VS_SQL_FOLD_AWAY_BLOCKS, "ii", (int64_t)first, (int64_t)last);
    if (rc == 0)
        rc = vs_sql_run(s, VS_SQL_FOLD_STEPS, "ii", (int64_t)first, (int64_t)last);
    if (rc == 0)
        rc = vs_sql_run(s, VS_SQL_FOLD_MOMENTS, "ii", (int64_t)first, (int64_t)last);
    if (rc == 0)
        rc = sums_read(s, &sums, first, last);
    *rows += (uint32_t)sums.at.n;
    if (rc == 0)
        return sums_write(s, &sums, first, last);
    free(sums.at.at);
    return rc;
}
