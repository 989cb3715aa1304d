/*
 * reference.c - the loss and its gradients in double precision, straight from the header's formulas, slow and
 * obviously right: every back end is compared with this.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "internal.h"

enum state { COUNTED, IGNORED, INVALID };

struct reference {
    const struct lce_problem *p;
    const struct lce_buffers *b;
    const struct lce_reference *out;
    double *z;          /* [V] of the token */
    double weights;     /* sum of w_y over counted tokens */
    double all_weights; /* sum of w_c over the classes */
    int64_t counted;
    double ce_sum, zl_sum; /* of counted tokens */
    bool invalid;
};

static double class_weight(const struct reference *r, int64_t class)
{
    return r->b->class_weights ? (double)r->b->class_weights[class] : 1;
}

static enum state token_state(const struct reference *r, int64_t token, int64_t *label)
{
    *label = lce_label(r->p, r->b->labels, token);
    if (*label == r->p->ignore_index)
        return IGNORED;
    return *label >= 0 && *label < r->p->vocab ? COUNTED : INVALID;
}

static void count(struct reference *r)
{
    int64_t label;
    for (int64_t c = 0; c < r->p->vocab; c++)
        r->all_weights += class_weight(r, c);
    for (int64_t i = 0; i < r->p->tokens; i++) {
        enum state state = token_state(r, i, &label);
        if (state == INVALID || (state == COUNTED && r->p->max_counted && r->counted == r->p->max_counted)) {
            r->invalid = true;
        } else if (state == COUNTED) {
            r->counted++;
            r->weights += class_weight(r, label);
        }
    }
}

/* Fills r->z with the logits of the token and returns their log-sum-exp. */
static double logits(const struct reference *r, int64_t token)
{
    const struct lce_problem *p = r->p;
    double most = -INFINITY, sum = 0;
    for (int64_t c = 0; c < p->vocab; c++) {
        double z = r->b->bias ? (double)lce_load(r->b->bias, p->dtype, c) : 0;
        for (int64_t h = 0; h < p->hidden; h++)
            z += (double)lce_load(r->b->input, p->dtype, token * p->input_stride + h) *
                 (double)lce_load(r->b->weight, p->dtype, c * p->weight_stride + h);
        r->z[c] =
            (p->softcap > 0 ? (double)p->softcap * tanh(z / (double)p->softcap) : z) / (double)p->temperature;
        most = fmax(most, r->z[c]);
    }
    for (int64_t c = 0; c < p->vocab; c++)
        sum += exp(r->z[c] - most);
    return most + log(sum);
}

static double cross_entropy(const struct reference *r, int64_t label, double lse)
{
    double smoothing = (double)r->p->label_smoothing, smooth = 0;
    for (int64_t c = 0; smoothing > 0 && c < r->p->vocab; c++)
        smooth += class_weight(r, c) * (lse - r->z[c]);
    return (1 - smoothing) * class_weight(r, label) * (lse - r->z[label]) +
           smoothing / (double)r->p->vocab * smooth;
}

/* p_c log p_c: 0 in the limit of p_c = 0 */
static double weighed_log(const struct reference *r, int64_t c, double lse)
{
    const double probability = exp(r->z[c] - lse);
    return probability > 0 ? probability * (r->z[c] - lse) : probability;
}

static double entropy(const struct reference *r, double lse)
{
    double sum = 0;
    for (int64_t c = 0; c < r->p->vocab; c++)
        sum -= weighed_log(r, c, lse);
    return sum;
}

static double upstream(const struct reference *r, int64_t token)
{
    if (!r->b->grad_output)
        return 1;
    return (double)r->b->grad_output[r->p->reduction == LCE_NONE ? token : 0];
}

/* Adds the contribution of G, the gradient of logit C, to the gradients that are wanted. */
static void add_gradient(const struct reference *r, int64_t token, int64_t c, double g)
{
    const struct lce_problem *p = r->p;
    for (int64_t h = 0; h < p->hidden; h++) {
        if (r->out->grad_input)
            r->out->grad_input[token * p->hidden + h] +=
                g * (double)lce_load(r->b->weight, p->dtype, c * p->weight_stride + h);
        if (r->out->grad_weight)
            r->out->grad_weight[c * p->hidden + h] +=
                g * (double)lce_load(r->b->input, p->dtype, token * p->input_stride + h);
    }
    if (r->out->grad_bias)
        r->out->grad_bias[c] += g;
}

static void gradients(const struct reference *r, int64_t token, int64_t label, double lse)
{
    const struct lce_problem *p = r->p;
    const bool mean = p->reduction == LCE_MEAN;
    double u_ce = upstream(r, token) / (mean ? r->weights : 1),
           u_zl = upstream(r, token) / (mean ? (double)r->counted : 1);
    double hard = (1 - (double)p->label_smoothing) * class_weight(r, label);
    double soft = (double)p->label_smoothing / (double)p->vocab;
    double u_entropy = r->b->grad_entropy ? (double)r->b->grad_entropy[token] : 0;
    double all = u_entropy != 0 ? entropy(r, lse) : 0;
    for (int64_t c = 0; c < p->vocab; c++) {
        double probability = exp(r->z[c] - lse);
        double g = u_ce * (probability * (hard + soft * r->all_weights) - (c == label ? hard : 0) -
                           soft * class_weight(r, c)) +
                   u_zl * 2 * (double)p->z_loss * lse * probability;
        if (u_entropy != 0)
            g -= u_entropy * (weighed_log(r, c, lse) + probability * all);
        const double share = p->softcap > 0 ? r->z[c] * (double)p->temperature / (double)p->softcap : 0;
        g *= (1 - share * share) / (double)p->temperature;
        add_gradient(r, token, c, g);
    }
}

static void poison(const struct reference *r, int64_t token)
{
    for (int64_t h = 0; r->out->grad_input && h < r->p->hidden; h++)
        r->out->grad_input[token * r->p->hidden + h] = NAN;
    if (r->out->loss && r->p->reduction == LCE_NONE)
        r->out->loss[token] = NAN;
    if (r->out->entropy)
        r->out->entropy[token] = NAN;
}

static void tokens(struct reference *r)
{
    const struct lce_problem *p = r->p;
    int64_t label, seen = 0;
    for (int64_t i = 0; i < p->tokens; i++) {
        enum state state = token_state(r, i, &label);
        if (state == COUNTED && p->max_counted && seen++ >= p->max_counted)
            state = INVALID;
        if (state == INVALID)
            poison(r, i);
        if (state != COUNTED)
            continue;
        double lse = logits(r, i), ce = cross_entropy(r, label, lse), zl = (double)p->z_loss * lse * lse;
        r->ce_sum += ce;
        r->zl_sum += zl;
        if (r->out->loss && p->reduction == LCE_NONE)
            r->out->loss[i] = ce + zl;
        if (r->out->entropy)
            r->out->entropy[i] = entropy(r, lse);
        gradients(r, i, label, lse);
    }
}

static void clear(const struct lce_problem *p, const struct lce_reference *out)
{
    const size_t h = (size_t)p->hidden, v = (size_t)p->vocab, n = (size_t)p->tokens;
    if (out->grad_input)
        memset(out->grad_input, 0, n * h * sizeof(double));
    if (out->grad_weight)
        memset(out->grad_weight, 0, v * h * sizeof(double));
    if (out->grad_bias)
        memset(out->grad_bias, 0, v * sizeof(double));
    if (out->entropy)
        memset(out->entropy, 0, n * sizeof(double));
    if (out->loss)
        memset(out->loss, 0, (p->reduction == LCE_NONE ? n : 1) * sizeof(double));
}

static double reduced(const struct reference *r)
{
    if (r->invalid)
        return NAN;
    if (r->p->reduction == LCE_SUM)
        return r->ce_sum + r->zl_sum;
    return r->counted ? r->ce_sum / r->weights + r->zl_sum / (double)r->counted : NAN;
}

int lce_reference_run(const struct lce_problem *problem, const struct lce_buffers *buffers,
                      const struct lce_reference *out)
{
    struct lce_problem complete;
    if (!problem || !buffers || !out)
        return lce_fail(LCE_BAD_ARGUMENT, "lce_reference_run: problem, buffers or out is NULL");
    int status = lce_problem_check(problem, &complete);
    if (status)
        return status;
    if (lce_in_parts(&complete))
        return lce_fail(LCE_BAD_ARGUMENT,
                        "lce_reference_run: the reference is of a whole vocabulary; leave out parts "
                        "and LCE_WANT_PARTIAL");
    struct reference r = {.p = &complete, .b = buffers, .out = out};
    r.z = malloc((size_t)complete.vocab * sizeof(double));
    if (!r.z)
        return lce_fail(LCE_OUT_OF_MEMORY, "lce_reference_run: no memory for a row of %lld logits",
                        (long long)complete.vocab);
    clear(&complete, out);
    count(&r);
    tokens(&r);
    if (out->loss && complete.reduction != LCE_NONE)
        *out->loss = reduced(&r);
    free(r.z);
    return LCE_OK;
}
