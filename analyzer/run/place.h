/*
 * place.h - where this installation lies: everything is found relative to the running command itself, so that
 * the tree can be copied anywhere.
 */
#ifndef VS_RUN_PLACE_H
#define VS_RUN_PLACE_H

#include "base/base.h"

/* "<prefix>/RELATIVE", prefix being the directory above bin/; "" where /proc is not there. The caller frees
 * it. */
char *place_of(const char *relative);
/* The same for a list in the environment: where it has a blank or a colon, by a link without (alias.h), if
 * one can be made. */
char *place_listed(const char *relative);
/* lib/libvramscope.so, or NULL with WHY; by a name that can stand in LD_PRELOAD, as above */
char *place_library(char *why, size_t why_size);
/* The directory with sitecustomize.py: share/vramscope/python, in a build tree shim/framework/python; NULL =
 * none */
char *place_python(void);

#endif
