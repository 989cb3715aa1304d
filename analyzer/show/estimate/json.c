/* json.c - an estimate for programs (see vramscope-estimate(1)). */
#include <stdlib.h>

#include "estimate.h"

static void model_json(const struct setup *s, struct json *j)
{
    const struct model *m = &s->model;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"parameters", m->parameters},
                 {"embedding_parameters", m->embedding},
                 {"layer_parameters", m->layer},
                 {"layers", m->layers},
                 {"hidden", m->hidden},
                 {"heads", m->heads},
                 {"kv_heads", m->kv_heads},
                 {"head_dim", m->head_dim},
                 {"ffn", m->ffn},
                 {"vocab", m->vocab},
                 {"outputs", m->outputs}};
    json_begin(j, "model", '{');
    json_text(j, "type", m->type[0] ? m->type : NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        json_int(j, sizes[i].name, sizes[i].value);
    json_bool(j, "tied", m->tied);
    json_end(j);
}

static void phase_json(const struct estimate *e, int phase, struct json *j)
{
    json_begin(j, NULL, '{');
    json_text(j, "phase", estimate_phase_names[phase]);
    json_int(j, "allocated_bytes", e->total[phase]);
    json_begin(j, "rows", '[');
    for (int row = 0; row < ESTIMATE_ROWS; row++) {
        json_begin(j, NULL, '{');
        json_text(j, "row", estimate_row_names[row]);
        json_text(j, "old_row", estimate_row_before(estimate_row_names[row]));
        json_int(j, "bytes", e->bytes[phase][row]);
        json_text(j, "from", e->from[row]);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}

void estimate_json(const struct setup *s, const struct estimate *e, int64_t context, struct json *j)
{
    model_json(s, j);
    json_int(j, "batch", s->batch);
    json_int(j, "tokens", s->tokens);
    json_bool(j, "whole", e->whole);
    json_text(j, "peak_phase", e->peak_known ? estimate_phase_names[e->peak] : NULL);
    json_int(j, "peak_bytes", e->total[e->peak]);
    json_int(j, "context_bytes", context > 0 ? context : UNKNOWN);
    json_begin(j, "phases", '[');
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        phase_json(e, i, j);
    json_end(j);
}

void beside_json(const struct beside *b, const struct estimate *e, struct json *j)
{
    int64_t gap, part;
    char *name = beside_explains(b, e, &gap, &part);
    json_begin(j, NULL, '{');
    json_int(j, "device", b->device);
    json_text(j, "measured_phase", b->measured_in);
    json_text(j, "compared_phase", estimate_phase_names[b->phase]);
    json_int(j, "estimate_bytes", e->total[b->phase]);
    json_int(j, "allocated_bytes", b->allocated);
    json_int(j, "reserved_not_allocated_bytes", b->beyond_allocated);
    json_int(j, "residual_bytes", b->residual);
    json_int(j, "driver_used_bytes", b->driver_used);
    json_bool(j, "roles", b->roles);
    json_int(j, "by_birth_bytes", b->by_birth);
    json_begin(j, "rows", '[');
    for (size_t i = 0; i < b->row_count; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "row", b->rows[i].name);
        json_text(j, "old_row", estimate_row_before(b->rows[i].name));
        json_int(j, "estimate_bytes", b->rows[i].estimate);
        json_int(j, "measured_bytes", b->rows[i].measured);
        json_end(j);
    }
    json_end(j);
    json_begin(j, "phases", '[');
    for (int i = 0; i < ESTIMATE_PHASES; i++) {
        json_begin(j, NULL, '{');
        json_text(j, "phase", estimate_phase_names[i]);
        json_int(j, "estimate_bytes", e->total[i]);
        json_int(j, "measured_bytes", b->phases[i]);
        json_end(j);
    }
    json_end(j);
    json_int(j, "gap_bytes", name ? gap : UNKNOWN);
    json_text(j, "explained_by", name);
    json_int(j, "explained_bytes", name ? part : UNKNOWN);
    json_int(j, "foreach_bytes", b->foreach_bytes);
    json_int(j, "logits_beyond_one_copy_bytes", b->logits_fp32);
    json_end(j);
    free(name);
}
