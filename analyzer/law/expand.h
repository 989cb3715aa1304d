/*
 * expand.h - a file of many processes (`sweep`, `merge`) as the recordings that a law can be made of.
 *
 *      sweep.db    4 points of 2 ranks, one of which ran out of memory
 *      -->         sweep.db#1 sweep.db#3 sweep.db#5: of the rank that held most, at each batch and length
 */
#ifndef VS_LAW_EXPAND_H
#define VS_LAW_EXPAND_H

#include "base/base.h"

/* The words, of which those that name a file of several processes became one for each batch and length that
 * its labels say; for trace_free_files.  What is left out is said on stderr.  NULL, said: nothing of
 * them can be taken, or one has recordings of different programs by its other labels. */
char **law_expand(char **words, size_t n, size_t *count);

#endif
