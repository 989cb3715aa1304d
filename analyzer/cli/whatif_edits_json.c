/* whatif_edits_json.c - the changes of a program as JSON (docs/json.md). */
#include <stdlib.h>
#include <string.h>

#include "whatif_edits.h"

static void json_ends(struct json *j, const char *what, uint64_t a, uint64_t b)
{
    int64_t low, high;
    answered_ends(a, b, &low, &high);
    char *name = xformat("%s_low_bytes", what);
    json_int(j, name, low);
    free(name);
    name = xformat("%s_high_bytes", what);
    json_int(j, name, high);
    free(name);
}

static void print_policy_json(struct json *j, const struct program *from, const struct answered *row, int p)
{
    const struct answer_policy *low = &row->low.of[p], *high = &row->high.of[p];
    json_begin(j, NULL, '{');
    json_text(j, "policy", feed_policy_names[p]);
    json_ends(j, "allocated", low->peak.allocated, high->peak.allocated);
    json_ends(j, "reserved", low->peak.reserved, high->peak.reserved);
    const struct answer_policy *out = answered_out(row, p);
    json_bool(j, "fits", answered_fit(row, p) == FIT_YES);
    json_bool(j, "may_fit", answered_fit(row, p) != FIT_NO);
    json_int(j, "ran_out_request_bytes", out ? (int64_t)out->out_size : UNKNOWN);
    json_int(j, "ran_out_reserved_bytes", out ? (int64_t)out->out_reserved : UNKNOWN);
    json_text(j, "ran_out_phase",
              !out             ? NULL
              : out->out_phase ? answered_phase(from, out->out_phase)
                               : "none");
    json_begin(j, "phases", '[');
    for (size_t i = 0; i < row->low.phases; i++) {
        if (!low->phase_allocated[i] && !high->phase_allocated[i])
            continue;
        json_begin(j, NULL, '{');
        json_text(j, "phase", i ? answered_phase(from, (uint16_t)i) : "none");
        json_ends(j, "allocated", low->phase_allocated[i], high->phase_allocated[i]);
        json_ends(j, "reserved", low->phase_reserved[i], high->phase_reserved[i]);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}

static int by_savings(const void *a, const void *b, void *base)
{
    int64_t x = answered_saves(base, a), y = answered_saves(base, b);
    return x < y   ? 1
           : x > y ? -1
                   : strcmp(((const struct answered *)a)->name, ((const struct answered *)b)->name);
}

void edits_json(const struct edits *e, const struct edits_question *q, struct json *j)
{
    struct answered *rows = e->rows;
    qsort_r(rows + 1, e->n - 1, sizeof *rows, by_savings, rows);
    json_begin(j, "edits", '[');
    for (size_t i = 0; i < e->n; i++) {
        const struct answered *row = &rows[i];
        json_begin(j, NULL, '{');
        json_text(j, "edit", i ? row->name : NULL);
        json_text(j, "refused", row->why);
        json_bool(j, "nothing_to_change", row->nothing);
        json_text(j, "assumes", row->assumes);
        json_text(j, "cost", row->cost);
        json_text(j, "peak_phase",
                  row->why ? NULL : answered_phase(&e->from, row->low.of[FEED_LIVE].peak.phase));
        json_text(j, "peak_most", row->why ? NULL : answer_kind(row->low.most));
        json_int(j, "peak_most_bytes", row->why ? UNKNOWN : (int64_t)row->low.most_bytes);
        json_int(j, "saves_bytes", row->why ? UNKNOWN : answered_saves(rows, row));
        json_int(j, "saves_reserved_bytes",
                 row->why ? UNKNOWN : answered_reserved(rows, q->column) - answered_reserved(row, q->column));
        json_begin(j, "policies", '[');
        for (int p = 0; p < FEED_POLICIES && !row->why; p++)
            if (q->wanted[p])
                print_policy_json(j, &e->from, row, p);
        json_end(j);
        json_end(j);
    }
    json_end(j);
    json_text(j, "refusal", NULL);
}
