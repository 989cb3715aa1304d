/*
 * injection.c - the driver's injection: with CUDA_INJECTION64_PATH the driver itself loads us, at cuInit.
 *
 * A launcher may remove or replace LD_PRELOAD for its workers and leave the rest of the environment alone.
 * Then it is too late to install hooks: the CUDA runtime has its pointers.  So we only report it, in one line
 * on stderr and in a database that has the process, no events, and the gap in table `loss`; loaded in this
 * way the library does nothing else.  Where we are preloaded the driver finds the same library again, and
 * there is nothing to report.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hooks/loader/loader.h"
#include "hooks/symbols/symbols.h"
#include "core/log.h"
#include "record/recording.h"
#include "core/own_work.h"

__attribute__((visibility("default"))) int InitializeInjection(void);

#define GAP                                                                                                  \
    "not covered: this process used the GPU without the library preloaded (LD_PRELOAD was removed or "       \
    "replaced), nothing of it is recorded; see WORKERS in vramscope-run(1)"

/* VRAMSCOPE_INJECTION_CHAIN has the injection library that the user had set before `vramscope run`: it is
 * loaded and called as the driver would have done. */
static void call_chain(void)
{
    const char *path = secure_getenv("VRAMSCOPE_INJECTION_CHAIN");
    void *library = path && *path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    int (*f)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;
    if (f && f != InitializeInjection)
        f();
    else if (!f && path && *path)
        vs_log("injection library %s (VRAMSCOPE_INJECTION_CHAIN): %s; going on without it", path,
               library ? "has no InitializeInjection" : "cannot be loaded");
}

/* Another copy of the library may be the one that is preloaded. */
static bool another_copy_hooks(void)
{
    void *found = dlsym(RTLD_DEFAULT, "vramscope_range_push");
    return found != NULL && !vs_loaded_is_us(found);
}

/* The whole recording of a process that cannot be recorded. */
static void write_gap(void)
{
    struct vs_signal_mask mask;
    vs_signal_mask_block(&mask);
    vs_record_enter_internal();
    struct vs_journal *j = vs_start(vs_recording);
    if (j) {
        vs_journal_set_fact(j, "uncovered0", GAP);
        vs_drain_here(vs_recording, j);
        vs_log("pid %ld uses the GPU and is NOT RECORDED: LD_PRELOAD was removed or replaced; start it by "
               "`vramscope wrap -- COMMAND`; noted in %s",
               (long)getpid(), vs_recording->database);
    }
    vs_record_leave_internal();
    vs_signal_mask_restore(&mask);
}

int InitializeInjection(void)
{
    static atomic_flag called = ATOMIC_FLAG_INIT;
    int saved = errno;
    /* relaxed: it only decides which of two threads is first */
    if (!atomic_flag_test_and_set_explicit(&called, memory_order_relaxed)) {
        if (vs_hooks_late() && !another_copy_hooks() && vs_recording_prepare())
            write_gap();
        call_chain();
    }
    errno = saved;
    return 1;
}
