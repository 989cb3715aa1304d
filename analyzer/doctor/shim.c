/*
 * shim.c - checks that the library exists, can be preloaded and finds its unwinder, and that libc and kernel
 * have the features it needs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/tool.h"
#include "doctor.h"
#include "run/place.h"

/* Libraries that every process has anyway. */
static bool needs_only_libc(const char *needed)
{
    static const char *const allowed[] = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0",
                                          "ld-linux-x86-64.so.2"};
    char copy[1024], *save = NULL;
    snprintf(copy, sizeof copy, "%s", needed);
    for (char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
        bool ok = false;
        for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
            ok |= strcmp(name, allowed[i]) == 0;
        if (!ok)
            return false;
    }
    return true;
}

/* Proves that preloading works: with the library preloaded, this command itself prints the library's table
 * of options.  The library is named as `run` names it: by a link where the path has blanks. */
static void check_preload(struct doctor *d)
{
    static char out[65536];
    char *listed = place_listed("lib/libvramscope.so"), *preload = xformat("LD_PRELOAD=%s", listed);
    if (!place_listable(listed)) {
        doctor_say(
            d, DOCTOR_FAIL, "preload", "install vramscope elsewhere, or make ~/.cache writable to you alone",
            "LD_PRELOAD can't name %s, there is a blank or a colon in it, and no link without can be made",
            listed);
        free(preload);
        free(listed);
        return;
    }
    const char *const argv[] = {"/proc/self/exe", "--version",
                                NULL}; /* this command exists, and is dynamically linked */
    const char *const environment[] = {preload, "VRAMSCOPE_HELP=1", NULL};
    int status = tool_output(argv, environment, 20, true, out, sizeof out);
    bool loaded = strstr(out, "VRAMSCOPE_OUTPUT") != NULL;
    out[strcspn(out, "\n")] = 0;
    if (status == 0 && strstr(out, "cannot be preloaded"))
        doctor_say(d, DOCTOR_FAIL, "preload", "install vramscope anew for this machine", "%s", out);
    else if (status == 0 && loaded)
        doctor_say(d, DOCTOR_OK, "preload", NULL, "a program starts and ends under LD_PRELOAD");
    else if (status == 0)
        doctor_say(d, DOCTOR_FAIL, "preload", "LD_PRELOAD is ignored here: is the loader glibc's?",
                   "the library was not loaded into a program");
    else
        doctor_say(d, DOCTOR_FAIL, "preload",
                   "run LD_PRELOAD=FILE vramscope --version and report what it says",
                   "a program under LD_PRELOAD ended with status %d: %s", status, out);
    free(preload);
    free(listed);
}

static void check_library(struct doctor *d, const char *shim)
{
    char needed[1024];
    if (access(shim, R_OK) != 0) {
        doctor_say(d, DOCTOR_FAIL, "shim", "install vramscope with its lib/ beside its bin/", "%s: %s", shim,
                   strerror(errno));
        return;
    }
    if (!elf_needed(shim, needed, sizeof needed))
        doctor_say(d, DOCTOR_FAIL, "shim", "install vramscope anew", "%s is no shared library", shim);
    else
        doctor_say(d, needs_only_libc(needed) ? DOCTOR_OK : DOCTOR_WARN, "shim",
                   needs_only_libc(needed) ? NULL
                                           : "build it without sanitizers: it drags libraries into the host",
                   "%s needs %s", shim, needed);
    check_preload(d);
}

static void load_unwinder(struct doctor *d)
{
    char *path = place_of("lib/vramscope/libvramscope-unwind.so");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    bool found = handle && dlsym(handle, "unw_backtrace");
    d->facts |= found ? DOCTOR_UNWINDER : 0;
    if (found)
        doctor_say(d, DOCTOR_OK, "call stacks", NULL, "private libunwind at %s", path);
    else
        doctor_say(d, DOCTOR_WARN, "call stacks",
                   "install lib/vramscope/ beside the library; without it there are no native call stacks",
                   "%s", handle ? path : dlerror());
    free(path);
}

static void check_unwinder(struct doctor *d)
{
    char why[256];
    if (!doctor_child(d, load_unwinder, 10, why, sizeof why))
        doctor_say(d, DOCTOR_WARN, "call stacks",
                   "install vramscope anew; without it there are no native call stacks",
                   "loading the private libunwind: %s", why);
}

static void check_libc(struct doctor *d)
{
    const char *version = gnu_get_libc_version();
    bool found = dlsym(RTLD_DEFAULT, "_dl_find_object");
    d->facts |= found ? DOCTOR_FIND_OBJECT : 0;
    if (found)
        doctor_say(d, DOCTOR_OK, "glibc", NULL, "%s, with _dl_find_object: stacks need no lock", version);
    else
        doctor_say(d, DOCTOR_WARN, "glibc", "glibc 2.35 or newer gives native call stacks",
                   "%s, without _dl_find_object: no native call stacks", version);
}

static void check_kernel(struct doctor *d)
{
    struct utsname u;
    int major = 0, minor = 0;
    uname(&u);
    sscanf(u.release, "%d.%d", &major, &minor);
    if (strcmp(u.machine, "x86_64") != 0) /* no other processor was tested */
        doctor_say(d, DOCTOR_FAIL, "processor", "x86-64 is what this version supports", "%s", u.machine);
    if (major > 4 || (major == 4 && minor >= 14))
        doctor_say(d, DOCTOR_OK, "kernel", NULL, "%s %s", u.sysname, u.release);
    else
        doctor_say(d, DOCTOR_WARN, "kernel", "use 4.14 or newer, or do not fork while recording",
                   "%s %s has no MADV_WIPEONFORK: a raw clone could write into its parent's recording",
                   u.sysname, u.release);
}

void doctor_shim(struct doctor *d)
{
    char *shim = place_of("lib/libvramscope.so");
    check_library(d, shim);
    check_unwinder(d);
    check_libc(d);
    check_kernel(d);
    free(shim);
}
