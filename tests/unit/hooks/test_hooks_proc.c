/* What cuGetProcAddress answers with the hooks preloaded; with HOOKS_OLD_DRIVER set, over one that lacks _v2.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <dlfcn.h>
#include <errno.h>

#include "unit/test.h"
#include "record_double.h"

typedef CUresult get_v1(const char *, void **, int, cuuint64_t);
typedef CUresult get_v2(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
static void *ours, *driver;
static get_v1 *v1;
static get_v2 *v2; /* NULL: an old driver */

static int setup(void **state)
{
    ours = dlopen(getenv("LD_PRELOAD"), RTLD_LAZY | RTLD_NOLOAD);
    driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    v1 = (get_v1 *)dlsym(driver, "cuGetProcAddress");
    v2 = (get_v2 *)dlsym(driver, "cuGetProcAddress_v2");
    return ours == NULL || driver == NULL;
}

static void *wrapper(const char *name)
{
    return dlsym(ours, name);
}

/* by whichever form there is */
static void *get(const char *base, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    void *p = NULL, *q = NULL;
    CUresult status = v1(base, &p, version, flags);
    assert_int_equal(errno, 78); /* the driver's */
    assert_int_equal(status, p != NULL ? 0 : CUDA_ERROR_NOT_FOUND);
    if (v2 != NULL) {
        assert_int_equal(v2(base, &q, version, flags, NULL), status);
        assert_ptr_equal(p, q);
        assert_int_equal(v2(base, &q, version, flags, &found), status);
        assert_int_equal(found, p ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    }
    return p;
}

TEST(old_driver_lacks_the_second_form)
{
    assert_non_null(v1);
    assert_int_equal(v2 == NULL, getenv("HOOKS_OLD_DRIVER") != NULL);
    get_v2 *exported = (get_v2 *)wrapper("cuGetProcAddress_v2");
    void *p;
    if (v2 == NULL)
        assert_int_equal(exported("cuInit", &p, 12000, 0, NULL), CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND);
}

TEST(each_version_gives_its_own_row)
{
    assert_ptr_equal(get("cuMemAlloc", 2000, 0), wrapper("cuMemAlloc"));
    assert_ptr_equal(get("cuMemAlloc", 3010, 0), wrapper("cuMemAlloc"));
    assert_ptr_equal(get("cuMemAlloc", 3020, 0), wrapper("cuMemAlloc_v2"));
    assert_ptr_equal(get("cuMemAlloc", 13000, 0), wrapper("cuMemAlloc_v2"));
    assert_ptr_equal(get("cuMemHostRegister", 4000, 0), wrapper("cuMemHostRegister"));
    assert_ptr_equal(get("cuMemHostRegister", 6050, 0), wrapper("cuMemHostRegister_v2"));
}

TEST(stream_flag_gives_its_own_row)
{
    if (v2 == NULL)
        skip();
    assert_ptr_equal(get("cuMemAllocAsync", 11020, 0), wrapper("cuMemAllocAsync"));
    assert_ptr_equal(get("cuMemAllocAsync", 11020, 1), wrapper("cuMemAllocAsync"));
    assert_ptr_equal(get("cuMemAllocAsync", 11020, 2), wrapper("cuMemAllocAsync_ptsz"));
    assert_ptr_equal(get("cuMemAlloc", 12000, 2), wrapper("cuMemAlloc_v2"));
}

TEST(function_at_another_address_is_known)
{
    assert_ptr_equal(get("cuMemFree", 12000, 0), wrapper("cuMemFree_v2"));
}

/* A driver of before the second form answers with the first one, whatever version is asked for: to call it
 * by the second's wrapper would be to call it with other arguments. */
TEST(older_form_is_not_taken_for_a_newer_one)
{
    assert_ptr_equal(get("cuMulticastBindMem", 12010, 0), wrapper("cuMulticastBindMem"));
    assert_ptr_equal(get("cuMulticastBindMem", 13020, 0), wrapper("cuMulticastBindMem"));
}

TEST(unknown_pointers_pass_untouched)
{
    assert_ptr_equal(get("cuUnhooked", 12000, 0), dlsym(driver, "fake_unhooked"));
    assert_ptr_equal(get("cuMemAlloc", 99000, 0), dlsym(driver, "fake_newer_alloc"));
    assert_null(get("cuNoSuch", 12000, 0));
    assert_null(get("", 12000, 0));
    assert_null(get("cuMemAlloc", 1000, 0));
}

TEST(functions_newer_than_ours_are_told)
{
    struct vramscope_test_log *(*get_log)(void) =
        (struct vramscope_test_log * (*)(void)) wrapper("vramscope_test_log");
    if (get_log == NULL) /* under the real library */
        skip();
    struct vramscope_test_log *log = get_log();
    CUresult (*alloc)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))dlsym(driver, "cuMemAlloc_v2");
    CUdeviceptr p;
    assert_int_equal(alloc(&p, 8), CUDA_SUCCESS); /* a recording begins */
    get("cuMemAlloc", 99000, 0);
    assert_non_null(strstr(log->fact, "not covered: a form of cuMemAlloc (asked for as of CUDA 99.0)"));
    assert_non_null(dlsym(driver, "cuMemFree_v7"));
    assert_non_null(strstr(log->fact, "not covered: cuMemFree_v7, which"));
    assert_non_null(dlsym(driver, "cuFooAlloc")); /* by its name it may be memory */
    assert_non_null(strstr(log->fact, "not covered: cuFooAlloc, which"));
    log->fact[0] = 0;
    assert_non_null(get("cuMemcpyDtoH", 2000, 0)); /* the first form, which is looked at */
    assert_non_null(dlsym(driver, "cuMemcpyDtoH"));
    assert_null(strstr(log->fact, "cuMemcpyDtoH"));
    get("cuUnhooked", 12000, 0);
    assert_null(dlsym(driver, "cuMemFree_v8")); /* there is none */
    assert_non_null(dlsym(driver, "fake_unhooked"));
    assert_null(strstr(log->fact, "nhooked"));
    assert_null(strstr(log->fact, "_v8"));
}

TEST(it_can_be_asked_for_itself)
{
    assert_ptr_equal(get("cuGetProcAddress", 11030, 0), wrapper("cuGetProcAddress"));
    if (v2 != NULL)
        assert_ptr_equal(get("cuGetProcAddress", 12000, 0), wrapper("cuGetProcAddress_v2"));
    assert_ptr_equal(v1, wrapper("cuGetProcAddress"));
}

TEST(null_arguments_are_the_drivers_business)
{
    void *p;
    assert_int_equal(v1(NULL, &p, 12000, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(v1("cuMemAlloc", NULL, 12000, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(v1("cuMemAlloc", &p, 12000, 9), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
    return run_all_tests(setup, NULL);
}
