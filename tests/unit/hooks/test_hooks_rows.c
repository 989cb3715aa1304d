/*
 * Every row of driver.def, over the simulated driver: whichever form of cuGetProcAddress is asked, what comes
 * back of a hooked function is a wrapper of ours, and for a row's own version and kind of stream the row's
 * own.
 */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <dlfcn.h>
#include <stdlib.h>

#include "unit/test.h"

enum { ANY, LEGACY, PTSZ };
static const struct {
    const char *symbol, *base;
    int version, stream;
} rows[] = {
#define VS_API(number, symbol, base, version, stream, ...) {#symbol, #base, version, stream},
#include "trace/driver.def"
#undef VS_API
};
enum { ROWS = sizeof rows / sizeof *rows };

typedef CUresult get_v1(const char *, void **, int, cuuint64_t);
typedef CUresult get_v2(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
static void *ours, *driver;
static get_v1 *v1;
static get_v2 *v2;

static int setup(void **state)
{
    ours = dlopen(getenv("LD_PRELOAD"), RTLD_LAZY | RTLD_NOLOAD);
    driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    v1 = (get_v1 *)dlsym(driver, "cuGetProcAddress");
    v2 = (get_v2 *)dlsym(driver, "cuGetProcAddress_v2");
    return ours == NULL || v1 == NULL || v2 == NULL;
}

/* both forms must agree */
static void *get(const char *base, int version, cuuint64_t flags)
{
    void *first = NULL, *second = NULL;
    v1(base, &first, version, flags);
    v2(base, &second, version, flags, NULL);
    assert_ptr_equal(first, second);
    return first;
}

static int is_ours(const void *p)
{
    Dl_info info, self;
    return dladdr(p, &info) && dladdr(dlsym(ours, "vramscope_test_log"), &self) &&
           info.dli_fbase == self.dli_fbase;
}

TEST(rows_own_version_gives_its_wrapper)
{
    int there = 0;
    for (int i = 0; i < ROWS; i++) {
        void *p = get(rows[i].base, rows[i].version, (cuuint64_t)rows[i].stream);
        void *by_name = dlsym(driver, rows[i].symbol);
        if (by_name == NULL) /* the simulated driver has not all of them */
            continue;
        there++;
        if (p != dlsym(ours, rows[i].symbol) || by_name != p)
            fail_msg("%s: not its own wrapper", rows[i].symbol);
    }
    assert_true(there > 30);
}

/* What a version gives changes at a row's alone. */
static bool near_a_row(int version)
{
    for (int i = 0; i < ROWS; i++)
        if (abs(rows[i].version - version) <= 10)
            return true;
    return false;
}

TEST(no_version_and_no_flag_gives_the_drivers_own)
{
    for (int version = 2000; version <= 13000; version += 10) {
        if (version % 500 != 0 && !near_a_row(version))
            continue;
        for (int i = 0; i < ROWS; i++)
            for (cuuint64_t flags = 0; flags <= 2; flags++) {
                void *p = get(rows[i].base, version, flags);
                if (p != NULL && !is_ours(p))
                    fail_msg("%s, version %d, flags %d: not ours", rows[i].base, version, (int)flags);
            }
    }
}

int main(void)
{
    return run_all_tests(setup, NULL);
}
