/*
 * access.c - writes table `access`: when and how the device used each tracked block.
 *
 * The row of a block that has ended is written in the batch of its free; living blocks are written together
 * with table live.  Names of kernels and phases, which many rows share, are a row of access_kind, and what
 * most rows have equal takes no byte: a block takes some 20.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A shorter pause between two uses is not written: nobody could make use of it. */
#define GAP_LEAST_NS 1000000

#define ROW_BYTES 48 /* with room for pages that are not full */

/* ---- kinds ---- */

_Static_assert(sizeof(struct vs_access_key) == 24, "without padding");

static int write_kinds(struct vs_store *s)
{
    int rc = 0;
    for (; rc == 0 && s->access_kinds_written < s->access_kinds.count; s->access_kinds_written++) {
        struct vs_access_kind_row row = {.id = (int64_t)s->access_kinds_written + 1};
        row.is = *(const struct vs_access_key *)vs_intern_key(&s->access_kinds, row.id, sizeof row.is);
        rc = vs_store_string(s, row.is.first_by);
        if (rc == 0)
            rc = vs_store_string(s, row.is.last_by);
        if (rc == 0)
            rc = vs_put_row(s, VS_SQL_ACCESS_KIND, &row);
    }
    return rc;
}

/* ---- rows ---- */

/* A - B if positive, else NULL. */
static int64_t beyond(uint32_t a, uint32_t b)
{
    return a > b ? (int64_t)(a - b) : VS_ACCESS_NONE;
}

/* Clocks of two threads may differ by a microsecond. */
static int64_t after(uint64_t a, uint64_t b)
{
    return a > b ? (int64_t)(a - b) : 0;
}

#define SURE_PARTS 1024u /* of the time from the first use to the last */
#define SURE_SHIFT 11

/* How many parts A is, of SURE_PARTS that SPAN has; rounded up. */
static uint64_t parts_of(uint64_t a, uint64_t span)
{
    unsigned __int128 whole = (unsigned __int128)a * SURE_PARTS + span - 1;
    return span == 0 ? 0 : (uint64_t)(whole / span);
}

/* Where the sure uses of R lie between its first and its last: access.sure; NULL: it has none. */
static int64_t sure_of(const struct vs_access_row *r)
{
    uint64_t first = r->sure_first_ns, last = r->sure_last_ns,
             span = (uint64_t)after(r->last_ns, r->first_ns);
    if (last == 0)
        return VS_ACCESS_NONE;
    first = first < r->first_ns ? r->first_ns : first;
    last = last > r->last_ns ? r->last_ns : last;
    uint64_t late = parts_of((uint64_t)after(first, r->first_ns), span);
    uint64_t early = parts_of((uint64_t)after(r->last_ns, last), span);
    return (int64_t)((late > SURE_PARTS ? SURE_PARTS : late) << SURE_SHIFT |
                     (early > SURE_PARTS ? SURE_PARTS : early));
}

/* Nearly all blocks are used in the step of their birth alone, or never: of these there is the free's step.
 */
static void put_steps(struct vs_access_values *v, const struct vs_access_row *r)
{
    bool used = r->uses != 0;
    int64_t first = used ? beyond(r->first_step, r->born_step) : VS_ACCESS_NONE;
    int64_t last = used ? beyond(r->last_step, r->born_step) : VS_ACCESS_NONE;
    int64_t end = r->end_step ? (int64_t)r->end_step - r->born_step : VS_ACCESS_NONE;
    int64_t steps = r->steps > 1 ? (int64_t)r->steps : VS_ACCESS_NONE;
    v->value[VS_ACCESS_STEPS] = end;
    v->lists = first != VS_ACCESS_NONE || last != VS_ACCESS_NONE || steps != VS_ACCESS_NONE;
    memcpy(v->number, (const int64_t[VS_ACCESS_NUMBERS]){first, last, end, steps}, sizeof v->number);
}

#define AT_ONCE 4096u /* rows that are collected and written by one statement */

static int flush(struct vs_store *s)
{
    int rc = s->accesses.n ? vs_sql_run(s, VS_SQL_ACCESS, "") : 0;
    s->accesses.n = 0;
    return rc;
}

/* Writes R, with the next flush at the latest, as the row of the block that ALLOC allocated. */
static int put(struct vs_store *s, uint64_t alloc, const struct vs_access_row *r)
{
    bool used = r->uses != 0, idled = used && r->gap_ns >= GAP_LEAST_NS;
    struct vs_access_key key = {.first_by = used ? r->first_name : 0,
                                .last_by = used ? r->last_name : 0,
                                .first_phase = used ? vs_store_phase(s, r->first_phase) : 0,
                                .last_phase = used ? vs_store_phase(s, r->last_phase) : 0,
                                .kinds = r->kinds,
                                .phases = used ? r->phases : 0,
                                .sure_phases = used ? r->sure_phases : 0};
    uint32_t kind = vs_intern_number(&s->access_kinds, &key, sizeof key);
    if (kind == 0)
        return -ENOMEM;
    int64_t first = after(r->first_ns, r->born_ns), last = after(r->last_ns, r->born_ns);
    struct vs_access_values values = {
        .value = {(int64_t)alloc, (int64_t)kind, used ? first : VS_ACCESS_NONE,
                  used ? last - first : VS_ACCESS_NONE, (int64_t)r->uses, (int64_t)r->born_step, 0,
                  idled ? (int64_t)r->gap_ns : VS_ACCESS_NONE,
                  idled ? last - after(r->gap_end_ns, r->born_ns) : VS_ACCESS_NONE,
                  used ? sure_of(r) : VS_ACCESS_NONE}};
    put_steps(&values, r);
    uint64_t failed = 0;
    vs_list_push(&s->accesses, failed, values);
    if (failed)
        return -ENOMEM;
    return s->accesses.n < AT_ONCE ? 0 : flush(s);
}

static int put_living(struct vs_store *s, const struct vs_commit *c)
{
    int rc = 0;
    uint32_t rows = vs_journal_access_rows(s->journal);
    for (uint32_t id = 1; rc == 0 && id < rows; id++) {
        const struct vs_access_row *there = vs_journal_access(s->journal, id);
        if (there == NULL || __atomic_load_n(&there->address, __ATOMIC_RELAXED) == 0)
            continue;
        struct vs_access_row r = *there;
        if (r.reach != vs_journal_access_state(s->journal)->reach)
            r.kinds |= VS_ACCESS_REACHABLE;
        int64_t t;
        uint64_t alloc = r.end_step == 0 ? vs_ledger_access_seq(c->ledger, &r, &t) : 0;
        if (alloc != 0)
            rc = put(s, alloc, &r);
    }
    return rc;
}

static int in_order(const void *left, const void *right)
{
    const struct vs_access_ended *const *a = left, *const *b = right;
    if ((*a)->alloc_seq != (*b)->alloc_seq)
        return (*a)->alloc_seq < (*b)->alloc_seq ? -1 : 1;
    return *a < *b ? -1 : *a > *b; /* of two for one block the later counts */
}

/* Blocks end in another order than they begin in.  In the order of their keys most rows come behind all that
 * are there, which fills the table's pages; otherwise a quarter of each stays empty. */
static int put_ended(struct vs_store *s, const struct vs_output *out)
{
    size_t n = out->accesses.n;
    const struct vs_access_ended **end = n ? malloc(n * sizeof *end) : NULL;
    int rc = n && end == NULL ? -ENOMEM : 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        end[i] = &out->accesses.at[i];
    if (rc == 0 && n)
        qsort(end, n, sizeof *end, in_order);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (end[i]->alloc_seq != 0)
            rc = put(s, end[i]->alloc_seq, &end[i]->row);
    free(end);
    return rc;
}

int vs_access_write(struct vs_store *s, const struct vs_commit *c)
{
    int rc = put_ended(s, c->out);
    /* also where table live is left out because the events show what lives: these rows are still needed */
    if (rc == 0 && c->live &&
        vs_store_fits(s, vs_ledger_live_count(c->ledger) * ROW_BYTES, s->config.max_bytes))
        rc = put_living(s, c);
    if (rc == 0)
        rc = flush(s);
    s->accesses.n = 0; /* where it failed, all of the batch comes again */
    return rc == 0 ? write_kinds(s) : rc;
}

int vs_access_gone(struct vs_store *s, uint64_t alloc)
{
    return s->access_kinds.count ? vs_sql_run(s, VS_SQL_ACCESS_GONE, "i", (int64_t)alloc) : 0;
}

void vs_access_forget(struct vs_store *s)
{
    s->access_kinds_written = 0;
}
