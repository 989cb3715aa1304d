/*
 * returned.h - how a C function stands in for a C++ function that returns an object through a hidden pointer.
 *
 * On x86-64 the pointer is the first argument, and the function returns it.  Elsewhere it has a register of
 * its own, which is the compiler's business where the object is larger than two words.
 *
 *      VS_RETURNED f(VS_RETURNED_TO int a) { return other(VS_RETURNED_PASS a); }
 *      bool good = VS_RETURNED_CALL(function, words);      without arguments; it may write three words
 *
 * False: what came back is not where the object was to be, so the function returns something else.
 */
#ifndef VS_CORE_ARCH_RETURNED_H
#define VS_CORE_ARCH_RETURNED_H

#include <stdint.h>

#ifdef __x86_64__
typedef void *VS_RETURNED;
#define VS_RETURNED_TO   void *returned_to,
#define VS_RETURNED_PASS returned_to,
#define VS_RETURNED_SHOWS                                                                                    \
    1 /* the hidden pointer is an argument like others, so one of ours shows what is written there */
#define VS_RETURNED_CALL(function, to) (((void *(*)(void *))(function))(to) == (void *)(to))
#else
typedef struct {
    uintptr_t words[3];
} VS_RETURNED;
#define VS_RETURNED_TO
#define VS_RETURNED_PASS
#define VS_RETURNED_SHOWS              0
#define VS_RETURNED_CALL(function, to) (*(VS_RETURNED *)(to) = ((VS_RETURNED(*)(void))(function))(), 1)
#endif

#endif
