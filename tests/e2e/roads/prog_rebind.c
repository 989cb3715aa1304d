/* Threads that load and unload libraries bound past the hooks (ARGV[1..] paths, one a thread) while others
 * look functions up: each library's reference to the driver, read after a look-up in it, is the wrapper that
 * dlsym gives. */
#define _GNU_SOURCE
#define PROG_NO_BEGIN
#include "prog.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { ROUNDS = 300 };
static void *wanted;
static atomic_int wrong, running;

static void *load(void *path)
{
    for (int i = 0; i < ROUNDS; i++) {
        void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
        CHECK(plugin);
        void *(*bound)(void) = (void *(*)(void))dlsym(plugin, "plugin_bound");
        CHECK(bound);
        wrong += bound() != wanted;
        CHECK(dlclose(plugin) == 0);
    }
    running--;
    return NULL;
}

static void *look_up(void *driver)
{
    while (running > 0)
        wrong += dlsym(driver, "cuMemAlloc_v2") != wanted;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[16];
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(driver && argc > 1 && argc < 12);
    wanted = dlsym(driver, "cuMemAlloc_v2");
    running = argc - 1;
    int n = 0;
    for (; n < argc - 1; n++)
        CHECK(pthread_create(&thread[n], NULL, load, argv[n + 1]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&thread[n++], NULL, look_up, driver) == 0);
    while (n > 0)
        pthread_join(thread[--n], NULL);
    printf("wrong: %d\n", (int)wrong);
    return wrong != 0;
}
