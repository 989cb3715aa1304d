/*
 * lce_cuda_kit.h - a driver and a cuBLASLt that only write down what they are asked, so that the host side of
 * the CUDA back end runs without a GPU.
 *
 * `library` is made of them, `seen` is what they noted; its fields refuse_... make them refuse.  plan_of()
 * plans; run() runs on addresses that nobody reads, each of which has to lie in one of the run's buffers.
 */
#ifndef TESTS_UNIT_KERNELS_LCE_CUDA_KIT_H
#define TESTS_UNIT_KERNELS_LCE_CUDA_KIT_H

#include "unit/test.h"
#include "cuda/cuda.h"

/* ---- what was asked, and where it may lie ---- */

struct region {
    const char *begin;
    size_t size;
};

static struct {
    char kernel[64];        /* the last one asked for */
    char softmax[64];       /* the last one of softmax.cu, without "general" and "entropic" */
    struct region known[8]; /* the buffers of the run */
    const char *furthest;   /* byte touched in the workspace */
    const void *logits;     /* where the first product wrote, and the bytes from row to row there */
    size_t pitch;
    size_t scratch; /* that each product's algorithm takes */
    int products, launches, own, exponents, odds, labels;
    int narrow; /* products in tiles of 192 of H */
    int refuse_launch, refuse_product, no_algorithm, refuse_exchange;
    char asked[64]; /* what the run called the caller's exchange for: see asked() */
    int ragged;     /* extents along memory that are no multiple of 8, of products */
    struct proposal {
        uint32_t tile;
        float rounds;
    } proposals[8]; /* all but the first end at a tile of 0 */
    CUcontext current;
} seen;

static inline void touch(const void *address, size_t size)
{
    const char *begin = address;
    for (int i = 0; i < 8; i++) {
        const struct region *r = &seen.known[i];
        if (r->begin && begin >= r->begin && begin + size <= r->begin + r->size) {
            if (i == 0 && begin + size > seen.furthest)
                seen.furthest = begin + size;
            return;
        }
    }
    fail_msg("%zu bytes at %p are in no buffer", size, address);
}

/* ---- the names in the fat binaries ---- */

static char *images;
static size_t images_size;

static inline bool in_images(const char *name)
{
    static char found[1024][64];
    int i = 0;
    for (; found[i][0]; i++)
        if (!strcmp(found[i], name))
            return true;
    if (!memmem(images, images_size, name, strlen(name) + 1)) /* its end belongs to it */
        return false;
    assert_in_range(i, 0, 1022);
    snprintf(found[i], sizeof found[0], "%s", name);
    return true;
}

static inline int read_images(void **state)
{
    const char *const paths[] = {LCE_IMAGES};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        FILE *file = fopen(paths[i], "rb");
        if (!file || fseek(file, 0, SEEK_END))
            return -1;
        size_t size = (size_t)ftell(file);
        rewind(file);
        images = realloc(images, images_size + size);
        images_size += fread(images + images_size, 1, size, file);
        fclose(file);
    }
    return 0;
}

static inline int drop_images(void **state)
{
    free(images);
    return 0;
}

/* ---- the driver ---- */

enum {
    OTHERS = 1,
    EXPONENTS,
    ODDS,
    GRADIENT,
    ODDS_START,
    ODDS_ROWS,
    ODDS_FOLD,
    ODDS_STORE,
    NARROW_DINPUT,
    NARROW_DWEIGHT,
    LABELS
}; /* kernels */

static inline int kernel_of(const char *name)
{
    static const char *const names[] = {[EXPONENTS] = "lce_own_exponents",
                                        [ODDS] = "lce_own_odds",
                                        [GRADIENT] = "lce_own_gradient",
                                        [ODDS_START] = "lce_odds_start",
                                        [ODDS_ROWS] = "lce_odds_rows",
                                        [ODDS_FOLD] = "lce_odds_fold",
                                        [ODDS_STORE] = "lce_odds_store",
                                        [LABELS] = "lce_label",
                                        [NARROW_DINPUT] = "lce_own_dinput_narrow",
                                        [NARROW_DWEIGHT] = "lce_own_dweight_narrow"};
    for (int i = EXPONENTS; i <= LABELS; i++)
        if (!strncmp(name, names[i], strlen(names[i])))
            return i;
    return OTHERS;
}

static inline CUresult fake_kernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    if (!in_images(name))
        return CUDA_ERROR_NOT_FOUND;
    snprintf(seen.kernel, sizeof seen.kernel, "%s", name);
    if (strstr(name, "softmax") && !strstr(name, "general") && !strstr(name, "entropic"))
        snprintf(seen.softmax, sizeof seen.softmax, "%s", name);
    *kernel = (CUkernel)(uintptr_t)kernel_of(name);
    return CUDA_SUCCESS;
}

static inline CUresult fake_function(CUfunction *function, CUkernel kernel)
{
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

/* Sums that go to memory without a map, too: parts of dinput, and results in fp32. */
static inline void touch_sums(const struct lce_own_args *a)
{
    const size_t part = sizeof(float) * LCE_PRODUCT_CLUSTER * LCE_TILE_M * LCE_TILE_N,
                 rows = a->m ? (size_t)a->m : (size_t)a->tokens;
    if (a->room > 0)
        touch(a->sums, (size_t)a->room * part);
    if (a->room == LCE_TWO_PARTS)
        touch(a->order,
              ((size_t)a->tokens + 255) / 256 * (((size_t)a->n + 255) / 256) * 4 * sizeof *a->order);
    if (a->sums_stride && a->out.opaque[0] == 0)
        touch(a->sums, ((rows - 1) * (size_t)a->sums_stride + (size_t)a->columns) * sizeof(float));
}

static inline void touch_tiles(const struct lce_own_exponents_args *a)
{
    const size_t rows = (size_t)a->product.tokens;
    assert_int_equal(a->count, (a->product.n + LCE_TILE_CLASSES - 1) / LCE_TILE_CLASSES);
    touch(a->tiles, rows * (size_t)a->count * sizeof *a->tiles);
    touch(a->targets, rows * sizeof *a->targets);
    seen.exponents++;
}

/* What lies around products of odds, of ROWS rows. */
static inline void touch_odds(int kernel, const void *arguments, size_t rows)
{
    const struct lce_own_exponents_args *product = arguments;
    const struct lce_odds_start_args *start = arguments;
    const struct lce_odds_rows_args *r = arguments;
    const struct lce_label_rows_args *l = arguments;
    const struct lce_odds_fold_args *fold = arguments;
    const struct lce_odds_store_args *store = arguments;
    const size_t word = sizeof(float);
    if (kernel == ODDS)
        touch(product->references, (size_t)product->product.tokens * word);
    if (kernel == ODDS_START) {
        touch(start->references, rows * word);
        if (start->counts)
            touch(start->counts, (size_t)start->labels.vocab * word);
    }
    if (kernel == ODDS_ROWS) {
        touch(r->factors, rows * sizeof *r->factors);
        if (r->scaled)
            touch(r->scaled, ((rows - 1) * (size_t)r->scaled_stride + (size_t)r->hidden) * 2);
    }
    if (kernel == GRADIENT)
        touch(product->known, (size_t)product->product.tokens * sizeof *product->known);
    if (kernel == ODDS_FOLD) {
        touch(fold->rows, rows * sizeof *fold->rows);
        touch(fold->slab.factors, rows * sizeof *fold->slab.factors);
        touch(fold->dinput, rows * (size_t)fold->slab.hidden * word);
    }
    if (kernel == ODDS_STORE) {
        touch(store->from, rows * (size_t)store->hidden * word);
        touch(store->to, ((rows - 1) * (size_t)store->to_stride + (size_t)store->hidden) * 2);
    }
    if (kernel == LABELS) {
        touch(l->counts, (size_t)l->labels.vocab * word);
        touch(l->ends, (size_t)l->labels.vocab * word);
        touch(l->slots, (size_t)l->labels.tokens * word);
        touch(l->label_factors, (size_t)l->labels.tokens * word);
        touch(l->items,
              (size_t)(l->labels.tokens + l->labels.tokens / LCE_LABEL_FEW * l->slices) * sizeof *l->items);
        touch(l->used, 2 * word);
    }
}

static inline CUresult fake_launch(const CUlaunchConfig *c, CUfunction f, void **arguments, void **extra)
{
    assert_in_range(c->gridDimX, 1, INT32_MAX);
    seen.launches++;
    if (c->blockDimX == LCE_PRODUCT_THREADS) {
        assert_int_equal(c->gridDimX, 132);
        touch_sums(arguments[0]);
        if (f == (CUfunction)EXPONENTS || f == (CUfunction)ODDS)
            touch_tiles(arguments[0]);
        seen.own++;
    }
    touch_odds((int)(uintptr_t)f, arguments[0], c->gridDimX);
    seen.odds += f == (CUfunction)ODDS;
    seen.labels += f == (CUfunction)LABELS;
    seen.narrow += f == (CUfunction)NARROW_DINPUT || f == (CUfunction)NARROW_DWEIGHT;
    return seen.launches == seen.refuse_launch ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_SUCCESS;
}

static inline CUresult fake_current(CUcontext *context)
{
    *context = seen.current;
    return CUDA_SUCCESS;
}

static inline CUresult fake_error_name(CUresult status, const char **name)
{
    *name = status == CUDA_ERROR_NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";
    return CUDA_SUCCESS;
}

/* A copy's matrix lies in a buffer, in a way that the hardware can copy. */
static inline CUresult fake_map(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *size, const cuuint64_t *stride, const cuuint32_t *box,
                                const cuuint32_t *step, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill)
{
    assert_int_equal(rank, 2);
    assert_int_equal((uintptr_t)address % 16, 0);
    assert_int_equal(stride[0] % 16, 0);
    const size_t element = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4 : 2;
    assert_true(box[0] * element <= 128 && box[1] <= 256);
    touch(address, (size[1] - 1) * stride[0] + size[0] * element);
    map->opaque[0] = 1;
    return CUDA_SUCCESS;
}

static inline CUresult fake_function_set(CUfunction function, CUfunction_attribute attribute, int value)
{
    assert_int_equal(attribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    assert_in_range(value, 1, 227 * 1024);
    return CUDA_SUCCESS;
}

/* ---- cuBLASLt ---- */

struct layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t stride;
};

static inline const char *fake_status_name(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}

static inline cublasStatus_t fake_desc(cublasLtMatmulDesc_t *d, cublasComputeType_t compute,
                                       cudaDataType_t scale)
{
    *d = malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t fake_desc_destroy(cublasLtMatmulDesc_t d)
{
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t fake_desc_set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attribute,
                                           const void *value, size_t size)
{
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t fake_layout(cublasLtMatrixLayout_t *l, cudaDataType type, uint64_t rows,
                                         uint64_t columns, int64_t stride)
{
    struct layout *layout = malloc(sizeof *layout);
    *layout = (struct layout){type, rows, columns, stride};
    assert_true(stride >= (int64_t)rows);
    seen.ragged += rows % 8 != 0;
    *l = (cublasLtMatrixLayout_t)layout;
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t fake_layout_destroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t fake_preference(cublasLtMatmulPreference_t *p)
{
    *p = malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t fake_preference_destroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t fake_preference_set(cublasLtMatmulPreference_t p,
                                                 cublasLtMatmulPreferenceAttributes_t attribute,
                                                 const void *value, size_t size)
{
    uint64_t most;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
        memcpy(&most, value, sizeof most);
        seen.scratch = most < 4096 ? most : 4096;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t fake_heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                            cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                            cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                            cublasLtMatmulPreference_t preference, int asked,
                                            cublasLtMatmulHeuristicResult_t results[], int *found)
{
    int n = 0;
    for (; n < asked && n < 8 && !seen.no_algorithm && (n == 0 || seen.proposals[n].tile); n++)
        results[n] = (cublasLtMatmulHeuristicResult_t){.algo.data[0] = seen.proposals[n].tile,
                                                       .workspaceSize = seen.scratch + (size_t)n * 256,
                                                       .wavesCount = seen.proposals[n].rounds};
    *found = n;
    return CUBLAS_STATUS_SUCCESS;
}

static inline cublasStatus_t fake_algorithm_get(const cublasLtMatmulAlgo_t *algorithm,
                                                cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,
                                                size_t size, size_t *written)
{
    assert_int_equal(attribute, CUBLASLT_ALGO_CONFIG_TILE_ID);
    assert_int_equal(size, sizeof(uint32_t));
    const uint32_t tile = (uint32_t)algorithm->data[0];
    memcpy(value, &tile, *written = sizeof tile);
    return CUBLAS_STATUS_SUCCESS;
}

static inline void touch_matrix(const void *address, cublasLtMatrixLayout_t layout)
{
    const struct layout *l = (const struct layout *)layout;
    const size_t element = l->type == CUDA_R_32F ? 4 : 2;
    touch(address, ((l->columns - 1) * (size_t)l->stride + l->rows) * element);
    if (seen.products == 0)
        seen.logits = address, seen.pitch = (size_t)l->stride * element; /* its output comes last */
    else if (address == seen.logits && address < (const void *)seen.known[1].begin) /* in the workspace */
        assert_int_equal((size_t)l->stride * element, seen.pitch); /* the gradient lies in the same rows */
}

static inline cublasStatus_t fake_matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                         const void *alpha, const void *a, cublasLtMatrixLayout_t al,
                                         const void *b, cublasLtMatrixLayout_t bl, const void *beta,
                                         const void *c, cublasLtMatrixLayout_t cl, void *d,
                                         cublasLtMatrixLayout_t dl, const cublasLtMatmulAlgo_t *algorithm,
                                         void *workspace, size_t workspace_size, cudaStream_t stream)
{
    touch_matrix(a, al);
    touch_matrix(b, bl);
    touch_matrix(d, dl);
    touch(workspace, workspace_size);
    seen.products++;
    return seen.products == seen.refuse_product ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

static struct cuda_library library = {
    .driver = {.error_name = fake_error_name,
               .context_current = fake_current,
               .library_kernel = fake_kernel,
               .kernel_function = fake_function,
               .launch = fake_launch,
               .encode_map = fake_map,
               .function_set = fake_function_set},
    .blas = {.status_name = fake_status_name,
             .desc_create = fake_desc,
             .desc_destroy = fake_desc_destroy,
             .desc_set = fake_desc_set,
             .layout_create = fake_layout,
             .layout_destroy = fake_layout_destroy,
             .preference_create = fake_preference,
             .preference_destroy = fake_preference_destroy,
             .preference_set = fake_preference_set,
             .heuristic = fake_heuristic,
             .algorithm_get = fake_algorithm_get,
             .matmul = fake_matmul},
    .processors = 132,
    .major = 10,
};

/* ---- problems ---- */

static inline struct lce_problem problem_of(int64_t n, int64_t h, int64_t v, int dtype, uint32_t flags)
{
    struct lce_problem p, complete;
    lce_problem_init(&p);
    p.tokens = n, p.hidden = h, p.vocab = v;
    p.dtype = dtype;
    p.flags = flags;
    p.wants |= LCE_WANT_GRAD_BIAS;
    assert_int_equal(lce_problem_check(&p, &complete), LCE_OK);
    return complete;
}

static inline struct lce_plan *plan_of(const struct lce_problem *p, int mode, int64_t chunk)
{
    struct lce_plan *plan = NULL;
    seen.current = library.context = (CUcontext)7;
    if (cuda_plan_create(&library.base, p, mode, chunk, &plan) != LCE_OK)
        fail_msg("%s", lce_message());
    return plan;
}

/* Notes how many products came before each call, one digit for each: S, F and I are the steps. */
static inline int asked(void *context, int step, int64_t first, int64_t count, void *stream)
{
    const size_t length = strlen(seen.asked);
    assert_true(count > 0 && length + 4 < sizeof seen.asked);
    snprintf(seen.asked + length, sizeof seen.asked - length, "%d%c", seen.products, "SFI"[step]);
    return seen.refuse_exchange;
}

/* Addresses that nobody reads: what is checked is where things would lie. */
static inline int run(struct lce_plan *plan)
{
    static const uintptr_t apart = (uintptr_t)1 << 40;
    const struct lce_problem *p = &plan->problem;
    const size_t e = lce_dtype_size(p->dtype), dw = lce_dtype_size(p->grad_weight_dtype);
    const size_t sizes[] = {plan->info.workspace_size, (size_t)(p->tokens * p->hidden) * e,
                            (size_t)(p->vocab * p->hidden) * e, (size_t)(p->tokens * p->hidden) * e,
                            (size_t)(p->vocab * p->hidden) * dw};
    memset(seen.known, 0, sizeof seen.known);
    for (uintptr_t i = 0; i < 5; i++)
        seen.known[i] = (struct region){(const char *)((i + 1) * apart), sizes[i]};
    seen.furthest = NULL;
    seen.products = seen.launches = seen.own = seen.exponents = seen.odds = seen.labels = seen.narrow = 0;
    seen.asked[0] = 0;
    const struct lce_buffers b = {.input = (const void *)(2 * apart),
                                  .weight = (const void *)(3 * apart),
                                  .labels = (const void *)(6 * apart),
                                  .loss = (float *)(6 * apart),
                                  .grad_input = (void *)(4 * apart),
                                  .grad_weight = (void *)(5 * apart),
                                  .grad_bias = (void *)(6 * apart),
                                  .partial = (void *)(6 * apart),
                                  .partials = (const void *)(6 * apart),
                                  .exchange = asked,
                                  .workspace = (void *)apart,
                                  .workspace_size = plan->info.workspace_size};
    return cuda_run(plan, &b, NULL);
}

#endif
