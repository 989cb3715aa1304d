/*
 * environment.c - sets the variables that bring the library into a process (start.h). Old values are kept:
 * ours are prepended to lists, another tool of the driver moves to a variable of ours, from which the library
 * loads it, and another NVTX tool stays.
 */
#include "start.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "place.h"

static bool is_listed(const char *list, const char *value)
{
    size_t n = strlen(value);
    for (const char *p = list; *p; p += strcspn(p, " :") + (p[strcspn(p, " :")] != 0))
        if (!strncmp(p, value, n) && strchr(" :", p[n]))
            return true;
    return false;
}

void environment_prepend(const char *name, const char *value)
{
    const char *old = getenv(name);
    if (old && is_listed(old, value))
        return;
    char *joined = old && *old ? xformat("%s:%s", value, old) : xstrdup(value);
    setenv(name, joined, 1);
    free(joined);
}

static void take_nvtx(const char *command, const char *library)
{
    const char *old = getenv("NVTX_INJECTION64_PATH");
    if (old && *old && !strstr(old, "libvramscope.so"))
        complain("%s: NVTX_INJECTION64_PATH names %s: it gets NVTX's ranges, and the recording has none",
                 command, old);
    else
        setenv("NVTX_INJECTION64_PATH", library, 1);
}

static void take_injection(const char *library)
{
    const char *old = getenv("CUDA_INJECTION64_PATH");
    if (old && *old && strcmp(old, library))
        setenv("VRAMSCOPE_INJECTION_CHAIN", old, 1);
    setenv("CUDA_INJECTION64_PATH", library, 1);
}

bool environment_wants_python(bool no_auto_phases)
{
    const char *allocator = getenv("VRAMSCOPE_ALLOCATOR");
    if (no_auto_phases)
        setenv("VRAMSCOPE_AUTO_PHASES", "off", 1);
    return !no_auto_phases || (allocator && !strcmp(allocator, "arena"));
}

int environment_preload(const char *command, const struct environment *e)
{
    char *python = e->python ? place_python() : NULL;
    if (strpbrk(e->library, " :") || (e->behind && strchr(e->behind, ' ')))
        return complain(
            "%s: LD_PRELOAD can't name %s, there is a blank or a colon in it, and no link without "
            "can be made in ~/.cache or /tmp: install vramscope elsewhere",
            command, e->library);
    char *all = e->behind ? xformat("%s:%s", e->library, e->behind) : xstrdup(e->library);
    environment_prepend("LD_PRELOAD", all);
    setenv("VRAMSCOPE_PRELOAD", all, 1);
    free(all);
    if (e->nvtx)
        take_nvtx(command, e->library);
    if (e->injection)
        take_injection(e->library);
    if (python)
        environment_prepend("PYTHONPATH", python);
    free(python);
    return 0;
}
