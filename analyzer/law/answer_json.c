/* answer_json.c - an answer about other sizes as JSON (docs/json.md). */
#include "answer.h"

static void json_points(struct answer *a, struct json *j)
{
    json_begin(j, "points", '[');
    for (size_t b = 0; b < a->batch.n; b++)
        for (size_t s = 0; s < a->seq.n; s++) {
            struct law_point at = {a->batch.at[b], a->seq.at[s]};
            json_begin(j, NULL, '{');
            json_int(j, "batch", at.batch);
            json_int(j, "seq", at.seq);
            for (int p = 0; p < LAW_POLICIES; p++) {
                struct law_answer one = law_play(&a->model, at, (enum law_policy)p, a->q->capacity);
                json_begin(j, law_policy_names[p], '{');
                struct law_answer whole = law_play(&a->model, at, (enum law_policy)p, 0);
                struct law_span span = law_play_span(&a->model, at, (enum law_policy)p);
                json_int(j, "bytes", (int64_t)whole.bytes);
                json_int(j, "least_bytes", (int64_t)span.least);
                json_int(j, "most_bytes", (int64_t)span.most);
                json_int(j, "allocated_bytes", whole.allocated ? (int64_t)whole.allocated : UNKNOWN);
                json_bool(j, "fits", one.fits);
                json_int(j, "retries", (int64_t)one.retries);
                json_end(j);
            }
            json_end(j);
        }
    json_end(j);
}

static void json_largest(struct answer *a, struct json *j)
{
    static const char *const found_names[] = {"found", "nothing fits", "all fit"};
    bool longest = a->seq.n > 1;
    const struct law_list *rows = longest ? &a->batch : &a->seq;
    json_begin(j, "largest", '[');
    for (size_t i = 0; i < rows->n && a->q->capacity; i++)
        for (int p = 0; p < LAW_POLICIES; p++) {
            int64_t best;
            uint64_t retries;
            enum law_found found =
                answer_largest(a, longest, rows->at[i], (enum law_policy)p, &best, &retries);
            json_begin(j, NULL, '{');
            json_int(j, longest ? "batch" : "seq", rows->at[i]);
            json_text(j, "policy", law_policy_names[p]);
            json_text(j, "found", found_names[found]);
            json_int(j, longest ? "seq" : "batch", found == LAW_NOTHING_FITS ? UNKNOWN : best);
            json_int(j, "retries", found == LAW_NOTHING_FITS ? UNKNOWN : (int64_t)retries);
            json_end(j);
        }
    json_end(j);
}

static void json_shape(struct answer *a, struct json *j)
{
    json_begin(j, "shape", '[');
    for (size_t b = 0; b < a->batch.n; b++) {
        struct law_shape shape = law_shape(&a->model, a->batch.at[b], &a->seq);
        for (size_t i = 0; i < shape.n; i++) {
            const struct law_stretch *s = &shape.at[i];
            json_begin(j, NULL, '{');
            json_int(j, "batch", a->batch.at[b]);
            json_int(j, "from_seq", s->from);
            json_int(j, "to_seq", s->to);
            json_text(j, "phase", s->end.phase);
            json_text(j, "line", s->end.line);
            json_int(j, "bytes", (int64_t)s->end.bytes);
            json_int(j, "bytes_without_law", (int64_t)s->end.guessed);
            json_ratio(j, "bytes_per_length", answer_slope(&s->end.sum, a->batch.at[b]));
            json_ratio(j, "bytes_per_length_squared", answer_square(&s->end.sum, a->batch.at[b]));
            json_end(j);
        }
    }
    json_end(j);
}

void answer_print_json(struct answer *a)
{
    struct json j;
    const struct law_model *m = &a->model;
    json_document(&j, stdout);
    json_int(&j, "device", a->runs.device);
    json_text(&j, "dry", trace_dry(&a->runs.at[0].t));
    json_int(&j, "runs", (int64_t)a->runs.n);
    json_int(&j, "steps", (int64_t)m->base->steps);
    json_int(&j, "blocks", m->base->tape.ids);
    json_int(&j, "blocks_exact", (int64_t)m->by_trust[LAW_EXACT]);
    json_int(&j, "blocks_near", (int64_t)m->by_trust[LAW_NEAR]);
    json_int(&j, "blocks_switching", (int64_t)m->switching);
    json_int(&j, "blocks_without_law", (int64_t)m->by_trust[LAW_NONE]);
    json_int(&j, "blocks_not_in_all", (int64_t)m->some);
    json_int(&j, "blocks_missing", (int64_t)m->missing);
    json_int(&j, "capacity_bytes", a->q->capacity ? (int64_t)a->q->capacity : UNKNOWN);
    json_points(a, &j);
    json_largest(a, &j);
    json_shape(a, &j);
    json_close(&j);
}
