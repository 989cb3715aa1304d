/*
 * softmax.c - computes the loss of a row of logits and, in place, its gradient.  Exponentials in fp32, sums
 * in double.  The label's logit is not part of the sum.  So 1 - p of a label that is nearly certain is a sum
 * of small numbers, not a difference of large ones.
 */
#include <math.h>

#include "cpu.h"
#include "half.h"

static double class_weight(const struct cpu_run *r, int64_t class)
{
    return r->b->class_weights ? (double)r->b->class_weights[class] : 1;
}

static void flag(const struct cpu_run *r, int32_t bit)
{
    r->sums->invalid = true;
    if (r->b->error_flag)
        *r->b->error_flag |= bit;
}

void cpu_count(const struct cpu_run *r)
{
    const struct lce_problem *p = r->p;
    for (int64_t c = 0; c < p->vocab; c++)
        r->sums->all_weights += class_weight(r, c);
    for (int64_t i = 0; i < p->tokens; i++) {
        int64_t label = lce_label(p, r->b->labels, i);
        r->state[i] = CPU_INVALID;
        if (label == p->ignore_index) {
            r->state[i] = CPU_IGNORED;
        } else if (label < 0 || label >= p->vocab) {
            flag(r, LCE_DEVICE_LABEL);
        } else if (p->max_counted && r->sums->counted == p->max_counted) {
            flag(r, LCE_DEVICE_TOO_MANY);
        } else {
            r->state[i] = CPU_COUNTED;
            r->sums->counted++;
            r->sums->weights += class_weight(r, label);
        }
    }
}

/* Rounds logits, which the product leaves in fp32, to the input's type. */
static void round_logits(const struct lce_problem *p, float *z)
{
    if (p->dtype == LCE_F32 || p->flags & LCE_F32_LOGITS)
        return;
    for (int64_t c = 0; c < p->vocab; c++)
        z[c] = p->dtype == LCE_BF16 ? lce_from_bf16(lce_to_bf16(z[c])) : lce_from_f16(lce_to_f16(z[c]));
}

struct row {
    float largest;             /* of all logits */
    double others, inverse;    /* the sum of exp(z - largest) without the label's; 1 over the sum with it */
    double lse, cross_entropy; /* the latter without smoothing and class weight */
};

/* Bias and softcap. */
static struct row finish_logits(const struct cpu_run *r, float *z, int64_t label)
{
    const struct lce_problem *p = r->p;
    float most = -INFINITY;
    round_logits(p, z);
    for (int64_t c = 0; c < p->vocab; c++) {
        if (r->b->bias)
            z[c] += lce_load(r->b->bias, p->dtype, c);
        if (p->softcap > 0)
            z[c] = p->softcap * tanhf(z[c] / p->softcap);
        most = z[c] > most || isnan(z[c]) ? z[c] : most;
    }
    struct row row = {.largest = most};
    for (int64_t c = 0; c < p->vocab; c++)
        row.others += c == label ? 0 : (double)expf(z[c] - most);
    const double sum = row.others + (double)expf(z[label] - most);
    row.inverse = 1 / sum;
    row.lse = (double)most + log(sum);
    const double odds = (double)(most - z[label]) + log(row.others); /* log odds of the other classes */
    row.cross_entropy = (odds > 0 ? odds : 0) + log1p(exp(-fabs(odds)));
    return row;
}

static double cross_entropy(const struct cpu_run *r, const float *z, int64_t label, const struct row *row)
{
    const double smoothing = (double)r->p->label_smoothing;
    double smooth = 0;
    for (int64_t c = 0; smoothing > 0 && c < r->p->vocab; c++)
        smooth += class_weight(r, c) * (row->lse - (double)z[c]);
    return (1 - smoothing) * class_weight(r, label) * row->cross_entropy +
           smoothing / (double)r->p->vocab * smooth;
}

static void gradient(const struct cpu_run *r, float *z, int64_t token, int64_t label, const struct row *row)
{
    const struct lce_problem *p = r->p;
    const bool mean = p->reduction == LCE_MEAN;
    double u = r->b->grad_output ? (double)r->b->grad_output[p->reduction == LCE_NONE ? token : 0] : 1;
    double u_ce = u / (mean ? r->sums->weights : 1), u_zl = u / (mean ? (double)r->sums->counted : 1);
    double hard = u_ce * (1 - (double)p->label_smoothing) * class_weight(r, label);
    double soft = u_ce * (double)p->label_smoothing / (double)p->vocab;
    double rest = soft * r->sums->all_weights + u_zl * 2 * (double)p->z_loss * row->lse;
    float factor = (float)((hard + rest) * row->inverse), cap = p->softcap > 0 ? 1 / p->softcap : 0;
    float rest_factor = (float)(rest * row->inverse), others = (float)(hard * row->others * row->inverse);
    for (int64_t c = 0; c < p->vocab; c++) {
        float e = expf(z[c] - row->largest), g = c == label ? rest_factor * e - others : factor * e;
        if (soft != 0)
            g -= (float)(soft * class_weight(r, c));
        z[c] = cap > 0 ? g * (1 - z[c] * cap * (z[c] * cap)) : g; /* -inf times 0 would be NaN */
    }
}

void cpu_softmax(const struct cpu_run *r, int64_t count)
{
    const struct lce_problem *p = r->p;
    for (int64_t i = 0; i < count; i++) {
        float *z = r->logits + i * p->vocab;
        int64_t label = lce_label(p, r->b->labels, r->index[i]);
        struct row row = finish_logits(r, z, label);
        double ce = cross_entropy(r, z, label, &row), zl = (double)p->z_loss * row.lse * row.lse;
        r->sums->ce += ce;
        r->sums->zl += zl;
        if (p->wants & LCE_WANT_LOSS && p->reduction == LCE_NONE)
            r->b->loss[r->index[i]] = (float)(ce + zl);
        if (lce_wants_gradients(p))
            gradient(r, z, r->index[i], label, &row);
    }
}

float cpu_reduced(const struct cpu_run *r)
{
    const struct cpu_sums *s = r->sums;
    if (s->invalid)
        return NAN;
    if (r->p->reduction == LCE_SUM)
        return (float)(s->ce + s->zl);
    return s->counted ? (float)(s->ce / s->weights + s->zl / (double)s->counted) : NAN;
}
