/*
 * sanitizer.c - lets programs that are built with AddressSanitizer start with the library preloaded.
 *
 * Its runtime, where it is a library (gcc; clang with -shared-libasan), ends the program at the start unless
 * it is the first library of all, and a preloaded one comes before it.  What it wants to be first for, malloc
 * and the functions of the C library that it replaces, we do not define.  So its own switch for that check is
 * set, the way a program sets it: by a function that the runtime calls.  A program that defines that function
 * comes before us, and ours is not called; ASAN_OPTIONS=verify_asan_link_order=0 does the same there.
 */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}
