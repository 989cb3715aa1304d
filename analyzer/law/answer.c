/*
 * answer.c - see law.h: from the recordings to an answer, which the files beside this one print
 * (answer_text.c, answer_trust.c, answer_json.c), or a picture.
 */
#include "answer.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/commands.h"
#include "base/shown.h"
#include "base/wrap.h"
#include "plot/curves.h"

enum law_found answer_largest(struct answer *a, bool longest, int64_t x, enum law_policy policy,
                              int64_t *best, uint64_t *retries)
{
    const struct law_list *along = longest ? &a->seq : &a->batch;
    return (longest ? law_longest : law_largest)(&a->model, x, along->at[0], along->at[along->n - 1], policy,
                                                 a->q->capacity, best, retries);
}

double answer_slope(const struct law *law, int64_t batch)
{
    return law->of[TERM_TOKENS] * (double)batch + law->of[TERM_LENGTH];
}

double answer_square(const struct law *law, int64_t batch)
{
    return law->of[TERM_SQUARE] * (double)batch + law->of[TERM_LENGTH_SQUARE];
}

static void add_policy(struct answer *a, struct curve_panel *panel, int64_t batch, bool along_seq, int p,
                       int color)
{
    const struct law_list *xs = along_seq ? &a->seq : &a->batch;
    char *name = xformat("%s %" PRId64 ", %s", along_seq ? "batch" : "seq", batch,
                         p == LAW_LIVE ? "allocated" : law_policy_names[p]);
    struct curve *c = curves_add(panel, name, color, p == LAW_LIVE);
    for (size_t i = 0; c && i < xs->n; i++) {
        struct law_point at =
            along_seq ? (struct law_point){batch, xs->at[i]} : (struct law_point){xs->at[i], batch};
        double gib = (double)law_play(&a->model, at, (enum law_policy)p, 0).bytes / (1 << 30);
        *PUSH(c->points, c->n) = (struct curve_point){(double)xs->at[i], gib, gib, gib};
    }
}

/* A panel for the first and one for the last batch (or length, where one length alone was asked for). */
static int draw(struct answer *a)
{
    bool along_seq = a->seq.n > 1;
    const struct law_list *rows = along_seq ? &a->batch : &a->seq;
    struct curves *c = xrealloc(NULL, sizeof *c);
    *c = (struct curves){.title = xformat("from %zu short recordings", a->runs.n),
                         .x = along_seq ? "seq" : "batch"};
    for (size_t i = 0; i<rows->n; i += rows->n> 1 ? rows->n - 1 : 1) {
        struct curve_panel *panel = &c->panels[c->n++];
        *panel = (struct curve_panel){.title = "allocated, and reserved by allocator",
                                      .unit = "GiB",
                                      .limit = (double)a->q->capacity / (1 << 30)};
        for (int p = 0; p < LAW_POLICIES; p++)
            add_policy(a, panel, rows->at[i], along_seq, p, p);
    }
    int status = curves_draw(c, "whatif", a->q->plot);
    curves_free(c);
    free(c);
    return status;
}

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
        enum law_policy policy = !bad && a.model.base->tape.expandable ? LAW_EXPANDABLE : LAW_NATIVE;
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
        answer_print_json(&a);
    } else if (!bad) {
        wrap_page_begin(false);
        answer_print_text(&a);
        wrap_page_end();
    }
    if (!bad && request->plot)
        bad = draw(&a);
    law_free_model(&a.model);
    law_free_runs(&a.runs);
    return bad ? bad : EXIT_GOOD;
}
