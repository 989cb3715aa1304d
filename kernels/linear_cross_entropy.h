/*
 * linear_cross_entropy.h - the loss of an output layer and its gradients, never holding all the logits.
 *
 * Tokens i < N with hidden states x_i (H numbers, the hidden size), an output layer W of V rows, labels y_i:
 *
 *     z_ic  = <x_i, W_c> + bias_c      the logits; with a softcap C then C tanh(z / C); with a
 *                                      temperature T then z / T
 *     lse_i = log sum_c exp(z_ic)
 *     ce_i  = (1 - s) w_y (lse_i - z_iy) + (s / V) sum_c w_c (lse_i - z_ic)
 *     zl_i  = q lse_i^2
 *     p_ic  = exp(z_ic - lse_i)
 *     H_i   = - sum_c p_ic log p_ic    the entropy (H alone: the hidden size), if wanted; 0 where ignored
 *
 * with label smoothing s, class weights w (1 where there are none), z-loss q.  A token counts where its label
 * is not ignore_index.  Over the counted tokens, D = sum of w_y and n = their number:
 *
 *     LCE_NONE   loss_i = ce_i + zl_i; 0 where ignored
 *     LCE_SUM    loss   = sum of ce_i + sum of zl_i
 *     LCE_MEAN   loss   = sum of ce_i / D + sum of zl_i / n
 *
 * LCE_NONE without smoothing, class weights and z-loss is minus the label's log-probability at temperature T.
 *
 * u_i is the upstream gradient of the token's loss; for the mean divided by D, but by n where it multiplies
 * the z-loss's term 2 q lse_i p_ic.  v_i is that of its entropy.  The gradients over the logits (g), and
 * grad_input, grad_weight and grad_bias of struct lce_buffers (here dinput, dweight, dbias):
 *
 *     g_ic = (u_i (p_ic ((1 - s) w_y + (s / V) sum w) - (1 - s) w_y [c = y] - (s / V) w_c
 *                  + 2 q lse_i p_ic)
 *             - v_i p_ic (log p_ic + H_i)) (1 - (T z_ic / C)^2) / T
 *     dinput = g W        dweight = g^T x        dbias_c = sum_i g_ic
 *
 * ce and its reductions are torch.nn.functional.cross_entropy's, label smoothing (Szegedy et al. 2016) and
 * corner cases included: the mean over no counted token is NaN and its gradients are 0, the sum is 0.  The
 * z-loss is PaLM's (Chowdhery et al. 2022), a plain mean over counted tokens.
 *
 * The logits exist for a chunk of tokens at a time, and g overwrites them.  Gradients are made while they are
 * there, as Liger (Hsu et al. 2024) does: three matrix products, not four, unless some or all logits
 * are computed twice to save memory.
 *
 * Calls: lce_open once for each device, lce_problem_init, lce_plan_create, then lce_run as often as you like;
 * examples/linear_cross_entropy.c is a whole program.  One plan may want loss and gradients.  Where an
 * upstream gradient is known only after the loss (always with LCE_NONE), a second plan wants the gradients
 * alone and computes the logits again: nothing is kept between runs.
 *
 * What holds for every function:
 *
 *   - It returns LCE_OK or a code below; lce_message() then has one line: what, where, what to do.
 *   - lce_run allocates nothing, waits for nothing, and on the GPU only puts work on the stream: it may be
 *     captured into a graph.  The stream's order is the only synchronisation: keep buffers and plan valid
 *     until the work is done.  The CPU back end is done when lce_run returns, in the caller's own thread.
 *   - Two calls at once may share library, plan and inputs, which are only read; each needs a workspace and
 *     outputs of its own.
 *   - The same plan, device, inputs and versions give the same bits, in every run and every process.
 *   - Matrices are row-major; strides are counted in elements.
 *   - Outputs and workspace need not be cleared.  Until the run's work is done, outputs hold anything, also
 *     logits; so they do when it failed.  No output may overlap an input or another output.
 *   - A NaN or infinity in a row of input stays in that token's loss and row of dinput, but every token takes
 *     part in dweight and dbias.
 */
#ifndef LINEAR_CROSS_ENTROPY_H
#define LINEAR_CROSS_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LCE_API __attribute__((visibility("default")))

enum lce_status {
    LCE_OK = 0,
    LCE_BAD_ARGUMENT = 1,        /* a null, a negative size, a contradiction */
    LCE_BAD_DTYPE = 2,           /* a type that is not supported there */
    LCE_MISALIGNED = 3,          /* an address that is not aligned as asked below */
    LCE_WORKSPACE_TOO_SMALL = 4, /* less than lce_plan_info() said */
    LCE_BUDGET_TOO_SMALL = 5,    /* less than LCE_LEAN's plan takes, which the message names */
    LCE_TOO_LARGE = 6,           /* bytes that do not fit 63 bits, or N, H or V above 2^31 - 65 */
    LCE_BACKEND_MISSING = 7,     /* not built in, or no driver, GPU or cuBLASLt here */
    LCE_OUT_OF_MEMORY = 8,       /* host memory for the library or the plan */
    LCE_DEVICE_ERROR = 9,        /* the CUDA driver refused something; the message has its error's name */
    LCE_GEMM_ERROR = 10,         /* cuBLASLt refused something, or knows no algorithm */
    LCE_EXCHANGE_FAILED = 11,    /* the caller's exchange returned something else than 0 */
};

enum lce_backend {
    LCE_CPU = 0,  /* buffers in host memory; the stream is ignored; one thread */
    LCE_CUDA = 1, /* buffers in device memory of the context that was current in lce_open */
};

enum lce_dtype { LCE_F32 = 0, LCE_F16 = 1, LCE_BF16 = 2 };
enum lce_label_dtype { LCE_I64 = 0, LCE_I32 = 1 };
enum lce_reduction { LCE_MEAN = 0, LCE_SUM = 1, LCE_NONE = 2 };

enum lce_want {
    LCE_WANT_LOSS = 1,
    LCE_WANT_GRAD_INPUT = 2,
    LCE_WANT_GRAD_WEIGHT = 4,
    LCE_WANT_GRAD_BIAS = 8,
    LCE_WANT_ENTROPY = 16, /* of each token, whatever the reduction */
    LCE_WANT_PARTIAL = 32, /* alone: see "A vocabulary in parts" */
};

/*
 * How exact it is
 *
 * Products, softmax, sums and the loss are in fp32.  In a 16-bit problem g has 16 bits, and so has what lies
 * in its place before: one of these three.
 *
 *   - Logits, rounded to the input's type as PyTorch's are (on the CPU always).  Where the softmax is peaked
 *     (a trained model), 1 - p of the label is small, and this rounding is most of the error of loss, dinput
 *     and dweight.
 *   - Exponentials, relative to a power of two of each row and 192 classes, where the products skip ignored
 *     tokens (see max_counted), and in fast mode beside cuBLASLt's products if N, H and the strides are as
 *     max_counted asks.  Each probability is off by at most 2^-10 of itself, or is taken for 0 if it is below
 *     2^-125 of the largest of these 192; the loss is that of fp32 logits.  They take V / 24 bytes of
 *     workspace for each token of a chunk.
 *   - Odds, exponentials relative to the label's logit, instead of them in bf16, where the products skip
 *     ignored tokens, or where both gradients are wanted, V is a multiple of 8 and no max_counted makes rows
 *     go by an index.  They are off by at most 2^-8 of themselves, and the label's own part is added to
 *     dinput and dweight in fp32: gradients are about as exact as their own type can show.  They take 12
 *     bytes more for each token of a chunk, some 26 a token and 8 a class.
 *
 * Exponentials and odds need whole rows of one rank's whole vocabulary, of at most 786,432 classes, and no
 * bias, softcap, smoothing or entropies.  Where a chunk's logits would lie in grad_weight or grad_input, and
 * products skip ignored tokens, odds lie there if lean's 128 MiB have room for some 55 bytes a token and 8 a
 * class beside a short block of rows.
 */
enum lce_flag {
    /* fp32 matrices may be multiplied as TF32. */
    LCE_ALLOW_TF32 = 1,
    /* A 16-bit dweight over several chunks is summed in fp32 in the workspace (4 H V bytes) and rounded
       once, instead of once a chunk.  An fp32 dweight needs it not. */
    LCE_F32_ACCUMULATE = 2,
    /* The logits of a 16-bit problem are kept in fp32: as exact with every option, for a chunk of half the
       tokens in the same workspace.  Take it where gradients are to be right to 0.5 % and exponentials are
       not stored, or while hunting a loss that does not fall; leave it out for speed. */
    LCE_F32_LOGITS = 4,
    /* For tests: on any GPU, the kernels and products of those that have neither thread block clusters nor
       WGMMA (compute capability 8.x).  The CPU ignores it. */
    LCE_PORTABLE = 8,
    /* With parts: the partial results are exchanged within the run, chunk by chunk; see "A vocabulary in
       parts". */
    LCE_EXCHANGE = 16,
};

enum lce_mode {
    /* the same as LCE_FAST */
    LCE_AUTO = 0,
    /* the chunk, of at most 4096 tokens, or the slabs, that are estimated the fastest within 512 MiB, 524
       with exponentials (see "How exact it is"), 576 with products that skip tokens */
    LCE_FAST = 1,
    /* The same within 128 MiB, of which it often takes less: where dweight's own rows hold logits, 13 to 50.
       There is no smaller plan.  More only where LCE_F32_ACCUMULATE's sums, or 128 tokens' rows, take it.
       Where few tokens' logits have room there, the GPU takes longer chunks in one of three ways, the one
       that is estimated to be the fastest (the CPU always has whole rows in the workspace):
         - The last rows of dweight's buffer hold a chunk's logits during the run; their own dweight is made
           at the end, from logits that are computed again: a fourth product for a share chunk / H of the
           vocabulary.  dweight must be wanted, dense, and not added to (grad_weight_beta = 0).
         - Otherwise dinput's rows of later tokens hold them, if dinput is dense.
         - The logits are computed in slabs of classes: once over all slabs for each row's sums, then slab by
           slab again for g and the gradients; dinput is summed over the slabs in fp32.  With the loss alone
           wanted, the first pass is all. */
    LCE_LEAN = 2,
};

/* What to compute.  lce_problem_init() gives the defaults; the sizes at least are to be filled in. */
struct lce_problem {
    uint32_t size;             /* of this struct: set by lce_problem_init */
    uint32_t wants;            /* enum lce_want; default loss, dinput and dweight */
    uint32_t flags;            /* enum lce_flag; default 0 */
    int32_t dtype;             /* enum lce_dtype of input, weight, bias, dinput; default bf16 */
    int32_t label_dtype;       /* enum lce_label_dtype; default int64 */
    int32_t grad_weight_dtype; /* of dweight and dbias: dtype's or LCE_F32; default -1, dtype's */
    int32_t reduction;         /* enum lce_reduction; default mean */
    /* For tests and measuring (CUDA).  Bits 4-7 of dinput and 8-11 of dweight where these are our products: 1
       and 2 are tiles of 256 and 192 of H.  Bit 12: 16-bit logits and no exponentials in their place.  Bit
       13: cuBLASLt's products where ours would be taken; bit 14: ours for few tokens, too; both: that of the
       logits alone is ours.  Bit 15: logits in the rows of dweight, where that is possible, else of dinput.
       Bits 16-31: slabs of so many times 64 classes.  Default 0. */
    uint32_t proposals;
    /* N, which may be 0, H and V: of any value.  H is fastest where it is a multiple of 8; V need not be. */
    int64_t tokens, hidden, vocab;
    /* From row to row of input [N, H], weight [V, H], dinput [N, H], dweight [V, H]; 0 is dense, H. */
    int64_t input_stride, weight_stride, grad_input_stride, grad_weight_stride;
    int64_t ignore_index; /* default -100; may lie inside the vocabulary */
    /* The caller's promise that at most this many tokens count: the others are compacted away and cost
       nothing.  0, the default: no promise.  Then ignored tokens cost nothing only on a GPU of compute
       capability 9.0, in 16 bits, where N is at least 512, H and the strides are multiples of 8, and whole
       rows of logits fit for all tokens or for 2048: there the device finds out how many count.  Elsewhere
       they go through the products as rows of zeros.  N or more says that next to none is ignored, and gets
       the products that are faster then.  A promise that is broken is LCE_DEVICE_TOO_MANY in the error
       flag. */
    int64_t max_counted;
    float label_smoothing; /* s, 0 .. 1 */
    float z_loss;          /* q; 0, the default, is none */
    float softcap;         /* C; 0, the default, is none */
    /* dweight = beta dweight + ..., and so dbias.  With 0, the default, what was there is not read. */
    float grad_weight_beta;
    float temperature; /* T; 0, the default, is 1 */
    /* A vocabulary in parts: over how many ranks' partial results the second run goes (0, the default: the
       vocabulary is whole); which class row 0 of the weight is, and how many classes all ranks have
       together (0: vocab). */
    int32_t parts;
    int64_t vocab_begin, vocab_total;
};

/*
 * A vocabulary in parts
 *
 * Several ranks may hold the rows of the weight between them.  Each has a problem with all tokens, labels and
 * class weights of the whole vocabulary, its own rows (vocab, vocab_begin) of vocab_total, and their bias.
 * Ranks may have different numbers of rows, modes and devices.  It takes two runs:
 *
 *     1. a plan with wants = LCE_WANT_PARTIAL writes buffers.partial: struct lce_partial [N].
 *     2. the caller gathers every rank's, in the same order everywhere: [parts][N] (an all-gather).
 *     3. a plan with parts = the number of ranks reads them as buffers.partials.  Each rank gets the same
 *        loss and entropies, bit for bit; dweight and dbias of its own rows; and its rows' share of dinput,
 *        rounded to its type, which the caller sums over the ranks (an all-reduce).
 *
 * The logits are computed in both runs: four products instead of three; without gradients the second run has
 * none.  With LCE_EXCHANGE it is one run of three products: the logits of a chunk are kept, and lce_run calls
 * buffers.exchange for every chunk, in this order on every rank, in its caller's thread:
 *
 *     START   after the chunk's partial results were put on the stream: begin to gather them
 *     FINISH  before work that reads all ranks' is put on the stream: make the stream wait for them
 *     INPUT   after rows of this rank's share of dinput were: they may be summed over the ranks
 *
 * All ranks then need the same chunks: give each the least chunk_tokens of what lce_plan_create chose
 * (lce_plan_create_chunk).  Logits are not cut into slabs, nor kept in dweight.
 */

/* What one rank's classes contribute to a token's loss and entropy; all 0 where the token does not count. */
struct lce_partial {
    float largest; /* of the logits without the label's; -infinity if there are none */
    float sum;     /* of exp(z - largest) over them */
    float weighed; /* the sum of w z over all of the rank's classes; made only where there is smoothing */
    float target;  /* the label's logit; 0 on a rank that does not have it */
    float moment;  /* the sum of (z - largest) exp(z - largest), without the label's; for the entropy */
};

enum lce_exchange_step { LCE_EXCHANGE_START = 0, LCE_EXCHANGE_FINISH = 1, LCE_EXCHANGE_INPUT = 2 };

/*
 * What a run with LCE_EXCHANGE calls.  START and FINISH are of COUNT rows from FIRST on, counted over the
 * chunks so far, not tokens: partial[first .. first + count) is to become partials[parts * first ...), of
 * which the part of rank i begins at i * count.  INPUT is of tokens: rows of grad_input from FIRST on.  It
 * comes for each chunk, or once for all.  Returns 0; anything else ends the run with LCE_EXCHANGE_FAILED,
 * and the outputs hold anything.  COUNT is never 0.  It may put work on STREAM and must not call lce_run
 * with the same workspace.
 */
typedef int lce_exchange(void *context, int step, int64_t first, int64_t count, void *stream);

/* Where everything lies.  What the problem wants must be there; other outputs are ignored. */
struct lce_buffers {
    const void *input;                  /* [N, H]; aligned to 16 bytes */
    const void *weight;                 /* [V, H]; 16 bytes */
    const void *bias;                   /* [V], or NULL; 16 bytes; -infinity masks a class */
    const void *labels;                 /* [N]; aligned to its element */
    const float *class_weights;         /* [V] (of all parts), or NULL */
    const float *grad_output;           /* upstream: [1] for mean and sum, [N] for none; NULL is 1 */
    float *loss;                        /* [1]; [N] for none */
    void *grad_input;                   /* [N, H]; 16 bytes */
    void *grad_weight;                  /* [V, H]; 16 bytes */
    void *grad_bias;                    /* [V]; 16 bytes */
    int32_t *error_flag;                /* enum lce_device_error is or-ed in, nothing ever cleared; or NULL */
    void *workspace;                    /* 256 bytes (CPU: 64) */
    size_t workspace_size;              /* at least lce_plan_info(plan)->workspace_size */
    float *entropy;                     /* [N] */
    const float *grad_entropy;          /* [N]: upstream, v above; NULL is 0 */
    struct lce_partial *partial;        /* [N], of this rank: the first run's result */
    const struct lce_partial *partials; /* [parts][N], of all: for the second run */
    /* With LCE_EXCHANGE partial is [N] rows that the run writes, and partials has room for parts * N. */
    lce_exchange *exchange;
    void *exchange_context;
};

enum lce_device_error {
    /* A label is neither ignore_index nor in 0 .. V - 1: its token's loss and row of dinput are NaN (so is
       the mean or sum), and it adds nothing to dweight and dbias.  Nothing is read or written through it. */
    LCE_DEVICE_LABEL = 1,
    /* More tokens count than max_counted: the excess is treated as if its labels were out of range. */
    LCE_DEVICE_TOO_MANY = 2,
};

struct lce_plan_info {
    int32_t mode;            /* enum lce_mode, never LCE_AUTO */
    int32_t chunks;          /* of tokens */
    int64_t chunk_tokens;    /* tokens at a time; the first ones, where later chunks have other sizes */
    uint64_t workspace_size; /* bytes that lce_run needs, exactly */
    uint64_t logits_size;    /* of them, the logits' buffer */
    uint64_t gemm_size;      /* of them, cuBLASLt's own scratch */
    /* Classes in the logits' buffer: V, or fewer where a chunk's logits are made in slabs, and twice. */
    int64_t slab_columns;
};

struct lce;
struct lce_plan;

LCE_API int lce_open(int backend, struct lce **library);
LCE_API void lce_close(struct lce *library); /* NULL is nothing; plans first */

LCE_API void lce_problem_init(struct lce_problem *problem);

/* BUDGET: the most bytes that the workspace may have; 0: as many as the mode's plan takes.  Where it is less
   than LCE_FAST takes, the plan is LCE_LEAN's; where it is less than that, LCE_BUDGET_TOO_SMALL comes with
   the bytes that LCE_LEAN needs.  The problem is copied. */
LCE_API int lce_plan_create(struct lce *library, const struct lce_problem *problem, int mode, uint64_t budget,
                            struct lce_plan **plan);
/* The same with the chunk given instead of chosen: for ranks that exchange, and for measuring. */
LCE_API int lce_plan_create_chunk(struct lce *library, const struct lce_problem *problem, int mode,
                                  int64_t chunk_tokens, uint64_t budget, struct lce_plan **plan);
LCE_API void lce_plan_destroy(struct lce_plan *plan); /* NULL is nothing */
LCE_API const struct lce_plan_info *lce_plan_info(const struct lce_plan *plan);

/* STREAM: a CUstream or cudaStream_t; NULL is the legacy default stream. */
LCE_API int lce_run(const struct lce_plan *plan, const struct lce_buffers *buffers, void *stream);

/*
 * Multiplies COUNT numbers of type DTYPE (enum lce_dtype) at MATRIX, which is aligned to 16 bytes, by
 * *FACTOR: a gradient that was computed for an upstream gradient of 1.  Each product is rounded once.  On the
 * GPU the factor is in device memory and read there, on the stream; where it is 1, nothing else is read or
 * written.
 */
LCE_API int lce_scale(struct lce *library, void *matrix, uint64_t count, int dtype, const float *factor,
                      void *stream);

/* The line that belongs to this thread's last failed call; "" where none failed.  Overwritten by the next. */
LCE_API const char *lce_message(void);
LCE_API const char *lce_status_name(int status);

/*
 * The same problem in double precision, for tests: one logit after the other from the formulas above.  All
 * pointers are in host memory, of any alignment.  Outputs that are NULL are not computed.  dweight [V, H],
 * dbias [V] and dinput [N, H] are dense and do not add to what is there.  Problems with parts or a partial
 * result are refused.
 */
struct lce_reference {
    double *loss; /* [1]; [N] for none */
    double *grad_input, *grad_weight, *grad_bias;
    double *entropy; /* [N] */
};
LCE_API int lce_reference_run(const struct lce_problem *problem, const struct lce_buffers *buffers,
                              const struct lce_reference *out);

#ifdef __cplusplus
}
#endif
#endif
