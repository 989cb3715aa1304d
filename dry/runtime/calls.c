/* calls.c - the rows of calls.def as functions. */
#include "runtime.h"

#include "calls.def"
