/* Whatever stands in the driver's place: it is asked first, and the hooks record what it gave and what it
 * holds. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <dlfcn.h>
#include <errno.h>

#include "unit/says.h"
#include "fake_driver.h"
#include "fake_provider.h"
#include "record_double.h"

static struct vramscope_test_log *record_log;
static struct fake_provider *provider;
static uint64_t changes; /* the hooks remember what they have recorded, from test to test */
static CUcontext const context0 = (CUcontext)0x10000;

static int fresh(void **state)
{
    record_log = ((struct vramscope_test_log * (*)(void)) dlsym(RTLD_DEFAULT, "vramscope_test_log"))();
    provider = ((struct fake_provider * (*)(void)) dlsym(RTLD_DEFAULT, "vramscope_test_provider"))();
    record_log->count = 0;
    record_log->disabled = false;
    memset(&fake, 0, sizeof fake);
    fake.next_address = 0x70000000;
    fake_set_context((uintptr_t)context0);
    changes++;
    *provider = (struct fake_provider){
        .serves = true,
        .address = 0x5000,
        .held = {.change = changes, .reserved = 4096, .idle = 1024, .deferred = 512},
        .given = {.space = VS_SPACE_ARENA, .context = context0, .device = 0, .change = changes}};
    return 0;
}

static const struct vs_event *event(int at, enum vs_op op)
{
    assert_true(at < record_log->count);
    assert_int_equal(record_log->events[at].op, op);
    return &record_log->events[at];
}

TEST(what_is_held_is_recorded_before_the_block_and_once, fresh)
{
    CUdeviceptr p = 0;
    assert_int_equal(cuMemAlloc_v2(&p, 100), CUDA_SUCCESS);
    assert_int_equal(p, 0x5000);
    const struct vs_event *held = event(0, VS_OP_ARENA_RESERVED), *block = event(1, VS_OP_ALLOC);
    SAYS(held, .size = 4096, .arg0 = 1024, .arg1 = 512, .device = 0);
    SAYS(block, .address = 0x5000, .size = 100, .space = VS_SPACE_ARENA, .device = 0);
    assert_int_equal(fake.calls, 0); /* the driver was not asked */
    assert_int_equal(cuMemAllocAsync(&p, 200, NULL), CUDA_SUCCESS);
    assert_int_equal(record_log->count, 3); /* nothing has changed */
    assert_int_equal(event(2, VS_OP_ALLOC)->space, VS_SPACE_ARENA);
}

TEST(where_it_does_not_serve_the_driver_does, fresh)
{
    CUdeviceptr p = 0;
    provider->serves = false;
    provider->given.device = -1;
    assert_int_equal(cuMemAlloc_v2(&p, 100), CUDA_SUCCESS);
    assert_int_equal(provider->allocs, 1);
    assert_int_equal(p, 0x70001000);
    assert_int_equal(record_log->count, 1);
    assert_int_equal(event(0, VS_OP_ALLOC)->space, VS_SPACE_DEVICE);
    assert_int_equal(cuMemFree_v2(p), CUDA_SUCCESS);
    assert_int_equal(provider->frees, 1);
    assert_string_equal(fake.last, "cuMemFree_v2");
}

TEST(rows_have_the_pitch_that_it_chose, fresh)
{
    CUdeviceptr p = 0;
    size_t pitch = 0;
    assert_int_equal(cuMemAllocPitch_v2(&p, &pitch, 100, 3, 4), CUDA_SUCCESS);
    assert_int_equal(pitch, 512);
    assert_int_equal(event(1, VS_OP_ALLOC)->size, 3 * 512);
}

TEST(a_free_has_its_status_and_one_that_failed_is_taken_back, fresh)
{
    assert_int_equal(cuMemFree_v2(0x5000), CUDA_SUCCESS);
    event(0, VS_OP_FREE);
    event(1, VS_OP_ARENA_RESERVED); /* after the free: it may hold less */
    provider->status = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(cuMemFreeAsync(0x5000, NULL), CUDA_ERROR_INVALID_VALUE);
    event(2, VS_OP_FREE);
    assert_int_equal(event(3, VS_OP_FREE_FAILED)->status, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(fake.calls, 0);
}

TEST(a_call_that_the_driver_has_no_memory_for_is_made_once_more, fresh)
{
    CUdeviceptr p = 0;
    provider->serves = false;
    provider->gives_back = true;
    fake.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(cuMemAllocManaged(&p, 100, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    assert_int_equal(provider->shortages, 1);
    assert_int_equal(fake.calls, 2);
    assert_int_equal(event(record_log->count - 1, VS_OP_ALLOC)->status, CUDA_SUCCESS);
    fake.fail_next = CUDA_ERROR_OUT_OF_MEMORY; /* it has nothing more to give */
    assert_int_equal(cuMemAllocManaged(&p, 100, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(provider->shortages, 2);
    assert_int_equal(fake.calls, 3);
}

TEST(the_last_figures_of_what_ended_come_before_what_is_held_then, fresh)
{
    CUdeviceptr p = 0;
    provider->has_ended = true;
    provider->last[VS_FIGURE_MALLOCS] = 77;
    assert_int_equal(cuMemAlloc_v2(&p, 100), CUDA_SUCCESS);
    for (int part = 0; part < VS_FIGURE_PARTS; part++)
        assert_int_equal(event(part, VS_OP_ARENA_FIGURES)->stack, part);
    event(VS_FIGURE_PARTS, VS_OP_ARENA_RESERVED);
    event(VS_FIGURE_PARTS + 1, VS_OP_ALLOC);
    assert_false(provider->has_ended);
}

TEST(what_was_not_recorded_is_told_once_something_is, fresh)
{
    CUdeviceptr p = 0;
    record_log->disabled = true;
    assert_int_equal(cuMemAlloc_v2(&p, 100), CUDA_SUCCESS);
    assert_int_equal(record_log->count, 0);
    record_log->disabled = false;
    assert_int_equal(cuMemAlloc_v2(&p, 100), CUDA_SUCCESS);
    event(0, VS_OP_ARENA_RESERVED);
    event(1, VS_OP_ALLOC);
}

TEST(what_went_away_is_recorded_though_the_program_asked_for_nothing, fresh)
{
    void (*changed)(int device) = (void (*)(int))dlsym(RTLD_DEFAULT, "vramscope_test_changed");
    CUdeviceptr p = 0;
    assert_int_equal(cuMemAlloc_v2(&p, 100), CUDA_SUCCESS);
    record_log->count = 0;
    provider->held = (struct vs_holding){.change = ++changes, .reserved = 1024, .away = 3072};
    errno = 77;
    changed(0);
    assert_int_equal(errno, 77);
    SAYS(event(0, VS_OP_ARENA_RESERVED), .size = 1024, .address = 3072, .device = 0);
    changed(0); /* nothing has changed since */
    assert_int_equal(record_log->count, 1);
    provider->held.change = ++changes;
    record_log->disabled = true;
    changed(0);
    record_log->disabled = false;
    assert_int_equal(record_log->count, 1);
    changed(-1);
    changed(1000);
    assert_int_equal(record_log->count, 1);
}

TEST(a_stand_in_is_called_for_the_function_and_reaches_the_drivers_own, fresh)
{
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(provider->stood_in, 1);
    assert_string_equal(fake.last, "cuInit");
}
