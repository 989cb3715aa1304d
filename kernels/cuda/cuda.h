/* cuda.h - what the files of the CUDA back end share: its library, its plan. */
#ifndef LCE_CUDA_CUDA_H
#define LCE_CUDA_CUDA_H

#include "args.h"
#include "chunk.h"
#include "libraries.h"
#include "product_args.h"

enum {
    IMAGE_SOFTMAX,
    IMAGE_TOKENS,
    IMAGE_SLAB,
    IMAGE_TAIL,
    IMAGE_EXPONENTS,
    IMAGE_ODDS,
    IMAGE_PRODUCT,
    IMAGES
};

/* Extents that are passed to matrix libraries are multiples of this: 16 bytes of the narrowest type. */
enum { LCE_TAIL_UNIT = 8 };

struct cuda_library {
    struct lce base;
    struct lce_driver driver;
    struct lce_blas blas;
    cublasLtHandle_t handle;
    CUcontext context;
    CUlibrary images[IMAGES]; /* that of our products only if the device can run them */
    CUfunction scale[3];      /* by enum lce_dtype */
    int processors;
    int major; /* of the compute capability */
};

/* Offsets into the workspace, but where a comment says otherwise.  Rows of x, what lies beside exponentials
 * and odds, logits and sums of dinput may lie in the caller's buffers: see rows_in, logits_in, sums_in. */
struct cuda_layout {
    size_t stats, state, index, loss, rows, logits, dbias, accumulator, scratch;
    size_t known;               /* of each row its sums; with odds, what is kept of it */
    size_t dinput;              /* sums of dinput in fp32 */
    size_t parts;               /* of split tiles of our dinput, where rows are borrowed (borrow.c) */
    size_t tiles, targets;      /* beside exponentials and odds (exponents.cuh) */
    size_t references, factors; /* beside odds (odds.cuh) */
    size_t label_factors, counts, ends, slots, items, used; /* struct lce_label_rows_args */
    size_t order;       /* of parts that are added to sums of dinput (part_of_turn) */
    size_t rest_logits; /* what a chunk has here where rows are borrowed, then the last stage; or segments */
    size_t next_rows;   /* bytes from a block's gathered rows to the next one's: segments of ours */
};

/* Makes the dweight of classes whose rows were borrowed (borrow.c): BLOCK tokens at a time, by slabs of
 * COLUMNS classes.  LENT: the logits lie in rows of dweight that come later, otherwise in the workspace. */
struct cuda_stage {
    int64_t begin, end, columns, block;
    bool lent;
};
enum { LCE_MOST_STAGES = 32, LCE_MOST_SEGMENTS = 48, LCE_MOST_BLOCK = 4096 /* of a segment */ };

/* In which buffer something lies. */
enum cuda_place { IN_WORKSPACE, IN_DWEIGHT, IN_DINPUT };

/* Which gradients a segment makes. */
enum cuda_pass { BOTH_GRADIENTS, DINPUT_PASS, DWEIGHT_PASS };

/* Some of the tokens, whose logits may lie in rows of dinput of later ones (segments.c). */
struct cuda_segment {
    int64_t begin, end, block, columns;
    enum cuda_pass pass;
    enum cuda_place logits_in, sums_in, rows_in; /* as in the plan */
};

struct cuda_products {
    struct lce_gemm logits, dinput, dweight;
};

/* A kernel that is launched with clusters of CTAs. */
struct cuda_softmax {
    CUfunction function;
    unsigned int cluster; /* 0: the kernel knows nothing of clusters */
};

struct cuda_own_kernels {
    CUfunction logits, dinput, dweight, scatter; /* dinput: in fp32, if it is summed over slabs */
    CUfunction narrow_dinput, narrow_dweight;    /* in tiles that have less of H */
    CUfunction exponents, exponents_pass;        /* instead of the logits and their pass */
    CUfunction odds, odds_start, odds_rows, odds_dinput;
    CUfunction gradient;              /* of rows that were kept */
    CUfunction odds_fold, odds_store; /* by slabs */
    CUfunction label_reserve, label_place, label_rows;
};

/* Which of a pass's kernels: without options, with entropies, with all.  A temperature is in each. */
enum cuda_kind { CUDA_PLAIN, CUDA_ENTROPIC, CUDA_GENERAL, CUDA_KINDS };

struct cuda_kernels {
    struct cuda_own_kernels own;
    CUfunction prepare, gather, scatter, expand, reduce, blank, column_sum, store;
    CUfunction scan[CUDA_KINDS], slab_gradient[CUDA_KINDS], store_input;
    CUfunction parts;
    CUfunction tail_logits, tail_dinput, tail_dweight;
    struct cuda_softmax softmax[CUDA_KINDS];
};

struct cuda_plan {
    struct lce_plan base;
    struct cuda_layout layout;
    struct cuda_kernels kernels;
    /* [1 for a shorter last chunk][1 for a narrower last slab] */
    struct cuda_products products[2][2];
    int64_t rows;             /* tokens that go through: all, or max_counted */
    int64_t chunk, last;      /* rows of a chunk, of the last chunk */
    int64_t columns;          /* classes of a slab; all classes if the logits are not cut into slabs */
    int64_t tail;             /* how many of the last classes do not go through cuBLASLt: tail.cu */
    int64_t stride, g_stride; /* of the logits and of their gradient, in elements of each */
    /* How many of the last classes lend their rows of dweight to a chunk's logits (borrow.c); 0: none. */
    int64_t borrowed;
    struct cuda_stage stages[LCE_MOST_STAGES]; /* of these classes, after all chunks */
    int stage_count;
    struct cuda_segment segments[LCE_MOST_SEGMENTS]; /* instead of chunks (segments.c) */
    int segment_count;
    struct cuda_plan *rest; /* a chain of plans, one for each stage or segment */
    double rest_seconds;
    size_t rest_size;                   /* at layout.rest_logits */
    int64_t from;                       /* the first token: 0, except in a segment */
    int64_t begin, end;                 /* the classes: all of them, except in a stage */
    enum cuda_place logits_in, sums_in; /* a chunk's logits; its sums of dinput */
    enum cuda_place rows_in; /* its gathered rows; unless in_place, also what odds have beside them */
    bool own;        /* uses the products of product.cu, which know which rows count, instead of cuBLASLt's */
    bool exponents;  /* stores exponentials instead of logits, unless a run's buffers hinder that */
    bool odds;       /* in their place odds, which take no pass */
    bool lends_odds; /* also in borrowed rows, and in segments */
    bool in_place;   /* dinput is made in the order of the index, then moved to its rows (segments.c) */
    bool two_passes; /* segments make one gradient at a time */
    enum cuda_pass pass; /* of a segment */
    bool compacts;       /* rows go by index */
    bool accumulates;    /* dweight is summed in the workspace */
    bool scaled;         /* fp16: see struct lce_stats */
    bool wide;           /* logits in fp32 under gradients of 16 bits */
};

static inline const struct cuda_library *cuda_of(const struct cuda_plan *plan)
{
    return (const struct cuda_library *)plan->base.library;
}

static inline int64_t cuda_round_up(int64_t count, int64_t unit)
{
    return (count + unit - 1) / unit * unit;
}

static inline size_t cuda_logit_size(const struct cuda_plan *plan)
{
    return plan->wide ? sizeof(float) : lce_dtype_size(plan->base.problem.dtype);
}

/* Whether kernels may use thread block clusters. */
static inline bool cuda_has_clusters(const struct cuda_plan *plan)
{
    return cuda_of(plan)->major >= 9 && !(plan->base.problem.flags & LCE_PORTABLE);
}

/* Whether the logits' buffer holds fewer than all classes at a time. */
static inline bool cuda_sliced(const struct cuda_plan *plan)
{
    return plan->columns < plan->base.problem.vocab;
}

/* Whether partial results are exchanged chunk by chunk. */
static inline bool cuda_exchanges(const struct cuda_plan *plan)
{
    return plan->base.problem.flags & LCE_EXCHANGE;
}

/* Whether the sums of every row are kept, and not only those of the present block. */
static inline bool cuda_knows_all(const struct cuda_plan *plan)
{
    return plan->borrowed > 0 || plan->begin > 0 || plan->base.problem.parts > 0 || plan->two_passes;
}

/* Whether dinput is a sum of several parts (slabs, or the tail).  It is then made in fp32 in memory of its
 * own, because the result's type would round each part. */
static inline bool cuda_sums_dinput(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    if (!(p->wants & LCE_WANT_GRAD_INPUT) || (!cuda_sliced(plan) && !plan->tail))
        return false;
    return p->dtype != LCE_F32 || (cuda_sliced(plan) && plan->compacts);
}

/* One run. */
struct cuda_run {
    const struct cuda_plan *plan;
    const struct lce_buffers *buffers;
    CUstream stream;
    struct lce_stats *stats; /* all in device memory */
    uint8_t *state;
    int32_t *index;
    float *loss; /* of each token, or NULL */
    int block;   /* of a segment, which one this is about */
};

/* The classes that the logits' buffer holds, and the products of their shape. */
struct cuda_slab {
    int64_t begin, columns;
    int64_t tail; /* how many of the last columns the products leave out */
    const struct cuda_products *products;
};

/* A result that is added to: out = beta out + ... */
struct cuda_sum {
    void *out;
    int64_t stride;
    float beta;
};

/* ---- plan.c ---- */

int cuda_plan_create(struct lce *library, const struct lce_problem *problem, int mode, int64_t chunk,
                     struct lce_plan **plan);
void cuda_plan_destroy(struct lce_plan *plan);
/* Sets COLUMNS of the logits at a time; rows begin at cache lines. */
void cuda_slice(struct cuda_plan *plan, int64_t columns);
/* Bytes of the workspace without cuBLASLt's scratch, with CHUNK tokens at a time; sets the layout. */
size_t cuda_size_with(struct cuda_plan *plan, int64_t chunk);

/* ---- gemm.c, find.c: cuBLASLt's products of every shape that a run has, and the kernels ---- */

int cuda_make_products(struct cuda_plan *plan, size_t scratch);
size_t cuda_most_scratch(const struct cuda_plan *plan); /* of any of the products */
void cuda_drop_products(struct cuda_plan *plan);
int cuda_find_kernels(struct cuda_plan *plan);

/* ---- borrow.c ---- */

bool cuda_may_borrow(const struct cuda_plan *plan);
/* How many rows of dweight a chunk of CHUNK tokens borrows, 0 if there are too few; sets where in dweight and
 * in the workspace the chunk's parts lie. */
int64_t cuda_borrowed(const struct cuda_plan *plan, int64_t chunk, struct cuda_layout *layout);
/* Sets the fastest chunk and its stages, and *CHUNK, if all takes less than BEFORE seconds; whether it does.
 * OWN is the shape for the estimates of our products, NULL if they are cuBLASLt's; GIVEN: *CHUNK stays. */
bool cuda_borrow_choose(struct cuda_plan *plan, const struct lce_slab_shape *shape,
                        const struct lce_chunk_shape *own, int64_t *chunk, bool given, uint64_t budget,
                        double before);
/* Makes REST the plan of a stage, without products and kernels. */
void cuda_borrow_rest(const struct cuda_plan *plan, int stage, struct cuda_plan *rest);

/* ---- segments.c: the same with rows of dinput ---- */

bool cuda_may_segment(const struct cuda_plan *plan);
/* *CHUNK and the columns become the first segment's. */
bool cuda_segments_choose(struct cuda_plan *plan, const struct lce_slab_shape *shape,
                          const struct lce_chunk_shape *own, int64_t *chunk, bool given, uint64_t budget,
                          double before);
void cuda_segment(const struct cuda_plan *plan, int index, struct cuda_plan *segment);
int32_t cuda_segment_blocks(const struct cuda_plan *plan); /* of all that make dinput */

/* ---- run.c ---- */

int cuda_run(const struct lce_plan *plan, const struct lce_buffers *buffers, void *stream);
/* Whether the library's context is current; CALL is named if it is not. */
int cuda_right_context(const struct cuda_library *library, const char *call);

/* ---- launch.c.  FIRST and ROWS are of a block's rows ---- */

int cuda_launch(const struct cuda_run *run, CUfunction function, unsigned int blocks, unsigned int threads,
                const void *arguments);
int cuda_launch_product(const struct cuda_run *run, CUfunction function,
                        const struct lce_own_args *arguments);

int cuda_prepare(const struct cuda_run *run);
/* Copies rows by index between the caller's matrix and the chunk's: of the input, or GATHER false, dinput. */
int cuda_move_rows(const struct cuda_run *run, bool gather, int64_t first, int64_t rows);
int cuda_dbias(const struct cuda_run *run, const struct cuda_slab *slab, int64_t first, int64_t rows);
int cuda_store_weights(const struct cuda_run *run); /* dweight and dbias, where they were summed elsewhere */
/* Writes the rows of dinput that no chunk has made, of COUNT tokens from FIRST on. */
int cuda_blank(const struct cuda_run *run, int64_t first, int64_t count);
int cuda_reduce(const struct cuda_run *run);
/* Moves the rows of dinput to where they belong, if they were made in the order of the index. */
int cuda_expand(const struct cuda_run *run);
/* lce_scale */
int cuda_scale(const struct lce *library, void *matrix, uint64_t count, int dtype, const float *factor,
               void *stream);

/* The arguments of the softmax for the rows from FIRST on. */
struct lce_softmax_args cuda_softmax_args(const struct cuda_run *run, int64_t first);
/* Whether that takes a pass that supports all options. */
enum cuda_kind cuda_kind(const struct lce_softmax_args *arguments);
int cuda_softmax(const struct cuda_run *run, int64_t first, int64_t rows);

/* Adds the slab to the sums of the rows. */
int cuda_slab_scan(const struct cuda_run *run, const struct cuda_slab *slab, int64_t first, int64_t rows);
/* Turns its logits into g. */
int cuda_slab_gradient(const struct cuda_run *run, const struct cuda_slab *slab, int64_t first, int64_t rows);
/* At the end of a block, copies its dinput, if that is a sum, to the caller's buffer. */
int cuda_slab_store(const struct cuda_run *run, int64_t first, int64_t rows);
/* The losses and the sums of the rows, from all ranks' partial results. */
int cuda_parts(const struct cuda_run *run, int64_t first, int64_t rows);

/* How many of the last classes do not go through cuBLASLt, and their share of each product. */
int64_t cuda_tail_of(const struct lce_problem *problem);
int cuda_tail_logits(const struct cuda_run *run, const struct cuda_slab *slab, const void *x, int64_t rows);
int cuda_tail_dinput(const struct cuda_run *run, const struct cuda_slab *slab, int64_t rows,
                     const struct cuda_sum *sum);
int cuda_tail_dweight(const struct cuda_run *run, const struct cuda_slab *slab, const void *x, int64_t rows,
                      const struct cuda_sum *sum);

/* ---- product.c: our own products, which skip ignored tokens and replace cuBLASLt's where they fit ---- */

/* Bytes of a part of a tile of our dinput. */
#define LCE_PART_SIZE ((size_t)LCE_PRODUCT_CLUSTER * LCE_TILE_M * LCE_TILE_N * sizeof(float))

int cuda_own_open(struct cuda_library *library, const char *image);
bool cuda_own_fits(const struct cuda_plan *plan); /* whether they can solve the problem */
/* Whether the rows of all ranks are compacted, so that each may use them, whatever it does use: exchanged
 * rows must be of the same tokens everywhere. */
bool cuda_own_compacts(const struct cuda_plan *plan);
bool cuda_own_forced(const struct cuda_plan *plan); /* for measuring: used regardless of estimates */
/* Bytes for parts of dinput's split tiles: of chunks of CHUNK tokens; where rows of dweight are borrowed. */
size_t cuda_own_scratch(const struct cuda_plan *plan, int64_t chunk);
size_t cuda_lent_parts(const struct cuda_plan *plan, int64_t chunk);
int32_t cuda_own_orders(const struct cuda_plan *plan); /* how many numbers the order of parts needs */
/* The width of tiles that a measurement asks for, at bit SHIFT of the proposals; 0: the faster one. */
int cuda_own_width(const struct cuda_plan *plan, int shift);
int cuda_own_logits(const struct cuda_run *run, const struct cuda_slab *slab, int64_t first, int64_t rows);
bool cuda_own_logits_fit(const struct cuda_plan *plan); /* beside cuBLASLt's other products */
int cuda_own_exponents(const struct cuda_run *run, const struct cuda_slab *slab, int64_t first, int64_t rows);
int cuda_own_dweight(const struct cuda_run *run, const struct cuda_slab *slab, int64_t first, int64_t rows,
                     const struct cuda_sum *sum);
int cuda_own_dinput(const struct cuda_run *run, const struct cuda_slab *all, int64_t first, int64_t rows);
/* By slabs: makes the sums of dinput, or adds a slab to them. */
int cuda_own_dinput_sums(const struct cuda_run *run, const struct cuda_slab *slab, int64_t first,
                         int64_t rows, bool add);
/* Stores the gradient of a slab of rows whose sums were kept. */
int cuda_own_gradient(const struct cuda_run *run, const struct cuda_slab *slab, int64_t first, int64_t rows);

/* ---- exponents.c: exponentials in the place of logits ---- */

bool cuda_exponents_fit(const struct cuda_plan *plan);      /* whether the plan may store them */
bool cuda_takes_exponents(const struct cuda_run *run);      /* whether this run does */
int32_t cuda_exponents_tiles(const struct cuda_plan *plan); /* of a row; 0: there are no exponentials */
int32_t cuda_tiles_of(int64_t classes);
/* Adds to LAYOUT and TOTAL what ROWS of TILES have beside their exponentials or odds. */
void cuda_exponents_lay_out(const struct cuda_plan *plan, int64_t rows, int32_t tiles,
                            struct cuda_layout *layout, size_t *total);
int cuda_exponents_pass(const struct cuda_run *run, int64_t first, int64_t rows);

/* ---- odds.c: odds in the place of exponentials ---- */

bool cuda_odds_fit(const struct cuda_plan *plan); /* as above; exponentials fit */
bool cuda_takes_odds(const struct cuda_run *run);
/* Adds to LAYOUT and TOTAL what odds need of all tokens and classes. */
void cuda_odds_lay_out(const struct cuda_plan *plan, struct cuda_layout *layout, size_t *total);
/* Whether this run counts the tokens of each class, so that the counters have to be 0 before. */
bool cuda_counts_labels(const struct cuda_run *run);
/* In the order of a run.  Before the logits' product: the gathered rows and the references. */
int cuda_odds_start(const struct cuda_run *run, int64_t first, int64_t rows);
/* After it: the losses, the factors, and x times the factors, whose place is cuda_odds_x. */
int cuda_odds_rows(const struct cuda_run *run, const struct cuda_slab *slab, int64_t first, int64_t rows);
void *cuda_odds_x(const struct cuda_run *run, int64_t first);
/* After cuBLASLt's product of dinput: dinput. */
int cuda_odds_dinput(const struct cuda_run *run, int64_t first, int64_t rows);
/* After all chunks and stages: the labels' share of dweight. */
int cuda_odds_labels(const struct cuda_run *run);
/* By slabs: adds a slab's odds to the sums of the rows; at the end turns the sums of dinput into dinput. */
int cuda_odds_fold(const struct cuda_run *run, const struct cuda_slab *slab, int64_t first, int64_t rows);
int cuda_odds_store(const struct cuda_run *run, int64_t first, int64_t rows);

/* Whether WHAT of the wanted is made by this pass. */
static inline bool cuda_wants(const struct cuda_run *run, uint32_t what)
{
    static const uint32_t left_out[] = {
        [DINPUT_PASS] = LCE_WANT_GRAD_WEIGHT | LCE_WANT_GRAD_BIAS, [DWEIGHT_PASS] = LCE_WANT_GRAD_INPUT};
    return run->plan->base.problem.wants & what & ~left_out[run->plan->pass];
}

static inline void *cuda_at(const struct cuda_run *run, size_t offset)
{
    return (char *)run->buffers->workspace + offset;
}

static inline char *cuda_buffer(const struct cuda_run *run, enum cuda_place place)
{
    return place == IN_DWEIGHT  ? run->buffers->grad_weight
           : place == IN_DINPUT ? run->buffers->grad_input
                                : run->buffers->workspace;
}

/* The address of the present chunk's logits. */
static inline void *cuda_logits(const struct cuda_run *run)
{
    return cuda_buffer(run, run->plan->logits_in) + run->plan->layout.logits;
}

/* Of what lies beside its odds or exponentials, at OFFSET. */
static inline void *cuda_beside_logits(const struct cuda_run *run, size_t offset)
{
    const struct cuda_plan *plan = run->plan;
    return cuda_buffer(run, plan->in_place ? IN_WORKSPACE : plan->rows_in) + offset;
}

/* Of its gathered rows of the input, which become dinput. */
static inline void *cuda_rows(const struct cuda_run *run)
{
    const struct cuda_layout *l = &run->plan->layout;
    return cuda_buffer(run, run->plan->rows_in) + l->rows + (size_t)run->block * l->next_rows;
}

/* Likewise of the parts of tiles of our dinput. */
static inline void *cuda_parts_of_tiles(const struct cuda_run *run)
{
    const struct cuda_layout *l = &run->plan->layout;
    return cuda_at(run, run->plan->borrowed ? l->parts : l->scratch);
}

/* What is kept of the rows from FIRST on, where odds are stored. */
static inline struct lce_odds_row *cuda_kept(const struct cuda_run *run, int64_t first)
{
    return (struct lce_odds_row *)cuda_at(run, run->plan->layout.known) + first;
}

/* Likewise of dinput, where that is a sum. */
static inline void *cuda_dinput_sums(const struct cuda_run *run)
{
    return cuda_buffer(run, run->plan->sums_in) + run->plan->layout.dinput;
}

#endif
