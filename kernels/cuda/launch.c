/*
 * launch.c - puts kernels on the stream: all but the products and what belongs to odds and exponentials.
 */
#include <float.h>
#include <math.h>

#include "cuda.h"

static CUlaunchConfig config_of(unsigned int blocks, unsigned int threads, CUstream stream)
{
    return (CUlaunchConfig){.gridDimX = blocks,
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = threads,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .hStream = stream};
}

/* Of CALL, which the message names. */
static int launch(const struct cuda_library *l, const char *call, CUfunction function,
                  const CUlaunchConfig *config, const void *arguments)
{
    void *parameters[] = {(void *)(uintptr_t)arguments};
    CUresult status = l->driver.launch(config, function, parameters, NULL);
    return status ? lce_fail(LCE_DEVICE_ERROR, "%s: a kernel was not launched: %s", call,
                             lce_driver_error(&l->driver, status))
                  : LCE_OK;
}

int cuda_launch(const struct cuda_run *run, CUfunction function, unsigned int blocks, unsigned int threads,
                const void *arguments)
{
    const CUlaunchConfig config = config_of(blocks, threads, run->stream);
    return launch(cuda_of(run->plan), "lce_run", function, &config, arguments);
}

/* Launches CONFIG's blocks in clusters of so many. */
static int launch_clusters(const struct cuda_run *run, CUfunction function, CUlaunchConfig config,
                           unsigned int cluster, const void *arguments)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    attribute.value.clusterDim.x = cluster;
    attribute.value.clusterDim.y = 1;
    attribute.value.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return launch(cuda_of(run->plan), "lce_run", function, &config, arguments);
}

/* Launches as many clusters as the device runs at once; each takes tiles until there are none left. */
int cuda_launch_product(const struct cuda_run *run, CUfunction function, const struct lce_own_args *arguments)
{
    CUlaunchConfig config =
        config_of((unsigned int)arguments->clusters * LCE_PRODUCT_CLUSTER, LCE_PRODUCT_THREADS, run->stream);
    config.sharedMemBytes = LCE_PRODUCT_SHARED;
    return launch_clusters(run, function, config, LCE_PRODUCT_CLUSTER, arguments);
}

/* ---- tokens.cu ---- */

static struct lce_labels labels_of(const struct cuda_run *r)
{
    const struct lce_problem *p = &r->plan->base.problem;
    return (struct lce_labels){.labels = r->buffers->labels,
                               .ignore_index = p->ignore_index,
                               .tokens = p->tokens,
                               .wide = p->label_dtype == LCE_I64,
                               .vocab = (int32_t)p->vocab,
                               .begin = (int32_t)p->vocab_begin,
                               .total = (int32_t)p->vocab_total};
}

int cuda_prepare(const struct cuda_run *r)
{
    const struct lce_problem *p = &r->plan->base.problem;
    const struct lce_prepare_args a = {
        .labels = labels_of(r),
        .class_weights = r->buffers->class_weights,
        .grad_output = r->buffers->grad_output,
        .grad_entropy = lce_wants_gradients(p) ? r->buffers->grad_entropy : NULL,
        .stats = r->stats,
        .state = r->state,
        .index = r->plan->compacts ? r->index : NULL,
        .loss = r->loss,
        .entropy = cuda_wants(r, LCE_WANT_ENTROPY) ? r->buffers->entropy : NULL,
        .partial = (struct lce_slab_row *)(cuda_wants(r, LCE_WANT_PARTIAL) ? r->buffers->partial : NULL),
        .error_flag = r->buffers->error_flag,
        .max_counted = r->plan->compacts ? r->plan->rows : p->max_counted,
        .beta = p->grad_weight_beta,
        .reduction = p->reduction,
        .scaled = r->plan->scaled,
        .counts = cuda_counts_labels(r) ? cuda_at(r, r->plan->layout.counts) : NULL,
        .used = cuda_at(r, r->plan->layout.used),
        .order = cuda_at(r, r->plan->layout.order),
        .orders = cuda_own_orders(r->plan),
    };
    return cuda_launch(r, r->plan->kernels.prepare, 1, 1024, &a);
}

/* Copies rows by index between the caller's matrix and the chunk's. */
int cuda_move_rows(const struct cuda_run *r, bool gather, int64_t first, int64_t rows)
{
    const struct lce_problem *p = &r->plan->base.problem;
    const int64_t e = (int64_t)lce_dtype_size(p->dtype);
    void *here = cuda_rows(r);
    const struct lce_rows_args a = {
        .to = gather ? here : r->buffers->grad_input,
        .from = gather ? r->buffers->input : here,
        .to_stride = (gather ? p->hidden : p->grad_input_stride) * e,
        .from_stride = (gather ? p->input_stride : p->hidden) * e,
        .index = r->index + first,
        .width = p->hidden * e / 2,
        .skips = r->plan->own,
    };
    const struct cuda_kernels *k = &r->plan->kernels;
    return cuda_launch(r, gather ? k->gather : k->scatter, (unsigned int)rows, 256, &a);
}

int cuda_dbias(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows)
{
    const struct lce_sum_args a = {.g = cuda_logits(r),
                                   .stride = r->plan->g_stride,
                                   .sums = (float *)cuda_at(r, r->plan->layout.dbias) + s->begin,
                                   .rows = (int32_t)rows,
                                   .vocab = (int32_t)s->columns,
                                   .stats = r->plan->own ? r->stats : NULL,
                                   .first = first,
                                   .add = first > 0};
    return cuda_launch(r, r->plan->kernels.column_sum, (unsigned int)((s->columns + 255) / 256), 256, &a);
}

/* ROWS of COLUMNS numbers, of which the arguments say the rest. */
static int store(const struct cuda_run *r, CUfunction function, int64_t rows, int64_t columns,
                 struct lce_store_args a)
{
    a.stats = r->stats;
    a.from_stride = a.columns = columns;
    a.blocks = (uint32_t)((columns + 255) / 256);
    return cuda_launch(r, function, (unsigned int)rows * a.blocks, 256, &a);
}

int cuda_store_weights(const struct cuda_run *r)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    const bool none = plan->rows == 0;
    struct lce_store_args weight = {.to = r->buffers->grad_weight, /* the product has multiplied by alpha */
                                    .from = none ? NULL : cuda_at(r, plan->layout.accumulator),
                                    .to_stride = p->grad_weight_stride,
                                    .beta = p->grad_weight_beta},
                          bias = {.to = r->buffers->grad_bias,
                                  .from = none ? NULL : cuda_at(r, plan->layout.dbias),
                                  .to_stride = p->vocab,
                                  .beta = p->grad_weight_beta,
                                  .scaled = plan->scaled};
    int status = LCE_OK;
    if (cuda_wants(r, LCE_WANT_GRAD_WEIGHT) && (plan->accumulates || none))
        status = store(r, plan->kernels.store, p->vocab, p->hidden, weight);
    if (!status && cuda_wants(r, LCE_WANT_GRAD_BIAS))
        status = store(r, plan->kernels.store, 1, p->vocab, bias);
    return status;
}

/* Writes the rows of dinput that no chunk has made, of COUNT tokens from FIRST on. */
int cuda_blank(const struct cuda_run *r, int64_t first, int64_t count)
{
    const struct lce_problem *p = &r->plan->base.problem;
    const int64_t begin = first * p->grad_input_stride * (int64_t)lce_dtype_size(p->dtype);
    const struct lce_blank_args a = {.matrix = (char *)r->buffers->grad_input + begin,
                                     .stride = p->grad_input_stride,
                                     .hidden = p->hidden,
                                     .state = r->state + first,
                                     .zero_ignored = r->plan->compacts};
    if (count == 0 || !cuda_wants(r, LCE_WANT_GRAD_INPUT))
        return LCE_OK;
    return cuda_launch(r, r->plan->kernels.blank, (unsigned int)count, 256, &a);
}

int cuda_reduce(const struct cuda_run *r)
{
    const struct lce_problem *p = &r->plan->base.problem;
    const struct lce_reduce_args a = {.losses = r->loss,
                                      .loss = r->buffers->loss,
                                      .stats = r->stats,
                                      .tokens = p->tokens,
                                      .mean = p->reduction == LCE_MEAN};
    return cuda_launch(r, r->plan->kernels.reduce, 1, 1024, &a);
}

int cuda_expand(const struct cuda_run *r)
{
    const struct lce_problem *p = &r->plan->base.problem;
    const int64_t vectors = p->hidden * (int64_t)lce_dtype_size(p->dtype) / 16;
    const struct lce_expand_args a = {.matrix = r->buffers->grad_input,
                                      .stride = vectors, /* rows lie one after the other */
                                      .vectors = vectors,
                                      .index = r->index,
                                      .stats = r->stats};
    return cuda_launch(r, r->plan->kernels.expand,
                       (unsigned int)((vectors + LCE_EXPAND_VECTORS - 1) / LCE_EXPAND_VECTORS),
                       LCE_EXPAND_THREADS, &a);
}

int cuda_scale(const struct lce *base, void *matrix, uint64_t count, int dtype, const float *factor,
               void *stream)
{
    const struct cuda_library *l = (const struct cuda_library *)base;
    const uint64_t needed = (count + 255) / 256, most = (uint64_t)l->processors * 8; /* all at once */
    const uint32_t blocks = (uint32_t)(needed < most ? needed : most);
    const struct lce_scale_args arguments = {matrix, factor, (int64_t)count, blocks};
    const CUlaunchConfig config = config_of(blocks, 256, stream);
    int status = cuda_right_context(l, "lce_scale");
    return status ? status : launch(l, "lce_scale", l->scale[dtype], &config, &arguments);
}

/* ---- softmax.cu ---- */

struct lce_softmax_args cuda_softmax_args(const struct cuda_run *r, int64_t first)
{
    const struct lce_problem *p = &r->plan->base.problem;
    const struct lce_buffers *b = r->buffers;
    const bool gradients = lce_wants_gradients(p);
    return (struct lce_softmax_args){
        .labels = labels_of(r),
        .logits = cuda_logits(r),
        .stride = r->plan->stride,
        .first = first,
        .stats = r->stats,
        .state = r->state,
        .index = r->plan->compacts ? r->index : NULL,
        .bias = b->bias,
        .class_weights = b->class_weights ? b->class_weights + p->vocab_begin : NULL,
        .grad_output = b->grad_output,
        .grad_entropy = b->grad_entropy,
        .loss = r->loss,
        .entropy = cuda_wants(r, LCE_WANT_ENTROPY) ? b->entropy : NULL,
        .smoothing = p->label_smoothing,
        .z_loss = p->z_loss,
        .softcap = p->softcap,
        .temperature = p->temperature,
        .to_nats = (float)(1 / (double)p->temperature),
        .to_bits = (float)(1.4426950408889634 / (double)p->temperature),
        .per_softcap = p->softcap > 0 ? fminf(1 / p->softcap, FLT_MAX) : 0,
        .to_share = p->softcap > 0 ? p->temperature / p->softcap : 0,
        .reduction = p->reduction,
        .gradients = gradients,
        /* a partial result has its moment always: the second run may want it */
        .moments = p->wants & (LCE_WANT_ENTROPY | LCE_WANT_PARTIAL) || (gradients && b->grad_entropy),
        .skips = r->plan->own,
        .known = r->plan->borrowed ? (struct lce_slab_row *)cuda_at(r, r->plan->layout.known) + first : NULL,
    };
}

enum cuda_kind cuda_kind(const struct lce_softmax_args *a)
{
    /* without smoothing a token has its label's class weight alone */
    if (a->bias || a->smoothing > 0 || a->softcap > 0 || isinf(a->to_bits))
        return CUDA_GENERAL;
    return a->moments ? CUDA_ENTROPIC : CUDA_PLAIN;
}

int cuda_softmax(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct lce_softmax_args a = cuda_softmax_args(r, first);
    const struct cuda_softmax *s = &r->plan->kernels.softmax[cuda_kind(&a)];
    if (s->cluster == 0)
        return cuda_launch(r, s->function, (unsigned int)rows, 512, &a);
    return launch_clusters(r, s->function, config_of((unsigned int)rows * s->cluster, 512, r->stream),
                           s->cluster, &a);
}

/* ---- slab.cu ---- */

/* Where the sums of the block's rows lie that begins with row FIRST. */
static struct lce_slab_row *known(const struct cuda_run *r, int64_t first)
{
    struct lce_slab_row *rows = cuda_at(r, r->plan->layout.known);
    return rows + (cuda_knows_all(r->plan) ? first : 0);
}

static int pass(const struct cuda_run *r, const CUfunction functions[CUDA_KINDS], struct lce_slab_args *a,
                int64_t first, int64_t rows)
{
    a->softmax = cuda_softmax_args(r, first);
    return cuda_launch(r, functions[cuda_kind(&a->softmax)], (unsigned int)rows, 256, a);
}

_Static_assert(sizeof(struct lce_slab_row) == sizeof(struct lce_partial),
               "the kernels write struct lce_partial");

int cuda_parts(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    const bool exchanged = cuda_exchanges(plan);
    const struct lce_slab_row *partials = (const struct lce_slab_row *)r->buffers->partials;
    const struct lce_parts_args a = {.softmax = cuda_softmax_args(r, first),
                                     .partials = partials + (exchanged ? p->parts * first : 0),
                                     .rows = known(r, first),
                                     .count = rows,
                                     .stride = exchanged ? rows : p->tokens,
                                     .parts = p->parts,
                                     .by_token = !exchanged};
    if (rows == 0)
        return LCE_OK;
    return cuda_launch(r, plan->kernels.parts, (unsigned int)((rows + 255) / 256), 256, &a);
}

int cuda_slab_scan(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows)
{
    const bool alone = r->plan->base.problem.wants & LCE_WANT_PARTIAL, exchanged = cuda_exchanges(r->plan);
    struct lce_slab_row *partial = (struct lce_slab_row *)r->buffers->partial;
    struct lce_slab_args a = {.rows = alone       ? partial
                                      : exchanged ? partial + first
                                                  : known(r, first),
                              .begin = (int32_t)s->begin,
                              .columns = (int32_t)s->columns,
                              .partial = alone || exchanged,
                              .by_token = alone};
    return pass(r, r->plan->kernels.scan, &a, first, rows);
}

int cuda_slab_gradient(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows)
{
    struct lce_slab_args a = {
        .rows = known(r, first), .begin = (int32_t)s->begin, .columns = (int32_t)s->columns};
    return pass(r, r->plan->kernels.slab_gradient, &a, first, rows);
}

int cuda_slab_store(const struct cuda_run *r, int64_t first, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    const bool scatters = plan->compacts && !plan->in_place;
    char *to = r->buffers->grad_input;
    if (!scatters)
        to += first * p->grad_input_stride * (int64_t)lce_dtype_size(p->dtype);
    return store(r, plan->kernels.store_input, rows, p->hidden,
                 (struct lce_store_args){.to = to, /* the products have multiplied by alpha */
                                         .from = cuda_dinput_sums(r),
                                         .index = scatters ? r->index + first : NULL,
                                         .to_stride = p->grad_input_stride});
}

/* ---- tail.cu: the last classes, which cuBLASLt does not get.  dinput's tail is computed first, in fp32, and
 * the product adds to it: with both parts rounded to the result's type the error was an eighth larger than
 * PyTorch's. ---- */

int64_t cuda_tail_of(const struct lce_problem *p)
{
    return p->vocab < LCE_TAIL_UNIT * 8 ? 0 : p->vocab % LCE_TAIL_UNIT;
}

/* The arguments of a product's tail of ROWS tokens, whose result is SUM; the tail's rows of the weight are
 * among them. */
static struct lce_tail_args tail_arguments(const struct cuda_run *r, const struct cuda_slab *s, int64_t rows,
                                           const struct cuda_sum *sum)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    const int64_t element = (int64_t)lce_dtype_size(p->dtype), first = s->begin + s->columns - s->tail;
    return (struct lce_tail_args){
        .weight = (const char *)r->buffers->weight + first * p->weight_stride * element,
        .g = (const char *)cuda_logits(r) + (s->columns - s->tail) * element, /* where the logits were */
        .out = sum->out,
        .stats = r->stats,
        .x_stride = plan->compacts ? p->hidden : p->input_stride,
        .weight_stride = p->weight_stride,
        .g_stride = plan->g_stride,
        .out_stride = sum->stride,
        .rows = rows,
        .hidden = p->hidden,
        .classes = (int32_t)s->tail,
        .beta = sum->beta,
        .scaled = plan->scaled,
    };
}

/* How many blocks cover a row of H, of which each takes THREADS vectors of 16 bytes. */
static uint32_t row_blocks(const struct cuda_run *r, int64_t threads)
{
    const struct lce_problem *p = &r->plan->base.problem;
    const int64_t columns = threads * (16 / (int64_t)lce_dtype_size(p->dtype));
    return (uint32_t)((p->hidden + columns - 1) / columns);
}

int cuda_tail_logits(const struct cuda_run *r, const struct cuda_slab *s, const void *x, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    const int64_t column = (s->columns - s->tail) * (int64_t)cuda_logit_size(plan);
    const struct cuda_sum sum = {(char *)cuda_logits(r) + column, plan->stride, 0};
    struct lce_tail_args a = tail_arguments(r, s, rows, &sum);
    a.x = x;
    return cuda_launch(r, plan->kernels.tail_logits, (unsigned int)((rows + 7) / 8), 256, &a);
}

int cuda_tail_dinput(const struct cuda_run *r, const struct cuda_slab *s, int64_t rows,
                     const struct cuda_sum *sum)
{
    struct lce_tail_args a = tail_arguments(r, s, rows, sum);
    a.blocks = row_blocks(r, 256);
    return cuda_launch(r, r->plan->kernels.tail_dinput, (unsigned int)rows * a.blocks, 256, &a);
}

int cuda_tail_dweight(const struct cuda_run *r, const struct cuda_slab *s, const void *x, int64_t rows,
                      const struct cuda_sum *sum)
{
    struct lce_tail_args a = tail_arguments(r, s, rows, sum);
    a.x = x;
    return cuda_launch(r, r->plan->kernels.tail_dweight, row_blocks(r, 32), 512, &a);
}
