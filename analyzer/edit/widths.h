/* widths.h - whether a program computes in 16 bits already, as far as types or sizes of blocks tell
 * (widths.c). */
#ifndef VS_EDIT_WIDTHS_H
#define VS_EDIT_WIDTHS_H

#include "program.h"

enum widths {
    WIDTHS_UNKNOWN,  /* nothing speaks against fp32; where types are recorded: it is no other */
    WIDTHS_AUTOCAST, /* parameters are copied to half their size in forward */
    WIDTHS_HALF      /* parameters are in 16 bits; by sizes: what a norm or a loss copies to fp32 doubles */
};

enum widths widths_of(const struct program *p);

#endif
