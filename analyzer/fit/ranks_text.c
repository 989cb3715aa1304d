/* ranks_text.c - the recordings of several ranks beside each other; see ranks.h. */
#include "ranks.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/table.h"
#include "base/units.h"
#include "verdict.h"

static void row(struct table *t, const struct verdict *v)
{
    int64_t beside = verdict_beside(&v->peaks);
    table_cell(t, "rank %" PRId64 " of %" PRId64, v->peaks.rank, v->peaks.world_size);
    table_cell(t, "%s", v->peaks.allocated == UNKNOWN ? "unknown" : units_bytes(v->peaks.allocated, false).s);
    table_cell(t, "%s", v->peaks.reserved == UNKNOWN ? "unknown" : units_bytes(v->peaks.reserved, false).s);
    table_cell(t, "%s", beside == UNKNOWN ? "unknown" : units_bytes(beside, false).s);
    table_cell(t, "%s", v->kind == VERDICT_REFUSED ? "does not fit" : "");
}

static int by_rank(const void *a, const void *b)
{
    int64_t x = ((const struct verdict *)a)->peaks.rank, y = ((const struct verdict *)b)->peaks.rank;
    return (x > y) - (x < y);
}

void fit_ranks_text(char *const *files, size_t n, FILE *out)
{
    struct verdict *v = NULL;
    size_t m = 0;
    struct table t;
    table_init(&t, "<>>><", (const char *const[]){"", "allocated", "reserved", "beside", ""});
    for (size_t i = 0; i < n; i++)
        verdict_of(PUSH(v, m), &(struct attempt){.files = (char **)&files[i], .n = 1});
    if (n)
        qsort(v, n, sizeof *v, by_rank);
    for (size_t i = 0; i < n; i++) {
        if (v[i].peaks.driver > 0 && v[i].peaks.world_size != UNKNOWN)
            row(&t, &v[i]);
        verdict_free(&v[i]);
    }
    fputc('\n', out);
    table_print(&t, out, 4);
    table_free(&t);
    free(v);
}
