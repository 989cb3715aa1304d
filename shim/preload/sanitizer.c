/*
 * sanitizer.c - lets programs that are built with AddressSanitizer start with the library preloaded.
 *
 * Its runtime, where it is a library (gcc; clang with -shared-libasan), ends the program at the start unless
 * it is the first library of all, and a preloaded one comes before it.  It must be first in order to replace
 * malloc and other functions of the C library, none of which we define.  So we switch that check off as a
 * program does, by a function that the runtime calls.  If the program defines that function itself, ours is
 * not called; ASAN_OPTIONS=verify_asan_link_order=0 does the same there.
 */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}
