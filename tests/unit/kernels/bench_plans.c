/*
 * bench_plans.c - what the host takes to make a plan of the CUDA back end, on stand-ins (lce_cuda_kit.h).
 *
 *      bench_plans [ROUNDS]            ms of a processor for fast and lean plans of twelve shapes, with
 *                                      dweight written, and added to: each the median of ROUNDS (5)
 *      bench_plans random SEED COUNT   a line for each random problem, with a number of all that was chosen:
 *                                      builds that choose the same print the same
 */
#define _GNU_SOURCE
#include "lce_cuda_kit.h"

#include <math.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ms(const struct lce_problem *p, int mode, int rounds)
{
    double took[99];
    for (int i = 0; i < rounds; i++) {
        took[i] = now_ms();
        cuda_plan_destroy(plan_of(p, mode, 0));
        took[i] = now_ms() - took[i];
    }
    qsort(took, (size_t)rounds, sizeof *took, by_size);
    return took[rounds / 2];
}

static void time_shapes(int rounds)
{
    static const int64_t shapes[][3] = {{1000, 3584, 151646},   {5003, 2048, 50257},  {16384, 3072, 128256},
                                        {8192, 4096, 128256},   {65536, 1024, 50304}, {20000, 640, 49152},
                                        {131072, 4096, 128256}, {4096, 2304, 256000}, {777, 5120, 152064},
                                        {12345, 2048, 64128},   {3001, 768, 50257},   {8192, 2048, 32000}};
    printf("%-20s %17s %17s\n", "tokens x H x V", "fast", "lean");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char name[64];
        snprintf(name, sizeof name, "%dx%dx%d", (int)shapes[i][0], (int)shapes[i][1], (int)shapes[i][2]);
        printf("%-20s", name);
        for (int mode = LCE_FAST; mode <= LCE_LEAN; mode++) {
            struct lce_problem p = problem_of(shapes[i][0], shapes[i][1], shapes[i][2], LCE_BF16, 0);
            p.wants &= ~(uint32_t)LCE_WANT_GRAD_BIAS;
            const double written = median_ms(&p, mode, rounds);
            p.grad_weight_dtype = LCE_F32;
            p.grad_weight_beta = 1;
            printf(" %9.2f %7.2f", written, median_ms(&p, mode, rounds));
        }
        putchar('\n');
    }
}

/* ---- the same choices ---- */

static uint64_t plan_mix(uint64_t sum, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const unsigned char *)data)[i]) * UINT64_C(1099511628211);
    return sum;
}

/* A number of all that the plan has chosen. */
static uint64_t plan_choices(const struct cuda_plan *c)
{
    uint64_t sum = UINT64_C(14695981039346656037);
#define MIX(field) sum = plan_mix(sum, &(field), sizeof(field))
    MIX(c->layout), MIX(c->rows), MIX(c->chunk), MIX(c->last), MIX(c->columns), MIX(c->tail), MIX(c->stride);
    MIX(c->g_stride), MIX(c->borrowed), MIX(c->rest_size), MIX(c->logits_in), MIX(c->sums_in),
        MIX(c->rows_in);
    MIX(c->own), MIX(c->exponents), MIX(c->odds), MIX(c->lends_odds), MIX(c->in_place);
    MIX(c->two_passes), MIX(c->base.info.workspace_size), MIX(c->base.info.chunk_tokens),
        MIX(c->base.info.mode);
    for (int i = 0; i < c->stage_count; i++) {
        MIX(c->stages[i].begin), MIX(c->stages[i].end), MIX(c->stages[i].columns), MIX(c->stages[i].block);
        MIX(c->stages[i].lent);
    }
    for (int i = 0; i < c->segment_count; i++) {
        MIX(c->segments[i].begin), MIX(c->segments[i].end), MIX(c->segments[i].block),
            MIX(c->segments[i].columns);
        MIX(c->segments[i].pass), MIX(c->segments[i].logits_in), MIX(c->segments[i].sums_in);
        MIX(c->segments[i].rows_in);
    }
    return sum;
}
#undef MIX

/* One of COUNT. */
static int64_t any(int64_t count)
{
    return lrand48() % count;
}

/* From LEAST to LEAST * TIMES, as many of each order of magnitude. */
static int64_t any_size(double least, double times)
{
    return (int64_t)(least * exp(drand48() * log(times)));
}

static struct lce_problem any_problem(void)
{
    static const int64_t vocabularies[] = {32000,  50257,  50304,  64128,  100352, 128256,
                                           129280, 151646, 151936, 202048, 256000, 262144};
    const int64_t vocab = any(3) ? vocabularies[any(12)] : any_size(1, 300000),
                  hidden = any(8) ? 64 * (1 + any(100)) : 1 + any(5000), dtype = any(12);
    uint32_t flags = any(6) ? 0 : LCE_F32_LOGITS;
    flags |= any(6) ? 0 : LCE_F32_ACCUMULATE;
    struct lce_problem p = problem_of(any_size(1, 200000), hidden, vocab,
                                      dtype > 2   ? LCE_BF16
                                      : dtype > 0 ? LCE_F16
                                                  : LCE_F32,
                                      flags);
    if (any(2))
        p.wants &= ~(uint32_t)LCE_WANT_GRAD_BIAS;
    if (!any(8))
        p.wants &= ~(uint32_t)LCE_WANT_GRAD_WEIGHT;
    if (!any(8))
        p.wants &= ~(uint32_t)LCE_WANT_GRAD_INPUT;
    if (!any(6)) /* slabs of so many classes, or as much as can be in the caller's buffers: for tests */
        p.proposals = any(2) ? 1u << 15 : (uint32_t)(1 + any(60)) << 16;
    if (p.wants & LCE_WANT_GRAD_WEIGHT && any(2)) {
        p.grad_weight_beta = 1;
        p.grad_weight_dtype = any(3) ? LCE_F32 : p.grad_weight_dtype;
    }
    return p;
}

static void try_random(long seed, long count)
{
    static const int processors[] = {54, 78, 108, 114, 142};
    srand48(seed);
    for (long i = 0; i < count; i++) {
        const struct lce_problem p = any_problem();
        const int mode = any(2) ? LCE_FAST : LCE_LEAN;
        const int64_t chunk = any(6) ? 0 : any_size(1, (double)p.tokens);
        struct lce_plan *plan = NULL;
        library.processors = any(5) ? 132 : processors[any(5)];
        library.images[IMAGE_PRODUCT] = any(5) ? (CUlibrary)1 : NULL;
        const int status = cuda_plan_create(&library.base, &p, mode, chunk, &plan);
        printf("%ld: %d x %d x %d", i, (int)p.tokens, (int)p.hidden, (int)p.vocab);
        if (status == LCE_OK) {
            const struct cuda_plan *c = (const struct cuda_plan *)plan;
            printf(", %s, %d stages, %d segments: %016llx\n", c->own ? "ours" : "cuBLASLt's", c->stage_count,
                   c->segment_count, (unsigned long long)plan_choices(c));
            cuda_plan_destroy(plan);
        } else {
            printf(": %s\n", lce_message());
        }
    }
}

int main(int argc, char **argv)
{
    const int rounds = argc == 2 ? atoi(argv[1]) : 5;
    if (argc == 4 ? strcmp(argv[1], "random") != 0 : argc > 2 || rounds < 1 || rounds > 99) {
        fprintf(stderr, "usage: bench_plans [ROUNDS (to 99)] | random SEED COUNT\n");
        return 2;
    }
    if (read_images(NULL) != 0)
        return 1;
    library.images[IMAGE_PRODUCT] = (CUlibrary)1;
    if (argc == 4)
        try_random(atol(argv[2]), atol(argv[3]));
    else
        time_shapes(rounds);
    drop_images(NULL);
    return 0;
}
