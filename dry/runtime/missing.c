/*
 * missing.c - a weak definition, which ends the run, of every function of the header (missing.def, made of it
 * by CMakeLists.txt).  Those that are simulated override theirs.
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
