/*
 * test_away_host.c - how much of the host's memory is locked: of a machine's that is as it is, of one that
 * grows as it is used, and of a control group's.
 *
 * The system's files, the driver and the clock are stand-ins (linked with --wrap).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "arena/away/host.h"
#include "hooks/driver.h"
#include "unit/test.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define GIB  (1ull << 30)
#define KEPT "3/4 of what is left to this process"

static struct {
    uint64_t total, most; /* bytes that the machine has, and may have */
    uint64_t limit;       /* of the control group */
    uint64_t locked, most_locked;
    uint64_t ns;
    bool grows;
    int waits;
} host;

/* ---- the system ---- */

static int holding(const char *format, uint64_t value)
{
    char text[128];
    int n = snprintf(text, sizeof text, format, value), fd = memfd_create("file", MFD_CLOEXEC);
    assert_int_equal(write(fd, text, (size_t)n), n);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    if (strcmp(path, "/proc/meminfo") == 0)
        return holding("MemTotal: 1 kB\nMemAvailable: %lu kB\n", (host.total - host.locked) >> 10);
    if (strcmp(path, "/proc/self/cgroup") == 0)
        return holding("0::/job/%lu\n", 1);
    if (strcmp(path, "/sys/fs/cgroup/job/memory.max") == 0 && host.limit != 0)
        return holding("%lu\n", host.limit);
    if (strcmp(path, "/sys/fs/cgroup/job/memory.current") == 0)
        return holding("%lu\n", host.locked);
    return -1;
}

int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    return host.grows && strcmp(path, "/sys/bus/virtio/drivers/virtio_mem/virtio3") == 0 ? 0 : -1;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    *now = (struct timespec){(time_t)(host.ns / 1000000000), (long)(host.ns % 1000000000)};
    return 0;
}

/* A machine of which more than 7/10 are used gets 8 GiB more within 3 s. */
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    host.waits++;
    host.ns += (uint64_t)time->tv_nsec;
    if (host.waits % 60 == 0 && host.total < host.most && host.locked > host.total / 10 * 7)
        host.total += 8 * GIB;
    return 0;
}

static _Atomic uint64_t made; /* bytes of pages; by several threads */

int __wrap_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice)
{
    made += advice == MADV_POPULATE_WRITE ? bytes : 0;
    return 0;
}

/* ---- the driver ---- */

static CUresult lock(void *at, size_t size, unsigned flags)
{
    host.locked += size;
    host.most_locked = host.locked > host.most_locked ? host.locked : host.most_locked;
    assert_true(host.locked <= host.total / 4 * 3); /* the host never runs out */
    return CUDA_SUCCESS;
}

static CUresult unlock(void *at)
{
    host.locked -= 256ull << 20;
    return CUDA_SUCCESS;
}

void *vs_cuda_real(const char *symbol)
{
    return strcmp(symbol, "cuMemHostRegister_v2") == 0 ? (void *)lock : (void *)unlock;
}

/* ---- */

/* Whether BYTES can be had; then they are given back. */
static bool can_have(uint64_t bytes)
{
    struct vs_host_store store;
    char why[512] = "";
    made = 0;
    const char *failed = vs_host_make(&store, bytes, "", why, sizeof why);
    if (failed == NULL) {
        assert_true(made == bytes || made == 0); /* 0: there is one processor */
        assert_int_equal(host.locked, bytes);
        vs_host_end(&store);
    } else if (strstr(why, KEPT) == NULL) {
        fail_msg("%s", why);
    }
    assert_int_equal(host.locked, 0);
    return failed == NULL;
}

static void begin(uint64_t total, uint64_t most, uint64_t limit)
{
    memset(&host, 0, sizeof host);
    host.total = total;
    host.most = most;
    host.limit = limit;
    host.grows = most > total;
}

TEST(three_quarters_of_a_machine_and_nothing_is_tried_for_more)
{
    begin(32 * GIB, 32 * GIB, 0);
    assert_true(can_have(24 * GIB));
    host.most_locked = 0;
    assert_false(can_have(25 * GIB));
    assert_int_equal(host.most_locked, 0);
    assert_int_equal(host.waits, 0);
}

TEST(a_machine_that_grows_gives_three_quarters_of_what_it_becomes)
{
    begin(32 * GIB, 128 * GIB, 0);
    assert_true(can_have(90 * GIB));
    assert_true(host.waits > 0);
    assert_false(can_have(100 * GIB)); /* 96 of 128 are there */
}

TEST(a_control_groups_limit_holds_whatever_the_machine_becomes)
{
    begin(32 * GIB, 128 * GIB, 40 * GIB);
    assert_true(can_have(30 * GIB));
    assert_false(can_have(31 * GIB));
    begin(128 * GIB, 128 * GIB, 40 * GIB);
    assert_true(can_have(30 * GIB));
    host.most_locked = 0;
    assert_false(can_have(31 * GIB));
    assert_int_equal(host.most_locked, 0);
}

TEST(no_copy_crosses_what_was_locked_at_once)
{
    assert_int_equal(vs_host_together(0, GIB), 256ull << 20);
    assert_int_equal(vs_host_together(255ull << 20, 32ull << 20), 1ull << 20);
    assert_int_equal(vs_host_together(300ull << 20, 32ull << 20), 32ull << 20);
}

TEST(one_that_does_not_grow_any_more_is_waited_for_a_moment)
{
    begin(32 * GIB, 33 * GIB, 0);
    host.most = host.total;
    assert_false(can_have(25 * GIB));
    assert_true(host.ns >= 5000000000ull && host.ns < 6000000000ull);
}
