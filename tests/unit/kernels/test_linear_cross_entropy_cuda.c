/*
 * test_linear_cross_entropy_cuda.c - the host side of the CUDA back end, on a driver and a cuBLASLt that only
 * write down what they are asked: every kernel asked for is in the library, every product and every row of
 * logits stays inside its buffer, the workspace has not a byte to spare, and refusals become errors.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cuda/cuda.h"

/* ---- the stand-ins ---- */

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
    int products, launches, own;
    int refuse_launch, refuse_product, no_algorithm, refuse_exchange;
    char asked[64]; /* what the run called the caller's exchange for: see asked() */
    int ragged;     /* extents along memory that are no multiple of 8, of products */
    struct proposal {
        uint32_t tile;
        float rounds;
    } proposals[8]; /* all but the first end at a tile of 0 */
    CUcontext current;
} seen;

static bool in_images(const char *name);

static CUresult fake_kernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    if (!in_images(name))
        return CUDA_ERROR_NOT_FOUND;
    snprintf(seen.kernel, sizeof seen.kernel, "%s", name);
    if (strstr(name, "softmax") && !strstr(name, "general") && !strstr(name, "entropic"))
        snprintf(seen.softmax, sizeof seen.softmax, "%s", name);
    *kernel = (CUkernel)1;
    return CUDA_SUCCESS;
}

static CUresult fake_function(CUfunction *function, CUkernel kernel)
{
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

static void touch(const void *address, size_t size);

/* Sums that go to memory without a map, too: parts of dinput, and results in fp32. */
static void touch_sums(const struct lce_own_args *a)
{
    const size_t part = sizeof(float) * LCE_PRODUCT_CLUSTER * LCE_TILE_M * LCE_TILE_N,
                 rows = a->m ? (size_t)a->m : (size_t)a->tokens;
    if (a->room)
        touch(a->sums, (size_t)a->room * part);
    if (a->sums_stride && a->out.opaque[0] == 0)
        touch(a->sums, ((rows - 1) * (size_t)a->sums_stride + (size_t)a->columns) * sizeof(float));
}

static CUresult fake_launch(const CUlaunchConfig *c, CUfunction f, void **arguments, void **extra)
{
    assert_in_range(c->gridDimX, 1, INT32_MAX);
    seen.launches++;
    if (c->blockDimX == LCE_PRODUCT_THREADS) {
        assert_int_equal(c->gridDimX, 132);
        touch_sums(arguments[0]);
        seen.own++;
    }
    return seen.launches == seen.refuse_launch ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_SUCCESS;
}

static CUresult fake_current(CUcontext *context)
{
    *context = seen.current;
    return CUDA_SUCCESS;
}

static CUresult fake_error_name(CUresult status, const char **name)
{
    *name = status == CUDA_ERROR_NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";
    return CUDA_SUCCESS;
}

struct layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t stride;
};

static const char *fake_status_name(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}

static cublasStatus_t fake_desc(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType_t scale)
{
    *d = malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_desc_destroy(cublasLtMatmulDesc_t d)
{
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_desc_set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attribute,
                                    const void *value, size_t size)
{
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_layout(cublasLtMatrixLayout_t *l, cudaDataType type, uint64_t rows,
                                  uint64_t columns, int64_t stride)
{
    struct layout *layout = malloc(sizeof *layout);
    *layout = (struct layout){type, rows, columns, stride};
    assert_true(stride >= (int64_t)rows);
    seen.ragged += rows % 8 != 0;
    *l = (cublasLtMatrixLayout_t)layout;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_layout_destroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_preference(cublasLtMatmulPreference_t *p)
{
    *p = malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_preference_destroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_preference_set(cublasLtMatmulPreference_t p,
                                          cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                          size_t size)
{
    uint64_t most;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
        memcpy(&most, value, sizeof most);
        seen.scratch = most < 4096 ? most : 4096;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
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

static cublasStatus_t fake_algorithm_get(const cublasLtMatmulAlgo_t *algorithm,
                                         cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,
                                         size_t size, size_t *written)
{
    assert_int_equal(attribute, CUBLASLT_ALGO_CONFIG_TILE_ID);
    assert_int_equal(size, sizeof(uint32_t));
    const uint32_t tile = (uint32_t)algorithm->data[0];
    memcpy(value, &tile, *written = sizeof tile);
    return CUBLAS_STATUS_SUCCESS;
}

static void touch(const void *address, size_t size)
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

static void touch_matrix(const void *address, cublasLtMatrixLayout_t layout)
{
    const struct layout *l = (const struct layout *)layout;
    const size_t element = l->type == CUDA_R_32F ? 4 : 2;
    touch(address, ((l->columns - 1) * (size_t)l->stride + l->rows) * element);
    if (seen.products == 0)
        seen.logits = address, seen.pitch = (size_t)l->stride * element; /* its output comes last */
    else if (address == seen.logits && address < (const void *)seen.known[1].begin) /* in the workspace */
        assert_int_equal((size_t)l->stride * element, seen.pitch); /* the gradient lies in the same rows */
}

static cublasStatus_t fake_matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                                  const void *a, cublasLtMatrixLayout_t al, const void *b,
                                  cublasLtMatrixLayout_t bl, const void *beta, const void *c,
                                  cublasLtMatrixLayout_t cl, void *d, cublasLtMatrixLayout_t dl,
                                  const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                                  size_t workspace_size, cudaStream_t stream)
{
    touch_matrix(a, al);
    touch_matrix(b, bl);
    touch_matrix(d, dl);
    touch(workspace, workspace_size);
    seen.products++;
    return seen.products == seen.refuse_product ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

/* A copy's matrix lies in a buffer, in a way that the hardware can copy. */
static CUresult fake_map(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                         const cuuint64_t *size, const cuuint64_t *stride, const cuuint32_t *box,
                         const cuuint32_t *step, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                         CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
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

static CUresult fake_function_set(CUfunction function, CUfunction_attribute attribute, int value)
{
    assert_int_equal(attribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    assert_in_range(value, 1, 227 * 1024);
    return CUDA_SUCCESS;
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

/* ---- the names in the fat binaries ---- */

static char *images;
static size_t images_size;

static bool in_images(const char *name)
{
    static char found[128][64];
    int i = 0;
    for (; i < 128 && found[i][0]; i++)
        if (!strcmp(found[i], name))
            return true;
    if (!memmem(images, images_size, name, strlen(name) + 1)) /* its end belongs to it */
        return false;
    snprintf(found[i % 128], sizeof found[0], "%s", name);
    return true;
}

static int read_images(void **state)
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

static int drop_images(void **state)
{
    free(images);
    return 0;
}

/* ---- problems ---- */

static struct lce_problem problem_of(int64_t n, int64_t h, int64_t v, int dtype, uint32_t flags)
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

static struct lce_plan *plan_of(const struct lce_problem *p, int mode, int64_t chunk, uint64_t budget)
{
    struct lce_plan *plan = NULL;
    seen.current = library.context = (CUcontext)7;
    if (cuda_plan_create(&library.base, p, mode, chunk, budget, &plan) != LCE_OK)
        fail_msg("%s", lce_message());
    return plan;
}

/* Notes how many products came before each call, one digit for each: S, F and I are the steps. */
static int asked(void *context, int step, int64_t first, int64_t count, void *stream)
{
    const size_t length = strlen(seen.asked);
    assert_true(count > 0 && length + 4 < sizeof seen.asked);
    snprintf(seen.asked + length, sizeof seen.asked - length, "%d%c", seen.products, "SFI"[step]);
    return seen.refuse_exchange;
}

/* Addresses that nobody reads: what is checked is where things would lie. */
static int run(struct lce_plan *plan)
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
    seen.products = seen.launches = seen.own = 0;
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

/* Logits, dinput, dweight of each slab; but for the last slab's the logits twice.  A last slab of less than 8
 * classes has none. */
static int64_t products_of(const struct lce_plan *plan)
{
    const int64_t columns = plan->info.slab_columns, last = (plan->problem.vocab - 1) % columns + 1;
    const int64_t slabs = (plan->problem.vocab + columns - 1) / columns;
    return (4 * slabs - 1 - (last < columns && last < 8 ? 3 : 0)) * plan->info.chunks;
}

static void every_plan_finds_its_kernels_and_stays_in_its_buffers(void **state)
{
    static const int64_t vocabs[] = {1,     7,     4096,   9000,   16000,  28000,  32768,  50257,
                                     65537, 99999, 128256, 152064, 200000, 256000, 262144, 270001};
    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++)
        for (int dtype = LCE_F32; dtype <= LCE_BF16; dtype++)
            for (uint32_t choice = 0; choice < 32; choice++) {
                struct lce_problem p = problem_of(1000, 24, vocabs[i], dtype, 0);
                p.flags = (choice & 1 ? LCE_F32_LOGITS : 0) | (choice & 2 ? LCE_F32_ACCUMULATE : 0);
                p.proposals = (choice & 4 ? 1 << 12 : 0) | (choice & 16 ? 64 << 16 : 0);
                p.max_counted = choice & 8 ? 700 : 0;
                for (int mode = LCE_FAST; mode <= LCE_NAIVE; mode++) {
                    seen.ragged = 0;
                    struct lce_plan *plan = plan_of(&p, mode, mode == LCE_FAST ? 384 : 0, 0);
                    if (mode != LCE_NAIVE && p.vocab >= 64)
                        assert_int_equal(seen.ragged, 0); /* the tail is not cuBLASLt's */
                    if (run(plan) != LCE_OK)
                        fail_msg("%s", lce_message());
                    assert_ptr_equal(seen.furthest, seen.known[0].begin + plan->info.workspace_size);
                    assert_int_equal(seen.products, products_of(plan));
                    if (choice & 16 && mode != LCE_NAIVE)
                        assert_int_equal(plan->info.slab_columns, p.vocab < 4096 ? p.vocab : 4096);
                    cuda_plan_destroy(plan);
                }
            }
}

/* On Hopper the products that skip ignored tokens stand for cuBLASLt's, but for what they cannot do, and
 * where the caller says that next to none is ignored. */
static void own_products_stay_in_their_buffers_and_are_all_there_is(void **state)
{
    static const int64_t vocabs[] = {256, 300, 1003, 50257, 128256, 270001};
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    for (size_t i = 0; i < sizeof vocabs / sizeof *vocabs; i++)
        for (int dtype = LCE_F32; dtype <= LCE_BF16; dtype++)
            for (uint32_t choice = 0; choice < 64; choice++) {
                struct lce_problem p = problem_of(1000, choice & 32 ? 72 : 3080, vocabs[i], dtype, 0);
                p.flags = (choice & 1 ? LCE_F32_LOGITS : 0) | (choice & 2 ? LCE_F32_ACCUMULATE : 0);
                p.grad_weight_dtype = choice & 4 ? LCE_F32 : dtype;
                p.proposals = 1 << 14; /* ours even in chunks of 384 */
                p.max_counted = choice & 8 ? 700 : choice & 16 ? 1000 : 0;
                struct lce_plan *plan = plan_of(&p, LCE_FAST, 384, 0);
                const bool own = dtype != LCE_F32 && p.max_counted != 1000;
                if (run(plan) != LCE_OK)
                    fail_msg("%s", lce_message());
                assert_int_equal(seen.own, own ? 3 * plan->info.chunks : 0);
                assert_int_equal(seen.products, own ? 0 : products_of(plan));
                assert_int_equal(plan->info.chunks, p.max_counted == 700 ? 2 : 3);
                assert_ptr_equal(seen.furthest, seen.known[0].begin + plan->info.workspace_size);
                cuda_plan_destroy(plan);
            }
    struct lce_problem odd = problem_of(1000, 76, 1003, LCE_BF16, 0),
                       slabs = problem_of(1000, 64, 9000, LCE_BF16, 0);
    slabs.proposals = 16 << 16;
    const struct lce_problem *const others[] = {&odd, &slabs};
    for (int i = 0; i < 2; i++) {
        struct lce_plan *plan = plan_of(others[i], LCE_FAST, 384, 0);
        assert_int_equal(run(plan), LCE_OK);
        assert_int_equal(seen.own, 0);
        assert_ptr_equal(seen.furthest, seen.known[0].begin + plan->info.workspace_size);
        cuda_plan_destroy(plan);
    }
    library.images[IMAGE_PRODUCT] = NULL;
}

/* Rows of any length have a pass with all options that needs a cluster, unless gradients are narrower. */
static void all_options_have_a_kernel_for_every_length(void **state)
{
    static const struct {
        int64_t vocab;
        int dtype;
        uint32_t flags;
        unsigned int cluster;
    } rows[] = {{1000, LCE_BF16, 0, 1},
                {20000, LCE_BF16, 0, 2},
                {128256, LCE_BF16, 0, 8},
                {270001, LCE_BF16, 0, 8},
                {270001, LCE_F32, 0, 8},
                {128256, LCE_BF16, LCE_F32_LOGITS, 8},
                {256000, LCE_F16, LCE_F32_LOGITS, 8},
                {270001, LCE_F16, LCE_F32_LOGITS, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lce_problem p = problem_of(64, 8, rows[i].vocab, rows[i].dtype, rows[i].flags);
        struct lce_plan *plan = plan_of(&p, LCE_FAST, 0, 0);
        assert_int_equal(((struct cuda_plan *)plan)->kernels.softmax[CUDA_GENERAL].cluster, rows[i].cluster);
        cuda_plan_destroy(plan);
    }
}

/* Where they cost more than 3 % when nothing is ignored, they are not taken unasked. */
static void own_products_are_for_long_chunks_and_many_tokens(void **state)
{
    static const struct {
        int64_t tokens, hidden, vocab, chunk;
        uint64_t mib;
        bool own;
    } rows[] = {{8192, 4096, 128256, 2048, 0, true},  {16384, 3072, 128256, 2048, 0, true},
                {8192, 2304, 256000, 1024, 0, false}, {1000, 3584, 151646, 1000, 0, true},
                {511, 3584, 151646, 511, 0, false},   {8192, 4096, 128256, 2048, 512, false},
                {16384, 2048, 50257, 2048, 256, true}};
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lce_problem p = problem_of(rows[i].tokens, rows[i].hidden, rows[i].vocab, LCE_BF16, 0);
        struct lce_plan *plan = plan_of(&p, LCE_AUTO, 0, rows[i].mib << 20);
        assert_int_equal(((struct cuda_plan *)plan)->own, rows[i].own);
        assert_int_equal(plan->info.chunk_tokens, rows[i].chunk);
        assert_true(!rows[i].mib || plan->info.workspace_size <= rows[i].mib << 20);
        cuda_plan_destroy(plan);
    }
    library.images[IMAGE_PRODUCT] = NULL;
}

/* the whole row is on the chip up to these lengths, and how it lies there */
static void rows_of_logits_get_the_kernel_for_their_length(void **state)
{
    static const struct {
        int64_t vocab;
        int dtype;
        uint32_t flags, proposals;
        const char *kernel;
        unsigned int cluster;
    } rows[] = {
        {128256, LCE_BF16, 0, 0, "lce_softmax_bf16_plain_8", 4},
        {128256, LCE_BF16, 0, 1 << 12, "lce_softmax_bf16_kept_4", 8},
        {131073, LCE_BF16, 0, 1 << 12, "lce_softmax_bf16_plain_5", 8},
        {256000, LCE_BF16, 0, 0, "lce_softmax_bf16_plain_8", 8},
        {128256, LCE_BF16, LCE_F32_LOGITS, 0, "lce_softmax_wide_bf16_plain_8", 8},
        {152064, LCE_F16, LCE_F32_LOGITS, 0, "lce_softmax_wide_f16_plain_12", 8},
        {256000, LCE_BF16, LCE_F32_LOGITS, 0, "lce_softmax_wide_bf16_plain_16", 8},
        {270001, LCE_BF16, LCE_F32_LOGITS, 0, "lce_softmax_wide_bf16_loop", 0},
        {270001, LCE_BF16, 0, 0, "lce_softmax_bf16_loop", 0},
        {256000, LCE_F32, LCE_F32_LOGITS, 0, "lce_softmax_f32_plain_16", 8},
        {100, LCE_F16, LCE_F32_LOGITS, 1 << 12, "lce_softmax_wide_f16_plain_1", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lce_problem p = problem_of(64, 8, rows[i].vocab, rows[i].dtype, rows[i].flags);
        p.proposals = rows[i].proposals;
        struct lce_plan *plan = plan_of(&p, LCE_FAST, 0, 0);
        assert_string_equal(seen.softmax, rows[i].kernel);
        assert_int_equal(((struct cuda_plan *)plan)->kernels.softmax[CUDA_PLAIN].cluster, rows[i].cluster);
        cuda_plan_destroy(plan);
    }
}

/* Of the options only those that need a logit's own class take the pass that has them all. */
static void temperatures_and_entropies_keep_the_fast_passes(void **state)
{
    static const float some = 0;
    const struct lce_softmax_args plain = {
        .temperature = 0.7f, .to_bits = 2, .z_loss = 1, .grad_output = &some};
    struct lce_softmax_args entropies = plain, weights = plain, a[] = {plain, plain, plain, plain};
    entropies.moments = 1;
    weights.class_weights = &some; /* of which a token has its label's alone */
    assert_int_equal(cuda_kind(&plain), CUDA_PLAIN);
    assert_int_equal(cuda_kind(&weights), CUDA_PLAIN);
    assert_int_equal(cuda_kind(&entropies), CUDA_ENTROPIC);
    a[0].bias = &some, a[1].smoothing = 0.1f, a[2].softcap = 30;
    a[3].to_bits = INFINITY; /* of a temperature so near to 0 that its inverse is no number */
    for (size_t i = 0; i < sizeof a / sizeof *a; i++)
        for (int moments = 0; moments < 2; moments++) {
            a[i].moments = moments;
            assert_int_equal(cuda_kind(&a[i]), CUDA_GENERAL);
        }
}

/* 8.x has neither, whatever its number of multiprocessors; LCE_PORTABLE forces the same. */
static void gpus_without_clusters_get_no_cluster_and_no_products_of_ours(void **state)
{
    static const int processors[] = {1, 16, 54, 84, 108, 148, 192};
    for (size_t i = 0; i < sizeof processors / sizeof *processors; i++)
        for (int forced = 0; forced < 2; forced++)
            for (int64_t tokens = 1; tokens <= 65536; tokens *= 16) {
                struct lce_problem p = problem_of(tokens, 1024, 50257, LCE_BF16, forced ? LCE_PORTABLE : 0);
                p.proposals = 1 << 14; /* ours, if they can be had */
                library.major = forced ? 9 : 8;
                library.processors = processors[i];
                struct lce_plan *plan = plan_of(&p, LCE_AUTO, 0, 0);
                const struct cuda_plan *all = (const struct cuda_plan *)plan;
                assert_false(all->own);
                assert_true(cuda_sliced(all) || (all->kernels.softmax[CUDA_PLAIN].cluster == 0 &&
                                                 all->kernels.softmax[CUDA_GENERAL].cluster == 0));
                assert_in_range(plan->info.chunk_tokens, 1, tokens);
                cuda_plan_destroy(plan);
            }
    library.major = 10;
    library.processors = 132;
}

static void fp32_logits_halve_the_chunk_and_keep_the_budget(void **state)
{
    const uint64_t mib = 1 << 20;
    struct lce_problem p = problem_of(8192, 4096, 128256, LCE_BF16, 0);
    for (uint32_t flags = 0; flags <= LCE_F32_LOGITS; flags += LCE_F32_LOGITS) {
        const int64_t tokens = flags ? 1024 : 2048;
        p.flags = flags;
        for (uint64_t budget = 0; budget <= 512 * mib; budget += 512 * mib) {
            struct lce_plan *plan = plan_of(&p, LCE_AUTO, 0, budget);
            assert_int_equal(plan->info.mode, LCE_FAST);
            assert_int_equal(plan->info.chunk_tokens, tokens);
            assert_int_equal(plan->info.logits_size, 501 * mib);
            assert_true(plan->info.workspace_size < 502 * mib);
            cuda_plan_destroy(plan);
        }
        p.grad_weight_beta = 1; /* no rows of dweight to borrow */
        struct lce_plan *lean = plan_of(&p, LCE_LEAN, 0, 0);
        p.grad_weight_beta = 0;
        assert_int_equal(lean->info.slab_columns < p.vocab, flags != 0); /* 256 whole rows are too few */
        assert_int_equal(flags || lean->info.chunk_tokens == tokens / 4, 1);
        assert_true(lean->info.workspace_size <= 128 * mib);
        cuda_plan_destroy(lean);
    }
}

/* Llama 3's output layer: what a budget gets */
static void slabs_are_taken_where_whole_rows_would_be_slow(void **state)
{
    static const struct {
        double mib;
        bool cut;
        int64_t least_tokens;
    } rows[] = {{1.5, true, 32}, {16, true, 384}, {61, true, 512}, {128, false, 512}, {512, false, 2048}};
    struct lce_problem p = problem_of(8192, 4096, 128256, LCE_BF16, 0);
    p.wants &= ~(uint32_t)(LCE_WANT_GRAD_BIAS | LCE_WANT_GRAD_INPUT); /* no rows of dinput to borrow */
    p.grad_weight_beta = 1; /* dweight is added to: none of its rows either */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lce_plan *plan = plan_of(&p, LCE_AUTO, 0, (uint64_t)(rows[i].mib * 1048576));
        const struct lce_plan_info *info = &plan->info;
        assert_int_equal(info->slab_columns < p.vocab, rows[i].cut);
        assert_true(info->chunk_tokens >= rows[i].least_tokens);
        assert_true((double)info->workspace_size <= rows[i].mib * 1048576);
        assert_int_equal(run(plan), LCE_OK);
        const int64_t slabs = (p.vocab + info->slab_columns - 1) / info->slab_columns;
        assert_int_equal(seen.products, (3 * slabs - 1) * info->chunks);
        cuda_plan_destroy(plan);
    }
}

/* The slabs of all stages, by all blocks; the stages follow one another, and none overwrites its own rows. */
static int64_t stages_of(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    int64_t slabs = 0, at = p->vocab - plan->borrowed;
    for (const struct cuda_plan *s = plan->rest; s; s = s->rest) {
        assert_int_equal(s->begin, at);
        assert_true(s->end > s->begin && s->end <= p->vocab);
        assert_int_equal(s->logits_in, s->rest ? IN_DWEIGHT : IN_WORKSPACE); /* only the last lies there */
        assert_true(!s->rest || s->layout.logits >= (size_t)(s->end * p->hidden) * 2);
        slabs += (s->end - s->begin + s->columns - 1) / s->columns * ((plan->rows + s->chunk - 1) / s->chunk);
        at = s->end;
    }
    assert_int_equal(at, p->vocab);
    return slabs;
}

/* The logits lie in rows of dweight where that is the caller's to overwrite, and where it is faster. */
static void small_budgets_borrow_rows_of_dweight(void **state)
{
    static const struct {
        double mib;
        int64_t tokens, hidden, vocab, least_tokens;
    } rows[] = {{1.5, 8192, 4096, 128256, 512}, {16, 8192, 4096, 128256, 1024},
                {16, 5003, 2048, 50257, 512},   {16, 1000, 3584, 151646, 384},
                {16, 8192, 2304, 256000, 768},  {61, 65536, 4096, 128256, 1024}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int why = 0; why < 5; why++) {
            struct lce_problem p = problem_of(rows[i].tokens, rows[i].hidden, rows[i].vocab, LCE_BF16, 0);
            p.wants &= ~(uint32_t)(LCE_WANT_GRAD_BIAS | (why == 3 ? LCE_WANT_GRAD_WEIGHT : 0));
            p.grad_weight_beta = why == 1;
            p.grad_weight_stride += why == 2 ? 8 : 0;
            p.flags = (why == 4 ? LCE_F32_ACCUMULATE : 0) | (why == 0 && i > 1 ? LCE_F32_LOGITS : 0);
            const uint64_t sums = why == 4 ? (uint64_t)(p.vocab * p.hidden) * 4 : 0,
                           budget = sums + (uint64_t)(rows[i].mib * 1048576);
            struct lce_plan *base = plan_of(&p, LCE_AUTO, 0, budget);
            const struct cuda_plan *plan = (const struct cuda_plan *)base;
            assert_int_equal(plan->borrowed > 0, why == 0);
            assert_true(base->info.workspace_size <= budget);
            if (why != 2) { /* the buffers here have dense rows */
                if (run(base) != LCE_OK)
                    fail_msg("%s", lce_message());
                assert_ptr_equal(seen.furthest, seen.known[0].begin + base->info.workspace_size);
            }
            if (why == 0) {
                assert_true(base->info.chunk_tokens * (p.flags & LCE_F32_LOGITS ? 2 : 1) >=
                            rows[i].least_tokens);
                assert_int_equal(seen.products, 3 * base->info.chunks + 2 * stages_of(plan));
            }
            cuda_plan_destroy(base);
        }
}

/* The segments follow one another, and nothing lies in rows of dinput that are done or that a product writes.
 */
static void check_segments(const struct cuda_plan *plan)
{
    const struct lce_problem *p = &plan->base.problem;
    const size_t row = (size_t)p->hidden * 2, all = (size_t)p->tokens * row;
    int64_t at = 0;
    for (const struct cuda_plan *s = plan->rest; s; s = s->rest) {
        const size_t logits = (size_t)(s->chunk * s->stride) * cuda_logit_size(s),
                     sums = (size_t)(s->chunk * p->hidden) * 4, done = (size_t)(s->rows - s->chunk) * row,
                     written = (size_t)s->rows * row;
        const bool summed = cuda_sums_dinput(s), beyond = summed && s->sums_in == IN_DINPUT;
        assert_int_equal(s->from, at);
        assert_int_equal((s->rows - s->from) % s->chunk, 0);
        assert_true(!beyond || (s->layout.dinput >= written && s->layout.dinput + sums <= all));
        if (s->logits_in == IN_DINPUT) {
            assert_true(s->layout.logits >= (summed ? done : written));
            assert_true(s->layout.logits + logits <= (beyond ? s->layout.dinput : all));
        }
        at = s->rows;
    }
    assert_int_equal(at, p->tokens);
}

/* Where rows of dweight cannot be borrowed the logits lie in those of dinput, if that is the caller's rows
 * one after the other, in order. */
static void small_budgets_borrow_rows_of_dinput_of_later_tokens(void **state)
{
    static const struct {
        double mib;
        int64_t tokens, hidden, vocab;
    } rows[] = {{2, 8192, 4096, 128256}, {16, 8192, 4096, 128256},  {2, 5003, 2048, 50257},
                {2, 1000, 3584, 151646}, {16, 65536, 4096, 128256}, {2, 1000, 896, 32003}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int why = 0; why < 6; why++) {
            struct lce_problem p = problem_of(rows[i].tokens, rows[i].hidden, rows[i].vocab, LCE_BF16, 0);
            p.wants &= ~(uint32_t)(LCE_WANT_GRAD_BIAS | (why == 3 ? LCE_WANT_GRAD_INPUT : 0));
            p.grad_weight_beta = why != 1;
            p.grad_input_stride += why == 2 ? 8 : 0;
            p.max_counted = why == 4 ? p.tokens / 2 : 0;
            p.flags = why == 5 ? LCE_F32_LOGITS : 0;
            const uint64_t budget = (uint64_t)(rows[i].mib * 1048576);
            struct lce_plan *base = plan_of(&p, LCE_AUTO, 0, budget);
            const struct cuda_plan *plan = (const struct cuda_plan *)base;
            assert_int_equal(plan->segment_count > 0, why == 0 || why == 5);
            assert_true(base->info.workspace_size <= budget);
            if (plan->segment_count) {
                check_segments(plan);
                if (run(base) != LCE_OK)
                    fail_msg("%s", lce_message());
                assert_ptr_equal(seen.furthest, seen.known[0].begin + base->info.workspace_size);
            }
            cuda_plan_destroy(base);
        }
}

static struct lce_problem exchanging(struct lce_problem p)
{
    p.flags |= LCE_EXCHANGE;
    p.parts = 2;
    return p;
}

/* Three products a chunk, and the exchange of each in its middle, or beside the next one's logits. */
static void an_exchange_is_in_a_chunk_or_beside_the_next_ones_logits(void **state)
{
    static const struct {
        int64_t chunk, counted;
        uint32_t ahead;
        const char *asked;
    } rows[] = {{300, 0, LCE_EXCHANGE_AHEAD, "1S2S2F4I5S5F7I8S8F10I10F12I"}, /* 4 chunks of 1000 tokens */
                {300, 0, 0, "1S1F3I4S4F6I7S7F9I10S10F12I"},
                {1000, 0, LCE_EXCHANGE_AHEAD, "1S1F3I"},
                {1000, 0, 0, "1S1F3I"},
                /* dinput of compacted rows is complete at the end only */
                {300, 500, LCE_EXCHANGE_AHEAD, "1S2S2F4F6I"},
                {300, 500, 0, "1S1F4S4F6I"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int dtype = LCE_F32; dtype <= LCE_BF16; dtype++)
            for (uint32_t flags = 0; flags <= LCE_F32_LOGITS; flags += LCE_F32_LOGITS) {
                struct lce_problem p = exchanging(problem_of(1000, 24, 9000, dtype, flags));
                p.max_counted = rows[i].counted;
                p.flags |= rows[i].ahead;
                struct lce_plan *plan = plan_of(&p, LCE_AUTO, rows[i].chunk, 0);
                const int64_t kept = rows[i].ahead && rows[i].chunk < 1000 ? 2 : 1,
                              e = dtype && !flags ? 2 : 4;
                assert_int_equal(plan->info.logits_size, kept * rows[i].chunk * 9024 * e);
                assert_int_equal(run(plan), LCE_OK);
                assert_string_equal(seen.asked, rows[i].asked);
                assert_ptr_equal(seen.furthest, seen.known[0].begin + plan->info.workspace_size);
                seen.refuse_exchange = -3;
                assert_int_equal(run(plan), LCE_EXCHANGE_FAILED);
                assert_non_null(strstr(lce_message(), "returned -3 for LCE_EXCHANGE_START"));
                seen.refuse_exchange = 0;
                cuda_plan_destroy(plan);
            }
}

/* Rows that are exchanged are of the same tokens on all ranks: compacted on each or on none, whatever its
 * part, device and strides; products that skip ignored tokens are for those that can. */
static void ranks_exchange_the_same_rows_whosever_products_they_take(void **state)
{
    static const struct {
        int64_t vocab, stride, hidden, counted;
        int dtype;
        bool hopper, compacts, own;
    } rows[] = {{9000, 64, 64, 0, LCE_BF16, true, true, true},
                {9000, 64, 64, 0, LCE_BF16, false, true, false},
                {130, 64, 64, 0, LCE_BF16, true, true, false},
                {9000, 65, 64, 0, LCE_BF16, true, true, false},
                {9000, 72, 72, 0, LCE_F16, true, true, true},
                {9000, 64, 64, 1000, LCE_BF16, true, false, false},
                {9000, 64, 64, 1000, LCE_BF16, false, false, false},
                {9000, 64, 64, 0, LCE_F32, true, false, false},
                {9000, 24, 24, 0, LCE_BF16, true, false, false},
                {9000, 76, 76, 0, LCE_BF16, true, false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (uint32_t ahead = 0; ahead <= LCE_EXCHANGE_AHEAD; ahead += LCE_EXCHANGE_AHEAD) {
            struct lce_problem p =
                exchanging(problem_of(1000, rows[i].hidden, rows[i].vocab, rows[i].dtype, 0));
            p.flags |= ahead;
            p.weight_stride = rows[i].stride;
            p.max_counted = rows[i].counted;
            p.proposals = 1 << 14; /* ours, where they can be had */
            library.images[IMAGE_PRODUCT] = rows[i].hopper ? (CUlibrary)1 : NULL;
            struct lce_plan *plan = plan_of(&p, LCE_AUTO, 300, 0);
            assert_int_equal(((struct cuda_plan *)plan)->compacts, rows[i].compacts);
            assert_int_equal(((struct cuda_plan *)plan)->own, rows[i].own);
            assert_int_equal(((struct cuda_plan *)plan)->rows, 1000);
            if (rows[i].stride != rows[i].hidden) { /* the buffers here have dense rows */
                cuda_plan_destroy(plan);
                continue;
            }
            if (run(plan) != LCE_OK)
                fail_msg("%s", lce_message());
            assert_int_equal(seen.own, rows[i].own ? 3 * plan->info.chunks : 0);
            assert_int_equal(seen.products, rows[i].own ? 0 : 3 * plan->info.chunks);
            assert_ptr_equal(seen.furthest, seen.known[0].begin + plan->info.workspace_size);
            cuda_plan_destroy(plan);
        }
    library.images[IMAGE_PRODUCT] = NULL;
}

static void logits_of_exchanged_chunks_keep_to_the_budget(void **state)
{
    static const uint64_t mib = 1 << 20;
    for (int dtype = LCE_F32; dtype <= LCE_BF16; dtype++)
        for (uint64_t budget = 8 * mib; budget <= 4096 * mib; budget *= 2) {
            struct lce_problem p = exchanging(problem_of(4000, 1024, 64128, dtype, 0));
            p.flags |= budget > 64 * mib ? LCE_EXCHANGE_AHEAD : 0;
            struct lce_plan *plan = plan_of(&p, LCE_AUTO, 0, budget);
            assert_true(plan->info.workspace_size <= budget && plan->info.slab_columns == 64128);
            assert_true(plan->info.chunk_tokens >= 15 && plan->info.chunk_tokens <= 2048);
            cuda_plan_destroy(plan);
        }
}

/* Slabs: every byte of the workspace is one of these, each rounded up to 256 */
static size_t parts_of(const struct lce_plan *plan)
{
    const struct lce_problem *p = &plan->problem;
    const size_t n = (size_t)plan->info.chunk_tokens, rows = (size_t)p->max_counted;
    const size_t e = lce_dtype_size(p->dtype), wide = p->flags & LCE_F32_LOGITS ? 4 : e;
    const size_t parts[] = {sizeof(struct lce_stats),
                            (size_t)p->tokens,
                            (size_t)p->tokens * 4,
                            rows * 4,
                            rows ? n * (size_t)p->hidden * e : 0,
                            (size_t)p->vocab * 4,
                            n * (size_t)plan->info.slab_columns * wide,
                            n * sizeof(struct lce_slab_row),
                            e == 2 || rows ? n * (size_t)p->hidden * 4 : 0};
    size_t total = plan->info.gemm_size;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        total += (parts[i] + 255) / 256 * 256;
    return total;
}

static void slabs_have_an_exact_workspace(void **state)
{
    for (int dtype = LCE_F32; dtype <= LCE_BF16; dtype++)
        for (int64_t counted = 0; counted <= 333; counted += 333)
            for (uint32_t flags = 0; flags <= LCE_F32_LOGITS; flags += LCE_F32_LOGITS)
                for (int64_t columns = 64; columns <= 4096; columns *= 8) {
                    struct lce_problem p = problem_of(999, 77, 5001, dtype, flags);
                    p.max_counted = counted;
                    p.proposals = (uint32_t)(columns / 64) << 16;
                    struct lce_plan *plan = plan_of(&p, LCE_FAST, 100, 0);
                    assert_int_equal(plan->info.slab_columns, columns);
                    assert_int_equal(plan->info.logits_size, 100 * columns * (dtype && !flags ? 2 : 4));
                    assert_int_equal(plan->info.workspace_size, parts_of(plan));
                    cuda_plan_destroy(plan);
                }
}

/* What the message names is enough, and a byte less is not. */
static void the_smallest_plan_is_the_one_that_is_named(void **state)
{
    static const int64_t shapes[][3] = {{8192, 4096, 128256}, {1, 16, 50}, {500, 4096, 300}, {0, 64, 1000}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int64_t chunk = 0; chunk <= 100; chunk += 100) {
            struct lce_problem p = problem_of(shapes[i][0], shapes[i][1], shapes[i][2], LCE_BF16, 0);
            struct lce_plan *plan;
            assert_int_equal(cuda_plan_create(&library.base, &p, LCE_AUTO, chunk, 1, &plan),
                             LCE_BUDGET_TOO_SMALL);
            const char *needs = strstr(lce_message(), "needs ");
            assert_non_null(needs);
            const uint64_t least = strtoull(needs + 6, NULL, 10);
            plan = plan_of(&p, LCE_AUTO, chunk, least);
            assert_int_equal(plan->info.workspace_size, least);
            cuda_plan_destroy(plan);
            assert_int_equal(cuda_plan_create(&library.base, &p, LCE_AUTO, chunk, least - 1, &plan),
                             LCE_BUDGET_TOO_SMALL);
            if (i == 0 && chunk == 0)
                assert_true(least < 1024 * 1024); /* a row of dbias alone is half of that */
        }
}

static void only_the_loss_needs_next_to_nothing(void **state)
{
    struct lce_problem p = problem_of(8192, 4096, 128256, LCE_BF16, 0);
    p.wants = LCE_WANT_LOSS;
    struct lce_plan *plan = plan_of(&p, LCE_AUTO, 0, 100 << 10);
    assert_true(plan->info.workspace_size <= 100 << 10);
    assert_int_equal(run(plan), LCE_OK);
    const int64_t slabs = (p.vocab + plan->info.slab_columns - 1) / plan->info.slab_columns;
    assert_int_equal(seen.products, slabs * plan->info.chunks); /* once each */
    cuda_plan_destroy(plan);
}

static void refused(const struct lce_problem *p)
{
    struct lce_plan *plan = plan_of(p, LCE_FAST, 40, 0);
    assert_int_equal(run(plan), LCE_OK);
    const int launches = seen.launches, products = seen.products;
    for (seen.refuse_launch = 1; seen.refuse_launch <= launches; seen.refuse_launch++) {
        assert_int_equal(run(plan), LCE_DEVICE_ERROR);
        assert_int_equal(seen.launches, seen.refuse_launch); /* nothing comes after */
        assert_non_null(strstr(lce_message(), "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"));
    }
    seen.refuse_launch = 0;
    for (seen.refuse_product = 1; seen.refuse_product <= products; seen.refuse_product++) {
        assert_int_equal(run(plan), LCE_GEMM_ERROR);
        assert_non_null(strstr(lce_message(), "CUBLAS_STATUS_NOT_SUPPORTED"));
    }
    seen.refuse_product = 0;
    seen.current = (CUcontext)8;
    assert_int_equal(run(plan), LCE_DEVICE_ERROR);
    assert_int_equal(seen.launches + seen.products, 0);
    assert_non_null(strstr(lce_message(), "context"));
    cuda_plan_destroy(plan);
}

static int chosen(enum lce_role role, unsigned int asked_for)
{
    const struct lce_product product = {.m = 2048,
                                        .n = 128256,
                                        .k = 4096,
                                        .out_stride = 128256,
                                        .a_stride = 4096,
                                        .b_stride = 4096,
                                        .proposal = asked_for,
                                        .role = role,
                                        .dtype = LCE_BF16,
                                        .out_dtype = LCE_BF16,
                                        .alignment = 16,
                                        .transpose_b = true};
    struct lce_gemm gemm;
    assert_int_equal(lce_gemm_create(&library.blas, NULL, &product, 1 << 20, &gemm), LCE_OK);
    const size_t scratch = gemm.workspace_size;
    const int tile = (int)gemm.algorithm.data[0];
    lce_gemm_destroy(&library.blas, &gemm);
    for (int i = 0; i < 8; i++)
        if ((int)seen.proposals[i].tile == tile && scratch == seen.scratch + (size_t)i * 256)
            return i;
    return -1;
}

static uint64_t tile_of_logits(int major, int dtype)
{
    struct lce_problem p = problem_of(8192, 4096, 128256, dtype, 0);
    library.major = major;
    struct lce_plan *plan = plan_of(&p, LCE_FAST, 0, 0);
    const struct cuda_products *products = ((struct cuda_plan *)plan)->products[0];
    const uint64_t tile = products[0].logits.algorithm.data[0];
    assert_int_equal(products[0].dinput.algorithm.data[0], CUBLASLT_MATMUL_TILE_320x128);
    cuda_plan_destroy(plan);
    library.major = 10;
    return tile;
}

static void plans_choose_among_proposals_only_where_that_was_measured(void **state)
{
    memset(&seen, 0, sizeof seen);
    seen.proposals[0] = (struct proposal){CUBLASLT_MATMUL_TILE_320x128, 49};
    seen.proposals[1] = (struct proposal){CUBLASLT_MATMUL_TILE_144x128, 108};
    assert_int_equal(tile_of_logits(9, LCE_BF16), CUBLASLT_MATMUL_TILE_144x128);
    assert_int_equal(tile_of_logits(9, LCE_F16), CUBLASLT_MATMUL_TILE_144x128);
    assert_int_equal(tile_of_logits(9, LCE_F32), CUBLASLT_MATMUL_TILE_320x128);
    assert_int_equal(tile_of_logits(10, LCE_BF16), CUBLASLT_MATMUL_TILE_320x128);
}

static void of_cublaslts_proposals_that_is_taken_whose_tiles_are_written_beside_the_arithmetic(void **state)
{
    memset(&seen, 0, sizeof seen);
    const struct proposal as_on_an_h200[8] = {
        {CUBLASLT_MATMUL_TILE_320x128, 49}, {CUBLASLT_MATMUL_TILE_256x128, 61},
        {CUBLASLT_MATMUL_TILE_128x256, 61}, {CUBLASLT_MATMUL_TILE_128x160, 81},
        {CUBLASLT_MATMUL_TILE_176x128, 88}, {CUBLASLT_MATMUL_TILE_168x128, 93},
        {CUBLASLT_MATMUL_TILE_144x128, 5}, /* few rounds: the last may be all but empty */
        {CUBLASLT_MATMUL_TILE_192x128, 81}};
    memcpy(seen.proposals, as_on_an_h200, sizeof as_on_an_h200);
    assert_int_equal(chosen(LCE_LOGITS, 0), 5);
    assert_int_equal(chosen(LCE_DWEIGHT, 0), 3);
    assert_int_equal(chosen(LCE_ANY, 0), 0);
    assert_int_equal(chosen(LCE_LOGITS, 2), 2);
    assert_int_equal(chosen(LCE_DWEIGHT, 15), 7); /* the last that there is */
    seen.proposals[6].rounds = 108;
    assert_int_equal(chosen(LCE_LOGITS, 0), 6);
    seen.proposals[1].tile = 0; /* the only one */
    assert_int_equal(chosen(LCE_LOGITS, 0), 0);
    assert_int_equal(chosen(LCE_DWEIGHT, 0), 0);
}

static void what_the_driver_or_cublaslt_refuses_is_an_error_with_its_name(void **state)
{
    struct lce_problem p = problem_of(100, 8, 500, LCE_BF16, 0);
    for (p.proposals = 0; p.proposals <= 2 << 16; p.proposals += 2 << 16)
        refused(&p);
    p.proposals = 0;
    struct lce_plan *plan;
    seen.no_algorithm = 1;
    assert_int_equal(cuda_plan_create(&library.base, &p, LCE_FAST, 0, 0, &plan), LCE_GEMM_ERROR);
    seen.no_algorithm = 0;
    assert_int_equal(cuda_plan_create(&library.base, &p, LCE_FAST, 0, 1000, &plan), LCE_BUDGET_TOO_SMALL);
    assert_non_null(strstr(lce_message(), "needs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_finds_its_kernels_and_stays_in_its_buffers),
        cmocka_unit_test(own_products_stay_in_their_buffers_and_are_all_there_is),
        cmocka_unit_test(own_products_are_for_long_chunks_and_many_tokens),
        cmocka_unit_test(rows_of_logits_get_the_kernel_for_their_length),
        cmocka_unit_test(temperatures_and_entropies_keep_the_fast_passes),
        cmocka_unit_test(all_options_have_a_kernel_for_every_length),
        cmocka_unit_test(gpus_without_clusters_get_no_cluster_and_no_products_of_ours),
        cmocka_unit_test(fp32_logits_halve_the_chunk_and_keep_the_budget),
        cmocka_unit_test(slabs_are_taken_where_whole_rows_would_be_slow),
        cmocka_unit_test(small_budgets_borrow_rows_of_dweight),
        cmocka_unit_test(small_budgets_borrow_rows_of_dinput_of_later_tokens),
        cmocka_unit_test(an_exchange_is_in_a_chunk_or_beside_the_next_ones_logits),
        cmocka_unit_test(ranks_exchange_the_same_rows_whosever_products_they_take),
        cmocka_unit_test(logits_of_exchanged_chunks_keep_to_the_budget),
        cmocka_unit_test(slabs_have_an_exact_workspace),
        cmocka_unit_test(the_smallest_plan_is_the_one_that_is_named),
        cmocka_unit_test(only_the_loss_needs_next_to_nothing),
        cmocka_unit_test(plans_choose_among_proposals_only_where_that_was_measured),
        cmocka_unit_test(of_cublaslts_proposals_that_is_taken_whose_tiles_are_written_beside_the_arithmetic),
        cmocka_unit_test(what_the_driver_or_cublaslt_refuses_is_an_error_with_its_name),
    };
    return cmocka_run_group_tests(tests, read_images, drop_images);
}
