/* debuginfod.c - see debuginfod.h. */
#include "debuginfod.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "elf_names.h"

struct client; /* the library's own */
typedef int progress_fn(struct client *client, long done, long all);

static struct {
    bool looked;
    void *library;
    struct client *(*begin)(void);
    void (*end)(struct client *client);
    int (*find)(struct client *client, const unsigned char *build_id, int length, char **path);
    void (*set_progress)(struct client *client, progress_fn *progress);
} lib;

static int64_t give_up_ns;

/* Called during the transfer; a nonzero result ends it. */
static int progress(struct client *client, long done, long all)
{
    (void)client, (void)done, (void)all;
    return elf_monotonic_ns() >= give_up_ns;
}

static bool is_asked_for(void)
{
    const char *servers = getenv("DEBUGINFOD_URLS");
    return servers && servers[strspn(servers, " ")];
}

static bool open_library(void)
{
    if (lib.looked)
        return lib.library != NULL;
    lib.looked = true;
    void *library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    *(void **)&lib.begin = dlsym(library, "debuginfod_begin");
    *(void **)&lib.end = dlsym(library, "debuginfod_end");
    *(void **)&lib.find = dlsym(library, "debuginfod_find_debuginfo");
    *(void **)&lib.set_progress = dlsym(library, "debuginfod_set_progressfn");
    if (lib.begin && lib.end && lib.find && lib.set_progress)
        lib.library = library;
    return lib.library != NULL;
}

int debuginfod_file(const char *build_id, int64_t deadline)
{
    if (!build_id || !is_asked_for() || elf_monotonic_ns() >= deadline || !open_library())
        return -1;
    struct client *client = lib.begin();
    char *path = NULL;
    int file = -1;
    if (!client)
        return -1;
    give_up_ns = deadline;
    lib.set_progress(client, progress);
    file = lib.find(client, (const unsigned char *)build_id, 0, &path); /* length 0 means hexadecimal */
    lib.end(client);
    free(path);
    return file < 0 ? -1 : file;
}
