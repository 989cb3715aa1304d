/*
 * names.h - makes the exported names of a stand-in from the rows of its .def file.
 *
 *      NAME(name, like)      an exported name, and the static function that is called by it
 *      MISSING(name)         is not simulated: ends the run and says so
 *
 * Most functions do the same here: nothing, or one figure at a known argument.  All arguments but
 * floating-point numbers by value come in the same registers and places on the stack, so one function with
 * ARGUMENTS (a1, a2 and so on) stands for all that have at least those that it reads.  Of an int the upper
 * half is undefined: INT(3) is a3 as one.
 */
#ifndef DRY_LIBRARIES_NAMES_H
#define DRY_LIBRARIES_NAMES_H

#include "facts.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A function that only names of a .def file refer to. */
#define STANDS_IN __attribute__((used)) static

#define NAME(name, like) __asm__(".globl " #name "\n.type " #name ", @function\n.set " #name ", " #like);
#define MISSING(name)                                                                                        \
    DRY_API void name(void);                                                                                 \
    DRY_API void name(void)                                                                                  \
    {                                                                                                        \
        dry_missing(LIBRARY, #name);                                                                         \
    }

#define ARGUMENTS                                                                                            \
    intptr_t a1, intptr_t a2, intptr_t a3, intptr_t a4, intptr_t a5, intptr_t a6, intptr_t a7, intptr_t a8,  \
        intptr_t a9, intptr_t a10, intptr_t a11, intptr_t a12, intptr_t a13, intptr_t a14, intptr_t a15,     \
        intptr_t a16, intptr_t a17, intptr_t a18, intptr_t a19, intptr_t a20, intptr_t a21, intptr_t a22,    \
        intptr_t a23, intptr_t a24, intptr_t a25, intptr_t a26
#define INT(n) ((int64_t)(int32_t)a##n)

/* Status 0 is success in all of these libraries, and NULL and 0 are what a getter says that has nothing. */
STANDS_IN int succeeds(void)
{
    return 0;
}

/* A fact of KIND, "guess" or "beside", the first time and again where it is larger.  *MOST begins as 0. */
__attribute__((unused)) static void guess(const char *kind, size_t *most, const char *what, size_t bytes)
{
    size_t said = bytes + 1, before = __atomic_load_n(most, __ATOMIC_RELAXED);
    while (said > before &&
           !__atomic_compare_exchange_n(most, &before, said, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    if (said > before)
        dry_fact("%s\t%s\t%s\t%zu", kind, LIBRARY, what, bytes);
}

#endif
