/* answer_plot.c - an answer about other sizes as a picture: a curve for each allocator over one axis. */
#include "answer.h"

#include <inttypes.h>
#include <stdlib.h>

#include "plot/curves.h"

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
int answer_draw(struct answer *a)
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
