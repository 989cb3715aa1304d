/*
 * product.c - puts the products of product.cu on the stream.  They multiply counted tokens alone, which were
 * gathered into the chunk's rows and whose number only the device knows: an ignored token costs nothing, a
 * chunk without tokens its launches.
 */
#include <string.h>

#include "cuda.h"

enum { LENT_SHARE = 6 };

int cuda_own_open(struct cuda_library *l, const char *image)
{
    int minor = 0;
    CUdevice device;
    if (l->major != 9 || !l->driver.encode_map || !l->driver.function_set)
        return LCE_OK;
    if (l->driver.context_device(&device) ||
        l->driver.attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) || minor != 0)
        return LCE_OK;
    CUresult status = l->driver.library_load(&l->images[IMAGE_PRODUCT], image, NULL, NULL, 0, NULL, NULL, 0);
    return status ? lce_fail(LCE_DEVICE_ERROR, "lce_open: loading the products' kernels: %s",
                             lce_driver_error(&l->driver, status))
                  : LCE_OK;
}

bool cuda_own_forced(const struct cuda_plan *plan)
{
    return plan->base.problem.proposals >> 14 & 1;
}

/* Copies of tiles require rows that begin at multiples of 16 bytes.  With fewer tokens the products are
 * bound by memory, and tiles of 256 rows would be half empty. */
enum { LEAST_TOKENS = 512 };

/* What these need of a problem whose rows are exchanged with other ranks', and which all ranks have in
 * common. */
static bool fits_every_rank(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool few = p->tokens < LEAST_TOKENS && !cuda_own_forced(plan);
    const bool all = p->max_counted >= p->tokens || p->proposals >> 13 & 1;
    return p->dtype != LCE_F32 && !all && !few && p->hidden >= 64 && p->hidden % 8 == 0;
}

bool cuda_own_compacts(const struct cuda_plan *plan)
{
    return cuda_exchanges(plan) && fits_every_rank(plan);
}

bool cuda_own_fits(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const int64_t rows[] = {p->weight_stride, p->wants & LCE_WANT_GRAD_INPUT ? p->grad_input_stride : 0,
                            p->wants & LCE_WANT_GRAD_WEIGHT ? p->grad_weight_stride : 0};
    if (!cuda_of(plan)->images[IMAGE_PRODUCT] || !cuda_has_clusters(plan) || !fits_every_rank(plan) ||
        p->vocab < LCE_TILE_N)
        return false;
    for (int i = 0; i < 3; i++)
        if (rows[i] % 8)
            return false;
    return true;
}

/* Whether our product of the logits may stand beside cuBLASLt's others. */
bool cuda_own_logits_fit(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const bool few = p->tokens < LEAST_TOKENS && !cuda_own_forced(plan);
    return cuda_of(plan)->images[IMAGE_PRODUCT] && cuda_has_clusters(plan) && p->dtype != LCE_F32 && !few &&
           plan->base.info.mode == LCE_FAST && p->vocab >= LCE_TILE_N && p->hidden >= 64 &&
           p->hidden % 8 == 0 && p->weight_stride % 8 == 0 && (plan->compacts || p->input_stride % 8 == 0);
}

static int32_t clusters_of(const struct cuda_plan *plan)
{
    return cuda_of(plan)->processors / LCE_PRODUCT_CLUSTER;
}

/* The memory for parts of dinput's split tiles, of chunks of CHUNK tokens. */
size_t cuda_own_scratch(const struct cuda_plan *plan, int64_t chunk)
{
    const struct lce_problem *p = &plan->base.problem;
    const int64_t height = LCE_PRODUCT_CLUSTER * LCE_TILE_M,
                  tiles = (chunk + height - 1) / height * ((p->hidden + LCE_TILE_N - 1) / LCE_TILE_N),
                  most = tiles * (p->vocab / LCE_TILE_K / 16);
    if (!(p->wants & LCE_WANT_GRAD_INPUT))
        return 0;
    return 2 * (size_t)(most < clusters_of(plan) ? most : clusters_of(plan)) * LCE_PART_SIZE;
}

/* The memory for as many of these parts as are worth it where rows of dweight are borrowed: at most a sixth
 * of dweight's own. */
size_t cuda_lent_parts(const struct cuda_plan *plan, int64_t chunk)
{
    const struct lce_problem *p = &plan->base.problem;
    const size_t all = (size_t)(p->vocab * p->hidden) * lce_dtype_size(p->grad_weight_dtype),
                 most = all / LENT_SHARE / LCE_PART_SIZE;
    if (!plan->own || !(p->wants & LCE_WANT_GRAD_INPUT))
        return 0;
    const size_t parts = (size_t)lce_split_room(cuda_of(plan)->processors, chunk, p->hidden, p->vocab);
    return (parts < most ? parts : most) * LCE_PART_SIZE;
}

/* How many numbers the order of parts needs, of the largest block of a segment. */
int32_t cuda_own_orders(const struct cuda_plan *plan)
{
    const int64_t most = plan->rows < LCE_MOST_BLOCK ? plan->rows : LCE_MOST_BLOCK,
                  height = LCE_PRODUCT_CLUSTER * LCE_TILE_M,
                  tiles = (most + height - 1) / height *
                          ((plan->base.problem.hidden + LCE_TILE_N - 1) / LCE_TILE_N);
    return plan->in_place ? (int32_t)(tiles * LCE_PRODUCT_CLUSTER * 2) : 0;
}

/* The width of tiles that a measurement asks for, at bit SHIFT of the proposals; 0: the faster one. */
int cuda_own_width(const struct cuda_plan *plan, int shift)
{
    const unsigned int asked = plan->base.problem.proposals >> shift & 15;
    return asked == 1 ? LCE_WIDE : asked == 2 ? LCE_NARROW : 0;
}

/* Describes a matrix of 16-bit numbers, or of 32-bit ones if it is wide, that is moved in boxes of 128 bytes
 * by BOX rows. */
struct matrix {
    const void *address;
    int64_t columns, rows, stride;
    uint32_t box;
    bool wide;
};

static int map(const struct cuda_run *r, CUtensorMap *out, const struct matrix *m)
{
    const struct lce_driver *driver = &cuda_of(r->plan)->driver;
    const CUtensorMapDataType type = m->wide ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                     : r->plan->base.problem.dtype == LCE_F16
                                         ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                         : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const cuuint64_t size[2] = {(cuuint64_t)m->columns, (cuuint64_t)m->rows},
                     stride[1] = {(cuuint64_t)m->stride * (m->wide ? 4 : 2)};
    const cuuint32_t box[2] = {m->wide ? 32 : 64, m->box}, step[2] = {1, 1};
    CUresult status = driver->encode_map(
        out, type, 2, (void *)(uintptr_t)m->address, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return status ? lce_fail(LCE_DEVICE_ERROR, "lce_run: describing a matrix of %lld rows: %s",
                             (long long)m->rows, lce_driver_error(driver, status))
                  : LCE_OK;
}

static int maps(const struct cuda_run *r, struct lce_own_args *a, const struct matrix *first,
                const struct matrix *second, const struct matrix *out)
{
    int status = map(r, &a->a, first);
    if (!status)
        status = map(r, &a->b, second);
    return status || !out ? status : map(r, &a->out, out);
}

/* The arguments that all three products share. */
static struct lce_own_args arguments(const struct cuda_run *r, int64_t first, int64_t rows)
{
    struct lce_own_args a;
    memset(&a, 0, sizeof a);
    a.counted = r->plan->compacts ? &r->stats->counted : NULL;
    a.first = first;
    a.tokens = (int32_t)rows;
    a.clusters = clusters_of(r->plan);
    a.group = 64;
    return a;
}

static struct matrix gathered(const struct cuda_run *r, int64_t rows, uint32_t box)
{
    const int64_t hidden = r->plan->base.problem.hidden;
    return (struct matrix){cuda_rows(r), hidden, rows, hidden, box, false};
}

/* The hidden states of a chunk: gathered, or where the caller has them. */
static struct matrix hidden_states(const struct cuda_run *r, int64_t first, int64_t rows, uint32_t box)
{
    const struct lce_problem *p = &r->plan->base.problem;
    const char *input = r->buffers->input;
    if (r->plan->compacts)
        return gathered(r, rows, box);
    return (struct matrix){input + first * p->input_stride * 2, p->hidden, rows, p->input_stride, box, false};
}

/* The classes' rows of the weight. */
static struct matrix weight(const struct cuda_run *r, const struct cuda_slab *s, uint32_t box)
{
    const struct lce_problem *p = &r->plan->base.problem;
    const char *first =
        (const char *)r->buffers->weight + s->begin * p->weight_stride * (int64_t)lce_dtype_size(p->dtype);
    return (struct matrix){first, p->hidden, s->columns, p->weight_stride, box, false};
}

static struct matrix gradient(const struct cuda_run *r, const struct cuda_slab *s, int64_t rows, uint32_t box)
{
    return (struct matrix){cuda_logits(r), s->columns, rows, r->plan->g_stride, box, false};
}

/* How many rows a box of an operand has.  A block's tile has COUNT times 64 of the operand's rows or, ACROSS,
 * of its columns; then rows are k.  If it is SHARED, each block of the cluster fetches half of the rows. */
static uint32_t box_of(uint32_t count, bool shared, bool across)
{
    return (across ? 64 : 64 * count) / (shared ? 2 : 1);
}

/* Nanoseconds between boxes that are stored, for each 64 of k.  By measurement 10 to 30 are equally good, and
 * no pause costs 1 to 3 %. */
enum { PAUSE = 20 };

static int logits_arguments(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows,
                            struct lce_own_args *a)
{
    const struct cuda_plan *plan = r->plan;
    *a = arguments(r, first, rows);
    const bool share_x = (int)LCE_LOGITS_DOWN > (int)LCE_LOGITS_RIGHT;
    const struct matrix x = hidden_states(r, first, rows, box_of(LCE_LOGITS_DOWN, share_x, false)),
                        w = weight(r, s, box_of(LCE_LOGITS_RIGHT, !share_x, false)),
                        z = {cuda_logits(r), plan->stride, rows, plan->stride, 64, plan->wide};
    a->n = (int32_t)s->columns;
    a->k = (int32_t)plan->base.problem.hidden;
    a->pause = PAUSE / 2;
    return maps(r, a, &x, &w, &z);
}

int cuda_own_logits(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows)
{
    struct lce_own_args a;
    int status = logits_arguments(r, s, first, rows, &a);
    return status ? status : cuda_launch_product(r, r->plan->kernels.own.logits, &a);
}

static int exponents_arguments(const struct cuda_run *r, const struct cuda_slab *s, int64_t first,
                               int64_t rows, struct lce_own_exponents_args *a)
{
    const struct lce_softmax_args softmax = cuda_softmax_args(r, first);
    memset(a, 0, sizeof *a);
    a->labels = softmax.labels;
    a->index = softmax.index;
    a->to_bits = softmax.to_bits;
    a->begin = (int32_t)s->begin;
    return logits_arguments(r, s, first, rows, &a->product);
}

int cuda_own_exponents(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    const CUfunction taken = cuda_takes_odds(r) ? plan->kernels.own.odds : plan->kernels.own.exponents;
    struct lce_own_exponents_args a;
    int status = exponents_arguments(r, s, first, rows, &a);
    a.tiles = cuda_beside_logits(r, plan->layout.tiles);
    a.targets = cuda_beside_logits(r, plan->layout.targets);
    a.references = cuda_beside_logits(r, plan->layout.references);
    a.count = cuda_tiles_of(s->columns);
    return status ? status : cuda_launch_product(r, taken, &a.product);
}

int cuda_own_gradient(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows)
{
    struct lce_own_exponents_args a;
    int status = exponents_arguments(r, s, first, rows, &a);
    a.known = cuda_kept(r, first);
    return status ? status : cuda_launch_product(r, r->plan->kernels.own.gradient, &a.product);
}

/* What decides how wide tiles are, with ROOM for parts of dinput's. */
static struct lce_chunk_shape shape_of(const struct cuda_plan *plan, int32_t room)
{
    const struct lce_problem *p = &plan->base.problem;
    return (struct lce_chunk_shape){.hidden = p->hidden,
                                    .vocab = p->vocab,
                                    .processors = cuda_of(plan)->processors,
                                    .room = room > 0 ? room : 1,
                                    .dinput_width = cuda_own_width(plan, 4),
                                    .dweight_width = cuda_own_width(plan, 8)};
}

int cuda_own_dweight(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows,
                     const struct cuda_sum *sum)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    struct lce_own_args a = arguments(r, first, rows);
    const int64_t classes = s->columns - plan->borrowed; /* what lies in borrowed rows is still needed */
    const struct lce_chunk_shape shape = shape_of(plan, 0);
    const bool narrow = lce_dweight_width(&shape, classes) == LCE_NARROW,
               wide = plan->accumulates || p->grad_weight_dtype == LCE_F32;
    const uint32_t down = narrow ? LCE_DWEIGHT_RIGHT : LCE_DWEIGHT_DOWN,
                   right = narrow ? LCE_DWEIGHT_DOWN : LCE_DWEIGHT_RIGHT;
    const struct matrix g = gradient(r, s, rows, box_of(down, down > right, true)),
                        x = gathered(r, rows, box_of(right, right > down, true)),
                        out = {sum->out, p->hidden, classes, sum->stride, 64, wide};
    a.m = (int32_t)classes;
    a.n = a.columns = (int32_t)p->hidden;
    a.sums = sum->out;
    a.sums_stride = sum->stride;
    a.beta = sum->beta;
    a.alpha = plan->scaled ? &r->stats->alpha : NULL;
    a.group = 2;
    a.pause = PAUSE;
    int status = maps(r, &a, &g, &x, &out);
    const struct cuda_own_kernels *k = &plan->kernels.own;
    return status ? status : cuda_launch_product(r, narrow ? k->narrow_dweight : k->dweight, &a);
}

int cuda_own_dinput_sums(const struct cuda_run *r, const struct cuda_slab *s, int64_t first, int64_t rows,
                         bool add)
{
    const int64_t hidden = r->plan->base.problem.hidden;
    struct lce_own_args a = arguments(r, first, rows);
    const struct matrix g = gradient(r, s, rows, 128), w = weight(r, s, 64);
    a.n = a.columns = (int32_t)hidden;
    a.k = (int32_t)s->columns;
    a.alpha = r->plan->scaled ? &r->stats->alpha : NULL;
    a.sums = cuda_dinput_sums(r);
    a.sums_stride = hidden;
    a.order = cuda_at(r, r->plan->layout.order);
    a.room = LCE_TWO_PARTS;
    a.beta = add;
    int status = maps(r, &a, &g, &w, NULL);
    return status ? status : cuda_launch_product(r, r->plan->kernels.own.dinput, &a);
}

/* Overwrites the gathered rows with dinput, then copies them to the caller's rows. */
int cuda_own_dinput(const struct cuda_run *r, const struct cuda_slab *all, int64_t first, int64_t rows)
{
    const struct cuda_plan *plan = r->plan;
    const struct lce_problem *p = &plan->base.problem;
    const struct cuda_own_kernels *k = &plan->kernels.own;
    struct lce_own_rows_args s;
    memset(&s, 0, sizeof s);
    s.product = arguments(r, first, rows);
    struct lce_own_args *a = &s.product;
    a->room = (int32_t)((plan->borrowed ? cuda_lent_parts(plan, plan->chunk) : plan->base.info.gemm_size) /
                        LCE_PART_SIZE);
    const struct lce_chunk_shape shape = shape_of(plan, a->room);
    s.width = lce_dinput_width(&shape, rows);
    const bool narrow = s.width == LCE_NARROW;
    const struct matrix g = gradient(r, all, rows, 128), w = weight(r, all, narrow ? 32 : 64),
                        out = gathered(r, rows, 64);
    a->n = (int32_t)p->hidden;
    a->k = (int32_t)p->vocab;
    a->alpha = plan->scaled ? &r->stats->alpha : NULL;
    a->sums = cuda_parts_of_tiles(r);
    int status = maps(r, a, &g, &w, &out);
    if (!status)
        status = cuda_launch_product(r, narrow ? k->narrow_dinput : k->dinput, a);
    s.from = out.address;
    s.from_stride = out.stride;
    s.to = r->buffers->grad_input;
    s.to_stride = p->grad_input_stride;
    s.index = r->index + first;
    s.labels = cuda_softmax_args(r, first).labels;
    s.factors = cuda_takes_odds(r) ? cuda_beside_logits(r, plan->layout.factors) : NULL;
    s.weight = r->buffers->weight;
    s.weight_stride = p->weight_stride;
    return status ? status : cuda_launch(r, plan->kernels.own.scatter, (unsigned int)rows, 256, &s);
}
