/* ranks_show.c - the recordings of several ranks beside each other. */
#include "attempt.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/table.h"
#include "base/units.h"
#include "reply.h"

static int by_rank(const void *a, const void *b)
{
    int64_t x = ((const struct verdict *)a)->peaks.rank, y = ((const struct verdict *)b)->peaks.rank;
    return (x > y) - (x < y);
}

/* Those of the N recordings that are a rank's and used a device, by rank; the caller frees each and all. */
static struct verdict *read_ranks(char *const *files, size_t n, size_t *found)
{
    struct verdict *v = NULL;
    *found = 0;
    for (size_t i = 0; i < n; i++) {
        struct verdict one;
        verdict_of(&one, &(struct attempt){.files = (char **)&files[i], .n = 1});
        if (one.peaks.driver > 0 && one.peaks.world_size != UNKNOWN)
            *PUSH(v, *found) = one;
        else
            verdict_free(&one);
    }
    if (*found)
        qsort(v, *found, sizeof *v, by_rank);
    return v;
}

static void row(struct table *t, const struct verdict *v)
{
    int64_t beside = verdict_beside(&v->peaks);
    table_cell(t, "rank %" PRId64 " of %" PRId64, v->peaks.rank, v->peaks.world_size);
    table_cell(t, "%s", v->peaks.allocated == UNKNOWN ? "unknown" : units_bytes(v->peaks.allocated, false).s);
    table_cell(t, "%s", v->peaks.reserved == UNKNOWN ? "unknown" : units_bytes(v->peaks.reserved, false).s);
    table_cell(t, "%s", beside == UNKNOWN ? "unknown" : units_bytes(beside, false).s);
    table_cell(t, "%s", v->kind == VERDICT_REFUSED ? "does not fit" : "");
}

void fit_ranks_text(char *const *files, size_t n, FILE *out)
{
    struct table t;
    struct verdict *v = read_ranks(files, n, &n);
    table_init(&t, "<>>><", (const char *const[]){"", "allocated", "reserved", "beside", ""});
    for (size_t i = 0; i < n; i++) {
        row(&t, &v[i]);
        verdict_free(&v[i]);
    }
    fputc('\n', out);
    table_print(&t, out, 4);
    table_free(&t);
    free(v);
}

void fit_ranks_json(char *const *files, size_t n, struct json *j)
{
    struct verdict *v = read_ranks(files, n, &n);
    json_begin(j, "ranks", '[');
    for (size_t i = 0; i < n; i++) {
        json_begin(j, NULL, '{');
        json_int(j, "rank", v[i].peaks.rank);
        json_int(j, "allocated_bytes", v[i].peaks.allocated);
        json_int(j, "reserved_bytes", v[i].peaks.reserved);
        json_int(j, "beside_bytes", verdict_beside(&v[i].peaks));
        json_bool(j, "refused", v[i].kind == VERDICT_REFUSED);
        json_end(j);
        verdict_free(&v[i]);
    }
    json_end(j);
    free(v);
}
