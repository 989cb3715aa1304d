/* beside.c - what a recording measured, by the rows of an estimate (see estimate.h). */
#include <stdlib.h>
#include <string.h>

#include "analysis/layers.h"
#include "read/living.h"
#include "trace/roles.h"
#include "estimate.h"

static bool is(const char *text, const char *word)
{
    return text && !strcmp(text, word);
}

/* ---- which row a block belongs to ---- */

static bool without_role(const struct trace_live *l)
{
    enum vs_role role = vs_role_named(l->role);
    return role == VS_ROLE_UNTOLD || role == VS_ROLE_TEMPORARY;
}

static enum estimate_row row_of_role(const struct trace_live *l)
{
    switch (vs_role_named(l->role)) {
    case VS_ROLE_PARAMETER:
        return ROW_PARAMETERS;
    case VS_ROLE_GRADIENT:
        return ROW_GRADIENTS;
    case VS_ROLE_STATE:
        return ROW_STATES;
    case VS_ROLE_ACTIVATION:
    case VS_ROLE_RECOMPUTED:
        return ROW_ACTIVATIONS;
    case VS_ROLE_OUTPUT:
        return ROW_LOGITS;
    case VS_ROLE_COMMUNICATION:
        return ROW_GATHERED;
    default:
        return ESTIMATE_ROWS;
    }
}

/* Whether the blocks of this row are each as large as the logits in one of their types: an allocator's block
 * is up to 1 MiB larger than what was asked for. */
static bool of_logits(const struct trace_live *l, const struct setup *s)
{
    if (!s->model.words || s->model.vocab == UNKNOWN || s->tokens == UNKNOWN || s->fused_loss || l->count < 1)
        return false;
    double n = (double)s->batch * (double)s->tokens, vocab = (double)s->model.vocab, each[] = {s->element, 4};
    double size = (double)l->size / (double)l->count;
    for (int i = 0; i < 2; i++)
        if (size >= formula_logits(n, vocab, each[i]) &&
            size <= formula_logits(n, vocab, each[i]) + (1 << 20))
            return true;
    return false;
}

/* Of a block without a role, at a peak in PEAK.  A block that was born in the optimizer's step and lives at
 * the step's own peak is its temporary.  A block that was born in forward or logits and lives until backward
 * is an activation, or a copy of the logits. */
static enum estimate_row row_of_birth(const struct trace_live *l, const char *peak, const struct setup *s)
{
    bool block = is(l->category, "framework block"); /* what a library took of the driver is none of these */
    bool optimizer = is(peak, "optimizer");
    if (!block || !without_role(l))
        return ESTIMATE_ROWS;
    if (is(l->phase, "optimizer"))
        return optimizer ? ROW_FOREACH : ESTIMATE_ROWS;
    if (optimizer)
        return ESTIMATE_ROWS;
    if (is(l->phase, "backward"))
        return is(peak, "backward") && of_logits(l, s) ? ROW_LOGITS_GRADIENTS : ESTIMATE_ROWS;
    return is(l->phase, "forward") ? ROW_ACTIVATIONS : is(l->phase, "logits") ? ROW_LOGITS : ESTIMATE_ROWS;
}

/* The name of a row that has no estimate. */
static char *other_name(const struct trace_live *l)
{
    bool direct = l->category && !strncmp(l->category, "direct", 6);
    if (direct)
        return xformat("%s, %s", l->category, l->owner ? l->owner : "library unknown");
    return part_what(l);
}

static void add_measured(struct beside *b, char *name, enum estimate_row of, int64_t estimate, int64_t bytes)
{
    size_t i = 0;
    while (i < b->row_count && strcmp(b->rows[i].name, name) != 0)
        i++;
    if (i == b->row_count) {
        *PUSH(b->rows, b->row_count) = (struct beside_row){name, estimate, bytes, of};
        return;
    }
    b->rows[i].measured += bytes;
    free(name);
}

static void fill_rows(struct beside *b, const struct device_report *d, const struct setup *s,
                      const struct estimate *e)
{
    for (int row = 0; row < ESTIMATE_ROWS; row++)
        add_measured(b, xstrdup(estimate_row_names[row]), (enum estimate_row)row, e->bytes[b->phase][row], 0);
    for (size_t i = 0; i < d->live_count; i++) {
        enum estimate_row role = row_of_role(&d->live[i]),
                          birth = row_of_birth(&d->live[i], d->phase_at_peak, s),
                          row = role < ESTIMATE_ROWS ? role : birth;
        if (row < ESTIMATE_ROWS)
            b->rows[row].measured += d->live[i].size;
        if (role == ESTIMATE_ROWS && birth < ESTIMATE_ROWS)
            b->by_birth += d->live[i].size;
        if (row < ESTIMATE_ROWS)
            continue;
        add_measured(b, other_name(&d->live[i]), ESTIMATE_ROWS, UNKNOWN, d->live[i].size);
    }
}

/* ---- the figures ---- */

static bool roles_known(const struct device_report *d)
{
    for (size_t i = 0; i < d->live_count; i++)
        if (is(d->live[i].role, "parameter"))
            return true;
    return false;
}

static void fill_phases(struct beside *b, const struct trace *t)
{
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        b->phases[i] = UNKNOWN;
    for (size_t k = 0; k < t->phase_count; k++)
        for (int i = 0; i < ESTIMATE_PHASES; i++)
            if (t->phases[k].device == b->device && is(t->phases[k].name, estimate_phase_names[i]))
                b->phases[i] = t->phases[k].allocated;
}

static void fill_driver(struct beside *b, const struct device_report *d)
{
    const struct residual_moment *m = &d->residual.fullest;
    b->driver_used = b->residual = UNKNOWN;
    if (d->residual.known && m->driver_used != UNKNOWN) {
        b->driver_used = m->driver_used;
        b->residual = m->residual;
        b->whole_device = d->residual.whole_device;
    }
    int64_t held = b->residual != UNKNOWN ? m->driver_used - m->residual : b->reserved;
    bool known = held != UNKNOWN && b->allocated != UNKNOWN && d->away_most <= 0;
    b->beyond_allocated = known ? held - b->allocated : UNKNOWN; /* of different parts where some was away */
}

struct beside beside_make(const struct report *r, const struct device_report *d, const struct setup *s,
                          const struct estimate *e)
{
    struct beside b = {.device = d->device,
                       .phase = e->peak,
                       .other_phase = true,
                       .measured_in = d->phase_at_peak,
                       .roles = roles_known(d),
                       .allocated = trace_peak_bytes(d->allocated),
                       .reserved = d->reserved ? d->reserved->bytes : UNKNOWN,
                       .foreach_bytes = d->causes.foreach_bytes};
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        if (is(d->phase_at_peak, estimate_phase_names[i])) {
            b.phase = (enum estimate_phase)i;
            b.other_phase = false;
        }
    fill_phases(&b, r->trace);
    fill_driver(&b, d);
    if (b.roles && b.allocated != UNKNOWN)
        fill_rows(&b, d, s, e);
    if (b.row_count && s->element < 4 && s->model.words && s->model.vocab != UNKNOWN &&
        s->tokens != UNKNOWN) {
        int64_t copy =
            (int64_t)formula_logits((double)(s->batch * s->tokens), (double)s->model.vocab, s->element);
        int64_t measured = b.rows[ROW_LOGITS].measured;
        b.logits_fp32 = measured > copy ? measured - copy : 0;
    }
    return b;
}

void beside_free(struct beside *b)
{
    for (size_t i = 0; i < b->row_count; i++)
        free(b->rows[i].name);
    free(b->rows);
}

/* ---- the gap ---- */

static int64_t part_of(const struct beside_row *row)
{
    return row->measured - (row->estimate == UNKNOWN ? 0 : row->estimate);
}

/* What is further in the gap's direction than *PART so far. */
static void take(char **name, int64_t *part, const char *candidate, int64_t bytes, int64_t gap)
{
    bool further = gap > 0 ? bytes > 0 && bytes > *part : bytes < 0 && bytes < *part;
    if (!further)
        return;
    free(*name);
    *name = xstrdup(candidate);
    *part = bytes;
}

char *beside_explains(const struct beside *b, const struct estimate *e, int64_t *gap, int64_t *part)
{
    char *name = NULL;
    int64_t all = b->driver_used != UNKNOWN ? b->driver_used : b->reserved;
    *part = 0;
    *gap = all == UNKNOWN ? 0 : all - e->total[b->phase];
    if (*gap == 0 || b->allocated == UNKNOWN)
        return NULL;
    for (size_t i = 0; i < b->row_count; i++)
        take(&name, part, b->rows[i].name, part_of(&b->rows[i]), *gap);
    if (!b->row_count)
        take(&name, part, "what was allocated (its roles are not recorded)",
             b->allocated - e->total[b->phase], *gap);
    if (b->beyond_allocated != UNKNOWN)
        take(&name, part, "reserved and not allocated", b->beyond_allocated, *gap);
    if (b->residual != UNKNOWN)
        take(&name, part, b->whole_device ? "context, code and other processes" : "context and code",
             b->residual, *gap);
    return name;
}
