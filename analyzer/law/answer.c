/* answer.c - from recordings to an answer (law.h), and the answer as JSON. */
#include "answer.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/args.h"
#include "base/shown.h"
#include "base/page.h"

/* ---- as JSON (docs/json.md) ---- */

static void json_points(struct answer *a, struct json *j)
{
    json_begin(j, "points", '[');
    for (size_t b = 0; b < a->batch.n; b++)
        for (size_t s = 0; s < a->seq.n; s++) {
            struct law_point at = {a->batch.at[b], a->seq.at[s]};
            json_begin(j, NULL, '{');
            json_int(j, "batch", at.batch);
            json_int(j, "seq", at.seq);
            for (int p = 0; p < FEED_POLICIES; p++) {
                struct law_answer one = law_play(&a->model, at, (enum feed_policy)p, a->q->capacity);
                json_begin(j, feed_policy_names[p], '{');
                struct law_answer whole = law_play(&a->model, at, (enum feed_policy)p, 0);
                struct law_span span = law_play_span(&a->model, at, (enum feed_policy)p);
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
        for (int p = 0; p < FEED_POLICIES; p++) {
            int64_t best;
            uint64_t retries;
            enum law_found found = law_largest(&a->model, longest, rows->at[i], longest ? &a->seq : &a->batch,
                                               (enum feed_policy)p, a->q->capacity, &best, &retries);
            json_begin(j, NULL, '{');
            json_int(j, longest ? "batch" : "seq", rows->at[i]);
            json_text(j, "policy", feed_policy_names[p]);
            json_text(j, "found", found_names[found]);
            json_int(j, longest ? "seq" : "batch", found == LAW_NOTHING_FITS ? UNKNOWN : best);
            json_int(j, "retries", found == LAW_NOTHING_FITS ? UNKNOWN : (int64_t)retries);
            json_end(j);
        }
    json_end(j);
}

static void print_json(struct answer *a)
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
    json_close(&j);
}

/* ---- all ---- */

static int read_axis(const struct answer *a, const char *text, bool batch, struct law_list *list)
{
    if (!text)
        law_own_list(&a->runs, batch, list);
    else if (!law_read_list(text, list))
        return complain("whatif: --%s takes 4, 1,2,4 or 1..64 (rising, %d values at most, none above "
                        "%lld), not '%s'",
                        batch ? "batch" : "seq", SIZES_MOST, (long long)NUMBER_MOST, shown(text));
    return 0;
}

int law_forecast(char **files, size_t n, struct law_forecast *points, size_t count)
{
    struct answer a = {.q = NULL};
    int bad = law_load(&a.runs, files, n, UNKNOWN);
    law_own_list(&a.runs, true, &a.batch);
    law_own_list(&a.runs, false, &a.seq);
    if (!bad)
        bad = law_check_design(&a.runs, &a.batch, &a.seq);
    if (!bad)
        bad = law_model(&a.model, &a.runs);
    for (size_t i = 0; i < count; i++) {
        struct law_point at = {points[i].batch, points[i].seq};
        bool off = (a.batch.n == 1 && at.batch != a.batch.at[0]) || (a.seq.n == 1 && at.seq != a.seq.at[0]);
        enum feed_policy policy = !bad && a.model.base->tape.expandable ? FEED_EXPANDABLE : FEED_NATIVE;
        struct law_answer one = {0};
        if (!bad && !off)
            one = law_play(&a.model, at, policy, 0);
        points[i].allocated = bad || off ? UNKNOWN : (int64_t)one.allocated;
        points[i].reserved = bad || off ? UNKNOWN : (int64_t)one.bytes;
    }
    law_free_model(&a.model);
    law_free_runs(&a.runs);
    return bad;
}

int law_whatif(const struct law_request *request, char **files, size_t n)
{
    struct answer a = {.q = request};
    size_t count;
    char **words = law_expand(files, n, &count);
    int bad = law_load(&a.runs, words, count, request->device);
    trace_free_files(words, count);
    if (!bad)
        bad = read_axis(&a, request->batch, true, &a.batch);
    if (!bad)
        bad = read_axis(&a, request->seq, false, &a.seq);
    if (!bad)
        bad = law_check_design(&a.runs, &a.batch, &a.seq);
    if (!bad)
        bad = law_model(&a.model, &a.runs);
    if (!bad && request->json) {
        print_json(&a);
    } else if (!bad) {
        wrap_page_begin(false);
        answer_print_text(&a);
        wrap_page_end();
    }
    law_free_model(&a.model);
    law_free_runs(&a.runs);
    return bad ? bad : EXIT_GOOD;
}
