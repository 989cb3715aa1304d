/*
 * Not linked with a driver, hooks preloaded: what dlsym answers, in the order of a program's life: no driver,
 * a driver in a private scope, a driver for everyone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include "unit/test.h"

typedef void *lookup(const char *name);
static void *ours;   /* the preloaded library */
static void *driver; /* libcuda.so.1, once loaded */

/* the program's own function of a driver's name: exported, and first in the global scope */
__attribute__((visibility("default"))) int cuMemHostUnregister(void);
int cuMemHostUnregister(void)
{
    return 42;
}

static void *wrapper(const char *name)
{
    return dlsym(ours, name);
}

static int open_ours(void **state)
{
    ours = dlopen(getenv("LD_PRELOAD"), RTLD_LAZY | RTLD_NOLOAD);
    return ours == NULL;
}

TEST(without_driver_nobody_finds_hooked_names)
{
    dlerror();
    assert_null(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    assert_non_null(strstr(dlerror(), "undefined symbol: cuMemAlloc_v2"));
    assert_null(dlerror());
    assert_null(dlsym(RTLD_NEXT, "cuInit"));
    assert_non_null(strstr(dlerror(), "undefined symbol: cuInit"));
    void *program = dlopen(NULL, RTLD_LAZY);
    assert_null(dlsym(program, "cuGetProcAddress_v2"));
    assert_non_null(dlerror());
    dlclose(program);
}

TEST(names_that_are_not_ours_pass)
{
    assert_non_null(dlsym(RTLD_DEFAULT, "malloc"));
    assert_non_null(dlsym(RTLD_NEXT, "malloc"));
    assert_null(dlsym(RTLD_DEFAULT, "cuNoSuchThing"));
    assert_null(dlsym(RTLD_DEFAULT, ""));
    errno = 5;
    assert_null(dlsym(RTLD_DEFAULT, "cuMemFree_v2"));
    assert_int_equal(errno, 5);
}

TEST(programs_own_definition_wins)
{
    assert_ptr_equal(dlsym(RTLD_DEFAULT, "cuMemHostUnregister"), cuMemHostUnregister);
}

static void *open_plugin(void)
{
    void *plugin = dlopen("libhooks_plugin.so", RTLD_LAZY | RTLD_LOCAL);
    if (plugin == NULL)
        fail_msg("%s", dlerror());
    return plugin;
}

TEST(jump_keeps_the_callers_identity)
{
    void *plugin = open_plugin();
    lookup *next = (lookup *)dlsym(plugin, "plugin_next");
    lookup *plain = (lookup *)dlsym(plugin, "plugin_default");
    int (*marker)(void) = (int (*)(void))next("hooks_marker");
    assert_non_null(marker);
    assert_int_equal(marker(), 2); /* its dependency's; seen from the hooks there would be none */
    marker = (int (*)(void))plain("hooks_marker");
    assert_int_equal(marker(), 1);
    assert_null(dlsym(RTLD_DEFAULT, "hooks_marker"));
    dlclose(plugin);
}

TEST(private_driver_is_found_by_its_handle_alone)
{
    driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    assert_non_null(driver);
    assert_ptr_equal(dlsym(driver, "cuMemAlloc_v2"), wrapper("cuMemAlloc_v2"));
    assert_null(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    assert_null(dlsym(driver, "cuMemFree")); /* a row, but this driver has none */
    assert_non_null(dlerror());
    assert_non_null(dlsym(driver, "cuCtxGetCurrent")); /* the real one */
}

TEST(first_look_up_leaves_no_error_behind)
{
    dlerror();
    assert_non_null(dlsym(driver, "cuMemAlloc_v2"));
    assert_null(dlerror());
}

TEST(library_linked_with_the_driver_finds_it)
{
    void *plugin = open_plugin();
    lookup *next = (lookup *)dlsym(plugin, "plugin_next");
    lookup *plain = (lookup *)dlsym(plugin, "plugin_default");
    assert_ptr_equal(plain("cuMemAlloc_v2"), wrapper("cuMemAlloc_v2"));
    assert_ptr_equal(next("cuMemAlloc_v2"), wrapper("cuMemAlloc_v2"));
    assert_ptr_equal(dlsym(plugin, "cuInit"), wrapper("cuInit"));
    assert_null(plain("cuMemFree"));
    assert_null(next("cuMemFree"));
    dlclose(plugin);
}

TEST(wrapper_reaches_the_driver)
{
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    assert_int_equal(init(0), 0);
}

TEST(global_driver_is_found_by_everyone)
{
    assert_non_null(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL));
    assert_ptr_equal(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"), wrapper("cuMemAlloc_v2"));
    assert_ptr_equal(dlsym(RTLD_NEXT, "cuMemAlloc_v2"), wrapper("cuMemAlloc_v2"));
    void *program = dlopen(NULL, RTLD_LAZY);
    assert_ptr_equal(dlsym(program, "cuMemAlloc_v2"), wrapper("cuMemAlloc_v2"));
    assert_ptr_equal(dlsym(RTLD_DEFAULT, "cuMemHostUnregister"), cuMemHostUnregister);
    assert_null(dlsym(RTLD_DEFAULT, "cuMemFree"));
}

static void *look_up(void *wanted)
{
    size_t wrong = 0;
    for (int i = 0; i < 2000; i++) {
        wrong += dlsym(driver, "cuMemAlloc_v2") != wanted;
        wrong += dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != wanted;
        wrong += dlsym(RTLD_NEXT, "malloc") == NULL;
        wrong += dlsym(driver, "cuMemFree") != NULL;
    }
    return (void *)wrong;
}

TEST(look_ups_and_loads_run_side_by_side)
{
    pthread_t thread[3];
    void *wrong, *wanted = wrapper("cuMemAlloc_v2");
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, look_up, wanted), 0);
    for (int i = 0; i < 300; i++) {
        void *plugin = open_plugin();
        lookup *plain = (lookup *)dlsym(plugin, "plugin_default");
        assert_ptr_equal(plain("cuMemAlloc_v2"), wanted);
        dlclose(plugin);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], &wrong);
        assert_null(wrong);
    }
}

int main(void)
{
    return run_all_tests(open_ours, NULL);
}
