/* widths.h - whether a program computes in 16 bits already, as far as sizes of blocks tell (widths.c). */
#ifndef VS_EDIT_WIDTHS_H
#define VS_EDIT_WIDTHS_H

#include "program.h"

enum widths {
    WIDTHS_UNKNOWN,  /* nothing speaks against fp32 */
    WIDTHS_AUTOCAST, /* parameters are copied to half their size in forward */
    WIDTHS_HALF      /* what a norm or a loss copies to fp32 doubles */
};

enum widths widths_of(const struct program *p);

#endif
