/*
 * pools.c - libraries with a pool that reports no blocks: what they hold is known, what of it they use only
 * from their own figures.
 */
#include <stdlib.h>

#include "report.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "read/tables.h"

#define B(n) units_bytes(n, exact).s

static const struct trace_peak *held_on(const struct trace *t, int64_t device)
{
    const struct trace_peak *held = trace_find_peak(t, device, "unknown_use");
    return held && held->bytes > 0 ? held : NULL;
}

static void print_pools(const struct trace_pool *pools, size_t n, FILE *out, bool exact)
{
    static const char *const header[] = {"pool", "held", "in use at most", "as it said"};
    struct table table;
    table_init(&table, "<>><", header);
    for (size_t i = 0; i < n; i++) {
        const struct trace_pool *p = &pools[i];
        bool counts = p->peak != UNKNOWN;
        table_cell(&table, "%s", p->name ? shown(p->name) : "unknown");
        table_cell(&table, "%s", B(p->held));
        table_cell(&table, "%s", B(counts ? p->peak : p->used));
        table_cell(&table, "%s", counts ? "by a counter of its own" : units_count(p->answers, "time").s);
    }
    table_print(&table, out, 4);
    table_free(&table);
}

void report_pools_text(struct trace *t, int64_t device, FILE *out, bool exact)
{
    const struct trace_peak *held = held_on(t, device);
    struct trace_pool *pools;
    size_t n;
    if (!held || trace_pools(t, device, &pools, &n))
        return;
    fprintf(out,
            "\n  how much is allocated is unknown: up to %s were held by a library's pool that reports\n"
            "    nothing; what it said when it was asked:%s\n",
            B(held->bytes), n ? "" : " it was not (`vramscope run` asks JAX and CuPy)");
    if (n)
        print_pools(pools, n, out, exact);
    free(pools);
}

void report_pools_json(struct trace *t, int64_t device, struct json *j)
{
    struct trace_pool *pools;
    size_t n;
    if (trace_pools(t, device, &pools, &n))
        return;
    json_begin(j, "pools", '[');
    for (size_t i = 0; i < n; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "pool", pools[i].name);
        json_int(j, "answers", pools[i].answers);
        json_int(j, "held_bytes", pools[i].held);
        json_int(j, "seen_in_use_bytes", pools[i].used);
        json_int(j, "peak_in_use_bytes", pools[i].peak);
        json_end(j);
    }
    json_end(j);
    free(pools);
}
