/*
 * softmax.c - the loss, entropy and, in place, gradient of a row of logits; or what one rank's classes
 * contribute to these.  Exponentials are in fp32, sums in double.  The label's logit is not part of the sum,
 * so 1 - p of a nearly certain label is a sum of small numbers, not a difference of large ones.
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
    for (int64_t c = 0; c < p->vocab_total; c++)
        r->sums->all_weights += class_weight(r, c);
    for (int64_t i = 0; i < p->tokens; i++) {
        int64_t label = lce_label(p, r->b->labels, i);
        r->state[i] = CPU_INVALID;
        if (label == p->ignore_index) {
            r->state[i] = CPU_IGNORED;
        } else if (label < 0 || label >= p->vocab_total) {
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

/* Adds bias, softcap and temperature to the product's sums. */
static void finish_logits(const struct cpu_run *r, float *z)
{
    const struct lce_problem *p = r->p;
    round_logits(p, z);
    for (int64_t c = 0; c < p->vocab; c++) {
        if (r->b->bias)
            z[c] += lce_load(r->b->bias, p->dtype, c);
        if (p->softcap > 0)
            z[c] = p->softcap * tanhf(z[c] / p->softcap);
        z[c] /= p->temperature;
    }
}

/* As struct lce_partial, in double precision. */
struct sums {
    double largest, sum, weighed, target, moment;
};

static double larger(double a, double b)
{
    return b > a || isnan(b) ? b : a;
}

/* LABEL is counted from the first of these classes on, and may lie outside. */
static struct sums sums_of(const struct cpu_run *r, const float *z, int64_t label)
{
    const int64_t vocab = r->p->vocab;
    struct sums s = {.largest = (double)-INFINITY};
    for (int64_t c = 0; c < vocab; c++)
        s.largest = c == label ? s.largest : larger(s.largest, (double)z[c]);
    for (int64_t c = 0; c < vocab; c++) {
        const float above = z[c] - (float)s.largest, e = c == label || z[c] == -INFINITY ? 0 : expf(above);
        s.sum += (double)e;
        s.moment += e > 0 ? (double)(e * above) : 0;
    }
    for (int64_t c = 0; r->p->label_smoothing > 0 && c < vocab; c++)
        s.weighed += class_weight(r, r->p->vocab_begin + c) * (double)z[c];
    if (label >= 0 && label < vocab)
        s.target = (double)z[label];
    return s;
}

/* The sums of all ranks' classes of the chunk's row I. */
static struct sums combined(const struct cpu_run *r, int64_t i)
{
    const bool exchanged = cpu_exchanges(r->p);
    const int64_t next = exchanged ? r->count : r->p->tokens;
    const struct lce_partial *part = r->b->partials + (exchanged ? r->p->parts * r->first + i : r->index[i]);
    struct sums all = {.largest = (double)-INFINITY};
    for (int32_t rank = 0; rank < r->p->parts; rank++)
        all.largest = larger(all.largest, (double)part[rank * next].largest);
    for (int32_t rank = 0; rank < r->p->parts; rank++) {
        const struct lce_partial *one = part + rank * next;
        const double above = (double)one->largest - all.largest, factor = exp(above);
        all.weighed += (double)one->weighed;
        all.target += (double)one->target;
        if (one->sum == 0)
            continue; /* ABOVE may be infinite */
        all.sum += factor * (double)one->sum;
        all.moment += factor * ((double)one->moment + above * (double)one->sum);
    }
    return all;
}

struct row {
    double shift;                       /* the largest logit */
    double others, inverse;             /* 1 - p of the label; 1 over the sum of all exp(z - shift) */
    double log_sum;                     /* the logarithm of that sum */
    double lse, cross_entropy, entropy; /* cross_entropy without smoothing and class weight */
};

static struct row row_of(const struct sums *s)
{
    struct row row = {.shift = larger(s->largest, s->target)};
    const double scale = s->sum == 0 ? 0 : exp(s->largest - row.shift), label = exp(s->target - row.shift);
    const double sum = scale * s->sum + label;
    row.inverse = 1 / sum;
    row.log_sum = log(sum);
    row.others = scale * s->sum * row.inverse;
    row.lse = row.shift + row.log_sum;
    const double odds = (s->largest - s->target) + log(s->sum); /* log odds of the other classes */
    row.cross_entropy = (odds > 0 ? odds : 0) + log1p(exp(-fabs(odds)));
    row.entropy = label > 0 || isnan(label) ? label * row.inverse * row.cross_entropy : 0;
    if (s->sum != 0)
        row.entropy += scale * row.inverse * (s->sum * ((row.shift - s->largest) + row.log_sum) - s->moment);
    return row;
}

static double cross_entropy(const struct cpu_run *r, const struct sums *sums, int64_t label,
                            const struct row *row)
{
    const double smoothing = (double)r->p->label_smoothing;
    const double smooth =
        smoothing > 0 ? (r->sums->all_weights * row->lse - sums->weighed) / (double)r->p->vocab_total : 0;
    return (1 - smoothing) * class_weight(r, label) * row->cross_entropy + smoothing * smooth;
}

/* Adds the gradient of the entropy, times UPSTREAM, to G, that of the logit Z of probability P.  OWN is minus
 * the logarithm of P, known more exactly, where this is the label; otherwise NaN. */
static float with_entropy(const struct row *row, float g, float z, double p, double upstream, double own)
{
    if (p == 0)
        return g;
    const double surprise = isnan(own) ? row->shift - (double)z + row->log_sum : own;
    return g + (float)(upstream * p * (surprise - row->entropy));
}

/* LABEL is counted from the first of these classes on, and may lie outside. */
static void gradient(const struct cpu_run *r, float *z, int64_t token, int64_t label, const struct row *row)
{
    const struct lce_problem *p = r->p;
    const bool mean = p->reduction == LCE_MEAN;
    const double over = 1 / (double)p->temperature;
    double u =
        (r->b->grad_output ? (double)r->b->grad_output[p->reduction == LCE_NONE ? token : 0] : 1) * over;
    double u_ce = u / (mean ? r->sums->weights : 1), u_zl = u / (mean ? (double)r->sums->counted : 1);
    double u_entropy = r->b->grad_entropy ? (double)r->b->grad_entropy[token] * over : 0;
    double hard = u_ce * (1 - (double)p->label_smoothing) * class_weight(r, p->vocab_begin + label);
    double soft = u_ce * (double)p->label_smoothing / (double)p->vocab_total;
    double rest = soft * r->sums->all_weights + u_zl * 2 * (double)p->z_loss * row->lse;
    float factor = (float)((hard + rest) * row->inverse),
          cap = p->softcap > 0 ? p->temperature / p->softcap : 0;
    float rest_factor = (float)(rest * row->inverse), others = (float)(hard * row->others);
    for (int64_t c = 0; c < p->vocab; c++) {
        float e = expf(z[c] - (float)row->shift), g = c == label ? rest_factor * e - others : factor * e;
        if (soft != 0)
            g -= (float)(soft * class_weight(r, p->vocab_begin + c));
        if (u_entropy != 0)
            g = with_entropy(row, g, z[c], (double)e * row->inverse, u_entropy,
                             c == label ? row->cross_entropy : (double)NAN);
        z[c] = cap > 0 ? g * (1 - z[c] * cap * (z[c] * cap)) : g; /* -inf times 0 would be NaN */
    }
}

/* Writes what is wanted of a row, whose logits Z may be NULL if no gradient is. */
static void finish_row(const struct cpu_run *r, int64_t token, int64_t label, const struct sums *sums,
                       float *z)
{
    const struct lce_problem *p = r->p;
    const struct row row = row_of(sums);
    double ce = cross_entropy(r, sums, label, &row), zl = (double)p->z_loss * row.lse * row.lse;
    r->sums->ce += ce;
    r->sums->zl += zl;
    if (p->wants & LCE_WANT_LOSS && p->reduction == LCE_NONE)
        r->b->loss[token] = (float)(ce + zl);
    if (p->wants & LCE_WANT_ENTROPY)
        r->b->entropy[token] = (float)row.entropy;
    if (z)
        gradient(r, z, token, label - p->vocab_begin, &row);
}

/* The chunk's row I as logits, and its label counted from the first of these classes on. */
static float *logits_of(const struct cpu_run *r, int64_t i, int64_t *label)
{
    *label = lce_label(r->p, r->b->labels, r->index[i]) - r->p->vocab_begin;
    return r->logits + i * r->p->vocab;
}

void cpu_partial(const struct cpu_run *r)
{
    for (int64_t i = 0; i < r->count; i++) {
        int64_t label;
        float *z = logits_of(r, i, &label);
        finish_logits(r, z);
        const struct sums s = sums_of(r, z, label);
        r->b->partial[cpu_exchanges(r->p) ? r->first + i : r->index[i]] = (struct lce_partial){
            (float)s.largest, (float)s.sum, (float)s.weighed, (float)s.target, (float)s.moment};
    }
}

void cpu_softmax(const struct cpu_run *r)
{
    const struct lce_problem *p = r->p;
    for (int64_t i = 0; i < r->count; i++) {
        int64_t label;
        float *z = logits_of(r, i, &label);
        if (cpu_needs_logits(p) && !cpu_exchanges(p))
            finish_logits(r, z);
        const struct sums sums = p->parts > 0 ? combined(r, i) : sums_of(r, z, label);
        finish_row(r, r->index[i], label + p->vocab_begin, &sums, lce_wants_gradients(p) ? z : NULL);
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
