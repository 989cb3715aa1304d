/*
 * fold_sums.c - replaces the events of a folded stretch: one zone for each device and phase, sums of its
 * ranges, extremes of its samples.
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

enum zone_column {
    Z_FIRST,
    Z_LAST,
    Z_DEVICE,
    Z_PHASE,
    Z_T_FIRST,
    Z_T_LAST,
    Z_MIN,
    Z_MAX,
    Z_MAX_T,
    Z_MIN_R,
    Z_MAX_R,
    Z_LAST_FRAMEWORK,
    Z_LAST_DIRECT,
    Z_LAST_RESERVED,
    Z_EVENTS,
    Z_MIN_T,
    Z_MAX_R_T,
    Z_MIN_R_T,
    Z_R_AT_MAX,
    Z_R_AT_MIN,
    Z_END
};

struct zone {
    int64_t v[Z_END];
    char *held;
};

static void zone_read(sqlite3_stmt *q, struct zone *z)
{
    for (int i = 0; i < Z_END; i++)
        z->v[i] = sqlite3_column_int64(q, i);
    const char *held = (const char *)sqlite3_column_text(q, Z_END);
    z->held = held ? strdup(held) : NULL;
}

static void take(struct zone *to, const struct zone *from, enum zone_column value, enum zone_column moment,
                 enum zone_column beside)
{
    to->v[value] = from->v[value];
    to->v[moment] = from->v[moment];
    if (beside != Z_END)
        to->v[beside] = from->v[beside];
}

/* FROM comes later. */
static void zone_join(struct zone *to, struct zone *from)
{
    if (from->v[Z_MAX] > to->v[Z_MAX]) {
        char *held = to->held;
        take(to, from, Z_MAX, Z_MAX_T, Z_R_AT_MAX);
        to->held = from->held;
        from->held = held;
    }
    if (from->v[Z_MIN] < to->v[Z_MIN])
        take(to, from, Z_MIN, Z_MIN_T, Z_R_AT_MIN);
    if (from->v[Z_MAX_R] > to->v[Z_MAX_R])
        take(to, from, Z_MAX_R, Z_MAX_R_T, Z_END);
    if (from->v[Z_MIN_R] < to->v[Z_MIN_R])
        take(to, from, Z_MIN_R, Z_MIN_R_T, Z_END);
    to->v[Z_EVENTS] += from->v[Z_EVENTS];
    to->v[Z_LAST] = from->v[Z_LAST];
    to->v[Z_T_LAST] = from->v[Z_T_LAST];
    to->v[Z_LAST_FRAMEWORK] = from->v[Z_LAST_FRAMEWORK];
    to->v[Z_LAST_DIRECT] = from->v[Z_LAST_DIRECT];
    to->v[Z_LAST_RESERVED] = from->v[Z_LAST_RESERVED];
    free(from->held);
}

struct zones {
    VS_LIST(struct zone, at);
};

static int zone_add(struct zones *zones, struct zone *z)
{
    uint64_t failed = 0;
    for (size_t i = 0; i < zones->at.n; i++) {
        struct zone *to = &zones->at.at[i];
        if (to->v[Z_DEVICE] != z->v[Z_DEVICE] || to->v[Z_PHASE] != z->v[Z_PHASE])
            continue;
        zone_join(to, z);
        return 0;
    }
    vs_list_push(&zones->at, failed, *z);
    if (failed)
        free(z->held);
    return failed ? -ENOMEM : 0;
}

static int zone_write(struct vs_store *s, const struct zone *z, uint64_t stretch)
{
    const int64_t *v = z->v;
    return vs_sql_run(s, VS_SQL_ZONE, "iiiiiiiiiiiiiiiiiiiiti", v[0], v[1], v[2], v[3], v[4], v[5], v[6],
                      v[7], v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16], v[17], v[18], v[19],
                      z->held, (int64_t)stretch);
}

static int fold_zones(struct vs_store *s, uint64_t first, uint64_t last, uint32_t *rows)
{
    struct zones zones = {0};
    sqlite3_stmt *q = vs_fold_query(s, VS_SQL_FOLD_ZONES, (int64_t)first, (int64_t)last);
    int rc = q ? 0 : -EIO, code;
    while (rc == 0 && (code = sqlite3_step(q)) == SQLITE_ROW) {
        struct zone z;
        zone_read(q, &z);
        rc = zone_add(&zones, &z);
    }
    if (q)
        sqlite3_reset(q);
    if (rc == 0)
        rc = vs_sql_run(s, VS_SQL_FOLD_ZONES_GONE, "ii", (int64_t)first, (int64_t)last);
    for (size_t i = 0; i < zones.at.n; i++) {
        if (rc == 0)
            rc = zone_write(s, &zones.at.at[i], first);
        free(zones.at.at[i].held);
    }
    *rows += (uint32_t)zones.at.n;
    free(zones.at.at);
    return rc;
}

/* ---- samples ---- */

struct sample {
    int64_t seq, device, source, used, beyond, rss, pinned;
};

/* The extremes of one device and source. */
enum { MOST_USED, LEAST_USED, MOST_BEYOND, LEAST_BEYOND, MOST_RSS, MOST_PINNED, FIRST, LAST, EXTREMES };
struct extremes {
    struct sample at[EXTREMES];
};

static void extremes_add(struct extremes *e, const struct sample *p)
{
    struct sample *a = e->at;
    const bool better[EXTREMES] = {
        [MOST_USED] = p->used > a[MOST_USED].used,
        [LEAST_USED] = p->used<a[LEAST_USED].used, [MOST_BEYOND] = p->beyond> a[MOST_BEYOND].beyond,
        [LEAST_BEYOND] = p->beyond<a[LEAST_BEYOND].beyond, [MOST_RSS] = p->rss> a[MOST_RSS].rss,
        [MOST_PINNED] = p->pinned > a[MOST_PINNED].pinned,
        [LAST] = true};
    for (int i = 0; i < EXTREMES; i++)
        if (better[i])
            a[i] = *p;
}

struct sample_set {
    VS_LIST(struct extremes, kinds);
    VS_LIST(int64_t, seqs);
};

static int sample_add(struct sample_set *set, const struct sample *p)
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

static bool is_extreme(const struct sample_set *set, int64_t seq)
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
        int64_t v[7];
        for (int i = 0; i < 7; i++)
            v[i] = sqlite3_column_int64(q, i);
        rc = sample_add(&set, &(struct sample){v[0], v[1], v[2], v[3], v[4], v[5], v[6]});
    }
    if (q)
        sqlite3_reset(q);
    for (size_t i = 0; rc == 0 && i < set.seqs.n; i++) {
        bool stays = is_extreme(&set, set.seqs.at[i]);
        *rows += stays;
        if (!stays)
            rc = vs_sql_run(s, VS_SQL_SAMPLE_GONE, "i", set.seqs.at[i]);
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
    if (q)
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
        on.device = sqlite3_column_int64(q, 0);
        on.ns = 0;
        on.allocated = allocated_in(q, 1);
        on.reserved = sqlite3_column_int64(q, 2);
        on.t = sqlite3_column_int64(q, 3);
        rc = sum_add(sums, on);
    }
    if (q)
        sqlite3_reset(q);
    if (rc == 0)
        rc = vs_sql_run(s, VS_SQL_RANGE_GONE, "i", id);
    return rc == 0 ? vs_sql_run(s, VS_SQL_RANGE_PEAK_GONE, "i", id) : rc;
}

/* Whether its push and its pop are both folded, or the pop was lost. */
static bool range_goes(struct vs_store *s, const struct vs_commit *c, const struct vs_stretch *stretch,
                       int64_t id, uint64_t first_seq, int64_t t_pop, bool popped)
{
    struct vs_fold *f = s->fold;
    if (popped)
        return first_seq >= f->first || !vs_fold_in_full(f, first_seq);
    if (t_pop < 0)
        return !vs_ledger_range_open(c->ledger, (uint32_t)id);
    return t_pop <= stretch->t_last || vs_fold_at(f, t_pop);
}

static int fold_range(struct vs_store *s, const struct vs_commit *c, const struct vs_stretch *stretch,
                      struct range_sums *sums, int64_t id, bool popped)
{
    sqlite3_stmt *q = vs_fold_query(s, VS_SQL_RANGE_READ, id, 0);
    struct range_sum r = {.device = -1, .ranges = 1};
    bool goes = false;
    if (q && sqlite3_step(q) == SQLITE_ROW) {
        bool outermost = sqlite3_column_int64(q, 2) & 1, closed = sqlite3_column_type(q, 5) != SQLITE_NULL;
        int64_t push = sqlite3_column_int64(q, 4), pop = closed ? sqlite3_column_int64(q, 5) : -1;
        r.phase = sqlite3_column_int64(q, 0);
        r.name = sqlite3_column_int64(q, 1);
        r.domain = sqlite3_column_int64(q, 6);
        r.ns = closed && (outermost || r.phase == 0) ? pop - push : 0;
        goes = range_goes(s, c, stretch, id, (uint64_t)sqlite3_column_int64(q, 3), pop, popped);
    }
    if (q)
        sqlite3_reset(q);
    return goes ? sum_range(s, sums, id, &r) : 0;
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
