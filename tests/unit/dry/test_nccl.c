/* test_nccl.c - NCCL's stand-in: what collectives leave where all other ranks are absent, and what NCCL takes
 * of the device. */
#include <cuda.h>

#include "unit/test.h"

typedef struct comm *comm;
typedef struct {
    char internal[128];
} unique_id;
enum { I32 = 2, I64 = 4, F32 = 7, SUM = 0, MAX = 2 };

int ncclGetUniqueId(unique_id *id);
int ncclCommInitRank(comm *c, int ranks, unique_id id, int rank);
int pncclCommInitRank(comm *c, int ranks, unique_id id, int rank);
int ncclCommDestroy(comm c);
int ncclCommCount(comm c, int *ranks);
int ncclCommUserRank(comm c, int *rank);
int ncclCommSplit(comm c, int color, int key, comm *out, void *config);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, comm c, void *stream);
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, comm c, void *stream);
int ncclAllGather(const void *from, void *to, size_t count, int type, comm c, void *stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, comm c, void *stream);
int ncclSend(const void *from, size_t count, int type, int peer, comm c, void *stream);
int ncclRecv(void *to, size_t count, int type, int peer, comm c, void *stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclMemAlloc(void **out, size_t bytes);
int ncclMemFree(void *at);
int ncclCommSuspend(comm c, int flags);
int ncclCommResume(comm c);
int ncclCommMemStats(comm c, int what, uint64_t *value);
void dry_nccl_group(int color, int ranks, int rank);

enum { MOST = 16 };
static CUdeviceptr from, to;

static int setup(void **state)
{
    (void)state;
    CUcontext context;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&from, 4096), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&to, 4096), CUDA_SUCCESS);
    return 0;
}

static comm of(int ranks, int rank)
{
    comm c;
    unique_id id;
    assert_int_equal(ncclGetUniqueId(&id), 0);
    assert_int_equal(ncclCommInitRank(&c, ranks, id, rank), 0);
    return c;
}

static void give(const int *values, size_t n)
{
    assert_int_equal(cuMemcpyHtoD(from, values, n * sizeof *values), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8(to, 0xff, 4096), CUDA_SUCCESS);
}

static void expect(const int *values, size_t n)
{
    int got[MOST];
    assert_int_equal(cuMemcpyDtoH(got, to, n * sizeof *got), CUDA_SUCCESS);
    assert_memory_equal(got, values, n * sizeof *got);
}

static size_t used(void)
{
    size_t free_bytes, total;
    assert_int_equal(cuMemGetInfo(&free_bytes, &total), CUDA_SUCCESS);
    return total - free_bytes;
}

TEST(gathers_repeat_this_ranks_part)
{
    comm c = of(3, 1);
    give((int[]){7, 8}, 2);
    assert_int_equal(ncclAllGather((void *)from, (void *)to, 2, I32, c, NULL), 0);
    expect((int[]){7, 8, 7, 8, 7, 8, -1}, 7);
    ncclCommDestroy(c);
}

TEST(sums_of_whole_numbers_are_this_ranks_times_the_ranks)
{
    comm c = of(4, 3);
    give((int[]){5, -2}, 2);
    assert_int_equal(ncclAllReduce((void *)from, (void *)to, 2, I32, SUM, c, NULL), 0);
    expect((int[]){20, -8, -1}, 3);
    assert_int_equal(ncclAllReduce((void *)from, (void *)to, 2, I32, MAX, c, NULL), 0);
    expect((int[]){5, -2, -1}, 3);
    assert_int_equal(ncclAllReduce((void *)from, (void *)to, 2, F32, SUM, c, NULL), 0);
    expect((int[]){5, -2, -1}, 3); /* floats: their own bits */
    ncclCommDestroy(c);
}

TEST(a_scatter_gives_the_part_of_this_rank)
{
    comm c = of(3, 2);
    give((int[]){1, 2, 3, 4, 5, 6}, 6);
    assert_int_equal(ncclReduceScatter((void *)from, (void *)to, 2, I32, SUM, c, NULL), 0);
    expect((int[]){15, 18, -1}, 3);
    ncclCommDestroy(c);
}

TEST(what_an_absent_rank_sends_leaves_the_output)
{
    comm c = of(2, 1);
    give((int[]){1}, 1);
    assert_int_equal(ncclBroadcast((void *)from, (void *)to, 1, I32, 0, c, NULL), 0);
    assert_int_equal(ncclRecv((void *)to, 1, I32, 0, c, NULL), 0);
    expect((int[]){-1}, 1);
    assert_int_equal(ncclBroadcast((void *)from, (void *)to, 1, I32, 1, c, NULL), 0);
    expect((int[]){1}, 1);
    ncclCommDestroy(c);
}

TEST(an_exchange_gives_back_what_was_sent)
{
    comm c = of(2, 0);
    give((int[]){4, 9}, 2);
    ncclGroupStart();
    for (int peer = 0; peer < 2; peer++) {
        assert_int_equal(ncclRecv((void *)(to + 4 * (size_t)peer), 1, I32, peer, c, NULL), 0);
        assert_int_equal(ncclSend((void *)(from + 4 * (size_t)peer), 1, I32, peer, c, NULL), 0);
    }
    expect((int[]){-1, -1}, 2); /* nothing moves before the group ends */
    assert_int_equal(ncclGroupEnd(), 0);
    expect((int[]){4, 9, -1}, 3);
    assert_int_not_equal(ncclGroupEnd(), 0);
    ncclCommDestroy(c);
}

TEST(broadcasts_of_all_ranks_in_one_group_are_a_gather)
{
    comm c = of(3, 1);
    give((int[]){6}, 1);
    ncclGroupStart();
    for (int root = 0; root < 3; root++)
        assert_int_equal(ncclBroadcast((void *)(root == 1 ? from : to + 4 * (size_t)root),
                                       (void *)(to + 4 * (size_t)root), 1, I32, root, c, NULL),
                         0);
    ncclGroupEnd();
    expect((int[]){6, 6, 6, -1}, 4);
    ncclCommDestroy(c);
}

TEST(a_part_has_the_ranks_that_were_said)
{
    comm c = of(8, 5), part;
    int ranks, rank;
    dry_nccl_group(42, 4, 1);
    assert_int_equal(ncclCommSplit(c, 42, 5, &part, NULL), 0);
    ncclCommCount(part, &ranks);
    ncclCommUserRank(part, &rank);
    assert_int_equal(ranks, 4);
    assert_int_equal(rank, 1);
    ncclCommDestroy(part);
    assert_int_equal(ncclCommSplit(c, -1, 0, &part, NULL), 0);
    assert_null(part);
    ncclCommDestroy(c);
}

TEST(the_first_collective_takes_what_two_h200s_showed)
{
    size_t before = used();
    comm c = of(2, 0);
    assert_int_equal(used(), before);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ncclAllReduce((void *)from, (void *)to, 1, I64, SUM, c, NULL), 0);
        assert_int_equal(used() - before, 484u << 20);
    }
    ncclCommDestroy(c);
    assert_int_equal(used(), before);
}

TEST(sends_take_what_two_h200s_showed)
{
    size_t before = used();
    comm c = of(2, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ncclSend((void *)from, 1, I32, 1, c, NULL), 0);
        assert_int_equal(used() - before, 64u << 20);
    }
    ncclCommDestroy(c);
    c = of(2, 1);
    assert_int_equal(ncclRecv((void *)to, 1, I32, 0, c, NULL), 0);
    assert_int_equal(used() - before, 320u << 20);
    ncclCommDestroy(c);
    assert_int_equal(used(), before);
}

TEST(a_suspended_communicator_takes_nothing_and_is_of_no_use)
{
    uint64_t bytes, away;
    size_t before = used();
    comm c = of(2, 0);
    assert_int_equal(ncclAllReduce((void *)from, (void *)to, 1, I64, SUM, c, NULL), 0);
    assert_int_not_equal(ncclCommResume(c), 0);
    assert_int_equal(ncclCommSuspend(c, 1), 0);
    assert_int_equal(used(), before);
    assert_int_not_equal(ncclCommSuspend(c, 1), 0);
    assert_int_not_equal(ncclAllReduce((void *)from, (void *)to, 1, I64, SUM, c, NULL), 0);
    assert_int_equal(ncclCommMemStats(c, 0, &bytes), 0);
    assert_int_equal(ncclCommMemStats(c, 1, &away), 0);
    assert_true(bytes == 484u << 20 && away == 1);
    assert_int_equal(ncclCommResume(c), 0);
    assert_int_equal(used() - before, 484u << 20);
    assert_int_equal(ncclAllReduce((void *)from, (void *)to, 1, I64, SUM, c, NULL), 0);
    assert_int_equal(ncclCommSuspend(c, 1), 0);
    ncclCommDestroy(c);
    assert_int_equal(used(), before);
}

TEST(settings_change_what_is_taken)
{
    size_t before = used();
    setenv("NCCL_BUFFSIZE", "1048576", 1);
    setenv("NCCL_MAX_CTAS", "2", 1);
    comm c = of(2, 0);
    assert_int_equal(ncclAllReduce((void *)from, (void *)to, 1, I64, SUM, c, NULL), 0);
    assert_int_equal(used() - before, (4u + 2 * 8 + 2 * 5 * 2) << 20);
    ncclCommDestroy(c);
    unsetenv("NCCL_BUFFSIZE");
    unsetenv("NCCL_MAX_CTAS");
}

TEST(one_rank_alone_takes_nothing)
{
    size_t before = used();
    comm c = of(1, 0);
    assert_int_equal(ncclAllReduce((void *)from, (void *)to, 1, I64, SUM, c, NULL), 0);
    assert_int_equal(used(), before);
    ncclCommDestroy(c);
}

TEST(memory_of_nccl_is_whole_granules)
{
    size_t before = used();
    void *at;
    assert_int_equal(ncclMemAlloc(&at, 5), 0);
    assert_int_equal(used() - before, 2u << 20);
    assert_int_equal(ncclMemFree(at), 0);
}

TEST(bad_arguments_are_refused)
{
    comm c;
    unique_id id = {{0}};
    assert_int_not_equal(pncclCommInitRank(&c, 2, id, 2), 0);
    c = of(2, 0);
    assert_int_not_equal(ncclAllReduce((void *)from, (void *)to, 1, 99, SUM, c, NULL), 0);
    assert_int_not_equal(ncclSend((void *)from, 1, I32, 2, c, NULL), 0);
    ncclCommDestroy(c);
}

int main(void)
{
    return run_all_tests(setup, NULL);
}
