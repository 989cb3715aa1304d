/*
 * softmax.c - from a row of logits to its loss and, in place, its gradient.  Exponentials in fp32, sums in
 * double.
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

/* The products leave logits in fp32: makes them what the input's type can hold. */
static void round_logits(const struct lce_problem *p, float *z)
{
    if (p->dtype == LCE_F32 || p->flags & LCE_F32_LOGITS)
        return;
    for (int64_t c = 0; c < p->vocab; c++)
        z[c] = p->dtype == LCE_BF16 ? lce_from_bf16(lce_to_bf16(z[c])) : lce_from_f16(lce_to_f16(z[c]));
}

/* Bias and softcap; returns the log-sum-exp. */
static double finish_logits(const struct cpu_run *r, float *z)
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
    double sum = 0;
    for (int64_t c = 0; c < p->vocab; c++)
        sum += (double)expf(z[c] - most);
    return (double)most + log(sum);
}

static double cross_entropy(const struct cpu_run *r, const float *z, int64_t label, double lse)
{
    const double smoothing = (double)r->p->label_smoothing;
    double smooth = 0;
    for (int64_t c = 0; smoothing > 0 && c < r->p->vocab; c++)
        smooth += class_weight(r, c) * (lse - (double)z[c]);
    return (1 - smoothing) * class_weight(r, label) * (lse - (double)z[label]) +
           smoothing / (double)r->p->vocab * smooth;
}

static void gradient(const struct cpu_run *r, float *z, int64_t token, int64_t label, double lse)
{
    const struct lce_problem *p = r->p;
    const bool mean = p->reduction == LCE_MEAN;
    double u = r->b->grad_output ? (double)r->b->grad_output[p->reduction == LCE_NONE ? token : 0] : 1;
    double u_ce = u / (mean ? r->sums->weights : 1), u_zl = u / (mean ? (double)r->sums->counted : 1);
    double hard = u_ce * (1 - (double)p->label_smoothing) * class_weight(r, label);
    double soft = u_ce * (double)p->label_smoothing / (double)p->vocab;
    float factor = (float)(hard + soft * r->sums->all_weights + u_zl * 2 * (double)p->z_loss * lse);
    float cap = p->softcap > 0 ? 1 / p->softcap : 0, shift = (float)lse;
    for (int64_t c = 0; c < p->vocab; c++) {
        float g = factor * expf(z[c] - shift) - (c == label ? (float)hard : 0);
        if (soft != 0)
            g -= (float)(soft * class_weight(r, c));
        z[c] = g * (1 - z[c] * cap * (z[c] * cap));
    }
}

void cpu_softmax(const struct cpu_run *r, int64_t count)
{
    const struct lce_problem *p = r->p;
    for (int64_t i = 0; i < count; i++) {
        float *z = r->logits + i * p->vocab;
        int64_t label = lce_label(p, r->b->labels, r->index[i]);
        double lse = finish_logits(r, z), ce = cross_entropy(r, z, label, lse),
               zl = (double)p->z_loss * lse * lse;
        r->sums->ce += ce;
        r->sums->zl += zl;
        if (p->wants & LCE_WANT_LOSS && p->reduction == LCE_NONE)
            r->b->loss[r->index[i]] = (float)(ce + zl);
        if (lce_wants_gradients(p))
            gradient(r, z, r->index[i], label, lse);
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
