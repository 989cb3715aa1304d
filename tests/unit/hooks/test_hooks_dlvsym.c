/* What dlvsym answers with the hooks preloaded, over a driver whose functions have versions and one whose
 * have none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>

#include "unit/test.h"

static void *ours, *driver;
static const char *version; /* NULL: this driver's functions have none */

static int open_both(void **state)
{
    ours = dlopen(getenv("LD_PRELOAD"), RTLD_LAZY | RTLD_NOLOAD);
    driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    version = getenv("HOOKS_VERSION");
    return ours == NULL || driver == NULL;
}

static void expect(void *handle, const char *wanted_version)
{
    void *p = dlvsym(handle, "cuMemAlloc_v2", wanted_version);
    bool there = version != NULL && strcmp(version, wanted_version) == 0;
    assert_ptr_equal(p, there ? dlsym(ours, "cuMemAlloc_v2") : NULL);
    if (!there)
        assert_non_null(strstr(dlerror(), "cuMemAlloc_v2"));
    else
        assert_null(dlerror());
}

TEST(handle_finds_the_version_that_there_is)
{
    dlerror();
    expect(driver, "FAKE_1");
    expect(driver, "FAKE_2");
}

TEST(private_driver_is_not_in_the_global_scope)
{
    assert_null(dlvsym(RTLD_DEFAULT, "cuMemAlloc_v2", "FAKE_1"));
    assert_null(dlvsym(RTLD_NEXT, "cuMemAlloc_v2", "FAKE_1"));
    assert_non_null(dlerror());
}

TEST(global_driver_is_found_by_everyone)
{
    assert_non_null(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL));
    expect(RTLD_DEFAULT, "FAKE_1");
    expect(RTLD_NEXT, "FAKE_1");
    expect(RTLD_DEFAULT, "FAKE_2");
}

TEST(other_names_pass)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    static const char *const versions[] = {"GLIBC_2.2.5", "GLIBC_2.17"};
    const char *base = dlvsym(libc, "malloc", versions[0]) != NULL ? versions[0] : versions[1];
    assert_ptr_equal(dlvsym(RTLD_DEFAULT, "memcmp", base), dlvsym(libc, "memcmp", base));
    assert_ptr_equal(dlvsym(RTLD_NEXT, "malloc", base), dlvsym(libc, "malloc", base));
    assert_non_null(dlvsym(libc, "dlvsym", base));
    assert_null(dlvsym(libc, "malloc", "GLIBC_9.9"));
    assert_non_null(dlerror());
    errno = 5;
    assert_null(dlvsym(driver, "cuNoSuch", "FAKE_1"));
    dlvsym(driver, "cuInit", "FAKE_1");
    assert_int_equal(errno, 5);
}

int main(void)
{
    return run_all_tests(open_both, NULL);
}
