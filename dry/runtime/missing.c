/*
 * missing.c - every function of the header that is not simulated (missing.def is made of the header by
 * CMakeLists.txt).
 *
 * All are weak, so the list need not leave out those that are.
 */
#include "facts.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

#define MISSING(name)                                                                                        \
    DRY_API __attribute__((weak)) void name(void);                                                           \
    void name(void)                                                                                          \
    {                                                                                                        \
        dry_missing("libcudart.so." TEXT(DRY_CUDART), #name);                                                \
    }
#include "missing.def"
#include "outside.def"
