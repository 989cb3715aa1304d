/* estimate.c - adds up the rows of each phase, and says where they come from (estimate.h). */
#include "estimate.h"

#include <stdlib.h>
#include <string.h>

#define MOST 4503599627370496.0 /* 2^52: beyond any memory, and double is exact up to here */

const char *const estimate_row_names[ESTIMATE_ROWS] = {"parameters",
                                                       "gradients",
                                                       "optimizer states",
                                                       "activations",
                                                       "output",
                                                       "gradients of the output",
                                                       "optimizer temporaries",
                                                       "gathered parameters"};
const char *const estimate_phase_names[ESTIMATE_PHASES] = {"forward", "logits", "backward", "optimizer"};

const char *estimate_row_before(const char *row)
{
    return !strcmp(row, estimate_row_names[ROW_LOGITS])             ? "logits"
           : !strcmp(row, estimate_row_names[ROW_LOGITS_GRADIENTS]) ? "gradients of logits"
                                                                    : row;
}

/* ---- the parts ---- */

struct parts { /* bytes; NAN is not used: KNOWN_* says what is there */
    bool activations_known, logits_known, gathered_known;
    double forward, last_layer,
        first_layer; /* activations: of all layers; in the last and the first layer's backward */
    double loss_forward, log_softmax, loss_gradients, head_gradient;
};

static bool counted(const struct setup *s)
{
    return s->model.kind != MODEL_UNKNOWN && s->tensor_parallel == 1 && !s->scores &&
           s->recompute != RECOMPUTE_SELECTIVE;
}

/* Whether the output layer's copies under autocast are a part of their own, in the logits' row. */
static bool casts_head(const struct setup *s)
{
    return s->autocast && s->model.words && s->model.embedding != UNKNOWN;
}

bool estimate_sparse(const struct model *m)
{
    if (m->kind != MODEL_UNKNOWN || m->layers == UNKNOWN || m->hidden == UNKNOWN || m->parameters == UNKNOWN)
        return false;
    double h = (double)m->hidden, dense = 12 * (double)m->layers * h * h,
           rest = (double)m->parameters - (m->embedding == UNKNOWN ? 0 : (double)m->embedding);
    return rest > 4 * dense;
}

/* Bytes that one layer keeps, and what its backward has beyond them. */
static double one_layer(const struct setup *s, double *more)
{
    const struct model *m = &s->model;
    double n = (double)s->batch * (double)s->tokens;
    struct layer_shape shape = {.batch = (double)s->batch,
                                .tokens = (double)s->tokens,
                                .hidden = (double)m->hidden,
                                .heads = (double)m->heads,
                                .tensor_parallel = (double)s->tensor_parallel,
                                .sequence_parallel = s->sequence_parallel,
                                .flash = !s->scores};
    *more = counted(s) ? n * kept_backward(m, s->element) : 0;
    if (counted(s))
        return n * (s->autocast ? kept_under_autocast(m) : kept_by_layer(m, s->element));
    /* the paper's are of 2 bytes an element */
    return formula_layer(&shape, s->recompute == RECOMPUTE_FULL ? RECOMPUTE_NONE : s->recompute) *
           s->element / 2;
}

/* Whether autocast finds the weights in 16 bits already, as ZeRO 3 has gathered them: it copies none of them
 * then. */
static bool gathered_as_cast(const struct setup *s)
{
    return s->stage >= 3 && s->gather == 2;
}

/* Bytes of one layer's weights' copies in 16 bits; without a config.json all parameters are the layers'. */
static double one_layers_casts(const struct setup *s)
{
    const struct model *m = &s->model;
    if (!s->autocast || gathered_as_cast(s))
        return 0;
    return (m->kind == MODEL_UNKNOWN ? 2 * (double)m->parameters / (double)m->layers : kept_casts(m)) /
           (double)s->tensor_parallel;
}

static struct parts parts_of_step(const struct setup *s)
{
    const struct model *m = &s->model;
    struct parts p = {0};
    bool sized = s->batch != UNKNOWN && s->tokens != UNKNOWN;
    double n = sized ? (double)s->batch * (double)s->tokens : 0, more;
    p.activations_known = sized && m->layers != UNKNOWN && m->hidden != UNKNOWN &&
                          (m->heads != UNKNOWN || !s->scores || s->recompute == RECOMPUTE_FULL) &&
                          !estimate_sparse(m);
    p.logits_known = sized && m->outputs != UNKNOWN;
    p.gathered_known = s->stage < 3 || model_largest(m) != UNKNOWN;
    if (p.activations_known) {
        double layers = (double)m->layers, layer = one_layer(s, &more),
               hidden = n * (double)m->hidden * (s->autocast ? 4 : s->element);
        bool full = s->recompute == RECOMPUTE_FULL, cast = s->autocast && counted(s);
        double kept = full ? hidden / (s->sequence_parallel ? (double)s->tensor_parallel : 1) : layer;
        double behind = !counted(s) ? 0
                        : cast      ? n * kept_beside_autocast(m)
                                    : n * kept_by_last_norm(m, s->element);
        double casts = one_layers_casts(s);
        p.forward = layers * (kept + casts) + behind;
        p.last_layer = layers * (kept + (full ? 0 : casts)) + (full ? layer + casts : 0) + more;
        p.first_layer = kept + (full ? layer : 0) + casts + more;
    }
    if (p.logits_known &&
        !m->words) { /* what the labels' loss makes of one row a sequence is next to nothing */
        p.loss_forward = formula_logits(n, (double)m->outputs, s->element);
    } else if (p.logits_known) {
        double vocab = (double)m->vocab / (double)s->tensor_parallel;
        double fused = formula_loss_fused((double)s->chunk < n ? (double)s->chunk : n, vocab, s->element);
        p.loss_forward = s->fused_loss ? fused : formula_loss_forward(n, vocab, s->element);
        p.log_softmax = s->fused_loss ? 0 : formula_logits(n, vocab, 4);
        p.loss_gradients = s->fused_loss ? 0 : formula_loss_backward(n, vocab) - p.log_softmax;
        if (casts_head(s)) { /* the output layer's weight and its input, in 16 bits */
            double weight = gathered_as_cast(s) ? 0 : (double)m->embedding / (double)s->tensor_parallel;
            double casts = 2 * (weight + n * (double)m->hidden);
            p.loss_forward += casts;
            p.log_softmax += casts;
        }
    }
    if (m->words && m->embedding != UNKNOWN && s->stage < 2 && s->offload == OFFLOAD_NONE)
        p.head_gradient = (double)m->embedding * s->each.gradients / (double)s->tensor_parallel;
    return p;
}

/* ---- the phases ---- */

typedef double phase_rows[ESTIMATE_ROWS];

static double sum(const double *rows)
{
    double total = 0;
    for (int i = 0; i < ESTIMATE_ROWS; i++)
        total += rows[i];
    return total;
}

/* The moments of backward, of which *ROWS becomes the highest: where the loss is differentiated, in the last
 * layer, in the first one, and where the embedding's gradient is made. */
static void backward(double *rows, const struct parts *p, const struct setup *s, double gradients)
{
    const struct {
        double gradients, activations, logits, logits_gradients;
    } moments[] = {
        {s->keep_gradients ? gradients : 0, p->forward, p->log_softmax, p->loss_gradients},
        {s->keep_gradients ? gradients : p->head_gradient, p->last_layer, 0, 0},
        {gradients, p->first_layer, 0, 0},
        {gradients + (s->model.tied ? p->head_gradient : 0), 0, 0, 0},
    };
    double most = -1;
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        double here =
            moments[i].gradients + moments[i].activations + moments[i].logits + moments[i].logits_gradients;
        if (here <= most)
            continue;
        most = here;
        rows[ROW_GRADIENTS] = moments[i].gradients;
        rows[ROW_ACTIVATIONS] = moments[i].activations;
        rows[ROW_LOGITS] = moments[i].logits;
        rows[ROW_LOGITS_GRADIENTS] = moments[i].logits_gradients;
    }
}

static void fill(phase_rows *out, const struct setup *s, const struct parts *p)
{
    double parameters = (double)s->model.parameters / (double)s->tensor_parallel, gpus = (double)s->gpus;
    struct static_bytes fixed = formula_static(parameters, &s->each, s->stage, gpus, s->offload);
    double gathered = s->stage < 3 || !p->gathered_known
                          ? 0
                          : (double)model_largest(&s->model) * s->gather / (double)s->tensor_parallel;
    for (int i = 0; i < ESTIMATE_PHASES; i++) {
        out[i][ROW_PARAMETERS] = fixed.parameters;
        out[i][ROW_STATES] = fixed.states;
        out[i][ROW_GRADIENTS] = i == PHASE_OPTIMIZER || s->keep_gradients ? fixed.gradients : 0;
        out[i][ROW_ACTIVATIONS] = i == PHASE_OPTIMIZER ? 0 : p->forward;
        out[i][ROW_LOGITS] = i == PHASE_LOGITS ? p->loss_forward : 0;
        out[i][ROW_LOGITS_GRADIENTS] = 0;
        out[i][ROW_FOREACH] =
            i == PHASE_OPTIMIZER ? formula_foreach(parameters, &s->each, s->stage, gpus, s->offload) : 0;
        out[i][ROW_GATHERED] = i == PHASE_OPTIMIZER ? 0 : gathered;
    }
    backward(out[PHASE_BACKWARD], p, s, fixed.gradients);
}

/* ---- where each comes from, in words ---- */

static char *sharded(double each, const char *of, bool over, int64_t gpus)
{
    return over && gpus > 1 ? xformat("%g bytes a parameter%s, over %lld GPUs", each, of, (long long)gpus)
                            : xformat("%g bytes a parameter%s", each, of);
}

/* What autocast adds to the layers, in words. */
static const char *casts_from(const struct setup *s)
{
    return !s->autocast || gathered_as_cast(s) ? ""
           : s->model.kind == MODEL_UNKNOWN    ? "; autocast's copies of weights, 2 bytes a parameter"
                                               : "; autocast's copies of weights";
}

static char *activations_from(const struct setup *s)
{
    if (estimate_sparse(&s->model))
        return xformat(
            "unknown: as many dense layers have 12 Lh^2, %.2f billion parameters, and this model has %.2f: a "
            "mixture of experts keeps more than any formula here says (vramscope fit measures it)%s",
            12e-9 * (double)s->model.layers * (double)s->model.hidden * (double)s->model.hidden,
            1e-9 * (double)s->model.parameters,
            s->model.embedding == UNKNOWN ? "; or --vocab is missing" : "");
    if (s->recompute == RECOMPUTE_FULL)
        return xformat("the input of each layer, %g bytes; one layer's in its backward%s",
                       s->autocast ? 4 : s->element, casts_from(s));
    if (counted(s))
        return xformat("counted over the layers' operations, without attention's scores%s", casts_from(s));
    const char *way = s->sequence_parallel     ? "sbh/t (34 + 5as/h)"
                      : s->tensor_parallel > 1 ? "sbh (10 + 24/t + 5as/ht)"
                                               : "sbh (34 + 5as/h)";
    return xformat("%s a layer%s (Korthikanti et al.)%s", way,
                   s->scores && s->recompute == RECOMPUTE_NONE ? "" : ", without 5as", casts_from(s));
}

/* The rows of a vocabulary's logits. */
static void words_from(struct estimate *e, const struct setup *s)
{
    const char *head = !casts_head(s)        ? ""
                       : gathered_as_cast(s) ? "; autocast's copy of the output layer's input"
                                             : "; autocast's copies of the output layer's weight and input";
    e->from[ROW_LOGITS] =
        s->fused_loss    ? xformat("fused: %lld tokens at a time%s", (long long)s->chunk, head)
        : s->element < 4 ? xformat("%g + 4 (fp32) + 4 (log-softmax) bytes each; in backward log-softmax%s",
                                   s->element, head)
                         : xstrdup("4 + 4 (log-softmax) bytes each; in backward log-softmax");
    if (!s->fused_loss)
        e->from[ROW_LOGITS_GRADIENTS] = xstrdup("by log-softmax and by the fp32 logits, 4 bytes each");
}

static void explain(struct estimate *e, const struct setup *s)
{
    bool host = s->offload != OFFLOAD_NONE;
    e->from[ROW_PARAMETERS] = s->offload == OFFLOAD_PARAMETERS
                                  ? xstrdup("on the host")
                                  : sharded(s->each.weights, "", s->stage >= 3, s->gpus);
    e->from[ROW_GRADIENTS] =
        host ? xstrdup("on the host") : sharded(s->each.gradients, "", s->stage >= 2, s->gpus);
    e->from[ROW_STATES] = host ? xstrdup("on the host") : sharded(s->each.states, "", s->stage >= 1, s->gpus);
    e->from[ROW_ACTIVATIONS] = activations_from(s);
    if (!s->model.words && s->model.outputs > 0)
        e->from[ROW_LOGITS] =
            xformat("labels a token: %lld, %g bytes each", (long long)s->model.outputs, s->element);
    else if (s->model.words)
        words_from(e, s);
    if (s->each.copy > 0 && !host)
        e->from[ROW_FOREACH] = sharded(s->each.copy, " (foreach)", s->stage >= 1, s->gpus);
    if (s->stage >= 3)
        e->from[ROW_GATHERED] = xformat("%g bytes of the largest of a layer and the embedding", s->gather);
}

/* ---- all ---- */

static bool row_known(const struct parts *p, int row)
{
    return row == ROW_ACTIVATIONS                             ? p->activations_known
           : row == ROW_LOGITS || row == ROW_LOGITS_GRADIENTS ? p->logits_known
           : row == ROW_GATHERED                              ? p->gathered_known
                                                              : true;
}

int estimate_make(struct estimate *e, const struct setup *s, char *why, size_t size)
{
    phase_rows rows[ESTIMATE_PHASES];
    *e = (struct estimate){.whole = true};
    if (s->model.parameters == UNKNOWN) {
        snprintf(why, size, "how many parameters? Give a config.json, or --params N");
        return -1;
    }
    if (s->autocast && s->model.kind != MODEL_UNKNOWN && s->model.kind != MODEL_LLAMA) {
        snprintf(why, size,
                 "what %s keeps under autocast is not known: --recipe=bf16 or fp32, or sizes by flags",
                 s->model.type);
        return -1;
    }
    struct parts p = parts_of_step(s);
    fill(rows, s, &p);
    for (int i = 0; i < ESTIMATE_PHASES; i++) {
        double total = sum(rows[i]);
        if (!(total < MOST)) {
            snprintf(why, size, "these sizes give more than 4 PiB: is one of them wrong?");
            return -1;
        }
        for (int row = 0; row < ESTIMATE_ROWS; row++) {
            e->bytes[i][row] = row_known(&p, row) || i == PHASE_OPTIMIZER ? (int64_t)rows[i][row] : UNKNOWN;
            e->least[i] = e->least[i] || e->bytes[i][row] == UNKNOWN;
        }
        e->whole = e->whole && !e->least[i];
        e->total[i] = (int64_t)total;
        if (e->total[i] > e->total[e->peak])
            e->peak = (enum estimate_phase)i;
    }
    e->peak_known = true;
    for (int i = 0; i < ESTIMATE_PHASES; i++)
        e->peak_known = e->peak_known && (i == (int)e->peak || !e->least[i]);
    explain(e, s);
    return 0;
}

void estimate_free(struct estimate *e)
{
    for (int i = 0; i < ESTIMATE_ROWS; i++)
        free(e->from[i]);
}
