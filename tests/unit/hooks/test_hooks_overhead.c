/* Calls that allocate nothing and take memory: the driver's figure before and after, and only where it means
 * them. */
#include "hooks_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static CUdeviceptr other;

static void takes_two_mib(void)
{
    record_log->used += 2 * MIB;
}
static void gives_one_mib_back(void)
{
    record_log->used -= MIB;
}
static void another_thread_records(uint8_t op, uint8_t space)
{
    takes_two_mib();
    record_log->events[record_log->count++] = (struct vs_event){.op = op, .space = space};
}
static void another_allocates(void)
{
    another_thread_records(VS_OP_ALLOC, VS_SPACE_DEVICE);
}
static void another_samples(void)
{
    another_thread_records(VS_OP_SAMPLE, VS_SPACE_NONE);
}
static void another_pins(void)
{
    another_thread_records(VS_OP_ALLOC, VS_SPACE_PINNED);
}

static CUresult launch(uintptr_t kernel)
{
    return cuLaunchKernel((CUfunction)kernel, 1, 2, 3, 4, 5, 6, 7, (CUstream)8, (void **)9, (void **)10);
}

static int fresh(void **state)
{
    reset();
    cuMemAlloc_v2(&other, 1); /* the recording is on */
    fake.next_address = 0;
    record_log->count = record_log->used_asked = 0;
    return 0;
}

TEST(first_launch_of_a_kernel_is_measured, fresh)
{
    fake.during = takes_two_mib;
    assert_int_equal(launch(0x1110), 0);
    assert_int_equal(errno, 77);
    assert_int_equal(record_log->count, 1);
    const struct vs_event *e = event(0);
    SAYS(e, .op = VS_OP_OVERHEAD, .address = 0x1110, .size = 2 * MIB, .arg0 = VS_OVERHEAD_CODE,
         .arg1 = VS_API_cuLaunchKernel, .device = 0);
}

TEST(later_launches_ask_nobody_and_all_arguments_arrive, fresh)
{
    uintptr_t sum = 0;
    for (uintptr_t i = 1; i <= 10; i++)
        sum += i * i;
    launch(0x2220);
    assert_int_equal(fake.next_address, sum);
    int asked = record_log->used_asked;
    assert_int_equal(asked, 2);
    fake.next_address = 0;
    for (int i = 0; i < 5; i++)
        launch(0x2220);
    assert_int_equal(fake.next_address, sum);
    SAYS(record_log, .used_asked = asked, .count = 0);
}

TEST(launch_that_takes_nothing_is_no_event, fresh)
{
    launch(0x3330);
    SAYS(record_log, .used_asked = 2, .count = 0);
}

TEST(what_others_allocate_meanwhile_makes_it_unknown, fresh)
{
    fake.during = another_allocates;
    launch(0x4440);
    assert_int_equal(record_log->count, 1); /* the other's */
}

/* Another thread inside cuMemAlloc: its bytes are taken and not recorded yet. */
static atomic_int stage;

static void takes_and_stays(void)
{
    record_log->used += 32 * MIB;
    stage = 1;
    while (stage != 2)
        usleep(100);
}

static void *allocates(void *unused)
{
    CUdeviceptr p;
    fake_set_context(0x10000);
    fake.during = takes_and_stays;
    cuMemAlloc_v2(&p, 32 * MIB);
    return NULL;
}

static pthread_t allocating;

static void another_thread_is_inside(void)
{
    stage = 0;
    assert_int_equal(pthread_create(&allocating, NULL, allocates, NULL), 0);
    while (stage != 1)
        usleep(100);
}

static void another_thread_comes_and_stays(void)
{
    takes_two_mib();
    another_thread_is_inside();
}

static void leave_it(void)
{
    stage = 2;
    pthread_join(allocating, NULL);
}

TEST(what_others_took_and_did_not_record_yet_makes_it_unknown, fresh)
{
    fake.during = another_thread_comes_and_stays;
    launch(0x4450);
    assert_int_equal(record_log->count, 0);
    leave_it();
    assert_int_equal(record_log->count, 1); /* its own */
}

TEST(call_that_others_began_before_makes_it_unknown, fresh)
{
    another_thread_is_inside();
    fake.during = takes_two_mib;
    launch(0x4460);
    assert_int_equal(record_log->count, 0);
    leave_it();
    fake.during = takes_two_mib;
    launch(0x4470); /* and nothing stays behind */
    assert_int_equal(record_log->count, 2);
}

static void *pins(void *unused)
{
    void *p;
    fake_set_context(0x10000);
    fake.during = takes_and_stays;
    cuMemHostAlloc(&p, 32 * MIB, 0);
    return NULL;
}

TEST(call_of_others_that_moves_nothing_does_not, fresh)
{
    stage = 0;
    assert_int_equal(pthread_create(&allocating, NULL, pins, NULL), 0);
    while (stage != 1)
        usleep(100);
    fake.during = takes_two_mib;
    launch(0x44b0);
    assert_int_equal(record_log->count, 1);
    assert_int_equal(event(0)->size, 2 * MIB);
    leave_it();
}

TEST(call_that_was_left_by_longjmp_is_not_in_flight_for_ever, fresh)
{
    jmp_buf leave;
    if (setjmp(leave) == 0) {
        fake.leave = &leave;
        cuMemAlloc_v2(&other, 1);
    }
    cuMemAlloc_v2(&other, 1);
    int before = record_log->count;
    fake.during = takes_two_mib;
    launch(0x4480);
    assert_int_equal(record_log->count, before + 1);
}

TEST(what_others_do_that_moves_nothing_does_not, fresh)
{
    fake.during = another_samples;
    launch(0x4490);
    assert_int_equal(record_log->count, 2);
    fake.during = another_pins;
    launch(0x44a0);
    assert_int_equal(record_log->count, 4);
    assert_int_equal(event(3)->size, 2 * MIB);
}

TEST(unknown_figure_is_no_event, fresh)
{
    record_log->used_hidden = true;
    fake.during = takes_two_mib;
    launch(0x5550);
    assert_int_equal(record_log->count, 0);
}

TEST(failed_call_is_no_event, fresh)
{
    fake.during = takes_two_mib;
    fake.fail_next = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    assert_int_equal(launch(0x6660), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    assert_int_equal(record_log->count, 0);
}

TEST(figure_that_fell_is_a_negative_number, fresh)
{
    record_log->used = 10 * MIB;
    fake.during = gives_one_mib_back;
    launch(0x7770);
    assert_int_equal((int64_t)event(0)->size, -(int64_t)MIB);
}

TEST(stream_is_measured_under_its_handle, fresh)
{
    CUstream stream;
    fake.during = takes_two_mib;
    assert_int_equal(cuStreamCreate(&stream, 0), 0);
    assert_int_equal(record_log->count, 1);
    SAYS(event(0), .arg0 = VS_OVERHEAD_STREAM, .address = 0x5500);
}

TEST(attribute_of_a_kernel_is_measured_once_and_its_launch_too, fresh)
{
    cuFuncSetAttribute((CUfunction)0x8880, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1);
    assert_int_equal(record_log->used_asked, 2);
    cuFuncSetAttribute((CUfunction)0x8880, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 2);
    assert_int_equal(record_log->used_asked, 2);
    launch(0x8880);
    assert_int_equal(record_log->used_asked, 4);
}

/* ---- what repeats is not asked again ---- */

static CUfunction function_of(CUmodule module, const char *name)
{
    CUfunction f = NULL;
    assert_int_equal(cuModuleGetFunction(&f, module, name), 0);
    return f;
}

static CUfunction function_of_kernel(uintptr_t kernel)
{
    CUfunction f = NULL;
    assert_int_equal(cuKernelGetFunction(&f, (CUkernel)kernel), 0);
    assert_int_equal((uintptr_t)f, kernel + 8);
    return f;
}

/* As cudart does at each cudaFuncSetAttribute of an attention: forward and backward, in every step. */
TEST(function_of_a_kernel_is_asked_about_once_in_each_context, fresh)
{
    for (int step = 0; step < 420; step++) {
        function_of_kernel(0xa1000);
        function_of_kernel(0xa2000);
    }
    assert_int_equal(record_log->used_asked, 2 * 2);
    fake_set_context(0x20000);
    for (int step = 0; step < 420; step++)
        function_of_kernel(0xa1000);
    assert_int_equal(record_log->used_asked, 3 * 2);
}

TEST(each_function_and_global_of_a_module_is_measured_once, fresh)
{
    CUdeviceptr address;
    size_t bytes;
    CUmodule module = (CUmodule)0xb0000;
    for (int i = 0; i < 3; i++) {
        function_of(module, "10");
        function_of(module, "20, and a name that is longer than a word, as those of templates are");
        function_of(module, "20, and a name that is longer than a word, as those of templates arf");
        cuModuleGetGlobal_v2(&address, &bytes, module, "10");
        function_of((CUmodule)0xb8000, "10");
    }
    assert_int_equal(record_log->used_asked, 5 * 2);
    fake.during = takes_two_mib;
    cuModuleGetGlobal_v2(&address, &bytes, module, "30");
    assert_int_equal(record_log->count, 1);
    SAYS(event(0), .address = (uintptr_t)module, .size = 2 * MIB);
}

static int asked_by_launch(CUfunction f)
{
    int before = record_log->used_asked;
    launch((uintptr_t)f);
    return record_log->used_asked - before;
}

TEST(what_an_unload_took_away_is_measured_again_and_nothing_else, fresh)
{
    CUmodule gone = (CUmodule)0xc0000, stays = (CUmodule)0xc8000;
    CUkernel kernel;
    cuLibraryGetKernel(&kernel, (CUlibrary)0xd0000, "100");
    CUfunction f = function_of(gone, "10"), kept = function_of(stays, "10"),
               of_kernel = function_of_kernel((uintptr_t)kernel);
    launch((uintptr_t)f);
    launch((uintptr_t)kept);
    launch((uintptr_t)of_kernel);
    assert_int_equal(cuModuleUnload(gone), 0);
    record_log->used_asked = 0;
    assert_true(function_of(stays, "10") == kept);
    assert_int_equal(asked_by_launch(kept) + asked_by_launch(of_kernel), 0);
    assert_int_equal(record_log->used_asked, 0);
    assert_true(function_of(gone, "10") == f);
    assert_int_equal(asked_by_launch(f), 2);
    assert_int_equal(record_log->used_asked, 4);
    assert_int_equal(cuLibraryUnload((CUlibrary)0xd0000), 0);
    assert_int_equal(asked_by_launch(kept) + asked_by_launch(f), 0);
    assert_int_equal(asked_by_launch(of_kernel), 2);
}

/* A program that loads a module, uses it and unloads it, for ever: the table does not fill. */
TEST(modules_that_come_and_go_leave_room_for_all, fresh)
{
    for (uintptr_t i = 0; i < 100; i++) {
        CUmodule module = (CUmodule)(0x4000000 + i * 0x100000);
        char name[8];
        for (unsigned k = 1; k <= 1000; k++) {
            snprintf(name, sizeof name, "%x", k << 4);
            CUfunction f = function_of(module, name);
            record_log->count = 0; /* the log keeps the last events only */
            assert_int_equal(asked_by_launch(f), 2);
        }
        cuModuleUnload(module);
    }
}

TEST(kernel_of_nobody_knows_whom_is_measured_again_after_any_unload, fresh)
{
    launch(0xe0000);
    assert_int_equal(asked_by_launch((CUfunction)0xe0000), 0);
    cuModuleUnload((CUmodule)0xe8000);
    assert_int_equal(asked_by_launch((CUfunction)0xe0000), 2);
}

TEST(launch_in_another_context_is_measured_there, fresh)
{
    launch(0xf0000);
    fake_set_context(0x30000);
    assert_int_equal(asked_by_launch((CUfunction)0xf0000), 2);
    assert_int_equal(asked_by_launch((CUfunction)0xf0000), 0);
    fake_set_context(0x10000);
    assert_int_equal(asked_by_launch((CUfunction)0xf0000), 0);
}

TEST(stream_is_measured_where_more_live_than_ever, fresh)
{
    CUstream stream;
    cuStreamCreate(&stream, 0);
    record_log->used_asked = 0;
    for (int i = 0; i < 100; i++) {
        cuStreamDestroy_v2(stream);
        cuStreamCreate(&stream, 0);
    }
    assert_int_equal(record_log->used_asked, 0);
    cuStreamCreate(&stream, 0);
    assert_int_equal(record_log->used_asked, 2);
}

TEST(call_that_had_no_memory_is_measured_when_it_is_tried_again, fresh)
{
    fake.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(launch(0x6700), CUDA_ERROR_OUT_OF_MEMORY);
    fake.during = takes_two_mib;
    assert_int_equal(launch(0x6700), 0);
    assert_int_equal(record_log->count, 1);
    for (int i = 0; i < 2; i++) {
        fake.fail_next = CUDA_ERROR_INVALID_VALUE;
        cuFuncSetAttribute((CUfunction)0x6800, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 30);
    }
    assert_int_equal(record_log->used_asked, 1 + 2 + 1); /* a call that failed is not asked about after it */
}

/* ---- how it is asked ---- */

static void takes_two_mib_of_the_device(void)
{
    fake.taken += 2 * MIB;
}

TEST(process_that_is_alone_asks_the_driver_and_not_nvml, fresh)
{
    record_log->alone = true;
    record_log->asked_ns = 0;
    fake.during = takes_two_mib_of_the_device;
    errno = 5;
    assert_int_equal(launch(0x7100), 0);
    assert_int_equal(errno, 77);
    assert_int_equal(record_log->used_asked, 0);
    assert_int_equal(fake.info_queries, 2);
    assert_true(record_log->asked_ns > 0); /* it counts as asking */
    assert_int_equal(record_log->count, 1);
    assert_int_equal(event(0)->size, 2 * MIB);
    launch(0x7200); /* takes nothing */
    assert_int_equal(fake.info_queries, 4);
    assert_int_equal(record_log->count, 1);
}

TEST(context_is_measured_by_nvml_also_where_the_process_is_alone, fresh)
{
    CUcontext context;
    record_log->alone = true;
    fake.during = takes_two_mib;
    cuCtxCreate_v2(&context, 0, 0);
    assert_int_equal(record_log->used_asked, 2);
    assert_int_equal(event(0)->size, 2 * MIB);
}

TEST(what_is_not_measured_any_more_is_told_once_of_each, fresh)
{
    record_log->spent = record_log->alone = true;
    fake.during = takes_two_mib_of_the_device;
    for (int i = 0; i < 5; i++)
        launch(0x7300);
    assert_int_equal(record_log->count, 1);
    SAYS(event(0), .op = VS_OP_OVERHEAD, .size = VS_BYTES_UNKNOWN, .device = 0);
    assert_int_equal(record_log->used_asked + fake.info_queries, 0);
}

TEST(disabled_recording_measures_nothing_and_launches, fresh)
{
    record_log->disabled = true;
    assert_int_equal(launch(0x9990), 0);
    assert_int_equal(record_log->used_asked, 0);
}

TEST(table_that_is_full_lets_launches_through_and_says_so, fresh)
{
    int before = record_log->count;
    for (uintptr_t kernel = 0x10000000; kernel < 0x10000000 + 80000 * 16; kernel += 16)
        assert_int_equal(launch(kernel), 0);
    int asked = record_log->used_asked;
    assert_true(asked > 2 * 20000);
    assert_true(asked <= 2 * 32768);
    for (uintptr_t kernel = 0x10000000; kernel < 0x10000000 + 80000 * 16; kernel += 16)
        assert_int_equal(launch(kernel), 0);
    SAYS(record_log, .used_asked = asked /* for ever */,
         .count = before + 1 /* what found no place, told once */);
    assert_int_equal(event(before)->size, VS_BYTES_UNKNOWN);
}
