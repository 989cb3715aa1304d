/* rules.c - see rules.h. */
#include "parts.h"

#include <stdlib.h>

#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/page.h"
#include "read/living.h"
#include "trace/roles.h"

#define B(n) units_bytes(n, exact).s

struct reasons {
    struct trace_rule *rules;
    struct trace_witness *witnesses;
    size_t rule_count, witness_count;
};

static struct reasons load(struct trace *t, int64_t device, int64_t oom)
{
    struct reasons r = {.rules = NULL};
    if (trace_rules(t, device, oom, &r.rules, &r.rule_count))
        r.rule_count = 0;
    if (oom == UNKNOWN && trace_witnesses(t, device, &r.witnesses, &r.witness_count))
        r.witness_count = 0;
    return r;
}

static void unload(struct reasons *r)
{
    free(r->rules);
    free(r->witnesses);
}

/* One witness alone has nothing to be held against. */
static bool are_two(const struct reasons *r)
{
    bool framework = false, access = false;
    for (size_t i = 0; i < r->witness_count; i++) {
        framework = framework || r->witnesses[i].by_framework;
        access = access || r->witnesses[i].by_access;
    }
    return framework && access;
}

static void print_witnesses(const struct reasons *r, int64_t whole, FILE *out, bool exact)
{
    static const char *const header[] = {"PyTorch says", "its accesses say", "at the peak", "share"};
    struct table table;
    table_init(&table, "<<>>", header);
    for (size_t i = 0; i < r->witness_count; i++) {
        const struct trace_witness *w = &r->witnesses[i];
        table_cell(&table, "%s", w->by_framework ? w->by_framework : "-");
        table_cell(&table, "%s", w->by_access ? w->by_access : "-");
        table_cell(&table, "%s", B(w->bytes));
        table_cell(&table, "%s", units_share(w->bytes, whole).s);
    }
    fputc('\n', out);
    table_print(&table, out, 2);
    table_free(&table);
}

void report_rules_text(struct trace *t, int64_t device, int64_t oom, int64_t whole, FILE *out, bool exact)
{
    struct reasons r = load(t, device, oom);
    if (r.rule_count)
        fputs("\n  why\n", out);
    for (size_t i = 0; i < r.rule_count; i++)
        wrap_print(out, 4, 6, "%s, %s: %s", shown(r.rules[i].role), B(r.rules[i].bytes),
                   r.rules[i].rule ? shown(r.rules[i].rule) : "unknown");
    if (are_two(&r))
        print_witnesses(&r, whole, out, exact);
    unload(&r);
}

void role_json(const char *role, struct json *j)
{
    json_text(j, "role", role);
    json_text(j, "old_role", vs_role_before(role));
}

void report_rules_json(struct trace *t, int64_t device, int64_t oom, struct json *j)
{
    struct reasons r = load(t, device, oom);
    json_begin(j, "role_rules", '[');
    for (size_t i = 0; i < r.rule_count; i++) {
        json_begin(j, NULL, '{');
        role_json(r.rules[i].role, j);
        json_text(j, "rule", r.rules[i].rule);
        json_int(j, "size_bytes", r.rules[i].bytes);
        json_int(j, "allocations", r.rules[i].count);
        json_end(j);
    }
    json_end(j);
    json_begin(j, "role_witnesses", '[');
    for (size_t i = 0; i < r.witness_count; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "by_framework", r.witnesses[i].by_framework);
        json_text(j, "by_access", r.witnesses[i].by_access);
        json_int(j, "size_bytes", r.witnesses[i].bytes);
        json_int(j, "allocations", r.witnesses[i].count);
        json_end(j);
    }
    json_end(j);
    unload(&r);
}
