/*
 * hosts.c - lets unusual programs run with the library in their LD_PRELOAD: those of another C library than
 * glibc (core/other_libc.c), and those that are built with sanitizers.
 */
#define _GNU_SOURCE
#include "hosts.h"

#include <link.h>

#include "hooks/loader/loader.h"

extern const char *gnu_get_libc_version(void) __attribute__((weak));

bool vs_libc_is_other(void)
{
    return gnu_get_libc_version == NULL;
}

/* ---- sanitizers ----
 *
 * AddressSanitizer's runtime, where it is a library (gcc; clang with -shared-libasan), ends the program at
 * the start unless it is the first library of all, and a preloaded one comes before it.  It must be first in
 * order to replace malloc and other functions of the C library, none of which we define.  So we switch that
 * check off as a program does, by a function that the runtime calls.  If the program defines that function
 * itself, ours is not called; ASAN_OPTIONS=verify_asan_link_order=0 does the same there.
 *
 * clang's ThreadSanitizer lies in the program, replaces the C library's functions, and crashes where one is
 * called before it has begun.  It begins in the program's .preinit_array, which the loader runs right behind
 * our constructor.  Begun by us it does nothing there. */

#pragma weak _r_debug /* glibc's loader alone has it */

__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}

void vs_sanitizer_begin(void)
{
    struct vs_image program;
    const struct link_map *first = &_r_debug != NULL ? _r_debug.r_map : NULL;
    uintptr_t begin = first != NULL && vs_image_of(&program, first->l_addr, first->l_ld)
                          ? vs_image_defines(&program, "__tsan_init")
                          : 0;
    if (begin != 0)
        ((void (*)(void))begin)();
}
