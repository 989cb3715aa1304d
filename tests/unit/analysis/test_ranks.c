/* test_ranks.c - files of jobs: who belongs together, who is missing, who peaked highest. */

#include "unit/test.h"
#include "analysis/ranks.h"

#define MOST 128

static struct rank_file files[MOST];
static struct rank_device devices[MOST];
static struct rank_phase phases[MOST][2];
static char uuids[MOST][32];
static char host_names[][8] = {"a", "b"}, forward[] = "forward", backward[] = "backward";
static size_t count;

#define SECOND INT64_C(1000000000)

/* A file of RANK in WORLD, on HOST with the device GPU of it, from second FROM to TO. */
static void file(int64_t rank, int64_t world, int host, int gpu, int64_t from, int64_t to)
{
    struct rank_device *d = &devices[count];
    snprintf(uuids[count], sizeof uuids[count], "GPU-%d-%d", host, gpu);
    phases[count][0] = (struct rank_phase){forward, 100 + rank, 1000, 5};
    phases[count][1] = (struct rank_phase){backward, rank == UNKNOWN ? 200 : 200 - rank, 1000, UNKNOWN};
    *d = (struct rank_device){.device = 0,
                              .allocated = 1000 + rank % 5,
                              .reserved = 2000,
                              .residual = UNKNOWN,
                              .uuid = uuids[count],
                              .phases = phases[count],
                              .phase_count = 2};
    files[count] = (struct rank_file){.host = host_names[host],
                                      .rank = rank,
                                      .world_size = world,
                                      .pid = 100 + (int64_t)count,
                                      .from_ns = from * SECOND,
                                      .to_ns = to == UNKNOWN ? to : to * SECOND,
                                      .devices = d,
                                      .device_count = 1};
    count++;
}

static int none(void **state)
{
    count = 0;
    return 0;
}

static struct rank_job *jobs_of(size_t wanted)
{
    size_t n;
    struct rank_job *jobs = ranks_jobs(files, count, &n);
    assert_int_equal(n, wanted);
    return jobs;
}

TEST(ranks_of_one_job_stand_in_order_and_the_missing_are_named, none)
{
    size_t n;
    file(7, 8, 1, 3, 10, 90);
    file(0, 8, 0, 0, 12, 95);
    file(3, 8, 0, 3, 11, 94);
    file(4, 8, 1, 0, 13, 91);
    struct rank_job *jobs = jobs_of(1);
    static const int64_t order[] = {0, 3, 4, 7}, gone[] = {1, 2, 5, 6};
    for (int i = 0; i < 4; i++)
        assert_int_equal(jobs[0].files[i]->rank, order[i]);
    int64_t *missing = ranks_missing(&jobs[0], &n);
    assert_int_equal(n, 4);
    assert_memory_equal(missing, gone, sizeof gone);
    assert_int_equal(ranks_hosts(&jobs[0]), 2);
    assert_true(ranks_need_uuid(&jobs[0])); /* every rank's device is 0 */
    free(missing);
    ranks_free_jobs(jobs, 1);
}

TEST(a_rerun_in_the_same_directory_is_another_job, none)
{
    size_t n;
    for (int r = 0; r < 4; r++) /* rank 3 of the first run left no file */
        if (r != 3)
            file(r, 4, 0, r, 10 + r, 50);
    for (int r = 3; r >= 0; r--) /* and that of the second is its first to start */
        file(r, 4, 0, r, 70 - r, 99);
    struct rank_job *jobs = jobs_of(2);
    assert_int_equal(jobs[0].file_count, 3);
    assert_int_equal(jobs[1].file_count, 4);
    free(ranks_missing(&jobs[0], &n));
    assert_int_equal(n, 1);
    free(ranks_missing(&jobs[1], &n));
    assert_int_equal(n, 0);
    ranks_free_jobs(jobs, 2);
}

TEST(jobs_at_the_same_time_are_told_apart_by_world_size_and_by_rank, none)
{
    for (int r = 0; r < 2; r++) {
        file(r, 2, 0, r, 10, 90);
        file(r, 2, 0, r + 4, 11, 91); /* other devices */
        file(r, 3, 1, r, 12, 92);
    }
    struct rank_job *jobs = jobs_of(3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(jobs[i].file_count, 2);
    ranks_free_jobs(jobs, 3);
}

TEST(a_rank_may_have_two_processes_on_its_device, none)
{
    file(0, 2, 0, 0, 10, 90);
    file(0, 2, 0, 0, 20, 30); /* a child's */
    file(1, 2, 0, 1, 10, 90);
    struct rank_job *jobs = jobs_of(1);
    assert_int_equal(jobs[0].file_count, 3);
    ranks_free_jobs(jobs, 1);
}

TEST(files_without_a_rank_stand_apart_and_miss_nobody, none)
{
    size_t n;
    file(UNKNOWN, UNKNOWN, 0, 0, 1, 5);
    file(0, 2, 0, 0, 10, 90);
    file(UNKNOWN, UNKNOWN, 0, 1, 200, 300);
    file(1, 2, 0, 1, 10, UNKNOWN);
    struct rank_job *jobs = jobs_of(2);
    assert_true(jobs[0].ranked && jobs[0].file_count == 2 && !jobs[1].ranked && jobs[1].file_count == 2);
    free(ranks_missing(&jobs[1], &n));
    assert_int_equal(n, 0);
    assert_false(ranks_need_uuid(&jobs[1]) && ranks_hosts(&jobs[1]) != 1);
    ranks_free_jobs(jobs, 2);
}

TEST(figures_go_over_all_ranks_and_name_the_highest, none)
{
    size_t n;
    for (int r = 0; r < 8; r++)
        file(r, 8, r / 4, r % 4, 10, 90);
    files[5].devices[0].allocated = UNKNOWN; /* a framework that reports nothing */
    struct rank_job *jobs = jobs_of(1);
    struct rank_span a = ranks_span(&jobs[0], FIGURE_ALLOCATED),
                     none_ = ranks_span(&jobs[0], FIGURE_RESIDUAL);
    assert_true(a.n == 7 && a.least == 1001 - 1 && a.most == 1004 && a.file->rank == 4);
    assert_true(a.mean == (1000 + 1001 + 1002 + 1003 + 1004 + 1001 + 1002) / 7);
    assert_true(none_.n == 0 && none_.most == UNKNOWN && !none_.file);
    struct rank_span f = ranks_phase_span(&jobs[0], "forward", PHASE_ALLOCATED),
                     b = ranks_phase_span(&jobs[0], "backward", PHASE_ALLOCATED),
                     t = ranks_phase_span(&jobs[0], "backward", PHASE_TIME);
    assert_true(f.most == 107 && f.file->rank == 7 && b.most == 200 && b.file->rank == 0 && t.n == 0);
    const char **names = ranks_phases(&jobs[0], &n);
    assert_int_equal(n, 2);
    assert_string_equal(names[0], "forward");
    free(names);
    ranks_free_jobs(jobs, 1);
}

TEST(a_world_size_that_is_none_makes_nobody_missing, none)
{
    size_t n;
    file(0, INT64_C(4000000000), 0, 0, 10, 90);
    struct rank_job *jobs = jobs_of(1);
    assert_null(ranks_missing(&jobs[0], &n));
    assert_int_equal(n, 0);
    ranks_free_jobs(jobs, 1);
}

TEST(a_gpu_that_several_files_used_is_whose_reserved_most, none)
{
    size_t n;
    file(0, 4, 0, 0, 10, 90);
    file(1, 4, 0, 0, 10, 90); /* its context on rank 0's GPU */
    file(2, 4, 0, 2, 10, 90);
    file(3, 4, 1, 0, 10, 90); /* another host's */
    devices[1].reserved = 0;
    devices[1].allocated = 0;
    devices[1].residual = 500;
    devices[0].residual = 600;
    struct rank_job *jobs = jobs_of(1);
    struct rank_gpu *gpus = ranks_shared_gpus(&jobs[0], &n);
    assert_int_equal(n, 1);
    assert_ptr_equal(gpus[0].owner, &files[0]);
    assert_int_equal(gpus[0].other_count, 1);
    assert_ptr_equal(gpus[0].others[0], &files[1]);
    assert_true(gpus[0].own == 2600 && gpus[0].foreign == 500 && gpus[0].foreign_allocated == 0 &&
                !gpus[0].at_least);
    ranks_free_gpus(gpus, n);
    /* the driver's figure is everybody's: theirs is not known */
    devices[1].whole_device = true;
    gpus = ranks_shared_gpus(&jobs[0], &n);
    assert_true(n == 1 && gpus[0].foreign == 0 && gpus[0].at_least);
    ranks_free_gpus(gpus, n);
    ranks_free_jobs(jobs, 1);
}

TEST(a_context_on_the_gpu_of_another_is_nobodys_least, none)
{
    static struct rank_device both[2];
    for (int r = 0; r < 2; r++)
        file(r, 2, 0, r, 10, 90);
    both[0] = devices[0]; /* rank 1's context on the GPU of rank 0 */
    both[0].allocated = 512;
    both[0].reserved = 512;
    both[1] = devices[1];
    files[1].devices = both;
    files[1].device_count = 2;
    struct rank_job *jobs = jobs_of(1);
    struct rank_span a = ranks_span(&jobs[0], FIGURE_ALLOCATED),
                     f = ranks_phase_span(&jobs[0], "forward", PHASE_ALLOCATED);
    assert_true(a.n == 2 && a.least == 1000 && a.least_file == &files[0] && a.most == 1001 && f.n == 2);
    ranks_free_jobs(jobs, 1);
    both[0].reserved =
        2001; /* it holds more there than the other: then it is that GPU's owner, and nothing lies aside */
    both[1].reserved = 4000;
    jobs = jobs_of(1);
    a = ranks_span(&jobs[0], FIGURE_ALLOCATED);
    assert_true(a.n == 3 && a.least == 512);
    ranks_free_jobs(jobs, 1);
}

TEST(ranks_that_share_their_only_gpu_all_count, none)
{
    for (int r = 0; r < 2; r++)
        file(r, 2, 0, 0, 10, 90);
    devices[1].reserved = 1;
    struct rank_job *jobs = jobs_of(1);
    assert_int_equal(ranks_span(&jobs[0], FIGURE_ALLOCATED).n, 2);
    ranks_free_jobs(jobs, 1);
}
