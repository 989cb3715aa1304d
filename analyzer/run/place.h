/*
 * place.h - the files of this installation, found relative to the running command, so that the tree can be
 * moved.
 */
#ifndef VS_RUN_PLACE_H
#define VS_RUN_PLACE_H

#include "base/base.h"

/* "<tree>/RELATIVE"; the tree is the directory above bin/, or the package of the wheel that the command came
 * with, and /usr where /proc is not there.  The caller frees it. */
char *place_of(const char *relative);
/* Whether PATH can be in LD_PRELOAD, a list separated by blanks and colons. */
bool place_listable(const char *path);
/* Likewise for a list in the environment: a path with a blank or a colon is replaced by a link without them,
 * if one can be made. */
char *place_listed(const char *relative);
/* lib/libvramscope.so, or NULL with WHY; by a name that can stand in LD_PRELOAD, as above */
char *place_library(char *why, size_t why_size);
/* The directory of what stands in for NVIDIA's libraries, "sim" (the driver) or "dry" (what is built on it):
 * lib/vramscope/NAME, in a build tree NAME; NULL = none.  For a list in the environment, as above. */
char *place_stand_ins(const char *name);
/* The directory with sitecustomize.py: share/vramscope/python, in a build tree shim/framework/python; NULL =
 * none */
char *place_python(void);

#endif
