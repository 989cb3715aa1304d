/* hooks_kit.h - over the fake driver and the double of the recording API: what a test begins with, and the
 * events. */
#ifndef TESTS_UNIT_HOOKS_HOOKS_KIT_H
#define TESTS_UNIT_HOOKS_HOOKS_KIT_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <dlfcn.h>
#include <errno.h>

#include "unit/says.h"
#include "fake_driver.h"
#include "record_double.h"
#include "trace/api.h"

static struct vramscope_test_log *record_log;

static inline void reset(void)
{
    record_log = ((struct vramscope_test_log * (*)(void)) dlsym(RTLD_DEFAULT, "vramscope_test_log"))();
    record_log->count = 0;
    record_log->disabled = record_log->sample_wanted = record_log->closed = false;
    record_log->used_hidden = record_log->alone = record_log->spent = false;
    memset(&fake, 0, sizeof fake);
    fake.next_address = 0x70000000;
    fake_set_context(0x10000);
}

static inline const struct vs_event *event(int i)
{
    assert_true(i < record_log->count);
    return &record_log->events[i];
}

static inline const struct vs_event *only_event(void)
{
    assert_int_equal(record_log->count, 1);
    return event(0);
}

static inline void expect_ops(const uint8_t *ops, int n)
{
    assert_int_equal(record_log->count, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(event(i)->op, ops[i]);
}
#define EXPECT_OPS(...) expect_ops((const uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}))

#endif
