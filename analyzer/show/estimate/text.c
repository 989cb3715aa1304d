/* text.c - the page of an estimate (see estimate.h). */
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/page.h"
#include "estimate.h"

#define B(n) units_bytes(n, exact).s

/* "8,030,261,248" */
static char *grouped(int64_t n)
{
    char digits[32], *text = xrealloc(NULL, 48);
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n), at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

static const char *behind_layers(const struct model *m)
{
    if (!m->words)
        return m->outputs ? "labels behind the layers" : "no output layer";
    return m->tied ? "also the output layer's" : "the output layer as many again";
}

static void print_head(const struct setup *s, FILE *out)
{
    const struct model *m = &s->model;
    char *parameters = grouped(m->parameters);
    fprintf(out, "%s%s%s parameters", m->type[0] ? shown(m->type) : "", m->type[0] ? ", " : "", parameters);
    if (m->embedding != UNKNOWN) {
        char *embedding = grouped(m->embedding);
        fprintf(out, " (embedding %s, %s)", embedding, behind_layers(m));
        free(embedding);
    }
    free(parameters);
    fputc('\n', out);
    if (m->unsaid)
        fputs("no class is named (architectures): taken as a causal language model\n", out);
    if (s->tokens != UNKNOWN)
        fprintf(out, "batch %lld of %lld tokens", (long long)s->batch, (long long)s->tokens);
    else
        fputs("no rows of activations and output: they need --seq", out);
    if (s->gpus > 1)
        fprintf(out, "; ZeRO %d over %lld GPUs", s->stage, (long long)s->gpus);
    if (s->tensor_parallel > 1)
        fprintf(out, "; each layer over %lld GPUs%s", (long long)s->tensor_parallel,
                s->sequence_parallel ? ", by sequence too" : "");
    fputs("\n\n", out);
}

static bool has_row(const struct estimate *e, int row)
{
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        if (e->bytes[i][row] != 0)
            return true;
    return false;
}

void estimate_text(const struct setup *s, const struct estimate *e, int64_t context, FILE *out, bool exact)
{
    static const char *const header[] = {"estimate", "forward", "logits", "backward", "optimizer"};
    struct table t;
    print_head(s, out);
    table_init(&t, "<>>>>", header);
    for (int row = 0; row < ESTIMATE_ROWS; row++) {
        if (!has_row(e, row))
            continue;
        table_cell(&t, "%s", estimate_row_names[row]);
        for (int i = 0; i < ESTIMATE_PHASES; i++)
            table_cell(&t, "%s", e->bytes[i][row] ? B(e->bytes[i][row]) : "-");
    }
    table_rule(&t);
    table_cell(&t, "%s", "allocated");
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        table_cell(&t, "%s%s%s", e->peak_known && i == (int)e->peak ? "▸ " : "", e->least[i] ? "≥ " : "",
                   B(e->total[i]));
    table_print(&t, out, 2);
    table_free(&t);
    fputc('\n', out);
    for (int row = 0; row < ESTIMATE_ROWS; row++)
        if (has_row(e, row) && e->from[row])
            wrap_print(out, 2, 4, "%s: %s", estimate_row_names[row], e->from[row]);
    if (context > 0)
        fprintf(out, "  with the context's %s: %s%s of the device\n", B(context), e->whole ? "" : "≥ ",
                B(e->total[e->peak] + context));
    int64_t largest = model_largest(&s->model);
    if (s->stage == 3 && largest != UNKNOWN)
        wrap_print(out, 2, 2, "DeepSpeed's own estimator says %s a GPU (without activations)",
                   B((int64_t)formula_deepspeed((double)s->model.parameters, (double)largest, (double)s->gpus,
                                                s->offload)));
    wrap_print(out, 2, 2,
               "not in it: the cache of the allocator, workspaces, communication, other processes%s",
               context > 0 ? "" : ", the context (--context SIZE)");
}

/* ---- beside a recording ---- */

static void compared_row(struct table *t, const char *name, int64_t estimate, int64_t measured, bool exact)
{
    table_cell(t, "%s", name);
    table_cell(t, "%s", estimate == UNKNOWN ? "-" : B(estimate));
    table_cell(t, "%s", measured == UNKNOWN ? "-" : B(measured));
    table_cell(t, "%s",
               estimate == UNKNOWN || measured == UNKNOWN ? "-"
                                                          : units_bytes_change(measured - estimate, exact).s);
    table_cell(t, "%s",
               estimate == UNKNOWN || measured == UNKNOWN ? "-" : units_change(estimate, measured).s);
}

static void print_rows(const struct beside *b, const struct estimate *e, FILE *out, bool exact)
{
    char *title = xformat("at the peak, %s", b->measured_in ? shown(b->measured_in) : "phase unknown");
    const char *header[] = {title, "estimate", "measured", "difference", ""};
    struct table t;
    table_init(&t, "<>>>>", header);
    for (size_t i = 0; i < b->row_count; i++)
        if ((b->rows[i].estimate != UNKNOWN && b->rows[i].estimate != 0) || b->rows[i].measured != 0)
            compared_row(&t, b->rows[i].name, b->rows[i].estimate, b->rows[i].measured, exact);
    table_rule(&t);
    compared_row(&t, "allocated", e->total[b->phase], b->allocated, exact);
    compared_row(&t, "reserved and not allocated", UNKNOWN, b->beyond_allocated, exact);
    compared_row(&t, b->whole_device ? "context, other processes" : "context and code", UNKNOWN, b->residual,
                 exact);
    table_print(&t, out, 2);
    table_free(&t);
    free(title);
    if (!b->row_count)
        wrap_print(out, 2, 2,
                   "no row by row: the roles of blocks are not recorded (vramscope run does, of PyTorch)");
    if (b->other_phase)
        wrap_print(out, 2, 2, "the estimate is that of %s: it has no such phase",
                   estimate_phase_names[b->phase]);
}

static void print_phases(const struct beside *b, const struct estimate *e, FILE *out, bool exact)
{
    static const char *const header[] = {"peak allocated in", "estimate", "measured", "difference", ""};
    struct table t;
    table_init(&t, "<>>>>", header);
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        compared_row(&t, estimate_phase_names[i], e->total[i], b->phases[i], exact);
    table_print(&t, out, 2);
    table_free(&t);
}

static void print_gap(const struct beside *b, const struct estimate *e, FILE *out, bool exact)
{
    int64_t gap, part;
    char *name = beside_explains(b, e, &gap, &part);
    bool most = name && (part > 0 ? part : -part) > (gap > 0 ? gap : -gap) / 2;
    if (name)
        wrap_print(out, 2, 4, "%s %s the estimate: %s. %s of that is %s: %s",
                   b->driver_used != UNKNOWN ? "the driver's figure is" : "what was reserved is",
                   gap > 0 ? "above" : "below", units_bytes_change(gap, exact).s,
                   most ? "Most" : "The largest part", shown(name), units_bytes_change(part, exact).s);
    free(name);
    if (b->by_birth > 0)
        wrap_print(out, 2, 4,
                   "%s of the rows have no role: they are where the phase that made them puts them",
                   B(b->by_birth));
    if (b->foreach_bytes > 0)
        wrap_print(out, 2, 4, "%s of the optimizer's temporaries are copies that PyTorch's foreach makes",
                   B(b->foreach_bytes));
    if (b->logits_fp32 > 0)
        wrap_print(out, 2, 4, "%s of the logits at the peak are beyond one copy in the model's own type",
                   B(b->logits_fp32));
}

void beside_text(const struct beside *b, const struct estimate *e, FILE *out, bool exact)
{
    fprintf(out, "\n  device %lld\n\n", (long long)b->device);
    print_phases(b, e, out, exact);
    fputc('\n', out);
    print_rows(b, e, out, exact);
    fputc('\n', out);
    print_gap(b, e, out, exact);
}
