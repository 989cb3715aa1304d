/*
 * names.c - the ranges that name no phase, by name, longest first.  Programs that number their ranges have
 * as many names as ranges: a page shows the first few.
 */
#include <stdlib.h>

#include "report.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "read/tables.h"

#define B(n)       units_bytes(n, exact).s
#define NAME_SHOWN 40 /* characters of a name */

static char *title_of(const struct trace_names *n)
{
    char *name = shown_cut(n->name && *n->name ? n->name : "(no name)", NAME_SHOWN);
    char *domain = n->domain ? shown_cut(n->domain, NAME_SHOWN / 2) : NULL;
    char *title = domain ? xformat("%s (%s)", name, domain) : xstrdup(name);
    free(domain);
    free(name);
    return title;
}

static void name_row(struct table *table, const struct trace_names *n, bool exact)
{
    char *title = title_of(n);
    table_cell(table, "%s", title);
    table_cell(table, "%lld", (long long)n->ranges);
    table_cell(table, "%s", units_time(n->ns).s);
    table_cell(table, "%s", B(n->allocated));
    table_cell(table, "%s", B(n->reserved));
    free(title);
}

void report_names_text(const struct device_report *d, FILE *out, bool exact)
{
    static const char *const header[] = {"other ranges", "ranges", "time", "peak allocated", "peak reserved"};
    struct table table;
    if (!d->name_count)
        return;
    table_init(&table, "<>>>>", header);
    table_drops(&table, "-12-3");
    for (size_t i = 0; i < d->name_count && i < REPORT_NAMES; i++)
        name_row(&table, &d->names[i], exact);
    fputc('\n', out);
    table_print(&table, out, 2);
    table_free(&table);
    if (d->all_names > REPORT_NAMES)
        fprintf(out, "  and %s more\n", units_count(d->all_names - REPORT_NAMES, "name").s);
    fputs("  --phases=NAME=PATTERN makes phases of ranges, --steps=PATTERN steps\n", out);
}

void report_names_json(const struct device_report *d, struct json *j)
{
    json_int(j, "other_range_names", d->all_names);
    json_begin(j, "other_ranges", '[');
    for (size_t i = 0; i < d->name_count; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "name", d->names[i].name);
        json_text(j, "domain", d->names[i].domain);
        json_int(j, "ranges", d->names[i].ranges);
        json_int(j, "time_ns", d->names[i].ns);
        json_int(j, "peak_allocated_bytes", d->names[i].allocated);
        json_int(j, "peak_reserved_bytes", d->names[i].reserved);
        json_end(j);
    }
    json_end(j);
}
