/*
 * fold.c - keeps the file below its limit: folds old stretches, and joins folded ones.
 *
 *      start ───────────────────────────────────────────────────────────────────────▶ now
 *      [steps 1-3] [   8   ][   8   ] [ 4 ][ 4 ] [ 2 ][ 2 ] [1][1] [peak] ...... in full ......
 *
 * At the end of each stretch (ledger/stretch.c), while what is written takes more than FOLD_SHARE of the
 * limit, the oldest stretch in full is folded: events that are no longer needed are deleted (fold_rows.c),
 * sums replace them (fold_sums.c).  Stretches of the first steps, of an out-of-memory and of the peaks stay
 * longer (enum worth).  Of each size (1, 2, 4, ... stretches) there is a bounded number of folded ones;
 * beyond it the two oldest neighbours become one of twice the size.  So their number grows with the logarithm
 * of the run's length.  If that does not suffice, rows are not written at all (vs_store_level).
 */
#include "fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FOLD_SHARE(max) ((max) / 100 * 72)
#define ROW_BYTES       56  /* of ev */
#define SUM_BYTES       200 /* of zone, range_fold, sample */
#define TAIL            2   /* stretches that are never folded: a free in them may turn out to have failed */
#define FIRST_STEPS     3
#define SIZES           32
#define EXTRA           4 /* folded beyond the estimate in one commit */

/* Detail is given up in this order: stretches without special interest, the oldest first; the first three
 * steps, when these and the following take more than half of the room or nothing else is left; stretches
 * around an out-of-memory; stretches of the peaks. */
enum worth { WORTH_NOTHING, WORTH_FIRST, WORTH_OOM, WORTH_PEAK };

/* ---- stretches ---- */

static int64_t end_by_number(const struct vs_stretch *s)
{
    return (int64_t)s->last_seq;
}

static int64_t end_by_time(const struct vs_stretch *s)
{
    return s->t_last;
}

/* The first stretch whose END is at or after KEY; NULL: there is none. */
static struct vs_stretch *first_ending(struct vs_fold *f, int64_t (*end)(const struct vs_stretch *),
                                       int64_t key)
{
    size_t low = 0, high = f->at.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (end(&f->at.at[middle]) < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->at.n ? &f->at.at[low] : NULL;
}

struct vs_stretch *vs_fold_stretch_of(struct vs_fold *f, uint64_t seq)
{
    struct vs_stretch *at = first_ending(f, end_by_number, (int64_t)seq);
    return at != NULL && at->first_seq <= seq ? at : NULL;
}

bool vs_fold_in_full(struct vs_fold *f, uint64_t seq)
{
    const struct vs_stretch *at = vs_fold_stretch_of(f, seq);
    return at == NULL || at->folded == 0;
}

bool vs_fold_at(struct vs_fold *f, int64_t t)
{
    const struct vs_stretch *at = first_ending(f, end_by_time, t);
    return at != NULL && at->folded > 0;
}

sqlite3_stmt *vs_fold_query(struct vs_store *s, enum vs_statement which, int64_t a, int64_t b)
{
    if (vs_sql_prepare(s, which) < 0)
        return NULL;
    const int64_t values[] = {a, b};
    for (int i = 0; i < sqlite3_bind_parameter_count(s->sql[which]); i++)
        sqlite3_bind_int64(s->sql[which], i + 1, values[i]);
    return s->sql[which];
}

/* ---- which stretch to fold ---- */

struct wanted { /* why stretches should stay in full, as of now */
    struct vs_peak_info peak[VS_LEDGER_DEVICES];
    size_t peaks;
};

static void look_for_wanted(struct vs_fold *f, const struct vs_commit *c, struct wanted *w)
{
    w->peaks = vs_ledger_peaks(c->ledger, w->peak, VS_LEDGER_DEVICES);
    f->oom_count = vs_ledger_oom_seqs(c->ledger, f->ooms, VS_OOMS_MAX);
}

static bool has(const struct vs_stretch *a, uint64_t seq)
{
    return a->first_seq <= seq && seq <= a->last_seq;
}

/* Whether row SEQ is in the stretch or, with STEPS, in a step that overlaps the stretch. */
static bool in_step_of(struct vs_fold *f, const struct vs_stretch *a, uint64_t seq, bool steps)
{
    const struct vs_stretch *b = has(a, seq) || !steps ? NULL : vs_fold_stretch_of(f, seq);
    return has(a, seq) || (b && a->first_step <= b->last_step && b->first_step <= a->last_step);
}

/* Whether the stretch or a neighbour has an out-of-memory. */
static bool near_oom(const struct vs_fold *f, size_t i)
{
    for (size_t k = 0; k < f->oom_count; k++)
        for (size_t at = i > 0 ? i - 1 : 0; at <= i + 1 && at < f->at.n; at++)
            if (has(&f->at.at[at], f->ooms[k]))
                return true;
    return false;
}

static enum worth worth_of(struct vs_fold *f, const struct wanted *w, size_t i)
{
    const struct vs_stretch *a = &f->at.at[i];
    bool steps = f->at.at[f->at.n - 1].last_step > 1;
    for (size_t k = 0; k < w->peaks; k++)
        if (in_step_of(f, a, w->peak[k].seq, steps) || has(a, w->peak[k].reserved_seq))
            return WORTH_PEAK;
    if (near_oom(f, i))
        return WORTH_OOM;
    return (steps ? a->first_step <= FIRST_STEPS : i < FIRST_STEPS) ? WORTH_FIRST : WORTH_NOTHING;
}

/* The stretch to fold next; the number of stretches where none is left. */
static size_t choose(struct vs_fold *f, const struct wanted *w, uint64_t limit)
{
    size_t end = f->at.n > TAIL ? f->at.n - TAIL : 0, found = end, least = end;
    enum worth worth = WORTH_PEAK + 1;
    uint64_t kept_bytes = 0;
    for (size_t i = 0; i < end && found == end; i++) {
        if (f->at.at[i].folded)
            continue;
        enum worth own = worth_of(f, w, i);
        if (own == WORTH_NOTHING)
            found = i;
        else
            kept_bytes += f->at.at[i].bytes;
        if (own != WORTH_NOTHING && own < worth) {
            worth = own;
            least = i;
        }
    }
    if (least < end && (found == end || kept_bytes > limit / 2))
        found = least;
    return found < end ? found : f->at.n;
}

/* ---- one stretch ---- */

/* Writes out what lived at peaks and out-of-memory events before LAST_SEQ, which the events no longer show
 * from here on. */
static int write_sets(struct vs_store *s, const struct vs_commit *c, uint64_t last_seq)
{
    int rc = vs_live_peaks_before(s, c, last_seq);
    return rc == 0 && s->fold->oom_count ? vs_oom_before(s, c, last_seq) : rc;
}

static bool any_in_full_before(const struct vs_fold *f, size_t i)
{
    while (i-- > 0)
        if (!f->at.at[i].folded)
            return true;
    return false;
}

static int fold(struct vs_store *s, const struct vs_commit *c, size_t i)
{
    struct vs_fold *f = s->fold;
    struct vs_stretch *a = &f->at.at[i];
    f->skipped = any_in_full_before(f, i);
    int rc = write_sets(s, c, a->last_seq);
    a->folded = 1;
    f->detail_bytes -= a->bytes;
    if (rc == 0)
        rc = vs_fold_rows(s, c, a);
    if (rc == 0)
        rc = vs_fold_sums(s, a->first_seq, a->last_seq, &a->rows);
    f->run_rows += a->rows;
    return rc == 0 ? vs_sql_run(s, VS_SQL_STRETCH_FOLDED, "ii", (int64_t)1, (int64_t)a->first_seq) : rc;
}

/* ---- joining ---- */

static int join(struct vs_store *s, size_t i)
{
    struct vs_fold *f = s->fold;
    struct vs_stretch *a = &f->at.at[i], *b = a + 1;
    int rc = vs_sql_run(s, VS_SQL_STRETCH_JOIN, "ii", (int64_t)a->first_seq, (int64_t)b->first_seq);
    if (rc == 0)
        rc = vs_sql_run(s, VS_SQL_STRETCH_GONE, "i", (int64_t)b->first_seq);
    f->run_rows -= a->rows + b->rows;
    a->last_seq = b->last_seq;
    a->t_last = b->t_last;
    a->last_step = b->last_step;
    a->bytes += b->bytes;
    a->folded += b->folded;
    f->at.n--;
    memmove(b, b + 1, (f->at.n - i - 1) * sizeof *b);
    if (rc == 0)
        rc = vs_fold_sums(s, a->first_seq, a->last_seq, &a->rows);
    f->run_rows += a->rows;
    return rc;
}

static int size_class(uint32_t folded)
{
    return 31 - __builtin_clz(folded);
}

/* How many there are of each size. */
static void count_sizes(const struct vs_fold *f, size_t counts[SIZES])
{
    memset(counts, 0, SIZES * sizeof *counts);
    for (size_t i = 0; i < f->at.n; i++)
        if (f->at.at[i].folded)
            counts[size_class(f->at.at[i].folded)]++;
}

/* The first of two neighbours of class SIZE (SIZES: of any class); the number of stretches if there are
 * none. */
static size_t find_pair(const struct vs_fold *f, int size)
{
    for (size_t i = 0; i + 1 < f->at.n; i++) {
        const struct vs_stretch *a = &f->at.at[i];
        if (a[0].folded && a[1].folded &&
            (size == SIZES || (size_class(a[0].folded) == size && size_class(a[1].folded) == size)))
            return i;
    }
    return f->at.n;
}

/* How many folded stretches of each size there may be: with enough room, so many that each thousandth of the
 * run stays visible. */
static size_t allowed_of(const struct vs_store *s)
{
    uint64_t n = s->config.max_bytes >> 19;
    return n < 8 ? 8 : n > 256 ? 256 : (size_t)n;
}

static int join_all(struct vs_store *s)
{
    struct vs_fold *f = s->fold;
    size_t counts[SIZES], pair = 0, allowed = allowed_of(s);
    int rc = 0;
    count_sizes(f, counts);
    for (int size = 0; rc == 0 && size < SIZES - 1; size++)
        for (; rc == 0 && counts[size] > allowed && (pair = find_pair(f, size)) < f->at.n;
             counts[size] -= 2) {
            rc = join(s, pair);
            counts[size_class(f->at.at[pair].folded)]++;
        }
    /* with very many phases and devices the sums themselves must not fill the file */
    while (rc == 0 && f->run_rows * SUM_BYTES > s->config.max_bytes / 4 &&
           (pair = find_pair(f, SIZES)) < f->at.n)
        rc = join(s, pair);
    return rc;
}

/* ---- room ---- */

static uint64_t estimate(const struct vs_fold *f)
{
    return f->detail_bytes + f->run_rows * SUM_BYTES + f->kept * ROW_BYTES;
}

static int fold_next(struct vs_store *s, const struct vs_commit *c, bool *done)
{
    struct vs_fold *f = s->fold;
    struct wanted w;
    look_for_wanted(f, c, &w);
    size_t i = choose(f, &w, FOLD_SHARE(s->config.max_bytes));
    *done = i < f->at.n;
    f->stuck = !*done;
    if (!*done)
        return 0;
    int rc = fold(s, c, i);
    if (rc == 0 && f->pairs.n)
        rc = vs_fold_pairs(s);
    return rc == 0 ? join_all(s) : rc;
}

static int make_room(struct vs_store *s, const struct vs_commit *c)
{
    bool more = true;
    int rc = 0;
    while (rc == 0 && more && estimate(s->fold) > FOLD_SHARE(s->config.max_bytes))
        rc = fold_next(s, c, &more);
    return rc;
}

/* Decisions use the ledger's estimate of each stretch's size, so that they do not depend on how events were
 * batched.  It leaves out names, stacks and tables of living allocations: more is folded if the file comes
 * too close to its limit.
 */
static int make_more_room(struct vs_store *s, const struct vs_commit *c)
{
    bool more = true;
    int rc = 0;
    for (int i = 0; rc == 0 && more && i < EXTRA && vs_store_used(s) > VS_FILE_SHARE(s->config.max_bytes);
         i++)
        rc = fold_next(s, c, &more);
    return rc;
}

/* ---- a batch ---- */

/* The file may not grow at all: extends the last folded stretch by one of which nothing is written. */
static int extend_last(struct vs_store *s, const struct vs_stretch_row *r)
{
    struct vs_fold *f = s->fold;
    struct vs_stretch *a = &f->at.at[f->at.n - 1];
    if (r->open)
        return 0;
    a->last_seq = r->last_seq;
    a->t_last = r->t_last;
    a->last_step = r->last_step;
    a->bytes += r->bytes;
    int rc = vs_sql_run(s, VS_SQL_STRETCH_GONE, "i", (int64_t)r->first_seq); /* written while it was open */
    return rc == 0
               ? vs_sql_run(s, VS_SQL_STRETCH_EXTEND, "iiiiiiiii", (int64_t)a->first_seq,
                            (int64_t)r->last_seq, r->t_last, (int64_t)r->last_step, (int64_t)r->steps,
                            (int64_t)r->ranges, (int64_t)r->samples, (int64_t)r->unwritten, (int64_t)r->bytes)
               : rc;
}

static int take(struct vs_store *s, const struct vs_commit *c, const struct vs_stretch_row *r)
{
    struct vs_fold *f = s->fold;
    uint64_t failed = 0;
    if (c->level >= 3 && f->at.n && f->at.at[f->at.n - 1].folded)
        return extend_last(s, r);
    int rc = vs_put_row(s, VS_SQL_STRETCH, r);
    if (rc < 0 || r->open)
        return rc;
    vs_list_push(&f->at, failed,
                 (struct vs_stretch){.first_seq = r->first_seq,
                                     .last_seq = r->last_seq,
                                     .first_step = r->first_step,
                                     .last_step = r->last_step,
                                     .bytes = r->bytes,
                                     .t_first = r->t_first,
                                     .t_last = r->t_last});
    if (failed)
        return -ENOMEM;
    f->detail_bytes += r->bytes;
    if (r->unwritten) /* rows are missing anyway */
        rc = fold(s, c, f->at.n - 1);
    if (rc == 0 && r->unwritten)
        rc = join_all(s);
    return rc == 0 && s->config.max_bytes ? make_room(s, c) : rc;
}

int vs_fold_commit(struct vs_store *s, const struct vs_commit *c)
{
    int rc = s->fold->loaded ? 0 : vs_fold_load(s);
    for (size_t i = 0; rc == 0 && i < c->out->stretches.n; i++)
        rc = take(s, c, &c->out->stretches.at[i]);
    return rc == 0 && s->config.max_bytes && c->level < 3 ? make_more_room(s, c) : rc;
}

int vs_store_level(struct vs_store *s)
{
    uint64_t max = s->config.max_bytes;
    if (!max)
        return 0;
    /* counts the room that the next batch may take as taken */
    uint64_t used = vs_store_used(s) + vs_store_batch(s) * VS_EVENT_BYTES;
    if (used >= max / 100 * 98)
        return 3;
    if (used >= max / 100 * 90 && s->fold->stuck)
        return 2;
    return s->thinned_from ? 1 : 0;
}

/* ---- load ---- */

int vs_fold_load(struct vs_store *s)
{
    struct vs_fold *f = s->fold;
    uint64_t failed = 0;
    int rc = 0, code = SQLITE_ERROR;
    f->at.n = 0;
    f->detail_bytes = f->run_rows = 0;
    vs_fold_forget_rows(f);
    sqlite3_stmt *q = vs_fold_query(s, VS_SQL_STRETCHES, 0, 0);
    while (q && (code = sqlite3_step(q)) == SQLITE_ROW) {
        struct vs_stretch a = {0};
        vs_get_row(q, VS_SQL_STRETCHES, &a);
        vs_list_push(&f->at, failed, a);
        if (a.folded)
            f->run_rows += a.rows;
        else
            f->detail_bytes += a.bytes;
    }
    sqlite3_reset(q);
    for (size_t i = 0; rc == 0 && i < f->at.n; i++)
        if (f->at.at[i].folded)
            rc = vs_fold_load_rows(s, &f->at.at[i]);
    f->loaded = rc == 0 && code == SQLITE_DONE && !failed;
    return rc < 0 ? rc : f->loaded ? 0 : failed ? -ENOMEM : -EIO;
}

void vs_fold_forget(struct vs_store *s)
{
    s->fold->loaded = false;
}

int vs_fold_open(struct vs_store *s)
{
    s->fold = calloc(1, sizeof *s->fold);
    return s->fold ? 0 : -ENOMEM;
}

void vs_fold_free(struct vs_store *s)
{
    struct vs_fold *f = s->fold;
    if (!f)
        return;
    vs_fold_forget_rows(f);
    void *lists[] = {f->at.at, f->pairs.at, f->nodes.at, f->keep.at, f->gone.at, f->pushed.at, f->popped.at};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        free(lists[i]);
    free(f);
}
