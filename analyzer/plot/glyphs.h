/* glyphs.h - names in a picture: what no font of this machine can draw is written out. */
#ifndef VS_PLOT_GLYPHS_H
#define VS_PLOT_GLYPHS_H

#include "base/base.h"

/*
 * TEXT as a picture drawn here can show it: each character without a glyph in any font of this machine stands
 * as its escape, "\u4e2d".  ANY: somebody else draws it, and TEXT stays as it is.  The result lives until the
 * program ends.
 */
const char *glyphs_shown(const char *text, bool any);

#endif
